"""The decision on a due timer: which occurrences run, which are skipped and why, and when the timer is due next.

        a timer ──┬─ held back? ── what fell into the hold goes on record, or becomes one run
           ▲      ├─ missed?    ── the misfire rule: skip, the latest, or all up to a limit
           │      ├─ closed?    ── calendars and windows: skip, or hold until they open
           │      └─ else       ── a run
           └──────── the next, until it lies ahead ──────────────────► Decision(fires, skips, next)

Pure: the same timer, seen at the same time under the same rules, always comes to the same. So two schedulers that
decide one timer decide alike, and the names of the runs make twice once.

Invariants: each occurrence from the timer's first one that is not on record to before that of `next` is in exactly one
of `fires` and `skips`; no run is due before its nominal time, nor in a closed time; `next` is due after `until`,
unless `limit` cut the list, which then goes on right there. The work does not grow with the time that was missed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from itertools import groupby
from typing import Final, NamedTuple

from tickwise.domain.calendar.rules import Closed, ClosedReason, Otherwise, ScheduleRules
from tickwise.domain.schedule import (
    MisfireMode,
    Schedule,
    clock_skips,
    count_between,
    first_fire,
    last_before,
    latest_fire,
    loses_times,
    most_per_minute,
    next_fire,
)

CATCHUP_SPREAD_SECONDS: Final = 10.0
"""After downtime, what each job makes up for is spread over a sixtieth of it, and over no more than this."""
CATCHUP_SPREAD_SHARE: Final = 60
CATCHUP_GAP_SECONDS: Final = 1.0
"""Between two runs that a job makes up for; longer where its fuse allows fewer in a minute."""
MAX_LATE: Final = 1_000
"""The most occurrences that run late within the grace, which may be a year; older ones count as missed."""
MAX_SINGLY: Final = 60
"""The most skipped occurrences of one closure that are recorded each at its time; of more there is one record, at its
end."""
OPENING_UNKNOWN_SECONDS: Final = 86_400.0
"""The period at which a closure without a known end is checked again; each look leaves a record."""
MAX_LOOK_BACK: Final = 64
"""The most closed occurrences that are passed over in search of the latest that may still run."""
MINUTE_SECONDS: Final = 60.0
PAUSED_SENTENCE: Final = "the job was paused"
MERGED: Final = "deferred together with a later one, which runs for both"


class SkipReason(StrEnum):
    """The reason that an occurrence did not run. Kept for ever in records and in programs of users: never renamed."""

    OVERLAP = "overlap"
    MISFIRE = "misfire"
    PAUSED = "paused"
    CALENDAR = "calendar"
    MAINTENANCE = "maintenance"
    DST = "dst"
    FUSE = "fuse"
    REQUESTED = "requested"
    """A person asked to skip just this one."""
    QUOTA = "quota"
    """The namespace had used up its runs of the day."""
    STOPPED = "stopped"
    """A person stopped the job, its labels, its queue or its namespace for a time."""
    EXPIRED = "expired"
    """No executor could start it within the job's `start_deadline_seconds`."""


class Overlap(StrEnum):
    """The policy for an occurrence whose time comes while an earlier run of its job is unfinished."""

    SKIP = "skip"
    QUEUE_ONE = "queue_one"
    """It waits, unless another one waits already."""
    QUEUE_ALL = "queue_all"
    CANCEL_RUNNING = "cancel_running"
    """The earlier one is cancelled; it starts when that has ended."""
    ALLOW = "allow"


class Hold(StrEnum):
    """The reason that a timer's occurrences are held back. Its `due` is then a time to wake up, and no occurrence."""

    PAUSED = "paused"
    CALENDAR = "calendar"
    MAINTENANCE = "maintenance"
    """A maintenance window, or a stop: programs of the release before know no other value."""


NEVER: Final = math.inf
"""The `due` of a timer that is held back without an end."""


class TimerState(NamedTuple):
    """A timer: where a schedule stands."""

    due: float
    """The nominal time of the next occurrence that is not on record; with a `hold`, when to look again."""
    since: float | None = None
    """With a `hold`: the nominal time of the first occurrence that is not on record."""
    hold: Hold | None = None
    fired: int = 0
    """Runs that this schedule has made."""
    minute: float | None = None
    in_minute: int = 0
    """Of a schedule that could blow its fuse: since when its runs are counted, and how many there were."""

    @property
    def first_open(self) -> float:
        """The nominal time of the first occurrence that is not on record."""
        return self.due if self.hold is None or self.since is None else self.since


class Firing(NamedTuple):
    """One occurrence that runs."""

    nominal: float
    due: float
    """The time at which it should start: the nominal time, or later (jitter, deferral, making up for it)."""
    catchup: bool = False
    """It was missed, and is one of several that are made up for."""


class Skip(NamedTuple):
    """Occurrences that do not run: one, or a range of them."""

    nominal: float
    """Of the first."""
    until: float
    """Nominal time of the last."""
    occurrences: int
    reason: SkipReason
    sentence: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on a due timer."""

    fires: tuple[Firing, ...]
    """Ascending by nominal time."""
    skips: tuple[Skip, ...]
    next: TimerState | None
    """The next time of the timer; None: never again."""
    park: str | None = None
    """The fuse blew: the job is to be paused, for this reason."""


def decide(
    schedule: Schedule,
    timer: TimerState,
    *,
    now: float,
    until: float,
    rules: ScheduleRules | None = None,
    limit: int = 100,
) -> Decision:
    """Decide on `timer`, seen at `now` by a scheduler that plans ahead up to `until`.

    `timer.due` counts as an occurrence even if the schedule no longer names it (the zone's rules may have changed
    since it was stored). At most `limit` occurrences are decided one by one; what is made up for is on top of that.
    """
    until = max(until, now)
    if timer.due > until:
        return Decision((), (), timer)
    if rules is None and timer.hold is None and schedule.is_simple():
        usual = _one_in_time(schedule, timer, now, until)
        if usual is not None:
            return usual
    deciding = _Deciding(schedule, timer, now, until, rules)
    return deciding.recurring(limit) if schedule.recurs else deciding.once()


def _one_in_time(schedule: Schedule, timer: TimerState, now: float, until: float) -> Decision | None:
    """Nearly all decisions in a few steps: one occurrence in time, of a simple schedule, that nothing closes. None:
    there is more to it. It says what `_Deciding` would say."""
    nominal = timer.due
    if nominal < now - schedule.misfire.grace_seconds or now - nominal > MAX_LATE:
        return None
    following = next_fire(schedule, nominal)
    if following is None or following <= until:
        return None
    firing = Firing(nominal, nominal + spread(schedule, nominal))
    return Decision((firing,), (), TimerState(following, None, None, timer.fired + 1))


def spread(schedule: Schedule, nominal: float) -> float:
    """The delay after `nominal` at which a run of this occurrence is due: a stable part of jitter or window, in
    seconds."""
    widest = schedule.jitter_seconds or schedule.window_seconds
    # Cut, not rounded: rounding up could leave the window.
    return math.floor(fraction(schedule.seed, nominal) * widest * 1e6) / 1e6 if widest else 0.0


def fraction(seed: bytes, nominal: float) -> float:
    """From 0 to below 1, and the same each time it is asked."""
    named = seed + round(nominal * 1_000_000).to_bytes(8, "big", signed=True)
    return int.from_bytes(blake2b(named, digest_size=6, person=b"jitter").digest(), "big") / 2**48


@dataclass(slots=True)
class _Deciding:
    """One decision in the making. Each step takes the timer from where it stands to where it stands then."""

    schedule: Schedule
    timer: TimerState
    now: float
    until: float
    rules: ScheduleRules | None
    fires: list[Firing] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    park: str | None = None
    _fresh: float = 0.0
    """Occurrences older than this were missed."""
    _minute: float | None = None
    _in_minute: int = 0
    _watched: bool = False

    def __post_init__(self) -> None:
        self._watched = self.schedule.recurs and most_per_minute(self.schedule) > self.schedule.fuse_per_minute
        self._minute, self._in_minute = self.timer.minute, self.timer.in_minute
        self._fresh = self.now - self.schedule.misfire.grace_seconds

    # ------------------------------------------------------------------------------------------- one time

    def once(self) -> Decision:
        """The only occurrence of a schedule that does not recur."""
        nominal, held = self.timer.first_open, self.timer.hold is not None
        start = max(nominal, self.timer.due) if held else nominal
        if self.timer.hold is Hold.PAUSED and nominal < self.timer.due:
            self._skip(nominal, SkipReason.PAUSED, PAUSED_SENTENCE)
            return self._decision(None)
        closed = self._closed(nominal)
        if closed is not None and (closed.otherwise is Otherwise.SKIP or closed.opens is None):
            self._skip(nominal, SkipReason(closed.reason), closed.sentence)
            return self._decision(None)
        if closed is not None and closed.opens is not None:
            start = closed.opens
        if start > self.until:
            hold = None if closed is None else _hold_for(closed)
            return self._decision(TimerState(start, nominal, hold) if hold else TimerState(nominal))
        if self.schedule.misfire.mode is MisfireMode.SKIP and start < self._fresh:
            self._skip(nominal, SkipReason.MISFIRE, self._missed_by(start))
        else:
            self._fire(nominal, not_before=start)
        return self._decision(None)

    # ------------------------------------------------------------------------------------------- recurring

    def recurring(self, limit: int) -> Decision:
        """From where the timer stands to beyond `until`."""
        at: TimerState | None = self.timer
        self._bound_the_late(self.timer.first_open)
        for _ in range(max(limit, 1)):
            if at is None or at.due > self.until or self.park is not None or self._runs_left() <= 0:
                break
            if at.hold is not None:
                at = self._open_hold(at)
            elif at.due < self._fresh:
                at = self._make_up(at.due)
            else:
                at = self._decide_one(at.due)
        self._record_clock_skips()
        return self._decision(at if self._runs_left() > 0 else None)

    def _decide_one(self, nominal: float) -> TimerState | None:
        """An occurrence that was not missed."""
        closed = self._closed(nominal)
        if closed is None:
            self._fire(nominal)
            return self._after(nominal)
        reason = SkipReason(closed.reason)
        if closed.otherwise is Otherwise.DEFER and closed.opens is not None:
            return TimerState(closed.opens, nominal, _hold_for(closed))
        wake = min(closed.until, nominal + OPENING_UNKNOWN_SECONDS)
        if count_between(self.schedule, nominal, wake) > MAX_SINGLY:
            return TimerState(wake, nominal, _hold_for(closed))
        self._skip(nominal, reason, closed.sentence)
        return self._after(nominal)

    def _decision(self, following: TimerState | None) -> Decision:
        park = self.park
        if following is None:
            park = None  # nothing is left to hold back
        else:
            minute, in_minute = (self._minute, self._in_minute) if self._watched and park is None else (None, 0)
            due, since, hold = following.due, following.since, following.hold
            if park is not None:
                due, since, hold = NEVER, following.first_open, Hold.PAUSED
            following = TimerState(due, since, hold, self.timer.fired + len(self.fires), minute, in_minute)
        if len(self.skips) > 1:
            self.skips.sort(key=lambda skip: skip.nominal)
        return Decision(tuple(self.fires), tuple(self.skips), following, park)

    def _after(self, nominal: float) -> TimerState | None:
        following = next_fire(self.schedule, nominal)
        return None if following is None else TimerState(following)

    def _from(self, instant: float) -> TimerState | None:
        following = first_fire(self.schedule, instant)
        return None if following is None else TimerState(following)

    def _runs_left(self) -> float:
        most = self.schedule.max_runs
        return math.inf if most is None else most - self.timer.fired - len(self.fires)

    # ------------------------------------------------------------------------------------------- what was held back

    def _open_hold(self, held: TimerState) -> TimerState | None:
        """Skip the occurrences that fell into a hold, or make one run of them; or hold on, if a rule still closes.

        No rule may close any more the first occurrence of a hold that was to be skipped. Then the hold counts as
        deferred: a run too many, at a time that is allowed, does less harm than a run too few.
        """
        since, woken = held.first_open, held.due
        if since >= woken:
            return TimerState(since)
        if held.hold is Hold.PAUSED:
            self._skip_range(since, woken, SkipReason.PAUSED, PAUSED_SENTENCE)
            return self._from(woken)
        was = self._closed(since)
        if was is not None and (was.otherwise is Otherwise.SKIP or was.opens is None):
            self._skip_range(since, woken, SkipReason(was.reason), was.sentence)
            return self._from(woken)
        still = self._closed(woken)
        if still is not None and still.opens is not None:
            return TimerState(still.opens, since, _hold_for(still))
        if still is not None:
            self._skip_range(since, woken, SkipReason(still.reason), still.sentence)
            return self._from(woken)
        if woken < self._fresh:
            return self._make_up(since)
        self._run_deferred(since, woken, SkipReason(was.reason if was is not None else held.hold or Hold.CALENDAR))
        return self._from(woken)

    def _run_deferred(self, since: float, opens: float, reason: SkipReason) -> None:
        """The latest of those that waited runs for all; what a rule that skips closed meanwhile is skipped."""
        later: list[_Seen] = []
        newest, at = since, self._previous(opens, since)
        while at is not None and at > since and len(later) < MAX_LOOK_BACK:
            closed = self._closed(at)
            if closed is None or closed.otherwise is Otherwise.DEFER:
                newest = at
                break
            later.append(_Seen(at, SkipReason(closed.reason), closed.sentence))
            at = self._previous(at, since)
        self._skip_range(since, newest, reason, MERGED)
        self._fire(newest, not_before=opens)
        between = next_fire(self.schedule, newest)
        oldest = later[-1].nominal if later else opens
        if between is not None and between < oldest:
            self._skip_range(between, oldest, reason, MERGED)
        self._skip_each(later)

    # ------------------------------------------------------------------------------------------- what was missed

    def _bound_the_late(self, first: float) -> None:
        """A long grace does not make downtime costly: no more than `MAX_LATE` run late one by one."""
        if self.now - max(self._fresh, first) <= MAX_LATE:
            return  # nothing fires more often than once a second
        for _ in range(8):
            count = count_between(self.schedule, max(self._fresh, first), self.now)
            if count <= MAX_LATE:
                return
            start = max(self._fresh, first)
            self._fresh = self.now - (self.now - start) * (MAX_LATE / count)

    def _make_up(self, first: float) -> TimerState | None:
        """Apply the misfire rule to what is older than the grace; what it leaves."""
        schedule, mode = self.schedule, self.schedule.misfire.mode
        newest = max(first, latest_fire(schedule, self.now) or first)
        in_time = first_fire(schedule, self._fresh) if newest >= self._fresh else None
        if mode is MisfireMode.ALL:
            most = schedule.misfire.max_catchup
        else:
            # An occurrence in time is later than every missed one, so it is the latest.
            most = 1 if mode is MisfireMode.LATEST and in_time is None else 0
        following = next_fire(schedule, newest) if in_time is None else in_time
        # Nothing fires twice within a second, so where nothing follows this holds the newest and no other.
        end = newest + 1.0 if following is None else following
        held = self._catch_up(first, end, int(min(most, self._runs_left())))
        if held is not None:
            return held
        return None if following is None else TimerState(following)

    def _catch_up(self, first: float, end: float, most: int) -> TimerState | None:
        """Fire the latest `most` of the missed occurrences from `first` to before `end` that may run. A timer: the last
        ones were deferred to a time that lies ahead, and wait for it."""
        chosen: list[float] = []
        seen: list[_Seen] = []
        openings: set[float] = set()
        held: TimerState | None = None
        waiting, oldest, at = True, end, self._previous(end, first)
        while at is not None and (waiting or len(chosen) < most) and len(seen) - len(chosen) < MAX_LOOK_BACK:
            closed = self._closed(at)
            opens = None if closed is None else closed.opens
            if closed is not None and (closed.otherwise is Otherwise.SKIP or opens is None):
                seen.append(_Seen(at, SkipReason(closed.reason), closed.sentence))
            elif closed is not None and opens in openings:
                seen.append(_Seen(at, SkipReason(closed.reason), MERGED))
            elif closed is not None and opens is not None and opens > self.now:
                held, most, waiting = TimerState(opens, at, _hold_for(closed)), most - 1, False
                openings.add(opens)
                seen.clear()  # they are held with it, though only to be skipped
            elif len(chosen) >= most:
                break
            else:
                chosen.append(at)
                seen.append(_Seen(at))
                openings.add(at if opens is None else opens)
                waiting = False
            oldest, at = at, self._previous(at, first)
        self._skip_range(first, oldest, SkipReason.MISFIRE, self._missed_by(first))
        self._skip_each(seen)
        self._run_missed(first, chosen[::-1])
        return held

    def _run_missed(self, first: float, nominals: list[float]) -> None:
        """In order, with a gap between, and jobs that missed the same time apart from each other."""
        schedule = self.schedule
        share = min(CATCHUP_SPREAD_SECONDS, (self.now - first) / CATCHUP_SPREAD_SHARE)
        share = max(share, schedule.jitter_seconds or schedule.window_seconds)
        start = self.now + share * fraction(schedule.seed, first)
        gap = max(CATCHUP_GAP_SECONDS, MINUTE_SECONDS / schedule.fuse_per_minute)
        for number, nominal in enumerate(nominals):
            self._start(Firing(nominal, round(start + number * gap, 6), catchup=len(nominals) > 1), self.now)

    def _missed_by(self, instant: float) -> str:
        return (
            f"no scheduler could fire it until {_length(self.now - instant)} after its time, "
            f"and the grace is {_length(self.schedule.misfire.grace_seconds)}"
        )

    # ------------------------------------------------------------------------------------------- putting it down

    def _closed(self, instant: float) -> Closed | None:
        verdict = None if self.rules is None else self.rules.verdict(instant)
        return verdict if isinstance(verdict, Closed) else None

    def _previous(self, instant: float, first: float) -> float | None:
        """The occurrence before `instant`, from `first` on, which counts as one."""
        if instant <= first:
            return None
        found = last_before(self.schedule, instant)
        return first if found is None else max(first, found)

    def _fire(self, nominal: float, *, not_before: float = -math.inf) -> None:
        if self._blows_fuse(nominal):
            self._skip(nominal, SkipReason.FUSE, self.park or "")
            return
        earliest = max(nominal, not_before)
        self._start(Firing(nominal, earliest + spread(self.schedule, nominal)), earliest)

    def _start(self, firing: Firing, earliest: float) -> None:
        """A run starts in no closed time, though its nominal time was none: it is late, or its spread led there."""
        if self.rules is None:
            self.fires.append(firing)
            return
        for due in (firing.due, earliest):
            closed = self._closed(max(due, self.now))
            if closed is None:
                self.fires.append(firing._replace(due=due))
                return
            opens, reason, sentence = closed.opens, SkipReason(closed.reason), closed.sentence
        if opens is None:
            self._skip(firing.nominal, reason, sentence)
        else:
            self.fires.append(firing._replace(due=opens))

    def _blows_fuse(self, nominal: float) -> bool:
        """Count it. (What is made up for is not counted: it is bounded, and spread so that the fuse holds.)"""
        if not self._watched:
            return False
        if self._minute is None or not self._minute <= nominal < self._minute + MINUTE_SECONDS:
            self._minute, self._in_minute = nominal, 0
        self._in_minute += 1
        fuse = self.schedule.fuse_per_minute
        if self._in_minute > fuse:
            self.park = f"its schedule made more than {fuse} runs in one minute (fuse_per_minute)"
        return self.park is not None

    def _skip(self, nominal: float, reason: SkipReason, sentence: str) -> None:
        self.skips.append(Skip(nominal, nominal, 1, reason, sentence))

    def _skip_each(self, seen: list[_Seen]) -> None:
        """Records for those looked at one by one, the latest first: one for each stretch that is alike."""
        for (reason, sentence), stretch in groupby(reversed(seen), key=lambda each: (each.reason, each.sentence)):
            nominals = [each.nominal for each in stretch]
            if reason is not None:
                self.skips.append(Skip(nominals[0], nominals[-1], len(nominals), reason, sentence))

    def _skip_range(self, start: float, end: float, reason: SkipReason, sentence: str) -> None:
        """One record for the occurrences from `start`, which counts as an occurrence, to before `end`."""
        if start >= end:
            return
        last, following = last_before(self.schedule, end), next_fire(self.schedule, start)
        count = 1 if following is None else 1 + count_between(self.schedule, following, end)
        self.skips.append(Skip(start, start if last is None else max(start, last), count, reason, sentence))

    def _record_clock_skips(self) -> None:
        """Times that the clock skipped, and the schedule with it: those since the occurrence before the first that was
        decided now, up to the last, so that the decision before and the one after have none of them."""
        if not loses_times(self.schedule):
            return
        last = max([fire.nominal for fire in self.fires] + [skip.until for skip in self.skips], default=None)
        if last is None:
            return
        for gap in clock_skips(self.schedule, self.timer.first_open, last):
            instant = float(gap.instant)
            self.skips.append(Skip(instant, instant, gap.count, SkipReason.DST, gap.sentence()))


def _hold_for(closed: Closed) -> Hold:
    """The hold of a timer whose occurrences a closure holds back."""
    return Hold.CALENDAR if closed.reason is ClosedReason.CALENDAR else Hold.MAINTENANCE


class _Seen(NamedTuple):
    """An occurrence that was looked at by itself."""

    nominal: float
    reason: SkipReason | None = None
    """The reason of the skip; None: it runs."""
    sentence: str = ""


def _length(seconds: float) -> str:
    """A length of time for people: 45 s, 12 min, 3 h, 9 days."""
    for size, unit in ((172_800.0, "days"), (7_200.0, "h"), (120.0, "min")):
        if seconds >= size:
            return f"{seconds / {'days': 86_400.0, 'h': 3_600.0, 'min': 60.0}[unit]:.0f} {unit}"
    return f"{seconds:.0f} s"
