"""A shard is handed over under load, again and again: its owner is told to end when the next keeper has just started.
Clients of the store itself judge: every answer came, each write is there, and no run was claimed twice."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, cast
from uuid import UUID

import pytest

from tests.integration.processes.fleet import Fleet, Role
from tests.support.cassandras import keyspace, linked
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.cassandra.address import read_address
from tickwise.adapters.store.cassandra.client import CassandraStore, KeyspaceSession
from tickwise.adapters.store.cassandra.registry import CassandraRegistry
from tickwise.adapters.store.keeper.shards import ALONE
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed
from tickwise.ports.store import ClaimRequest, RunQuery, Store
from tickwise.testing.factories import Factory, executor, outcomes

pytestmark = pytest.mark.thorough
CLOCK: Final = SystemClock()
WAITING: Final = 4_000
"""Live jobs that wait for a day from now: the next owner has something to read."""
TIMES: Final = 3
BETWEEN: Final = 40
"""Jobs that are acknowledged between two hand-overs."""
LEASE_SECONDS: Final = 300.0


class StoreLoad:
    """Clients that add, claim and finish all the time, and note each answer. One without an answer fails the test."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.added: list[UUID] = []
        """Runs of acknowledged jobs."""
        self.claims: list[Claimed] = []
        self.finished: set[UUID] = set()
        self._ends = asyncio.Event()

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """While the block lasts."""
        works = [
            asyncio.create_task(each) for each in (self._add("a"), self._add("b"), self._work("1"), self._work("2"))
        ]
        try:
            yield
        finally:
            self._ends.set()
            await asyncio.gather(*works)

    async def some_more(self) -> None:
        """Jobs are acknowledged, and runs finished."""
        jobs, runs = len(self.added) + BETWEEN, len(self.finished) + BETWEEN
        await eventually(
            lambda: len(self.added) >= jobs and len(self.finished) >= runs,
            within_seconds=60.0,
            what="the store answers",
        )

    async def _add(self, name: str) -> None:
        make = Factory(await self.store.now(), seed=f"load {name}")
        while not self._ends.is_set():
            jobs = [make.job() for _ in range(3)]
            await self.store.jobs.add(jobs)
            self.added += [job.run_id for job in jobs if job.run_id is not None]

    async def _work(self, name: str) -> None:
        number = await self.store.executors.join(executor(name, lease_seconds=LEASE_SECONDS))
        ask = ClaimRequest(executor=number, queues=("default",), labels=(), limit=10, ahead_seconds=0.0)
        while not self._ends.is_set():
            claims = await self.store.attempts.claim(ask)
            self.claims += claims
            if claims:
                assert [] == list(await self.store.attempts.finish(number, outcomes(claims)))
                self.finished.update(claim.run_id for claim in claims)
            else:
                await CLOCK.sleep(0.01)

    async def judge(self) -> None:
        """The store has what it said."""
        claimed = Counter(claim.run_id for claim in self.claims)
        assert [] == [run for run, times in claimed.items() if times > 1], "a run was claimed twice"
        states: dict[UUID, RunState] = {}
        for begin in range(0, len(self.added), 100):
            asked = self.added[begin : begin + 100]
            rows = await self.store.searches.runs(RunQuery(namespace="default", ids=asked, limit=len(asked)))
            states |= {row.run_id: row.state for row in rows}
        assert [] == [run for run in self.added if run not in states], "an acknowledged job is lost"
        assert [] == [run for run in self.finished if states[run] != RunState.SUCCESS], "an acknowledged end is lost"


@asynccontextmanager
async def _store(url: str) -> AsyncIterator[Store]:
    session = KeyspaceSession(read_address(url), CLOCK)
    store = CassandraStore(session, shard=ALONE, patience_seconds=60.0)
    try:
        await store.open()
        yield cast("Store", store)
    finally:
        await store.close()
        await session.close()


async def _handed_over(registry: CassandraRegistry, owner: Role, following: Role) -> None:
    """The owner is told to end at the first beat of the next keeper, and serves until that one has read the log."""
    address = (await following.event("keeper_listens", within_seconds=60.0))["endpoint"]

    async def beats() -> bool:
        return address in {each.partition("/")[0] for each in await registry.keepers()}

    await eventually(beats, what="the next keeper beats")
    owner.signal(signal.SIGTERM)
    await following.event("log_opened", within_seconds=60.0)
    assert 0 == await owner.ended()
    [gone] = owner.events("shard_goes")
    assert gone["heir_is_ready"], gone
    assert not owner.events("log_lost"), "it was taken, and not given"


@pytest.mark.takes_up_to(240)
async def test_a_hand_over_under_load_loses_no_answer_and_claims_nothing_twice(
    cassandra_server_url: str, tmp_path: Path
) -> None:
    """Each time the next keeper starts cold, and the owner ends once that one is ready."""
    async with keyspace(cassandra_server_url) as url:
        fleet = Fleet(url, tmp_path)
        try:
            owner = fleet.start("keeper")
            await owner.event("log_opened", within_seconds=60.0)
            async with _store(url) as store, linked(url) as link:
                registry = CassandraRegistry(link, [ALONE])
                make = Factory(await store.now(), seed="waiting")
                for _ in range(0, WAITING, 500):
                    await store.jobs.add([make.job(make.now + 86_400.0) for _ in range(500)])
                load = StoreLoad(store)
                async with load.going_on():
                    for _ in range(TIMES):
                        await load.some_more()
                        following = fleet.start("keeper")
                        await _handed_over(registry, owner, following)
                        owner = following
                    await load.some_more()
                await load.judge()
        except BaseException as failure:
            failure.add_note(fleet.logs())
            raise
        finally:
            fleet.stop()
