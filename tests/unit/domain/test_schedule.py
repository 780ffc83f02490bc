"""What a schedule promises: it names its occurrences, all of them, without drift, between its bounds."""

from __future__ import annotations

import dataclasses
import math
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.slow_cron import at
from tickwise.domain.errors import CronInvalid, Invalid
from tickwise.domain.schedule import (
    Misfire,
    Schedule,
    ScheduleType,
    check,
    clock_skips,
    count_between,
    explain,
    fires_between,
    first_fire,
    gap_skips,
    just_after,
    just_before,
    last_before,
    latest_fire,
    moved,
    next_fire,
    preview,
    warnings,
)
from tickwise.domain.zones import UTC, Dst, GapRule, stretch_at, zone_named

NOW = at("2026-11-21 09:00").timestamp()
DAY = 86_400.0
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


# ------------------------------------------------------------------------------------- the last, the first, how many


@given(schedule=schedules, until=instants)
def test_the_last_fire_is_the_one_that_no_other_follows(schedule: Schedule, until: float) -> None:
    """`latest_fire` and `next_fire` are about one and the same instants."""
    last = latest_fire(schedule, until)
    assert last is not None
    assert last <= until
    following = next_fire(schedule, last)
    assert following is None or following > until
    assert latest_fire(schedule, last) == last == first_fire(schedule, last)
    if following is not None:
        assert last_before(schedule, following) == last


@given(schedule=schedules, start=instants, steps=st.integers(0, 40))
def test_a_count_is_that_of_walking(schedule: Schedule, start: float, steps: int) -> None:
    """From an instant, included, to before another one."""
    fires = preview(schedule, start, steps + 1)
    if fires:
        assert count_between(schedule, fires[0], fires[-1]) == len(fires) - 1
        assert count_between(schedule, start, fires[0]) == int(first_fire(schedule, start) == start)


def test_occurrences_lie_between_the_bounds() -> None:
    """Both included, whoever asks."""
    schedule = dataclasses.replace(every(60), start_at=NOW, end_at=NOW + 120)
    assert fires_between(schedule, 0, math.inf, 100) == [NOW, NOW + 60, NOW + 120]
    assert latest_fire(schedule, NOW + DAY) == NOW + 120
    assert latest_fire(schedule, NOW - 1) is None
    assert count_between(schedule, 0, math.inf) == 3
    assert count_between(schedule, NOW + 60, NOW + 120) == 1
    daily = dataclasses.replace(cron("0 9 * * *"), start_at=NOW, end_at=NOW + 2 * DAY)
    assert fires_between(daily, 0, math.inf, 100) == [NOW, NOW + DAY, NOW + 2 * DAY]
    assert count_between(daily, 0, math.inf) == 3


def test_an_interval_without_an_anchor_counts_from_its_start() -> None:
    """Not from the hour, when somebody said when to begin."""
    schedule = Schedule(ScheduleType.INTERVAL, interval_seconds=3600, start_at=NOW + 17.5)
    assert preview(schedule, NOW - DAY, 2) == [NOW + 17.5, NOW + 3617.5]


@given(instant=st.one_of(st.floats(0, 253_402_214_400), instants))
def test_nothing_lies_between_an_instant_and_its_neighbours(instant: float) -> None:
    """In whole microseconds, and where a float is coarser than these."""
    assert just_before(instant) < instant < just_after(instant)
    assert just_after(instant) - just_before(instant) <= 1e-4


@given(micros=st.integers(0, 8 * 10**15), step=st.integers(1_000_000, 10**10))
def test_an_occurrence_of_an_interval_is_found_from_its_own_time(micros: int, step: int) -> None:
    """To the microsecond, in all years up to 2223: it is at or after itself, and the next one is not."""
    instant = micros / 1e6
    schedule = every(step / 1e6, instant)
    assert first_fire(schedule, instant) == latest_fire(schedule, instant) == instant
    assert next_fire(schedule, just_before(instant)) == last_before(schedule, just_after(instant)) == instant
    assert count_between(schedule, instant, just_after(instant)) == 1
    assert count_between(schedule, just_after(instant), just_after(instant) + 0.5) == 0


def test_a_time_moved_by_its_zones_data_goes_to_the_nearest() -> None:
    """An hour earlier or later by the new data is the same occurrence; a time that is still named stays."""
    daily = cron("30 2 * * *", "America/New_York")
    due = at("2026-07-02 06:30").timestamp()
    assert moved(daily, due + 3600) == moved(daily, due - 3600) == moved(daily, due) == due
    assert moved(cron("*/5 * * * *", "America/New_York"), due) == due
    assert moved(dataclasses.replace(daily, end_at=due), due + 3600) == due


def test_what_the_clock_skipped_is_told_where_it_is_lost() -> None:
    """Only of a line that does not run it after all."""
    change = at("2026-03-08 07:00").timestamp()
    lost = dataclasses.replace(cron("30 2 * * *", "America/New_York"), dst=Dst(GapRule.SKIP))
    (found,) = gap_skips(lost, change - DAY, change + DAY)
    assert (change, 1) == (found.instant, found.count)
    assert "02:30 does not exist" in found.sentence()
    assert gap_skips(lost, change, change + DAY) == [], "what was asked after is not included"
    assert gap_skips(cron("30 2 * * *", "America/New_York"), change - DAY, change + DAY) == []
    assert gap_skips(every(60), change - DAY, change + DAY) == []


@pytest.mark.parametrize(
    "line",
    [
        "*/30 * * * *",
        "0 */2 * * *",
        "30 2 * * *",
        "30 2 * * 0",
        "0 9 * * 1",
        "30 2 8 3 *",
        "30 2 1,8,15 * *",
        "0 3 1 * 1",
    ],
)
def test_each_occurrence_has_what_the_clock_skipped_since_the_one_before(line: str) -> None:
    """So occurrence by occurrence all of it is told, and nothing twice, however far one is from the one before."""
    schedule = dataclasses.replace(cron(line, "America/New_York"), dst=Dst(GapRule.SKIP))
    fires = fires_between(schedule, at("2025-12-20 00:00").timestamp(), at("2028-05-20 00:00").timestamp(), 100_000)
    told = [skip for fire in fires[1:] for skip in clock_skips(schedule, fire, fire)]
    assert gap_skips(schedule, fires[0], fires[-1]) == told


def test_what_the_clock_skipped_before_a_schedule_counts_is_not_told() -> None:
    """Neither before it was planned nor before its start; and there may be no occurrence before."""
    change = at("2026-03-08 07:00").timestamp()
    lost = dataclasses.replace(cron("30 2 * * 0", "America/New_York"), dst=Dst(GapRule.SKIP))
    first = next_fire(lost, change) or 0.0
    assert [change] == [skip.instant for skip in clock_skips(lost, first, first)]
    assert clock_skips(dataclasses.replace(lost, planned_at=change), first, first) == []
    assert clock_skips(dataclasses.replace(lost, start_at=change + 1.0), first, first) == []


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
        (cron("* * * * *", misfire=Misfire(max_catchup=0)), "/misfire/max_catchup", "from 1 to 1000"),
        (cron("* * * * *", misfire=Misfire(max_catchup=1001)), "/misfire/max_catchup", "from 1 to 1000"),
        (dataclasses.replace(once(NOW), end_at=NOW), "/end_at", "belongs to CRON and INTERVAL"),
        (dataclasses.replace(once(NOW), max_runs=1), "/max_runs", "belongs to CRON and INTERVAL"),
        (dataclasses.replace(every(60), start_at=NOW, end_at=NOW - 1), "/end_at", "before start_at"),
        (dataclasses.replace(every(60), start_at=math.nan), "/start_at", "between the years"),
        (dataclasses.replace(every(60), max_runs=0), "/max_runs", "from 1 to"),
        (dataclasses.replace(every(60), jitter_seconds=-1.0), "/jitter_seconds", "from 0 to 86400"),
        (dataclasses.replace(every(60), window_seconds=math.nan), "/window_seconds", "from 0 to 86400"),
        (dataclasses.replace(every(60), jitter_seconds=1.0, window_seconds=1.0), "/window_seconds", "send one"),
        (dataclasses.replace(IMMEDIATE, jitter_seconds=1.0), "/jitter_seconds", "at once"),
        (dataclasses.replace(every(60), dst=Dst(GapRule.SKIP)), "/dst", "belongs to CRON"),
        (dataclasses.replace(every(60), fuse_per_minute=0), "/fuse_per_minute", "from 1 to 60000"),
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
