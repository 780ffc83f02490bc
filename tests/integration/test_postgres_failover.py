"""A standby that had not got everything is promoted, a dump is restored, a disk is set back: tokens still grow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio

from tests.support import databases, standby
from tests.support.standby import Pair
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.domain.errors import InDoubt, Unavailable
from tickwise.domain.fencing import epoch_of
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed, Lane
from tickwise.ports.feed import RunChanges
from tickwise.ports.store import ClaimRequest, EpochCause
from tickwise.testing import factories
from tickwise.testing.factories import Factory

pytestmark = pytest.mark.usefixtures("patient_locks", "patient_beats")

LEASE = 3600.0
ROLES = 8
"""Processes that come back at the same time."""


@asynccontextmanager
async def opened(url: str, count: int = 1) -> AsyncIterator[Sequence[PostgresStore]]:
    """Stores as so many processes have them."""
    stores = [PostgresStore(url, clock=SystemClock()) for _ in range(count)]
    for store in stores:
        await store.open()
    yield stores
    for store in stores:
        await store.close()


async def claim(store: PostgresStore, executor: int, limit: int = 1) -> Sequence[Claimed]:
    """From the queue that everybody serves, and a new one."""
    queues = ("default", "new")
    request = ClaimRequest(executor=executor, queues=queues, labels=(), limit=limit, ahead_seconds=0.0)
    return await store.attempts.claim(request)


async def back(store: PostgresStore) -> float:
    """The store answers again."""

    async def look() -> float | None:
        try:
            return await store.now()
        except Unavailable:
            return None

    return await eventually(look, what="the promoted server answers")


class Lost:
    """What was acknowledged on the primary after its standby's stream was cut."""

    def __init__(self) -> None:
        self.pair: Pair
        self.kept: Claimed
        self.claimed: Claimed
        self.executor = 0
        self.lost_executor = 0
        self.rules = 0


@asynccontextmanager
async def failed_over() -> AsyncIterator[tuple[Lost, Sequence[PostgresStore], Factory]]:
    """The stores of some processes, whose primary is gone, and whose standby was promoted without its last writes."""
    lost = Lost()
    async with standby.pair() as pair:
        await upgrade(pair.primary)
        lost.pair = pair
        async with opened(pair.both, ROLES) as stores:
            store = stores[0]
            make = Factory(await store.now(), seed="failover")
            await store.jobs.add([make.job() for _ in range(3)])
            lost.executor = await store.executors.join(factories.executor(lease_seconds=LEASE))
            [lost.kept] = await claim(store, lost.executor)
            await pair.caught_up()
            await pair.follower.cut()
            assert [] == await store.attempts.finish(lost.executor, [factories.outcome(lost.kept)])
            [lost.claimed] = await claim(store, lost.executor)
            lost.lost_executor = await store.executors.join(factories.executor(lease_seconds=LEASE))
            await store.rules.put(make.rule(), expected_version=None)
            lost.rules, _ = await store.rules.all()
            await store.jobs.add([make.job(lane=Lane("new"))])
            for other in stores:
                await other.runs.unblock()  # so that each has a connection that is going to break
            await pair.lose_primary()
            await pair.follower.promote()
            yield lost, stores, make


@pytest.mark.takes_up_to(180.0)
async def test_a_promoted_standby_begins_one_epoch_above_all_that_was_lost() -> None:
    """However many processes come back at once: tokens and versions of rules go on growing, what
    a lost executor held is free, and a lane that was lost is made anew."""
    async with failed_over() as (lost, stores, make):
        store = stores[0]
        await asyncio.gather(*map(back, stores))
        told, first = await store.epochs.all()
        assert (EpochCause.PROMOTED, EpochCause.FIRST) == (told.cause, first.cause)
        assert (1, 2) == (first.timeline, told.timeline)
        beats = [await each.executors.beat(lost.executor, LEASE) for each in stores]
        assert {(True, told.epoch)} == {(beat.alive, beat.epoch) for beat in beats}
        assert not (await store.executors.beat(lost.lost_executor, LEASE)).alive
        assert {lost.kept.run_id: lost.kept.token} == dict(await store.held.tokens(lost.executor, lost.claimed.token))
        assert lost.rules < (await store.rules.all())[0]
        for each in stores:
            # Whatever lanes a process knew: what it stores now is found.
            await each.jobs.add([make.job(lane=Lane("new"))])
        claims = await claim(store, lost.executor, limit=100)
        assert 2 + ROLES == len(claims)
        assert {told.epoch} == {epoch_of(claimed.token) for claimed in claims}
        assert lost.claimed.token < min(claimed.token for claimed in claims)
        assert [] == await store.attempts.finish(lost.executor, [factories.outcome(lost.kept)])
        row = await store.runs.get("default", lost.kept.run_id)
        assert row is not None
        assert RunState.SUCCESS is row.state


@pytest.mark.takes_up_to(180.0)
async def test_a_reader_of_changes_is_told_that_some_may_be_lost() -> None:
    """By a promoted standby that had not got everything; what comes after that is complete."""
    async with standby.pair() as pair:
        await upgrade(pair.primary)
        async with opened(pair.both) as [store]:
            make = Factory(await store.now(), seed="feed")
            place = await store.feed.watch()
            kept, gone, new = make.job(), make.job(), make.job()
            await store.jobs.add([kept])
            await pair.caught_up()
            await pair.follower.cut()
            await store.jobs.add([gone])
            page = await store.feed.since(place)
            assert [[kept.run_id], [gone.run_id]] == [runs_of(changes) for changes in page.changes]
            await pair.lose_primary()
            await pair.follower.promote()
            await back(store)
            lost = await store.feed.since(page.place)
            assert (True, []) == (lost.lost, list(lost.changes))
            await store.feed.watch()
            await store.jobs.add([new])
            after = await store.feed.since(lost.place)
            assert (False, [[new.run_id]]) == (after.lost, [runs_of(changes) for changes in after.changes])


def runs_of(changes: RunChanges) -> list[UUID]:
    """The runs of a batch."""
    return [UUID(bytes=run) for run in changes.runs.each()]


@pytest_asyncio.fixture
async def database_url(postgres_url: str) -> AsyncIterator[str]:
    """A database for one test alone: each leaves epochs behind."""
    async with databases.database(postgres_url) as url:
        yield url


async def restored(url: str, change: str) -> None:
    """What an operator does beside the product, as the owner of the database."""
    connection = await asyncpg.connect(url)
    await connection.execute(change)
    await connection.close()


async def worked(url: str) -> tuple[int, Claimed]:
    """An executor and a claim of its."""
    async with opened(url) as [store]:
        make = Factory(await store.now(), seed="worked")
        await store.jobs.add([make.job(), make.job()])
        executor = await store.executors.join(factories.executor(lease_seconds=LEASE))
        [claimed] = await claim(store, executor)
        return executor, claimed


async def test_a_copy_of_a_database_is_another_store(postgres_url: str, database_url: str) -> None:
    """A dump that was restored into a new database: found out by itself, by the first process that connects."""
    await upgrade(database_url)
    executor, claimed = await worked(database_url)
    original = urlsplit(database_url).path.removeprefix("/")
    name = f"{original}_copy"
    server = await asyncpg.connect(postgres_url)
    await server.execute(f"CREATE DATABASE {name} TEMPLATE {original}")
    try:
        async with opened(databases.with_database(database_url, name)) as [store]:
            told, _ = await store.epochs.all()
            assert EpochCause.RESTORED is told.cause
            [again] = await claim(store, executor)
            assert claimed.token < again.token
            assert told.epoch == epoch_of(again.token)
    finally:
        await server.execute(f"DROP DATABASE {name}")
        await server.close()
    async with opened(database_url) as [store]:
        assert [EpochCause.FIRST] == [epoch.cause for epoch in await store.epochs.all()]


async def test_the_same_server_is_the_same_store(database_url: str) -> None:
    """However often processes come and go: no epoch begins without a reason."""
    await upgrade(database_url)
    await worked(database_url)
    for _ in range(3):
        async with opened(database_url, 3) as stores:
            await asyncio.gather(*(store.now() for store in stores))
            [epoch] = await stores[0].epochs.all()
    assert (EpochCause.FIRST, 0, False) == (epoch.cause, epoch.epoch, epoch.lost_writes)


async def test_a_store_that_knows_less_than_a_process_has_seen_begins_an_epoch(database_url: str) -> None:
    """A disk that was set back tells nothing by itself: the highest token that somebody saw does."""
    await upgrade(database_url)
    async with opened(database_url) as [store]:
        make = Factory(await store.now(), seed="disk")
        await store.jobs.add([make.job() for _ in range(10)])
        executor = await store.executors.join(factories.executor(lease_seconds=LEASE))
        for _ in range(5):
            [seen] = await claim(store, executor)
        await restored(database_url, "SELECT setval('tickwise.fence', 2)")
        # The connection is still the one of before, so only the token itself can tell.
        with pytest.raises(InDoubt, match="set back"):
            await claim(store, executor)
        with pytest.raises(Unavailable, match="ask again"):
            await claim(store, executor)
        [again] = await claim(store, executor)
        told, _ = await store.epochs.all()
        assert (EpochCause.WENT_BACK, True, True) == (told.cause, told.lost_tokens, told.lost_writes)
        assert seen.token < again.token


async def test_a_heartbeat_notices_it_too(database_url: str) -> None:
    """Through a pooler that hands out another server under the same connection."""
    await upgrade(database_url)
    async with opened(database_url) as [store]:
        executor = await store.executors.join(factories.executor(lease_seconds=LEASE))
        before = (await store.executors.beat(executor, LEASE)).epoch
        await restored(database_url, "UPDATE tickwise.epochs SET timeline = timeline + 1")
        after = (await store.executors.beat(executor, LEASE)).epoch
        assert before < after
        assert after == (await store.executors.beat(executor, LEASE)).epoch
        assert [EpochCause.PROMOTED, EpochCause.FIRST] == [epoch.cause for epoch in await store.epochs.all()]


async def test_a_server_that_does_not_tell_what_it_is_changes_nothing(database_url: str) -> None:
    """Some hosted ones do not: then members and operators tell."""
    await upgrade(database_url)
    await restored(database_url, "UPDATE tickwise.epochs SET timeline = NULL, system_id = NULL")
    async with opened(database_url) as [store]:
        assert 1 == len(await store.epochs.all())


async def test_many_processes_that_notice_it_at_once_begin_one_epoch(database_url: str) -> None:
    """The first does; the others see it."""
    await upgrade(database_url)
    await restored(database_url, "UPDATE tickwise.epochs SET timeline = timeline + 1")

    async def come() -> int:
        async with opened(database_url) as [store]:
            return (await store.epochs.all())[0].epoch

    gate = await asyncpg.connect(database_url)
    async with gate.transaction():
        await gate.execute("LOCK TABLE tickwise.epochs IN SHARE ROW EXCLUSIVE MODE")
        coming = asyncio.gather(*(come() for _ in range(ROLES)))

        async def all_wait() -> bool:
            return await databases.sessions_waiting(gate) == ROLES

        await eventually(all_wait, what="all have noticed it")
    seen = await coming
    await gate.close()
    async with opened(database_url) as [store]:
        assert 2 == len(await store.epochs.all())
    assert {1} == set(seen)


async def test_an_executor_that_may_do_little_begins_an_epoch_too(postgres_url: str, database_url: str) -> None:
    """A role without rights on the tables of epochs, and none to set a sequence."""
    await upgrade(database_url)
    server: Any = await asyncpg.connect(postgres_url)
    await server.execute("CREATE ROLE tickwise_little LOGIN PASSWORD 'secret'")
    try:
        await restored(database_url, "GRANT USAGE ON SCHEMA tickwise TO tickwise_little")
        await restored(database_url, "UPDATE tickwise.epochs SET timeline = timeline + 1")
        little = await asyncpg.connect(databases.with_role(database_url, "tickwise_little", "secret"))
        assert 1 == await little.fetchval("SELECT tickwise.epoch(0, NULL)")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await little.execute("DELETE FROM tickwise.epochs")
        await little.close()
    finally:
        await restored(database_url, "REVOKE ALL ON SCHEMA tickwise FROM tickwise_little")
        await server.execute("DROP ROLE tickwise_little")
        await server.close()
