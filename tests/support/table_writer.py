"""A keeper that submits, claims and ends runs until it is killed: `python -m tests.support.table_writer URL SHARD`.

It prints the number of jobs that were acknowledged, after each batch, and whether some of that is projected and some is
not. Its projector writes with the pauses of a busy database, so a kill meets it between commit and projection.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from tests.support.cassandras import CLOCK, linked
from tests.support.table_rows import end_runs
from tickwise.adapters.store.cassandra.log import CassandraLog
from tickwise.adapters.store.cassandra.readable.writing import CassandraTables
from tickwise.adapters.store.keeper.readable.projector import TableProjector
from tickwise.adapters.store.keeper.readable.tables import PartitionDrop, RowWrite
from tickwise.adapters.store.keeper.store import KeeperStore

PAUSE_SECONDS = 0.05
JOBS_A_BATCH = 20


class SlowTables(CassandraTables):
    """Each write takes its time."""

    async def write(self, rows: Sequence[RowWrite], drop: PartitionDrop | None) -> None:
        await CLOCK.sleep(PAUSE_SECONDS)
        await super().write(rows, drop)


async def work(url: str, shard: int) -> None:
    """Until somebody kills this process."""
    async with linked(url) as link:
        projector = TableProjector(SlowTables(link, shard), CLOCK, shard=shard)
        store = KeeperStore(CassandraLog(link, shard, lease_seconds=1.0), CLOCK, projection=projector)
        await store.open()
        done = 0
        while True:
            await end_runs(store, JOBS_A_BATCH, f"batch {done}")
            done += JOBS_A_BATCH
            print("done", done, 0 < projector.position < store.position, flush=True)  # noqa: T201  # this is how the test knows


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], int(sys.argv[2])))
