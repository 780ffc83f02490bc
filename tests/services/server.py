"""One server as a direct child, and what can be done to it.

Invariant: its data and its port stay the same over all its deaths; when the process that started it ends, however that
ends, so does the server (the kernel sees to it where util-linux's `setpriv` is there: any usual Linux).
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import random
import shutil
import socket
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

import psutil

from tests.support.alarm import more_time
from tests.support.process_groups import kill_group
from tests.support.waiting import eventually

START_SECONDS: Final = 180.0
"""Kafka takes 2 to 5 s, Cassandra 10 to 20 s, the others a moment; a machine may be busy."""
INSTALL_SECONDS: Final = 330.0
"""Longer than all attempts to install something."""
STOP_SECONDS: Final = 20.0
KILLED_SECONDS: Final = 60.0
"""The kernel frees the memory of a large process, and ends a write to a busy disk first."""
PORTS: Final = range(20_000, 32_000)
"""Below the ports that the kernel gives to clients: else a client that tries again and again while the server is down
may be given the server's own port, and meet itself there."""
LOG_SHOWN: Final = 3_000


_reserved: list[IO[bytes]] = []
"""A lock on a file for each port that was given out: as long as this process lives, nobody else gets it here."""


def free_port() -> int:
    """One that nobody listens on just now, and that no other process of these tests is given as long as this one lives:
    between the look and the start of a server, or while it is down, it would seem free to them."""
    folder = Path(tempfile.gettempdir()) / f"tickwise-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    while True:
        port = random.SystemRandom().choice(PORTS)
        lock = (folder / str(port)).open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            lock.close()
            continue
        _reserved.append(lock)
        return port


class Server(ABC):
    """`async with` starts it and removes it; in between it may be killed and started as often as one likes."""

    name: str

    def __init__(self, folder: Path | None = None, *, port: int | None = None) -> None:
        """`folder`: where its data lies, for a disk of its own; else a temporary one."""
        self.folder = folder or Path(tempfile.mkdtemp(prefix=f"tickwise-{self.name}-"))
        self.port = port or free_port()
        self.log = self.folder / f"{self.name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._frozen: list[psutil.Process] = []

    @property
    def address(self) -> str:
        """host:port."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Of its process, which may have ended."""
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.poll() is None

    # ------------------------------------------------------------------ what each server says of itself

    @property
    @abstractmethod
    def url(self) -> str:
        """As its clients are told."""

    @abstractmethod
    async def prepare(self) -> Sequence[str]:
        """Install what it needs, write what it reads; the command that starts it."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether it serves: one question to it, by a socket. May raise OSError. Called in a thread."""

    def environment(self) -> Mapping[str, str]:
        """What it is told besides."""
        return {}

    # ------------------------------------------------------------------ its life

    async def start(self) -> Self:
        """The first time or again. Raises `Missing`, or AssertionError with the end of its log."""
        assert not self.runs, f"{self.name} runs"
        with more_time(INSTALL_SECONDS):
            command = await self.prepare()
        keep = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
        with self.log.open("ab") as log:
            # From this thread, which lives as long as the process: the kernel counts the death of the thread.
            self._process = subprocess.Popen(
                [*keep, *command], cwd=self.folder, env={**os.environ, **self.environment()},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        await eventually(self._ready, within_seconds=START_SECONDS, what=f"{self.name} answers; see {self.log}")
        return self

    async def _ready(self) -> bool:
        if not self.runs:
            raise AssertionError(f"{self.name} ended at its start:\n{self.said()}")
        try:
            return await asyncio.to_thread(self.answers)
        except OSError:
            return False

    def said(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-LOG_SHOWN:] if self.log.exists() else ""

    def kill(self) -> None:
        """`kill -9`: it writes nothing any more."""
        self.thaw()
        if self._process is not None:
            kill_group(self._process)
            self._process.wait(KILLED_SECONDS)

    async def stop(self) -> None:
        """In order, and by force if it takes too long."""
        self.thaw()
        if self._process is not None and self.runs:
            self._process.terminate()
            with contextlib.suppress(AssertionError):
                await eventually(lambda: not self.runs, within_seconds=STOP_SECONDS, what=f"{self.name} ends")
        self.kill()

    def freeze(self) -> None:
        """It neither answers nor hangs up."""
        parent = psutil.Process(self.pid)
        self._frozen = [parent, *parent.children(recursive=True)]
        for process in self._frozen:
            process.suspend()

    def thaw(self) -> None:
        """It goes on where it was."""
        frozen, self._frozen = self._frozen, []
        for process in frozen:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()

    async def remove(self) -> None:
        """End it, and leave nothing behind."""
        self.kill()
        await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)

    async def __aenter__(self) -> Self:
        try:
            return await self.start()
        except BaseException:
            await self.remove()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.remove()
