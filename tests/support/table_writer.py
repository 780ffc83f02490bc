"""A keeper that submits, claims and ends runs until it is killed: `python -m tests.support.table_writer URL SHARD`.
With `timers` behind it, it takes many timers in place of runs, with little memory for what the tables are behind by.

It prints the number of jobs that were acknowledged, after each batch, and whether some of that is projected and some is
not. Its projector writes with the pauses of a busy database, so a kill meets it between commit and projection.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from tests.support.cassandras import CLOCK, PATIENT_SECONDS, linked
from tests.support.table_rows import end_runs
from tickwise.adapters.store.cassandra.log import CassandraLog
from tickwise.adapters.store.cassandra.readable.writing import CassandraTables
from tickwise.adapters.store.keeper.readable.budget import BacklogBudget
from tickwise.adapters.store.keeper.readable.projector import TableProjector
from tickwise.adapters.store.keeper.readable.tables import PartitionDrop, RowWrite
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.testing.factories import Factory

PAUSE_SECONDS = 0.05
JOBS_A_BATCH = 20
TIMERS_A_BATCH = 500
AWAY_SECONDS = 36_000.0
LEASE_SECONDS = 60.0
"""Nobody waits for its end: the test takes the shard from the dead."""
LITTLE_BYTES = 2 << 20
"""Of the log 250 kB, 1,200 changes and 800 rows: a few batches."""


class SlowTables(CassandraTables):
    """Each write takes its time."""

    async def write(self, rows: Sequence[RowWrite], drop: PartitionDrop | None) -> None:
        await CLOCK.sleep(PAUSE_SECONDS)
        await super().write(rows, drop)


async def add_timers(store: KeeperStore, count: int, seed: str) -> None:
    """New one-time jobs that are due much later."""
    make = Factory(await store.now(), seed=seed)
    await store.jobs.add([make.job(make.now + AWAY_SECONDS) for _ in range(count)])


async def work(url: str, shard: int, *, timers: bool) -> None:
    """Until somebody kills this process."""
    async with linked(url, answer_seconds=PATIENT_SECONDS) as link:
        budget = BacklogBudget(LITTLE_BYTES) if timers else None
        projector = TableProjector(SlowTables(link, shard), CLOCK, shard=shard, budget=budget)
        store = KeeperStore(CassandraLog(link, shard, lease_seconds=LEASE_SECONDS), CLOCK, projection=projector)
        await store.open()
        done = 0
        while True:
            more, batch = (add_timers, TIMERS_A_BATCH) if timers else (end_runs, JOBS_A_BATCH)
            await more(store, batch, f"batch {done} at {store.position}")
            done += batch
            print("done", done, 0 < projector.position < store.position, flush=True)  # noqa: T201  # this is how the test knows


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], int(sys.argv[2]), timers="timers" in sys.argv[3:]))
