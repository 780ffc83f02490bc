"""Calendars, the time line and explanations are the same on either store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.app import API, World, world
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.memory.store import MemoryStore
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.domain.model import Trigger, run_id
from tickwise.ports.store import Incident, NewRun
from tickwise.testing.factories import executor

SHELL = {"kind": "shell", "command": "date"}


@pytest_asyncio.fixture(params=["memory", "postgres"])
async def here(request: pytest.FixtureRequest, database_url: str) -> AsyncIterator[World]:
    store: Any = MemoryStore(SystemClock())
    if request.param == "postgres":
        await upgrade(database_url)
        store = PostgresStore(database_url, clock=SystemClock())
    async with world(store=store) as made:
        yield made


async def ask(here: World, method: str, path: str, status: int = 200, /, body: Any = None, **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = await here.client.request(method, API + path, json=body, headers=named)
    assert status == answer.status_code, answer.text
    return answer.json()


async def etag(here: World, path: str) -> str:
    """Of what is there now."""
    return str((await here.client.get(API + path)).headers["etag"])


async def daily(here: World, **body: Any) -> str:
    """A job that is due every day, not within the next hours."""
    far = (datetime.now(UTC) + timedelta(hours=12)).hour
    said = {"name": "a", "task": SHELL, "cron": f"0 {far} * * *", **body}
    return str((await ask(here, "POST", "/jobs", 201, said))["job_id"])


async def test_a_calendar_is_kept_used_and_deleted(here: World) -> None:
    """Versions, conditions, the refusal while a job goes by it, pages."""
    first, second = {"dates": ["2027-01-20"]}, {"dates": ["2027-01-21"]}
    await ask(here, "PUT", "/calendars/b", 201, first, if_none_match="*")
    await ask(here, "PUT", "/calendars/b", 412, second, if_none_match="*")
    await ask(here, "PUT", "/calendars/b", 412, second, if_match='"7"')
    assert (
        2 == (await ask(here, "PUT", "/calendars/b", 200, second, if_match=await etag(here, "/calendars/b")))["version"]
    )
    await ask(here, "PUT", "/calendars/a", 201, first)
    await ask(here, "PUT", "/windows/b", 201, {"when": first, "labels": {"team": "data"}})
    assert ["a", "b"] == [each["name"] for each in await ask(here, "GET", "/calendars")]
    job_id = await daily(here, calendars=[{"name": "b"}])
    assert "calendar_in_use" == (await ask(here, "DELETE", "/calendars/b", 409))["code"]
    await ask(here, "DELETE", f"/jobs/{job_id}")
    assert second == (await ask(here, "DELETE", "/calendars/b"))["calendar"]
    assert {"team": "data"} == (await ask(here, "GET", "/windows/b"))["labels"]


async def test_the_time_line_is_told_in_pages(here: World) -> None:
    """More runs of the past than a page holds, several of one millisecond, and what comes behind them."""
    job_id = UUID(await daily(here))
    now = await here.store.now()
    begin = round(now) - 80_000.0
    runs = [
        NewRun(
            run_id=run_id(job_id, begin + number // 2, Trigger.BACKFILL, bytes([number % 2])),
            due=now,
            trigger=Trigger.BACKFILL,
            nominal=begin + number // 2,
        )
        for number in range(300)
    ]
    await here.store.runs.add("default", job_id, runs)
    found: list[Any] = []
    path: str | None = f"{API}/jobs/{job_id}/occurrences?limit=90"
    while path:
        answer = await here.client.get(path)
        assert 200 == answer.status_code, answer.text
        found += answer.json()
        link = answer.headers.get("link")
        path = link[1 : link.index(">")] if link else None
    wanted = [str(each.run_id) for each in sorted(runs, key=lambda each: each.run_id)]
    assert [*wanted, None] == [each["run_id"] for each in found]
    assert ("future", "fire") == (found[-1]["kind"], found[-1]["outcome"])


async def test_a_run_is_explained_while_it_waits_and_afterwards(here: World) -> None:
    """Nobody alive, somebody with a free slot, cancelled before it began."""
    job_id = UUID(await daily(here))
    now = await here.store.now()
    await here.store.incidents.add(Incident(kind="store_away", begin=now - 60, end=now - 50, who="one"))
    asked = (await ask(here, "POST", f"/jobs/{job_id}/runNow", 202))["run_id"]
    assert "waiting_no_executor" == (await ask(here, "GET", f"/runs/{asked}/explain"))["code"]
    await here.store.executors.join(executor(lease_seconds=600.0))
    assert "waiting_turn" == (await ask(here, "GET", f"/jobs/{job_id}/explain"))["code"]
    await ask(here, "POST", f"/runs/{asked}/cancel")
    found = await ask(here, "GET", f"/runs/{asked}/explain")
    assert ("cancelled", asked) == (found["code"], found["run_id"])


async def test_a_job_is_explained_at_other_times(here: World) -> None:
    """Paused, in a pause that has passed, cancelled, before it was there."""
    job_id = await daily(here)
    assert "not_due" == (await ask(here, "GET", f"/jobs/{job_id}/explain"))["code"]
    assert "not_yet_created" == (await ask(here, "GET", f"/jobs/{job_id}/explain?at=2020-01-01T00:00:00Z"))["code"]
    await ask(here, "POST", f"/jobs/{job_id}/pause", 200, {"reason": "new disks"})
    assert "paused" == (await ask(here, "GET", f"/jobs/{job_id}/explain"))["code"]
    await ask(here, "POST", f"/jobs/{job_id}/resume", 200, {})
    await ask(here, "POST", f"/jobs/{job_id}/skipNext", 200, {"reason": "inventory"})
    (skipped, *_) = await ask(here, "GET", f"/jobs/{job_id}/occurrences")
    at = f"/jobs/{job_id}/explain?at={skipped['nominal_time']}"
    found = await ask(here, "GET", at)
    assert ("skipped_requested", skipped["run_id"]) == (found["code"], found["run_id"])
    await ask(here, "DELETE", f"/jobs/{job_id}")
    assert "job_cancelled" == (await ask(here, "GET", f"/jobs/{job_id}/explain"))["code"]
