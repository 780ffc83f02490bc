"""Maintenance windows over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.app import API, World, world
from tickwise.adapters.clock import VirtualClock

START = 1_800_000_000.0  # 2027-01-15T08:00:00Z, a Friday, where the virtual clock begins
SHELL = {"kind": "shell", "command": "date"}
NINE = {"periods": [{"from": "2027-01-15T09:00:00Z", "to": "2027-01-15T09:30:00Z"}]}


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


async def test_a_window_is_answered_as_it_was_sent(here: World) -> None:
    """Times, labels, action and reason; version and ETag as for calendars."""
    said = {"when": NINE, "labels": {"team": "data"}, "action": "defer", "reason": "new disks"}
    created = await ask(here, "PUT", "/windows/disks", 201, said)
    assert said == {name: created.json()[name] for name in said}
    read = await ask(here, "GET", "/windows/disks")
    assert (created.json(), created.headers["etag"]) == (read.json(), read.headers["etag"])


async def test_a_window_skips_all_jobs_unless_it_says_otherwise(here: World) -> None:
    """Without labels, action and reason: skip, every job of the namespace."""
    found = (await ask(here, "PUT", "/windows/disks", 201, {"when": NINE})).json()
    assert ({}, "skip", "") == (found["labels"], found["action"], found["reason"])


async def test_a_window_closes_the_times_of_the_jobs_that_it_concerns(here: World) -> None:
    """A job with the labels is skipped in it, another one is not."""
    await ask(here, "PUT", "/windows/disks", 201, {"when": NINE, "labels": {"team": "data"}, "reason": "new disks"})
    decisions = {}
    for team in ("data", "web"):
        body = {"name": team, "task": SHELL, "cron": "0 9 * * *", "labels": {"team": team}}
        job_id = (await ask(here, "POST", "/jobs", 201, body)).json()["job_id"]
        (fire,) = (await ask(here, "GET", f"/jobs/{job_id}/preview?count=1")).json()["fires"]
        decisions[team] = fire["decision"]
    assert {"data": "skip", "web": "fire"} == decisions


async def test_windows_are_listed_replaced_and_deleted(here: World) -> None:
    """In pages by name, under the same conditions as calendars."""
    for name in ("b", "a"):
        made = await ask(here, "PUT", f"/windows/{name}", 201, {"when": NINE})
    first = await ask(here, "GET", "/windows?limit=1")
    assert [("a", "skip")] == [(each["name"], each["action"]) for each in first.json()]
    following = first.headers["link"].split(">")[0].removeprefix(f"<{API}")
    assert ["b"] == [each["name"] for each in (await ask(here, "GET", following)).json()]
    await ask(here, "PUT", "/windows/a", 412, {"when": NINE, "reason": "x"}, if_match='"2"')
    await ask(here, "PUT", "/windows/a", 412, {"when": NINE, "reason": "x"}, if_none_match="*")
    await ask(here, "PUT", "/windows/a", 200, {"when": NINE, "reason": "x"}, if_match=made.headers["etag"])
    assert "x" == (await ask(here, "DELETE", "/windows/a")).json()["reason"]
    await ask(here, "GET", "/windows/a", 404)


async def test_a_window_and_a_calendar_may_share_a_name(here: World) -> None:
    """They are two kinds of things."""
    await ask(here, "PUT", "/windows/a", 201, {"when": NINE})
    await ask(here, "GET", "/calendars/a", 404)
    await ask(here, "PUT", "/calendars/a", 201, NINE)


async def test_it_is_told_when_a_window_goes_on(here: World) -> None:
    """As for calendars."""
    await ask(here, "PUT", "/windows/a", 201, {"when": NINE})
    (only,) = (await ask(here, "GET", "/windows/a/covers")).json()["covers"]
    assert ("2027-01-15T09:00:00Z", "2027-01-15T09:30:00Z") == (only["from"], only["to"])
    await ask(here, "GET", "/windows/b/covers", 404)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/when"),
        ({"when": {}}, "/when"),
        ({"when": {"dates": ["never"]}}, "/when/dates/0"),
        ({"when": NINE, "action": "wait"}, "/action"),
        ({"when": NINE, "labels": {"team": 1}}, "/labels/team"),
        ({"when": NINE, "until": "x"}, "/until"),
        ({"when": NINE, "reason": "x" * 1_001}, "/reason"),
    ],
)
async def test_what_is_no_window_is_refused_at_the_field(here: World, body: Any, pointer: str) -> None:
    """422 with the pointer, and nothing is stored."""
    assert pointer == (await ask(here, "PUT", "/windows/a", 422, body)).json()["pointer"]
    await ask(here, "GET", "/windows/a", 404)


async def test_keys_for_calendars_do_not_open_windows(here: World) -> None:
    """A window without labels stops every job of the namespace: it has a scope of its own."""
    key = await here.key("for-calendars", "calendars:read", "calendars:write")
    await ask(here, "PUT", "/windows/a", 403, {"when": NINE}, authorization=f"Bearer {key}")
