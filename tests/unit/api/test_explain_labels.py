"""Explanations for callers whose permissions go by labels: no job of others is named, however it was involved."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from tests.support.scene import Scene, scene
from tests.unit.api.test_explain_flow import AT_ONCE, ON_DEMAND, follow, gated
from tickwise.ports.store import Gate

HIDDEN = "a-job-of-others"
BILLING = {"team": "billing"}


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


async def told(here: Scene, path: str) -> tuple[Any, Any]:
    """An explanation for everybody, and for a key of one team. The first names the job of others."""
    body = {"name": "ci", "permissions": ["runs:read"], "labels": BILLING}
    key = (await here.ask("POST", "/keys", 201, body))["key"]
    whole, restricted = await here.ask("GET", path), await here.ask("GET", path, key=key)
    assert HIDDEN in str(whole)
    assert HIDDEN not in str(restricted)
    return whole, restricted


async def test_holders_of_a_slot_are_not_named(here: Scene) -> None:
    """The limit is told, which the run has itself."""
    limit = {"concurrency": {"limit": 1, "key": "key:printer"}}
    await here.create(**AT_ONCE, **limit, name=HIDDEN, labels={"team": "ops"})
    number = await here.join()
    assert 1 == await gated(here, number, await here.take(number), Gate("key:printer", 1))
    await here.create(**AT_ONCE, **limit, labels=BILLING)
    [second] = await here.take(number)
    assert 0 == await gated(here, number, [second], Gate("key:printer", 1))
    whole, restricted = await told(here, f"/runs/{second.run_id}/explain")
    assert whole["code"] == restricted["code"] == "waiting_slot"
    assert [] == restricted["data"]["taken_by"]


async def test_what_started_a_run_and_what_it_starts_is_not_named(here: Scene) -> None:
    """In a sequence of which one part alone is the caller's."""
    last = await here.create(**ON_DEMAND, name=f"{HIDDEN}-last", labels={"team": "ops"})
    mine = await here.create(**ON_DEMAND, name="mine", labels=BILLING, then=last)
    await here.create(**AT_ONCE, name=f"{HIDDEN}-first", labels={"team": "ops"}, then=mine)
    number = await here.join()
    for _ in range(3):
        claims = await here.take(number)
        await here.begin(number, claims)
        await here.finish(number, claims, follow=True)
        await follow(here)
    [run] = [each["run_id"] for each in await here.ask("GET", "/runs") if each["job_id"] == mine]
    whole, restricted = await told(here, f"/runs/{run}/explain")
    assert whole["code"] == restricted["code"]
    assert len(restricted["causes"]) < len(whole["causes"])


async def test_runs_that_went_before_it_are_not_named(here: Scene) -> None:
    """One that waited, while the executor took those of a higher priority."""
    number = await here.join()
    await here.create(**AT_ONCE, name=HIDDEN, labels={"team": "ops"}, priority=9)
    await here.create(**AT_ONCE, name="mine", labels=BILLING, priority=1)
    [first] = await here.take(number, limit=1)
    await here.begin(number, [first])
    await here.pass_time(30.0)
    [second] = await here.take(number, limit=1)
    await here.begin(number, [second])
    body = {"name": "ci", "permissions": ["runs:read"], "labels": BILLING}
    key = (await here.ask("POST", "/keys", 201, body))["key"]
    whole = await here.ask("GET", f"/runs/{second.run_id}/explain")
    restricted = await here.ask("GET", f"/runs/{second.run_id}/explain", key=key)
    assert str(first.run_id) in str(whole)
    assert str(first.run_id) not in str(restricted)
