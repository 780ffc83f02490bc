"""What a schedule promises: never early, never twice, never silent, and bounded however long nobody looked."""

from __future__ import annotations

import math
import time
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.slow_cron import SlowCron, at
from tickwise.domain.errors import CronInvalid, Invalid
from tickwise.domain.schedule import (
    Decision,
    Misfire,
    MisfireMode,
    Schedule,
    ScheduleType,
    check,
    decide,
    explain,
    fires_between,
    next_fire,
    preview,
    warnings,
)
from tickwise.domain.zones import UTC, stretch_at, zone_named

NOW = at("2026-11-21 09:00").timestamp()
DAY = 86_400.0
TEN_YEARS = 3652 * DAY
DEFAULT = Misfire()


def cron(line: str, timezone: str = "UTC", misfire: Misfire = DEFAULT) -> Schedule:
    """A schedule by a cron line."""
    return Schedule(ScheduleType.CRON, cron_expression=line, timezone=timezone, misfire=misfire)


def every(seconds: float, anchor: float = 0.0) -> Schedule:
    """A schedule at an interval."""
    return Schedule(ScheduleType.INTERVAL, interval_seconds=seconds, anchor=anchor)


def once(instant: float) -> Schedule:
    """A schedule at one time."""
    return Schedule(ScheduleType.FUTURE, at=instant)


IMMEDIATE = Schedule(ScheduleType.IMMEDIATE)

schedules = st.one_of(
    st.builds(
        cron,
        st.sampled_from(
            ["* * * * *", "*/5 * * * *", "30 2 * * *", "* * * * * *", "0 9 * * 1-5", "0 0 29 2 *", "*/7 */3 1-7 * 1"]
        ),
        st.sampled_from(["UTC", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"]),
    ),
    st.builds(every, st.integers(1_000_000, 10**13).map(lambda micros: micros / 1e6), st.floats(0, 4e9)),
)
instants = st.integers(5 * 10**14, 4 * 10**15).map(lambda micros: micros / 1e6)


# ----------------------------------------------------------------------------------------------------- next fire


@given(schedule=schedules, after=instants)
@settings(deadline=None)
def test_the_next_fire_is_strictly_after(schedule: Schedule, after: float) -> None:
    """Asking again with the answer always moves on."""
    first = next_fire(schedule, after)
    assert first is not None
    assert first > after
    second = next_fire(schedule, first)
    assert second is not None
    assert second > first


def test_an_interval_does_not_drift() -> None:
    """The ten-millionth fire of a tenth-second fraction is where multiplication puts it, not where adding up would."""
    anchor = NOW + 0.123456
    schedule = every(1.1, anchor)
    for number in (1, 3, 10_000_000):
        expected = (round(anchor * 1e6) + number * 1_100_000) / 1e6
        assert next_fire(schedule, expected - 0.000001) == expected
        assert next_fire(schedule, expected) == (round(expected * 1e6) + 1_100_000) / 1e6


def test_an_interval_keeps_its_grid_before_its_anchor() -> None:
    """An anchor gives the phase; it is no start."""
    assert next_fire(every(60, NOW + 30), NOW - 3600) == NOW - 3570


def test_a_one_time_schedule_fires_once() -> None:
    """At its time, then never; an immediate one has no occurrence beyond its creation."""
    assert next_fire(once(NOW), NOW - 0.000001) == NOW
    assert next_fire(once(NOW), NOW) is None
    assert next_fire(IMMEDIATE, NOW) is None


def test_a_preview_lists_the_next_fires() -> None:
    """Strictly after, as many as asked for, in the schedule's own zone."""
    found = preview(cron("0 9 * * *", "Asia/Kolkata"), NOW, 2)
    assert found == [at("2026-11-22 03:30").timestamp(), at("2026-11-23 03:30").timestamp()]
    assert preview(once(NOW + 5), NOW, 10) == [NOW + 5]
    assert preview(cron("* * * * *"), NOW, 0) == []


def test_a_range_excludes_its_start_and_includes_its_end() -> None:
    """So that adjoining ranges hold each fire once; the limit bounds the list."""
    assert fires_between(every(60), NOW, NOW + 120, 100) == [NOW + 60, NOW + 120]
    assert fires_between(every(60), NOW, NOW + 120, 1) == [NOW + 60]


# -------------------------------------------------------------------------------------------------------- decide


def test_a_due_timer_fires_at_its_nominal_time() -> None:
    """In time, alone, and the timer goes to the next occurrence after the horizon."""
    assert decide(every(60), NOW, NOW - 0.5, NOW + 1) == Decision((NOW,), NOW + 60)
    assert decide(cron("* * * * *"), NOW, NOW + 3, NOW + 5) == Decision((NOW,), NOW + 60)


def test_a_timer_beyond_the_horizon_stays() -> None:
    """Nothing is decided ahead of its time."""
    assert decide(every(60), NOW + 60, NOW, NOW + 2) == Decision((), NOW + 60)


def test_every_occurrence_up_to_the_horizon_fires() -> None:
    """A one-second schedule with a horizon of two seconds brings two or three fires at once."""
    assert decide(cron("* * * * * *"), NOW, NOW, NOW + 2) == Decision((NOW, NOW + 1, NOW + 2), NOW + 3)


def test_what_is_late_within_the_grace_fires_late() -> None:
    """Nothing is coalesced before the grace has passed."""
    assert decide(every(10), NOW - 20, NOW, NOW).fires == (NOW - 20, NOW - 10, NOW)


def test_what_is_older_than_the_grace_becomes_one_run_of_the_latest() -> None:
    """Three hours away from an hourly job: one run, for the latest hour; the rest is counted."""
    decision = decide(cron("0 * * * *"), NOW - 3 * 3600 - 1800 - 1800, NOW + 1800, NOW + 1802)
    assert decision == Decision((NOW,), NOW + 3600, coalesced=4)


def test_after_downtime_what_is_within_the_grace_still_fires_one_by_one() -> None:
    """Ten minutes away from a ten-second job: the last minute fires, nine minutes are counted."""
    decision = decide(every(10), NOW - 600, NOW, NOW)
    assert decision == Decision(tuple(NOW - 60 + 10 * n for n in range(7)), NOW + 10, coalesced=54)


def test_a_promised_time_is_never_moved_back() -> None:
    """The latest occurrence that the schedule names lies before the stored time: the stored one runs."""
    decision = decide(cron("0 * * * *"), NOW + 600, NOW + 1800, NOW + 1800)
    assert decision == Decision((NOW + 600,), NOW + 3600)


def test_a_late_lone_occurrence_still_runs() -> None:
    """A daily job that was missed an hour ago is not silent until tomorrow."""
    assert decide(cron("0 8 * * *"), NOW - 3600, NOW, NOW + 2) == Decision((NOW - 3600,), NOW + 23 * 3600)


def test_a_one_time_job_runs_however_late() -> None:
    """And never again."""
    assert decide(once(NOW - TEN_YEARS), NOW - TEN_YEARS, NOW, NOW + 2) == Decision((NOW - TEN_YEARS,), None)
    assert decide(IMMEDIATE, NOW - 5, NOW, NOW + 2) == Decision((NOW - 5,), None)


def test_the_limit_cuts_the_list_and_the_timer_goes_on_there() -> None:
    """The next decision begins where this one ended, so none is lost and none comes twice."""
    first = decide(every(1), NOW - 50, NOW, NOW, limit=20)
    assert first.fires == tuple(NOW - 50 + n for n in range(20))
    assert first.next_due == NOW - 30
    assert decide(every(1), NOW - 30, NOW, NOW).fires == tuple(NOW - 30 + n for n in range(31))


def test_a_due_time_that_the_schedule_no_longer_names_counts_once() -> None:
    """The zone's rules may change after a time was stored: that occurrence was promised."""
    assert decide(cron("0 * * * *"), NOW - 5, NOW, NOW).fires == (NOW - 5, NOW)
    late = decide(cron("0 * * * *"), NOW - 3 * 3600 - 600, NOW, NOW)
    assert late == Decision((NOW,), NOW + 3600, coalesced=4)


@given(
    schedule=schedules,
    start=instants,
    downtime=st.one_of(st.floats(0, 300), st.floats(0, DAY), st.floats(0, TEN_YEARS)),
    ahead=st.floats(0, 5),
    grace=st.sampled_from([0.0, 1.0, 60.0, 3600.0]),
)
@settings(deadline=None, max_examples=150)
def test_any_downtime_ends_in_the_future_with_something_run(
    schedule: Schedule, start: float, downtime: float, ahead: float, grace: float
) -> None:
    """Never silent, never early, never twice; the next time is in the future; and every occurrence is accounted for."""
    schedule = Schedule(
        schedule.type,
        cron_expression=schedule.cron_expression,
        interval_seconds=schedule.interval_seconds,
        anchor=schedule.anchor,
        timezone=schedule.timezone,
        misfire=Misfire(grace_seconds=grace),
    )
    due = next_fire(schedule, start)
    assert due is not None
    now = due + downtime
    decision = decide(schedule, due, now, now + ahead, limit=10_000)
    assert decision.fires
    assert list(decision.fires) == sorted(set(decision.fires))
    assert decision.fires[0] >= due
    assert decision.fires[-1] <= now + ahead
    assert decision.next_due == next_fire(schedule, now + ahead)
    assert [fire for fire in decision.fires[1:] if fire < now - grace] == []
    if downtime < DAY:
        counted = len(fires_between(schedule, due, math.nextafter(decision.fires[0], 0), 1_000_000))
        expected = 0 if decision.fires[0] == due else 1 + counted
        assert decision.coalesced == expected


@pytest.mark.parametrize(
    "schedule",
    [
        cron("* * * * * *", "America/New_York"),
        cron("*/5 * * * *", "Australia/Lord_Howe"),
        cron("0 3 29 2 *", "Europe/Berlin"),
        every(1),
    ],
)
def test_ten_years_of_downtime_are_decided_at_once(schedule: Schedule) -> None:
    """10 ms is the promise; the test allows a busy machine five times that, where a walk would take minutes."""
    due = next_fire(schedule, NOW - TEN_YEARS)
    assert due is not None
    begin = time.perf_counter()
    decision = decide(schedule, due, NOW, NOW + 2)
    assert time.perf_counter() - begin < 0.05
    assert decision.fires
    assert decision.next_due is not None
    assert decision.next_due > NOW + 2


def test_coalesced_counts_what_the_slow_reference_counts() -> None:
    """Over both clock changes of a year, for a fixed and for a wildcard line."""
    zone = ZoneInfo("America/New_York")
    for line in ("30 1,2 * * *", "0 */2 * * *"):
        for day in ("2026-03-08", "2026-11-01"):
            begin, end = at(f"{day} 00:00"), at(f"{day} 18:30")
            named = [fire.timestamp() for fire in SlowCron(line).fires(begin, end, zone)]
            decision = decide(cron(line, zone.key), named[0], end.timestamp(), end.timestamp())
            assert decision.fires == (named[-1],)
            assert decision.coalesced == len(named) - 1


# ------------------------------------------------------------------------------------------------------ checking


@pytest.mark.parametrize(
    ("schedule", "pointer", "part"),
    [
        (Schedule(ScheduleType.CRON), "/cron_expression", "needs cron_expression"),
        (cron("0 0 * * MOM"), "/cron_expression", "MON?"),
        (cron("* * * * *", "Europe/Berln"), "/timezone", "Europe/Berlin"),
        (cron("* * * * *", "berlin"), "/timezone", "Europe/Berlin"),
        (cron("* * * * *", "Europe/berlin"), "/timezone", "Europe/Berlin"),
        (cron("* * * * *", "new york"), "/timezone", "America/New_York"),
        (cron("* * * * *", ""), "/timezone", "IANA name such as Europe/Berlin"),
        (cron("* * * * *", "+02:00"), "/timezone", "IANA name such as Europe/Berlin"),
        (cron("* * * * *", "Europe"), "/timezone", "no time zone"),
        (Schedule(ScheduleType.INTERVAL), "/interval_seconds", "needs interval_seconds"),
        (every(0.999), "/interval_seconds", "from 1 to"),
        (every(-5), "/interval_seconds", "from 1 to"),
        (every(math.nan), "/interval_seconds", "from 1 to"),
        (every(math.inf), "/interval_seconds", "from 1 to"),
        (every(1e12), "/interval_seconds", "ten years"),
        (every(60, math.nan), "/anchor", "between the years"),
        (Schedule(ScheduleType.FUTURE), "/schedule_time", "needs schedule_time"),
        (once(math.inf), "/schedule_time", "between the years"),
        (once(NOW - 61), "/schedule_time", "2026-11-21T08:58:59Z is in the past"),
        (Schedule(ScheduleType.FUTURE, at=NOW, cron_expression="* * * * *"), "/cron_expression", "belongs to CRON"),
        (Schedule(ScheduleType.IMMEDIATE, interval_seconds=5), "/interval_seconds", "belongs to INTERVAL"),
        (cron("* * * * *", misfire=Misfire(grace_seconds=-1)), "/misfire/grace_seconds", "from 0"),
        (cron("* * * * *", misfire=Misfire(grace_seconds=math.nan)), "/misfire/grace_seconds", "from 0"),
        (cron("* * * * *", misfire=Misfire(mode=MisfireMode.ALL)), "/misfire/mode", "not supported yet"),
        (cron("* * * * *", misfire=Misfire(max_catchup=3)), "/misfire/max_catchup", "no effect"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused_at_its_field(schedule: Schedule, pointer: str, part: str) -> None:
    """The pointer names the field, the sentence says what to write."""
    with pytest.raises(Invalid) as caught:
        check(schedule, now=NOW)
    assert caught.value.pointer == pointer
    assert part in caught.value.detail


@pytest.mark.parametrize(
    "schedule",
    [
        IMMEDIATE,
        once(NOW),
        once(NOW - 59),
        every(1),
        every(0.1 + 0.9, NOW),
        cron("@daily", "America/Argentina/Ushuaia"),
    ],
)
def test_a_sound_schedule_passes(schedule: Schedule) -> None:
    """A time in the past by up to the grace still fires at once."""
    check(schedule, now=NOW)


def test_a_time_in_the_past_is_only_refused_against_a_clock() -> None:
    """A stored job is read again long after its time; only a new one is measured against now."""
    check(once(NOW - DAY))


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd", "/etc/localtime", "Europe/../Europe/Berlin", "Europe//Berlin", "Europe/Berlin/",
        "a" * 100_000,
        "Europe/Berlin\0", "Europe/Berlin\n", "Europe\\Berlin", "localtime", "posixrules", "right/Europe/Berlin",
        "posix/UTC", "Factory", "tzdata.zi", "zone.tab", "Éurope/Berlin", ".", "..", "-", " ", "UTC ", "%s",
    ],
)  # fmt: skip
def test_a_hostile_zone_name_is_refused_cleanly(name: str) -> None:
    """No path is opened, no file that is no zone is read, and the message stays short."""
    with pytest.raises(Invalid) as caught:
        zone_named(name)
    assert caught.value.pointer == "/timezone"
    assert len(caught.value.detail) < 300


def test_a_cron_error_keeps_its_place_in_the_line() -> None:
    """So that a page can underline it."""
    with pytest.raises(CronInvalid) as caught:
        check(cron("0 99 * * *"))
    assert caught.value.position == 2


# ------------------------------------------------------------------------------------------------- words, zones


@pytest.mark.parametrize(
    ("schedule", "english"),
    [
        (IMMEDIATE, "once, at once"),
        (once(NOW), "once, at 2026-11-21T09:00:00Z"),
        (every(90), "every 90 seconds"),
        (every(1.5), "every 1.5 seconds"),
        (every(5400), "every 90 minutes"),
        (every(86_400), "every day"),
        (cron("30 2 * * *", "Europe/Berlin"), "at 02:30 (Europe/Berlin)"),
    ],
)
def test_a_schedule_is_told_in_plain_english(schedule: Schedule, english: str) -> None:
    """With its zone where that matters."""
    assert explain(schedule) == english


def test_warnings_come_from_the_cron_line() -> None:
    """Other schedules have nothing to misread."""
    assert warnings(every(60)) == ()
    assert "either" in warnings(cron("0 0 13 * 5"))[0]


@given(
    zone_name=st.sampled_from(
        ["America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca", "Asia/Gaza", "America/Noronha"]
    ),
    second=st.integers(-2_000_000_000, 4_000_000_000),
)
@settings(deadline=None)
def test_a_stretch_has_the_zones_own_offset_up_to_its_edges(zone_name: str, second: int) -> None:
    """The time line that the maths uses is the one that the zone's data tells."""
    zone = ZoneInfo(zone_name)
    stretch = stretch_at(zone, second)
    assert stretch.begin <= second < stretch.end

    def offset(instant: int) -> float:
        shown = datetime.fromtimestamp(instant, zone).utcoffset()
        assert shown is not None
        return shown.total_seconds()

    assert offset(second) == offset(stretch.begin) == offset(stretch.end - 1) == stretch.offset
    assert offset(stretch.begin - 1) == stretch.before


@pytest.mark.parametrize(
    "zone_name",
    ["America/New_York", "Europe/London", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Gaza", "Asia/Tehran"],
)
def test_a_change_is_remembered_while_its_repeated_times_are_near(zone_name: str) -> None:
    """Two days after any change its stretch still tells when it was and what held before, over every edge of a year."""
    zone, cursor, seen = ZoneInfo(zone_name), 0, 0
    while cursor < 4_000_000_000:
        stretch = stretch_at(zone, cursor)
        if stretch.before != stretch.offset and stretch.begin == cursor:
            seen += 1
            later = stretch_at(zone, stretch.begin + 2 * 86_400 - 1)
            assert (later.begin, later.offset, later.before) == (stretch.begin, stretch.offset, stretch.before)
        cursor = stretch.end
    assert seen > 50


def test_utc_is_one_endless_stretch() -> None:
    """The commonest zone costs nothing."""
    assert stretch_at(UTC, 0) == stretch_at(UTC, 4_000_000_000)
    assert zone_named("UTC") is UTC
