"""One time line of a job over HTTP: past, held back, to come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.scene import START, Scene, scene
from tickwise.api.endpoint import cursor_of
from tickwise.domain.model import Trigger
from tickwise.ports.store import NewRun


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


async def line(here: Scene, job_id: str, query: str = "") -> list[dict[str, Any]]:
    """The whole time line, all pages of it."""
    path: str | None = f"{API}/jobs/{job_id}/occurrences?{query}"
    found: list[dict[str, Any]] = []
    while path:
        answer = await here.world.client.get(path)
        assert 200 == answer.status_code, answer.text
        found += answer.json()
        link = answer.headers.get("link")
        path = link[1 : link.index(">")] if link else None
    return found


def short(entries: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Time of day, kind and outcome."""
    return [(each["nominal_time"][11:16], each["kind"], each["outcome"]) for each in entries]


async def test_past_and_future_are_one_time_line(here: Scene) -> None:
    """From a day ago to a day ahead: runs with their state and id, then what comes, in order."""
    job_id = await here.create(cron="0 */8 * * *")
    await here.schedule(9 * 3600)
    found = await line(here, job_id)
    wanted = [("16:00", "past", "QUEUED"), *((at, "future", "fire") for at in ("00:00", "08:00", "16:00"))]
    assert wanted == short(found)
    assert ["2027-01-15T16:00:00Z"] == [each["nominal_time"] for each in found if each["run_id"]]
    run = await here.ask("GET", f"/runs/{found[0]['run_id']}")
    assert job_id == run["job_id"]


async def test_pages_go_on_where_the_last_one_ended(here: Scene) -> None:
    """Every occurrence once and in order, whatever the length of a page, also across now."""
    job_id = await here.create(cron="*/10 * * * *")
    await here.schedule(3 * 3600 + 60)
    whole = await line(here, job_id, "limit=1000")
    assert 18 == sum(each["kind"] == "past" for each in whole)
    assert 144 == sum(each["kind"] == "future" for each in whole)
    assert sorted(each["nominal_time"] for each in whole) == [each["nominal_time"] for each in whole]
    for limit in (1, 7, 161, 162):
        assert whole == await line(here, job_id, f"limit={limit}"), limit


async def test_a_page_goes_on_though_time_has_passed(here: Scene) -> None:
    """What was to come when the first page was read and is on record now is told once."""
    job_id = await here.create(cron="*/10 * * * *")
    query = "from=2027-01-15T08:00:00Z&to=2027-01-15T10:00:00Z&limit=3"
    first = await here.world.client.get(f"{API}/jobs/{job_id}/occurrences?{query}")
    await here.schedule(3600 + 60)
    link = first.headers["link"]
    second = await here.world.client.get(link[1 : link.index(">")])
    assert ["08:10", "08:20", "08:30"] == [each["nominal_time"][11:16] for each in first.json()]
    assert [("08:40", "past"), ("08:50", "past"), ("09:00", "past")] == [
        (each["nominal_time"][11:16], each["kind"]) for each in second.json()
    ]


async def test_a_dense_past_is_told_from_its_beginning(here: Scene) -> None:
    """Thousands of runs, several of one millisecond among them: the earliest first, none left out."""
    job_id = await here.create(cron="0 0 1 1 *")
    runs = [
        NewRun(
            run_id=UUID(int=(int((START - 40_000 + number // 3) * 1000) << 80) | (0x8 << 76) | (0b10 << 62) | number),
            due=START,
            trigger=Trigger.BACKFILL,
            nominal=START - 40_000 + number // 3,
        )
        for number in range(3_000)
    ]
    await here.store.runs.add("default", UUID(job_id), runs)
    assert [str(run.run_id) for run in runs] == [each["run_id"] for each in await line(here, job_id, "limit=800")]
    alike = await line(here, job_id, "from=2027-01-14T20:53:20Z&to=2027-01-14T20:53:20Z&limit=1")
    assert [str(run.run_id) for run in runs[:3]] == [each["run_id"] for each in alike]
    assert {"backfill"} == {each["trigger"] for each in alike}


async def test_skipped_occurrences_say_why(here: Scene) -> None:
    """By a person, by a calendar, by a pause: each with its reason and words."""
    await here.ask(
        "PUT",
        "/calendars/closed",
        201,
        {"periods": [{"from": "2027-01-15T10:00:00Z", "to": "2027-01-15T10:30:00Z"}]},
    )
    job_id = await here.create(cron="0 * * * *", calendars=[{"name": "closed"}])
    await here.ask("POST", f"/jobs/{job_id}/skipNext", 200, {"reason": "inventory"})
    found = await line(here, job_id, "to=2027-01-15T11:00:00Z")
    assert [("09:00", "future", "SKIPPED"), ("10:00", "future", "skip"), ("11:00", "future", "fire")] == short(found)
    assert ["requested", "calendar", None] == [each["reason"] for each in found]
    assert ["inventory" in found[0]["note"], "closed" in found[1]["note"]] == [True, True]
    await here.schedule(3 * 3600 + 60)
    found = await line(here, job_id, "to=2027-01-15T11:00:00Z")
    assert [("09:00", "past", "SKIPPED"), ("10:00", "past", "SKIPPED"), ("11:00", "past", "QUEUED")] == short(found)
    assert [None, None] == [each["due_time"] for each in found[:2]]


async def test_what_is_deferred_says_to_when(here: Scene) -> None:
    """Its due time is when the calendar opens; later it is held back, with how many it stands for."""
    shut = {"periods": [{"from": "2027-01-15T10:00:00Z", "to": "2027-01-15T12:30:00Z"}]}
    await here.ask("PUT", "/calendars/closed", 201, shut)
    job_id = await here.create(cron="0 * * * *", calendars=[{"name": "closed", "otherwise": "defer"}])
    found = await line(here, job_id, "from=2027-01-15T10:00:00Z&to=2027-01-15T10:00:00Z")
    assert [("defer", "2027-01-15T12:30:00Z", "calendar")] == [
        (each["outcome"], each["due_time"], each["reason"]) for each in found
    ]
    await here.schedule(3 * 3600 + 60)
    found = await line(here, job_id, "from=2027-01-15T10:00:00Z&to=2027-01-15T13:00:00Z")
    assert [("10:00", "pending", "defer"), ("12:00", "future", "defer"), ("13:00", "future", "fire")] == short(found)
    assert (2, "2027-01-15T11:00:00Z") == (found[0]["occurrences"], found[0]["until"])


async def test_what_falls_into_a_pause_is_told_while_it_lasts(here: Scene) -> None:
    """What has passed is pending as one; what comes is skipped until the pause ends, with who said so."""
    job_id = await here.create(cron="0 * * * *")
    await here.ask("POST", f"/jobs/{job_id}/pause", 200, {"reason": "new disks", "until": "2027-01-15T12:30:00Z"})
    await here.pass_time(2 * 3600 + 60)
    found = await line(here, job_id, "to=2027-01-15T13:00:00Z")
    wanted = [("09:00", "pending", "skip"), ("11:00", "future", "skip"), ("12:00", "future", "skip")]
    assert [*wanted, ("13:00", "future", "fire")] == short(found)
    assert (2, "2027-01-15T10:00:00Z", "paused") == (found[0]["occurrences"], found[0]["until"], found[0]["reason"])
    assert "new disks" in found[1]["note"]


async def test_what_is_held_back_after_the_range_is_not_told(here: Scene) -> None:
    """A range that ends before the pause began holds nothing of the pause."""
    job_id = await here.create(cron="0 * * * *")
    await here.ask("POST", f"/jobs/{job_id}/pause")
    await here.pass_time(3 * 3600)
    before = "from=2027-01-15T07:00:00Z&to=2027-01-15T08:59:00Z"
    assert [] == await line(here, job_id, before)
    assert ["pending"] == [each["kind"] for each in await line(here, job_id, before.replace("08:59", "09:00"))]


async def test_a_record_of_several_reaches_into_the_range(here: Scene) -> None:
    """A range that begins in the middle of a long pause tells of it."""
    job_id = await here.create(cron="0 * * * *")
    await here.ask("POST", f"/jobs/{job_id}/pause")
    await here.pass_time(48 * 3600)
    await here.ask("POST", f"/jobs/{job_id}/resume", 200, {})
    found = await line(here, job_id, "from=2027-01-16T12:30:00Z&to=2027-01-17T09:00:00Z")
    assert [("09:00", "past", "SKIPPED"), ("09:00", "future", "fire")] == short(found)
    assert ("2027-01-15T09:00:00Z", 48, "2027-01-17T08:00:00Z") == tuple(
        found[0][name] for name in ("nominal_time", "occurrences", "until")
    )
    assert [] == await line(here, job_id, "from=2027-01-17T08:00:01Z&to=2027-01-17T08:30:00Z")


async def test_what_is_overdue_is_pending(here: Scene) -> None:
    """With no scheduler at work: what its next look will make of what it missed."""
    job_id = await here.create(cron="0 * * * *", misfire={"mode": "latest"})
    await here.pass_time(3 * 3600 + 300)
    found = await line(here, job_id, "to=2027-01-15T12:00:00Z")
    assert [("09:00", "pending", "skip"), ("11:00", "pending", "fire"), ("12:00", "future", "fire")] == short(found)
    assert ("misfire", 2) == (found[0]["reason"], found[0]["occurrences"])


async def test_jitter_moves_the_due_time_as_it_will(here: Scene) -> None:
    """The due time told ahead is the one that the run has."""
    job_id = await here.create(cron="0 * * * *", jitter_seconds=600)
    query = "from=2027-01-15T09:00:00Z&to=2027-01-15T09:00:00Z"
    (before,) = await line(here, job_id, query)
    assert "2027-01-15T09:00:00Z" < before["due_time"] < "2027-01-15T09:10:00Z"
    await here.schedule(3700)
    (after,) = await line(here, job_id, query)
    assert (before["due_time"], "QUEUED") == (after["due_time"], after["outcome"])


async def test_changes_of_the_clock_are_told(here: Scene) -> None:
    """In Berlin 2027-03-28 02:30 does not exist: it runs right after, or is left out if the job says so."""
    query = "from=2027-03-28T00:00:00Z&to=2027-03-29T12:00:00Z"
    after = await here.create(cron="30 2 * * *", timezone="Europe/Berlin")
    found = await line(here, after, query)
    assert [("01:00", "fire"), ("00:30", "fire")] == [(at, fate) for at, _, fate in short(found)]
    assert "does not exist" in found[0]["note"]
    never = await here.create(cron="30 2 * * *", timezone="Europe/Berlin", dst={"gap": "skip"})
    found = await line(here, never, query)
    assert [("01:00", "skip", "dst"), ("00:30", "fire", None)] == [
        (each["nominal_time"][11:16], each["outcome"], each["reason"]) for each in found
    ]


async def test_a_schedule_with_max_runs_ends_on_the_line(here: Scene) -> None:
    """No more occurrences than it has runs left; those that are skipped do not count."""
    job_id = await here.create(cron="0 * * * *", max_runs=3)
    assert 3 == len(await line(here, job_id))
    assert [] == await line(here, job_id, "from=2027-01-15T12:00:00Z&to=2027-01-15T20:00:00Z")
    await here.schedule(3700)
    assert ["past", "future", "future"] == [each["kind"] for each in await line(here, job_id)]


async def test_a_cancelled_job_has_no_future(here: Scene) -> None:
    """What was stays."""
    job_id = await here.create(cron="0 * * * *")
    await here.schedule(3700)
    await here.ask("DELETE", f"/jobs/{job_id}")
    assert [("09:00", "past", "CANCELLED")] == short(await line(here, job_id))


async def test_a_job_that_runs_once_is_told_before_and_after(here: Scene) -> None:
    """One occurrence."""
    job_id = await here.create(at="2027-01-15T09:00:00Z")
    assert [("09:00", "future", "fire")] == short(await line(here, job_id))
    await here.pass_time(3700)
    assert [("09:00", "pending", "fire")] == short(await line(here, job_id))
    await here.store.timers.fire(0.0, 10)
    assert [("09:00", "past", "QUEUED")] == short(await line(here, job_id))


async def test_what_people_ask_for_beside_the_schedule_is_no_occurrence(here: Scene) -> None:
    """Run now is listed among the runs."""
    job_id = await here.create(cron="0 0 1 1 *")
    await here.ask("POST", f"/jobs/{job_id}/runNow", 202)
    assert [] == await line(here, job_id)
    assert 1 == len(await here.ask("GET", f"/jobs/{job_id}/runs"))


async def test_made_up_runs_are_marked(here: Scene) -> None:
    """Those of a pause, and those of a backfill, at their nominal time."""
    job_id = await here.create(cron="0 * * * *")
    await here.ask("POST", f"/jobs/{job_id}/pause")
    await here.pass_time(2 * 3600 + 60)
    await here.ask("POST", f"/jobs/{job_id}/resume", 200, {"missed": "run_latest"})
    body = {"from": "2027-01-15T07:00:00Z", "to": "2027-01-15T07:00:00Z"}
    await here.ask("POST", f"/jobs/{job_id}/backfill", 202, body)
    found = await line(here, job_id, "to=2027-01-15T10:30:00Z")
    assert [("07:00", "backfill"), ("09:00", "schedule"), ("10:00", "missed")] == [
        (each["nominal_time"][11:16], each["trigger"]) for each in found
    ]


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("from=2027-01-15T09:00:00Z&to=2027-01-15T08:00:00Z", None),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("from=yesterday", "from"),
        ("cursor=xyz", "cursor"),
        ("until=2027-01-15T09:00:00Z", "until"),
    ],
)
async def test_a_range_that_is_none_is_refused(here: Scene, query: str, parameter: str | None) -> None:
    """422, naming what is at fault."""
    job_id = await here.create(cron="0 * * * *")
    problem = await here.ask("GET", f"/jobs/{job_id}/occurrences?{query}", 422)
    assert parameter == problem.get("parameter")
    assert ("/to" if parameter is None else None) == problem.get("pointer")


async def test_the_edges_of_time_are_told_without_a_failure(here: Scene) -> None:
    """From the first year to the last, and behind cursors that nobody was given."""
    job_id = await here.create(cron="0 * * * *", timezone="Europe/Berlin")
    whole = "from=0001-01-01T00:00:00Z&to=9999-12-31T23:59:59Z&limit=3"
    first = await here.world.client.get(f"{API}/jobs/{job_id}/occurrences?{whole}")
    assert ["09:00", "10:00", "11:00"] == [each["nominal_time"][11:16] for each in first.json()]
    for cursor in ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"):
        await here.ask("GET", f"/jobs/{job_id}/occurrences?{whole}&cursor={cursor_of(cursor)}")


async def test_a_job_that_is_not_there_has_no_time_line(here: Scene) -> None:
    """404."""
    await here.ask("GET", "/jobs/01a1fd81-8cdc-82e9-be4e-34f9a5bd159d/occurrences", 404)
