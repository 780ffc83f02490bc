"""A job's runs do not overlap, however many schedulers and executors there are, and whatever is cut or dies meanwhile.

The witness is none of the store's: each task says for itself when it begins and ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio

from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.domain.decision import Overlap, TimerState
from tickwise.domain.errors import Unavailable
from tickwise.domain.lifecycle import FINAL, RunState
from tickwise.domain.model import Claimed, Trigger, run_id
from tickwise.ports.store import Began, ClaimRequest, Fire, FireRequest, NewRun, RunQuery, RunRow
from tickwise.testing.contracts.base import taken
from tickwise.testing.factories import Factory, executor, outcome

OCCURRENCES = 24
STEP_SECONDS = 0.05
WORK_SECONDS = 0.12
AHEAD_SECONDS = 0.1
PAUSE_SECONDS = 0.01
LONG_LEASE_SECONDS = 600.0
"""Who lives is never expired here, however slow the machine: two at once would then be nobody's fault."""
CUT_EVERY = 4
MAX_CUTS = 3

CUT = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE application_name LIKE 'tickwise%' AND datname = current_database() AND pid <> pg_backend_pid()
"""
DIES = "UPDATE tickwise.executors SET lease = now() - interval '1 second', lease_seconds = 0 WHERE executor = $1"

T = TypeVar("T")


async def surely(call: Callable[[], Awaitable[T]]) -> T:
    """The answer of a call that is repeated until the store has one."""
    while True:
        try:
            return await call()
        except Unavailable:
            await SystemClock().sleep(PAUSE_SECONDS)


class Witness:
    """What tasks say of themselves, in the order in which they say it."""

    def __init__(self) -> None:
        self.running: set[UUID] = set()
        self.began: list[UUID] = []
        self.together: list[set[UUID]] = []
        self.cut = asyncio.Event()
        self.first = asyncio.Event()

    def begins(self, run: UUID) -> None:
        self.running.add(run)
        self.began.append(run)
        self.first.set()
        if len(self.running) > 1:
            self.together.append(set(self.running))
        if len(self.began) % CUT_EVERY == 0:
            self.cut.set()

    def ends(self, run: UUID) -> None:
        self.running.discard(run)


class Hands:
    """An executor: claims, records the start of what is guarded, works, reports, and stops what it is asked to stop."""

    def __init__(self, store: PostgresStore, witness: Witness, number: int) -> None:
        self.store = store
        self.witness = witness
        self.number = number
        self.clock = SystemClock()
        self.held: dict[UUID, Claimed] = {}
        self.stops: dict[UUID, asyncio.Event] = {}
        self.tasks: asyncio.TaskGroup | None = None

    async def live(self) -> None:
        async with asyncio.TaskGroup() as self.tasks:
            self.tasks.create_task(self._hear())
            await self._claim(self.tasks)

    async def _keep(self) -> int:
        # No claim is made meanwhile.
        return await self.store.executors.release_unknown(
            self.number, [each.token for each in self.held.values()], math.inf
        )

    async def _claim(self, tasks: asyncio.TaskGroup) -> None:
        request = ClaimRequest(
            executor=self.number, queues=("default",), labels=(), limit=4, ahead_seconds=AHEAD_SECONDS
        )
        while True:
            try:
                claims = await self.store.attempts.claim(request)
            except Unavailable:  # perhaps it took runs that we shall never hear of
                await surely(self._keep)
                continue
            for claimed in claims:
                self.held[claimed.run_id] = claimed
                tasks.create_task(self._work(claimed))
            await self.clock.sleep(PAUSE_SECONDS)

    async def _work(self, claimed: Claimed) -> None:
        run = claimed.run_id
        self.stops[run] = stop = asyncio.Event()
        await self.clock.sleep(claimed.due - claimed.now)
        began = Began(run, claimed.token, max(claimed.now, claimed.due))
        if claimed.guarded:
            refused = await surely(lambda: self.store.attempts.start(self.number, [began]))
            if refused:
                self._let_go(claimed)
                return
        self.witness.begins(run)
        state = RunState.SUCCESS
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), WORK_SECONDS)
                state = RunState.CANCELLED
        finally:
            self.witness.ends(run)
        assert [] == await surely(lambda: self.store.attempts.finish(self.number, [outcome(claimed, state)]))
        self._let_go(claimed)

    def _let_go(self, claimed: Claimed) -> None:
        """Hold this claim no longer. The run may be held under a later one by then, if the answer came late."""
        if self.held.get(claimed.run_id) is claimed:
            del self.held[claimed.run_id]

    async def _hear(self) -> None:
        while True:
            beat = await surely(lambda: self.store.executors.beat(self.number, LONG_LEASE_SECONDS))
            for cancel in beat.cancels:
                if cancel.run_id in self.stops:
                    self.stops[cancel.run_id].set()
            await self.clock.sleep(PAUSE_SECONDS)


async def schedule(store: PostgresStore, first: float, overlap: Overlap) -> None:
    """A scheduler of jobs that fire every step from the first time on."""
    request = FireRequest(horizon_seconds=AHEAD_SECONDS, limit=10)
    while True:
        with contextlib.suppress(Unavailable):
            async with taken(store, request) as batch:
                until = batch.now + AHEAD_SECONDS
                await batch.commit([decided(each.job_id, each.pending, first, until, overlap) for each in batch.timers])
            await store.runs.unblock()
            await store.executors.expire(crashes_max=10)
        await SystemClock().sleep(PAUSE_SECONDS)


def decided(job_id: UUID, timer: TimerState, first: float, until: float, overlap: Overlap) -> Fire:
    """All that is due of the job."""
    number = round((timer.due - first) / STEP_SECONDS)
    dues = []
    while number < OCCURRENCES and nominal(first, number) <= until:
        dues.append(nominal(first, number))
        number += 1
    runs = [NewRun(run_id(job_id, due), due, Trigger.SCHEDULE, overlap=overlap) for due in dues]
    return Fire(job_id, timer.due, TimerState(nominal(first, number)) if number < OCCURRENCES else None, runs)


def nominal(first: float, number: int) -> float:
    return round(first + number * STEP_SECONDS, 6)


@pytest_asyncio.fixture
async def operator(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody else at the same database."""
    await upgrade(database_url)
    connection = await asyncpg.connect(database_url, server_settings={"application_name": "operator"})
    yield connection
    await connection.close()


@pytest_asyncio.fixture
async def stores(database_url: str, operator: asyncpg.Connection) -> AsyncIterator[list[PostgresStore]]:
    """Eight processes' worth of clients."""
    stores = [PostgresStore(database_url, clock=SystemClock()) for _ in range(8)]
    for store in stores:
        await store.open()
    yield stores
    for store in stores:
        await store.close()


async def cut_links(operator: asyncpg.Connection, witness: Witness) -> None:
    """Every so many starts, every connection of the stores, in the midst of whatever they do."""
    for _ in range(MAX_CUTS):
        await witness.cut.wait()
        witness.cut.clear()
        await operator.fetchval(CUT)


async def ended(store: PostgresStore, job_id: UUID) -> list[RunRow]:
    """All occurrences of the job, once each of them has its final state."""

    async def look() -> list[RunRow]:
        with contextlib.suppress(Unavailable):
            rows = await store.searches.runs(RunQuery(namespace="default", job_id=job_id, limit=10 * OCCURRENCES))
            if len(rows) >= OCCURRENCES and all(row.state in FINAL for row in rows):
                return list(rows)
        return []

    return await eventually(look, within_seconds=90.0, what="every occurrence has ended")


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE_ONE, Overlap.QUEUE_ALL, Overlap.CANCEL_RUNNING])
async def test_the_policy_holds_among_four_schedulers_and_four_executors_through_cuts_and_a_death(
    stores: list[PostgresStore], operator: asyncpg.Connection, overlap: Overlap
) -> None:
    """Never two at once, nothing lost, every occurrence on record exactly once. Runs last longer than their period."""
    store = stores[0]
    make = Factory(await store.now(), seed=overlap)
    first = round(make.now + 0.2, 6)
    job = make.recurring(first)
    await store.jobs.add([job])
    witness = Witness()
    hands = [Hands(each, witness, await each.executors.join(executor(lease_seconds=600.0))) for each in stores[4:]]
    running = [asyncio.create_task(each.live()) for each in hands]
    running += [asyncio.create_task(schedule(each, first, overlap)) for each in stores[:4]]
    running.append(asyncio.create_task(cut_links(operator, witness)))
    await asyncio.wait_for(witness.first.wait(), 60.0)
    await kill(next((each for each in hands if each.held), hands[0]), running[: len(hands)], hands, operator)
    rows = await ended(store, job.job_id)
    for task in running:
        task.cancel()
    outcomes = await asyncio.gather(*running, return_exceptions=True)
    assert [] == [error for error in outcomes if error and not isinstance(error, asyncio.CancelledError)]
    assert [] == witness.together
    names = {run_id(job.job_id, nominal(first, number)) for number in range(OCCURRENCES)}
    assert sorted(names) == sorted(row.run_id for row in rows)
    check_states(overlap, rows)


async def kill(
    victim: Hands, lives: list[asyncio.Task[None]], hands: list[Hands], operator: asyncpg.Connection
) -> None:
    """Its tasks stop with it, it says nothing more, and its lease is over."""
    task = lives[hands.index(victim)]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await operator.execute(DIES, victim.number)


def check_states(overlap: Overlap, rows: list[RunRow]) -> None:
    """What each policy leaves on record."""
    states = Counter(row.state for row in rows)
    reasons = {row.reason for row in rows if row.state is RunState.SKIPPED}
    assert reasons <= {"overlap"}
    if overlap is Overlap.QUEUE_ALL:
        assert {RunState.SUCCESS: OCCURRENCES} == dict(states)
    elif overlap is Overlap.CANCEL_RUNNING:
        assert set(states) <= {RunState.SUCCESS, RunState.CANCELLED, RunState.SKIPPED}
        assert RunState.SUCCESS is rows[0].state  # the newest: nothing came after it
    else:
        assert set(states) <= {RunState.SUCCESS, RunState.SKIPPED}
        assert RunState.SUCCESS is rows[-1].state  # the oldest: nothing came before it
