"""Why a job does not run now, and what is true of a time at which it did not, or will not, run."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.scene import DAY, HOUR, KEPT, Scene, scene

HOURLY = {"cron": "0 * * * *"}


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


# ------------------------------------------------------------------------------------------ at the moment


async def test_a_job_that_is_not_due(here: Scene) -> None:
    """Until when, on its own clock."""
    job_id = await here.create(**HOURLY, timezone="Asia/Tokyo")
    found = await here.explain(job_id)
    assert ("not_due", "2027-01-15T09:00:00Z") == (found["code"], found["data"]["next_due_time"])
    assert "The job is not due until 2027-01-15 18:00 (Asia/Tokyo)." == found["sentence"]
    assert (None, job_id) == (found["run_id"], found["job_id"])


async def test_a_job_whose_next_occurrences_are_closed(here: Scene) -> None:
    """The next one that runs, and how many are skipped before, by what."""
    shut = {"periods": [{"from": "2027-01-15T08:30:00Z", "to": "2027-01-15T10:30:00Z"}]}
    await here.ask("PUT", "/calendars/closed", 201, shut)
    job_id = await here.create(**HOURLY, calendars=[{"name": "closed"}])
    found = await here.explain(job_id)
    assert ("not_due", "2027-01-15T11:00:00Z", 2, "calendar") == (
        found["code"],
        *(found["data"][name] for name in ("next_due_time", "skipped_before", "skipped_reason")),
    )
    assert "closed" in found["sentence"]


async def test_a_job_that_no_calendar_ever_lets_run(here: Scene) -> None:
    """All that were looked at are skipped; no time is claimed."""
    await here.ask("PUT", "/calendars/once", 201, {"dates": ["2020-01-01"]})
    job_id = await here.create(**HOURLY, calendars=[{"name": "once", "mode": "include"}])
    found = await here.explain(job_id)
    assert ("not_due", None, 1_000) == (
        found["code"],
        found["data"]["next_due_time"],
        found["data"]["skipped_before"],
    )


async def test_a_paused_job(here: Scene) -> None:
    """By whom, since when, why and until when."""
    job_id = await here.create(**HOURLY)
    await here.pass_time(600)
    await here.ask("POST", f"/jobs/{job_id}/pause", 200, {"reason": "new disks", "until": "2027-01-15T12:30:00Z"})
    found = await here.explain(job_id)
    assert "paused" == found["code"]
    assert ("2027-01-15T08:10:00Z", "2027-01-15T12:30:00Z", "new disks") == tuple(
        found["data"][name] for name in ("paused_time", "paused_until", "reason")
    )
    assert found["data"]["paused_by"]
    assert f"by {found['data']['paused_by']}, since 2027-01-15 08:10 (UTC)" in found["sentence"]
    await here.pass_time(2 * HOUR)
    assert "paused" == (await here.explain(job_id, "09:00:00"))["code"]
    ahead = await here.explain(job_id, "12:00:00")
    assert ("will_be_skipped", "paused") == (ahead["code"], ahead["data"]["reason"])
    assert "will_fire" == (await here.explain(job_id, "13:00:00"))["code"]


async def test_a_paused_job_with_a_run_that_goes_on(here: Scene) -> None:
    """The run leads, and the pause is told too."""
    job_id = await here.create(**HOURLY)
    number = await here.join()
    await here.schedule(HOUR)
    await here.begin(number, await here.take(number))
    await here.ask("POST", f"/jobs/{job_id}/pause")
    found = await here.explain(job_id)
    assert ("running", ["paused"]) == (found["code"], [cause["code"] for cause in found["causes"]])


async def test_a_job_that_its_fuse_parked(here: Scene) -> None:
    """Too many runs in a minute, and how many are allowed."""
    job_id = await here.create(cron="* * * * * *", fuse_per_minute=5, overlap="allow")
    await here.schedule(20, step=1)
    found = await here.explain(job_id)
    assert ("waiting_no_executor", ["paused_fuse"]) == (found["code"], [each["code"] for each in found["causes"]])
    number = await here.join()
    await here.work(number)
    found = await here.explain(job_id)
    assert "paused_fuse" == found["code"]
    assert "The job is paused by its fuse, since" in found["sentence"]
    assert "more than 5 runs in one minute" in found["sentence"]


async def test_a_job_that_a_maintenance_window_holds_back(here: Scene) -> None:
    """Until when."""
    shut = {"periods": [{"from": "2027-01-15T08:30:00Z", "to": "2027-01-15T09:30:00Z"}]}
    await here.ask("PUT", "/windows/disks", 201, {"when": shut, "action": "defer"})
    job_id = await here.create(**HOURLY)
    await here.schedule(HOUR + 60)
    found = await here.explain(job_id)
    assert ("held_maintenance", "2027-01-15T09:30:00Z") == (found["code"], found["data"]["held_until"])


async def test_a_job_that_no_scheduler_has_looked_at(here: Scene) -> None:
    """Since how long, and what was noticed meanwhile."""
    job_id = await here.create(**HOURLY)
    await here.pass_time(HOUR + 300)
    await here.away("store_away", HOUR, HOUR + 200)
    found = await here.explain(job_id)
    assert ("waiting_scheduler", 300.0) == (found["code"], found["data"]["overdue_seconds"])
    assert ["store_away"] == [each["kind"] for each in found["data"]["absences"]]
    # What keeps it back is looked at for the present alone.
    assert {**found, "conditions": []} == await here.explain(job_id, "09:00:00")


# ------------------------------------------------------------------------------------------ never again


async def test_a_job_that_was_cancelled(here: Scene) -> None:
    """Since when."""
    job_id = await here.create(**HOURLY)
    await here.pass_time(600)
    await here.ask("DELETE", f"/jobs/{job_id}")
    for at in (None, "09:00:00"):
        found = await here.explain(job_id, at)
        assert ("job_cancelled", "2027-01-15T08:10:00Z") == (found["code"], found["data"]["cancelled_time"])


async def test_a_schedule_that_has_ended(here: Scene) -> None:
    """By its end, by the number of its runs."""
    ended = await here.create(**HOURLY, end_at="2027-01-15T09:30:00Z")
    made = await here.create(**HOURLY, max_runs=1)
    number = await here.join()
    await here.schedule(HOUR)
    await here.work(number)
    await here.schedule(HOUR)
    found = await here.explain(ended)
    assert ("over_end_at", "2027-01-15T09:30:00Z") == (found["code"], found["data"]["end_at"])
    found = await here.explain(made)
    assert ("over_max_runs", 1) == (found["code"], found["data"]["max_runs"])
    assert "fired" == (await here.explain(made, "09:00:00"))["code"]
    assert "over_max_runs" == (await here.explain(made, "2027-01-16T09:00:00Z"))["code"]


async def test_a_job_that_ran_once(here: Scene) -> None:
    """Before, while it waits, and when it is over."""
    job_id = await here.create(at="2027-01-15T09:00:00Z")
    assert "not_due" == (await here.explain(job_id))["code"]
    assert "will_fire" == (await here.explain(job_id, "09:00:00"))["code"]
    other = await here.explain(job_id, "10:00:00")
    assert ("not_an_occurrence", {"nominal_time": "2027-01-15T09:00:00Z"}) == (other["code"], other["data"]["after"])
    await here.pass_time(HOUR)
    await here.store.timers.fire(0.0, 10)
    assert "waiting_no_executor" == (await here.explain(job_id))["code"]
    assert "waiting_no_executor" == (await here.explain(job_id, "11:00:00"))["code"]
    await here.work(await here.join())
    over = await here.explain(job_id)
    assert "over_one_time" == over["code"]
    assert "its run of 2027-01-15 09:00 (UTC) ended as SUCCESS" in over["sentence"]
    assert "fired" == (await here.explain(job_id, "09:00:00"))["code"]


async def test_a_job_that_runs_once_and_was_skipped(here: Scene) -> None:
    """By what, whether it is asked of its time, of now or of later: its time is not just over."""
    shut = {"periods": [{"from": "2027-01-15T08:30:00Z", "to": "2027-01-15T09:30:00Z"}]}
    await here.ask("PUT", "/calendars/closed", 201, shut)
    job_id = await here.create(at="2027-01-15T09:00:00Z", calendars=[{"name": "closed"}])
    await here.schedule(HOUR + 60)
    for at in (None, "09:00:00", "12:00:00"):
        found = await here.explain(job_id, at)
        assert "skipped_calendar" == found["code"], at
        assert "was skipped: excluded by the calendar closed" in found["sentence"]
    assert ["over_one_time"] == [each["code"] for each in found["causes"]]


# ------------------------------------------------------------------------------------------ another time


async def test_a_time_that_the_schedule_does_not_name(here: Scene) -> None:
    """The latest before it with what became of that, and the next after it."""
    job_id = await here.create(**HOURLY)
    number = await here.join()
    await here.schedule(HOUR)
    await here.work(number)
    await here.schedule(HOUR)
    found = await here.explain(job_id, "09:30:00")
    assert "not_an_occurrence" == found["code"]
    assert ("2027-01-15T09:00:00Z", "fired") == (
        found["data"]["before"]["nominal_time"],
        found["data"]["before"]["code"],
    )
    assert {"nominal_time": "2027-01-15T10:00:00Z"} == found["data"]["after"]
    ahead = await here.explain(job_id, "10:30:00")
    assert {"nominal_time": "2027-01-15T11:00:00Z"} == ahead["data"]["after"]


async def test_the_moment_of_creation_is_no_occurrence(here: Scene) -> None:
    """A schedule counts from after it was stored, though it names that very moment."""
    job_id = await here.create(**HOURLY)
    for at in ("08:00:00", "08:30:00"):
        found = await here.explain(job_id, at)
        assert ("not_an_occurrence", None) == (found["code"], found["data"]["before"]), at


async def test_a_time_within_a_second_of_an_occurrence_means_it(here: Scene) -> None:
    """An interval that counts from a fraction of a second is found by the whole second."""
    job_id = await here.create(every="1h", anchor="2027-01-15T00:00:00.640000Z", overlap="allow")
    number = await here.join()
    await here.schedule(HOUR + 0.64)
    await here.work(number)
    for at in ("09:00:00.640000", "09:00:00", "09:00:01"):
        found = await here.explain(job_id, at)
        assert ("fired", "2027-01-15T09:00:00.640000Z") == (found["code"], found["nominal_time"]), at


async def test_a_time_before_the_job_was_there(here: Scene) -> None:
    """When it was created."""
    job_id = await here.create(**HOURLY)
    found = await here.explain(job_id, "07:00:00")
    assert ("not_yet_created", "2027-01-15T08:00:00Z") == (found["code"], found["data"]["created_time"])


async def test_a_time_before_the_schedule_was_changed(here: Scene) -> None:
    """What was on record stays told; of all else only that the schedule was another one."""
    job_id = await here.create(**HOURLY)
    number = await here.join()
    await here.schedule(HOUR)
    await here.work(number)
    await here.schedule(HOUR / 2 - 1)
    await here.ask("PUT", f"/jobs/{job_id}", 200, {"cron": "15 * * * *"})
    assert "fired" == (await here.explain(job_id, "09:00:00"))["code"]
    found = await here.explain(job_id, "08:30:00")
    assert ("schedule_changed", "2027-01-15T09:30:00Z") == (found["code"], found["data"]["changed_time"])


async def test_a_time_that_is_longer_ago_than_runs_are_kept(here: Scene) -> None:
    """It is forgotten, and that is said."""
    job_id = await here.create(cron="0 8 * * *")
    number = await here.join()
    for _ in range(40):
        await here.schedule(DAY, step=DAY)
        await here.work(number, seconds=0.0)
    await here.store.upkeep.maintain(KEPT)
    assert "fired" == (await here.explain(job_id, "2027-02-20T08:00:00Z"))["code"]
    found = await here.explain(job_id, "2027-01-17T08:00:00Z")
    assert "forgotten" == found["code"]
    assert "runs are kept for 30 days" in found["sentence"]


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00Z", "9993-12-22T00:00:00Z", "2027-01-15T09:00:00.999999Z"])
async def test_the_edges_of_time_are_told_without_a_failure(here: Scene, at: str) -> None:
    """Whatever the schedule."""
    for body in (HOURLY, {"every": "1h"}, {"at": "2027-01-15T09:00:00Z"}):
        assert (await here.explain(await here.create(**body), at))["sentence"]


async def test_a_job_that_is_not_there(here: Scene) -> None:
    """404; and a time that is none is 422."""
    await here.ask("GET", "/jobs/01a1fd81-8cdc-82e9-be4e-34f9a5bd159d/explain", 404)
    job_id = await here.create(**HOURLY)
    await here.ask("GET", f"/jobs/{job_id}/explain?at=noon", 422)
    await here.ask("GET", f"/jobs/{job_id}/explain?at=9999-12-31T23:59:59Z", 422)
