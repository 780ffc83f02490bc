"""A search over HTTP that pauses leads on by its `Link`, to the place at which it goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.app import API, World, world
from tests.support.waiting import eventually
from tickwise.domain.audit import AuditAction
from tickwise.ports.audit import AuditPage, AuditPlace, AuditQuery
from tickwise.ports.paging import Page, SearchPlace
from tickwise.ports.store.searches import COUNT_LOOKS, SearchCount

PLACE = AuditPlace(1_800_000_000.25, 77)

BEFORE, ABOVE = UUID(int=7), UUID(int=9)


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    async with world() as made:
        yield made


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("jobs?owner=bob", SearchPlace(BEFORE)),
        ("jobs?owner=bob", SearchPlace(BEFORE, is_rest=True)),
        ("jobs?owner=bob", SearchPlace(BEFORE, rest_from=ABOVE)),
        ("runs?executor_id=7", SearchPlace(BEFORE)),
        ("dead-letters?task_kind=http", SearchPlace(BEFORE)),
        ("runs?job_name=backup", SearchPlace(BEFORE, is_rest=True)),
    ],
)
async def test_a_page_that_paused_leads_to_its_place(
    here: World, monkeypatch: pytest.MonkeyPatch, path: str, place: SearchPlace
) -> None:
    """Also an empty one; the next request asks the store for what was not looked at."""
    asked: list[Any] = []

    async def searched(query: Any) -> Page[Any]:
        asked.append(query)
        return Page[Any](paused_at=place if len(asked) == 1 else None)

    search = path.partition("?")[0].removeprefix("dead-")
    monkeypatch.setattr(here.control.context.searches, search, searched)
    answer = await here.client.get(f"{API}/{path}")
    assert ([], 200) == (answer.json(), answer.status_code)
    last = await here.client.get(answer.links["next"]["url"])
    second = asked[1]
    found = SearchPlace(second.before, getattr(second, "is_rest", False), getattr(second, "rest_from", None))
    assert (place, True, {}) == (found, second.may_pause, last.links)


async def test_a_search_of_the_audit_log_that_paused_leads_to_its_place(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with an empty page."""
    asked: list[AuditQuery] = []

    async def searched(query: AuditQuery) -> AuditPage:
        asked.append(query)
        return AuditPage(goes_on=PLACE if len(asked) == 1 else None)

    monkeypatch.setattr(here.control.context.store.audit, "find", searched)
    answer = await here.client.get(f"{API}/audit?actor=bob")
    assert ([], 200) == (answer.json(), answer.status_code)
    last = await here.client.get(answer.links["next"]["url"])
    assert [(None, True), (PLACE, True)] == [(each.beyond, each.may_pause) for each in asked]
    assert "next" not in last.links


async def _is_later(now: Callable[[], Awaitable[float]], instant: float) -> bool:
    return await now() >= instant + 0.001


async def test_an_export_of_the_audit_log_goes_on_behind_each_pause(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the entries of all looks."""
    find, rows = here.control.context.store.audit.find, []
    await here.client.post(f"{API}/stops", json={"all": True, "reason": "a move", "until": None})
    now = here.control.context.store.audit.settled
    (stopped,) = await find(AuditQuery(namespace=None, action=AuditAction.STOP_MADE, limit=1))
    await eventually(lambda: _is_later(now, stopped.at))  # an export ends before the millisecond of its request

    async def searched(query: AuditQuery) -> AuditPage:
        if query.limit == 1 or query.beyond is not None:
            return await find(replace(query, beyond=None))
        rows.append(query)
        return AuditPage(goes_on=AuditPlace(query.since or 0.0, 0))

    monkeypatch.setattr(here.control.context.store.audit, "find", searched)
    answer = await here.client.get(f"{API}/audit/export?action=stop.made")
    assert (200, 1, True) == (answer.status_code, len(answer.text.splitlines()), bool(rows))


@pytest.mark.parametrize("places", [1, COUNT_LOOKS, COUNT_LOOKS + 1])
async def test_a_dry_run_looks_a_bounded_number_of_times(
    here: World, monkeypatch: pytest.MonkeyPatch, places: int
) -> None:
    """For what its sample shows: where more looks would be needed, it says that there may be more."""
    asked: list[Any] = []

    async def searched(query: Any) -> Page[Any]:
        asked.append(query)
        return Page[Any](paused_at=SearchPlace(UUID(int=99 - len(asked))) if len(asked) < places else None)

    async def counted(_query: Any) -> SearchCount:
        return SearchCount(0, is_whole=False)

    monkeypatch.setattr(here.control.context.store.searches, "jobs", searched)
    monkeypatch.setattr(here.control.context.store.searches, "count", counted)
    answer = await here.client.post(f"{API}/jobs:pause", json={"filter": {"owner": "bob"}, "dry_run": True})
    assert {"matches": 0, "more": places > COUNT_LOOKS, "sample": []} == answer.json()
    assert min(places, COUNT_LOOKS) == len(asked)
    assert [None, *(UUID(int=98 - number) for number in range(len(asked) - 1))] == [each.before for each in asked]
