"""What a due timer comes to, case by case: time, misfires, holds, closures, the fuse, clock changes."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.slow_cron import at
from tickwise.domain.calendar.rules import (
    Calendar,
    CalendarMode,
    CalendarRule,
    Otherwise,
    Period,
    ScheduleRules,
    Window,
)
from tickwise.domain.decision import (
    MAX_LATE,
    NEVER,
    Decision,
    Firing,
    Hold,
    Skip,
    SkipReason,
    TimerState,
    decide,
    fraction,
    spread,
)
from tickwise.domain.schedule import Misfire, MisfireMode, Schedule, ScheduleType, next_fire
from tickwise.domain.zones import Dst, GapRule, stretch_at, zone_named

NOW = at("2026-11-21 09:00").timestamp()
HOUR, DAY = 3600.0, 86_400.0
TEN_YEARS = 3652 * DAY


def cron(line: str, timezone: str = "UTC", **fields: Any) -> Schedule:
    """A schedule by a cron line."""
    return Schedule(ScheduleType.CRON, cron_expression=line, timezone=timezone, **fields)


def every(seconds: float, **fields: Any) -> Schedule:
    """A schedule at an interval, from 1970 on."""
    return Schedule(ScheduleType.INTERVAL, interval_seconds=seconds, anchor=0.0, **fields)


def once(instant: float, **fields: Any) -> Schedule:
    """A schedule at one time."""
    return Schedule(ScheduleType.FUTURE, at=instant, **fields)


def look(
    schedule: Schedule,
    timer: TimerState | float,
    now: float,
    ahead: float = 0.0,
    rules: ScheduleRules | None = None,
    **more: Any,
) -> Decision:
    """One decision."""
    pending = timer if isinstance(timer, TimerState) else TimerState(timer)
    return decide(schedule, pending, now=now, until=now + ahead, rules=rules, **more)


def nominals(decision: Decision) -> list[float]:
    """Of its runs."""
    return [fire.nominal for fire in decision.fires]


def skipped(decision: Decision) -> list[tuple[float, float, int, SkipReason]]:
    """Its skips, less the sentences."""
    return [(skip.nominal, skip.until, skip.occurrences, skip.reason) for skip in decision.skips]


def due(decision: Decision) -> float | None:
    """When the timer is due next."""
    return None if decision.next is None else decision.next.due


def closed(*spans: tuple[float, float], otherwise: Otherwise = Otherwise.SKIP) -> ScheduleRules:
    """One calendar that excludes these times."""
    calendar = Calendar(entries=tuple(Period(begin, end) for begin, end in spans))
    return ScheduleRules((CalendarRule("quiet", calendar, CalendarMode.EXCLUDE, otherwise),))


def window(begin: float, end: float, action: Otherwise = Otherwise.SKIP) -> ScheduleRules:
    """One maintenance window."""
    return ScheduleRules(windows=(Window("upgrade", Calendar(entries=(Period(begin, end),)), action=action),))


# ---------------------------------------------------------------------------------------------------- in time


def test_a_due_timer_fires_at_its_nominal_time() -> None:
    """In time, alone, and the timer goes to the next occurrence after the horizon."""
    expected = Decision((Firing(NOW, NOW),), (), TimerState(NOW + 60, fired=1))
    assert expected == look(every(60), NOW, NOW - 0.5, 1.5)
    assert expected == look(cron("* * * * *"), NOW, NOW + 3, 2)


def test_a_timer_beyond_the_horizon_stays() -> None:
    """Nothing is decided ahead of its time."""
    timer = TimerState(NOW + 60, fired=7)
    assert Decision((), (), timer) == look(every(60), timer, NOW, 2)


def test_every_occurrence_up_to_the_horizon_fires() -> None:
    """A one-second schedule with a horizon of two seconds brings three fires at once."""
    decision = look(cron("* * * * * *"), NOW, NOW, 2)
    assert [NOW, NOW + 1, NOW + 2] == nominals(decision)
    assert NOW + 3 == due(decision)


def test_the_limit_cuts_the_list_and_the_timer_goes_on_there() -> None:
    """The next decision begins where this one ended, so none is lost and none comes twice."""
    first = look(every(1), NOW - 50, NOW, limit=20)
    assert [NOW - 50 + number for number in range(20)] == nominals(first)
    assert TimerState(NOW - 30, fired=20) == first.next
    assert [NOW - 30 + number for number in range(31)] == nominals(look(every(1), NOW - 30, NOW))


def test_a_due_time_that_the_schedule_no_longer_names_counts_once() -> None:
    """The zone's rules may change after a time was stored: that occurrence was promised."""
    assert [NOW - 5, NOW] == nominals(look(cron("0 * * * *"), NOW - 5, NOW))
    late = look(cron("0 * * * *"), NOW - 3 * HOUR - 600, NOW)
    assert [NOW] == nominals(late)
    assert [(NOW - 3 * HOUR - 600, NOW - HOUR, 4, SkipReason.MISFIRE)] == skipped(late)


def test_a_run_is_due_within_its_spread_and_always_at_the_same_moment_of_it() -> None:
    """Jitter and window spread alike; another occurrence, and another job, has another place."""
    places = set()
    for fields in ({"jitter_seconds": 600.0}, {"window_seconds": 600.0}):
        for seed in (b"one", b"two"):
            schedule = every(HOUR, seed=seed, **fields)
            for nominal in (NOW, NOW + HOUR):
                (fire,) = look(schedule, nominal, nominal).fires
                assert nominal <= fire.due < nominal + 600.0
                assert (fire,) == look(schedule, nominal, nominal + 30).fires
                places.add(fire.due - nominal)
    assert 4 == len(places)


@given(seed=st.binary(max_size=16), nominal=st.integers(0, 4 * 10**15), widest=st.floats(0, 86_400))
def test_a_spread_stays_inside_its_window(seed: bytes, nominal: int, widest: float) -> None:
    """From nothing to before the whole."""
    assert 0 <= fraction(seed, nominal / 1e6) < 1
    assert 0 <= spread(every(60, seed=seed, jitter_seconds=widest), nominal / 1e6) <= widest


# ---------------------------------------------------------------------------------------------------- missed


def test_what_is_late_within_the_grace_fires_late() -> None:
    """Nothing is missed before the grace has passed."""
    assert [NOW - 20, NOW - 10, NOW] == nominals(look(every(10), NOW - 20, NOW))


def test_what_is_older_than_the_grace_becomes_one_run_of_the_latest() -> None:
    """Hours away from an hourly job: one run, for the latest hour; one record for the others."""
    decision = look(cron("0 * * * *"), NOW - 4 * HOUR, NOW + 1800, 2)
    assert [NOW] == nominals(decision)
    assert [(NOW - 4 * HOUR, NOW - HOUR, 4, SkipReason.MISFIRE)] == skipped(decision)
    assert "4 h after its time, and the grace is 60 s" in decision.skips[0].sentence
    assert TimerState(NOW + HOUR, fired=1) == decision.next


def test_after_downtime_what_is_within_the_grace_still_fires_one_by_one() -> None:
    """Ten minutes away from a ten-second job: the last minute fires, nine minutes are on record."""
    decision = look(every(10), NOW - 600, NOW)
    assert [NOW - 60 + 10 * number for number in range(7)] == nominals(decision)
    assert [(NOW - 600, NOW - 70, 54, SkipReason.MISFIRE)] == skipped(decision)


def test_a_job_may_skip_what_it_missed() -> None:
    """All of it, with one record; the next time is as ever."""
    decision = look(cron("0 * * * *", misfire=Misfire(mode=MisfireMode.SKIP)), NOW - 4 * HOUR, NOW + 1800)
    assert [] == nominals(decision)
    assert [(NOW - 4 * HOUR, NOW, 5, SkipReason.MISFIRE)] == skipped(decision)
    assert NOW + HOUR == due(decision)


def test_a_job_may_make_up_for_all_up_to_a_limit() -> None:
    """The latest, in order, a second apart, not all jobs at the same moment; the older ones are one record."""
    schedule = cron("0 * * * *", misfire=Misfire(mode=MisfireMode.ALL, max_catchup=3), seed=b"job")
    decision = look(schedule, NOW - 9 * HOUR, NOW + 1800)
    assert [NOW - 2 * HOUR, NOW - HOUR, NOW] == nominals(decision)
    assert all(fire.catchup for fire in decision.fires)
    first, second, third = (fire.due for fire in decision.fires)
    assert NOW + 1800 <= first <= NOW + 1810
    assert [1.0, 1.0] == pytest.approx([second - first, third - second])
    assert [(NOW - 9 * HOUR, NOW - 3 * HOUR, 7, SkipReason.MISFIRE)] == skipped(decision)


def test_making_up_leaves_the_fuse_whole() -> None:
    """A job that may run ten times a minute makes up for what it missed no faster."""
    schedule = cron("0 * * * *", misfire=Misfire(mode=MisfireMode.ALL, max_catchup=20), fuse_per_minute=10)
    decision = look(schedule, NOW - 15 * HOUR, NOW + 1800)
    assert 16 == len(decision.fires)
    assert decision.park is None
    gaps = [later.due - earlier.due for earlier, later in zip(decision.fires, decision.fires[1:], strict=False)]
    assert [6.0] * 15 == pytest.approx(gaps)


def test_a_grace_of_months_does_not_bring_millions_of_late_runs() -> None:
    """A second's job that may be a year late, and was away for one: its last thousand run, the others were missed."""
    schedule = every(1, misfire=Misfire(grace_seconds=366 * DAY))
    pending, runs, missed = TimerState(NOW - 365 * DAY), 0, 0
    for _ in range(100):
        decision = look(schedule, pending, NOW)
        runs += len(decision.fires)
        missed += sum(skip.occurrences for skip in decision.skips)
        assert decision.next is not None
        pending = decision.next
        if pending.due > NOW:
            break
    assert runs <= MAX_LATE + 1
    assert MAX_LATE / 2 <= runs
    assert 365 * 86_400 + 1 == runs + missed


@contextmanager
def counted_calls() -> Iterator[list[int]]:
    """How many functions are called meanwhile."""
    calls = [0]

    def count(frame: object, event: str, argument: object) -> None:
        calls[0] += event == "call"

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("mode", list(MisfireMode))
@pytest.mark.parametrize(
    "make",
    [
        lambda fields: cron("* * * * * *", "America/New_York", **fields),
        lambda fields: cron("*/5 * * * *", "Australia/Lord_Howe", dst=Dst(GapRule.SKIP), **fields),
        lambda fields: cron("0 3 29 2 *", "Europe/Berlin", **fields),
        lambda fields: every(1, **fields),
    ],
)
def test_ten_years_of_downtime_take_no_more_work_than_an_hour(
    make: Callable[[dict[str, Any]], Schedule], mode: MisfireMode
) -> None:
    """Counted in calls, which no busy machine changes: some for each change of the clock, none for each occurrence."""
    schedule = make({"misfire": Misfire(mode=mode, max_catchup=1000)})
    first = next_fire(schedule, NOW - TEN_YEARS)
    assert first is not None
    for instant in range(int(NOW - TEN_YEARS), int(NOW), int(30 * DAY)):
        stretch_at(zone_named(schedule.timezone), instant)  # found once a process, and kept
    with counted_calls() as calls:
        decision = look(schedule, first, NOW, 2)
    assert decision.next is not None
    assert decision.next.due > NOW + 2
    assert calls[0] < (60_000 if mode is MisfireMode.ALL else 6_000)


# ---------------------------------------------------------------------------------------------------- one time


def test_a_one_time_job_runs_however_late() -> None:
    """And never again."""
    for schedule in (once(NOW - TEN_YEARS), Schedule(ScheduleType.IMMEDIATE)):
        decision = look(schedule, NOW - TEN_YEARS, NOW, 2)
        assert Decision((Firing(NOW - TEN_YEARS, NOW - TEN_YEARS),), (), None) == decision


def test_a_one_time_job_may_refuse_to_be_late() -> None:
    """Then it is on record as missed."""
    decision = look(once(NOW - 61, misfire=Misfire(mode=MisfireMode.SKIP)), NOW - 61, NOW)
    assert [(NOW - 61, NOW - 61, 1, SkipReason.MISFIRE)] == skipped(decision)
    assert decision.next is None


def test_a_one_time_job_waits_for_the_end_of_a_window_or_is_skipped() -> None:
    """As the window says."""
    held = look(once(NOW), NOW, NOW, 2, window(NOW - 10, NOW + HOUR, Otherwise.DEFER))
    assert Decision((), (), TimerState(NOW + HOUR, NOW, Hold.MAINTENANCE)) == held
    assert held.next is not None
    freed = look(once(NOW), held.next, NOW + HOUR - 1, 2, window(NOW - 10, NOW + HOUR, Otherwise.DEFER))
    assert Decision((Firing(NOW, NOW + HOUR),), (), None) == freed
    lost = look(once(NOW), NOW, NOW, 2, window(NOW - 10, NOW + HOUR))
    assert [(NOW, NOW, 1, SkipReason.MAINTENANCE)] == skipped(lost)


def test_a_one_time_job_that_is_held_beyond_the_horizon_is_not_fired_ahead() -> None:
    """Its hold ends long before its time: it goes back to its time."""
    decision = look(once(NOW + DAY), TimerState(NOW, NOW + DAY, Hold.PAUSED), NOW, 2)
    assert Decision((), (), TimerState(NOW + DAY)) == decision


# ---------------------------------------------------------------------------------------------------- bounds


def test_a_schedule_ends_after_so_many_runs() -> None:
    """Runs, not occurrences: what was missed does not count."""
    schedule = every(60, max_runs=3, misfire=Misfire(mode=MisfireMode.SKIP))
    missed = look(schedule, NOW - HOUR, NOW + 30, 0)
    assert TimerState(NOW + 60, fired=1) == missed.next
    assert missed.next is not None
    last = look(schedule, missed.next, NOW + 60, 300)
    assert [NOW + 60, NOW + 120] == nominals(last)
    assert last.next is None


def test_making_up_stops_at_the_last_run_and_leaves_nothing_unrecorded() -> None:
    """Two runs are left, twenty were missed: two run, eighteen are on record."""
    schedule = every(HOUR, max_runs=5, misfire=Misfire(mode=MisfireMode.ALL, max_catchup=10))
    decision = look(schedule, TimerState(NOW - 19 * HOUR, fired=3), NOW + 1800)
    assert [NOW - HOUR, NOW] == nominals(decision)
    assert [(NOW - 19 * HOUR, NOW - 2 * HOUR, 18, SkipReason.MISFIRE)] == skipped(decision)
    assert decision.next is None


def test_a_schedule_that_ended_during_a_hold_is_recorded_to_its_end() -> None:
    """And no further."""
    schedule = every(60, end_at=NOW + 130)
    decision = look(schedule, TimerState(NOW + HOUR, NOW, Hold.PAUSED), NOW + HOUR)
    assert [(NOW, NOW + 120, 3, SkipReason.PAUSED)] == skipped(decision)
    assert decision.next is None


def test_the_last_occurrences_of_a_schedule_that_ended_during_downtime_are_made_up_for() -> None:
    """The very last included; then it is over."""
    decision = look(every(60, end_at=NOW), NOW - 300, NOW + HOUR)
    assert [NOW] == nominals(decision)
    assert [(NOW - 300, NOW - 60, 5, SkipReason.MISFIRE)] == skipped(decision)
    assert decision.next is None


# ---------------------------------------------------------------------------------------------------- paused


def test_what_fell_into_a_pause_is_one_record_and_the_schedule_goes_on() -> None:
    """The end of a pause is no occurrence, unless the schedule names it."""
    decision = look(every(60), TimerState(NOW + 601, NOW, Hold.PAUSED, fired=4), NOW + 601, 2)
    assert [(NOW, NOW + 600, 11, SkipReason.PAUSED)] == skipped(decision)
    assert Decision((), decision.skips, TimerState(NOW + 660, fired=4)) == decision
    named = look(every(60), TimerState(NOW + 600, NOW, Hold.PAUSED), NOW + 600, 2)
    assert [NOW + 600] == nominals(named)
    assert [(NOW, NOW + 540, 10, SkipReason.PAUSED)] == skipped(named)


def test_a_pause_in_which_nothing_fell_leaves_nothing() -> None:
    """The next time is the one that it was."""
    assert Decision((), (), TimerState(NOW + HOUR)) == look(
        every(HOUR), TimerState(NOW, NOW + HOUR, Hold.PAUSED), NOW, 2
    )


def test_downtime_at_the_end_of_a_pause_is_downtime() -> None:
    """What fell into the pause was paused; what came after it was missed."""
    decision = look(every(HOUR), TimerState(NOW, NOW - 3 * HOUR, Hold.PAUSED), NOW + 5 * HOUR + 1800)
    assert [
        (NOW - 3 * HOUR, NOW - HOUR, 3, SkipReason.PAUSED),
        (NOW, NOW + 4 * HOUR, 5, SkipReason.MISFIRE),
    ] == skipped(decision)
    assert [NOW + 5 * HOUR] == nominals(decision)


# ---------------------------------------------------------------------------------------------------- closed


def test_a_closed_occurrence_is_skipped_with_what_closed_it() -> None:
    """Each at its time, while they are few."""
    decision = look(every(600), NOW, NOW, 1200, closed((NOW, NOW + 900)))
    assert [NOW + 1200] == nominals(decision)
    assert [(NOW, NOW, 1, SkipReason.CALENDAR), (NOW + 600, NOW + 600, 1, SkipReason.CALENDAR)] == skipped(decision)
    assert "excluded by the calendar quiet" in decision.skips[0].sentence


def test_many_closed_occurrences_are_one_record_at_the_end_of_the_closure() -> None:
    """A second's job through an hour: held back, then one record."""
    rules = closed((NOW, NOW + HOUR))
    held = look(every(1), NOW, NOW, 2, rules)
    assert Decision((), (), TimerState(NOW + HOUR, NOW, Hold.CALENDAR)) == held
    assert held.next is not None
    decision = look(every(1), held.next, NOW + HOUR, 0, rules)
    assert [(NOW, NOW + HOUR - 1, 3600, SkipReason.CALENDAR)] == skipped(decision)
    assert [NOW + HOUR] == nominals(decision)


def test_a_closure_without_an_end_is_looked_at_each_day() -> None:
    """So that the record grows, and a changed calendar counts."""
    rules = ScheduleRules((CalendarRule("none", Calendar(), CalendarMode.INCLUDE, Otherwise.DEFER),))
    held = look(every(60), NOW, NOW, 2, rules)
    assert TimerState(NOW + DAY, NOW, Hold.CALENDAR) == held.next
    assert held.next is not None
    day = look(every(60), held.next, NOW + DAY, 2, rules)
    assert [(NOW, NOW + DAY - 60, 1440, SkipReason.CALENDAR)] == skipped(day)
    assert TimerState(NOW + 2 * DAY, NOW + DAY, Hold.CALENDAR) == day.next


def test_deferred_occurrences_become_one_run_when_all_allow_it() -> None:
    """The latest runs, due when it opens; the others are one record."""
    rules = closed((NOW, NOW + HOUR), otherwise=Otherwise.DEFER)
    held = look(every(600), NOW, NOW, 2, rules)
    assert Decision((), (), TimerState(NOW + HOUR, NOW, Hold.CALENDAR)) == held
    assert held.next is not None
    decision = look(every(600), held.next, NOW + HOUR - 1, 2, rules)
    assert (Firing(NOW + 3000, NOW + HOUR), Firing(NOW + HOUR, NOW + HOUR)) == decision.fires
    assert [(NOW, NOW + 2400, 5, SkipReason.CALENDAR)] == skipped(decision)


def test_a_deferral_is_carried_on_when_something_else_closes_its_end() -> None:
    """A window that was made meanwhile."""
    both = ScheduleRules(
        closed((NOW, NOW + HOUR), otherwise=Otherwise.DEFER).calendars, window(NOW + HOUR - 60, NOW + 2 * HOUR).windows
    )
    decision = look(every(600), TimerState(NOW + HOUR, NOW, Hold.CALENDAR), NOW + HOUR, 2, both)
    assert Decision((), (), TimerState(NOW + 2 * HOUR, NOW, Hold.MAINTENANCE)) == decision


def test_a_deferral_whose_calendar_is_gone_runs_at_once() -> None:
    """The store wakes the timer when a calendar changes."""
    decision = look(every(600), TimerState(NOW + 700, NOW, Hold.CALENDAR), NOW + 700, 2, None)
    assert (Firing(NOW + 600, NOW + 700),) == decision.fires
    assert [(NOW, NOW, 1, SkipReason.CALENDAR)] == skipped(decision)
    assert TimerState(NOW + 1200, fired=1) == decision.next


def test_what_was_deferred_is_not_lost_to_downtime() -> None:
    """It opened while nobody was there: the latest of all that was missed runs."""
    rules = closed((NOW, NOW + HOUR), otherwise=Otherwise.DEFER)
    daily = every(DAY)
    midnight = NOW - 9 * HOUR
    shut = closed((midnight - 60, midnight + HOUR), otherwise=Otherwise.DEFER)
    decision = look(daily, TimerState(midnight + HOUR, midnight, Hold.CALENDAR), NOW, 2, shut)
    assert [midnight] == nominals(decision)
    assert [] == skipped(decision)
    hourly = look(every(600), TimerState(NOW + HOUR, NOW, Hold.CALENDAR), NOW + 2 * HOUR + 300, 2, rules)
    assert [NOW + 2 * HOUR] == nominals(hourly)
    assert [(NOW, NOW + 2 * HOUR - 600, 12, SkipReason.MISFIRE)] == skipped(hourly)


def test_what_was_missed_but_is_deferred_until_later_waits() -> None:
    """The scheduler comes back while it is still closed: the deferral holds, whatever the misfire rule."""
    rules = closed((NOW - HOUR, NOW + HOUR), otherwise=Otherwise.DEFER)
    for mode in MisfireMode:
        schedule = every(HOUR, misfire=Misfire(mode=mode))
        decision = look(schedule, NOW - HOUR, NOW + 1800, 2, rules)
        assert [] == nominals(decision)
        assert TimerState(NOW + HOUR, NOW, Hold.CALENDAR) == decision.next
        assert [NOW - HOUR] == [skip.nominal for skip in decision.skips]


def test_what_waits_on_takes_along_what_is_skipped_after_it() -> None:
    """A window that skips lies over the end of a calendar that defers: each occurrence is still on record once."""
    rules = ScheduleRules(
        closed((NOW - HOUR, NOW + 30), otherwise=Otherwise.DEFER).calendars, window(NOW - 1, NOW + 30).windows
    )
    schedule = every(60, misfire=Misfire(grace_seconds=0))
    held = look(schedule, NOW - 600, NOW + 1, 2, rules)
    assert TimerState(NOW + 30, NOW - 60, Hold.CALENDAR) == held.next
    assert [(NOW - 600, NOW - 120, 9, SkipReason.MISFIRE)] == skipped(held)
    assert held.next is not None
    freed = look(schedule, held.next, NOW + 30, 0, rules)
    assert (Firing(NOW - 60, NOW + 30),) == freed.fires
    assert [(NOW, NOW, 1, SkipReason.MAINTENANCE)] == skipped(freed)


def test_what_is_late_does_not_start_in_a_closed_time() -> None:
    """Its own time was open, but it would begin in a window: it waits for the end of that."""
    rules = window(NOW, NOW + HOUR)
    late = look(every(600), NOW - 10, NOW + 5, 0, rules)
    assert Firing(NOW - 10, NOW + HOUR) == late.fires[0]
    made_up = look(cron("50 * * * *"), NOW - 600, NOW + 600, 0, rules)
    assert (Firing(NOW - 600, NOW + HOUR),) == made_up.fires


def test_a_spread_does_not_lead_into_a_closed_time() -> None:
    """Then it starts at its own time."""
    schedule = every(HOUR, jitter_seconds=1800.0, seed=b"far")
    assert spread(schedule, NOW) > 1
    assert (Firing(NOW, NOW),) == look(schedule, NOW, NOW, 2, window(NOW + 1, NOW + HOUR)).fires


# ---------------------------------------------------------------------------------------------------- the fuse


def test_more_runs_in_a_minute_than_the_fuse_allows_park_the_job() -> None:
    """The one too many is on record; what follows is held back until somebody resumes it."""
    decision = look(every(1, fuse_per_minute=5), NOW, NOW, 30)
    assert [NOW + number for number in range(5)] == nominals(decision)
    assert [(NOW + 5, NOW + 5, 1, SkipReason.FUSE)] == skipped(decision)
    assert TimerState(NEVER, NOW + 6, Hold.PAUSED, fired=5) == decision.next
    assert "more than 5 runs in one minute (fuse_per_minute)" in (decision.park or "")


def test_the_fuse_counts_over_several_decisions() -> None:
    """A minute is longer than a horizon."""
    pending, runs = TimerState(NOW), 0
    for second in range(10):
        decision = look(every(1, fuse_per_minute=5), pending, NOW + second)
        runs += len(decision.fires)
        assert decision.next is not None
        pending = decision.next
        if decision.park is not None:
            break
    assert 5 == runs
    assert (NEVER, NOW + 6) == (pending.due, pending.since)


def test_a_resumed_job_fires_until_its_fuse_blows_anew() -> None:
    """What was held back meanwhile was paused."""
    decision = look(every(1, fuse_per_minute=5), TimerState(NOW + 100, NOW + 6, Hold.PAUSED, fired=5), NOW + 100, 1)
    assert [(NOW + 6, NOW + 99, 94, SkipReason.PAUSED)] == skipped(decision)
    assert [NOW + 100, NOW + 101] == nominals(decision)
    assert decision.park is None
    assert decision.next is not None
    assert (NOW + 100, 2) == (decision.next.minute, decision.next.in_minute)


def test_a_job_that_cannot_blow_its_fuse_is_not_counted() -> None:
    """By default none can: it allows 120, and nothing fires more than once a second."""
    pending = TimerState(NOW)
    for second in range(0, 300, 3):
        decision = look(cron("* * * * * *"), pending, NOW + second, 3)
        assert decision.park is None
        assert decision.next is not None
        assert decision.next.minute is None
        pending = decision.next


# ---------------------------------------------------------------------------------------------------- clock changes

CHANGE = at("2026-03-08 07:00").timestamp()
NEW_YORK = "America/New_York"


def test_a_time_that_the_clock_skipped_is_on_record_once() -> None:
    """With the occurrence after it, whoever decides that, and in however many steps."""
    schedule = cron("30 2 * * *", NEW_YORK, dst=Dst(GapRule.SKIP), planned_at=CHANGE - 5 * DAY)
    before = CHANGE - DAY + 1800
    pending: TimerState | None = TimerState(before)
    found: list[Skip] = []
    for day in range(5):
        assert pending is not None
        decision = look(schedule, pending, before + day * DAY, 2)
        found += decision.skips
        pending = decision.next
    assert [(CHANGE, CHANGE, 1, SkipReason.DST)] == [(s.nominal, s.until, s.occurrences, s.reason) for s in found]
    assert "02:30 does not exist" in found[0].sentence


def test_a_time_that_the_clock_skipped_is_on_record_through_downtime_and_pauses() -> None:
    """In addition to what was missed, or paused."""
    schedule = cron("30 2 * * *", NEW_YORK, dst=Dst(GapRule.SKIP))
    missed = look(schedule, CHANGE - DAY + 1800, CHANGE + 4 * DAY)
    assert (CHANGE, CHANGE, 1, SkipReason.DST) in skipped(missed)
    paused = look(schedule, TimerState(CHANGE + 4 * DAY, CHANGE - DAY + 1800, Hold.PAUSED), CHANGE + 4 * DAY)
    assert (CHANGE, CHANGE, 1, SkipReason.DST) in skipped(paused)


def test_what_the_clock_skipped_before_a_job_was_planned_is_not_its_loss() -> None:
    """It is made after the change, and its first occurrence comes a day later."""
    schedule = cron("30 2 * * *", NEW_YORK, dst=Dst(GapRule.SKIP), planned_at=CHANGE + 60)
    first = next_fire(schedule, CHANGE + 60)
    assert first is not None
    assert [] == skipped(look(schedule, first, first))


def test_a_line_that_runs_what_was_skipped_has_no_such_record() -> None:
    """By Debian's rule a fixed time runs right after the change."""
    decision = look(cron("30 2 * * *", NEW_YORK), CHANGE, CHANGE)
    assert [CHANGE] == nominals(decision)
    assert [] == skipped(decision)


def test_nothing_is_infinite_but_a_pause_without_an_end() -> None:
    """What stores have to keep is finite in all other cases."""
    decision = look(every(1, fuse_per_minute=1), NOW, NOW, 30)
    assert decision.next is not None
    assert math.isinf(decision.next.due)
    assert decision.next.since is not None
    assert math.isfinite(decision.next.since)
