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
ABOVE = UUID("01a1cb02-1c4d-89f8-8cc2-34648df1d199")


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


async def test_a_page_of_dead_letters_that_paused_leads_on(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same; no index leaves some of them for later."""
    asked: list[Any] = []

    async def searched(query: Any) -> Page[Any]:
        asked.append(query)
        return Page[Any](paused_at=SearchPlace(FLOOR) if len(asked) == 1 else None)

    ada = await rig.signed_in("ada", ("operator", "default"))
    monkeypatch.setattr(rig.here.control.context.searches, "letters", searched)
    page = Markup((await ada.get("/dead-letters?task_kind=http")).text)
    assert "Nothing was found so far." in page.words
    [link] = [each["href"] for each in page.named("a") if each.get("rel") == "next"]
    last = Markup((await ada.get(link)).text)
    assert (asked[1].before, asked[1].task_kind, asked[1].may_pause) == (FLOOR, "http", True)
    assert "No dead letter matches." in last.words


async def test_a_page_of_jobs_keeps_the_place_of_the_rest(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The jobs that an index knows come first, and the link says from where on the others are looked for later."""
    asked: list[Any] = []
    answers = [Page[Any](paused_at=SearchPlace(FLOOR, rest_from=ABOVE)), Page[Any]()]

    async def searched(query: Any) -> Page[Any]:
        asked.append(query)
        return answers[len(asked) - 1]

    ada = await rig.signed_in("ada", ("operator", "default"))
    monkeypatch.setattr(rig.here.control.context.searches, "jobs", searched)
    page = Markup((await ada.get("/jobs?owner=bob")).text)
    [link] = [each["href"] for each in page.named("a") if each.get("rel") == "next"]
    assert {"owner": ["bob"], "cursor": [str(FLOOR)], "rest": [str(ABOVE)]} == parse_qs(urlsplit(link).query)
    await ada.get(link)
    assert (asked[1].before, asked[1].is_rest, asked[1].rest_from) == (FLOOR, False, ABOVE)


async def test_the_time_line_looks_twice_and_says_from_when_on_it_knows(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search by a name goes on with the runs that no index knows; one that pauses again is not followed."""
    asked: list[Any] = []
    last = UUID(int=(1 << 128) - 1)

    async def searched(query: Any) -> Page[Any]:
        asked.append(query)
        a_minute_before = UUID(int=query.before.int - (60_000 << 80))
        return Page[Any](paused_at=SearchPlace(last if len(asked) == 1 else a_minute_before, is_rest=True))

    ada = await rig.signed_in("ada", ("operator", "default"))
    monkeypatch.setattr(rig.here.control.context.searches, "runs", searched)
    page = Markup((await ada.get("/timeline?view=hour&name=backup")).text)
    first, second = asked
    assert (second.is_rest, second.before, second.after) == (True, first.before, first.after)
    assert "Only the newest runs were read" in page.words
