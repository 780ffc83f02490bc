"""Why a run began when it did, waits, or did not run. Each case has a code of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.scene import HOUR, START, Scene, scene
from tickwise.domain.decision import SkipReason, TimerState
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import run_id
from tickwise.ports.store import ClaimRequest, NewSkip, OccurrenceMove
from tickwise.testing.factories import outcome

HOURLY = {"cron": "0 * * * *"}
AT_NINE = START + HOUR


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


def the_run(job_id: str, nominal: float = AT_NINE) -> UUID:
    return run_id(UUID(job_id), nominal)


# ------------------------------------------------------------------------------------------ it ran


async def test_a_run_that_began_on_time(here: Scene) -> None:
    """The sentence has the times on the job's clock; run and job say the same."""
    job_id = await here.create(**HOURLY, timezone="Europe/Berlin")
    number = await here.join()
    await here.schedule(HOUR)
    await here.work(number)
    found = await here.explain(job_id, "09:00:00")
    assert "fired" == found["code"]
    assert "began on time, at 2027-01-15 10:00 (Europe/Berlin)" in found["sentence"]
    assert ("SUCCESS", 0.0) == (found["data"]["status"], found["data"]["late_seconds"])
    assert found == await here.explain_run(found["run_id"])
    assert (job_id, "2027-01-15T09:00:00Z", []) == (found["job_id"], found["nominal_time"], found["causes"])


@pytest.mark.parametrize(
    ("kind", "code"), [("scheduler_away", "late_scheduler_away"), ("store_away", "late_store_away")]
)
async def test_a_run_that_was_made_late_for_somebody_was_away(here: Scene, kind: str, code: str) -> None:
    """Who was away, from when to when, and who noticed it."""
    job_id = await here.create(**HOURLY)
    number = await here.join()
    await here.pass_time(HOUR + 40)
    await here.away(kind, HOUR - 10, HOUR + 40)
    await here.schedule(0.5)
    await here.work(number)
    found = await here.explain(job_id, "09:00:00")
    assert code == found["code"]
    assert 40.5 == found["data"]["late_seconds"]
    assert ("2027-01-15T08:59:50Z", "2027-01-15T09:00:40Z", "scheduler-1") == tuple(
        found["data"][name] for name in ("away_from", "away_to", "noticed_by")
    )
    assert "40 s late" in found["sentence"]


async def test_a_run_that_was_made_late_and_nobody_noticed_an_absence(here: Scene) -> None:
    """Schedulers were behind: no more is claimed."""
    job_id = await here.create(**HOURLY)
    number = await here.join()
    await here.pass_time(HOUR + 40)
    await here.schedule(0.5)
    await here.work(number)
    assert "late_scheduler_behind" == (await here.explain(job_id, "09:00:00"))["code"]


async def test_a_run_that_was_made_in_time_and_then_the_database_was_away(here: Scene) -> None:
    """It lay there, and nobody could take it."""
    job_id = await here.create(**HOURLY)
    number = await here.join()
    await here.schedule(HOUR)
    await here.pass_time(30)
    await here.away("store_away", HOUR + 1, HOUR + 30)
    await here.work(number)
    assert "late_store_away" == (await here.explain(job_id, "09:00:00"))["code"]


async def test_a_run_that_waited_for_the_one_before(here: Scene) -> None:
    """While it waits, and afterwards: for which run, under which policy."""
    job_id = await here.create(**HOURLY, overlap="queue_all")
    number = await here.join()
    await here.schedule(HOUR)
    first = await here.take(number)
    assert 1 == await here.begin(number, first)
    await here.schedule(HOUR)
    second = await here.take(number)
    assert 0 == await here.begin(number, second)
    waiting = await here.explain_run(the_run(job_id, AT_NINE + HOUR))
    assert ("waiting_overlap", str(first[0].run_id)) == (waiting["code"], waiting["data"]["waits_for"])
    await here.pass_time(300)
    await here.finish(number, first)
    await here.work(number)
    found = await here.explain(job_id, "10:00:00")
    assert ("late_overlap", str(first[0].run_id)) == (found["code"], found["data"]["waited_for"])
    assert "overlap: queue_all" in found["sentence"]


async def test_a_run_for_which_no_executor_was_alive(here: Scene) -> None:
    """First it waits for one, then it was late for that."""
    job_id = await here.create(**HOURLY)
    await here.schedule(HOUR + 100)
    waiting = await here.explain(job_id)
    assert ("waiting_no_executor", 100.0) == (waiting["code"], waiting["data"]["waiting_seconds"])
    await here.work(await here.join())
    found = await here.explain(job_id, "09:00:00")
    assert ("late_no_executor", "2027-01-15T09:01:40Z") == (found["code"], found["data"]["executors_from"])


@pytest.mark.parametrize(
    ("job", "first", "then"),
    [
        ({"queue": "reports"}, {}, {"queues": ("reports",)}),
        ({"requires": ["gpu"]}, {}, {"labels": ("gpu",)}),
    ],
)
async def test_a_run_that_nobody_alive_could_take(here: Scene, job: Any, first: Any, then: Any) -> None:
    """The queue and the labels that were missing are named."""
    job_id = await here.create(**HOURLY, **job)
    await here.join(**first)
    await here.schedule(HOUR + 100)
    waiting = await here.explain(job_id)
    assert "waiting_not_offered" == waiting["code"]
    assert (job.get("queue", "default"), job.get("requires", [])) == (
        waiting["data"]["queue"],
        waiting["data"]["labels"],
    )
    number = await here.join(**then)
    claims = await here.store.attempts.claim(_all_of(number, then))
    await here.begin(number, claims)
    found = await here.explain(job_id, "09:00:00")
    assert "running" == found["code"]
    assert ["late_not_offered"] == [cause["code"] for cause in found["causes"]]
    await here.finish(number, claims)
    assert "late_not_offered" == (await here.explain(job_id, "09:00:00"))["code"]


@pytest.mark.parametrize(
    ("first", "because"),
    [
        ({}, "no executor with the queue 'reports' was alive until 2027-01-15 09:10 (UTC)"),
        (None, "no executor was alive until 2027-01-15 09:10 (UTC)"),
        ({"queues": ("reports",)}, ""),
    ],
)
async def test_a_run_that_expired_because_nobody_could_take_it(here: Scene, first: Any, because: str) -> None:
    """The queue that no executor served is named; nothing is claimed where one did."""
    job_id = await here.create(**HOURLY, queue="reports", start_deadline_seconds=60)
    if first is not None:
        await here.join(**first)
    await here.schedule(HOUR + 600)
    late = await here.join(queues=("reports",))
    [claimed] = await here.take(late, queues=("reports",))
    error = "no executor could start it in time: it waited 600 s, and its deadline is 60 s (start_deadline_seconds)"
    ended = here.clock.now()
    skip = outcome(claimed, RunState.SKIPPED, started=0.0, ended=ended, reason=SkipReason.EXPIRED.value, error=error)
    assert [] == list(await here.store.attempts.finish(late, [skip]))
    found = await here.explain(job_id, "09:00:00")
    assert "skipped_expired" == found["code"]
    assert error in found["sentence"]
    assert because in found["sentence"]
    assert bool(because) == ("no executor with" in found["sentence"] or "no executor was" in found["sentence"])


def _all_of(number: int, then: Any) -> ClaimRequest:
    return ClaimRequest(
        executor=number,
        queues=then.get("queues", ("default",)),
        labels=("task:shell", *then.get("labels", ())),
        limit=10,
        ahead_seconds=0.0,
    )


async def test_a_run_whose_function_nobody_offers(here: Scene) -> None:
    """The function is named."""
    job_id = await here.create(**HOURLY, task={"kind": "function", "name": "reports.build"})
    await here.join(functions=("other.thing",))
    await here.schedule(HOUR)
    found = await here.explain(job_id)
    assert ("waiting_not_offered", "reports.build") == (found["code"], found["data"]["function"])
    assert "'reports.build'" in found["sentence"]


async def test_a_run_before_which_others_of_higher_priority_were_taken(here: Scene) -> None:
    """While it waits, and afterwards, with the priorities."""
    low = await here.create(**HOURLY, priority=3)
    high = await here.create(**HOURLY, priority=8)
    number = await here.join(slots=1)
    await here.schedule(HOUR)
    first = await here.take(number, limit=1)
    assert [UUID(high)] == [each.job_id for each in first]
    await here.begin(number, first)
    await here.pass_time(60)
    waiting = await here.explain(low)
    assert ("waiting_priority", 3, 8) == (waiting["code"], waiting["data"]["priority"], waiting["data"]["higher"])
    await here.finish(number, first)
    await here.work(number)
    found = await here.explain(low, "09:00:00")
    assert ("late_priority", [str(first[0].run_id)]) == (found["code"], found["data"]["taken_first"])


async def test_a_run_for_which_no_slot_was_free(here: Scene) -> None:
    """While it waits, and afterwards, with the number of slots."""
    busy = await here.create(every="10m")
    late = await here.create(**HOURLY)
    number = await here.join(slots=1)
    await here.schedule(600)
    long = await here.take(number)
    assert [UUID(busy)] == [each.job_id for each in long]
    await here.begin(number, long)
    await here.schedule(HOUR - 600)
    await here.pass_time(90)
    waiting = await here.explain(late)
    assert ("waiting_executors_busy", 1, 1) == (
        waiting["code"],
        waiting["data"]["slots"],
        waiting["data"]["held"],
    )
    await here.finish(number, long)
    claims = [each for each in await here.take(number) if each.job_id == UUID(late)]
    await here.begin(number, claims)
    await here.finish(number, claims)
    found = await here.explain(late, "09:00:00")
    assert ("late_executors_busy", "2027-01-15T09:01:30Z") == (found["code"], found["data"]["taken_time"])


async def test_a_run_whose_executor_began_late(here: Scene) -> None:
    """It was handed out in time."""
    job_id = await here.create(**HOURLY)
    number = await here.join()
    await here.schedule(HOUR)
    claims = await here.take(number)
    await here.pass_time(20)
    waiting = await here.explain(job_id)
    assert ("handed_out", str(number)) == (waiting["code"], waiting["data"]["executor_id"])
    await here.begin(number, claims)
    await here.finish(number, claims)
    assert "late_start" == (await here.explain(job_id, "09:00:00"))["code"]


async def test_a_run_whose_first_executor_was_lost_before_it_began(here: Scene) -> None:
    """It was handed out in time, and again when the lease was over."""
    job_id = await here.create(**HOURLY)
    await here.join()
    dying = await here.join(lease_seconds=10.0)
    await here.schedule(HOUR - 5)
    await here.store.executors.beat(dying, 10.0)
    await here.schedule(5)
    await here.take(dying)
    await here.pass_time(30)
    await here.store.executors.expire(3)
    await here.work(await here.join())
    assert "late_executor_lost" == (await here.explain(job_id, "09:00:00"))["code"]


async def test_a_run_whose_executor_was_lost_while_it_ran(here: Scene) -> None:
    """It began on time, and another attempt followed; which executor is told."""
    job_id = await here.create(**HOURLY)
    await here.schedule(HOUR)
    dying = await here.join(lease_seconds=10.0)
    await here.begin(dying, await here.take(dying))
    await here.pass_time(30)
    await here.store.executors.expire(3)
    await here.work(await here.join())
    found = await here.explain(job_id, "09:00:00")
    assert ("executor_lost", [str(dying)]) == (found["code"], found["data"]["lost_executors"])


async def test_a_run_that_failed_and_was_tried_again(here: Scene) -> None:
    """While it waits for its backoff: until when, and with which error; afterwards: how often."""
    job_id = await here.create(**HOURLY)
    number = await here.join()
    await here.schedule(HOUR)
    claims = await here.take(number)
    await here.begin(number, claims)
    again = AT_NINE + 60
    await here.finish(number, claims, RunState.RETRYING, error="disk full\nat line 3", reason="error", retry_at=again)
    waiting = await here.explain(job_id)
    assert ("waiting_backoff", "2027-01-15T09:01:00Z", 1) == (
        waiting["code"],
        waiting["data"]["ready_time"],
        waiting["data"]["failures"],
    )
    assert "disk full" in waiting["sentence"]
    assert "retried" not in [each["code"] for each in waiting["causes"]]
    await here.pass_time(60)
    await here.work(number)
    found = await here.explain(job_id, "09:00:00")
    assert ("retried", 1) == (found["code"], found["data"]["retries"])


async def test_a_run_that_goes_on(here: Scene) -> None:
    """Since when."""
    job_id = await here.create(**HOURLY)
    number = await here.join()
    await here.schedule(HOUR)
    await here.begin(number, await here.take(number))
    await here.pass_time(300)
    found = await here.explain(job_id)
    assert ("running", "2027-01-15T09:00:00Z") == (found["code"], found["data"]["started_time"])
    assert "running since 2027-01-15 09:00 (UTC)" in found["sentence"]


async def test_a_run_that_somebody_can_take(here: Scene) -> None:
    """Nothing keeps it: it should be a moment."""
    job_id = await here.create(**HOURLY)
    await here.join()
    await here.schedule(HOUR)
    assert "waiting_turn" == (await here.explain(job_id))["code"]


# ------------------------------------------------------------------------------------------ at another time


async def test_a_run_that_a_calendar_deferred(here: Scene) -> None:
    """Which calendar, and to when; before, while it is held back, and afterwards."""
    shut = {"periods": [{"from": "2027-01-15T08:30:00Z", "to": "2027-01-15T09:30:00Z"}]}
    await here.ask("PUT", "/calendars/closed", 201, shut)
    job_id = await here.create(**HOURLY, calendars=[{"name": "closed", "otherwise": "defer"}])
    number = await here.join()
    before = await here.explain(job_id, "09:00:00")
    assert ("will_be_deferred", "2027-01-15T09:30:00Z") == (before["code"], before["data"]["due_time"])
    because = "excluded by the calendar closed: 2027-01-15 08:30 to 09:30."
    assert f"will be deferred, and is due at 2027-01-15 09:30 (UTC): {because}" in before["sentence"]
    await here.schedule(HOUR + 60)
    during = await here.explain(job_id, "09:00:00")
    assert ("held_calendar", "2027-01-15T09:30:00Z") == (during["code"], during["data"]["held_until"])
    assert f"is held back until 2027-01-15 09:30 (UTC): {because}" in during["sentence"]
    assert "held_calendar" == (await here.explain(job_id))["code"]
    await here.schedule(HOUR / 2 - 60)
    await here.work(number)
    after = await here.explain(job_id, "09:00:00")
    assert ("deferred", "closed") == (after["code"], after["data"]["closed_by"])
    assert "The run of 2027-01-15 09:00 (UTC) began when it was due, at 2027-01-15 09:30 (UTC)" in after["sentence"]


async def test_a_run_that_somebody_moved(here: Scene) -> None:
    """Before it is due, and afterwards."""
    job_id = await here.create(**HOURLY)
    number = await here.join()
    await here.ask("POST", f"/jobs/{job_id}/snooze", 200, {"until": "2027-01-15T09:20:00Z"})
    before = await here.explain_run(the_run(job_id))
    assert ("not_due", "2027-01-15T09:20:00Z") == (before["code"], before["data"]["due_time"])
    assert ["snoozed"] == [cause["code"] for cause in before["causes"]]
    await here.schedule(HOUR + 1200)
    await here.work(number)
    assert "snoozed" == (await here.explain(job_id, "09:00:00"))["code"]


async def test_a_run_that_somebody_moved_out_of_a_closed_time(here: Scene) -> None:
    """It would have been deferred, but a person was first: not the calendar moved it."""
    shut = {"periods": [{"from": "2027-01-15T08:30:00Z", "to": "2027-01-15T09:30:00Z"}]}
    await here.ask("PUT", "/calendars/closed", 201, shut)
    job_id = await here.create(**HOURLY, calendars=[{"name": "closed", "otherwise": "defer"}])
    number = await here.join()
    await here.ask("POST", f"/jobs/{job_id}/snooze", 200, {"until": "2027-01-15T09:45:00Z"})
    await here.schedule(HOUR + 2700)
    await here.work(number)
    found = await here.explain(job_id, "09:00:00")
    assert "snoozed" == found["code"]
    assert "it was snoozed from 2027-01-15 09:00 (UTC) to 2027-01-15 09:45 (UTC)" in found["sentence"]


async def test_a_held_back_run_that_somebody_moved(here: Scene) -> None:
    """The calendar held it back first; that it runs so late is what a person wanted."""
    shut = {"periods": [{"from": "2027-01-15T08:30:00Z", "to": "2027-01-15T09:30:00Z"}]}
    await here.ask("PUT", "/calendars/closed", 201, shut)
    job_id = await here.create(**HOURLY, calendars=[{"name": "closed", "otherwise": "defer"}])
    await here.schedule(HOUR + 60)
    assert "held_calendar" == (await here.explain(job_id, "09:00:00"))["code"]
    await here.ask("POST", f"/jobs/{job_id}/snooze", 200, {"until": "2027-01-15T09:45:00Z"})
    found = await here.explain_run(the_run(job_id))
    assert ("not_due", ["snoozed"]) == (found["code"], [cause["code"] for cause in found["causes"]])


async def test_a_run_that_was_missed_and_made_up_for(here: Scene) -> None:
    """With the absence that was noticed; the ones that were not made up for were skipped."""
    job_id = await here.create(**HOURLY)
    number = await here.join()
    await here.pass_time(2 * HOUR + 1800)
    await here.away("scheduler_away", HOUR, 2 * HOUR + 1800)
    await here.schedule(30)
    run = await here.store.runs.get("default", the_run(job_id, AT_NINE + HOUR))
    assert run is not None
    await here.pass_time(run.due_at - here.clock.now())  # what is made up for is spread over some seconds
    await here.work(number)
    found = await here.explain(job_id, "10:00:00")
    assert "made_up_for" == found["code"]
    assert "began when it was due" in found["sentence"]
    assert (
        "its time was missed, so it was made up for (no scheduler was at work from 2027-01-15 09:00"
        in found["sentence"]
    )
    skipped = await here.explain(job_id, "09:00:00")
    assert "skipped_misfire" == skipped["code"]
    assert ["scheduler_away"] == [each["kind"] for each in skipped["data"]["absences"]]


async def test_runs_that_people_asked_for(here: Scene) -> None:
    """Run now, again, of the past, after a pause: each with its own code."""
    job_id = await here.create(**HOURLY)
    number = await here.join()
    asked = await here.ask("POST", f"/jobs/{job_id}/runNow", 202)
    await here.work(number)
    assert "asked_for" == (await here.explain_run(asked["run_id"]))["code"]
    again = await here.ask("POST", f"/runs/{asked['run_id']}/retry", 202)
    await here.work(number)
    found = await here.explain_run(again["run_id"])
    assert ("retry_of", asked["run_id"]) == (found["code"], found["data"]["retry_of"])
    body = {"from": "2027-01-15T07:00:00Z", "to": "2027-01-15T07:00:00Z"}
    backfill = await here.ask("POST", f"/jobs/{job_id}/backfill", 202, body)
    await here.work(number)
    found = await here.explain(job_id, "07:00:00")
    assert ("backfill", backfill["backfill_id"]) == (found["code"], found["data"]["backfill_id"])


async def test_a_run_of_a_pause_that_was_made_up_for(here: Scene) -> None:
    """Asked for when the job was resumed."""
    job_id = await here.create(**HOURLY)
    number = await here.join()
    await here.ask("POST", f"/jobs/{job_id}/pause")
    await here.pass_time(HOUR + 60)
    await here.ask("POST", f"/jobs/{job_id}/resume", 200, {"missed": "run_latest"})
    await here.work(number)
    assert "made_up_for" == (await here.explain(job_id, "09:00:00"))["code"]


# ------------------------------------------------------------------------------------------ it did not run


async def test_an_occurrence_that_an_earlier_run_kept_from_running(here: Scene) -> None:
    """Which run it was."""
    job_id = await here.create(**HOURLY)
    number = await here.join()
    await here.schedule(HOUR)
    first = await here.take(number)
    await here.begin(number, first)
    await here.schedule(HOUR)
    assert 0 == await here.begin(number, await here.take(number))
    found = await here.explain(job_id, "10:00:00")
    assert ("skipped_overlap", str(first[0].run_id)) == (found["code"], found["data"]["unfinished_run"])


async def test_runs_that_an_earlier_run_keeps_waiting(here: Scene) -> None:
    """Each of them waits for the one that goes on, and for none that came after it."""
    job_id = await here.create(**HOURLY, overlap="queue_all")
    number = await here.join()
    await here.schedule(HOUR)
    first = await here.take(number)
    await here.begin(number, first)
    for _ in range(3):
        await here.schedule(HOUR)
        assert 0 == await here.begin(number, await here.take(number))
    for at in ("10:00:00", "11:00:00", "12:00:00"):
        found = await here.explain(job_id, at)
        assert ("waiting_overlap", str(first[0].run_id)) == (found["code"], found["data"]["waits_for"]), at
        assert "waits until the run of 2027-01-15 09:00 (UTC) has ended" in found["sentence"]


async def test_an_occurrence_whose_place_a_later_run_took(here: Scene) -> None:
    """It is not said to have waited for a run that came after it; the one that took its place is named."""
    job_id = await here.create(**HOURLY, overlap="cancel_running")
    number = await here.join()
    await here.schedule(HOUR)
    await here.begin(number, await here.take(number))
    await here.schedule(HOUR)
    assert 0 == await here.begin(number, await here.take(number))
    await here.schedule(HOUR)
    assert 0 == await here.begin(number, await here.take(number))
    found = await here.explain(job_id, "10:00:00")
    last = the_run(job_id, AT_NINE + 2 * HOUR)
    assert ("skipped_overlap", str(last)) == (found["code"], found["data"]["replaced_by"])
    assert "the run of 2027-01-15 11:00 (UTC) took its place (overlap: cancel_running)" in found["sentence"]


async def test_occurrences_of_a_pause(here: Scene) -> None:
    """All of them are one record, and each of them is found in it; who paused the job and why is told afterwards."""
    job_id = await here.create(**HOURLY)
    paused = await here.ask("POST", f"/jobs/{job_id}/pause", 200, {"reason": "moving house"})
    await here.pass_time(5 * HOUR)
    await here.ask("POST", f"/jobs/{job_id}/resume", 200, {})
    for at in ("09:00:00", "11:00:00", "13:00:00"):
        found = await here.explain(job_id, at)
        assert ("skipped_paused", 5) == (found["code"], found["data"]["occurrences"]), at
        assert "5 occurrences from 2027-01-15 09:00 (UTC) to 2027-01-15 13:00 (UTC)" in found["sentence"]
        assert f"the job was paused by {paused['paused_by']}: moving house" in found["sentence"]


async def test_occurrences_in_a_closed_time(here: Scene) -> None:
    """By a calendar, by a maintenance window: which one, and what for."""
    nine = {"periods": [{"from": "2027-01-15T08:30:00Z", "to": "2027-01-15T09:30:00Z"}]}
    ten = {"periods": [{"from": "2027-01-15T09:30:00Z", "to": "2027-01-15T10:30:00Z"}]}
    await here.ask("PUT", "/calendars/closed", 201, nine)
    await here.ask("PUT", "/windows/disks", 201, {"when": ten, "reason": "new disks"})
    job_id = await here.create(**HOURLY, calendars=[{"name": "closed"}])
    await here.schedule(2 * HOUR + 60)
    found = await here.explain(job_id, "09:00:00")
    assert ("skipped_calendar", "closed") == (found["code"], found["data"]["closed_by"])
    found = await here.explain(job_id, "10:00:00")
    assert ("skipped_maintenance", "disks") == (found["code"], found["data"]["closed_by"])
    assert "new disks" in found["sentence"]


async def test_an_occurrence_that_somebody_skipped(here: Scene) -> None:
    """Who, and what they said."""
    job_id = await here.create(**HOURLY)
    await here.ask("POST", f"/jobs/{job_id}/skipNext", 200, {"reason": "inventory"})
    found = await here.explain(job_id, "09:00:00")
    assert "skipped_requested" == found["code"]
    who = (await here.ask("GET", f"/jobs/{job_id}"))["created_by"]
    assert f"The run of 2027-01-15 09:00 (UTC) was skipped by {who}: inventory." == found["sentence"]


async def test_an_occurrence_over_the_quota_of_runs_a_day(here: Scene) -> None:
    """The quota by its name; the next day's is not touched by it."""
    job_id = await here.create(**HOURLY)
    await here.ask("PUT", "/namespaces/default/quotas", body={"runs_per_day": 1})
    await here.schedule(2 * HOUR + 60)
    found = await here.explain(job_id, "10:00:00")
    assert "skipped_quota" == found["code"]
    assert "quota runs_per_day" in found["sentence"]
    assert "skipped_quota" != (await here.explain(job_id, "09:00:00"))["code"]
    run = await here.ask("GET", f"/runs/{the_run(job_id, AT_NINE + HOUR)}")
    assert ("SKIPPED", "quota") == (run["status"], run["reason"])
    await here.schedule(15 * HOUR, step=600.0)
    assert "skipped_quota" != (await here.explain(job_id, "2027-01-16T00:00:00Z"))["code"]


@pytest.mark.parametrize("reason", list(SkipReason))
async def test_each_reason_of_a_record_has_its_code(here: Scene, reason: SkipReason) -> None:
    """`skipped_` and the reason, with what the record says."""
    job_id = await here.create(**HOURLY)
    row = await here.store.jobs.get("default", UUID(job_id))
    assert row is not None
    assert row.timer is not None
    skip = NewSkip(the_run(job_id), AT_NINE, AT_NINE, 1, reason, "because of what the record says")
    move = OccurrenceMove(
        namespace="default", job_id=row.job_id, expected=row.timer, timer=TimerState(AT_NINE + HOUR), skip=skip
    )
    await here.store.jobs.move(move)
    found = await here.explain(job_id, "09:00:00")
    assert f"skipped_{reason.value}" == found["code"]
    assert "because of what the record says" in found["sentence"]
    assert found == await here.explain_run(the_run(job_id))


async def test_a_run_that_was_cancelled_before_it_began(here: Scene) -> None:
    """By whom."""
    job_id = await here.create(**HOURLY)
    await here.schedule(HOUR)
    await here.ask("POST", f"/runs/{the_run(job_id)}/cancel")
    found = await here.explain(job_id, "09:00:00")
    assert ("cancelled", True) == (found["code"], bool(found["data"]["cancelled_by"]))


async def test_a_run_that_is_not_there(here: Scene) -> None:
    """404."""
    await here.ask("GET", "/runs/01a1fd81-8cdc-82e9-be4e-34f9a5bd159d/explain", 404)
