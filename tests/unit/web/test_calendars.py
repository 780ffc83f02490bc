"""Calendars and windows on pages: the lines of the form, and what a form does."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.pages import Markup, Rig, pages
from tickwise.documents.calendars import CalendarBody
from tickwise.domain.audit import AuditAction
from tickwise.domain.errors import Invalid
from tickwise.ports.audit import AuditQuery
from tickwise.web import calendar_text

BODIES: list[dict[str, Any]] = [
    {"dates": ["2026-12-25", {"from": "2026-12-20", "to": "2027-01-06", "name": "freeze"}]},
    {"dates": [{"from": "2026-12-25", "name": "Christmas Day"}], "timezone": "Europe/Berlin"},
    {"weekly": [{"days": ["mon", "tue", "wed", "thu", "fri"], "from": "09:00", "to": "17:00", "name": "office"}]},
    {"weekly": [{"days": ["sat", "sun"]}, {"days": ["mon", "wed"], "from": "22:00", "to": "02:00"}]},
    {"recurring": [{"cron": "30 2 * * *", "duration": "45m", "name": "backup"}, {"cron": "@daily", "duration": "1h"}]},
    {"periods": [{"from": "2026-11-26T12:00:00Z", "to": "2026-11-26T14:00:00Z", "name": "upgrade"}]},
    {"holidays": {"country": "DE", "subdivision": "BY"}, "dates": ["2026-12-24"]},
]


@pytest.mark.parametrize("body", BODIES, ids=json.dumps)
def test_a_calendar_is_the_same_after_its_form(body: dict[str, Any]) -> None:
    """What the form shows is read as what was shown."""
    calendar = msgspec.convert(body, CalendarBody)
    shown = calendar_text.shown(calendar)
    again = calendar_text.read(shown)
    assert calendar_text.shown(again) == shown
    assert [sorted(each.days) for each in again.weekly] == [sorted(each.days) for each in calendar.weekly]
    assert (again.periods, again.recurring, again.holidays) == (
        calendar.periods, calendar.recurring, calendar.holidays,
    )  # fmt: skip


def test_people_write_lines_in_several_ways() -> None:
    """Ranges of weekdays over the weekend, hours with `to`, times in the zone of the calendar."""
    read = calendar_text.read({
        "timezone": "Europe/Berlin", "weekly": "fri-mon 10:00 to 12:00\nmon , wed shift\n\n  sun  ",
        "periods": "2026-07-01 12:00 .. 2026-07-01T14:00 lunch",
    })  # fmt: skip
    assert [set(each.days) for each in read.weekly] == [{"fri", "sat", "sun", "mon"}, {"mon", "wed"}, {"sun"}]
    assert (read.weekly[0].begin, read.weekly[0].end, read.weekly[1].name) == ("10:00", "12:00", "shift")
    assert (read.periods[0].begin, read.periods[0].name) == ("2026-07-01T10:00:00Z", "lunch")


@pytest.mark.parametrize(
    ("form", "field", "line"),
    [
        ({"dates": "2026-12-25\n\nChristmas"}, "dates", 2),
        ({"weekly": "mon-fri 9-17"}, "weekly", 1),
        ({"weekly": "someday"}, "weekly", 1),
        ({"weekly": "mon\nsat 10-12"}, "weekly", 2),
        ({"recurring": "30 2 * * *"}, "recurring", 1),
        ({"periods": "2026-13-01 12:00 to 2026-12-01 14:00"}, "periods", 1),
        ({"periods": "2026-11-01 12:00 to 2026-12-01 14:00", "timezone": "Mars/Base"}, "periods", 1),
        ({"subdivision": "BY"}, "country", None),
        ({"dates": "2026-12-25\n" * 1_001}, "dates", None),
    ],
)
def test_a_line_that_cannot_be_read_is_named(form: dict[str, str], field: str, line: int | None) -> None:
    """With its field and its number."""
    with pytest.raises(Invalid) as refusal:
        calendar_text.read(form)
    assert calendar_text.place_of(refusal.value.pointer) == (field, line)


@pytest.mark.parametrize(
    ("pointer", "place"),
    [("/dates/3/from", ("dates", 4)), ("/when/weekly/0", ("weekly", 1)), ("/calendar/timezone", ("timezone", None)),
     ("/holidays/country", ("country", None)), ("/when", ("", None)), (None, ("", None))],
)  # fmt: skip
def test_a_pointer_of_control_is_a_place_of_the_form(pointer: str | None, place: tuple[str, int | None]) -> None:
    """Of calendars and of windows."""
    assert calendar_text.place_of(pointer) == place


@pytest_asyncio.fixture(scope="module")
async def rig() -> AsyncIterator[Rig]:
    async with pages() as made:
        yield made


async def test_a_calendar_is_made_changed_and_deleted(rig: Rig) -> None:
    """Each with an entry in the audit log; a job that goes by it keeps it."""
    browser = await rig.signed_in("keeper", ("developer", "default"))
    made = await browser.post("/calendars", {"name": "freeze week", "dates": "2026-12-25 Christmas Day"})
    assert 303 == made.status_code, made.text
    assert made.headers["location"].startswith("/calendars/freeze%20week?done=stored")
    page = Markup((await browser.get("/calendars/freeze%20week")).text)
    assert "Christmas Day" in page.words
    job = {"name": "goes by it", "every": "1h", "calendars": [{"name": "freeze week"}]}
    job_id = (await rig.here.client.post(f"{API}/jobs", json=job)).json()["job_id"]
    assert "goes by it" in Markup((await browser.get("/calendars/freeze%20week")).text).words
    refused = await browser.post("/calendars/freeze%20week/delete", {"confirm": "yes"})
    assert 409 == refused.status_code
    assert "jobs go by the calendar" in refused.text
    changed = await browser.post("/calendars/freeze%20week", {"version": "1", "dates": "2026-12-26"})
    assert 303 == changed.status_code
    late = await browser.post("/calendars/freeze%20week", {"version": "1", "dates": "2026-12-27"})
    assert 409 == late.status_code
    assert "2026-12-27" in late.text, "what was typed comes back"
    await rig.here.client.delete(f"{API}/jobs/{job_id}")
    assert 422 == (await browser.post("/calendars/freeze%20week/delete")).status_code
    assert 303 == (await browser.post("/calendars/freeze%20week/delete", {"confirm": "yes"})).status_code
    assert 404 == (await browser.get("/calendars/freeze%20week")).status_code
    for action, count in ((AuditAction.CALENDAR_PUT, 2), (AuditAction.CALENDAR_DELETED, 1)):
        rows = await rig.here.store.audit.find(AuditQuery(namespace="default", action=action, actor="keeper", limit=10))
        assert len(rows) == count


async def test_a_window_is_made_and_changed(rig: Rig) -> None:
    """With labels, an action and a reason."""
    browser = await rig.signed_in("windows", ("developer", "default"))
    form = {"name": "upgrade", "periods": "2027-01-01 12:00 to 2027-01-01 14:00", "labels": "team=data, env=prod",
            "action": "defer", "reason": "the array is <replaced>"}  # fmt: skip
    assert 303 == (await browser.post("/windows", form)).status_code
    stored = (await rig.here.client.get(f"{API}/windows/upgrade")).json()
    assert ({"team": "data", "env": "prod"}, "defer") == (stored["labels"], stored["action"])
    assert "the array is <replaced>" in Markup((await browser.get("/windows/upgrade")).text).text
    changed = await browser.post("/windows/upgrade", {**form, "labels": "", "version": "1", "action": "skip"})
    assert 303 == changed.status_code, changed.text
    assert {} == (await rig.here.client.get(f"{API}/windows/upgrade")).json()["labels"]
    assert 303 == (await browser.post("/windows/upgrade/delete", {"confirm": "yes"})).status_code


async def test_a_form_that_is_refused_comes_back(rig: Rig) -> None:
    """With what was typed, and the fault at its line. Nothing is stored."""
    browser = await rig.signed_in("typist", ("developer", "default"))
    for form, told in (
        ({"name": "x", "dates": "2026-12-25\nsoon"}, "Line 2"), ({"name": "x"}, "a calendar needs dates"),
        ({"dates": "2026-12-25"}, "give it a name"), ({"name": "x", "dates": "2026-02-30"}, "Line 1"),
        ({"name": " x\x00", "dates": "2026-12-25"}, "U+0000"),
    ):  # fmt: skip
        answer = await browser.post("/calendars", form)
        assert 422 == answer.status_code, form
        assert answer.text.count(told) in (1, 2), "at its field, and on top of the page"
        assert form.get("dates", "") in answer.text
    assert 404 == (await rig.here.client.get(f"{API}/calendars/x")).status_code


async def test_a_name_that_is_taken_is_not_replaced_by_a_new_one(rig: Rig) -> None:
    """The list's form makes; a calendar's own page changes."""
    browser = await rig.signed_in("taker", ("developer", "default"))
    assert 303 == (await browser.post("/calendars", {"name": "taken", "dates": "2026-12-25"})).status_code
    assert 409 == (await browser.post("/calendars", {"name": "taken", "dates": "2026-12-26"})).status_code
    assert ["2026-12-25"] == (await rig.here.client.get(f"{API}/calendars/taken")).json()["calendar"]["dates"]


async def test_a_preview_stores_nothing(rig: Rig) -> None:
    """It shows the times, and the form as it was typed."""
    browser = await rig.signed_in("previews", ("developer", "default"))
    answer = await browser.post(
        "/calendars", {"name": "maybe", "weekly": "mon-sun 01:00-02:00 early", "preview": "yes"}
    )
    assert 200 == answer.status_code
    assert "mon-sun 01:00 to 02:00 early" in answer.text
    assert 404 == (await rig.here.client.get(f"{API}/calendars/maybe")).status_code


async def test_a_viewer_is_offered_no_form(rig: Rig) -> None:
    """But sees calendars and windows."""
    assert (await rig.here.client.put(f"{API}/calendars/seen", json={"dates": ["2026-12-25"]})).is_success
    browser = await rig.signed_in("looks on", ("viewer", "default"))
    for path in ("/calendars", "/calendars/seen"):
        page = Markup((await browser.get(path)).text)
        assert "seen" in page.words
        actions = {form["action"] for form in page.named("form") if form.get("method") == "post"}
        assert {"/logout", "/display"} == actions


async def test_lists_go_on_by_name(rig: Rig) -> None:
    """Each page of calendars, and of windows, by its own link."""
    for number in range(30):
        assert (await rig.here.client.put(f"{API}/calendars/many-{number:02}", json=BODIES[0])).is_success
    browser = await rig.signed_in("pages", ("viewer", "default"))
    first = Markup((await browser.get("/calendars")).text)
    [after] = [each["href"] for each in first.named("a") if each.get("rel") == "next"]
    second = Markup((await browser.get(after)).text)
    found = {f"many-{number:02}" for number in range(30)}
    assert found <= set((first.words + second.words).split())
