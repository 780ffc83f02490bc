"""Calendars over HTTP: create, replace, look up, delete, and which times they cover."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.app import API, World, world
from tickwise.adapters.clock import VirtualClock
from tickwise.control.schedules import stored_rules
from tickwise.domain.errors import Misconfigured
from tickwise.ports.calendars import DaySpan, Resolved
from tickwise.ports.signals import Topic

START = 1_800_000_000.0  # 2027-01-15T08:00:00Z, a Friday, where the virtual clock begins
SHELL = {"kind": "shell", "command": "date"}
WEEKEND = {"weekly": [{"days": ["sat", "sun"]}]}
ICS = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//a//a//EN
BEGIN:VEVENT
UID:one
DTSTAMP:20260101T000000Z
DTSTART;VALUE=DATE:20270120
DTEND;VALUE=DATE:20270122
SUMMARY:Stocktaking
END:VEVENT
END:VCALENDAR
"""


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    async with world(clock=VirtualClock(START)) as made:
        yield made


async def ask(here: World, method: str, path: str, status: int = 200, /, body: Any = None, **headers: str) -> Any:
    """The answer, which must have this status. Headers are written with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = await here.client.request(method, API + path, json=body, headers=named)
    assert status == answer.status_code, answer.text
    return answer


async def test_a_calendar_is_answered_as_it_was_sent(here: World) -> None:
    """201 with version 1 and its ETag; the same on a later look."""
    said = {"timezone": "Europe/Berlin", "dates": ["2027-01-20"], **WEEKEND}
    created = await ask(here, "PUT", "/calendars/closed", 201, said)
    assert created.headers["etag"] == (await ask(here, "GET", "/calendars/closed")).headers["etag"]
    found = (await ask(here, "GET", "/calendars/closed")).json()
    assert created.json() == found
    assert said == found["calendar"]
    assert {"name": "closed", "version": 1, "resolved": None} == {
        name: found[name] for name in ("name", "version", "resolved")
    }
    assert "2027-01-15T08:00:00Z" == found["created_at"]


async def test_a_replaced_calendar_has_the_next_version(here: World) -> None:
    """200, the new body as a whole; who created it and when stays."""
    first = await ask(here, "PUT", "/calendars/closed", 201, WEEKEND)
    before = first.json()
    after = await ask(here, "PUT", "/calendars/closed", 200, {"dates": ["2027-02-01"]})
    assert (2, False) == (after.json()["version"], first.headers["etag"] == after.headers["etag"])
    assert {"dates": ["2027-02-01"]} == after.json()["calendar"]
    assert before["created_at"] == after.json()["created_at"]


async def test_the_same_again_changes_nothing(here: World) -> None:
    """A repeated PUT keeps the version: no timer is decided anew for it."""
    await ask(here, "PUT", "/calendars/closed", 201, WEEKEND)
    assert 1 == (await ask(here, "PUT", "/calendars/closed", 200, WEEKEND)).json()["version"]


async def test_if_none_match_creates_and_never_replaces(here: World) -> None:
    """412 for a name that is taken by another calendar."""
    await ask(here, "PUT", "/calendars/closed", 201, WEEKEND, if_none_match="*")
    other = {"dates": ["2027-02-01"]}
    problem = (await ask(here, "PUT", "/calendars/closed", 412, other, if_none_match="*")).json()
    assert ("version_conflict", True) == (problem["code"], "only creates" in problem["detail"])
    assert WEEKEND == (await ask(here, "GET", "/calendars/closed")).json()["calendar"]


async def test_if_match_replaces_only_the_version_that_was_read(here: World) -> None:
    """The version that is stored: 200; another, and any of a name that is free: 412."""
    read = (await ask(here, "PUT", "/calendars/closed", 201, WEEKEND)).headers["etag"]
    await ask(here, "PUT", "/calendars/closed", 200, {"dates": ["2027-02-01"]}, if_match=read)
    await ask(here, "PUT", "/calendars/closed", 412, {"dates": ["2027-02-02"]}, if_match=read)
    await ask(here, "PUT", "/calendars/closed", 200, {"dates": ["2027-02-02"]}, if_match="*")
    await ask(here, "PUT", "/calendars/free", 412, WEEKEND, if_match="*")
    await ask(here, "PUT", "/calendars/free", 412, WEEKEND, if_match='"1"')
    await ask(here, "GET", "/calendars/free", 404)


async def test_a_deleted_calendar_is_gone_and_its_name_free(here: World) -> None:
    """What was deleted is answered, so that it can be put back."""
    read = (await ask(here, "PUT", "/calendars/closed", 201, WEEKEND)).headers["etag"]
    await ask(here, "DELETE", "/calendars/closed", 412, if_match='"2"')
    gone = (await ask(here, "DELETE", "/calendars/closed", if_match=read)).json()
    assert WEEKEND == gone["calendar"]
    await ask(here, "GET", "/calendars/closed", 404)
    await ask(here, "DELETE", "/calendars/closed", 404)
    await ask(here, "PUT", "/calendars/closed", 201, WEEKEND, if_none_match="*")


async def test_a_calendar_that_a_job_goes_by_cannot_be_deleted(here: World) -> None:
    """409 says what to do; once the job is cancelled, it can."""
    await ask(here, "PUT", "/calendars/closed", 201, WEEKEND)
    job = {"name": "a", "task": SHELL, "every": "1h", "calendars": [{"name": "closed"}]}
    job_id = (await ask(here, "POST", "/jobs", 201, job)).json()["job_id"]
    problem = (await ask(here, "DELETE", "/calendars/closed", 409)).json()
    assert "calendar_in_use" == problem["code"]
    assert "take it out of the `calendars`" in problem["detail"]
    await ask(here, "DELETE", f"/jobs/{job_id}")
    await ask(here, "DELETE", "/calendars/closed")


async def test_a_change_wakes_the_schedulers(here: World) -> None:
    """What a calendar held back is decided anew at once, not at the next look."""
    here.bell.rung.clear()
    await ask(here, "PUT", "/calendars/closed", 201, WEEKEND)
    assert [Topic.TIMERS] == here.bell.rung
    await ask(here, "DELETE", "/calendars/closed")
    assert [Topic.TIMERS] * 2 == here.bell.rung


async def test_the_list_is_by_name_in_pages(here: World) -> None:
    """Each calendar once, with what it comes to in short; the Link header leads on."""
    for name in ("c", "a", "b"):
        await ask(here, "PUT", f"/calendars/{name}", 201, WEEKEND)
    first = await ask(here, "GET", "/calendars?limit=2")
    assert ["a", "b"] == [each["name"] for each in first.json()]
    assert ("UTC", 1, False) == tuple(first.json()[0][name] for name in ("timezone", "entries", "ics"))
    following = first.headers["link"].split(">")[0].removeprefix(f"<{API}")
    second = await ask(here, "GET", following)
    assert (["c"], False) == ([each["name"] for each in second.json()], "link" in second.headers)


async def test_calendars_of_another_namespace_are_not_there(here: World) -> None:
    """Neither seen nor deleted nor in the way."""
    await ask(here, "PUT", "/calendars/closed", 201, WEEKEND)
    other = {"authorization": f"Bearer {await here.key('elsewhere', '*', namespace='other')}"}
    await ask(here, "GET", "/calendars/closed", 404, **other)
    await ask(here, "DELETE", "/calendars/closed", 404, **other)
    assert [] == (await ask(here, "GET", "/calendars", **other)).json()
    await ask(here, "PUT", "/calendars/closed", 201, WEEKEND, if_none_match="*", **other)


async def test_an_icalendar_file_is_resolved_when_it_is_stored(here: World) -> None:
    """What was sent and what it comes to are both answered; the list leaves the text out."""
    found = (await ask(here, "PUT", "/calendars/shop", 201, {"ics": ICS})).json()
    assert ICS == found["calendar"]["ics"]
    assert [{"from": "2027-01-20", "to": "2027-01-21", "name": "Stocktaking"}] == found["resolved"]["dates"]
    (item,) = (await ask(here, "GET", "/calendars")).json()
    assert (True, False) == (item["ics"], "calendar" in item)


async def test_holidays_of_a_country_are_resolved_when_they_are_stored(here: World) -> None:
    """New Year's Day of Germany is among them."""
    found = (await ask(here, "PUT", "/calendars/holidays", 201, {"holidays": {"country": "DE"}})).json()
    assert "2028-01-01" in [day["from"] for day in found["resolved"]["dates"]]
    covers = (await ask(here, "GET", "/calendars/holidays/covers?from=2027-12-31T00:00:00Z&limit=1")).json()["covers"]
    assert [("2028-01-01T00:00:00Z", "2028-01-02T00:00:00Z")] == [(each["from"], each["to"]) for each in covers]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, ""),
        ({"dates": ["2027-02-30"]}, "/dates/0"),
        ({"weekly": [{"days": ["someday"]}]}, "/weekly/0/days/0"),
        ({"timezone": "Mars/Olympus", **WEEKEND}, "/timezone"),
        ({"recurring": [{"cron": "0 3 * *", "duration": "2h"}]}, "/recurring/0/cron"),
        ({"ics": "nothing of the kind"}, "/ics"),
        ({"holidays": {"country": "Narnia"}}, "/holidays/country"),
        ({"date": ["2027-02-01"]}, "/date"),
        ({"ics": "\0" * 1000}, "/ics"),
        ({"dates": [[["2027-02-01"]]]}, "/dates/0"),
    ],
)
async def test_what_is_no_calendar_is_refused_at_the_field(here: World, body: Any, pointer: str) -> None:
    """422 with the pointer, and nothing is stored."""
    problem = (await ask(here, "PUT", "/calendars/closed", 422, body)).json()
    assert pointer == problem["pointer"], problem
    await ask(here, "GET", "/calendars/closed", 404)


@pytest.mark.parametrize("name", ["x" * 201, "%00", "%20a", "a%0A"])
async def test_a_name_that_cannot_be_kept_is_refused(here: World, name: str) -> None:
    """And is not there when it is asked for."""
    await ask(here, "PUT", f"/calendars/{name}", 422, WEEKEND)
    await ask(here, "GET", f"/calendars/{name}", 404)


class NoLibrary:
    """An installation without the extra `calendars`."""

    def ics(self, text: str, timezone: str, span: DaySpan) -> Resolved:
        raise Misconfigured("iCalendar files need a library (icalendar): run pip install 'tickwise[calendars]'")

    def holidays(self, country: str, subdivision: str | None, span: DaySpan) -> Resolved:
        raise Misconfigured("the holidays of countries need a library: run pip install 'tickwise[calendars]'")


@pytest.mark.parametrize(("body", "field"), [({"ics": ICS}, "ics"), ({"holidays": {"country": "DE"}}, "holidays")])
async def test_a_library_that_is_not_installed_is_named(body: Any, field: str) -> None:
    """The problem says what to install; calendars that need none are stored as ever."""
    async with world(clock=VirtualClock(START), calendars=NoLibrary()) as here:
        problem = (await ask(here, "PUT", "/calendars/a", 422, body)).json()
        assert ("calendar_library_missing", f"/{field}") == (problem["code"], problem["pointer"])
        assert "pip install 'tickwise[calendars]'" in problem["detail"]
        problem = (await ask(here, "PUT", "/windows/a", 422, {"when": body})).json()
        assert f"/when/{field}" == problem["pointer"]
        await ask(here, "PUT", "/calendars/a", 201, WEEKEND)


class Slow:
    """A reader that is done when the test says so."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def ics(self, text: str, timezone: str, span: DaySpan) -> Resolved:
        self.go.wait(60)
        return Resolved((), ("read",))

    def holidays(self, country: str, subdivision: str | None, span: DaySpan) -> Resolved:
        return Resolved((), ("read",))


async def test_a_file_that_takes_too_long_is_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """429 with Retry-After; meanwhile the server goes on, and later the same file is read."""
    monkeypatch.setattr(stored_rules, "MAX_READING_SECONDS", 0.05)
    slow = Slow()
    async with world(clock=VirtualClock(START), calendars=slow) as here:
        for _ in range(stored_rules.MAX_READINGS + 1):
            answer = await ask(here, "PUT", "/calendars/a", 429, {"ics": ICS})
            assert ("busy", True) == (answer.json()["code"], "retry-after" in answer.headers)
        await ask(here, "PUT", "/calendars/b", 201, WEEKEND)
        slow.go.set()
        monkeypatch.setattr(stored_rules, "MAX_READING_SECONDS", 60.0)
        await ask(here, "PUT", "/calendars/a", 201, {"ics": ICS})


# ------------------------------------------------------------------------------------------ which times are covered


async def test_covered_times_are_told_from_now_on(here: World) -> None:
    """The next 30 days, neighbours as one stretch, with the words of what covers it."""
    await ask(here, "PUT", "/calendars/closed", 201, {"dates": ["2027-01-18"], **WEEKEND})
    found = (await ask(here, "GET", "/calendars/closed/covers")).json()
    assert ("2027-01-15T08:00:00Z", "2027-02-14T08:00:00Z") == (found["from"], found["to"])
    first = found["covers"][0]
    assert ("2027-01-16T00:00:00Z", "2027-01-19T00:00:00Z") == (first["from"], first["to"])
    assert "sat, sun" in first["what"]
    assert (5, False) == (len(found["covers"]), found["more"])


async def test_the_range_and_the_limit_bound_what_is_told(here: World) -> None:
    """`more` says that the limit came first; the end of a stretch may lie after the range."""
    await ask(here, "PUT", "/calendars/closed", 201, WEEKEND)
    path = "/calendars/closed/covers?from=2027-01-16T12:00:00Z"
    one = (await ask(here, "GET", f"{path}&to=2027-01-24T00:00:00Z&limit=1")).json()
    assert (["2027-01-16T12:00:00Z"], True) == ([each["from"] for each in one["covers"]], one["more"])
    rest = (await ask(here, "GET", f"{path}&to=2027-01-16T13:00:00Z&limit=1")).json()
    assert (["2027-01-18T00:00:00Z"], False) == ([each["to"] for each in rest["covers"]], rest["more"])


async def test_a_calendar_without_an_end_says_so(here: World) -> None:
    """All days of the week: `to` is null."""
    days = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
    body = {"calendar": {"weekly": [{"days": days}]}, "limit": 5}
    found = (await ask(here, "POST", "/calendars:preview", 200, body)).json()
    assert [None] == [each["to"] for each in found["covers"]]


async def test_a_calendar_that_is_not_stored_can_be_looked_at(here: World) -> None:
    """The same answer as for a stored one, and nothing is kept."""
    body = {"calendar": {"ics": ICS}, "from": "2027-01-01T00:00:00Z", "to": "2027-02-01T00:00:00Z"}
    found = (await ask(here, "POST", "/calendars:preview", 200, body)).json()
    (only,) = found["covers"]
    assert ("2027-01-20T00:00:00Z", "2027-01-22T00:00:00Z") == (only["from"], only["to"])
    assert "Stocktaking" in only["what"]
    assert [] == (await ask(here, "GET", "/calendars")).json()


@pytest.mark.parametrize(
    "query", ["from=2027-01-02T00:00:00Z&to=2027-01-01T00:00:00Z", "from=2027-01-02T00:00:00Z&to=2047-01-01T00:00:00Z"]
)
async def test_a_range_that_is_none_or_too_long_is_refused(here: World, query: str) -> None:
    """422: later than `from`, and within ten years."""
    await ask(here, "PUT", "/calendars/closed", 201, WEEKEND)
    assert "/to" == (await ask(here, "GET", f"/calendars/closed/covers?{query}", 422)).json()["pointer"]


async def test_a_calendar_at_the_end_of_time_is_told_without_a_failure(here: World) -> None:
    """Ranges at the edges of what times there are."""
    await ask(here, "PUT", "/calendars/closed", 201, WEEKEND)
    for start, end in (("9999-12-30", "9999-12-31"), ("0001-01-01", "0001-01-02")):
        await ask(here, "GET", f"/calendars/closed/covers?from={start}T00:00:00Z&to={end}T00:00:00Z")


@pytest.mark.parametrize(("path", "inside"), [("calendars/chain", ""), ("windows/chain", "/when")])
async def test_a_calendar_that_takes_too_long_to_decide_is_refused(here: World, path: str, inside: str) -> None:
    """A hundred lines, one of them on at each minute: the refusal names it, and says what to simplify."""
    lines = [*(f"{minute} * * * *" for minute in range(60)), *(f"{minute} 3 29 2 */7" for minute in range(40))]
    calendar = {"recurring": [{"cron": line, "duration": "61s"} for line in lines]}
    answer = await here.client.put(f"{API}/{path}", json={"when": calendar} if inside else calendar)
    found = answer.json()
    assert (422, "calendar_too_much", f"{inside}/recurring") == (answer.status_code, found["code"], found["pointer"])
    assert "chain" in found["detail"]
    assert "merge recurring lines" in found["detail"]
