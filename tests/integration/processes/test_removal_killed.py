"""A namespace is removed while the schedulers that carry it out are killed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from tests.integration.processes.fleet import KEY, Fleet
from tests.support.waiting import eventually
from tickwise.adapters.store.postgres import upgrade

JOBS = 3_000
PLACES = (JOBS // 3, 2 * JOBS // 3, JOBS - 1)
"""Jobs beyond which no scheduler gets that is to be killed, however late the kill comes."""
END_WAITING = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""
"""Sessions of the dead, which would do their last statement when they are let."""
TABLES = ("jobs", "history", "tallies_new", "tallies", "tasks", "rules", "holds", "operations", "members", "keys")
RUNNING = {"name": "long", "schedule_type": "IMMEDIATE", "task": {"kind": "shell", "command": "sleep 300"}}
LATER = {"name": "later", "cron": "0 3 * * *", "task": {"kind": "shell", "command": "true"}}


@pytest.fixture
def fleet(database_url: str, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(database_url, tmp_path)
    yield made
    made.stop()


async def held(connection: asyncpg.Connection) -> dict[str, int]:
    """How many rows there are of the namespace, by table."""
    return {
        table: await connection.fetchval(f"SELECT count(*) FROM tickwise.{table} WHERE namespace = 'team-a'")
        for table in TABLES
    }


async def test_a_removal_is_carried_on_by_another_scheduler(fleet: Fleet, database_url: str) -> None:
    """Three are killed in the midst of it, a running task is stopped, and in the end nothing is left: neither a row nor
    a log."""
    await upgrade(database_url)
    api, executor = fleet.start("api", "--port", "0"), fleet.start("executor")
    await executor.ready()
    connection = await asyncpg.connect(database_url)
    head = {"Authorization": f"Bearer {KEY}"}
    try:
        async with httpx2.AsyncClient(base_url=f"{await api.ready()}/api/v1", headers=head, timeout=60) as client:
            await fill(client)
            await eventually(lambda: is_running(client), within_seconds=60, what="the task runs")
            closed = await client.patch("/namespaces/team-a", json={"state": "closing"})
            assert 200 == closed.status_code, closed.text
            assert 202 == (await client.delete("/namespaces/team-a")).status_code
            async with AsyncExitStack() as stack:
                blockers = [await stack.enter_async_context(blocked(database_url, place)) for place in PLACES]
                for blocker in blockers:
                    moved = partial(is_further, connection, await progress(connection))
                    scheduler = fleet.start("scheduler")
                    await eventually(moved, within_seconds=60, what="pages are done")
                    scheduler.kill()
                    await connection.execute(END_WAITING)
                    await blocker.close()
                    # As if the hold of the dead one were over, which takes 30 s.
                    await connection.execute("UPDATE tickwise.namespaces SET free = NULL")
            assert (await held(connection))["jobs"] > 0, "it was done before the last one was killed"
            fleet.start("scheduler")
            await eventually(lambda: is_gone(client), within_seconds=120, what="the namespace is gone")
            assert dict.fromkeys(TABLES, 0) == await held(connection)
            assert 0 == await connection.fetchval("SELECT count(*) FROM tickwise.timers")
            assert 0 == await connection.fetchval("SELECT count(*) FROM tickwise.runs")
            assert [] == [file for file in (fleet.folder / "blobs" / "logs").rglob("*") if file.is_file()]
            assert 201 == (await client.post("/namespaces", json={"name": "team-a"})).status_code
            assert [] == (await client.get("/jobs", headers={"Tickwise-Namespace": "team-a"})).json()
    except AssertionError as failure:
        raise AssertionError(f"{failure}\n{fleet.logs()}") from failure
    finally:
        await connection.close()


@asynccontextmanager
async def blocked(database_url: str, place: int) -> AsyncIterator[asyncpg.Connection]:
    """The job at this place cannot be cancelled until the session is closed."""
    session = await asyncpg.connect(database_url)
    try:
        await session.execute("BEGIN")
        ids = "SELECT job_id FROM tickwise.jobs WHERE namespace = 'team-a' ORDER BY job_id LIMIT 1 OFFSET $1"
        job_id = await session.fetchval(ids, place)
        await session.execute("SELECT FROM tickwise.jobs WHERE job_id = $1 FOR UPDATE", job_id)
        yield session
    finally:
        await session.close()


async def fill(client: httpx2.AsyncClient) -> None:
    """A namespace with jobs of the future, one that runs, and a member's key."""
    assert 201 == (await client.post("/namespaces", json={"name": "team-a"})).status_code
    there = {"Tickwise-Namespace": "team-a"}
    for first in range(0, JOBS, 500):
        bodies = [{**LATER, "key": f"key-{number}"} for number in range(first, first + 500)]
        assert 200 == (await client.post("/jobs:batch", json=bodies, headers=there)).status_code
    spoken = {**RUNNING, "task": {"kind": "shell", "command": "echo hello; sleep 300"}}
    assert 201 == (await client.post("/jobs", json=spoken, headers=there)).status_code
    calendar = await client.put("/calendars/free", content=json.dumps({"dates": ["2030-01-01"]}), headers={
        **there, "Content-Type": "application/json",
    })  # fmt: skip
    assert 201 == calendar.status_code, calendar.text
    key = await client.post("/keys", json={"name": "ci", "role": "viewer"}, headers=there)
    assert 201 == key.status_code, key.text


async def is_running(client: httpx2.AsyncClient) -> bool:
    """Check whether the long task runs."""
    runs: list[Any] = (await client.get("/runs", headers={"Tickwise-Namespace": "team-a"})).json()
    return [run["status"] for run in runs] == ["RUNNING"]


async def progress(connection: asyncpg.Connection) -> tuple[int, ...]:
    """How many jobs there are, and how many of them are cancelled."""
    return tuple(await connection.fetchrow("SELECT count(*), count(*) FILTER (WHERE standing = 2) FROM tickwise.jobs"))


async def is_further(connection: asyncpg.Connection, before: tuple[int, ...]) -> bool:
    """Check whether a removal got on since then."""
    return await progress(connection) != before


async def is_gone(client: httpx2.AsyncClient) -> bool:
    """Check whether there is no such namespace any more."""
    return (await client.get("/namespaces/team-a")).status_code == 404
