"""The public status pages: what they show, what they never show, and what a flood of requests costs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4
from xml.etree import ElementTree

import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.pages import Markup, Rig, pages
from tickwise.adapters.clock import VirtualClock
from tickwise.control.observing.status_pages import PublicStatus, StatusPageService
from tickwise.domain.errors import StoreUnavailable
from tickwise.domain.observing.status_pages import (
    LOOK_SECONDS,
    Announcement,
    AnnouncementKind,
    AnnouncementState,
    AnnouncementUpdate,
    ComponentState,
    StateSeconds,
    StatusComponent,
    StatusDay,
    StatusPage,
)
from tickwise.roles.scheduler.observing.status_looks import StatusLooks
from tickwise.web.status.board import AGAIN_SECONDS, FRESH_SECONDS
from tickwise.web.status.lines import BLIND_SECONDS, lines_of

START = datetime(2027, 1, 15, 12, 0, tzinfo=UTC).timestamp()
JOB = {"name": "secret-export-of-acme", "key": "secret-key", "every": "1h", "labels": {"customer": "secret-acme"}}


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    async with pages(clock=VirtualClock(START)) as made:
        yield made


async def put(rig: Rig, method: str, path: str, body: Any = None) -> Any:
    """The answer of the API."""
    answer = await rig.here.client.request(method, API + path, json=body)
    assert answer.status_code < 300, answer.text
    return answer.json()


async def made_of(rig: Rig, **said: Any) -> str:
    """The path in the API of a public page about one job."""
    await put(rig, "POST", "/jobs", JOB)
    body = {
        "slug": "acme", "title": "Acme: nightly work", "intro": "First.\nSecond.", "enabled": True,
        "components": [{"name": "Exports <b>", "jobs": ["secret-key"]}], **said,
    }  # fmt: skip
    return f"/status-pages/{(await put(rig, 'POST', '/status-pages', body))['page_id']}"


async def pass_time(rig: Rig, seconds: float) -> None:
    """Time in which nobody does anything."""
    clock = rig.here.clock
    assert isinstance(clock, VirtualClock)
    await clock.advance(seconds)


async def looked(rig: Rig, seconds: float = LOOK_SECONDS) -> None:
    """A scheduler looks after so long, and what is kept of pages is old."""
    await pass_time(rig, max(seconds, FRESH_SECONDS))
    await StatusLooks(rig.here.store).step()


async def test_anybody_reads_a_public_page(rig: Rig) -> None:
    """Without an account, as HTML, JSON and Atom; a name is escaped."""
    path = await made_of(rig)
    said = {
        "kind": "incident",
        "title": "Exports <i> are late",
        "text": "We look.\nMore soon.",
        "components": ["Exports <b>"],
    }
    await put(rig, "POST", f"{path}/announcements", said)
    await looked(rig)
    browser = rig.browser()
    page = await browser.get("/status/acme")
    assert (200, "text/html; charset=utf-8", "public, max-age=15") == (
        page.status_code, page.headers["content-type"], page.headers["cache-control"],
    )  # fmt: skip
    found = Markup(page.text)
    for words in ("Acme: nightly work", "First.", "Exports <b>", "Exports <i> are late", "More soon.", "Not known"):
        assert words in found.words
    assert not {"script", "form", "style"} & found.tags()
    assert not [each for _, each in found.elements if any(name == "style" or name.startswith("on") for name in each)]
    assert 90 == sum(each.get("class", "").startswith("d-") for each in found.named("i")) - 5
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "script-src" not in page.headers["content-security-policy"]
    assert "set-cookie" not in page.headers
    data = (await browser.get("/status/acme.json")).json()
    assert ("Acme: nightly work", True, ["Exports <b>"]) == (
        data["title"], data["current"], [each["name"] for each in data["components"]],
    )  # fmt: skip
    feed = await browser.get("/status/acme.atom")
    assert "application/atom+xml; charset=utf-8" == feed.headers["content-type"]
    space = "{http://www.w3.org/2005/Atom}"
    [item] = ElementTree.fromstring(feed.content).findall(f"{space}entry")
    assert "Exports <i> are late (investigating)" == item.findtext(f"{space}title")


async def test_a_public_page_says_nothing_else(rig: Rig) -> None:
    """No id, no name, key, label or namespace of a job, also after it failed with an error."""
    path = await made_of(rig, show_uptime=True, show_punctuality=True)
    await put(rig, "POST", f"{path}/announcements", {"kind": "incident", "title": "Late", "text": "We look."})
    await looked(rig)
    answers = [await rig.browser().get(f"/status/acme{ending}") for ending in ("", ".json", ".atom")]
    for answer in answers:
        assert 200 == answer.status_code
        assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}", answer.text)
        assert not re.search(r"secret|default[^-]|customer", answer.text)
    keys = {"title", "state", "headline", "looked_at", "current", "components", "announcements"}
    assert keys == answers[1].json().keys()
    assert {"name", "state", "uptime", "punctuality", "days"} == answers[1].json()["components"][0].keys()


@pytest.mark.parametrize("ending", ["", ".json", ".atom"])
async def test_a_page_that_is_not_public_is_as_one_that_is_not_there(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """The same bytes and headers, and no look at the store for either."""
    await made_of(rig, enabled=False)
    await made_of_other(rig)
    browser = rig.browser()
    assert 200 == (await browser.get("/status/other")).status_code
    looks = counted(rig, monkeypatch)
    hidden, nothing = [await browser.get(f"/status/{name}{ending}") for name in ("acme", "nothing")]
    assert 404 == hidden.status_code
    assert hidden.content == nothing.content
    told = [{k: v for k, v in each.headers.items() if k != "x-request-id"} for each in (hidden, nothing)]
    assert told[0] == told[1]
    assert [] == looks


async def made_of_other(rig: Rig) -> None:
    """Another page, which is public."""
    await put(rig, "POST", "/status-pages", {"slug": "other", "title": "Other", "enabled": True})


def counted(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The looks at the store for public pages, from now on."""
    looks: list[str] = []
    published, view = StatusPageService.published, StatusPageService.public_view

    async def counted_published(self: StatusPageService) -> Any:
        looks.append("published")
        return await published(self)

    async def counted_view(self: StatusPageService, page: StatusPage) -> PublicStatus:
        looks.append(page.slug)
        return await view(self, page)

    monkeypatch.setattr(StatusPageService, "published", counted_published)
    monkeypatch.setattr(StatusPageService, "public_view", counted_view)
    return looks


async def test_a_flood_makes_no_more_looks_than_one_request(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, and until what is kept is old; also for names that are guessed."""
    await made_of(rig)
    looks = counted(rig, monkeypatch)
    browser = rig.browser()
    names = ["acme", "acme.json", *(f"guess-{number}" for number in range(20))]
    await asyncio.gather(*(browser.get(f"/status/{name}") for name in names * 5))
    assert ["published", "acme"] == looks
    await pass_time(rig, FRESH_SECONDS - 0.1)
    await browser.get("/status/acme")
    assert ["published", "acme"] == looks
    await pass_time(rig, 0.2)
    await asyncio.gather(*(browser.get("/status/acme") for _ in range(10)))
    assert ["published", "acme"] * 2 == looks


async def test_a_copy_that_is_still_right_is_not_sent_again(rig: Rig) -> None:
    """By its tag; compressed where that is taken."""
    await made_of(rig)
    browser = rig.browser()
    first = await browser.get("/status/acme")
    again = await browser.get("/status/acme", if_none_match=first.headers["etag"])
    assert (304, b"") == (again.status_code, again.content)
    assert "gzip" == (await browser.get("/status/acme", accept_encoding="gzip")).headers["content-encoding"]
    assert "content-encoding" not in (await browser.get("/status/acme", accept_encoding="identity")).headers


async def test_without_the_database_the_page_says_what_it_knew(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """And that it may have changed; a page of which nothing is known is 503, and so is every other name."""
    await made_of(rig)
    browser = rig.browser()
    assert "does not answer" not in (await browser.get("/status/acme")).text

    async def away(*_: object) -> Any:
        raise StoreUnavailable("the database at db.internal does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(StatusPageService, "published", away)
        patched.setattr(StatusPageService, "public_view", away)
        await pass_time(rig, FRESH_SECONDS + 1.0)
        stale = await browser.get("/status/acme")
        assert 200 == stale.status_code
        assert "The database does not answer." in stale.text
        assert "db.internal" not in stale.text
        assert (await browser.get("/status/acme.json")).json()["current"] is False
        assert 404 == (await browser.get("/status/nothing")).status_code
        async with pages(clock=VirtualClock(START)) as fresh:
            answers = [await fresh.browser().get(f"/status/{name}") for name in ("acme", "nothing")]
            assert [503, 503] == [each.status_code for each in answers]
            assert answers[0].content == answers[1].content
            assert "no-store" == answers[0].headers["cache-control"]
    await pass_time(rig, AGAIN_SECONDS + 1.0)
    await browser.get("/status/acme")
    assert "does not answer" not in (await browser.get("/status/acme")).text


async def test_a_page_that_is_hidden_again_is_gone(rig: Rig) -> None:
    """Within the time that a copy is kept."""
    path = await made_of(rig)
    browser = rig.browser()
    assert 200 == (await browser.get("/status/acme")).status_code
    await put(rig, "PATCH", path, {"enabled": False})
    await pass_time(rig, FRESH_SECONDS + 1.0)
    assert 404 == (await browser.get("/status/acme")).status_code


async def test_a_page_with_a_session_is_the_same_page(rig: Rig) -> None:
    """No cookie is read: who is signed in sees what others see."""
    await made_of(rig)
    signed_in = await rig.signed_in("Ada", ("admin", "default"))
    assert (await signed_in.get("/status/acme")).content == (await rig.browser().get("/status/acme")).content


# ------------------------------------------------------------------------------------------ lines


NAMES = ("Mail", "Exports")
TODAY = datetime.fromtimestamp(START, UTC).date()


def page_of(*states: ComponentState, looked_at: float | None = START, **fields: Any) -> StatusPage:
    """A page with a component of each of these states."""
    given: dict[str, Any] = {
        "page_id": uuid4(), "namespace": "default", "slug": "a", "title": "A", "enabled": True,
        "components": tuple(StatusComponent(name=name) for name in NAMES[: len(states)]),
        "states": dict(zip(NAMES, states, strict=False)), "created_at": START, "created_by": "ada",
        "looked_at": looked_at, "shows_uptime": True, "shows_punctuality": True,
    }  # fmt: skip
    return StatusPage(**{**given, **fields})


def told(kind: AnnouncementKind, begin: float, end: float | None = None, *, over: bool = False) -> Announcement:
    """An announcement about mail; times in seconds from `START`."""
    first = AnnouncementState.INVESTIGATING if kind is AnnouncementKind.INCIDENT else AnnouncementState.ANNOUNCED
    last = AnnouncementState.RESOLVED if kind is AnnouncementKind.INCIDENT else AnnouncementState.ENDED
    updates = [AnnouncementUpdate(START + begin, first, "a")]
    if over:
        updates.append(AnnouncementUpdate(START + begin + 60, last, "b"))
    return Announcement(
        announcement_id=uuid4(), page_id=uuid4(), kind=kind, title="T", components=("Mail",), starts_at=START + begin,
        ends_at=None if end is None else START + end, updates=tuple(updates), created_by="ada",
    )  # fmt: skip


UP, LATE, PART, DOWN, BLIND = (
    ComponentState.OPERATIONAL, ComponentState.LATE, ComponentState.DEGRADED, ComponentState.DOWN,
    ComponentState.UNKNOWN,
)  # fmt: skip


@pytest.mark.parametrize(
    ("states", "headline"),
    [
        ((), "The state is not known"),
        ((UP, UP), "Everything works"),
        ((UP, BLIND), "Everything works"),
        ((UP, LATE), "Some work is late"),
        ((LATE, PART), "Some work fails"),
        ((UP, DOWN), "Some work fails"),
        ((DOWN, DOWN), "Work fails"),
        ((DOWN, BLIND), "Work fails"),
        ((BLIND, BLIND), "The state is not known"),
    ],
)
def test_the_headline_is_that_of_all_components(states: tuple[ComponentState, ...], headline: str) -> None:
    """One that fails beside one that works is some work that fails."""
    assert headline == lines_of(PublicStatus(page_of(*states), [], []), START).headline


def test_a_look_that_is_old_says_nothing_of_now() -> None:
    """Nor does none."""
    for looked_at in (None, START - BLIND_SECONDS - 1.0):
        found = lines_of(PublicStatus(page_of(UP, looked_at=looked_at), [], []), START)
        assert ("unknown", "Not known") == (found.components[0].state, found.components[0].words)


def test_announcements_stand_by_their_time() -> None:
    """An incident until it is resolved, a maintenance from its begin to its planned end; what is over for a month is
    not shown."""
    incident, maintenance = AnnouncementKind.INCIDENT, AnnouncementKind.MAINTENANCE
    now, coming = told(maintenance, -60.0, 600.0), told(maintenance, 600.0, 1_200.0)
    passed, resolved = told(maintenance, -1_200.0, -600.0), told(incident, -600.0, over=True)
    goes_on, ancient = told(incident, -40 * 86_400.0), told(incident, -40 * 86_400.0, over=True)
    every = [now, coming, passed, resolved, goes_on, ancient]
    found = lines_of(PublicStatus(page_of(UP, UP), [], every), START)
    assert ([now, goes_on], [coming], [passed, resolved]) == (found.current, found.coming, found.past)
    assert ["maintenance", "operational"] == [each.state for each in found.components]
    assert "An incident is being handled" == found.headline
    assert "Maintenance is under way" == lines_of(PublicStatus(page_of(UP, UP), [], [now]), START).headline
    assert "Work fails" == lines_of(PublicStatus(page_of(DOWN, DOWN), [], [goes_on]), START).headline


def test_days_and_shares_are_of_the_history_that_is_shown() -> None:
    """A day is as its worst state of a minute; a share is cut, never rounded up to all of the time."""
    days = [
        StatusDay(uuid4(), "Mail", TODAY, StateSeconds(operational=86_399.0, down=1.0)),
        StatusDay(uuid4(), "Mail", TODAY - timedelta(days=1), StateSeconds(operational=80_000.0, late=5_400.0)),
        StatusDay(uuid4(), "Mail", TODAY - timedelta(days=2), StateSeconds(operational=100.0, degraded=60, down=120)),
        StatusDay(uuid4(), "Mail", TODAY - timedelta(days=3), StateSeconds(down=9_999.0)),
    ]
    [line] = lines_of(PublicStatus(page_of(UP, history_days=3), days, []), START).components
    assert [(TODAY - timedelta(days=2), "down"), (TODAY - timedelta(days=1), "late"), (TODAY, "operational")] == [
        (cell.day, cell.state) for cell in line.cells
    ]
    assert ["late for 1 h 30 min", "failing for 2 min, partly failing for 1 min"] == [
        each.words for each in line.troubles
    ]
    assert ("99.92 %", "96.75 %") == (line.uptime, line.punctuality)
    [none] = lines_of(PublicStatus(page_of(UP, history_days=0), days[:1], []), START).components
    assert ([], "99.99 %") == (none.cells, none.uptime)
    [unknown] = lines_of(PublicStatus(page_of(UP, history_days=2), [], []), START).components
    assert (None, ["not known"] * 2) == (unknown.uptime, [each.words for each in unknown.cells])
