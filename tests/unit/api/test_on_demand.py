"""Jobs without a schedule: they are there, run when they are asked to, and never by themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.scene import DAY, HOUR, SHELL, Scene, scene
from tickwise.domain.errors import Invalid
from tickwise.domain.schedule import Schedule, ScheduleType, check, explain, first_fire, next_fire, preview

ON_DEMAND = {"schedule_type": "ON_DEMAND"}


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


def test_it_names_no_time() -> None:
    """Neither the first nor the next one, wherever one looks; and it does not recur."""
    schedule = Schedule(ScheduleType.ON_DEMAND)
    check(schedule, now=0.0)
    assert (None, None, [], False) == (
        next_fire(schedule, 0.0),
        first_fire(schedule, 1e9),
        preview(schedule, 0.0, 5),
        schedule.recurs,
    )
    assert "only when it is asked for" in explain(schedule)


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"at": 1.8e9}, "/schedule_time"),
        ({"cron_expression": "0 3 * * *"}, "/cron_expression"),
        ({"interval_seconds": 60.0}, "/interval_seconds"),
        ({"start_at": 1.8e9}, "/start_at"),
        ({"max_runs": 3}, "/max_runs"),
        ({"jitter_seconds": 3.0}, "/jitter_seconds"),
    ],
)
def test_what_speaks_of_times_contradicts_it(fields: dict[str, Any], pointer: str) -> None:
    """Refused, with the field."""
    with pytest.raises(Invalid) as refusal:
        check(Schedule(ScheduleType.ON_DEMAND, **fields))
    assert pointer == refusal.value.pointer


async def test_it_stays_scheduled_and_runs_only_when_it_is_asked_to(here: Scene) -> None:
    """However long nobody asks, and after each run."""
    job_id = await here.create(**ON_DEMAND)
    for _ in range(2):
        await here.schedule(2 * DAY, step=DAY)
        job = await here.ask("GET", f"/jobs/{job_id}")
        assert ("SCHEDULED", None) == (job["status"], job["next_run_at"])
    assert [] == await here.ask("GET", f"/jobs/{job_id}/runs")
    await here.ask("POST", f"/jobs/{job_id}/runNow", 202)
    await here.work(await here.join())
    assert "SCHEDULED" == (await here.ask("GET", f"/jobs/{job_id}"))["status"]
    assert ["SUCCESS"] == [run["status"] for run in await here.ask("GET", f"/jobs/{job_id}/runs")]


async def test_it_is_found_by_its_type_and_shows_no_times(here: Scene) -> None:
    """In lists, previews, and its time line."""
    job_id = await here.create(**ON_DEMAND)
    await here.create(every="1h")
    found = await here.ask("GET", "/jobs?schedule_type=ON_DEMAND")
    assert [job_id] == [job["job_id"] for job in found]
    saved = await here.ask("GET", f"/jobs/{job_id}/preview")
    unsaved = await here.ask("POST", "/jobs:preview", 200, ON_DEMAND)
    assert [[], []] == [saved["fires"], unsaved["fires"]]
    assert "only when it is asked for" in saved["explanation"]
    assert [] == await here.ask("GET", f"/jobs/{job_id}/occurrences")


async def test_it_is_paused_resumed_and_cancelled(here: Scene) -> None:
    """A pause says that no sequence shall start it; there is nothing of a schedule to skip, snooze or backfill."""
    job_id = await here.create(**ON_DEMAND)
    assert "PAUSED" == (await here.ask("POST", f"/jobs/{job_id}/pause", 200, {"reason": "broken"}))["status"]
    assert "SCHEDULED" == (await here.ask("POST", f"/jobs/{job_id}/resume", 200, {"missed": "run_all"}))["status"]
    for action, body in (
        ("skipNext", {}),
        ("snooze", {"until": "2027-01-16T08:00:00Z"}),
        ("backfill", {"from": "2027-01-14T08:00:00Z", "to": "2027-01-15T07:00:00Z"}),
    ):
        assert "job_not_recurring" == (await here.ask("POST", f"/jobs/{job_id}/{action}", 409, body))["code"]
    assert "CANCELLED" == (await here.ask("DELETE", f"/jobs/{job_id}"))["status"]
    for action in ("pause", "resume", "runNow"):
        await here.ask("POST", f"/jobs/{job_id}/{action}", 409)


async def test_a_schedule_is_taken_away_and_given(here: Scene) -> None:
    """What was due is not made up for later; a schedule that is given counts from now."""
    job_id = await here.create(every="1h", jitter_seconds=5)
    changed = await here.ask("PUT", f"/jobs/{job_id}", 200, ON_DEMAND)
    assert ("ON_DEMAND", None, None, 0.0) == tuple(
        changed[name] for name in ("schedule_type", "interval_seconds", "next_run_at", "jitter_seconds")
    )
    assert any("jitter_seconds" in warning for warning in changed["warnings"])
    await here.schedule(3 * HOUR)
    assert [] == await here.ask("GET", f"/jobs/{job_id}/runs")
    dry = await here.ask("PUT", f"/jobs/{job_id}?dry_run=true", 200, {"every": "1h"})
    assert ([], 20) == (dry["before"], len(dry["added"]))
    await here.ask("PUT", f"/jobs/{job_id}", 200, {"every": "1h"})
    await here.schedule(HOUR)
    assert 1 == len(await here.ask("GET", f"/jobs/{job_id}/runs"))


async def test_a_paused_job_loses_its_schedule_and_stays_paused(here: Scene) -> None:
    """Until it is resumed."""
    job_id = await here.create(every="1h")
    await here.ask("POST", f"/jobs/{job_id}/pause")
    assert "PAUSED" == (await here.ask("PUT", f"/jobs/{job_id}", 200, ON_DEMAND))["status"]
    assert "SCHEDULED" == (await here.ask("POST", f"/jobs/{job_id}/resume"))["status"]


async def test_what_is_said_of_times_that_there_are_not_is_warned_of(here: Scene) -> None:
    """It would mean something with a schedule, so it is kept."""
    body = {"name": "a", "task": SHELL, **ON_DEMAND, "misfire": {"mode": "all"}, "overlap": "allow"}
    created = await here.ask("POST", "/jobs", 201, body)
    assert ["misfire and overlap concern runs by schedule, and this job has no schedule"] == created["warnings"]


async def test_a_body_that_says_nothing_of_when_is_told_of_it(here: Scene) -> None:
    """It is never implied."""
    found = await here.ask("POST", "/jobs", 422, {"name": "a", "task": SHELL})
    assert ("/schedule_type", True) == (found["pointer"], "ON_DEMAND" in found["detail"])
