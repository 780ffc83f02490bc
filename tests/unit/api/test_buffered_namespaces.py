"""Buffered requests for a namespace that closes, or goes, while they are on their way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest_asyncio

from tests.support.app import API
from tests.support.buffered import Buffered, buffered
from tickwise.control.context import NAMESPACES_FRESH_SECONDS
from tickwise.ports.identity.namespaces import SETTLE_SECONDS

SHELL = {"kind": "shell", "command": "date"}
TEAM = {"Tickwise-Namespace": "team-a"}


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Buffered]:
    async with buffered() as made:
        yield made


async def send(here: Buffered, method: str, path: str, status: int, **options: Any) -> Any:
    """The body of an answer that has this status."""
    answer = await here.world.client.request(method, API + path, **options)
    assert status == answer.status_code, answer.text
    return answer.json()


async def test_what_was_accepted_for_a_namespace_that_closed_fails_on_record(here: Buffered) -> None:
    """A create that was on its way; the operation says why. What is there can still be changed."""
    there = await team_job(here)
    late = await team_job(here, apply=False)
    await close_team(here)
    await here.apply()
    ended = await team(here, "GET", f"/operations/{late['operation_id']}", 200)
    assert ("failed", "namespace_closing") == (ended["status"], ended["problems"][0]["code"])
    await team(here, "GET", f"/jobs/{late['job_id']}", 404)
    assert 200 == (await here.world.client.get(f"{API}/jobs/{there['job_id']}", headers=TEAM)).status_code


async def test_what_was_accepted_for_a_namespace_that_is_gone_is_not_applied_to_a_later_one(here: Buffered) -> None:
    """Nor leaves it a record there."""
    late = [await team_job(here, apply=False) for _ in range(2)]
    await close_team(here)
    store = here.link.store.removals
    await store.begin("team-a")
    await here.clock.advance(SETTLE_SECONDS)
    assert await store.end("team-a")
    await here.clock.advance(1.0)
    await send(here, "POST", "/namespaces", 201, json={"name": "team-a"})
    await here.apply()
    for each in late:
        assert await here.link.store.jobs.get("team-a", UUID(each["job_id"])) is None
    assert [] == list(await here.link.store.searches.operations("team-a", None, 10))
    made = await team_job(here)
    assert await here.link.store.jobs.get("team-a", UUID(made["job_id"])) is not None


async def test_what_was_accepted_after_a_namespace_was_opened_again_is_applied(here: Buffered) -> None:
    """Also by a recorder that has just seen it closing: what it remembers is no reason to refuse for good."""
    await team_job(here)
    late = await team_job(here, apply=False)
    await close_team(here)
    await here.clock.advance(NAMESPACES_FRESH_SECONDS + 1.0)
    await here.apply()
    assert "failed" == (await team(here, "GET", f"/operations/{late['operation_id']}", 200))["status"]
    await send(here, "PATCH", "/namespaces/team-a", 200, json={"state": "active"})
    made = await team_job(here)
    assert await here.link.store.jobs.get("team-a", UUID(made["job_id"])) is not None


async def test_a_namespace_that_is_being_removed_accepts_nothing_new(here: Buffered) -> None:
    """As one that is closing: the answer comes with the request, and not with its operation."""
    await team_job(here)
    await close_team(here)
    await here.link.store.removals.begin("team-a")
    await here.clock.advance(NAMESPACES_FRESH_SECONDS + 1.0)
    refused = await team(here, "POST", "/jobs", 409, json={"name": "a", "task": SHELL, "every": "1h"})
    assert "namespace_closing" == refused["code"]


async def team(here: Buffered, method: str, path: str, status: int, **options: Any) -> Any:
    """As `send`, in a namespace of its own."""
    return await send(here, method, path, status, headers=TEAM, **options)


async def team_job(here: Buffered, *, apply: bool = True) -> Any:
    """A job that was accepted there, and applied."""
    if await here.link.store.namespaces.get("team-a") is None:
        await send(here, "POST", "/namespaces", 201, json={"name": "team-a"})
    made = await team(here, "POST", "/jobs", 202, json={"name": "a", "task": SHELL, "every": "1h"})
    if apply:
        await here.apply()
    return made


async def close_team(here: Buffered) -> None:
    await send(here, "PATCH", "/namespaces/team-a", 200, json={"state": "closing"})
