"""What one run of one peer gets: a fresh server, a folder, processes that are ended by their handles, their cost.

A PostgreSQL peer gets a cluster of its own, made a moment before by what starts Tickwise's (same programs, same
settings: fsync and synchronous_commit on); with TICKWISE_BENCH_DATABASE_URL a fresh database of that server, whose
role must be allowed to make one. A Redis peer gets a Redis that writes its log every second: what is acknowledged may
be lost for as long, which the peer's `durability` says.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psutil

from bench.harness import Failed
from bench.ports import free_port, until_open
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.embedded import EmbeddedPostgres

SQL = {file.stem: file.read_text() for file in (Path(__file__).parent / "sql").glob("*.sql")}
DATABASE = "tickwise_peer"
ENDING_SECONDS = 30.0


def cpu_seconds(pid: int) -> float:
    """Of a process, of all that it started, and of those of them that have ended and were waited for."""
    total = 0.0
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += sum(process.cpu_times()[:4])
    return total


def peak_bytes(pid: int) -> int:
    """The most memory that a process and each of its children ever held, added up. Linux only; elsewhere 0."""
    total = 0
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            with contextlib.suppress(OSError):
                status = Path(f"/proc/{process.pid}/status").read_text()
                total += next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)
    return total * 1024


@dataclass(frozen=True)
class Server:
    """Where a peer keeps its jobs. `pid` is None for a server that is not ours to look at."""

    url: str
    pid: int | None

    def cpu_seconds(self) -> float | None:
        """Spent so far by all of its processes."""
        return None if self.pid is None else cpu_seconds(self.pid)


class PeerProcess:
    """A process of a peer's program, which speaks lines: see `bench.peers.program`."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.ready = asyncio.Event()
        self.handled = 0
        self.enqueued = 0
        self._process = process
        self._log = log
        self._cpu_at_ready = 0.0
        self._reader = asyncio.create_task(self._read())

    @property
    def cpu_seconds(self) -> float:
        """Since it was ready."""
        return cpu_seconds(self._process.pid) - self._cpu_at_ready

    @property
    def peak_bytes(self) -> int:
        """The most memory that it held so far."""
        return peak_bytes(self._process.pid)

    def check(self) -> None:
        """Raises Failed, with what it said last, if it has ended."""
        if self._process.returncode is not None:
            raise Failed(f"a peer's process ended with {self._process.returncode}: {self.last_words()}")

    def last_words(self) -> str:
        """The end of what it wrote to its standard error."""
        return self._log.read_text(errors="replace")[-600:].strip()

    def say(self, line: str) -> None:
        """One line to its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    async def until_ready(self, seconds: float = 60.0) -> None:
        """Raises Failed if it ends instead, TimeoutError if it takes too long."""
        async with asyncio.timeout(seconds):
            while not self.ready.is_set():
                self.check()
                await asyncio.sleep(0.01)

    async def until_end(self, seconds: float = 300.0) -> None:
        """Wait until it ended of itself; raises Failed unless it ended well."""
        async with asyncio.timeout(seconds):
            await self._process.wait()
        if self._process.returncode:
            self.check()

    async def close(self) -> None:
        """End its input, which asks it to end in order; raises Failed unless it does so in time and well."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await self.until_end(ENDING_SECONDS)
        except TimeoutError:
            raise Failed(f"a peer's process did not end when it was told to: {self.last_words()}") from None

    async def kill(self) -> None:
        """However it stands."""
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        self._reader.cancel()

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            word, _, number = line.decode(errors="replace").strip().partition(" ")
            if word == "ready":
                self._cpu_at_ready = cpu_seconds(self._process.pid)
                self.ready.set()
            elif word == "handled":
                self.handled = int(number)
            elif word == "enqueued":
                self.enqueued = int(number)


class PeerRig:
    """One run's surroundings. Servers are started when they are first asked for."""

    def __init__(self, folder: Path, stack: contextlib.AsyncExitStack, *, full: bool) -> None:
        self.folder = folder
        self.full = full
        self.clock = SystemClock()
        self._stack = stack
        self._postgres: Server | None = None
        self._redis: Server | None = None
        self._logs = 0

    async def postgres(self) -> Server:
        """A fresh, empty database."""
        if self._postgres is None:
            self._postgres = await self._stack.enter_async_context(_postgres(self.folder, self.clock))
        return self._postgres

    async def redis(self) -> Server:
        """A fresh Redis: `appendonly yes`, `appendfsync everysec`."""
        if self._redis is None:
            self._redis = await self._stack.enter_async_context(_redis(self.folder))
        return self._redis

    @contextlib.asynccontextmanager
    async def process(
        self, command: Sequence[str], *, environment: dict[str, str], cwd: Path
    ) -> AsyncIterator[PeerProcess]:
        """A process of a peer; killed at the end if it still runs."""
        self._logs += 1
        path = self.folder / f"peer-{self._logs}.log"
        with path.open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                cwd=cwd,
                env=os.environ | environment,
            )
        started = PeerProcess(process, path)
        try:
            yield started
        finally:
            await started.kill()


@contextlib.asynccontextmanager
async def peer_rig(*, full: bool) -> AsyncIterator[PeerRig]:
    """For one run: nothing is left of it."""
    with tempfile.TemporaryDirectory(prefix="tickwise-peer-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        async with contextlib.AsyncExitStack() as stack:
            yield PeerRig(folder, stack, full=full)


@contextlib.asynccontextmanager
async def _postgres(folder: Path, clock: SystemClock) -> AsyncIterator[Server]:
    given = os.environ.get("TICKWISE_BENCH_DATABASE_URL")
    if given:
        connection: asyncpg.Connection[Any] = await asyncpg.connect(given)
        try:
            await connection.execute(SQL["drop_database"])
            await connection.execute(SQL["create_database"])
            yield Server(urlunsplit(urlsplit(given)._replace(path=f"/{DATABASE}")), None)
            await connection.execute(SQL["drop_database"])
        finally:
            await connection.close()
        return
    server = EmbeddedPostgres(folder / "server", clock=clock)
    try:
        url = await server.start()
        yield Server(url, server.pid)
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def _redis(folder: Path) -> AsyncIterator[Server]:
    port = free_port()
    data = folder / "redis"
    data.mkdir()
    with (folder / "redis.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *("redis-server", "--bind", "127.0.0.1", "--port", str(port), "--dir", str(data)),
            *("--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "noeviction"),
            stdout=log,
            stderr=log,
        )
    try:
        await until_open(port)
        yield Server(f"redis://127.0.0.1:{port}/0", process.pid)
    finally:
        process.terminate()
        await process.wait()
