"""Reads after many runs: deleted rows leave tombstones, and no read may meet more and more of them.

    jobs due some seconds later ──► rows of `due` ──► fired, claimed, ended ──► rows deleted, segments dropped

RUNS=1000000 plays it at length, `make chaos` with 100,000. Judged by what the node says that its reads met
(`system_views.tombstones_per_read`), never by the clock.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.services.cassandra import Cassandra
from tests.support.cassandras import CLOCK, keyspace, linked
from tickwise.adapters.store.cassandra.link import CassandraLink
from tickwise.adapters.store.cassandra.log import CassandraLog
from tickwise.adapters.store.cassandra.readable.writing import CassandraTables
from tickwise.adapters.store.keeper.readable.projector import TableProjector
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.domain.lifecycle import CODES, RunState
from tickwise.domain.model import Outcome, executor_number
from tickwise.ports.store import ClaimRequest
from tickwise.testing import factories
from tickwise.testing.factories import Factory

pytestmark = [pytest.mark.thorough, pytest.mark.takes_up_to(600)]
RUNS: Final = int(os.environ.get("RUNS", "10000"))
BATCH: Final = 500
AHEAD_SECONDS: Final = 3.0
"""Longer than the tables are behind: the row of each fire is written before it is deleted."""
PAGE: Final = 100
MET_MOST: Final = 100
"""Tombstones that one read may meet, however many runs there were."""
MET_MOST_OF: Final = {"runs": 12 * PAGE}
"""The row of a run that was written before the run ended has a tombstone for each column that is empty since, or that
its end leaves empty: so many for each row, however many runs there are."""
CHECKPOINT_RUNS: Final = 5_000


@pytest_asyncio.fixture
async def link() -> AsyncIterator[CassandraLink]:
    """A keyspace on a node of its own, whose figures are of nothing else."""
    async with Cassandra() as node, keyspace(node.url) as url, linked(url, answer_seconds=20.0) as opened:
        yield opened


class Worker:
    """Executes what is due."""

    def __init__(self, store: KeeperStore, runs: int) -> None:
        self.store, self.runs = store, runs
        self.done = 0

    async def submit(self) -> None:
        """Jobs that are due some seconds later."""
        for number in range(0, self.runs, BATCH):
            make = Factory(await self.store.now(), seed=f"worn {number}")
            due = make.now + AHEAD_SECONDS
            await self.store.jobs.add([make.job(due + place / BATCH) for place in range(BATCH)])

    async def execute(self) -> None:
        """Fire, claim and end them all."""
        store = self.store
        number = executor_number(round(1_000 * await store.now()), os.urandom(2))
        executor = await store.executors.join(replace(factories.executor("worn"), number=number))
        request = ClaimRequest(executor=executor, queues=("default",), labels=(), limit=BATCH, ahead_seconds=0.0)
        checkpoint = CHECKPOINT_RUNS
        while self.done < self.runs:
            await store.timers.fire(0.0, BATCH)
            claims = await store.attempts.claim(request)
            await store.executors.beat(executor, 60.0)
            if not claims:
                await CLOCK.sleep(0.02)
                continue
            now = await store.now()
            await store.attempts.finish(
                executor,
                [
                    Outcome(run_id=each.run_id, token=each.token, started=now, ended=now, state=CODES[RunState.SUCCESS])
                    for each in claims
                ],
            )
            self.done += len(claims)
            if self.done >= checkpoint:
                await store.keep_checkpoint()
                checkpoint += CHECKPOINT_RUNS


async def met(link: CassandraLink) -> dict[str, int]:
    """The most tombstones that one read met, by table, of the reads since the node began, decaying."""
    rows = await link.run("SELECT keyspace_name, table_name, max FROM system_views.tombstones_per_read")
    mine = [row for row in rows if row[0] == link.address.keyspace]
    return {row[1]: round(row[2]) for row in mine}


async def read_as_people_do(link: CassandraLink, now: float) -> Sequence[Any]:
    """What is due from now on, and runs of this hour, part by part, as `docs/reference/cassandra-tables.md` says."""
    at = datetime.fromtimestamp(now, UTC)
    hour = at.replace(minute=0, second=0, microsecond=0).isoformat()
    found: list[Any] = []
    for part in range(16):
        found += await link.run(
            f"SELECT due_at, job_id FROM due WHERE shard = 0 AND hour = '{hour}' AND part = {part} "
            f"AND due_at >= '{at.isoformat()}' LIMIT {PAGE}"
        )
    for part in range(64):
        await link.run(
            "SELECT run_id, state FROM runs "
            f"WHERE namespace = 'default' AND hour = '{hour}' AND part = {part} LIMIT {PAGE}"
        )
    return found


async def test_reads_stay_flat_after_many_runs(link: CassandraLink) -> None:
    """Each job had a row in `due`, which was deleted as it fired; of the log, whole segments went. The log's end, a
    page of `due` from now on and a page of runs are read without a walk over what is gone."""
    projector = TableProjector(CassandraTables(link, 0), CLOCK, shard=0)
    log = CassandraLog(link, 0, lease_seconds=30.0)
    store = KeeperStore(log, CLOCK, projection=projector)
    await store.open()
    try:
        worker = Worker(store, RUNS)
        async with asyncio.TaskGroup() as both:
            both.create_task(worker.submit())
            both.create_task(worker.execute())
        await projector.reached(store.position)
        await store.keep_checkpoint()
        row = await log.owner()
        make = Factory(await store.now(), seed="after")
        await store.jobs.add([make.job(make.now + 60.0) for _ in range(BATCH)])
        await projector.reached(store.position)
        for _ in range(20):
            await read_as_people_do(link, await store.now())
            assert [each async for each in log.entries(row.checkpoint)]
        found = await met(link)
    finally:
        await store.close()
    print(f"{RUNS} runs; tombstones that one read met at most: {found}")  # noqa: T201  # shown with -s
    assert row.first > row.last - 2_000, "segments of the log are dropped"
    assert {} == {table: most for table, most in found.items() if most > MET_MOST_OF.get(table, MET_MOST)}
