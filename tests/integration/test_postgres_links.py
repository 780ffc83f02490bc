"""The store outlives its connections, and says truly what became of a write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio

from tests.support.databases import sessions_waiting
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.signals.postgres import PostgresSignals
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.domain.errors import InDoubt, StoreUnavailable
from tickwise.ports.signals import Topic
from tickwise.ports.store import Added, FireRequest
from tickwise.testing.factories import Factory, executor

KILL = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE application_name LIKE 'tickwise%' AND datname = current_database()
"""
DUE = FireRequest(horizon_seconds=1.0, limit=10)


@pytest_asyncio.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    await upgrade(database_url)
    store = PostgresStore(database_url, clock=SystemClock())
    await store.open()
    yield store
    await store.close()


@pytest_asyncio.fixture
async def operator(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody else at the same database."""
    connection = await asyncpg.connect(database_url, server_settings={"application_name": "operator"})
    yield connection
    await connection.close()


async def test_a_lost_connection_is_replaced(store: PostgresStore, operator: asyncpg.Connection) -> None:
    """Idle ones that were cut cost at most one failed call each."""
    born = await store.executor_join(executor("one"))
    assert (await store.executor_beat(born, 10.0)).alive
    assert await operator.fetchval(KILL) >= 1

    async def beats() -> bool:
        try:
            return (await store.executor_beat(born, 10.0)).alive
        except (InDoubt, StoreUnavailable):
            return False

    assert await eventually(beats, within_seconds=5.0)


async def test_a_write_whose_connection_is_cut_is_in_doubt_and_can_be_repeated(
    store: PostgresStore, operator: asyncpg.Connection
) -> None:
    """The caller sends the same again: twice is once."""
    job = Factory(await store.now(), seed="cut").job()
    await store.jobs_add([Factory(await store.now(), seed="lane").job()])
    transaction = operator.transaction()
    await transaction.start()
    await operator.execute("LOCK TABLE tickwise.runs IN EXCLUSIVE MODE")
    adding = asyncio.create_task(store.jobs_add([job]))
    await eventually(lambda: sessions_waiting(operator), what="the write waits for the lock")
    await operator.fetchval(KILL)
    with pytest.raises(InDoubt):
        await adding
    await transaction.rollback()
    assert await eventually(lambda: added(store, job)) in ([Added.CREATED], [Added.REPEATED])
    assert await store.job_get("default", job.job_id) is not None


async def added(store: PostgresStore, job: object) -> object:
    """The answer, once the store can be reached again."""
    try:
        return await store.jobs_add([job])  # type: ignore[list-item]  # whatever job the test made
    except (InDoubt, StoreUnavailable):
        return None


async def test_a_read_whose_connection_is_cut_wrote_nothing(store: PostgresStore, operator: asyncpg.Connection) -> None:
    """So there is no doubt about it."""
    transaction = operator.transaction()
    await transaction.start()
    await operator.execute("LOCK TABLE tickwise.keys IN ACCESS EXCLUSIVE MODE")
    reading = asyncio.create_task(store.keys_count())
    await eventually(lambda: sessions_waiting(operator), what="the read waits for the lock")
    await operator.fetchval(KILL)
    with pytest.raises(StoreUnavailable):
        await reading
    await transaction.rollback()


async def test_a_scheduler_that_dies_while_it_decides_leaves_its_timers(
    store: PostgresStore, operator: asyncpg.Connection
) -> None:
    """Another one takes them."""
    make = Factory(await store.now(), seed="fires")
    job = make.recurring(make.now)
    await store.jobs_add([job])
    async with store.fires(DUE) as batch:
        assert [timer.job_id for timer in batch.timers] == [job.job_id]
        await operator.fetchval(KILL)
        with pytest.raises((InDoubt, StoreUnavailable)):
            await batch.commit([make.fire(job.job_id, batch.timers[0].pending.due, make.now + 60.0)])

    async def taken() -> list[object]:
        try:
            async with store.fires(DUE) as batch:
                return [timer.job_id for timer in batch.timers]
        except StoreUnavailable:
            return []

    assert await eventually(taken) == [job.job_id]


async def test_a_ring_is_heard_in_other_processes_and_after_the_link_was_cut(
    database_url: str, operator: asyncpg.Connection
) -> None:
    """Each topic by those who listen for it."""
    here, there = PostgresSignals(database_url, SystemClock()), PostgresSignals(database_url, SystemClock())
    runs, cancels, own = there.listen(Topic.RUNS), there.listen(Topic.CANCELS), here.listen(Topic.RUNS)
    for signals in (here, there):
        await signals.start()
    await asyncio.wait_for(cancels.wait(), 10.0)  # a new link wakes everybody once
    for cut in (False, True):
        if cut:
            assert await operator.fetchval(KILL) >= 2
            cancels.clear()
            await asyncio.wait_for(cancels.wait(), 10.0)

        def heard() -> bool:
            here.send(Topic.RUNS)
            return runs.is_set()

        for event in (runs, cancels, own):
            event.clear()
        here.send(Topic.RUNS)
        assert own.is_set()
        assert await eventually(heard)
        assert not cancels.is_set()
    for signals in (here, there):
        await signals.stop()


async def test_a_bell_without_a_server_is_silent_and_harmless() -> None:
    """Its own listeners hear it all the same."""
    signals = PostgresSignals("postgresql://nobody:secret@127.0.0.1:1/none", SystemClock())
    await signals.start()
    event = signals.listen(Topic.TIMERS)
    signals.send(Topic.TIMERS)
    assert event.is_set()
    await signals.stop()
