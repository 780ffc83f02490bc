"""Two who act on one job at the same moment: whoever comes first, nothing is lost and nobody waits in a circle.

An operator's lock holds both back, so that they meet each time just where it matters.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio

from tests.support.databases import sessions_waiting
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.adapters.store.postgres.connection.link import HOT_SETTINGS
from tickwise.domain.decision import Hold, Overlap, TimerState
from tickwise.domain.errors import StoreUnavailable, Unavailable
from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.domain.model import Claimed
from tickwise.domain.rules.sentences import REPLACED_SENTENCE
from tickwise.ports.store import Began, ClaimRequest, FireRequest, JobAction, RuleRow, RunPostpone
from tickwise.testing.contracts.base import TakenBatch, taken
from tickwise.testing.factories import Factory, executor, outcome

pytestmark = pytest.mark.usefixtures("patient_locks")

DUE = FireRequest(horizon_seconds=1.0, limit=10)
HOUR = 3_600.0
LOCK_RUN = "SELECT FROM tickwise.runs WHERE run_id = $1 FOR UPDATE"
LOCK_JOB = "SELECT FROM tickwise.jobs WHERE job_id = $1 FOR UPDATE"
MAKE_RUN = (
    "INSERT INTO tickwise.runs (due, ready, queued, run_id, job_id, lane, trigger, overlap, own, namespace, spec) "
    "SELECT now(), now(), now(), $1, job_id, lane, 1, 1, false, namespace, definition FROM tickwise.jobs "
    "WHERE job_id = $2"
)

T = TypeVar("T")


class Scene(NamedTuple):
    """A job's runs in the hands of one executor, in the order of their due times."""

    make: Factory
    executor: int
    claims: list[Claimed]

    @property
    def begans(self) -> list[Began]:
        return [Began(claimed.run_id, claimed.token, claimed.now) for claimed in self.claims]


@pytest_asyncio.fixture
async def operator(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody else at the same database."""
    await upgrade(database_url)
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


@pytest_asyncio.fixture
async def stores(database_url: str, operator: asyncpg.Connection) -> AsyncIterator[list[PostgresStore]]:
    """Three processes' clients."""
    stores = [PostgresStore(database_url, clock=SystemClock()) for _ in range(3)]
    for store in stores:
        await store.open()
    yield stores
    for store in stores:
        await store.close()


async def held_back(operator: asyncpg.Connection, count: int, calls: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A call that has come as far as a lock; so many wait then."""
    task = asyncio.create_task(calls)

    async def waits() -> bool:
        return task.done() or await sessions_waiting(operator) >= count

    await eventually(waits, what="the call waits for the lock")
    assert not task.done()
    return task


async def claimed_runs(
    store: PostgresStore, overlap: Overlap, seed: str, *, settled: bool = False, count: int = 2
) -> Scene:
    """Runs of a job, claimed by one executor; the first of them may be settled from the beginning."""
    make = Factory(await store.now(), seed=seed)
    job = make.recurring(make.now)
    await store.jobs.add([job])
    async with taken(store, DUE) as batch:
        [timer] = [timer for timer in batch.timers if timer.job_id == job.job_id]
        dues = [make.now + number / 1000 for number in range(count)]
        runs = [make.scheduled(job.job_id, due, overlap=overlap) for due in dues]
        comes = make.now + HOUR if settled else make.now - HOUR
        await batch.commit([make.fire(job.job_id, timer.pending.due, comes, runs=runs)])
    born = await store.executors.join(executor(lease_seconds=600.0))
    request = ClaimRequest(executor=born, queues=("default",), labels=(), limit=10, ahead_seconds=1.0)
    found: list[Claimed] = []

    async def all_of_them() -> bool:
        found.extend(claimed for claimed in await store.attempts.claim(request) if claimed.job_id == job.job_id)
        return len(found) == count

    await eventually(all_of_them)
    await drop_timer(store, make, job.job_id)
    assert [not settled, *[True] * (count - 1)] == [
        claimed.guarded for claimed in sorted(found, key=lambda each: each.due)
    ]
    return Scene(make, born, sorted(found, key=lambda each: each.due))


async def drop_timer(store: PostgresStore, make: Factory, job_id: UUID) -> None:
    """The job fires no more, so that no other test finds its timer."""
    async with taken(store, FireRequest(horizon_seconds=2 * HOUR, limit=100)) as batch:
        mine = [timer for timer in batch.timers if timer.job_id == job_id]
        await batch.commit([make.fire(job_id, timer.pending.due, None, runs=[]) for timer in mine])


async def is_waiting(store: PostgresStore, run: UUID) -> bool:
    row = await store.runs.get("default", run)
    assert row is not None
    return row.blocked


async def test_of_two_that_want_to_begin_at_once_one_begins(
    stores: list[PostgresStore], operator: asyncpg.Connection
) -> None:
    """On two connections, as two executors would; both look before either has begun."""
    scene = await claimed_runs(stores[0], Overlap.QUEUE_ALL, "two begin")
    transaction = operator.transaction()
    await transaction.start()
    await operator.execute(LOCK_RUN, scene.claims[0].run_id)
    calls = [
        await held_back(operator, number, store.attempts.start(scene.executor, [began]))
        for number, (store, began) in enumerate(zip(stores[:2], reversed(scene.begans), strict=True), 1)
    ]
    await transaction.rollback()
    refused = [run for call in calls for run in await call]
    assert [scene.claims[1].run_id] == refused
    assert await is_waiting(stores[0], scene.claims[1].run_id)


async def test_a_run_that_ends_while_another_is_told_to_wait_for_it_wakes_that_one(
    stores: list[PostgresStore], operator: asyncpg.Connection
) -> None:
    """At once, without the sweep: the one is marked while the end of the other waits for the same lock."""
    scene = await claimed_runs(stores[0], Overlap.QUEUE_ALL, "wait, then end", settled=True)
    transaction = operator.transaction()
    await transaction.start()
    await operator.execute(LOCK_RUN, scene.claims[0].run_id)
    waits = await held_back(operator, 1, stores[0].attempts.start(scene.executor, scene.begans[1:]))
    ends = await held_back(operator, 2, stores[1].attempts.finish(scene.executor, [outcome(scene.claims[0])]))
    await transaction.rollback()
    assert [scene.claims[1].run_id] == list(await waits)
    assert [] == list(await ends)
    assert not await is_waiting(stores[0], scene.claims[1].run_id)
    assert 0 == await stores[0].runs.unblock()


async def test_a_run_begins_if_what_it_would_wait_for_ends_while_it_looks(
    stores: list[PostgresStore], operator: asyncpg.Connection
) -> None:
    """It sees what is there when it has the lock, and not what was there when it began to look."""
    scene = await claimed_runs(stores[0], Overlap.SKIP, "end, then look", settled=True)
    transaction = operator.transaction()
    await transaction.start()
    await operator.execute(LOCK_RUN, scene.claims[0].run_id)
    ends = await held_back(operator, 1, stores[1].attempts.finish(scene.executor, [outcome(scene.claims[0])]))
    starts = await held_back(operator, 2, stores[0].attempts.start(scene.executor, scene.begans[1:]))
    await transaction.rollback()
    assert [] == list(await ends)
    assert [] == list(await starts)
    row = await stores[0].runs.get("default", scene.claims[1].run_id)
    assert row is not None
    assert RunState.RUNNING is row.state


async def test_of_two_that_take_the_place_of_a_third_the_last_gets_it(
    stores: list[PostgresStore], operator: asyncpg.Connection
) -> None:
    """Also if the one begins to wait in the very moment in which the other asks it to stop."""
    scene = await claimed_runs(stores[0], Overlap.CANCEL_RUNNING, "two take a place", settled=True, count=3)
    running, earlier, last = scene.claims
    assert [] == list(await stores[0].attempts.start(scene.executor, scene.begans[:1]))
    transaction = operator.transaction()
    await transaction.start()
    await operator.execute(LOCK_RUN, running.run_id)
    asks = await held_back(operator, 1, stores[0].attempts.start(scene.executor, scene.begans[2:]))
    waits = await held_back(operator, 2, stores[1].attempts.start(scene.executor, scene.begans[1:2]))
    await transaction.rollback()
    assert [[last.run_id], [earlier.run_id]] == [list(await asks), list(await waits)]
    row = await stores[0].runs.get("default", earlier.run_id)
    assert row is not None
    assert (RunState.CANCELLED, REPLACED_SENTENCE) == (row.state, row.error), "it was asked before it could wait"
    ended = outcome(running, RunState.CANCELLED, reason="cancelled")
    assert [] == list(await stores[0].attempts.finish(scene.executor, [ended]))
    assert not await is_waiting(stores[0], last.run_id)
    request = ClaimRequest(executor=scene.executor, queues=("default",), labels=(), limit=10, ahead_seconds=1.0)
    again: list[Claimed] = []

    async def claimed() -> bool:
        again.extend(each for each in await stores[0].attempts.claim(request) if each.job_id == last.job_id)
        return bool(again)

    await eventually(claimed)
    begans = [Began(each.run_id, each.token, each.now) for each in again]
    assert [last.run_id] == [began.run_id for began in begans]
    assert [] == list(await stores[0].attempts.start(scene.executor, begans))


async def test_a_job_is_cancelled_while_one_of_its_runs_wants_to_begin(
    stores: list[PostgresStore], operator: asyncpg.Connection
) -> None:
    """Both take the runs in one order, so neither waits for the other in a circle; nothing of the job is left over."""
    scene = await claimed_runs(stores[0], Overlap.QUEUE_ALL, "cancel")
    transaction = operator.transaction()
    await transaction.start()
    await operator.execute(LOCK_RUN, scene.claims[0].run_id)
    starts = await held_back(operator, 1, stores[0].attempts.start(scene.executor, scene.begans[1:]))
    move = scene.make.move(scene.claims[0].job_id, JobAction.CANCEL)
    cancels = await held_back(operator, 2, stores[1].jobs.move(move))
    await transaction.rollback()
    assert [scene.claims[1].run_id] == list(await starts)
    assert JobStatus.CANCELLED is (await cancels).status
    row = await stores[0].runs.get("default", scene.claims[1].run_id)
    assert row is not None
    assert RunState.CANCELLED is row.state  # it waited, held by nobody; the other one's holder is asked


async def test_what_a_scheduler_holds_back_by_old_rules_is_woken_by_the_new_ones(
    stores: list[PostgresStore], operator: asyncpg.Connection
) -> None:
    """A change of rules waits until what is being decided is written."""
    make = Factory(await stores[0].now(), seed="rules")
    job = make.recurring(make.now)
    await stores[0].jobs.add([job])

    async def put() -> RuleRow:
        """Whoever is told that the store is busy sends it again."""
        while True:
            try:
                return await stores[1].rules.put(make.rule("closed"))
            except StoreUnavailable:
                continue

    async with taken(stores[0], DUE) as batch:
        before = batch.rules_version
        assert [job.job_id] == [timer.job_id for timer in batch.timers]
        changes = await held_back(operator, 1, put())
        held = TimerState(make.now + HOUR, make.now, Hold.CALENDAR)
        await batch.commit([make.fire(job.job_id, batch.timers[0].pending.due, held, runs=[])])
    await changes
    async with taken(stores[0], DUE) as batch:
        assert [job.job_id] == [timer.job_id for timer in batch.timers]
        assert before + 1 == batch.rules_version
    await drop_timer(stores[0], make, job.job_id)


async def test_a_job_that_somebody_changes_is_parked_in_the_next_round(
    stores: list[PostgresStore], operator: asyncpg.Connection
) -> None:
    """People lock the job before its timer, a scheduler has the timer already: it lets them go first."""
    make = Factory(await stores[0].now(), seed="park")
    job = make.recurring(make.now)
    await stores[0].jobs.add([job])
    transaction = operator.transaction()
    await transaction.start()
    await operator.execute(LOCK_JOB, job.job_id)
    made = []
    for locked in (True, False):
        async with taken(stores[0], DUE) as batch:
            [timer] = [timer for timer in batch.timers if timer.job_id == job.job_id]
            fire = make.fire(
                job.job_id, timer.pending.due, TimerState(make.now + HOUR), park="too many runs in a minute"
            )
            made.append(await batch.commit([fire]))
        if locked:
            await transaction.rollback()
    assert [0, 1] == made
    row = await stores[0].jobs.get("default", job.job_id)
    assert row is not None
    assert (JobStatus.PAUSED, "fuse") == (row.status, row.paused_by)


async def test_a_scheduler_that_stands_still_loses_what_it_has_taken(
    stores: list[PostgresStore], database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends its transaction after a while; another scheduler goes on, and the first one hears of it."""
    make = Factory(await stores[0].now(), seed="still")
    job = make.recurring(make.now)
    await stores[0].jobs.add([job])
    assert "30s" == HOT_SETTINGS["idle_in_transaction_session_timeout"]
    stopped = PostgresStore(database_url, clock=SystemClock())
    await stopped.open()
    async with contextlib.AsyncExitStack() as stack:

        async def takes() -> TakenBatch | None:
            """Again if the machine stood still while it took: then the server has ended its transaction already."""
            with contextlib.suppress(Unavailable):
                return await stack.enter_async_context(taken(stopped, DUE))
            return None

        with monkeypatch.context() as patched:  # of its session alone, which begins here
            patched.setitem(HOT_SETTINGS, "idle_in_transaction_session_timeout", "100ms")
            batch = await eventually(takes)
        [timer] = [timer for timer in batch.timers if timer.job_id == job.job_id]

        async def goes_on() -> bool:
            async with taken(stores[1], DUE) as other:
                mine = [each for each in other.timers if each.job_id == job.job_id]
                return await other.commit([make.fire(job.job_id, each.pending.due, None) for each in mine]) == 1

        await eventually(goes_on)
        with pytest.raises(Unavailable):
            await batch.commit([make.fire(job.job_id, timer.pending.due, None)])
    await stopped.close()


async def test_a_run_that_somebody_makes_while_its_timer_fires_does_not_put_the_timer_off(
    stores: list[PostgresStore], operator: asyncpg.Connection
) -> None:
    """Nothing is written, the timer stays where it is, and the next look goes on from the run that is there."""
    make = Factory(await stores[0].now(), seed="made twice")
    job = make.recurring(make.now)
    await stores[0].jobs.add([job])
    run = make.scheduled(job.job_id, make.now)
    transaction = operator.transaction()
    await transaction.start()
    await operator.execute(MAKE_RUN, run.run_id, job.job_id)

    async def fire() -> int:
        async with taken(stores[0], DUE) as batch:
            [timer] = [timer for timer in batch.timers if timer.job_id == job.job_id]
            return await batch.commit([make.fire(job.job_id, timer.pending.due, make.now + HOUR, runs=[run])])

    call = await held_back(operator, 1, fire())
    await transaction.commit()
    with pytest.raises(StoreUnavailable, match="nothing was written"):
        await call
    assert 0 == await fire()
    row = await stores[0].jobs.get("default", job.job_id)
    assert row is not None
    assert row.timer is not None
    assert make.now + HOUR == pytest.approx(row.timer.due)


async def test_a_run_that_is_postponed_while_its_job_is_paused_waits_for_the_end_of_the_pause(
    operator: asyncpg.Connection, stores: list[PostgresStore]
) -> None:
    """The pause has the job already when the request comes, and not yet the run."""
    make = Factory(await stores[0].now(), seed="postponed and paused")
    job = make.recurring(make.now + HOUR)
    await stores[0].jobs.add([job])
    run = make.scheduled(job.job_id, make.now + HOUR, nominal=make.now + HOUR / 2)
    await stores[0].runs.add("default", job.job_id, [run])
    pause = make.move(job.job_id, JobAction.PAUSE, postponed_after_seconds=0.0)
    async with operator.transaction():
        await operator.execute(LOCK_RUN, run.run_id)
        pausing = await held_back(operator, 1, stores[1].jobs.move(pause))
        postponed = RunPostpone("default", run.run_id, make.now + 2 * HOUR)
        postponing = await held_back(operator, 2, stores[2].runs.move(postponed))
    await asyncio.gather(pausing, postponing)
    row = await stores[0].runs.get("default", run.run_id)
    assert row is not None
    assert (row.ready_at, round(row.due_at - make.now)) == (None, round(2 * HOUR))
