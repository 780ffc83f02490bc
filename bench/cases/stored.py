"""C2: what is left of T2 in a database that holds five million jobs ahead and five million finished runs.

A round measures the clean one and the filled one in turn, on two servers at their shipped settings, of which one idles
meanwhile. A tenth of what is stored lies in the very partitions into which the round writes (`bench/data.py`). What a
round wrote is taken away before the next one, so that each finds what was built.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from bench import raw
from bench.data import FOLDER, SIZES, at_least, filled, usable
from bench.harness import SQL, Case, Failed, Rig, Round
from bench.stream import flowing
from tickwise.domain.model import time_id

NOTHING = UUID(int=0)
TIDY_SECONDS = 600.0
"""Millions of runs, if many measurements were interrupted."""


class Filled(Rig):
    """A server with a past. Only what has ids from `since` on is looked at, and taken away."""

    def __init__(self, dsn: str, folder: Path, *, full: bool) -> None:
        super().__init__(dsn, folder, full=full)
        self.since = NOTHING

    async def reset(self) -> None:
        """What was built, and nothing of an earlier round, nor of a measurement that was interrupted."""
        connection = await self.connect()
        left = self.since
        if left == NOTHING and await connection.fetchval(SQL["stored_has_origin"]):
            left = await connection.fetchval(SQL["stored_left"]) or NOTHING
        if left != NOTHING:
            await connection.execute(SQL["stored_forget"], left, timeout=TIDY_SECONDS)
            await connection.execute(SQL["stored_tidy"], timeout=TIDY_SECONDS)
        self.since = UUID(int=time_id(int(self.clock.now() * 1000), bytes(10)).int >> 80 << 80)
        await connection.close()

    async def until_ended(self, count: int, seconds: float, *, last: Sequence[UUID] = ()) -> float:
        """As the rig's, of this round."""
        connection = await self.connect()
        try:
            for _ in range(int(seconds / 0.05)):
                if await connection.fetchval(SQL["ended_of"], last) == len(last):
                    ended, at = await connection.fetchrow(SQL["stored_progress"], self.since)
                    if ended >= count:
                        return float(at)
                await self.clock.sleep(0.05)
        finally:
            await connection.close()
        raise Failed(f"{count:,} runs did not end within {seconds:g} s")

    async def outcome(self, expected: int) -> dict[str, Any]:
        """As the rig's, of this round."""
        connection = await self.connect()
        row = dict(await connection.fetchrow(SQL["stored_outcome"], self.since))
        await connection.close()
        wrong = {name: row[name] for name in ("not_success", "early", "disordered", "left_over") if row[name]}
        if row["ended"] != expected or row["runs"] != expected or wrong:
            raise Failed(f"a void measurement: expected {expected}, {row}")
        return row


@contextlib.asynccontextmanager
async def beside(rig: Rig, size: int) -> AsyncIterator[Filled]:
    """A filled server beside the rig's own, and what the round wrote into it taken away at its end. Raises `Failed`."""
    if not usable(FOLDER / str(size)):
        raise Failed(
            f'a database with {size:,} jobs is not there: `make bench-data DATA="C2 Q1 growth"`, about 15 minutes'
        )
    async with filled(size) as dsn:
        stored = Filled(dsn, rig.folder, full=rig.full)
        await stored.reset()
        try:
            yield stored
        finally:
            await stored.reset()


class Flow(NamedTuple):
    """How T2 went."""

    rate: float
    database_us: float
    """CPU of the server, for each run."""
    product_us: float
    """CPU of scheduler and executor."""
    wal_bytes: float


async def flow(rig: Rig, seconds: float) -> Flow:
    """T2 for so long. Raises `Failed` if anything was lost, ran twice, or too early."""
    since = rig.since if isinstance(rig, Filled) else NOTHING
    async with flowing(rig) as stream:
        since = rig.since if isinstance(rig, Filled) else since
        used = await stream.usage()
        before, begin = await stream.connection.fetchrow(SQL["stored_progress"], since)
        await rig.clock.sleep(seconds)
        after, end = await stream.connection.fetchrow(SQL["stored_progress"], since)
        cost = (await stream.usage()).cost(used, after - before)
        await stream.finish()
    spent = cost["cpu_us_a_run"]
    product = spent["scheduler"] + spent["executor"]
    return Flow((after - before) / (end - begin), spent.get("database", 0.0), product, cost["wal_bytes_a_run"])


async def beside_the_past(rig: Rig) -> Round:
    """The value is the rate of the filled one, of the clean one's."""
    seconds = 60.0 if rig.full else 15.0
    size = at_least(SIZES["C2"][0])
    clean = await flow(rig, seconds)
    async with beside(rig, size) as stored:
        past = await flow(stored, seconds)
        again = await flow(stored, seconds)
    clean_again = await flow(rig, seconds)
    slow, fast = past.rate + again.rate, clean.rate + clean_again.rate
    return Round(
        slow / fast,
        {
            "clean": [round(clean.rate), round(clean_again.rate)],
            "stored": [round(past.rate), round(again.rate)],
            "database_us_a_run": {"clean": clean.database_us, "stored": past.database_us},
            "wal_bytes_a_run": {"clean": clean.wal_bytes, "stored": past.wal_bytes},
            "jobs_ahead_and_runs_finished": size,
        },
    )


CASE = Case(
    "C2", "of T2", 0.95, True, beside_the_past, raw.sustained, "raw SQL: submit, claim and finish on an empty database"
)
