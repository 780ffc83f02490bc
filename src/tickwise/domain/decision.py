"""What a due timer comes to: which occurrences run, which are skipped and why, and when the timer is due next.

        Pending ──┬─ held back? ── what fell into the hold goes on record, or becomes one run
                  ├─ missed?    ── the misfire rule: skip, the latest, or all up to a limit
                  ├─ closed?    ── calendars and windows: skip, or hold until they open
                  └─ else       ── a run                       ──► Decision(fires, skips, next)

Pure: the same timer, seen at the same time under the same rules, always comes to the same. So two schedulers that
decide one timer decide alike, and the names of the runs make twice once.

Invariants: each occurrence from the timer's `due` (or `since`) to before the next one's is in exactly one of `fires`
and `skips`; no run is due before its nominal time; `next` is after `until`, or the list was cut at its limit and goes
on right there. The work does not grow with the time that was missed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import Final, NamedTuple

from tickwise.domain.calendar import Closed, Otherwise, Rules
from tickwise.domain.schedule import (
    INSTANT_BEFORE,
    MisfireMode,
    Schedule,
    count_between,
    first_fire,
    gap_skips,
    latest_fire,
    most_per_minute,
    next_fire,
)
from tickwise.domain.zones import GapRule

CATCHUP_SPREAD_SECONDS: Final = 10.0
"""After downtime, what each job makes up for is spread over a sixtieth of it, and over no more than this."""
CATCHUP_SPREAD_SHARE: Final = 60
CATCHUP_GAP_SECONDS: Final = 1.0
"""Between two runs that a job makes up for."""
SINGLY_MOST: Final = 60
"""So many skipped occurrences of one closure are recorded each at its time; of more there is one record, at its end."""
OPENING_UNKNOWN_SECONDS: Final = 86_400.0
"""How often a closure without an end in sight is looked at again; each look leaves a record."""
LOOK_BACK_MOST: Final = 64
"""How many closed occurrences are passed over in search of the latest that may still run."""
MINUTE_SECONDS: Final = 60.0


class Reason(StrEnum):
    """Why an occurrence did not run. Kept for ever in records and in programs of users: never renamed."""

    OVERLAP = "overlap"
    MISFIRE = "misfire"
    PAUSED = "paused"
    CALENDAR = "calendar"
    MAINTENANCE = "maintenance"
    EXPIRED = "expired"
    DST = "dst"
    FUSE = "fuse"
    REQUESTED = "requested"
    """A person asked to skip just this one."""


class Overlap(StrEnum):
    """What becomes of an occurrence whose time comes while an earlier run of its job is unfinished."""

    SKIP = "skip"
    QUEUE_ONE = "queue_one"
    """It waits, unless another one waits already."""
    QUEUE_ALL = "queue_all"
    CANCEL_RUNNING = "cancel_running"
    """The earlier one is cancelled; it starts when that has ended."""
    ALLOW = "allow"


class Hold(StrEnum):
    """Why a timer's occurrences are held back. Its `due` is then a time to wake up, and no occurrence."""

    PAUSED = "paused"
    CALENDAR = "calendar"
    MAINTENANCE = "maintenance"


NEVER: Final = math.inf
"""The `due` of a timer that is held back until somebody lets it go."""


class Pending(NamedTuple):
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


class Firing(NamedTuple):
    """One occurrence that runs."""

    nominal: float
    due: float
    """When it should start: the nominal time, or later (jitter, deferral, making up for it)."""
    catchup: bool = False
    """It was missed, and is one of several that are made up for."""


class Skip(NamedTuple):
    """Occurrences that do not run: one, or a range of them."""

    nominal: float
    """Of the first."""
    until: float
    """Nominal time of the last."""
    occurrences: int
    reason: Reason
    sentence: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What a due timer comes to."""

    fires: tuple[Firing, ...]
    """Ascending by nominal time."""
    skips: tuple[Skip, ...]
    next: Pending | None
    """Where the timer goes; None: never again."""
    park: str | None = None
    """The fuse blew: the job is to be paused, for this reason."""


def decide(
    schedule: Schedule, timer: Pending, *, now: float, until: float, rules: Rules | None = None, limit: int = 100
) -> Decision:
    """What `timer` comes to, seen at `now` by a scheduler that plans ahead up to `until`.

    `timer.due` counts as an occurrence even if the schedule no longer names it (the zone's rules may have changed
    since it was stored). At most `limit` occurrences are decided one by one; what is made up for is on top of that.
    """
    until = max(until, now)
    if timer.due > until:
        return Decision((), (), timer)
    deciding = _Deciding(schedule, timer, now, until, rules, limit)
    return deciding.recurring() if schedule.recurs else deciding.once()


def spread(schedule: Schedule, nominal: float) -> float:
    """How long after `nominal` a run of this occurrence is due: a stable part of jitter or window, in seconds."""
    widest = schedule.jitter_seconds or schedule.window_seconds
    return round(fraction(schedule.seed, nominal) * widest, 6) if widest else 0.0


def fraction(seed: bytes, nominal: float) -> float:
    """From 0 to below 1, and the same each time it is asked."""
    named = seed + round(nominal * 1_000_000).to_bytes(8, "big", signed=True)
    return int.from_bytes(blake2b(named, digest_size=6, person=b"jitter").digest(), "big") / 2**48


@dataclass(slots=True)
class _Deciding:
    """One decision in the making."""

    schedule: Schedule
    timer: Pending
    now: float
    until: float
    rules: Rules | None
    limit: int
    fires: list[Firing] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    park: str | None = None
    _minute: float | None = None
    _in_minute: int = 0
    _watched: bool = False

    def __post_init__(self) -> None:
        misfire, fuse = self.schedule.misfire, self.schedule.fuse_per_minute
        makes_up = misfire.max_catchup if misfire.mode is MisfireMode.ALL else 1
        self._watched = self.schedule.recurs and max(most_per_minute(self.schedule), makes_up) > fuse
        self._minute, self._in_minute = self.timer.minute, self.timer.in_minute

    # ------------------------------------------------------------------------------------------- one time

    def once(self) -> Decision:
        """The only occurrence of a schedule that does not recur."""
        timer = self.timer
        nominal = timer.since if timer.hold is not None and timer.since is not None else timer.due
        closed = self._closed(max(nominal, timer.due))
        misfire = self.schedule.misfire
        if closed is not None and closed.otherwise is Otherwise.DEFER and closed.opens is not None:
            held = Pending(closed.opens, nominal, Hold(closed.reason), timer.fired)
            return Decision((), (), held)
        if closed is not None:
            self._skip(nominal, nominal, 1, Reason(closed.reason), closed.sentence)
        elif misfire.mode is MisfireMode.SKIP and max(nominal, timer.due) < self.now - misfire.grace_seconds:
            self._skip(nominal, nominal, 1, Reason.MISFIRE, self._missed_by(max(nominal, timer.due)))
        else:
            self._fire(nominal, not_before=timer.due)
        return Decision(tuple(self.fires), tuple(self.skips), None)

    # ------------------------------------------------------------------------------------------- recurring

    def recurring(self) -> Decision:
        """From the timer's due on, up to `until`."""
        timer = self.timer
        cursor: float | None = timer.due
        if timer.hold is not None:
            held = self._still_held()
            if held is not None:
                return self._decision(held)
            cursor = self._let_go()
        if cursor is not None and cursor <= self.until:
            cursor = self._make_up(cursor)
        decided = 0
        while cursor is not None and cursor <= self.until and decided < self.limit and not self._is_over():
            closed = self._closed(cursor)
            if closed is None:
                self._fire(cursor)
            else:
                held = self._shut(cursor, closed)
                if held is not None:
                    return self._decision(held)
            self._clock_skips(cursor)
            cursor = next_fire(self.schedule, cursor)
            decided += 1
        if cursor is None or self._is_over():
            return self._decision(None)
        return self._decision(Pending(cursor))

    def _decision(self, following: Pending | None) -> Decision:
        if following is not None:
            following = following._replace(
                fired=self.timer.fired + len(self.fires),
                minute=self._minute if self._watched else None,
                in_minute=self._in_minute if self._watched else 0,
            )
        if self.park is not None and following is not None and following.hold is not Hold.PAUSED:
            since = following.due if following.since is None else following.since
            following = following._replace(due=NEVER, since=since, hold=Hold.PAUSED, minute=None, in_minute=0)
        return Decision(tuple(self.fires), tuple(self.skips), following, self.park)

    def _is_over(self) -> bool:
        most = self.schedule.max_runs
        return most is not None and self.timer.fired + len(self.fires) >= most

    # ------------------------------------------------------------------------------------------- what was held back

    def _still_held(self) -> Pending | None:
        """The hold goes on, because what closed it is still closed now; None: it is over."""
        timer = self.timer
        closed = self._closed(timer.due) if timer.hold is not Hold.PAUSED else None
        if closed is None:
            return None
        since = timer.due if timer.since is None else timer.since
        if closed.otherwise is Otherwise.DEFER and closed.opens is not None:
            return Pending(closed.opens, since, Hold(closed.reason))
        return None

    def _let_go(self) -> float | None:
        """What fell into the hold goes on record or becomes one run; the first occurrence after it."""
        timer, schedule = self.timer, self.schedule
        since = timer.due if timer.since is None else timer.since
        if timer.hold is Hold.PAUSED:
            self._skip_range(since, timer.due, Reason.PAUSED, "the job was paused")
            return first_fire(schedule, timer.due)
        reason = Reason(timer.hold or Hold.CALENDAR)
        closed = self._closed(since)
        if closed is not None and (closed.otherwise is Otherwise.SKIP or closed.opens is None):
            self._skip_range(since, timer.due, reason, closed.sentence)
            return first_fire(schedule, timer.due)
        newest = max(since, latest_fire(schedule, timer.due - INSTANT_BEFORE) or since)
        self._skip_range(since, newest, reason, "deferred together with later ones, which became one run")
        if self._is_late(timer.due) and schedule.misfire.mode is MisfireMode.SKIP:
            self._skip(newest, newest, 1, Reason.MISFIRE, self._missed_by(timer.due))
        else:
            self._fire(newest, not_before=timer.due)
        return first_fire(schedule, timer.due)

    # ------------------------------------------------------------------------------------------- what was missed

    def _make_up(self, cursor: float) -> float | None:
        """Apply the misfire rule to what is older than the grace; the first occurrence that it leaves."""
        if not self._is_late(cursor):
            return cursor
        schedule = self.schedule
        fresh = self.now - schedule.misfire.grace_seconds
        newest = max(cursor, latest_fire(schedule, self.now) or cursor)
        in_time = first_fire(schedule, fresh) if newest >= fresh else None
        following = in_time if in_time is not None else next_fire(schedule, newest)
        beyond = math.nextafter(newest, math.inf) if following is None else following
        mode = schedule.misfire.mode
        if mode is MisfireMode.LATEST and in_time is None:
            self._catch_up(cursor, beyond, 1)
        elif mode is MisfireMode.ALL:
            self._catch_up(cursor, beyond, schedule.misfire.max_catchup)
        else:
            self._skip_range(cursor, beyond, Reason.MISFIRE, self._missed_by(cursor))
        return following

    def _catch_up(self, cursor: float, beyond: float, most: int) -> None:
        """Of the occurrences from `cursor` to before `beyond`, the latest `most` that are not closed run."""
        chosen: list[float] = []
        shut: list[tuple[float, Closed]] = []
        oldest = beyond
        at: float | None = beyond
        while at is not None and len(chosen) < most and len(shut) < LOOK_BACK_MOST:
            at = latest_fire(self.schedule, at - INSTANT_BEFORE)
            if at is None or at < cursor:
                at = cursor if oldest > cursor else None  # the timer's own, though the schedule may not name it now
            if at is None:
                break
            oldest = at
            closed = self._closed(at)
            if closed is None:
                chosen.append(at)
            else:
                shut.append((at, closed))
            if at == cursor:
                break
        self._skip_range(cursor, oldest, Reason.MISFIRE, self._missed_by(cursor))
        for nominal, closed in reversed(shut):
            self._skip(nominal, nominal, 1, Reason(closed.reason), closed.sentence)
        share = min(CATCHUP_SPREAD_SECONDS, (self.now - cursor) / CATCHUP_SPREAD_SHARE)
        first = self.now + share * fraction(self.schedule.seed, cursor)
        for number, nominal in enumerate(reversed(chosen)):
            if self._is_over():
                return
            due = round(first + number * CATCHUP_GAP_SECONDS, 6)
            self._count_for_fuse(nominal)
            self.fires.append(Firing(nominal, due, catchup=True))

    def _is_late(self, instant: float) -> bool:
        return instant < self.now - self.schedule.misfire.grace_seconds

    def _missed_by(self, instant: float) -> str:
        return (
            f"no scheduler could fire it until {_length(self.now - instant)} after its time, "
            f"and the grace is {_length(self.schedule.misfire.grace_seconds)}"
        )

    # ------------------------------------------------------------------------------------------- what is closed

    def _closed(self, instant: float) -> Closed | None:
        verdict = None if self.rules is None else self.rules.verdict(instant)
        return verdict if isinstance(verdict, Closed) else None

    def _shut(self, cursor: float, closed: Closed) -> Pending | None:
        """A closed occurrence is skipped, or (a Pending) held back with all that follow until it opens."""
        opens, reason = closed.opens, closed.reason
        if closed.otherwise is Otherwise.DEFER and opens is not None:
            return Pending(opens, cursor, Hold(reason))
        again = cursor + OPENING_UNKNOWN_SECONDS
        wake = again if opens is None else min(opens, again)
        if count_between(self.schedule, cursor, wake) > SINGLY_MOST:
            return Pending(wake, cursor, Hold(reason))
        self._skip(cursor, cursor, 1, Reason(reason), closed.sentence)
        return None

    def _clock_skips(self, cursor: float) -> None:
        """Times that the clock skipped, and that the job wants skipped, since the occurrence before this one."""
        if self.schedule.dst.gap is not GapRule.SKIP:
            return
        previous = latest_fire(self.schedule, cursor - INSTANT_BEFORE)
        if previous is None:
            return
        for gap in gap_skips(self.schedule, previous, cursor):
            self._skip(gap.instant, gap.instant, gap.occurrences, Reason.DST, gap.sentence)

    # ------------------------------------------------------------------------------------------- putting it down

    def _fire(self, nominal: float, *, not_before: float = -math.inf) -> None:
        self._count_for_fuse(nominal)
        if self.park is not None:
            self._skip(nominal, nominal, 1, Reason.FUSE, self.park)
            return
        self.fires.append(Firing(nominal, max(nominal, not_before) + spread(self.schedule, nominal)))

    def _count_for_fuse(self, nominal: float) -> None:
        if not self._watched:
            return
        if self._minute is None or nominal >= self._minute + MINUTE_SECONDS:
            self._minute, self._in_minute = nominal, 0
        self._in_minute += 1
        fuse = self.schedule.fuse_per_minute
        if self._in_minute > fuse and self.park is None:
            self.park = f"its schedule made more than {fuse} runs in one minute (fuse_per_minute)"

    def _skip(self, nominal: float, until: float, count: int, reason: Reason, sentence: str) -> None:
        self.skips.append(Skip(nominal, until, count, reason, sentence))

    def _skip_range(self, start: float, end: float, reason: Reason, sentence: str) -> None:
        """One record for what lies from `start`, which counts as an occurrence, to before `end`."""
        if start >= end:
            return
        last = latest_fire(self.schedule, end - INSTANT_BEFORE)
        count = 1 + count_between(self.schedule, start + INSTANT_BEFORE, end)
        self._skip(start, start if last is None else max(start, last), count, reason, sentence)


def _length(seconds: float) -> str:
    """For people: 45 s, 12 min, 3 h, 9 days."""
    for size, unit in ((172_800.0, "days"), (7_200.0, "h"), (120.0, "min")):
        if seconds >= size:
            return f"{seconds / {'days': 86_400.0, 'h': 3_600.0, 'min': 60.0}[unit]:.0f} {unit}"
    return f"{seconds:.0f} s"
