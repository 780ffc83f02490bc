"""Lists of jobs with the next times that calendars, windows and stops let run, and the last runs that were no plans."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import date
from typing import Any

import pytest_asyncio

from tests.support.app import World, world
from tests.unit.api.rig import START, WEEKENDS, calendar, create, get, pass_time, plan_ahead, post
from tickwise.adapters.clock import VirtualClock
from tickwise.domain.calendar.rules import Dates


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    async with world(clock=VirtualClock(START)) as made:
        yield made


async def next_runs(here: World, query: str) -> dict[str, Any]:
    return {job["name"]: job["next_run_at"] for job in await get(here, f"/jobs?{query}")}


async def test_next_times_pass_over_what_is_closed(here: World) -> None:
    """Of each job of a page, however many; what is deferred, or closed for ever, and jobs that no rule concerns too."""
    await calendar(here, "weekends", WEEKENDS)
    await calendar(here, "ever", Dates(date(2000, 1, 1), date(9000, 12, 31)))
    daily = {"cron": "0 7 * * *"}
    for number in range(25):
        await create(here, name=f"closed {number}", **daily, calendars=[{"name": "weekends"}])
    await create(here, name="put off", **daily, calendars=[{"name": "weekends", "otherwise": "defer"}])
    await create(here, name="never", **daily, calendars=[{"name": "ever"}])
    await create(here, name="free", **daily)
    await create(here, name="once", at="2027-01-16T07:00:00Z", calendars=[{"name": "weekends"}])
    saturday, monday = "2027-01-16T07:00:00Z", "2027-01-18T07:00:00Z"
    plain = await next_runs(here, "limit=50")
    assert {saturday} == set(plain.values())
    allowed = await next_runs(here, "limit=50&next_allowed=true")
    assert {"put off": "2027-01-18T00:00:00Z", "never": None, "free": saturday, "once": saturday} == {
        name: allowed.pop(name) for name in ("put off", "never", "free", "once")
    }
    assert (25, {monday}) == (len(allowed), set(allowed.values()))
    assert plain == await next_runs(here, "limit=50")


async def test_next_times_are_those_of_a_preview(here: World) -> None:
    """One after the other, until a run by schedule waits for its own time: then it is that."""
    await calendar(here, "weekends", WEEKENDS)
    job = await create(here, cron="0 7 * * *", calendars=[{"name": "weekends"}])
    fires = (await get(here, f"/jobs/{job}/preview"))["fires"]
    assert {"a": next(fire["due"] for fire in fires if fire["due"])} == await next_runs(here, "next_allowed=true")
    await post(here, f"/jobs/{job}/snooze", until="2027-01-18T09:30:00Z")
    assert {"a": "2027-01-18T09:30:00Z"} == await next_runs(here, "next_allowed=true")


async def test_a_run_that_is_yet_to_come_is_not_the_last_one(here: World) -> None:
    """Unless there is no other."""
    job = await create(here, cron="0 * * * *")
    await pass_time(here, 3_601)
    await plan_ahead(here, 1.0)
    await post(here, f"/jobs/{job}/snooze", until="2027-01-16T00:00:00Z")
    other = await create(here, name="b", cron="0 * * * *")
    await post(here, f"/jobs/{other}/snooze", until="2027-01-16T00:00:00Z")
    found = {run["job_id"]: run["due_time"] for run in await get(here, f"/runs?latest_of={job}&latest_of={other}")}
    assert {job: "2027-01-15T09:00:00Z", other: "2027-01-16T00:00:00Z"} == found
