"""A search for a part of a name that pauses says so, and goes on where it paused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.pages import Markup, Rig, pages
from tickwise.ports.paging import Page, SearchPlace

FLOOR = UUID("01a1cb02-1c4d-89f8-8cc2-34648df1d133")


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    async with pages() as made:
        yield made


@pytest.mark.parametrize(("path", "name", "search"), [("/jobs", "name", "jobs"), ("/runs", "job_name", "runs")])
async def test_a_page_of_a_search_that_paused_leads_on(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, path: str, name: str, search: str
) -> None:
    """Also an empty one; the next page asks for what was not looked at, and the last one leads nowhere."""
    asked: list[Any] = []
    answers = [Page[Any](paused_at=SearchPlace(FLOOR, is_rest=True)), Page[Any]()]

    async def searched(query: Any) -> Page[Any]:
        asked.append(query)
        return answers[len(asked) - 1]

    ada = await rig.signed_in("ada", ("operator", "default"))
    monkeypatch.setattr(rig.here.control.context.searches, search, searched)
    page = Markup((await ada.get(f"{path}?{name}=backup")).text)
    assert "Older ones were not looked at yet." in page.words
    [link] = [each["href"] for each in page.named("a") if each.get("rel") == "next"]
    assert {name: ["backup"], "cursor": [str(FLOOR)], "rest": ["1"]} == parse_qs(urlsplit(link).query)
    last = Markup((await ada.get(link)).text)
    assert (asked[1].before, asked[1].is_rest, asked[1].may_pause) == (FLOOR, True, True)
    assert [] == [each for each in last.named("a") if each.get("rel") == "next"]
    assert "Older ones were not looked at yet." not in last.words
