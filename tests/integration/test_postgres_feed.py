"""The feed on a real server: transactions that commit in any order, plans, rights, and the first reader of all."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import asyncpg
import pytest
import pytest_asyncio

from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.adapters.store.postgres.queue.new_runs import make_runs
from tickwise.domain.feed import FeedPlace
from tickwise.domain.model import Trigger
from tickwise.ports.feed import FeedPage
from tickwise.ports.store import NewRun

JOB = """
    INSERT INTO tickwise.jobs (created, updated, job_id, lane, lasting, recurring, namespace, name, schedule_type,
                               task_kind, created_by, definition)
    VALUES (now(), now(), $1, 1, true, false, 'default', 'a', 'ON_DEMAND', 'function', 'test', '')"""
SECONDS = 60.0


@pytest_asyncio.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    """An open store."""
    await upgrade(database_url)
    made = PostgresStore(database_url, clock=SystemClock())
    await made.open()
    yield made
    await made.close()


class Writer:
    """A session with a transaction of its own."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection
        self.transaction = connection.transaction()
        self.runs: set[UUID] = set()

    @classmethod
    async def begin(cls, url: str) -> Writer:
        """A transaction that has written one run."""
        made = cls(await asyncpg.connect(url))
        await made.transaction.start()
        await made.make()
        return made

    async def make(self) -> None:
        """One more run."""
        run = uuid4()
        await self.connection.execute(JOB, run)
        assert 1 == await make_runs(self.connection, [(run, NewRun(run, time.time(), Trigger.RUN_NOW))])
        self.runs.add(run)

    async def end(self, *, commits: bool = True) -> set[UUID]:
        """The runs that are there because of it."""
        await (self.transaction.commit() if commits else self.transaction.rollback())
        await self.connection.close()
        return self.runs if commits else set()


def runs_of(page: FeedPage) -> list[UUID]:
    """The runs of a page, in its order."""
    return [UUID(bytes=run) for changes in page.changes for run in changes.runs.each()]


async def test_a_late_commit_is_read_late(store: PostgresStore, database_url: str) -> None:
    """It began first, and holds up nobody: what was committed meanwhile is read at once, and it when it is there."""
    place = await store.feed.watch()
    late = await Writer.begin(database_url)
    quick = await (await Writer.begin(database_url)).end()
    page = await store.feed.since(place)
    assert quick == set(runs_of(page))
    assert [] == runs_of(await store.feed.since(page.place))
    runs = await late.end()
    after = await store.feed.since(page.place)
    assert runs == set(runs_of(after))
    assert [] == runs_of(await store.feed.since(after.place))


@pytest.mark.parametrize("seed", range(6))
async def test_each_commit_is_read_once_in_any_order(store: PostgresStore, database_url: str, seed: int) -> None:
    """Transactions are under way for any time beside each other, some are rolled back; readers look in between, with
    pages of any size, and one begins anew from the text of each place that there was."""
    drawn = random.Random(seed)
    first = await store.feed.watch()
    place, places = first, [first]
    writers: list[Writer] = []
    committed: set[UUID] = set()
    got: list[UUID] = []
    for _ in range(80):
        kind = drawn.randrange(5)
        if kind < 2 or not writers:
            writers.append(await Writer.begin(database_url))
        elif kind == 2:
            await drawn.choice(writers).make()
        else:
            writer = writers.pop(drawn.randrange(len(writers)))
            committed |= await writer.end(commits=drawn.random() < 0.8)
        if drawn.random() < 0.5:
            page = await store.feed.since(place, limit=1 + drawn.randrange(4))
            assert not page.lost
            got += runs_of(page)
            place = page.place
            places.append(place)
    for writer in writers:
        committed |= await writer.end()
    got += await rest(store, place, limit=2)
    assert len(got) == len(set(got)), f"seed {seed}: something was read twice"
    assert committed == set(got), f"seed {seed}: something was missed, or never was"
    before: set[UUID] = set()
    for number, each in enumerate(places):
        if number % 7 == 0:
            found = await rest(store, each, limit=3)
            assert len(found) == len(set(found))
            assert before.isdisjoint(found) or number == 0
            assert committed == set(found) | (committed - set(found))
    assert committed == set(await rest(store, first, limit=1))


async def rest(store: PostgresStore, place: FeedPlace, *, limit: int) -> list[UUID]:
    """All that comes after a place."""
    found: list[UUID] = []
    while True:
        page = await store.feed.since(place, limit=limit)
        assert not page.lost
        found += runs_of(page)
        place = page.place
        if not page.more:
            return found


async def test_the_first_reader_waits_for_what_is_under_way(store: PostgresStore, database_url: str) -> None:
    """A transaction that wrote while nobody watched may not have noted it: its commit comes before the reader's
    place."""
    await forget_readers(database_url)
    writer = await Writer.begin(database_url)
    watching = asyncio.create_task(store.feed.watch())

    async def noted() -> bool:
        return await is_watched(database_url)

    await eventually(noted, what="changes are noted")
    assert not watching.done()
    await writer.make()  # from now on it is noted
    await writer.end()
    place = await asyncio.wait_for(watching, SECONDS)
    assert [] == runs_of(await store.feed.since(place))


async def forget_readers(url: str) -> None:
    """As if nobody had ever watched."""
    connection = await asyncpg.connect(url)
    await connection.execute("DELETE FROM tickwise.feed_watch")
    await connection.close()


async def is_watched(url: str) -> bool:
    """Whether changes are noted by now."""
    connection = await asyncpg.connect(url)
    try:
        return bool(await connection.fetchval("SELECT count(*) FROM tickwise.feed_watch WHERE until > now()"))
    finally:
        await connection.close()


async def test_a_long_transaction_of_somebody_else_does_not_stop_the_first_reader(
    store: PostgresStore, database_url: str
) -> None:
    """It is waited for, and then not any more: what it wrote before may be missing, and nothing else is."""
    await forget_readers(database_url)
    writer = await Writer.begin(database_url)
    place = await asyncio.wait_for(store.feed.watch(), SECONDS)
    before = set(writer.runs)
    await writer.make()
    runs = await writer.end()
    assert runs - before == set(runs_of(await store.feed.since(place)))
