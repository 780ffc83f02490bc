"""The newest page of a list is one statement, also with parameters that its query leaves open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from tests.support.app import API, World, world
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.adapters.store.postgres.records.paging import bounded
from tickwise.domain.lifecycle import JobStatus, RunState

TRIES = 5
"""Keys, executors and the store's time are looked up anew every few seconds, beside the page."""
EVERY_STATUS = "&".join(f"status={status.value}" for status in JobStatus)


@pytest_asyncio.fixture
async def here(database_url: str) -> AsyncIterator[World]:
    await upgrade(database_url)
    async with world(store=PostgresStore(database_url, clock=SystemClock())) as made:
        yield made


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What this process sends to the database, those that begin and end transactions included."""
    found: list[str] = []
    for name in ("execute", "_execute"):
        plain = getattr(asyncpg.Connection, name)

        def noted(connection: Any, query: str, *arguments: Any, _plain: Any = plain, **named: Any) -> Any:
            found.append(query)
            return _plain(connection, query, *arguments, **named)

        monkeypatch.setattr(asyncpg.Connection, name, noted)
    return found


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/jobs?limit=50", "jobs_newest"),
        (f"/jobs?{EVERY_STATUS}", "jobs_newest"),
        ("/runs?limit=50", "runs_newest"),
        (f"/runs?status={RunState.FAILED.value}", "runs_newest_failed"),
    ],
)
async def test_a_page_is_one_statement(here: World, sent: list[str], path: str, name: str) -> None:
    """Without a transaction around it: its session has the settings that it needs."""
    body = {"name": "a", "cron": "0 3 * * *", "task": {"kind": "shell", "command": "date"}}
    assert 201 == (await here.client.post(f"{API}/jobs", json=body)).status_code
    asked = []
    for _ in range(TRIES):
        sent.clear()
        assert 200 == (await here.client.get(API + path)).status_code
        asked.append([*sent])
    assert [bounded(name)] in asked
