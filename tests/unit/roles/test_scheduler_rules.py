"""What a scheduler promises of calendars, windows, a namespace's limit and quota, absences and changed zone data."""

from __future__ import annotations

import struct
import zoneinfo
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
import structlog

from tests.unit.roles.rig import drive
from tests.unit.roles.scheduler_rig import Rig
from tickwise.documents.calendars import CalendarBody, StoredCalendar, encode_calendar
from tickwise.documents.rulebook import Rulebook, decode_window, encode_window
from tickwise.domain import zones
from tickwise.domain.calendar.rules import Calendar, Cover, Otherwise, Period, Window, next_cover
from tickwise.domain.decision import Hold, Overlap
from tickwise.domain.errors import Invalid, StoreUnavailable
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import run_id
from tickwise.domain.quotas import Quotas
from tickwise.ports.store import Added, Fire, RuleKind, RuleRow
from tickwise.roles.scheduler import rule_budget
from tickwise.roles.scheduler.fires import OVER_QUOTA
from tickwise.roles.scheduler.role import Scheduler

USES = [{"name": "quiet"}]


@pytest.fixture
def rig() -> Rig:
    """A fresh store."""
    return Rig()


def stored(*spans: tuple[float, float]) -> StoredCalendar:
    """A calendar of some periods, as the store keeps it."""
    said = msgspec.convert(
        {"periods": [{"from": _text(begin), "to": _text(end)} for begin, end in spans]}, type=CalendarBody
    )
    return StoredCalendar(Calendar(entries=tuple(Period(begin, end) for begin, end in spans)), said)


def _text(instant: float) -> str:
    return datetime.fromtimestamp(instant, UTC).isoformat()


async def put_calendar(rig: Rig, *spans: tuple[float, float], name: str = "quiet") -> None:
    """Create or replace it."""
    body = encode_calendar(stored(*spans))
    await rig.store.rules.put(RuleRow(namespace="default", kind=RuleKind.CALENDAR, name=name, body=body))


async def put_window(rig: Rig, begin: float, end: float, **fields: object) -> None:
    """Create or replace it."""
    when = stored((begin, end))
    window = Window("upgrade", when.calendar, **fields)  # type: ignore[arg-type]  # as the test says
    body = encode_window(window, when)
    await rig.store.rules.put(RuleRow(namespace="default", kind=RuleKind.WINDOW, name="upgrade", body=body))


async def tick_for(rig: Rig, scheduler: Scheduler, seconds: int) -> None:
    """A round each second."""
    for _ in range(seconds):
        await drive(rig.clock, scheduler.tick())
        await rig.clock.advance(1)


def test_a_window_is_read_as_it_was_written() -> None:
    """With its labels, what becomes of occurrences in it, and what people said."""
    when = stored((1.0, 2.0))
    window = Window("upgrade", when.calendar, {"team": "data"}, Otherwise.DEFER, "new disks")
    found = decode_window("upgrade", encode_window(window, when))
    assert window == found.window
    assert when.said == found.said


# ------------------------------------------------------------------------------------------------------- closed


async def test_a_job_does_not_run_while_its_calendar_excludes_it(rig: Rig) -> None:
    """The record says which calendar; after it the job runs."""
    now = rig.clock.now()
    await put_calendar(rig, (now, now + 3.5))
    await rig.cron("* * * * * *", now + 1, calendars=USES)
    await tick_for(rig, rig.scheduler(), 4)
    skips = await rig.rows(RunState.SKIPPED)
    assert [now + 1, now + 2, now + 3] == [row.nominal_at for row in skips]
    assert {"calendar"} == {row.reason for row in skips}
    assert "excluded by the calendar quiet" in (skips[0].error or "")
    runs = await rig.rows(RunState.QUEUED)
    assert now + 4 == runs[0].nominal_at


async def test_a_changed_calendar_counts_from_the_next_look(rig: Rig) -> None:
    """Schedulers hold calendars in memory, and see by their version that one was changed."""
    now = rig.clock.now()
    scheduler = rig.scheduler()
    await put_calendar(rig, (now - 10, now))
    await rig.cron("* * * * * *", now + 1, calendars=USES)
    await tick_for(rig, scheduler, 1)
    first = len(await rig.rows(RunState.QUEUED))
    assert 0 < first
    await put_calendar(rig, (now, now + 3600))
    await tick_for(rig, scheduler, 3)
    assert first == len(await rig.rows(RunState.QUEUED))


async def test_what_a_calendar_defers_runs_when_it_opens(rig: Rig) -> None:
    """Once, for all that waited, under the name of the latest; a new calendar is asked at once."""
    now = rig.clock.now()
    scheduler = rig.scheduler()
    await put_calendar(rig, (now, now + 3600))
    job = await rig.cron("* * * * *", now + 60, calendars=[{"name": "quiet", "otherwise": "defer"}])
    await rig.clock.advance(59)
    await drive(rig.clock, scheduler.tick())
    row = await rig.store.jobs.get("default", job.job_id)
    assert row is not None
    assert row.timer is not None
    assert (now + 3600, now + 60, Hold.CALENDAR) == (row.timer.due, row.timer.since, row.timer.hold)
    await rig.clock.advance(131)
    await put_calendar(rig, (now - 10, now))
    await drive(rig.clock, scheduler.tick())
    (run,) = await rig.rows(RunState.QUEUED)
    assert run_id(job.job_id, now + 180) == run.run_id
    assert now + 180 < run.due_at <= rig.clock.now()
    (skip,) = await rig.rows(RunState.SKIPPED)
    assert (now + 60, now + 120, 2) == (skip.nominal_at, skip.until, skip.occurrences)


async def test_a_window_concerns_jobs_by_their_labels_one_time_jobs_too(rig: Rig) -> None:
    """Those that need no decision otherwise are decided while a window is near."""
    now = rig.clock.now()
    await put_window(rig, now + 20, now + 30, labels={"team": "data"}, action=Otherwise.DEFER, reason="new disks")
    concerned = rig.make.job(now + 25.0, labels={"team": "data"}, definition=FUTURE)
    other = rig.make.job(now + 25.0, definition=FUTURE)
    await rig.store.jobs.add([concerned, other])
    await rig.clock.advance(22)
    await tick_for(rig, rig.scheduler(), 3)
    assert [other.run_id] == [row.run_id for row in await rig.rows()]
    await rig.clock.advance(4)
    await tick_for(rig, rig.scheduler(), 2)
    runs = {row.run_id: row for row in await rig.rows()}
    assert concerned.run_id is not None
    assert now + 30.0 == runs[concerned.run_id].due_at
    assert now + 25.0 == runs[concerned.run_id].nominal_at


FUTURE = '{"schedule_type":"FUTURE","schedule_time":1800000025.0,"task":{"kind":"scripted"}}'


async def test_a_one_time_job_in_a_window_that_skips_is_on_record_under_its_own_name(rig: Rig) -> None:
    """Not run later, and not silent."""
    now = rig.clock.now()
    await put_window(rig, now + 20, now + 30, reason="new disks")
    job = rig.make.job(now + 25.0, definition=FUTURE)
    await rig.store.jobs.add([job])
    await rig.clock.advance(24)
    await tick_for(rig, rig.scheduler(), 1)
    (row,) = await rig.rows()
    assert (job.run_id, RunState.SKIPPED, "maintenance") == (row.run_id, row.state, row.reason)
    assert "in the maintenance window upgrade: new disks" in (row.error or "")


async def test_whether_a_window_is_near_is_known_at_every_moment(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, in and after each, those that touch and overlap included; and not by looking at all of them each time."""
    spans = [(10.0, 20.0), (15.0, 25.0), (25.0, 26.0), (40.5, 41.0)]
    for number, span in enumerate(spans):
        when = stored(span)
        text = encode_window(Window(f"window {number}", when.calendar), when)
        await rig.store.rules.put(RuleRow(namespace="default", kind=RuleKind.WINDOW, name=str(number), body=text))
    book = Rulebook(rig.store.rules, rig.store.stops)
    await book.load()
    looks = 0
    real = next_cover

    def counted(calendar: Calendar, instant: float) -> Cover | None:
        nonlocal looks
        looks += 1
        return real(calendar, instant)

    monkeypatch.setattr("tickwise.documents.rulebook.next_cover", counted)
    moments = [number / 4 for number in range(200)]
    expected = [at for at in moments if any(begin < at + 2.0 and at < end for begin, end in spans)]
    assert expected == [at for at in moments if book.near(at, 2.0)]
    assert looks < 40


async def test_a_window_that_is_new_counts_where_there_are_one_time_jobs_alone(rig: Rig) -> None:
    """Schedulers hear of it though no timer that needs a decision comes by."""
    now = rig.clock.now()
    scheduler = rig.scheduler()
    await drive(rig.clock, scheduler.tick())
    await put_window(rig, now + 20, now + 30)
    job = rig.make.job(now + 25.0, definition=FUTURE)
    await rig.store.jobs.add([job])
    await tick_for(rig, scheduler, 26)
    (row,) = await rig.rows()
    assert (job.run_id, RunState.SKIPPED, "maintenance") == (row.run_id, row.state, row.reason)


async def test_what_people_call_things_stops_no_schedule(rig: Rig) -> None:
    """A character that not every store keeps is replaced in what is put on record."""
    now = rig.clock.now()
    await put_window(rig, now - 10, now + 30, reason="new\0disks")
    await rig.cron("* * * * * *", now + 1)
    (fire,) = await rig.decided(rig.scheduler())
    assert fire.skips
    assert [] == [skip.error for skip in fire.skips if "\0" in skip.error]


async def test_a_job_whose_calendar_cannot_be_read_waits(rig: Rig) -> None:
    """Running in a time that is closed would be worse. When the calendar can be read, what waited is decided."""
    now = rig.clock.now()
    await rig.store.rules.put(RuleRow(namespace="default", kind=RuleKind.CALENDAR, name="quiet", body='{"said":7}'))
    await rig.cron("* * * * *", now + 60, calendars=USES)
    await rig.clock.advance(60)
    scheduler = rig.scheduler()
    await drive(rig.clock, scheduler.tick())
    assert [] == await rig.rows()
    await put_calendar(rig, (now - 10, now))
    await drive(rig.clock, scheduler.tick())
    (run,) = await rig.rows()
    assert (now + 60, RunState.QUEUED) == (run.nominal_at, run.state)


async def test_a_job_whose_calendar_is_gone_waits(rig: Rig) -> None:
    """It is told once, however many look for it, and what waited is decided when the calendar is made again."""
    now = rig.clock.now()
    jobs = [await rig.cron("* * * * *", now + 60, calendars=USES) for _ in range(2)]
    await rig.clock.advance(60)
    scheduler = rig.scheduler()
    with structlog.testing.capture_logs() as told:
        await tick_for(rig, scheduler, 61)
    assert [] == await rig.rows()
    assert [("default", "quiet")] == [
        (line["namespace"], line["calendar"]) for line in told if line["event"] == "calendar_gone"
    ]
    for job in jobs:
        row = await rig.store.jobs.get("default", job.job_id)
        assert row is not None
        assert row.timer is not None
        assert (now + 60, Hold.CALENDAR) == (row.timer.since, row.timer.hold)
    await put_calendar(rig, (now - 10, now))
    await drive(rig.clock, scheduler.tick())
    expected = {(job.job_id, *record) for job in jobs for record in WAITED}
    assert expected == {(row.job_id, row.nominal_at - now, row.state) for row in await rig.rows()}


WAITED = [(60.0, RunState.SKIPPED), (120.0, RunState.QUEUED)]
"""Since the start, and what became of it: the latest runs for both."""


async def test_a_window_that_cannot_be_read_closes_nothing(rig: Rig) -> None:
    """Else every job of its namespace would stand still."""
    now = rig.clock.now()
    await rig.store.rules.put(RuleRow(namespace="default", kind=RuleKind.WINDOW, name="upgrade", body="[]"))
    await rig.cron("* * * * * *", now + 1)
    await drive(rig.clock, rig.scheduler().tick())
    assert [now + 1, now + 2] == await rig.dues()


# ------------------------------------------------------------------------------------------- a namespace's limit


async def test_over_a_namespaces_limit_the_jobs_that_fire_most_often_are_parked(rig: Rig) -> None:
    """The others go on, also in the minute that it used up; each namespace has a limit of its own."""
    now = rig.clock.now()
    slow = await rig.cron("* * * * *", now + 60)
    often = await rig.cron("* * * * * *", now + 1)
    elsewhere = await rig.cron("* * * * * *", now + 1, namespace="other")
    await tick_for(rig, rig.scheduler(fires_per_minute_most=10), 62)
    parked = await rig.store.jobs.get("default", often.job_id)
    assert parked is not None
    assert ("PAUSED", "fuse") == (str(parked.status), parked.paused_by)
    assert "its namespace made more than 10 runs" in (parked.pause_reason or "")
    assert 10 == len([row for row in await rig.rows(RunState.QUEUED) if row.job_id == often.job_id])
    assert {"fuse"} == {row.reason for row in await rig.rows(RunState.SKIPPED)}
    assert [slow.job_id] == [row.job_id for row in await rig.rows(RunState.QUEUED) if row.job_id != often.job_id]
    other = await rig.store.jobs.get("other", elsewhere.job_id)
    assert other is not None
    assert "PAUSED" == str(other.status)


async def test_what_a_namespaces_limit_stopped_is_on_record_and_held_from_there(rig: Rig) -> None:
    """Nothing between the last run and the record, nor between the record and what is held."""
    now = rig.clock.now()
    job = await rig.cron("* * * * * *", now + 1)
    await tick_for(rig, rig.scheduler(fires_per_minute_most=3), 8)
    rows = await rig.rows()
    assert [now + 1 + number for number in range(len(rows))] == [row.nominal_at for row in rows]
    found = await rig.store.jobs.get("default", job.job_id)
    assert found is not None
    assert found.timer is not None
    assert (rows[-1].nominal_at + 1, Hold.PAUSED) == (found.timer.since, found.timer.hold)
    assert 3 >= len(await rig.rows(RunState.QUEUED))
    assert found.timer.fired == len(await rig.rows(RunState.QUEUED))


async def test_one_time_jobs_are_not_parked(rig: Rig) -> None:
    """There is nothing to hold back of them."""
    now = rig.clock.now()
    await put_window(rig, now, now + 60, labels={"nobody": "has"})
    jobs = [rig.make.job(now + 25.0, definition=FUTURE) for _ in range(5)]
    await rig.store.jobs.add(jobs)
    await rig.clock.advance(24)
    await tick_for(rig, rig.scheduler(fires_per_minute_most=2), 1)
    assert 5 == len(await rig.rows(RunState.QUEUED))


# -------------------------------------------------------------------------------------------- a quota of runs


async def quota(rig: Rig, runs_per_day: int | None) -> None:
    row = await rig.store.namespaces.get("default")
    assert row is not None
    await rig.store.namespaces.change(replace(row, quotas=Quotas(runs_per_day=runs_per_day)))


async def test_fires_over_the_quota_of_a_day_are_skipped_and_go_on_the_next_day(rig: Rig) -> None:
    """Each is on record; the schedule goes on, and other namespaces do not notice."""
    now = rig.clock.now()
    await quota(rig, 5)
    job = await rig.cron("* * * * * *", now + 1)
    elsewhere = await rig.cron("* * * * * *", now + 1, namespace="other")
    await tick_for(rig, rig.scheduler(), 8)
    rows = [row for row in await rig.rows() if row.job_id == job.job_id]
    assert [now + 1 + number for number in range(len(rows))] == [row.nominal_at for row in rows]
    assert ["QUEUED"] * 5 + ["SKIPPED"] * (len(rows) - 5) == [str(row.state) for row in rows]
    assert {("quota", OVER_QUOTA)} == {(row.reason, row.error) for row in rows[5:]}
    found = await rig.store.jobs.get("default", job.job_id)
    assert found is not None
    assert found.timer is not None
    assert ("SCHEDULED", 5) == (str(found.status), found.timer.fired)
    assert all(row.state is RunState.QUEUED for row in await rig.rows() if row.job_id == elsewhere.job_id)


async def test_a_job_that_runs_once_was_counted_when_it_came_and_always_fires(rig: Rig) -> None:
    """Also where a window near it has a scheduler decide it."""
    now = rig.clock.now()
    await quota(rig, 2)
    await put_window(rig, now, now + 60, labels={"nobody": "has"})
    jobs = [rig.make.job(now + 25.0, definition=FUTURE) for _ in range(3)]
    assert [Added.CREATED, Added.CREATED, Added.NO_QUOTA_RUNS] == await rig.store.jobs.add(jobs)
    await rig.clock.advance(24)
    await tick_for(rig, rig.scheduler(), 1)
    assert 2 == len(await rig.rows(RunState.QUEUED))


async def test_fires_that_the_store_refuses_are_not_counted(rig: Rig) -> None:
    """They are decided again."""
    now = rig.clock.now()
    await quota(rig, 100)
    job = await rig.cron("* * * * * *", now + 1)
    commit = rig.store.timers.commit

    async def refuse(_batch_id: int, _fires: Sequence[Fire]) -> int:
        rig.store.timers.commit = commit  # type: ignore[method-assign]  # the store's own again
        raise Invalid("not like this")

    rig.store.timers.commit = refuse  # type: ignore[method-assign, assignment]  # to refuse the first commit
    await tick_for(rig, rig.scheduler(), 3)
    assert 0 == (await rig.store.quotas.use("default")).runs_today
    await tick_for(rig, rig.scheduler(), 70)
    made = [row for row in await rig.rows(RunState.QUEUED) if row.job_id == job.job_id]
    assert made
    assert len(made) == (await rig.store.quotas.use("default")).runs_today


# ------------------------------------------------------------------------------------------------------ absences


async def test_a_store_that_was_away_is_on_record_once_it_is_back(rig: Rig) -> None:
    """From its last answer until the first one after."""
    scheduler = rig.scheduler(name="host:7")
    await drive(rig.clock, scheduler._lease_expiry.step())
    begin = rig.clock.now()
    rig.flaky.away = {"now"}
    for _ in range(20):
        await rig.clock.advance(1)
        with pytest.raises(StoreUnavailable):
            await drive(rig.clock, scheduler._lease_expiry.step())
    rig.flaky.away = set()
    await drive(rig.clock, scheduler._lease_expiry.step())
    found = await rig.store.incidents.between(0, 4e9)
    assert [("store_away", begin, rig.clock.now(), "host:7")] == [(i.kind, i.begin, i.end, i.who) for i in found]


async def test_a_moment_of_absence_is_not_worth_a_record(rig: Rig) -> None:
    """Nothing was late for it."""
    scheduler = rig.scheduler()
    await drive(rig.clock, scheduler._lease_expiry.step())
    rig.flaky.away = {"now"}
    with pytest.raises(StoreUnavailable):
        await drive(rig.clock, scheduler._lease_expiry.step())
    rig.flaky.away = set()
    await rig.clock.advance(2)
    await drive(rig.clock, scheduler._lease_expiry.step())
    assert [] == list(await rig.store.incidents.between(0, 4e9))


async def test_what_was_noticed_is_kept_until_it_is_recorded(rig: Rig) -> None:
    """The store may go away again at that very moment."""
    scheduler = rig.scheduler()
    due = rig.clock.now() + 1
    await rig.cron("0 * * * *", due)
    await rig.clock.advance(5000)
    rig.flaky.away = {"incidents.add"}
    with pytest.raises(StoreUnavailable):
        await drive(rig.clock, scheduler.tick())
    rig.flaky.away = set()
    await drive(rig.clock, scheduler._lease_expiry.step())
    (incident,) = await rig.store.incidents.between(0, 4e9)
    assert ("scheduler_away", due) == (incident.kind, incident.begin)


async def test_a_scheduler_that_finds_overdue_timers_at_its_start_knows_that_none_was_there(rig: Rig) -> None:
    """Since the oldest of them was due; the next look says nothing more."""
    due = rig.clock.now() + 1
    await rig.cron("0 * * * *", due)
    await rig.clock.advance(5000)
    now = rig.clock.now()
    scheduler = rig.scheduler(name="host:7")
    await drive(rig.clock, scheduler.tick())
    await drive(rig.clock, scheduler.tick())
    (incident,) = await rig.store.incidents.between(0, 4e9)
    assert ("scheduler_away", due, now, "host:7") == (incident.kind, incident.begin, incident.end, incident.who)


async def test_a_scheduler_that_was_stopped_for_a_while_notices_it(rig: Rig) -> None:
    """A machine that slept, say. While it looks in vain for a store, that is no absence of schedulers."""
    scheduler = rig.scheduler()
    await rig.cron("* * * * * *", rig.clock.now() + 1)
    await drive(rig.clock, scheduler.tick())
    await rig.clock.advance(300)
    await drive(rig.clock, scheduler.tick())
    assert ["scheduler_away"] == [each.kind for each in await rig.store.incidents.between(0, 4e9)]
    rig.flaky.away = {"timers.fire", "timers.take", "stats"}
    for _ in range(60):
        await rig.clock.advance(2)
        with pytest.raises(StoreUnavailable):
            await drive(rig.clock, scheduler._fire_loop.step())
    rig.flaky.away = set()
    await drive(rig.clock, scheduler.tick())
    assert 1 == len(await rig.store.incidents.between(0, 4e9))


# ----------------------------------------------------------------------------------------------------- zone data


def compiled(rules: str) -> bytes:
    """A TZif file (RFC 9636) whose zone follows a POSIX TZ string for ever."""
    header = b"TZif2" + bytes(15) + struct.pack(">6l", 0, 0, 0, 0, 1, 4)
    block = header + struct.pack(">lbb", 0, 0, 0) + b"UTC\0"
    return block + block + b"\n" + rules.encode() + b"\n"


def install(folder: Path, version: str, berlin: str) -> None:
    """Zone data of two zones."""
    (folder / "Europe").mkdir(exist_ok=True)
    (folder / "UTC").write_bytes(compiled("UTC0"))
    (folder / "Europe" / "Berlin").write_bytes(compiled(berlin))
    (folder / "+VERSION").write_text(version)


@pytest.fixture
def zone_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that holds the only zone data there is."""
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath([tmp_path])
    install(tmp_path, "2031a", "CET-1CEST,M3.5.0,M10.5.0/3")
    zones.forget()
    yield tmp_path
    zoneinfo.reset_tzpath(before)
    zones.forget()


async def test_other_zone_data_moves_the_times_that_were_computed_with_the_old(rig: Rig, zone_folder: Path) -> None:
    """A government gives up summer time while a scheduler runs: the next fire comes an hour later, by the true clock,
    once; and its run is made then."""
    summer = 1_813_400_000.0
    await rig.clock.advance(summer - rig.clock.now())
    scheduler = rig.scheduler()
    old = 1_813_464_000.0  # 06:00 in summer time, 2027-06-19
    definition = '{"schedule_type":"CRON","cron_expression":"0 6 * * *","timezone":"Europe/Berlin"}'
    job = rig.make.recurring(old, definition=definition, zone_data="2031a")
    await rig.store.jobs.add([job])
    await drive(rig.clock, scheduler.tick())
    install(zone_folder, "2031b", "CET-1")
    await drive(rig.clock, scheduler.tick())
    row = await rig.store.jobs.get("default", job.job_id)
    assert row is not None
    assert row.timer is not None
    assert old + 3600 == row.timer.due
    await rig.clock.advance(old + 3599 - rig.clock.now())
    await drive(rig.clock, scheduler.tick())
    assert [run_id(job.job_id, old + 3600)] == [run.run_id for run in await rig.rows()]


async def test_a_timer_bears_the_version_of_the_zone_data_that_it_was_computed_with(
    rig: Rig, zone_folder: Path
) -> None:
    """A cron line in a zone does; what no zone's rules have a say in does not."""
    now = rig.clock.now()
    assert zone_folder.is_dir()
    await rig.cron("* * * * * *", now + 1, timezone="Europe/Berlin")
    await rig.cron("* * * * * *", now + 1)
    fires = await rig.decided(rig.scheduler())
    assert {"2031a", None} == {fire.zone_data for fire in fires}
    assert {Overlap.SKIP} == {run.overlap for fire in fires for run in fire.runs}


async def test_calendars_that_cost_much_hold_up_their_own_namespace_alone(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its schedules are decided later, with nothing lost; others' are decided in time."""
    monkeypatch.setattr(rule_budget, "LOOKS_PER_SECOND", 0.1)
    now = rig.clock.now()
    body = encode_calendar(stored((now + 3_600.0, now + 7_200.0)))
    for namespace in ("greedy", "modest"):
        await rig.store.rules.put(RuleRow(namespace=namespace, kind=RuleKind.CALENDAR, name="quiet", body=body))
    for namespace, count in (("greedy", 5), ("modest", 1)):
        for _ in range(count):
            await rig.cron("* * * * *", now + 60.0, namespace=namespace, calendars=USES, misfire={"grace_seconds": 300})
    scheduler = rig.scheduler()
    await rig.clock.advance(59.5)
    await drive(rig.clock, scheduler.tick())
    made = {name: len(await rig.rows(namespace=name)) for name in ("greedy", "modest")}
    assert {"greedy": 1, "modest": 1} == made
    for _ in range(60):
        await rig.clock.advance(5.0)
        await drive(rig.clock, scheduler.tick())
    nominal = {row.job_id for row in await rig.rows(namespace="greedy") if row.nominal_at == now + 60.0}
    assert 5 == len(nominal)


@pytest.mark.parametrize("closed", [(36_000.0, 39_600.0), (60.0, 65.0)], ids=["much later", "at the first time"])
async def test_what_waits_for_its_share_keeps_all_of_its_occurrences(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, closed: tuple[float, float]
) -> None:
    """Shorter intervals than the wait: none is lost or merged, and none is skipped but by the calendar. A scheduler
    that has spent nothing decides at once what another one lets wait."""
    monkeypatch.setattr(rule_budget, "LOOKS_PER_SECOND", 0.05)
    now = rig.clock.now()
    body = encode_calendar(stored((now + closed[0], now + closed[1])))
    await rig.store.rules.put(RuleRow(namespace="greedy", kind=RuleKind.CALENDAR, name="quiet", body=body))
    grace = {"grace_seconds": 300}
    jobs = [
        await rig.cron("*/10 * * * * *", now + 60.0, namespace="greedy", calendars=USES, misfire=grace)
        for _ in range(2)
    ]
    scheduler = rig.scheduler()
    await rig.clock.advance(59.5)
    for _ in range(40):
        await drive(rig.clock, scheduler.tick())
        await rig.clock.advance(5.0)
    monkeypatch.setattr(rule_budget, "LOOKS_PER_SECOND", 1e9)
    await drive(rig.clock, rig.scheduler().tick())
    rows = await rig.rows(namespace="greedy")
    first, last = now + 60.0, now + 60.0 + 10.0 * 20
    for job in jobs:
        mine = {row.nominal_at: row for row in rows if row.job_id == job.job_id and row.nominal_at < last}
        assert [first + 10.0 * number for number in range(20)] == sorted(mine)
        assert {1} == {row.occurrences for row in mine.values()}
        skipped = {at for at, row in mine.items() if row.state is RunState.SKIPPED}
        assert skipped == {at for at in mine if now + closed[0] <= at < now + closed[1]}
