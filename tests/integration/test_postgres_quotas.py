"""Quotas of one namespace hold up nobody else: neither fires of other namespaces, nor people who change its jobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from typing import TypeVar

import asyncpg
import pytest
import pytest_asyncio

from tests.support.databases import sessions_waiting
from tests.support.waiting import eventually
from tests.unit.roles.rig import Silent
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.signals.local import LocalSignals
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.domain.lifecycle import RunState
from tickwise.domain.quotas import Quotas
from tickwise.ports.identity.namespaces import NewNamespace
from tickwise.ports.store import Added, FireBatch, FireRequest, JobChange, NewJob, Retention, RunQuery
from tickwise.roles.scheduler.role import Scheduler, SchedulerSettings
from tickwise.testing.factories import Factory

pytestmark = pytest.mark.usefixtures("patient_locks")

EACH_MINUTE = '{"schedule_type":"CRON","cron_expression":"* * * * *","task":{"kind":"scripted"}}'
SOON_SECONDS = 30.0
"""What is held is let go only afterwards, and stores wait for it for a minute here: who waits is found."""
"""The time in which what waits for nobody is done, on a busy machine. A wait for a lock ends after four seconds."""
HOLD_RUNS = "UPDATE tickwise.quota_use SET runs = runs WHERE namespace = $1"
HOLD_SIZES = "UPDATE tickwise.quota_sizes SET jobs = jobs WHERE namespace = $1"
HOUR = 3_600.0
Answer = TypeVar("Answer")
_numbers = count()


@pytest_asyncio.fixture
async def operator(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody else at the same database."""
    await upgrade(database_url)
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


@pytest.fixture
def team() -> str:
    """A namespace with quotas."""
    return f"team-{next(_numbers)}"


@pytest.fixture
def others() -> str:
    """Another one."""
    return f"others-{next(_numbers)}"


@pytest_asyncio.fixture
async def store(
    database_url: str, operator: asyncpg.Connection, team: str, others: str
) -> AsyncIterator[PostgresStore]:
    """A store in which two namespaces have quotas, and nothing is due."""
    await operator.execute("DELETE FROM tickwise.timers")
    store = PostgresStore(database_url, clock=SystemClock())
    await store.open()
    for name in (team, others):
        row = await store.namespaces.add(NewNamespace(name=name, display_name=name, created_by="ada"))
        await store.namespaces.change(replace(row, quotas=Quotas(jobs=100_000, runs_per_day=1_000_000)))
    yield store
    await store.close()


@pytest_asyncio.fixture
async def make(store: PostgresStore) -> Factory:
    """Makes jobs."""
    return Factory(await store.now(), seed=f"quotas {next(_numbers)}")


def scheduler_on(store: PostgresStore, batch: int = 1000) -> Scheduler:
    """A scheduler of its own."""
    return Scheduler(
        store=store,
        blobs=open_blobs("memory://"),
        signals=LocalSignals(),
        clock=SystemClock(),
        settings=SchedulerSettings(retention=Retention(runs_seconds=86_400, failed_seconds=86_400), batch=batch),
        telemetry=Silent(),
    )


def due_now(make: Factory, namespace: str, **fields: str) -> NewJob:
    """A cron job that is due."""
    return make.recurring(make.now - 1.0, namespace=namespace, **{"definition": EACH_MINUTE, **fields})


async def fired(store: PostgresStore, namespace: str) -> int:
    """The number of runs that wait in a namespace."""
    return len(await store.searches.runs(RunQuery(namespace=namespace, states=(RunState.QUEUED,), limit=100)))


async def soon(what: Awaitable[Answer]) -> Answer:
    """The answer of a call that must wait for nobody."""
    async with asyncio.timeout(SOON_SECONDS):
        return await what


@asynccontextmanager
async def held(operator: asyncpg.Connection, namespace: str, how: str = HOLD_RUNS) -> AsyncIterator[None]:
    """Another transaction is just adding to a namespace."""
    transaction = operator.transaction()
    await transaction.start()
    assert await operator.execute(how, namespace) == "UPDATE 1"
    try:
        yield
    finally:
        await transaction.rollback()


@pytest.mark.parametrize("batch", [100, 1])
async def test_a_quota_in_use_delays_no_fire_of_another_namespace(
    store: PostgresStore, team: str, others: str, operator: asyncpg.Connection, make: Factory, batch: int
) -> None:
    """Neither where timers of both are taken together, nor where one batch has room for those of the first alone. Its
    own fires come as soon as its quota is free."""
    await store.jobs.add([make.job(namespace=team)])  # so that the day has a count
    await store.jobs.add([due_now(make, team) for _ in range(3)])
    await store.jobs.add([make.recurring(make.now - 0.5, namespace=others, definition=EACH_MINUTE)])
    scheduler = scheduler_on(store, batch)
    before = await fired(store, team)
    async with held(operator, team):
        await soon(scheduler.tick())
        assert await fired(store, others) > 0
        assert await fired(store, team) == before

    async def fire() -> bool:
        await scheduler.tick()
        return await fired(store, team) >= before + 3

    await eventually(fire)
    use = await store.quotas.use(team)
    assert use.runs_today == await fired(store, team)


async def test_additions_that_wait_for_each_other_put_off_no_fire(
    store: PostgresStore, team: str, operator: asyncpg.Connection, make: Factory
) -> None:
    """They take turns before they count their runs, so a scheduler finds the runs of the day free between two."""
    job = make.recurring(make.now + HOUR, namespace=team)
    await store.jobs.add([job, due_now(make, team)])
    async with held(operator, team, HOLD_SIZES):
        adding = [
            asyncio.create_task(store.runs.add(team, job.job_id, [make.run(job.job_id)])),
            asyncio.create_task(store.jobs.add([make.job(namespace=team)])),
        ]
        await eventually(_waiting(operator, 2), what="both additions wait for the one before")
        await soon(scheduler_on(store).tick())
        assert await fired(store, team) > 0
    assert await soon(asyncio.gather(*adding)) == [True, [Added.CREATED]]
    assert (await store.quotas.use(team)).runs_today == await fired(store, team)


async def test_an_edit_a_run_now_and_a_fire_of_one_job_do_not_wait_in_a_circle(
    store: PostgresStore, team: str, operator: asyncpg.Connection, make: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler has the timer, the edit the job and waits for the timer, the run now waits for the job: the
    scheduler waits for neither."""
    job = due_now(make, team)
    await store.jobs.add([job])
    row = await store.jobs.get(team, job.job_id)
    assert row is not None
    change: JobChange = make.change(row, name="another", definition=EACH_MINUTE + " " * 100)
    waiting: list[asyncio.Task[object]] = []
    take = store.timers.take

    async def take_first(request: FireRequest) -> FireBatch:
        found = await take(request)
        if found.timers and not waiting:
            waiting.append(asyncio.create_task(store.jobs.change(change)))
            await eventually(_waiting(operator, 1), what="the edit waits for the timer")
            waiting.append(asyncio.create_task(store.runs.add(team, job.job_id, [make.run(job.job_id)])))
            await eventually(_waiting(operator, 2), what="the run now waits for the job")
        return found

    monkeypatch.setattr(store.timers, "take", take_first)
    await scheduler_on(store).tick()
    edited, asked = await soon(asyncio.gather(*waiting))
    assert (getattr(edited, "name", None), asked) == ("another", True)
    assert await fired(store, team) >= 2
    assert (await store.quotas.use(team)).runs_today == await fired(store, team)


async def test_a_request_for_runs_counts_no_jobs(
    store: PostgresStore, team: str, operator: asyncpg.Connection, make: Factory
) -> None:
    """A count reads all jobs and stored tasks of the namespace; a run needs neither number."""
    job = make.recurring(make.now + HOUR, namespace=team)
    await store.jobs.add([job])
    await operator.execute("UPDATE tickwise.quota_use SET counted = '-infinity'")
    transaction = operator.transaction()
    await transaction.start()
    await operator.execute("LOCK TABLE tickwise.tasks IN ACCESS EXCLUSIVE MODE")
    assert await soon(store.runs.add(team, job.job_id, [make.run(job.job_id)])) is True
    assert await soon(store.jobs.add([make.job(namespace=team)])) == [Added.CREATED]
    await transaction.rollback()


def _waiting(operator: asyncpg.Connection, sessions: int) -> Callable[[], Awaitable[bool]]:
    """Check that so many sessions wait for locks."""

    async def look() -> bool:
        return await sessions_waiting(operator) >= sessions

    return look
