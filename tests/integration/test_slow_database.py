"""A database that is slower than the load: what waits is bounded, callers are told, and all goes on by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import httpx2
import pytest_asyncio

from tests.support.app import API, World, world
from tests.support.databases import sessions_waiting
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade

WAITING_MOST = 20
JOB = {"name": "a", "schedule_type": "FUTURE", "schedule_time": "2199-01-01T00:00:00Z"}
COUNT = "SELECT count(*) FROM tickwise.jobs"


@pytest_asyncio.fixture
async def here(database_url: str) -> AsyncIterator[World]:
    """The API on PostgreSQL; few submits may wait."""
    await upgrade(database_url)
    async with world(store=PostgresStore(database_url, clock=SystemClock())) as made:
        made.control._gatherer._waiting_max = WAITING_MOST
        yield made


async def submit(here: World) -> httpx2.Response:
    return await here.client.post(f"{API}/jobs", json={**JOB, "task": {"kind": "shell", "command": "true"}})


async def test_submits_beyond_what_may_wait_are_told_to_come_back(here: World, database_url: str) -> None:
    """429 at once with Retry-After while the store takes nothing; what had been let in is stored, once, and the next
    submit is as ever."""
    session = await asyncpg.connect(database_url)
    # The first asks whatever is asked once (keys, the store's time), so that the others only wait for the write.
    assert 201 == (await submit(here)).status_code
    transaction = session.transaction()
    await transaction.start()
    await session.execute("LOCK TABLE tickwise.jobs IN ACCESS EXCLUSIVE MODE")
    writing = asyncio.create_task(submit(here))
    await eventually(lambda: sessions_waiting(session), what="a write waits for the lock")
    others = [asyncio.create_task(submit(here)) for _ in range(WAITING_MOST + 30)]
    await eventually(lambda: sum(each.done() for each in others) == 30, what="those beyond the bound are answered")
    refused = [each.result() for each in others if each.done()]
    assert {(429, "busy", "1")} == {
        (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) for answer in refused
    }
    await transaction.rollback()
    stored = await asyncio.gather(writing, *(each for each in others if not each.done()))
    assert [201] * (1 + WAITING_MOST) == [answer.status_code for answer in stored]
    assert 201 == (await submit(here)).status_code
    assert 1 + 1 + WAITING_MOST + 1 == await session.fetchval(COUNT)
    await session.close()


async def test_batches_that_wait_are_bounded_by_their_bytes(here: World, database_url: str) -> None:
    """A second batch is refused while the first, which leaves no room beside it, waits for the store; then it is
    taken."""
    session = await asyncpg.connect(database_url)
    before = await session.fetchval(COUNT)
    here.control._gatherer.room._most = 1_000
    body = [{**JOB, "task": {"kind": "shell", "command": "true"}}] * 10

    async def batch() -> int:
        return (await here.client.post(f"{API}/jobs:batch", json=body)).status_code

    assert 200 == await batch()
    transaction = session.transaction()
    await transaction.start()
    await session.execute("LOCK TABLE tickwise.jobs IN ACCESS EXCLUSIVE MODE")
    writing = asyncio.create_task(batch())
    await eventually(lambda: sessions_waiting(session), what="a write waits for the lock")
    assert 429 == await batch()
    await transaction.rollback()
    assert [200, 200] == [await writing, await batch()]
    assert before + 30 == await session.fetchval(COUNT)
    await session.close()
