"""A batch of timers leaks nothing: neither its transaction nor its connection outlives it, whatever its caller does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import count

import asyncpg
import pytest
import pytest_asyncio

from tests.support.databases import sessions_waiting
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.adapters.store.postgres.connection import batches
from tickwise.domain.errors import Invalid, StoreUnavailable
from tickwise.domain.model import run_id
from tickwise.ports.store import FireRequest, NewJob
from tickwise.testing.factories import Factory

pytestmark = pytest.mark.usefixtures("patient_locks")

DUE = FireRequest(horizon_seconds=1.0, limit=100)
HOUR = 3_600.0
OPEN = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
_seeds = count()
LOCK_TIMERS = "LOCK TABLE tickwise.timers IN ACCESS EXCLUSIVE MODE"


@pytest_asyncio.fixture
async def operator(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody else at the same database."""
    await upgrade(database_url)
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


@pytest_asyncio.fixture
async def stores(database_url: str, operator: asyncpg.Connection) -> AsyncIterator[list[PostgresStore]]:
    """Two clients of one database."""
    both = [PostgresStore(database_url, clock=SystemClock()) for _ in range(2)]
    for store in both:
        await store.open()
    yield both
    for store in both:
        await store.close()


@pytest_asyncio.fixture
async def job(stores: list[PostgresStore], make: Factory) -> NewJob:
    """A job whose timer is due."""
    job = make.recurring(make.now)
    await stores[0].jobs.add([job])
    return job


@pytest_asyncio.fixture
async def make(stores: list[PostgresStore]) -> Factory:
    """Makes jobs."""
    return Factory(await stores[0].now(), seed=f"batches {next(_seeds)}")


async def takes(store: PostgresStore, job: NewJob) -> bool:
    """Whether a scheduler gets the timer of this job; it releases what it got."""
    batch = await store.timers.take(DUE)
    await store.timers.release(batch.batch_id)
    return job.job_id in [timer.job_id for timer in batch.timers]


async def test_a_batch_that_nobody_ends_is_over_after_its_time(
    stores: list[PostgresStore], job: NewJob, make: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others take its timers; a late commit fires nothing; its client takes timers on a connection as before."""
    monkeypatch.setattr(batches, "BATCH_SECONDS", 0.05)
    batch = await stores[0].timers.take(DUE)
    assert job.job_id in [timer.job_id for timer in batch.timers]

    async def others_take() -> bool:
        return await takes(stores[1], job)

    await eventually(others_take)
    with pytest.raises(StoreUnavailable):
        await stores[0].timers.commit(batch.batch_id, [make.fire(job.job_id, make.now, make.now + HOUR)])
    monkeypatch.setattr(batches, "BATCH_SECONDS", 60.0)  # else this one could be over before its commit, too
    again = await stores[0].timers.take(DUE)
    assert 1 == await stores[0].timers.commit(again.batch_id, [make.fire(job.job_id, make.now, make.now + HOUR)])


async def test_a_take_that_is_cancelled_holds_nothing(
    stores: list[PostgresStore], operator: asyncpg.Connection, job: NewJob
) -> None:
    """Its caller gave up while the statement was under way."""
    transaction = operator.transaction()
    await transaction.start()
    await operator.execute(LOCK_TIMERS)
    taking = asyncio.create_task(stores[0].timers.take(DUE))
    await eventually(lambda: sessions_waiting(operator), what="the take waits for the lock")
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    await transaction.rollback()

    async def all_free() -> bool:
        return await takes(stores[1], job)

    await eventually(all_free)
    assert await takes(stores[0], job)


async def test_a_commit_that_is_cancelled_holds_nothing(
    stores: list[PostgresStore], operator: asyncpg.Connection, job: NewJob, make: Factory
) -> None:
    """Its caller gave up while the statement was under way: the timers are free, and nothing was fired."""
    batch = await stores[0].timers.take(DUE)
    transaction = operator.transaction()
    await transaction.start()
    await operator.execute("LOCK TABLE tickwise.runs IN ACCESS EXCLUSIVE MODE")
    fire = make.fire(job.job_id, make.now, make.now + HOUR)
    committing = asyncio.create_task(stores[0].timers.commit(batch.batch_id, [fire]))
    await eventually(lambda: sessions_waiting(operator), what="the commit waits for the lock")
    committing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await committing
    await transaction.rollback()

    async def all_free() -> bool:
        return await takes(stores[1], job)

    await eventually(all_free)
    assert await stores[1].runs.get("default", run_id(job.job_id, make.now)) is None


async def test_a_commit_that_the_store_refuses_ends_the_batch(
    stores: list[PostgresStore], operator: asyncpg.Connection, job: NewJob, make: Factory
) -> None:
    """Its transaction is over without a release, and others take the timers."""
    batch = await stores[0].timers.take(DUE)
    wrong = make.fire(job.job_id, make.now, make.now + HOUR, park="a \0 that PostgreSQL cannot keep")
    with pytest.raises(Invalid):
        await stores[0].timers.commit(batch.batch_id, [wrong])
    assert 0 == await operator.fetchval(OPEN)
    assert await takes(stores[1], job)


async def test_a_batch_without_timers_leaves_no_transaction(
    stores: list[PostgresStore], operator: asyncpg.Connection
) -> None:
    """Nobody has to end it: a look that found nothing costs no connection."""
    batch = await stores[0].timers.take(FireRequest(horizon_seconds=-HOUR, limit=10))
    assert not batch.timers
    assert 0 == await operator.fetchval(OPEN)


async def test_a_store_that_is_closed_ends_its_batches(
    stores: list[PostgresStore], database_url: str, operator: asyncpg.Connection, job: NewJob
) -> None:
    """At once: it does not wait for a caller that is gone."""
    leaving = PostgresStore(database_url, clock=SystemClock())
    await leaving.open()
    assert (await leaving.timers.take(DUE)).timers
    await leaving.close()

    async def none_open() -> bool:
        return bool(await operator.fetchval(OPEN) == 0)

    await eventually(none_open)
    assert await takes(stores[0], job)
