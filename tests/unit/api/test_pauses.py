"""A search over HTTP that pauses leads on by its `Link`, to the place at which it goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.app import API, World, world
from tickwise.ports.paging import Page, SearchPlace

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
