"""Never early, never twice, never silent: whatever the schedule, the rules, the downtime and the pauses."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from dataclasses import replace as changed

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.slow_cron import at
from tickwise.domain.calendar.rules import (
    Calendar,
    CalendarMode,
    CalendarRule,
    Closed,
    Otherwise,
    Period,
    ScheduleRules,
    Window,
)
from tickwise.domain.decision import NEVER, Decision, Hold, SkipReason, TimerState, decide, spread
from tickwise.domain.job_fields import FUSE_PER_MINUTE
from tickwise.domain.model import run_id, time_id
from tickwise.domain.schedule import (
    Misfire,
    MisfireMode,
    Schedule,
    ScheduleType,
    fires_between,
    next_fire,
)
from tickwise.domain.zones import Dst, GapRule, RepeatRule

CHANGES = [
    at(text).timestamp() for text in ("2026-03-08 06:00", "2026-11-01 05:00", "2026-10-03 14:00", "2026-06-10 09:00")
]
"""An hour or two before clocks change in New York, twice, and on Lord Howe; and a day like any other."""
JOB = time_id(1_790_000_000_000, bytes(range(10)))

# ------------------------------------------------------------------------------------------------- what is drawn

zones = st.sampled_from(["UTC", "America/New_York", "Australia/Lord_Howe"])
changes_of_clocks = st.builds(Dst, st.sampled_from([None, *GapRule]), st.sampled_from([None, *RepeatRule]))
misfires = st.builds(
    Misfire,
    st.sampled_from([0.0, 1.0, 60.0, 900.0, 7200.0]),
    st.sampled_from(list(MisfireMode)),
    st.sampled_from([1, 3, 10, 40]),
)
spreads = st.sampled_from([(0.0, 0.0), (0.0, 0.0), (90.0, 0.0), (0.0, 1800.0)])


@st.composite
def schedules(draw: st.DrawFn) -> tuple[Schedule, float]:
    """A recurring schedule and when its job is made."""
    start = draw(st.sampled_from(CHANGES)) + draw(st.integers(0, 7200 * 10**6)) / 1e6
    jitter, window = draw(spreads)
    bounds = draw(st.sampled_from([(None, None), (None, None), (1800.0, None), (None, 20_000.0), (600.0, 90_000.0)]))
    schedule = Schedule(
        ScheduleType.INTERVAL,
        misfire=draw(misfires),
        start_at=None if bounds[0] is None else start + bounds[0],
        end_at=None if bounds[1] is None else start + bounds[1],
        max_runs=draw(st.sampled_from([None, None, 1, 5, 40])),
        jitter_seconds=jitter,
        window_seconds=window,
        fuse_per_minute=draw(st.sampled_from([FUSE_PER_MINUTE, FUSE_PER_MINUTE, 1, 5, 30])),
        seed=JOB.bytes,
        planned_at=start,
    )
    if draw(st.booleans()):
        seconds = draw(st.sampled_from([1.0, 7.3, 60.0, 600.0, 86_400.0]))
        return changed(schedule, interval_seconds=seconds, anchor=draw(st.sampled_from([None, start, 0.5]))), start
    line = draw(
        st.sampled_from(
            ["* * * * *", "*/10 * * * *", "30 1,2 * * *", "0 */2 * * *", "*/20 * * * * *", "H H/3 * * *", "15 2 * * *"]
        )
    )
    zone, dst = draw(zones), draw(changes_of_clocks)
    return changed(schedule, type=ScheduleType.CRON, cron_expression=line, timezone=zone, dst=dst), start


@st.composite
def closures(draw: st.DrawFn, start: float) -> ScheduleRules:
    """Up to two calendars and a window, each of a few stretches within two days."""

    def stretches() -> Calendar:
        begins = draw(st.lists(st.integers(-10, 60), min_size=1, max_size=4))
        lengths = [draw(st.sampled_from([30.0, 600.0, 5000.0, 40_000.0])) for _ in begins]
        return Calendar(
            entries=tuple(
                Period(start + begin * 600.0, start + begin * 600.0 + length)
                for begin, length in zip(begins, lengths, strict=True)
            )
        )

    whats = st.sampled_from(list(Otherwise))
    rules = [
        CalendarRule("holidays", stretches(), CalendarMode.EXCLUDE, draw(whats)) for _ in range(draw(st.integers(1, 2)))
    ]
    if draw(st.integers(0, 5)) == 0:
        rules.append(CalendarRule("hours", stretches(), CalendarMode.INCLUDE, draw(whats)))
    windows = [Window("upgrade", stretches(), action=draw(whats)) for _ in range(draw(st.integers(0, 1)))]
    return ScheduleRules(tuple(rules), tuple(windows))


steps = st.one_of(
    st.tuples(st.just("wait"), st.floats(0, 5)),
    st.tuples(st.just("wait"), st.floats(0, 700)),
    st.tuples(st.just("wait"), st.floats(0, 9_000)),
    st.tuples(st.just("wait"), st.floats(1_000, 60_000)),
    st.tuples(st.just("pause"), st.floats(1, 9000)),
    st.tuples(st.just("pause"), st.just(NEVER)),
    st.tuples(st.just("resume"), st.just(0.0)),
    st.tuples(st.just("rules"), st.just(0.0)),
    st.tuples(st.just("zone"), st.sampled_from([-1800.0, 1800.0, 3600.0])),
)


# -------------------------------------------------------------------------------------------- a life of one timer


@dataclass
class Life:
    """One timer, decided again and again while time goes on; and all that was put on record."""

    schedule: Schedule
    now: float
    timer: TimerState | None
    rules: ScheduleRules | None
    decisions: list[tuple[float, Decision]] = field(default_factory=list)
    promised: list[float] = field(default_factory=list)
    """What the schedule named before its timer was moved."""
    since: float = 0.0
    """From here on the schedule is enumerated; the timer stood here, so it counts."""

    def decide(self, horizon: float, limit: int) -> None:
        """Until nothing is due."""
        for _ in range(3000):
            if self.timer is None or self.timer.due > self.now + horizon:
                return
            until = self.now + horizon
            # Rules that close nothing are none: the few steps of ordinary decisions say what all of them would.
            fresh = ScheduleRules() if self.rules is None else ScheduleRules(self.rules.calendars, self.rules.windows)
            decision, again = (
                decide(self.schedule, self.timer, now=self.now, until=until, rules=rules, limit=limit)
                for rules in (self.rules, fresh)
            )
            assert again == decision, "it is no pure function"
            self.check(self.timer, decision, horizon)
            self.decisions.append((self.now, decision))
            self.timer = decision.next
        raise AssertionError("it does not come to an end")

    def check(self, timer: TimerState, decision: Decision, horizon: float) -> None:
        """What each single decision promises."""
        schedule, misfire = self.schedule, self.schedule.misfire
        nominals = [fire.nominal for fire in decision.fires]
        assert nominals == sorted(set(nominals)), "twice, or out of order"
        late = [fire for fire in decision.fires if fire.nominal < self.now - misfire.grace_seconds]
        deferred = 1 if timer.hold in (Hold.CALENDAR, Hold.MAINTENANCE) else 0
        most = {MisfireMode.SKIP: 0, MisfireMode.LATEST: 1, MisfireMode.ALL: misfire.max_catchup}[misfire.mode]
        if self.rules is None:
            assert len(late) <= most + deferred, "more was made up for than allowed"
        for fire in decision.fires:
            assert fire.nominal <= self.now + horizon
            assert fire.due >= fire.nominal, "early"
            assert not isinstance(self.verdict(max(fire.due, self.now)), Closed), "it starts in a closed time"
            verdict = self.verdict(fire.nominal)
            assert not isinstance(verdict, Closed) or verdict.otherwise is Otherwise.DEFER, "it should be skipped"
            if self.rules is None and timer.hold is None and fire.nominal >= self.now - min(misfire.grace_seconds, 900):
                assert fire.due == fire.nominal + spread(schedule, fire.nominal)
        if decision.next is not None:
            assert decision.next != timer, "it does not move"
            assert decision.next.fired == timer.fired + len(decision.fires)

    def verdict(self, instant: float) -> object:
        """Of the rules as they are."""
        return None if self.rules is None else self.rules.verdict(instant)

    def first_open(self) -> float:
        """Everything before it is on record."""
        if self.timer is None:
            return math.inf
        return self.timer.due if self.timer.since is None else self.timer.since

    def move(self, kind: str, seconds: float, rules: ScheduleRules | None) -> None:
        """What happens between two decisions, as the store and control do it."""
        timer = self.timer
        if kind == "wait":
            self.now += seconds
        elif timer is None:
            return
        elif kind == "pause":
            since = self.first_open()
            self.timer = timer._replace(due=self.now + seconds, since=since, hold=Hold.PAUSED)
        elif kind == "resume" and timer.hold is Hold.PAUSED:
            self.timer = timer._replace(due=self.now, minute=None, in_minute=0)
        elif kind == "rules":
            self.rules = rules
            if timer.hold in (Hold.CALENDAR, Hold.MAINTENANCE):
                self.timer = timer._replace(due=self.now)
        elif kind == "zone" and timer.hold is None and timer.due > self.now:
            # The stored time is another one by the new data of its zone, and no longer what the schedule names.
            self.promised += self.named(timer.due - 0.01)
            self.since = max([self.now, timer.due + seconds, *(last + 0.25 for last in self.promised[-1:])])
            self.timer = timer._replace(due=self.since)

    def named(self, until: float) -> list[float]:
        """By the schedule alone, one after the other."""
        if until < self.since:
            return []
        return [self.since, *fires_between(self.schedule, self.since, until, 1_000_000)]

    def everything(self) -> list[float]:
        """Every occurrence up to where the timer stands."""
        records = [fire.nominal for _, decision in self.decisions for fire in decision.fires]
        records += [skip.until for _, decision in self.decisions for skip in decision.skips]
        last = max(records, default=-math.inf) if self.timer is None else self.first_open() - 0.01
        return self.promised + self.named(last)


@given(data=st.data(), drawn=schedules(), horizon=st.sampled_from([0.5, 3.0, 60.0]), limit=st.sampled_from([1, 7, 100]))
@settings(max_examples=250)
def test_every_occurrence_is_on_record_exactly_once(
    data: st.DataObject, drawn: tuple[Schedule, float], horizon: float, limit: int
) -> None:
    """As a run or in one skip, ranges counted; in any order of downtime, pauses, changed rules and moved timers."""
    schedule, start = drawn
    first = next_fire(schedule, start)
    if first is None:
        return
    rules = st.one_of(closures(start), closures(start), closures(start), st.none())
    life = Life(schedule, start, TimerState(first), data.draw(rules), since=first)
    for kind, seconds in data.draw(st.lists(steps, min_size=2, max_size=8)):
        life.move(kind, seconds, data.draw(rules) if kind == "rules" else None)
        life.decide(horizon, limit)
    fires = [fire for _, decision in life.decisions for fire in decision.fires]
    skips = [skip for _, decision in life.decisions for skip in decision.skips if skip.reason is not SkipReason.DST]
    everything = life.everything()
    on_record: list[float] = [fire.nominal for fire in fires]
    for skip in skips:
        inside = [nominal for nominal in everything if skip.nominal <= nominal <= skip.until]
        assert len(inside) == skip.occurrences, f"{skip} stands for {inside[:9]}"
        on_record += inside
    assert sorted(on_record) == everything
    assert len(fires) <= (schedule.max_runs or math.inf)
    names = [run_id(JOB, fire.nominal) for fire in fires] + [run_id(JOB, skip.nominal) for skip in skips]
    assert len(set(names)) == len(names)
    if life.timer is None and schedule.max_runs is None:
        assert next_fire(schedule, everything[-1]) is None, "it fell silent"
