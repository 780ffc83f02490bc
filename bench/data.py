"""`make bench-data`: databases as large as after years of use, built once and kept.

bench/.data/pages/      a million jobs with fifty million finished runs (W1)
bench/.data/5000000/    one server's folder for each size: as many jobs that lie ahead as runs that are finished, each
    BUILT.json          with its one-time job, over the last ten days; what it was built from, and when
    postgres/           (or where `LOCATION` says, if the server's user cannot come here)

A tenth of the finished runs lies in today's partition, into which a measurement writes: if it was built on an earlier
day, today's part is filled when the server starts. Invariant: what `filled` gives has the schema of the product's
migrations as they are now; a folder that was built from others is built anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import asyncpg

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.embedded import EmbeddedPostgres
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.adapters.store.postgres.schema import FOLDER as MIGRATIONS
from tickwise.ports.store import Retention

HERE: Final = Path(__file__).parent
FOLDER: Final = HERE / ".data"
SQL: Final = {
    file.stem: file.read_text() for file in (*(HERE / "sql").glob("fill_*.sql"), *(HERE / "sql").glob("pages_*.sql"))
}
SIZES: Final = {"C2": (5_000_000,), "Q1": (1_000_000,), "growth": (100_000, 1_000_000, 10_000_000)}
PAGES_JOBS: Final = 1_000_000
PAGES_RUNS: Final = 50_000_000
PAGES: Final = FOLDER / "pages"
BYTES_A_RUN: Final = 320
"""Of disk, for one finished run of a job that has many; what the building needs besides is in it."""
DAYS: Final = 10
FRESH: Final = timedelta(days=15)
"""Later the scheduler of a measurement would drop the oldest days."""
BYTES_A_JOB: Final = 1_600
"""Of disk, for one job ahead and one finished run with its job; the write-ahead log of the building included."""
SPEC: Final = '{"schedule_type":"FUTURE","task":{"kind":"function","name":"bench.noop"},"payload":{"a":1}}'
BUILDING: Final = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "autovacuum": "off",
    "maintenance_work_mem": "512MB",
    "max_wal_size": "4GB",
    # What is written into a table of the same transaction needs no log.
    "wal_level": "minimal",
    "max_wal_senders": "0",
}
"""A building that is interrupted is begun anew, so nothing of it need be durable before its end."""
PAGE: Final = 500_000
"""Jobs a statement."""
SECONDS: Final = 600.0


class NoRoom(Exception):
    """The disk is too small."""


def digest() -> str:
    """What the data were built from: the migrations, and our own statements."""
    files = [file.read_bytes() for file in sorted(MIGRATIONS.rglob("*.sql"))]
    return hashlib.sha256(b"\0".join([*files, *(SQL[name].encode() for name in sorted(SQL))])).hexdigest()[:16]


@contextlib.asynccontextmanager
async def filled(size: int) -> AsyncIterator[str]:
    """The address of a server at its shipped settings that holds this many jobs ahead and as many finished runs; built
    first if it is not there. Raises `NoRoom`."""
    folder = FOLDER / str(size)
    if not usable(folder):
        await _build(folder, size, size * BYTES_A_JOB, lambda dsn: _fill(dsn, size))
    server = EmbeddedPostgres(folder, clock=SystemClock())
    dsn = await server.start()
    try:
        await _fill_today(dsn, size)
        yield dsn
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def filled_for_pages() -> AsyncIterator[str]:
    """The address of a server at its shipped settings that holds `PAGES_JOBS` jobs with `PAGES_RUNS` finished runs, or
    as many as the environment says (`JOBS=100000 RUNS=5000000`); built first if it is not there. Raises `NoRoom`."""
    if not usable(PAGES):
        jobs, runs = (int(os.environ.get(name, most)) for name, most in (("JOBS", PAGES_JOBS), ("RUNS", PAGES_RUNS)))
        await _build(PAGES, runs, runs * BYTES_A_RUN, lambda dsn: _fill_for_pages(dsn, jobs, runs))
    server = EmbeddedPostgres(PAGES, clock=SystemClock())
    dsn = await server.start()
    try:
        await _make_partitions(dsn)
        yield dsn
    finally:
        await server.stop()


def at_least(size: int) -> int:
    """The smallest size that is built and no smaller than this; else this."""
    there = [int(folder.name) for folder in FOLDER.glob("*") if folder.name.isdigit() and usable(folder)]
    return min((each for each in there if each >= size), default=size)


def usable(folder: Path) -> bool:
    """Whether it is built, from what is there now, and lately."""
    try:
        built = json.loads((folder / "BUILT.json").read_text())
    except FileNotFoundError:
        return False
    fresh = datetime.now(UTC) - datetime.fromisoformat(built["at"]) < FRESH
    return bool(built["digest"] == digest()) and fresh


def _remove(folder: Path) -> None:
    pointer = folder / "postgres" / "LOCATION"
    if pointer.exists():
        shutil.rmtree(pointer.read_text().strip(), ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


async def _build(folder: Path, size: int, needed_bytes: int, fill: Callable[[str], Awaitable[None]]) -> None:
    _remove(folder)
    folder.mkdir(parents=True)
    free = shutil.disk_usage(folder).free
    if free < needed_bytes + (2 << 30):
        raise NoRoom(f"{size:,} need {needed_bytes >> 30} GB and 2 to spare; {folder} has {free >> 30} GB")
    begun, made_from = time.perf_counter(), digest()
    server = EmbeddedPostgres(folder, clock=SystemClock(), settings=BUILDING)
    try:
        dsn = await server.start()
        await upgrade(dsn)
        await fill(dsn)
    finally:
        await server.stop()
    os.sync()
    seconds = round(time.perf_counter() - begun, 1)
    told = {"digest": made_from, "at": datetime.now(UTC).isoformat(), "jobs": size, "seconds": seconds}
    (folder / "BUILT.json").write_text(json.dumps(told) + "\n")


async def _fill(dsn: str, size: int) -> None:
    connection = await asyncpg.connect(dsn, command_timeout=SECONDS)
    lane = await connection.fetchval(SQL["fill_lane"])
    await connection.execute(SQL["fill_schema"])
    indexes = await connection.fetch(SQL["fill_indexes"])
    for drop, _ in indexes:
        await connection.execute(drop)
    for low in range(1, size + 1, PAGE):
        await connection.execute(SQL["fill_future"], low, min(low + PAGE - 1, size), lane, SPEC, size)
    for _, definition in indexes:
        await connection.execute(definition)
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    for day in range(1, DAYS):
        since = midnight - timedelta(days=day)
        await _fill_day(connection, since, since + timedelta(days=1), size // DAYS, lane)
    await connection.execute(SQL["fill_vacuum"])
    await connection.close()


async def _fill_for_pages(dsn: str, jobs: int, runs: int) -> None:
    """Jobs first, then this day so far and the days before it, by two sessions. A day has as many runs as another, so
    that much is new."""
    connection = await asyncpg.connect(dsn, command_timeout=SECONDS)
    lane = await connection.fetchval(SQL["fill_lane"])
    await connection.execute(SQL["fill_schema"])
    await connection.execute(SQL["pages_schema"])
    now = datetime.now(UTC)
    await connection.execute(SQL["pages_origin"], now)
    for low in range(1, jobs + 1, PAGE):
        await connection.execute(SQL["pages_jobs"], low, min(low + PAGE - 1, jobs), jobs, lane)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    days = iter(
        [(midnight, now), *((midnight - timedelta(days=n), midnight - timedelta(days=n - 1)) for n in range(1, DAYS))]
    )

    async def some() -> None:
        own = await asyncpg.connect(dsn, command_timeout=SECONDS)
        for since, until in days:
            await own.execute(SQL["pages_day"], since, until, runs // DAYS, jobs)
        await own.close()

    await asyncio.gather(some(), some())
    await connection.execute(SQL["fill_vacuum"])
    await connection.close()


async def _fill_day(
    connection: asyncpg.Connection[Any], since: datetime, until: datetime, count: int, lane: int
) -> None:
    await connection.execute(SQL["fill_day"], since, until, count, lane, SPEC)


async def _fill_today(dsn: str, size: int) -> None:
    """Fill today's partitions unless they are, and have the others made that a scheduler makes at its start."""
    connection = await asyncpg.connect(dsn, command_timeout=SECONDS)
    try:
        now = datetime.now(UTC)
        there = {row["day"] for row in await connection.fetch(SQL["fill_days"])}
        if f"{now:%Y%m%d}" not in there:
            lane = await connection.fetchval(SQL["fill_lane"])
            midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
            await _fill_day(connection, midnight, now, size // DAYS, lane)
            await connection.execute(SQL["fill_vacuum"])
    finally:
        await connection.close()
    await _make_partitions(dsn)


async def _make_partitions(dsn: str) -> None:
    store = PostgresStore(dsn, clock=SystemClock())
    await store.open()
    await store.upkeep.maintain(Retention(runs_seconds=30 * 86_400, failed_seconds=90 * 86_400))
    await store.close()


async def build(sizes: list[int], *, for_pages: bool = False) -> None:
    """Build what is not there, and say what there is."""
    if for_pages:
        begun = time.perf_counter()
        async with filled_for_pages():
            pass
        print(f"jobs with many runs each in {PAGES}: {time.perf_counter() - begun:.0f} s")
    for size in sizes:
        begun = time.perf_counter()
        async with filled(size):
            pass
        print(
            f"{size:,} jobs ahead and {size:,} finished runs in {FOLDER / str(size)}: "
            f"{time.perf_counter() - begun:.0f} s"
        )


def main() -> int:
    """The command: names of cases (C2, growth, W1), or sizes; C2's if nothing is named."""
    wanted = sys.argv[1:] or ["C2"]
    for_pages = "W1" in wanted
    wanted = [word for word in wanted if word != "W1"]
    try:
        sizes = [size for word in wanted for size in (SIZES[word] if word in SIZES else (int(word.replace("_", "")),))]
    except ValueError:
        print(f"say {', '.join(SIZES)}, W1, or how many jobs; not {' '.join(wanted)}", file=sys.stderr)
        return 2
    try:
        asyncio.run(build(sizes, for_pages=for_pages))
    except NoRoom as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
