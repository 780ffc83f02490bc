"""Saved views by the API: listed, saved and removed as on the pages, with an entry of the audit log for each change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import pytest_asyncio

from tests.support.scene import Scene, scene
from tickwise.domain.audit import AuditAction
from tickwise.ports.audit import AuditQuery

VIEW: Final = {"list": "runs", "name": "failed of acme", "query": "status=FAILED&label=customer%3Dacme"}


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


async def _audited(here: Scene, action: AuditAction) -> list[tuple[str | None, str | None]]:
    rows = await here.store.audit.find(AuditQuery(namespace="default", action=action))
    return [(row.target, row.detail) for row in rows]


async def test_a_view_is_saved_listed_and_removed(here: Scene) -> None:
    """One of a name on a list; each change is an entry with what was saved."""
    made = await here.ask("PUT", "/saved-views", 200, {**VIEW, "name": "  failed  of acme "})
    assert {**VIEW, "shared": False} == {name: made[name] for name in (*VIEW, "shared")}
    again = await here.ask("PUT", "/saved-views", 200, {**VIEW, "query": "status=CANCELLED"})
    assert [again] == await here.ask("GET", "/saved-views")
    entries = await _audited(here, AuditAction.VIEW_SAVED)
    assert [VIEW["name"]] * 2 == [target for target, _ in entries]
    assert "status=CANCELLED" in str(entries[0][1])
    gone = await here.ask("DELETE", "/saved-views?list=runs&name=failed%20of%20acme")
    assert {"list": "runs", "name": "failed of acme", "shared": False} == gone
    assert [] == await here.ask("GET", "/saved-views")
    assert [VIEW["name"]] == [target for target, _ in await _audited(here, AuditAction.VIEW_REMOVED)]
    await here.ask("DELETE", "/saved-views?list=runs&name=failed%20of%20acme", 404)
    assert 1 == len(await _audited(here, AuditAction.VIEW_REMOVED))


async def test_a_view_for_everybody_is_seen_by_others(here: Scene) -> None:
    """And saved and removed by those who may change or operate the jobs."""
    shared = {**VIEW, "shared": True}
    viewer = (await here.ask("POST", "/keys", 201, {"name": "v", "role": "viewer"}))["key"]
    await here.ask("PUT", "/saved-views", 200, VIEW)
    await here.ask("PUT", "/saved-views", 403, shared, key=viewer)
    saved = await here.ask("PUT", "/saved-views", 200, shared)
    assert [saved] == await here.ask("GET", "/saved-views", key=viewer)
    name = "/saved-views?list=runs&name=failed%20of%20acme&shared=true"
    await here.ask("DELETE", name, 403, key=viewer)
    await here.ask("DELETE", name)
    assert [] == await here.ask("GET", "/saved-views", key=viewer)


async def test_filters_that_a_list_does_not_have_are_refused(here: Scene) -> None:
    """With where, and what there is; nothing is saved."""
    for wrong, pointer in (
        ({"query": "stauts=FAILED"}, "/query"),
        ({"list": "jobs", "query": "reason=timeout"}, "/query"),
        ({"query": ""}, "/query"),
        ({"query": "&".join(f"label=a%3D{number}" for number in range(60))}, "/query"),
        ({"name": "\u200b"}, "/name"),
    ):
        refused: dict[str, Any] = await here.ask("PUT", "/saved-views", 422, {**VIEW, **wrong})
        assert pointer in str(refused), wrong
    assert [] == await here.ask("GET", "/saved-views")
