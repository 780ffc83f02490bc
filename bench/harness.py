"""What every case needs: a server of its own, the product's processes, and the check of an outcome.

A case's product function is its frame: set up, warm up, measure a window, then `Rig.outcome` or a check of its own. A
run that was lost, ran twice, early or out of order, or was left over makes the measurement void: `Failed`, no figure.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.embedded import EmbeddedPostgres
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.ports.store import Retention

HERE = Path(__file__).parent
KEY = "tw_bench_8Qm2xV7rT4bN1cK9pZ6wY3hL5sD0fG_aJeUiOoRt"
SQL = {file.stem: file.read_text() for file in (HERE / "sql").rglob("*.sql")}


class Failed(Exception):
    """A case whose outcome is not what it must be has no figure."""


@dataclass
class Round:
    """One measurement: the case's value, and whatever else is worth keeping."""

    value: float
    more: dict[str, Any] = field(default_factory=dict)


class Check(NamedTuple):
    """A further demand of a case: the figure that `more` has under the name `of` is at most, or at least, its bound."""

    name: str
    of: str
    bound: float
    higher: bool = False


@dataclass(frozen=True)
class Case:
    """What is measured. `higher` says which of two values is better; `target` is what the value must reach.

    `limit` is measured in turn with it, in the same run: the least that such work can cost, which `limit_is` names.
    """

    name: str
    unit: str
    target: float
    higher: bool
    product: Callable[[Rig], Awaitable[Round]]
    limit: Callable[[Rig], Awaitable[Round]]
    limit_is: str
    checks: tuple[Check, ...] = ()
    rounds: int = 3
    """What it takes for a figure to be kept."""
    peers_compare: str | None = None
    """The figure in `more` that peers are compared with, if it is not the value."""
    times_peers: Mapping[str, float] = field(default_factory=dict)
    """How many times as good as a peer it must be, by the peer's name; `""`: as the best of all."""


class Rig:
    """A server, a folder, and the product's processes. Everything that is started is ended by its own handle."""

    def __init__(self, dsn: str, folder: Path, *, full: bool) -> None:
        self.dsn = dsn
        self.folder = folder
        self.full = full
        self.clock = SystemClock()

    def environment(self, **settings: object) -> dict[str, str]:
        """Shipped defaults, but for where things are, and for settings given by name (`function_workers=2`)."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TICKWISE_")}
        return kept | {
            "TICKWISE_DATABASE_URL": self.dsn,
            "TICKWISE_BLOBS_URL": f"file://{self.folder}/blobs",
            "TICKWISE_BOOTSTRAP_KEY": KEY,
            "TICKWISE_FUNCTION_MODULES": "bench.functions",
            "TICKWISE_LOG_LEVEL": "warning",
            "PYTHONPATH": str(HERE.parent),
            **{f"TICKWISE_{name.upper()}": str(value) for name, value in settings.items()},
        }

    def role(
        self, *arguments: str, **settings: object
    ) -> contextlib.AbstractAsyncContextManager[subprocess.Popen[bytes]]:
        """One process of the product, at its defaults but for these settings."""
        return self.program("-m", "tickwise", *arguments, **settings)

    @contextlib.asynccontextmanager
    async def program(self, *arguments: str, **settings: object) -> AsyncIterator[subprocess.Popen[bytes]]:
        """One Python process; its output goes to a file of the rig's folder."""
        log = (self.folder / f"{arguments[2]}.log").open("ab")
        process = subprocess.Popen(  # noqa: ASYNC220  # quick, and nothing else is under way in the rig
            [sys.executable, *arguments], env=self.environment(**settings), stdout=log, stderr=log
        )
        try:
            yield process
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()
            log.close()

    async def postgresql(self) -> dict[str, str]:
        """The server's version, and its settings on which a figure depends."""
        connection = await self.connect()
        rows = await connection.fetch(SQL["settings"])
        await connection.close()
        return {row["name"]: row["value"] for row in rows}

    async def connect(self) -> asyncpg.Connection[Any]:
        """A plain connection."""
        return await asyncpg.connect(self.dsn)

    async def reset(self) -> None:
        """Empty the store."""
        connection = await self.connect()
        await connection.execute(SQL["reset"])
        await connection.close()

    async def fresh(self) -> None:
        """The product's schema anew: empty, and never analysed."""
        connection = await self.connect()
        await connection.execute(SQL["fresh"])
        await connection.close()
        await install(self.dsn)

    async def until_executors(self, count: int, seconds: float = 30.0) -> None:
        """Wait until this many executors live."""
        connection = await self.connect()
        try:
            async with asyncio.timeout(seconds):
                while await connection.fetchval(SQL["executors"]) < count:
                    await self.clock.sleep(0.05)
        finally:
            await connection.close()

    async def until_ended(self, count: int, seconds: float, *, last: Sequence[UUID] = ()) -> float:
        """Wait until `count` runs have ended durably; the server's time of the moment at which that was so.

        `last` names runs that are expected to end last: while they have not, only they are looked up, so that waiting
        does not cost what is being measured. Counting 100k rows takes 8 ms.
        """
        connection = await self.connect()
        try:
            async with asyncio.timeout(seconds):
                while last and await connection.fetchval(SQL["ended_of"], last) < len(last):
                    await self.clock.sleep(0.01)
                while True:
                    row = await connection.fetchrow(SQL["progress"])
                    if row["ended"] >= count:
                        return float(row["at"])
                    await self.clock.sleep(0.02 if row["ended"] > 0.9 * count else 0.1)
        finally:
            await connection.close()

    async def outcome(self, expected: int) -> dict[str, Any]:
        """Judge: every run ended once, well, in order, none early, nothing left."""
        connection = await self.connect()
        try:
            row = dict(await connection.fetchrow(SQL["outcome"]))
            late = await connection.fetchval(SQL["lateness"])
        finally:
            await connection.close()
        wrong = {
            name: row[name] for name in ("not_success", "early", "disordered", "left_over", "timers_left") if row[name]
        }
        if row["ended"] != expected or row["runs"] != expected:
            wrong["expected"], wrong["ended"] = expected, row["ended"]
        if wrong:
            raise Failed(f"a void measurement: {wrong}")
        return row | {"p50_ms": late[0], "p99_ms": late[1], "max_ms": late[2]}


async def install(dsn: str) -> None:
    """The product's schema in an empty database, with today's partitions, as a scheduler makes them at its start."""
    await upgrade(dsn)
    store = PostgresStore(dsn, clock=SystemClock())
    await store.open()
    await store.upkeep.maintain(Retention(runs_seconds=30 * 86_400, failed_seconds=90 * 86_400))
    await store.close()


@contextlib.asynccontextmanager
async def rig(*, full: bool) -> AsyncIterator[Rig]:
    """A fresh server, or the one that TICKWISE_BENCH_DATABASE_URL names (its schema `tickwise` is emptied).

    Whoever asks this process to end (a timeout, a pipeline) leaves no server and no gigabytes behind.
    """
    ending = asyncio.current_task()
    if ending is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.cancel)
    given = os.environ.get("TICKWISE_BENCH_DATABASE_URL")
    with tempfile.TemporaryDirectory(prefix="tickwise-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        server = None if given else EmbeddedPostgres(folder / "server", clock=SystemClock())
        try:
            dsn = given or await server.start()  # type: ignore[union-attr]  # one of the two is there
            await install(dsn)
            yield Rig(dsn, folder, full=full)
        finally:
            if server is not None:
                await server.stop()
