"""Decisions about all alerts that match: counted first, bounded, on record once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import pytest_asyncio

from tests.support.alerts import opened
from tests.support.scene import Scene, scene
from tickwise.api.wire import time_of
from tickwise.ports.audit import AuditQuery

HOOK = {"name": "on-call", "kind": "webhook", "url": "https://hooks.example.com/T0/very-secret"}


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


async def rule_of(here: Scene, name: str = "broken") -> str:
    """A stored rule."""
    if not await here.ask("GET", "/channels"):
        await here.ask("POST", "/channels", 201, HOOK)
    body = {"name": name, "on": ["failure"], "channels": ["on-call"]}
    return str((await here.ask("POST", "/notification-rules", 201, body))["rule_id"])


async def alerts_of(here: Scene, rule: str, *times: float) -> list[str]:
    """Open alerts of a rule, with their newest events at these times."""
    return [
        str(await opened(here.store, UUID(rule), alert_id=uuid4(), subject=f"job {at}", at=at)) for at in times
    ]  # fmt: skip


async def states(here: Scene, **query: Any) -> dict[str, str]:
    """The states of all alerts."""
    asked = "&".join(f"state={each}" for each in ("open", "acknowledged", "snoozed", "closed"))
    return {each["alert_id"]: each["state"] for each in await here.ask("GET", f"/alerts?{asked}")}


async def test_all_alerts_that_match_are_closed(here: Scene) -> None:
    """Those of one rule, until the time of the look; a dry run counts them and changes nothing."""
    broken, other = await rule_of(here), await rule_of(here, "other")
    first, second, late = await alerts_of(here, broken, 1_000.0, 2_000.0, 3_000.0)
    [stays] = await alerts_of(here, other, 1_500.0)
    body = {"rule_id": broken, "until": time_of(2_500.0).isoformat()}
    answer = await here.ask("POST", "/alerts:close", 200, {**body, "dry_run": True})
    assert {"matched": 2, "more": False, "changed": 0} == answer
    assert {"open"} == set((await states(here)).values())
    answer = await here.ask("POST", "/alerts:close", 200, {**body, "note": "the disk"})
    assert {"matched": 2, "more": False, "changed": 2} == answer
    assert {first: "closed", second: "closed", late: "open", stays: "open"} == await states(here)
    [row] = list(await here.store.audit.find(AuditQuery(namespace="default", limit=1)))
    assert {first, second} == set(map(str, row.targets))
    assert 0 == (await here.ask("POST", "/alerts:close", 200, body))["matched"]


async def test_an_alert_in_hand_stays_with_the_person_who_has_it(here: Scene) -> None:
    """All others of the namespace are acknowledged."""
    taken, free = await alerts_of(here, await rule_of(here), 1_000.0, 2_000.0)
    await here.ask("POST", f"/alerts/{taken}/acknowledge", 200, {"note": "mine"})
    assert {"matched": 2, "more": False, "changed": 1} == await here.ask("POST", "/alerts:acknowledge", 200)
    assert ("mine", None) == tuple([(await here.ask("GET", f"/alerts/{each}"))["note"] for each in (taken, free)])


async def test_alerts_that_are_closed_are_decided(here: Scene) -> None:
    """A filter for them is refused; so is a look at those of the installation by others."""
    assert "/state/0" == (await here.ask("POST", "/alerts:close", 422, {"state": ["gone"]}))["pointer"]
    assert "/state" == (await here.ask("POST", "/alerts:close", 422, {"state": ["closed"]}))["pointer"]
    body = {"name": "k", "permissions": ["notices:operate"]}
    key = str((await here.ask("POST", "/keys", 201, body))["key"])
    refused = await here.ask("POST", "/alerts:close", 403, {"installation": True}, key=key)
    assert "/installation" == refused["pointer"]
    assert 0 == (await here.ask("POST", "/alerts:close", 200, {}, key=key))["matched"]
