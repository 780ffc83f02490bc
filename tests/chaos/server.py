"""A PostgreSQL of a scene's own, with fsync on, and all that can go wrong with one.

It is the product's embedded one, started by the product's supervisor: the address stays the same over restarts.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import asyncpg
import psutil

from tests.support import disks
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.embedded import EmbeddedPostgres
from tickwise.adapters.store.postgres import upgrade

SQL = {file.stem: file.read_text() for file in (Path(__file__).parent / "sql").glob("*.sql")}
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "max_connections": "120"}


class Backing(ABC):
    """The store's servers of one scene. `stop` leaves nothing behind."""

    @property
    @abstractmethod
    def roles_url(self) -> str:
        """The address that roles are told."""

    @abstractmethod
    async def prepare(self) -> None:
        """The first start, with the product's schema."""

    @abstractmethod
    async def stop(self) -> None:
        """End it and remove its data."""

    @abstractmethod
    def thaw(self) -> None:
        """Let go on what was frozen."""


class Server(Backing):
    """Start it, harm it, start it again."""

    def __init__(self, *, folder: Path | None = None, settings: Mapping[str, str] | None = None) -> None:
        """`folder`: where its data lies, for a disk of one's own; else a temporary one."""
        # Directly below the system's folder for such things: pytest's own are closed to the server's user, and long.
        self.data_dir = folder or Path(tempfile.mkdtemp(prefix="tickwise-chaos-"))
        self._postgres = EmbeddedPostgres(
            self.data_dir,
            clock=SystemClock(),
            settings={**DURABLE, **(settings or {})},
            minimum_free_bytes=1_000_000,
        )
        self.url = ""
        self._frozen: list[psutil.Process] = []

    @property
    def roles_url(self) -> str:
        """The database, or the databases, that roles are told."""
        return self.url

    async def start(self) -> None:
        """Again, after it ended."""
        self.url = await self._postgres.start()

    async def prepare(self) -> None:
        """The first start: the product's schema, and the journal beside it."""
        await self.start()
        await upgrade(self.url)
        async with asyncio.timeout(30):
            connection = await self.connect()
        await connection.execute(SQL["journal"])
        await connection.close()

    async def stop(self) -> None:
        """End it and remove its data."""
        self.thaw()
        try:
            await self._postgres.stop()
        finally:
            pointer = self.data_dir / "postgres" / "LOCATION"
            if pointer.exists():
                shutil.rmtree(pointer.read_text().strip(), ignore_errors=True)
            shutil.rmtree(self.data_dir, ignore_errors=True)

    async def connect(self) -> asyncpg.Connection:
        """A session that is not the product's, and may write whatever is done to that."""
        settings = {"application_name": "chaos", "default_transaction_read_only": "off"}
        return await asyncpg.connect(self.url, timeout=20, server_settings=settings)

    @contextlib.asynccontextmanager
    async def session(self) -> Any:
        """The same for a block."""
        connection = await self.connect()
        try:
            yield connection
        finally:
            await connection.close(timeout=5)

    @property
    def runs(self) -> bool:
        """Whether its process is there."""
        return self._postgres.pid is not None

    # ------------------------------------------------------------------ what goes wrong

    async def kill(self) -> None:
        """As a power cut does, but for the disk: nothing is written any more."""
        await self._end(signal.SIGKILL)

    async def stop_immediately(self) -> None:
        """Its own emergency stop: no checkpoint, a recovery at the next start."""
        await self._end(signal.SIGQUIT)

    async def stop_fast(self) -> None:
        """The restart of an administrator: sessions are cut, all is written."""
        await self._end(signal.SIGINT)

    async def _end(self, number: signal.Signals) -> None:
        assert self._postgres.pid is not None
        os.kill(self._postgres.pid, number)
        await self._postgres.wait()

    async def kill_backend(self) -> None:
        """One session dies of SIGKILL: the server ends all others and recovers by itself."""
        while True:
            pids = await self._backends()
            with contextlib.suppress(ProcessLookupError):  # that session has ended meanwhile
                os.kill(pids[len(pids) // 2], signal.SIGKILL)
                return

    async def terminate_all(self) -> int:
        """Every session of the product is cut, as a failover of a pooler does. How many."""
        async with self.session() as connection:
            return int(await connection.fetchval(SQL["terminate"]))

    async def _backends(self) -> list[int]:
        async def look() -> list[int]:
            async with self.session() as connection:
                return [row[0] for row in await connection.fetch(SQL["backends"])]

        return await eventually(look, what="the product has sessions")

    def freeze(self) -> None:
        """It neither answers nor hangs up."""
        assert self._postgres.pid is not None
        parent = psutil.Process(self._postgres.pid)
        self._frozen = [parent, *parent.children(recursive=True)]
        for process in self._frozen:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()

    def thaw(self) -> None:
        """It goes on where it was."""
        frozen, self._frozen = self._frozen, []
        for process in frozen:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()


def fill(ballast: Path) -> None:
    """Leave nothing of the disk that this file is on."""
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\0" * 4096)


@contextlib.contextmanager
def small_disk(megabytes: int) -> Iterator[Path]:
    """A disk of that size in a folder of its own. Raises PermissionError where none may be mounted."""
    folder = Path(tempfile.mkdtemp(prefix="tickwise-disk-"))
    try:
        with disks.small_disk(folder, megabytes, mode="0711"):
            yield folder
    finally:
        folder.rmdir()
