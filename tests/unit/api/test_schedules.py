"""What people say of schedules over HTTP: words and their limits, changes, resume, preview."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.app import API, World, world
from tests.unit.api.rig import (
    SHELL,
    START,
    WEEKENDS,
    calendar,
    create,
    get,
    pass_time,
    plan_ahead,
    post,
    put,
    settled,
    stored,
)
from tickwise.adapters.clock import VirtualClock
from tickwise.documents.calendars import CalendarBody, StoredCalendar, written
from tickwise.documents.rulebook import encode_window
from tickwise.domain.calendar.rules import Calendar, Weekly, Window
from tickwise.domain.decision import NEVER, Hold, TimerState
from tickwise.domain.schedule import ScheduleType
from tickwise.ports.signals import Topic
from tickwise.ports.store import Fire, FireRequest, RuleKind, RuleRow
from tickwise.testing.contracts.base import taken


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    clock = VirtualClock(START)
    async with world(clock=clock) as made:
        yield made


# ------------------------------------------------------------------------------------------ what is said


EVERYTHING = {
    "cron_expression": "30 2 * * *",
    "timezone": "Europe/Berlin",
    "start_at": "2027-02-01T00:00:00Z",
    "end_at": "2028-02-01T00:00:00Z",
    "max_runs": 10,
    "jitter_seconds": 30.0,
    "dst": {"gap": "shift", "overlap": "second"},
    "misfire": {"grace_seconds": 5.0, "mode": "all", "max_catchup": 3},
    "overlap": "queue_one",
    "calendars": [{"name": "off", "mode": "exclude", "otherwise": "defer"}],
    "fuse_per_minute": 7,
}


async def test_everything_that_is_said_of_a_schedule_is_answered_in_its_long_form(here: World) -> None:
    """And what was not said at its default; the answer's own words can be sent again."""
    await calendar(here, "off", WEEKENDS)
    job = await get(here, f"/jobs/{await create(here, **EVERYTHING)}")
    assert EVERYTHING == {name: job[name] for name in EVERYTHING}
    assert "2027-01-15T08:00:00Z" == job["planned_at"]
    again = await get(here, f"/jobs/{await create(here, **{name: job[name] for name in EVERYTHING})}")
    assert EVERYTHING == {name: again[name] for name in EVERYTHING}
    plain = await get(here, f"/jobs/{await create(here, every='1h')}")
    assert (None, None, None, 0.0, 0.0, {"gap": None, "overlap": None}, "skip", [], 120) == tuple(
        plain[name]
        for name in ("start_at", "end_at", "max_runs", "jitter_seconds", "window_seconds", "dst", "overlap",
                     "calendars", "fuse_per_minute")
    )  # fmt: skip
    assert {"grace_seconds": 60.0, "mode": "latest", "max_catchup": 10} == plain["misfire"]


EVERY = {"name": "a", "task": SHELL, "every": "1h"}
CRON = {"name": "a", "task": SHELL, "cron": "0 3 * * *"}
ONCE = {"name": "a", "task": SHELL, "at": "2027-02-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("body", "pointer", "says"),
    [
        ({**EVERY, "misfire": {"mode": "alll"}}, "/misfire/mode", "write one of skip, latest, all"),
        ({**EVERY, "misfire": {"grace_seconds": -1}}, "/misfire/grace_seconds", "from 0"),
        ({**EVERY, "misfire": {"max_catchup": 0}}, "/misfire/max_catchup", "from 1 to 1000"),
        ({**EVERY, "misfire": {"grace": 1}}, "/misfire/grace", "no field"),
        ({**EVERY, "overlap": "queue"}, "/overlap", "write one of skip, queue_one, queue_all, cancel_running, allow"),
        ({**CRON, "dst": {"gap": "run"}}, "/dst/gap", "write one of run_after, skip, shift"),
        ({**CRON, "dst": {"overlap": 2}}, "/dst/overlap", "a text"),
        ({**EVERY, "dst": {"gap": "skip"}}, "/dst", "belongs to CRON"),
        ({**EVERY, "start_at": "2027-02-02T00:00:00Z", "end_at": "2027-02-01T00:00:00Z"}, "/end_at", "before start_at"),
        ({**EVERY, "start_at": "2027-02-02"}, "/start_at", "RFC 3339"),
        ({**ONCE, "end_at": "2027-03-01T00:00:00Z"}, "/end_at", "belongs to CRON and INTERVAL"),
        ({**ONCE, "max_runs": 2}, "/max_runs", "belongs to CRON and INTERVAL"),
        ({**EVERY, "max_runs": 0}, "/max_runs", "at least 1"),
        ({**EVERY, "jitter_seconds": 86_401}, "/jitter_seconds", "at most 86400"),
        ({**EVERY, "jitter_seconds": 1, "window_seconds": 1}, "/window_seconds", "send one"),
        ({**EVERY, "fuse_per_minute": 0}, "/fuse_per_minute", "at least 1"),
        ({**EVERY, "calendars": [{"mode": "include"}]}, "/calendars/0/name", "missing"),
        ({**EVERY, "calendars": [{"name": "none"}]}, "/calendars/0/name", "no calendar 'none'"),
        ({**EVERY, "calendars": [{"name": ""}]}, "/calendars/0/name", "1 to 200"),
        ({**EVERY, "calendars": [{"name": "a\0"}]}, "/calendars/0/name", "U+0000"),
        ({**EVERY, "calendars": [{"name": "a", "mode": "only"}]}, "/calendars/0/mode", "write one of include, exclude"),
        ({**EVERY, "calendars": [{"name": "a"}, {"name": "a"}]}, "/calendars/1/name", "twice"),
        ({**EVERY, "calendars": [{"name": "a"}] * 11}, "/calendars", "at most 10 items"),
        ({"name": "a", "cron": "@every 90"}, "/cron", "no unit"),
        ({"name": "a", "cron": "@every 90s", "every": "1m"}, "/every", "contradict"),
        ({"name": "a", "cron": "@every 90s", "schedule_type": "FUTURE"}, "/cron", "belongs to INTERVAL"),
        ({"name": "a", "schedule_type": "DAILY"}, "/schedule_type", "write one of IMMEDIATE, FUTURE, CRON, INTERVAL"),
        ({"name": "a", "schedule_type": "IMMEDIATE", "jitter_seconds": 5}, "/jitter_seconds", "no meaning"),
    ],
)
async def test_a_wrong_word_is_pointed_at(here: World, body: Any, pointer: str, says: str) -> None:
    """422, with the pointer to the word as it was sent, and what to write instead; the same in a preview."""
    answer = await here.client.post(f"{API}/jobs", json=body)
    assert (422, pointer) == (answer.status_code, answer.json()["pointer"]), answer.text
    assert says in answer.json()["detail"]
    said = {name: value for name, value in body.items() if name not in ("name", "task")}
    preview = await here.client.post(f"{API}/jobs:preview", json=said)
    assert (422, pointer) == (preview.status_code, preview.json()["pointer"])


async def test_at_every_is_an_interval(here: World) -> None:
    """With a warning that says so; it counts from its start, or from now."""
    answer = await post(here, "/jobs", 201, name="a", task=SHELL, cron="@every 90s")
    assert "'@every 90s' is kept as an INTERVAL with interval_seconds 90" in answer["warnings"][0]
    job = await get(here, f"/jobs/{answer['job_id']}")
    assert ("INTERVAL", 90.0, None, "2027-01-15T08:01:30Z") == (
        job["schedule_type"], job["interval_seconds"], job["cron_expression"], job["next_run_at"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("said", "first"),
    [
        ({"every": "1h", "start_at": "2027-01-16T00:10:00Z"}, "2027-01-16T00:10:00Z"),
        ({"every": "1h", "start_at": "2027-01-15T07:10:00Z"}, "2027-01-15T08:10:00Z"),
        ({"every": "1h", "start_at": "2027-01-16T00:10:00Z", "anchor": "2027-01-01T00:00:00Z"}, "2027-01-16T01:00:00Z"),
        ({"cron": "0 3 * * *", "start_at": "2027-01-20T03:00:00Z"}, "2027-01-20T03:00:00Z"),
        ({"cron": "0 3 * * *", "end_at": "2027-01-16T03:00:00Z"}, "2027-01-16T03:00:00Z"),
    ],
)
async def test_a_schedule_keeps_between_its_bounds(here: World, said: dict[str, Any], first: str) -> None:
    """Both included; an interval without an anchor counts from its start."""
    assert first == (await get(here, f"/jobs/{await create(here, **said)}"))["next_run_at"]


async def test_a_schedule_that_names_no_time_is_stored_with_a_warning(here: World) -> None:
    """It is COMPLETED from the begin; nothing is refused that may be meant."""
    answer = await post(here, "/jobs", 201, name="a", task=SHELL, cron="0 3 * * *", end_at="2027-01-15T09:00:00Z")
    assert ["it will never fire: its schedule names no time from now on"] == answer["warnings"]
    job = await get(here, f"/jobs/{answer['job_id']}")
    assert ("COMPLETED", None) == (job["status"], job["next_run_at"])


async def test_h_is_spread_by_the_job(here: World) -> None:
    """Each job keeps its own minute; a preview says that its times are an example."""
    jobs = [await create(here, cron="H H * * *") for _ in range(8)]
    assert len({(await get(here, f"/jobs/{job_id}"))["next_run_at"] for job_id in jobs}) > 1
    first = (await get(here, f"/jobs/{jobs[0]}"))["next_run_at"]
    assert first == (await get(here, f"/jobs/{jobs[0]}/preview?count=1"))["fires"][0]["utc"]
    unsaved = await post(here, "/jobs:preview", cron="H H * * *")
    assert any("only an example" in warning for warning in unsaved["warnings"])
    assert not any("only an example" in warning for warning in (await get(here, f"/jobs/{jobs[0]}"))["warnings"])


@pytest.mark.parametrize(
    "policy",
    [{"jitter_seconds": 5}, {"window_seconds": 5}, {"misfire": {"mode": "skip"}}, {"calendars": [{"name": "off"}]}],
)
async def test_a_one_time_job_with_a_policy_is_left_to_the_schedulers(here: World, policy: dict[str, Any]) -> None:
    """Even if it is due at once: it begins as a timer, and they are woken."""
    await calendar(here, "off", WEEKENDS)
    here.bell.rung.clear()
    for when in ({"at": "2027-01-15T08:00:01Z"}, {"schedule_type": "IMMEDIATE"}):
        if when.get("schedule_type") and ("jitter_seconds" in policy or "window_seconds" in policy):
            continue
        job_id = await create(here, **when, **policy)
        assert [] == await get(here, f"/jobs/{job_id}/runs")
        assert (await stored(here, job_id)).timer is not None
        assert [Topic.TIMERS] == here.bell.rung
        here.bell.rung.clear()


async def test_a_calendar_that_a_job_names_cannot_be_deleted(here: World) -> None:
    """The store knows by which calendars a job goes, also after a change."""
    await calendar(here, "off", WEEKENDS)
    await calendar(here, "other", WEEKENDS)
    job_id = await create(here, every="1h", calendars=[{"name": "off"}])
    for name in ("off", "other"):
        with pytest.raises(Exception, match="job"):
            await here.store.rules.delete("default", RuleKind.CALENDAR, name)
        await put(here, job_id, calendars=[{"name": "other"}])
    await put(here, job_id, calendars=None)
    await here.store.rules.delete("default", RuleKind.CALENDAR, "other")


async def test_the_zone_data_is_told_where_a_zone_matters(here: World) -> None:
    """Its version goes with the timer of a cron line on a wall clock, so that other rules recompute it."""
    berlin = await create(here, cron="0 3 * * *", timezone="Europe/Berlin")
    utc = await create(here, cron="0 3 * * *")
    every = await create(here, every="1h", timezone="Europe/Berlin")
    request = FireRequest(horizon_seconds=0.0, limit=10, other_zone_data_than="another")
    async with taken(here.store, request) as batch:
        found = {str(timer.job_id) for timer in batch.timers}
    assert {berlin} == found & {berlin, utc, every}


# ------------------------------------------------------------------------------------------ change


async def test_policies_stay_under_a_new_schedule_and_details_do_not(here: World) -> None:
    """What is done with the times stays until other is sent; bounds and rules of the old times go with them."""
    await calendar(here, "off", WEEKENDS)
    job_id = await create(here, **EVERYTHING)
    job = await put(here, job_id, cron="0 5 * * *")
    stays = ("misfire", "overlap", "calendars", "jitter_seconds", "fuse_per_minute")
    assert {name: EVERYTHING[name] for name in stays} == {name: job[name] for name in stays}
    assert ("UTC", None, None, None, {"gap": None, "overlap": None}) == (
        job["timezone"], job["start_at"], job["end_at"], job["max_runs"], job["dst"],
    )  # fmt: skip


async def test_a_detail_alone_changes_the_schedule_that_is_there(here: World) -> None:
    """An end, a number of runs, an anchor: the rest of the schedule stays, and what it has fired is counted on."""
    job_id = await create(here, every="1h", max_runs=5, overlap="allow")
    await pass_time(here, 3_600)
    await plan_ahead(here, 2.0)
    job = await put(here, job_id, end_at="2027-01-15T11:00:00Z")
    assert (3_600.0, 5, "allow", "2027-01-15T08:00:00Z") == (
        job["interval_seconds"], job["max_runs"], job["overlap"], job["anchor"],
    )  # fmt: skip
    assert TimerState(START + 7_200, fired=1) == (await stored(here, job_id)).timer
    job = await put(here, job_id, end_at=None, anchor="2027-01-15T08:30:00Z")
    assert job["end_at"] is None
    assert TimerState(START + 5_400, fired=1) == (await stored(here, job_id)).timer
    await put(here, job_id, every="1h")
    assert TimerState(START + 7_200) == (await stored(here, job_id)).timer


async def test_more_runs_wake_a_schedule_that_had_made_all(here: World) -> None:
    """It made three of three; with five it has two left."""
    job_id = await create(here, every="1h", max_runs=1)
    await pass_time(here, 3_600)
    await plan_ahead(here, 2.0)
    assert (await stored(here, job_id)).timer is None
    await put(here, job_id, max_runs=3)
    assert TimerState(START + 7_200, fired=1) == (await stored(here, job_id)).timer


async def test_null_is_the_default_in_a_change(here: World) -> None:
    """Of policies as of all else."""
    await calendar(here, "off", WEEKENDS)
    job_id = await create(here, **EVERYTHING)
    job = await put(
        here, job_id, misfire=None, overlap=None, calendars=None, jitter_seconds=None, fuse_per_minute=None, dst=None
    )
    assert ("latest", "skip", [], 0.0, 120, None) == (
        job["misfire"]["mode"], job["overlap"], job["calendars"], job["jitter_seconds"], job["fuse_per_minute"],
        job["dst"]["gap"],
    )  # fmt: skip


async def test_a_spread_replaces_the_other_kind_and_goes_where_it_means_nothing(here: World) -> None:
    """A window instead of jitter is no contradiction in a change; what runs at once has neither."""
    job_id = await create(here, every="1h", jitter_seconds=5)
    job = await put(here, job_id, window_seconds=60)
    assert (0.0, 60.0) == (job["jitter_seconds"], job["window_seconds"])
    job = await put(here, job_id, schedule_type="IMMEDIATE")
    assert 0.0 == job["window_seconds"]
    assert any("window_seconds has no meaning for a job that runs at once" in said for said in job["warnings"])


async def test_a_policy_leaves_the_timer_alone(here: World) -> None:
    """The times are the same, so nothing is planned anew."""
    job_id = await create(here, every="1h")
    before = (await stored(here, job_id)).timer
    await pass_time(here, 4_000)
    await put(here, job_id, overlap="allow", misfire={"mode": "all"}, jitter_seconds=5)
    assert before == (await stored(here, job_id)).timer


async def test_a_policy_that_needs_a_decision_takes_a_one_time_job_from_the_quick_way(here: World) -> None:
    """And gives it back when it is taken away."""
    job_id = await create(here, at="2027-01-15T09:00:00Z")
    await pass_time(here, 3_500)
    await put(here, job_id, jitter_seconds=50)
    assert 0 == (await here.store.timers.fire(200, 10)).timers
    await put(here, job_id, jitter_seconds=None)
    assert 1 == (await here.store.timers.fire(200, 10)).timers


async def test_other_calendars_let_go_what_is_held_back(here: World) -> None:
    """The timer is looked at now, and not when the calendar that is no longer named opens."""
    await calendar(here, "off", WEEKENDS)
    job_id = await create(here, every="1h", calendars=[{"name": "off", "otherwise": "defer"}])
    held = TimerState(START + 86_400.0, START + 3_600.0, Hold.CALENDAR)
    async with taken(here.store, FireRequest(horizon_seconds=4_000, limit=10)) as batch:
        await batch.commit([Fire(UUID(job_id), START + 3_600.0, held, ())])
    assert held == (await stored(here, job_id)).timer
    await pass_time(here, 7_300)
    await put(here, job_id, calendars=None)
    assert held._replace(due=START + 7_300) == (await stored(here, job_id)).timer


async def test_a_dry_run_tells_the_difference_and_changes_nothing(here: World) -> None:
    """The next 20 fires before and after, and which of them come, go and stay."""
    job_id = await create(here, cron="0 */2 * * *")
    answer = await here.client.put(f"{API}/jobs/{job_id}?dry_run=true", json={"cron": "0 */3 * * *"})
    found = answer.json()
    assert (20, 20) == (len(found["before"]), len(found["after"]))
    assert "2027-01-15T10:00:00Z" in found["removed"]
    assert "2027-01-15T09:00:00Z" in found["added"]
    assert "2027-01-15T12:00:00Z" in found["kept"]
    assert sorted({*found["before"], *found["after"]}) == sorted([*found["removed"], *found["added"], *found["kept"]])
    assert "0 */2 * * *" == (await get(here, f"/jobs/{job_id}"))["cron_expression"]


async def test_a_dry_run_counts_times_that_stay_though_they_lie_beyond_the_first_fires_of_before(here: World) -> None:
    """Of a job that fires every 5 s and then every 10 minutes: 20 go, and the next 20 were named before too."""
    job_id = await create(here, every="5s", anchor="2027-01-15T08:00:00Z")
    answer = await here.client.put(f"{API}/jobs/{job_id}?dry_run=true", json={"cron": "*/10 * * * *"})
    found = answer.json()
    assert (20, 0) == (len(found["removed"]), len(found["added"]))
    assert found["after"] == found["kept"]


async def test_a_dry_run_tells_each_fire_that_would_be_lost(here: World) -> None:
    """Also one that lies beyond the first 20 of the new schedule, and none that it names as well."""
    job_id = await create(here, at="2027-09-25T10:00:00Z")
    lost = await here.client.put(f"{API}/jobs/{job_id}?dry_run=true", json={"cron": "0 1 * * *"})
    assert ["2027-09-25T10:00:00Z"] == lost.json()["removed"]
    kept = await here.client.put(f"{API}/jobs/{job_id}?dry_run=true", json={"cron": "0 10 * * *"})
    assert ([], ["2027-09-25T10:00:00Z"]) == (kept.json()["removed"], kept.json()["kept"])
    assert 20 == len(kept.json()["added"])
    ended = await create(here, cron="0 10 * * *")
    shorter = await here.client.put(f"{API}/jobs/{ended}?dry_run=true", json={"max_runs": 2})
    assert (2, 18, 0) == tuple(len(shorter.json()[name]) for name in ("kept", "removed", "added"))


async def test_what_was_overdue_when_the_schedule_was_changed_is_on_record(here: World) -> None:
    """Nobody had fired it: it does not run any more, and one record says so, with count and range."""
    job_id = await create(here, every="1h")
    await pass_time(here, 3 * 3_600 + 60)
    await put(here, job_id, every="2h")
    (record,) = await get(here, f"/jobs/{job_id}/runs")
    assert ("SKIPPED", "misfire", 3, "2027-01-15T09:00:00Z", "2027-01-15T11:00:00Z") == (
        record["status"], record["reason"], record["occurrences"], record["nominal_time"], record["until"],
    )  # fmt: skip
    assert "the schedule was changed before they could run" == record["error_message"]
    assert "2027-01-15T13:01:00Z" == (await get(here, f"/jobs/{job_id}"))["next_run_at"]


async def test_a_one_time_job_that_was_overdue_does_not_run_under_its_new_time(here: World) -> None:
    """Its old time is on record as skipped; the new one is the only run."""
    job_id = await create(here, at="2027-01-15T09:00:00Z")
    await pass_time(here, 2 * 3_600)
    await put(here, job_id, at="2027-01-15T12:00:00Z")
    (record,) = await get(here, f"/jobs/{job_id}/runs")
    assert ("SKIPPED", "2027-01-15T09:00:00Z") == (record["status"], record["nominal_time"])


async def test_a_paused_job_that_is_edited_stays_paused(here: World) -> None:
    """What fell into the pause before is on record; the pause goes on under the new schedule, until its end."""
    job_id = await create(here, cron="0 * * * *")
    await post(here, f"/jobs/{job_id}/pause", until="2027-01-15T20:00:00Z")
    await pass_time(here, 3 * 3_600 + 60)
    job = await put(here, job_id, cron="30 * * * *")
    assert ("PAUSED", "2027-01-15T20:30:00Z") == (job["status"], job["next_run_at"])
    (record,) = await get(here, f"/jobs/{job_id}/runs")
    assert ("paused", 3, "2027-01-15T11:00:00Z") == (record["reason"], record["occurrences"], record["until"])
    pending = TimerState(START + 12 * 3_600, START + 3.5 * 3_600, Hold.PAUSED)
    assert pending == (await stored(here, job_id)).timer
    await pass_time(here, 3_600)
    await post(here, f"/jobs/{job_id}/resume", missed="run_all")
    (made,) = await get(here, f"/jobs/{job_id}/runs?trigger=missed")
    assert "2027-01-15T11:30:00Z" == made["nominal_time"]


async def test_an_edit_after_a_pause_that_ended_by_itself_records_both(here: World) -> None:
    """What fell into the pause, and what nobody fired after it."""
    job_id = await create(here, cron="0 * * * *")
    await post(here, f"/jobs/{job_id}/pause", until="2027-01-15T10:30:00Z")
    await pass_time(here, 5 * 3_600 + 60)
    await put(here, job_id, cron="30 * * * *")
    records = await get(here, f"/jobs/{job_id}/runs?status=SKIPPED")
    assert [("misfire", 3, "2027-01-15T11:00:00Z"), ("paused", 2, "2027-01-15T09:00:00Z")] == [
        (record["reason"], record["occurrences"], record["nominal_time"]) for record in records
    ]


# ------------------------------------------------------------------------------------------ resume


async def test_a_resume_with_a_limit_runs_the_latest_ones(here: World) -> None:
    """The others are on record; the runs wait for each other, in the order of their times."""
    job_id = await create(here, cron="0 * * * *")
    await post(here, f"/jobs/{job_id}/pause")
    await pass_time(here, 5 * 3_600)
    await post(here, f"/jobs/{job_id}/resume", missed="run_all", limit=2)
    made = await get(here, f"/jobs/{job_id}/runs?trigger=missed")
    assert [("2027-01-15T13:00:00Z", True), ("2027-01-15T12:00:00Z", False)] == [
        (run["nominal_time"], run["waiting"]) for run in await settled(here, made)
    ]
    (record,) = await get(here, f"/jobs/{job_id}/runs?status=SKIPPED")
    assert ("paused", 3, "2027-01-15T11:00:00Z") == (record["reason"], record["occurrences"], record["until"])
    refused = await here.client.post(f"{API}/jobs/{job_id}/resume", json={"missed": "skip", "limit": 2})
    assert (422, "/limit") == (refused.status_code, refused.json()["pointer"])


async def test_a_resume_that_would_run_too_many_says_how_many(here: World) -> None:
    """409, and what to send instead; with a limit it is done."""
    job_id = await create(here, every="1s")
    await post(here, f"/jobs/{job_id}/pause")
    await pass_time(here, 5_000)
    refused = await here.client.post(f"{API}/jobs/{job_id}/resume", json={"missed": "run_all"})
    assert (409, "/missed") == (refused.status_code, refused.json()["pointer"])
    assert "5000 occurrences were missed" in refused.json()["detail"]
    await post(here, f"/jobs/{job_id}/resume", missed="run_all", limit=3)
    (record,) = await get(here, f"/jobs/{job_id}/runs?status=SKIPPED")
    assert 4_997 == record["occurrences"]


async def test_what_a_calendar_closed_is_not_made_up_for(here: World) -> None:
    """It is on record for that reason; the latest that was open runs."""
    await calendar(here, "off", WEEKENDS)
    job_id = await create(here, cron="0 12 * * *", calendars=[{"name": "off"}])
    await post(here, f"/jobs/{job_id}/pause")
    await pass_time(here, 2.5 * 86_400)  # Sunday evening
    await post(here, f"/jobs/{job_id}/resume", missed="run_latest")
    (made,) = await get(here, f"/jobs/{job_id}/runs?trigger=missed")
    assert "2027-01-15T12:00:00Z" == made["nominal_time"]
    records = await get(here, f"/jobs/{job_id}/runs?status=SKIPPED")
    assert ["calendar", "calendar"] == [record["reason"] for record in records]


async def test_a_pause_for_good_is_told_apart_from_one_with_an_end(here: World) -> None:
    """The timer has no time to wake up."""
    job_id = await create(here, cron="0 * * * *")
    await post(here, f"/jobs/{job_id}/pause")
    assert TimerState(NEVER, START + 3_600, Hold.PAUSED) == (await stored(here, job_id)).timer


# ------------------------------------------------------------------------------------------ preview


async def test_a_preview_shows_three_clocks_and_marks_the_change(here: World) -> None:
    """Of an unsaved schedule: Berlin springs forward on 28 March 2027."""
    body = {"cron": "0 12 27-29 3 *", "timezone": "Europe/Berlin", "count": 3, "viewer_timezone": "Asia/Tokyo"}
    found = await post(here, "/jobs:preview", **body)
    assert [
        ("2027-03-27T11:00:00Z", "2027-03-27T12:00:00+01:00", "2027-03-27T20:00:00+09:00", False),
        ("2027-03-28T10:00:00Z", "2027-03-28T12:00:00+02:00", "2027-03-28T19:00:00+09:00", True),
        ("2027-03-29T10:00:00Z", "2027-03-29T12:00:00+02:00", "2027-03-29T19:00:00+09:00", False),
    ] == [(fire["utc"], fire["nominal"], fire["viewer"], fire["clock_change"]) for fire in found["fires"]]
    assert "12:00" in found["explanation"]
    wrong = await here.client.post(f"{API}/jobs:preview", json={**body, "viewer_timezone": "Mars"})
    assert (422, "/viewer_timezone") == (wrong.status_code, wrong.json()["pointer"])


async def test_a_saved_schedule_is_previewed_like_an_unsaved_one(here: World) -> None:
    """The same words give the same fires."""
    await calendar(here, "off", WEEKENDS)
    said = {"cron": "15 3 * * *", "calendars": [{"name": "off"}], "max_runs": 2}
    saved = await get(here, f"/jobs/{await create(here, **said)}/preview?count=9&from=2027-01-15T00:00:00Z")
    assert saved == await post(here, "/jobs:preview", **said, count=9, **{"from": "2027-01-15T00:00:00Z"})
    decisions = [("2027-01-15T03:15:00Z", "fire"), ("2027-01-16T03:15:00Z", "skip"), ("2027-01-17T03:15:00Z", "skip")]
    assert [*decisions, ("2027-01-18T03:15:00Z", "fire")] == [
        (fire["utc"], fire["decision"]) for fire in saved["fires"]
    ]


async def test_a_preview_says_what_becomes_of_a_time_that_the_clock_skips(here: World) -> None:
    """It runs right after the change, or is left out, as the job says."""
    body = {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "from": "2027-03-27T12:00:00Z", "count": 1}
    (fire,) = (await post(here, "/jobs:preview", **body))["fires"]
    assert "2027-03-28T01:00:00Z" == fire["utc"]
    assert "02:30 does not exist" in fire["note"]
    skipping = await post(here, "/jobs:preview", **body, dst={"gap": "skip"})
    assert "2027-03-29T00:30:00Z" == skipping["fires"][0]["utc"]
    assert any(warning.startswith("2027-03-28T01:00:00Z: ") for warning in skipping["warnings"])


async def test_a_preview_says_what_is_deferred_and_spread(here: World) -> None:
    """When the run is due, and why."""
    await calendar(here, "off", WEEKENDS)
    deferring = [{"name": "off", "otherwise": "defer"}]
    found = await post(here, "/jobs:preview", cron="0 12 * * SAT", count=1, calendars=deferring)
    (fire,) = found["fires"]
    assert ("defer", "2027-01-16T12:00:00Z", "2027-01-18T00:00:00Z") == (fire["decision"], fire["utc"], fire["due"])
    assert "excluded by the calendar off" in fire["note"]
    job_id = await create(here, every="1h", jitter_seconds=600)
    fires = (await get(here, f"/jobs/{job_id}/preview?count=5"))["fires"]
    assert all(fire["utc"] <= fire["due"] for fire in fires)
    assert any(fire["utc"] < fire["due"] for fire in fires)
    assert fires == (await get(here, f"/jobs/{job_id}/preview?count=5"))["fires"]


async def test_a_preview_knows_the_maintenance_windows_that_concern_the_job(here: World) -> None:
    """By its labels."""
    when = Calendar("UTC", (WEEKENDS,))
    said = StoredCalendar(when, CalendarBody(weekly=written(when).weekly))
    body = encode_window(Window("move", when, {"site": "north"}, reason="we move"), said)
    await here.store.rules.put(RuleRow(namespace="default", kind=RuleKind.WINDOW, name="move", body=body))
    for labels, decision in (({"site": "north"}, "skip"), ({"site": "south"}, "fire")):
        found = await post(here, "/jobs:preview", cron="0 12 * * SAT", count=1, labels=labels)
        assert decision == found["fires"][0]["decision"]
        job_id = await create(here, cron="0 12 * * SAT", labels=labels)
        saved = await get(here, f"/jobs/{job_id}/preview?count=1")
        assert decision == saved["fires"][0]["decision"]


async def test_what_runs_once_is_previewed_too(here: World) -> None:
    """One fire, or none if its time has passed by what was asked."""
    for said, fires in (
        ({"at": "2027-02-01T00:00:00Z"}, ["2027-02-01T00:00:00Z"]),
        ({"at": "2027-02-01T00:00:00Z", "from": "2027-03-01T00:00:00Z"}, []),
        ({"schedule_type": ScheduleType.IMMEDIATE}, ["2027-01-15T08:00:00Z"]),
    ):
        assert fires == [fire["utc"] for fire in (await post(here, "/jobs:preview", **said))["fires"]]


async def test_a_preview_of_what_is_closed_for_good_ends(here: World) -> None:
    """It says so, and does not search years of every further fire."""
    await calendar(here, "always", Weekly(frozenset(range(7)), 0, 86_400))
    found = await post(here, "/jobs:preview", cron="0 0 1 1 *", count=1000, calendars=[{"name": "always"}])
    assert {"skip"} == {fire["decision"] for fire in found["fires"]}
    assert 20 == len(found["fires"])
    assert any("open for no time in years" in warning for warning in found["warnings"])


@pytest.mark.parametrize("when", [{"every": "3660d"}, {"cron": "0 0 1 1 *", "timezone": "Europe/Berlin"}])
async def test_the_end_of_the_calendar_is_no_trap(here: World, when: dict[str, Any]) -> None:
    """What lies after the year 9999 is no time at all; what would be looked at from there is refused."""
    job_id = await create(here, **when, start_at="9999-12-20T00:00:00Z")
    assert (await get(here, f"/jobs/{job_id}/preview?count=1000"))["warnings"] is not None
    first = await here.client.post(f"{API}/jobs/{job_id}/skipNext")
    assert first.status_code in (200, 409)
    for path in ("", "/preview?count=1000", "/runs"):
        await get(here, f"/jobs/{job_id}{path}")
    await here.client.put(f"{API}/jobs/{job_id}?dry_run=true", json={"every": "3660d"})
    late = "9999-12-31T23:59:59Z"
    for path, body in (
        ("pause", {"until": late}),
        ("snooze", {"until": late}),
        ("backfill", {"from": late, "to": late}),
    ):
        refused = await here.client.post(f"{API}/jobs/{job_id}/{path}", json=body)
        assert refused.status_code in (409, 422), refused.text
    refused = await here.client.post(f"{API}/jobs:preview", json={**when, "from": "0001-01-01T00:00:00Z"})
    assert (422, "/from") == (refused.status_code, refused.json()["pointer"])
