"""One executor with work of all lengths, and one that is killed with work that it holds for later."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from tests.integration.processes.runtime import Errand, House, runtime
from tests.support.waiting import eventually
from tickwise.adapters.store.postgres import upgrade

FUNCTIONS = {"TICKWISE_FUNCTION_MODULES": "tests.integration.processes.tasks"}
FAR_AHEAD = {"TICKWISE_HORIZON_SECONDS": "60", "TICKWISE_CLAIM_AHEAD_SECONDS": "30"}
"""So that runs are held long enough to be seen held."""
SHORT_FUNCTIONS, SHORT_COMMANDS = 10_000, 60
SUCCESS = 5

ENDED = "SELECT count(*) FROM tickwise.history WHERE state = $2 AND job_id = ANY($1::uuid[])"
HELD = """
SELECT array_agg(DISTINCT holder) FROM tickwise.runs WHERE state = 2 AND job_id = ANY($1::uuid[]) HAVING count(*) = $2
"""
STARTS = """
SELECT executor, attempt, crashes, started >= due AS on_time FROM tickwise.history WHERE job_id = ANY($1::uuid[])
"""


@pytest_asyncio.fixture(scope="module")
async def here(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    await upgrade(database_url)
    async with runtime(database_url, tmp_path_factory.mktemp("runtime"), **FAR_AHEAD) as made:
        yield made


@pytest_asyncio.fixture
async def session(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


async def submit_many(here: House, bodies: list[dict[str, Any]]) -> list[str]:
    """Their ids."""
    answer = await here.client.post("/jobs:batch", json=bodies)
    assert 200 == answer.status_code, answer.text
    return [each["job_id"] for each in answer.json()["results"]]


async def test_short_runs_do_not_wait_for_long_ones(here: House, session: asyncpg.Connection, tmp_path: Path) -> None:
    """Ten thousand functions and many commands all end while one function holds its worker and one command runs."""
    await here.executor("mixed", **FUNCTIONS, TICKWISE_FUNCTION_WORKERS="2")
    errand, door = Errand(tmp_path), tmp_path / "door"
    hold = {"kind": "function", "name": "tests.hold_worker"}
    long = [
        await here.submit(task=errand.task(), queue="mixed"),
        await here.submit(task=hold, payload={"file": str(door)}, queue="mixed"),
    ]
    await errand.begun(1)
    await eventually(door.with_suffix(".begun").exists, what="the function holds its worker")
    now = {"name": "a", "schedule_type": "IMMEDIATE", "queue": "mixed"}
    commands = await submit_many(here, [{**now, "task": {"kind": "shell", "command": "true"}}] * SHORT_COMMANDS)
    functions = await submit_many(
        here, [{**now, "task": {"kind": "function", "name": "tests.nothing_at_all"}}] * SHORT_FUNCTIONS
    )
    short = [*commands, *functions]

    async def all_ended() -> bool:
        return bool(len(short) == await session.fetchval(ENDED, short, SUCCESS))

    await eventually(all_ended, within_seconds=90, what="all short ones end")
    assert 0 == await session.fetchval(ENDED, long, SUCCESS)
    errand.end()
    door.touch()
    assert ["SUCCESS", "SUCCESS"] == [(await here.ended(job))["status"] for job in long]


async def test_what_a_killed_executor_held_starts_elsewhere(
    here: House, session: asyncpg.Connection, tmp_path: Path
) -> None:
    """It held all of them for later, and began none. Once its lease is over each starts on another, once and not
    early; as the second attempt, because nobody knows that the first did not begin."""
    first = await here.executor("held", **FUNCTIONS)
    due = (datetime.now(UTC) + timedelta(seconds=25)).isoformat()
    body = {"name": "a", "schedule_type": "FUTURE", "schedule_time": due, "queue": "held"}
    witness = tmp_path / "witness"
    task = {"task": {"kind": "function", "name": "tests.witness"}, "payload": {"witness": str(witness)}}
    jobs = await submit_many(here, [{**body, **task}] * 200)
    dead = await eventually(lambda: session.fetchval(HELD, jobs, len(jobs)), within_seconds=22, what="all are held")
    first.kill()
    await here.expire(first)
    await here.executor("held", **FUNCTIONS)

    async def all_ended() -> bool:
        return bool(len(jobs) == await session.fetchval(ENDED, jobs, SUCCESS))

    await eventually(all_ended, what="all end")
    rows = await session.fetch(STARTS, jobs)
    assert {(False, 2, 0, True)} == {
        (row["executor"] in dead, row["attempt"], row["crashes"], row["on_time"]) for row in rows
    }
    began = [line.split()[1] for line in witness.read_text().splitlines()]
    assert sorted(jobs) == sorted(began)
