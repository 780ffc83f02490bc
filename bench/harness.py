"""What every case needs: a server of its own, the product's processes, the check of an outcome, and a result file."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.embedded import EmbeddedPostgres
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.ports.store import Retention

HERE = Path(__file__).parent
KEY = "tw_bench_" + "k" * 40
SQL = {file.stem: file.read_text() for file in (HERE / "sql").glob("*.sql")}


class Failed(Exception):
    """A case whose outcome is not what it must be has no figure."""


@dataclass
class Round:
    """One measurement: the case's value, and whatever else is worth keeping."""

    value: float
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """What is measured. `best` says which of two values is better; `target` is TARGETS' figure for now."""

    name: str
    unit: str
    target: float
    higher: bool
    product: Callable[[Rig], Awaitable[Round]]
    limit: Callable[[Rig], Awaitable[Round]]
    limit_is: str


class Rig:
    """A server, a folder, and the product's processes. Everything that is started is ended by its own handle."""

    def __init__(self, dsn: str, folder: Path, *, full: bool) -> None:
        self.dsn = dsn
        self.folder = folder
        self.full = full
        self.clock = SystemClock()

    def environment(self) -> dict[str, str]:
        """Shipped defaults, but for where things are."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TICKWISE_")}
        return kept | {
            "TICKWISE_DATABASE_URL": self.dsn,
            "TICKWISE_BLOBS_URL": f"file://{self.folder}/blobs",
            "TICKWISE_BOOTSTRAP_KEY": KEY,
            "TICKWISE_FUNCTION_MODULES": "bench.functions",
            "TICKWISE_LOG_LEVEL": "warning",
            "PYTHONPATH": str(HERE.parent),
        }

    def role(self, *arguments: str) -> contextlib.AbstractAsyncContextManager[subprocess.Popen[bytes]]:
        """One process of the product."""
        return self.program("-m", "tickwise", *arguments)

    @contextlib.asynccontextmanager
    async def program(self, *arguments: str) -> AsyncIterator[subprocess.Popen[bytes]]:
        """One Python process; its output goes to a file of the rig's folder."""
        log = (self.folder / f"{arguments[2]}.log").open("ab")
        process = subprocess.Popen(  # noqa: ASYNC220  # quick, and nothing else is under way in the rig
            [sys.executable, *arguments], env=self.environment(), stdout=log, stderr=log
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

    async def connect(self) -> asyncpg.Connection[Any]:
        """A plain connection."""
        return await asyncpg.connect(self.dsn)

    async def reset(self) -> None:
        """Empty the store."""
        connection = await self.connect()
        await connection.execute(SQL["reset"])
        await connection.close()

    async def until_executors(self, count: int, seconds: float = 30.0) -> None:
        """Wait until this many executors live."""
        connection = await self.connect()
        try:
            async with asyncio.timeout(seconds):
                while await connection.fetchval(SQL["executors"]) < count:
                    await self.clock.sleep(0.05)
        finally:
            await connection.close()

    async def until_ended(self, count: int, seconds: float) -> float:
        """Wait until `count` runs have ended durably; the server's time when that was seen first."""
        connection = await self.connect()
        try:
            async with asyncio.timeout(seconds):
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


@contextlib.asynccontextmanager
async def rig(*, full: bool) -> AsyncIterator[Rig]:
    """A fresh server, or the one that TICKWISE_BENCH_DATABASE_URL names (it is emptied)."""
    given = os.environ.get("TICKWISE_BENCH_DATABASE_URL")
    with tempfile.TemporaryDirectory(prefix="tickwise-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        server = None if given else EmbeddedPostgres(folder / "server", clock=SystemClock())
        try:
            dsn = given or await server.start()  # type: ignore[union-attr]  # one of the two is there
            await upgrade(dsn)
            store = PostgresStore(dsn, clock=SystemClock())
            await store.open()
            # As a scheduler does at its start: today's partitions.
            await store.maintain(Retention(runs_seconds=30 * 86_400, failed_seconds=90 * 86_400))
            await store.close()
            yield Rig(dsn, folder, full=full)
        finally:
            if server is not None:
                await server.stop()


def commit() -> str:
    """The commit that was measured, with a plus if the tree differs from it."""
    head = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True, check=False
    )
    dirty = subprocess.run(
        ["git", "status", "--porcelain", "src", "bench/*.py"],
        cwd=HERE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return (head.stdout.strip() or "unknown") + ("+" if dirty.stdout.strip() else "")


def record(case: Case, product: Sequence[Round], limits: Sequence[Round]) -> dict[str, Any]:
    """Write `results/CASE.json` and return what it says."""
    values = [measured.value for measured in product]
    value, limit = statistics.median(values), statistics.median([measured.value for measured in limits])
    nearest = min(product, key=lambda measured: abs(measured.value - value))
    result = {
        "case": case.name,
        "value": round(value, 3),
        "unit": case.unit,
        "low": round(min(values), 3),
        "high": round(max(values), 3),
        "limit": round(limit, 3),
        "ratio": round(value / limit, 3) if limit else None,
        "target": case.target,
        "met": value >= case.target if case.higher else value <= case.target,
        "cores": len(os.sched_getaffinity(0)),
        "commit": commit(),
        "limit_is": case.limit_is,
        **nearest.more,
    }
    (HERE / "results" / f"{case.name}.json").write_text(json.dumps(result, indent=2) + "\n")
    return result
