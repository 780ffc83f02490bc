"""The times at which a job fires: at once, at a time, by cron, at an interval, or on request; and their bounds.

        Schedule ── next_fire ──► the timer's due ── time passes ──► decision.decide ──► runs, skips, the next due

Instants at the edge of this module are `float` Unix seconds, exact to the microsecond. Inside, cron and zones
count whole seconds and intervals count whole microseconds, so no schedule drifts, after any number of fires.

Invariants: every answer is strictly after what was asked, and lies between `start_at` and `end_at`.
All is bounded. Civil time lives here and in `cron`, `zones` and `calendar`, nowhere else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from tickwise.domain.cron import expression as cron
from tickwise.domain.errors import Invalid
from tickwise.domain.job_fields import FUSE_PER_MINUTE, MAX_FUSE
from tickwise.domain.zones import (
    CHANGE_REACH_SECONDS,
    DAY_SECONDS,
    DEBIAN,
    LAST_INSTANT,
    Dst,
    stretch_at,
    zone_named,
)

INTERVAL_MIN_SECONDS: Final = 1.0
INTERVAL_MAX_SECONDS: Final = 10 * 366 * 86_400.0
GRACE_MAX_SECONDS: Final = 366 * 86_400.0
SPREAD_MAX_SECONDS: Final = 86_400.0
MAX_CATCHUP: Final = 1_000
MAX_RUNS: Final = 1_000_000_000
ASKED_FOR: Final = "only when it is asked for"
_MICROS: Final = 1_000_000
_WEEK_AND_CHANGE_SECONDS: Final = 7 * DAY_SECONDS + CHANGE_REACH_SECONDS
"""If the clock was not changed for so long, what names a time of each week has fired: within the reach of the change
before, a time that it repeats may have been passed over."""


class ScheduleType(StrEnum):
    """The form in which a job's times are given."""

    IMMEDIATE = "IMMEDIATE"
    FUTURE = "FUTURE"
    CRON = "CRON"
    INTERVAL = "INTERVAL"
    ON_DEMAND = "ON_DEMAND"
    """Never by itself: when a person asks for it, or a job that names it has ended."""


UNTIMED: Final = (ScheduleType.IMMEDIATE, ScheduleType.ON_DEMAND)
"""Those that name no time."""


class MisfireMode(StrEnum):
    """The policy for occurrences that were missed for longer than the grace."""

    SKIP = "skip"
    LATEST = "latest"
    """They become one run, of the latest of them."""
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Misfire:
    """The handling of occurrences that could not fire in time. Those missed by up to the grace just fire late."""

    grace_seconds: float = 60.0
    mode: MisfireMode = MisfireMode.LATEST
    max_catchup: int = 10
    """With mode `all`: at most so many of them run."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A job's times. Make one, then `check` it: the other functions hold it for checked."""

    type: ScheduleType
    at: float | None = None
    """FUTURE: the time."""
    cron_expression: str | None = None
    interval_seconds: float | None = None
    timezone: str = "UTC"
    """The IANA name of the wall clock that a cron line speaks of."""
    anchor: float | None = None
    """INTERVAL: fires are at the anchor plus any whole number of intervals. None: it counts from `start_at`, or from
    1970-01-01T00:00Z."""
    misfire: Misfire = field(default_factory=Misfire)
    start_at: float | None = None
    end_at: float | None = None
    """Recurring ones: occurrences are from `start_at` to `end_at`, both included."""
    max_runs: int | None = None
    """Recurring ones: after so many runs by schedule it is over. Occurrences that are skipped at the decision do not
    count."""
    jitter_seconds: float = 0.0
    window_seconds: float = 0.0
    """A run is due at its nominal time plus a stable part of the one or the other."""
    dst: Dst = DEBIAN
    fuse_per_minute: int = FUSE_PER_MINUTE
    """More runs than this within a minute park the job."""
    seed: bytes = b""
    """The job's id: from it follow the places of `H` and of jitter."""
    planned_at: float | None = None
    """The begin of the schedule: times that a clock skipped before it are not reported as lost. None: no such begin."""
    _line: cron.Cron | None = field(default=None, init=False, repr=False, compare=False)
    _grid: tuple[int, int] | None = field(default=None, init=False, repr=False, compare=False)
    _simple: bool | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def recurs(self) -> bool:
        """True if the schedule can fire more than once."""
        return self.type in (ScheduleType.CRON, ScheduleType.INTERVAL)

    def line(self) -> cron.Cron:
        """CRON: its line, read. It is kept: a decision asks for it several times, and finding costs more than using it.
        Raises `CronInvalid`."""
        line = self._line
        if line is None:
            line = cron.parse(self.cron_expression or "", self.seed)
            object.__setattr__(self, "_line", line)  # it follows from the other fields, so nothing has changed
        return line

    def grid(self) -> tuple[int, int]:
        """INTERVAL: its anchor and its step in microseconds. Kept, as the line is."""
        grid = self._grid
        if grid is None:
            anchor = self.start_at if self.anchor is None else self.anchor
            grid = _micros(anchor or 0.0), _micros(self.interval_seconds or 0.0)
            object.__setattr__(self, "_grid", grid)
        return grid

    def is_simple(self) -> bool:
        """True if the schedule recurs and no decision about one occurrence needs the others: its runs are not counted,
        no minute holds enough of them to blow the fuse, and no change of the clock takes any away. The answer is kept,
        like the cron line."""
        simple = self._simple
        if simple is None:
            simple = (
                self.recurs
                and self.max_runs is None
                and most_per_minute(self) <= self.fuse_per_minute
                and not loses_times(self)
            )
            object.__setattr__(self, "_simple", simple)
        return simple


# ------------------------------------------------------------------------------------------------------- checking


def check(schedule: Schedule, *, now: float | None = None) -> None:
    """Refuse (`Invalid`, with the pointer of the field) what could not be carried out, or contradicts itself.

    With `now`, a FUTURE time that has passed by more than the grace is refused too.
    """
    zone_named(schedule.timezone)
    _check_misfire(schedule.misfire)
    _check_nothing_extra(schedule)
    _check_bounds(schedule)
    _check_spread(schedule)
    if schedule.type is ScheduleType.CRON:
        if schedule.cron_expression is None:
            raise Invalid("CRON needs cron_expression, such as '0 3 * * *'", pointer="/cron_expression")
        schedule.line()
    elif schedule.type is ScheduleType.INTERVAL:
        _check_interval(schedule)
    elif schedule.type is ScheduleType.FUTURE:
        _check_future(schedule, now)


_FIELD_OF: Final = {
    "at": ("schedule_time", ScheduleType.FUTURE),
    "cron_expression": ("cron_expression", ScheduleType.CRON),
    "interval_seconds": ("interval_seconds", ScheduleType.INTERVAL),
    "anchor": ("anchor", ScheduleType.INTERVAL),
}


def _check_nothing_extra(schedule: Schedule) -> None:
    for attribute, (name, owner) in _FIELD_OF.items():
        if getattr(schedule, attribute) is not None and schedule.type is not owner:
            raise Invalid(
                f"{name} belongs to {owner}, but schedule_type is {schedule.type}; leave one of them out",
                pointer=f"/{name}",
            )


def _check_misfire(misfire: Misfire) -> None:
    if not 0 <= misfire.grace_seconds <= GRACE_MAX_SECONDS:
        raise Invalid(
            f"grace_seconds must be from 0 to {GRACE_MAX_SECONDS:.0f}, not {misfire.grace_seconds}",
            pointer="/misfire/grace_seconds",
        )
    if not 1 <= misfire.max_catchup <= MAX_CATCHUP:
        raise Invalid(
            f"max_catchup must be from 1 to {MAX_CATCHUP}, not {misfire.max_catchup}", pointer="/misfire/max_catchup"
        )


def _check_bounds(schedule: Schedule) -> None:
    start, end = schedule.start_at, schedule.end_at
    for name, value in (("start_at", start), ("end_at", end), ("max_runs", schedule.max_runs)):
        if value is not None and not schedule.recurs:
            raise Invalid(f"{name} belongs to CRON and INTERVAL; leave it out", pointer=f"/{name}")
    if start is not None:
        _check_instant(start, "start_at")
    if end is not None:
        _check_instant(end, "end_at")
    if start is not None and end is not None and end < start:
        raise Invalid("end_at is before start_at; give a later time", pointer="/end_at")
    if schedule.max_runs is not None and not 1 <= schedule.max_runs <= MAX_RUNS:
        raise Invalid(f"max_runs must be from 1 to {MAX_RUNS}, not {schedule.max_runs}", pointer="/max_runs")


def _check_spread(schedule: Schedule) -> None:
    for name in ("jitter_seconds", "window_seconds"):
        seconds = getattr(schedule, name)
        if not 0 <= seconds <= SPREAD_MAX_SECONDS:
            raise Invalid(f"{name} must be from 0 to {SPREAD_MAX_SECONDS:.0f}, not {seconds}", pointer=f"/{name}")
    if schedule.jitter_seconds and schedule.window_seconds:
        raise Invalid("jitter_seconds and window_seconds both spread the start; send one", pointer="/window_seconds")
    if (schedule.jitter_seconds or schedule.window_seconds) and schedule.type in UNTIMED:
        name = "jitter_seconds" if schedule.jitter_seconds else "window_seconds"
        raise Invalid(
            f"{name} has no meaning for a job that runs {_untimed(schedule)}; leave it out", pointer=f"/{name}"
        )
    if schedule.dst != DEBIAN and schedule.type is not ScheduleType.CRON:
        raise Invalid("dst belongs to CRON: only a wall clock is changed; leave it out", pointer="/dst")
    if not 1 <= schedule.fuse_per_minute <= MAX_FUSE:
        raise Invalid(
            f"fuse_per_minute must be from 1 to {MAX_FUSE}, not {schedule.fuse_per_minute}", pointer="/fuse_per_minute"
        )


def _check_interval(schedule: Schedule) -> None:
    seconds = schedule.interval_seconds
    if seconds is None:
        raise Invalid("INTERVAL needs interval_seconds, such as 300", pointer="/interval_seconds")
    if not INTERVAL_MIN_SECONDS <= seconds <= INTERVAL_MAX_SECONDS:
        raise Invalid(
            f"interval_seconds must be from 1 to {INTERVAL_MAX_SECONDS:.0f} (ten years), not {seconds}",
            pointer="/interval_seconds",
        )
    if schedule.anchor is not None:
        _check_instant(schedule.anchor, "anchor")


def _check_future(schedule: Schedule, now: float | None) -> None:
    if schedule.at is None:
        raise Invalid("FUTURE needs schedule_time, such as 2027-09-25T10:00:00Z", pointer="/schedule_time")
    _check_instant(schedule.at, "schedule_time")
    if now is not None and schedule.at < now - schedule.misfire.grace_seconds:
        raise Invalid(
            f"schedule_time {_written(schedule.at)} is in the past (now {_written(now)}); give a later time, "
            "or IMMEDIATE to run at once",
            pointer="/schedule_time",
        )


def _check_instant(instant: float, name: str) -> None:
    if not 0 <= instant <= LAST_INSTANT:
        raise Invalid(f"{name} must lie between the years 1970 and 9999", pointer=f"/{name}")


def _written(instant: float) -> str:
    return datetime.fromtimestamp(instant, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


# ---------------------------------------------------------------------------------------------------- occurrences


def next_fire(schedule: Schedule, after: float) -> float | None:
    """The first occurrence strictly after `after`; None if there is none.

    IMMEDIATE has none, for its timer is due when it is created; ON_DEMAND has none either.
    """
    if schedule.start_at is not None and after < schedule.start_at:
        return first_fire(schedule, schedule.start_at)
    if schedule.type is ScheduleType.CRON:
        return _from_second(schedule, math.floor(after) + 1)
    if schedule.type is ScheduleType.INTERVAL:
        return _from_micros(schedule, _micros(after) + 1)
    return schedule.at if schedule.at is not None and schedule.at > after else None


def first_fire(schedule: Schedule, instant: float) -> float | None:
    """The first occurrence at or after `instant`."""
    if schedule.start_at is not None:
        instant = max(instant, schedule.start_at)
    if schedule.type is ScheduleType.CRON:
        return _from_second(schedule, math.ceil(instant))
    if schedule.type is ScheduleType.INTERVAL:
        return _from_micros(schedule, _micros(instant))
    return schedule.at if schedule.at is not None and schedule.at >= instant else None


def latest_fire(schedule: Schedule, until: float) -> float | None:
    """The last occurrence of a recurring schedule at or before `until`; None if there is none."""
    if schedule.end_at is not None:
        until = min(until, schedule.end_at)
    if schedule.type is ScheduleType.CRON:
        return _up_to_second(schedule, math.floor(until))
    return _up_to_micros(schedule, _micros(until))


def last_before(schedule: Schedule, instant: float) -> float | None:
    """The last occurrence of a recurring schedule strictly before `instant`; None if there is none."""
    if schedule.end_at is not None and instant > schedule.end_at:
        return latest_fire(schedule, schedule.end_at)
    if schedule.type is ScheduleType.CRON:
        return _up_to_second(schedule, math.ceil(instant) - 1)
    return _up_to_micros(schedule, _micros(instant) - 1)


def count_between(schedule: Schedule, start: float, end: float) -> int:
    """The number of occurrences of a recurring schedule from `start` to before `end`: exact, and quick for any span."""
    if schedule.start_at is not None:
        start = max(start, schedule.start_at)
    last = LAST_INSTANT if schedule.end_at is None else schedule.end_at
    if end <= start or last < start:
        return 0
    if schedule.type is ScheduleType.CRON:
        until = math.floor(last) if end > last else math.ceil(end) - 1
        return schedule.line().count(math.ceil(start), until, zone_named(schedule.timezone), schedule.dst)
    anchor, step = schedule.grid()
    until = _micros(last) if end > last else _micros(end) - 1
    return max(0, (until - anchor) // step - (_micros(start) - 1 - anchor) // step)


def moved(schedule: Schedule, instant: float) -> float:
    """The new time of an occurrence that was at `instant` by other zone data: the nearest one. (Clocks are moved by
    an hour or so, so the nearest has the same wall time, or is as good.)"""
    before, after = latest_fire(schedule, instant), first_fire(schedule, instant)
    if after is None:
        return instant if before is None else before
    return after if before is None or after - instant <= instant - before else before


def just_before(instant: float) -> float:
    """The microsecond before: no instant lies between. (From the year 2242 on floats are coarser than that.)"""
    return instant if math.isinf(instant) else min((_micros(instant) - 1) / _MICROS, math.nextafter(instant, -math.inf))


def just_after(instant: float) -> float:
    """As `just_before`, on the other side."""
    return instant if math.isinf(instant) else max((_micros(instant) + 1) / _MICROS, math.nextafter(instant, math.inf))


def most_per_minute(schedule: Schedule) -> int:
    """No minute holds more occurrences than this."""
    if schedule.type is ScheduleType.CRON:
        return schedule.line().seconds.bit_count()
    return math.ceil(60 / schedule.interval_seconds) if schedule.interval_seconds else 1


def gap_skips(schedule: Schedule, after: float, until: float) -> list[cron.GapSkip]:
    """The changes of the clock after `after` and up to `until` at which times of a cron line are lost."""
    if schedule.type is not ScheduleType.CRON:
        return []
    zone = zone_named(schedule.timezone)
    return schedule.line().gap_skips(math.floor(after) + 1, math.floor(until), zone, schedule.dst)


def loses_times(schedule: Schedule) -> bool:
    """Check whether there may be changes of the clock at which times of a cron line are lost."""
    if schedule.type is not ScheduleType.CRON or schedule.timezone == "UTC":
        return False
    return schedule.line().loses_times(schedule.dst)


def clock_skips(schedule: Schedule, first: float, last: float) -> list[cron.GapSkip]:
    """The `gap_skips` since the occurrence before `first` (or since the schedule counts) up to `last`."""
    # Of nearly all decisions this is the end: the occurrence before is near, and the clock was not changed for long.
    since = math.floor(first) - _WEEK_AND_CHANGE_SECONDS
    if schedule.line().names_each_week and last < stretch_at(zone_named(schedule.timezone), since).end:
        return []
    before = last_before(schedule, first)
    known = [floor for floor in (before, schedule.planned_at, schedule.start_at) if floor is not None]
    return gap_skips(schedule, max(known, default=first), last)


def preview(schedule: Schedule, after: float, count: int) -> list[float]:
    """The next `count` occurrences strictly after `after`, fewer if it ends before."""
    return fires_between(schedule, after, math.inf, count)


def fires_between(schedule: Schedule, start: float, end: float, limit: int) -> list[float]:
    """The occurrences after `start` up to and including `end`, at most the first `limit`."""
    fires: list[float] = []
    due = next_fire(schedule, start)
    while due is not None and due <= end and len(fires) < limit:
        fires.append(due)
        due = next_fire(schedule, due)
    return fires


def explain(schedule: Schedule) -> str:
    """The schedule in plain English."""
    if schedule.type is ScheduleType.CRON:
        return f"{schedule.line().explain()} ({schedule.timezone})"
    if schedule.type is ScheduleType.INTERVAL:
        return _every(schedule.interval_seconds or 0.0)
    if schedule.type is ScheduleType.FUTURE and schedule.at is not None:
        return f"once, at {_written(schedule.at)}"
    if schedule.type is ScheduleType.ON_DEMAND:
        return f"{ASKED_FOR}, or when a job that names it ends"
    return "once, at once"


def _untimed(schedule: Schedule) -> str:
    return ASKED_FOR if schedule.type is ScheduleType.ON_DEMAND else "at once"


def warnings(schedule: Schedule) -> tuple[str, ...]:
    """Warnings about legal parts that are probably not meant."""
    return schedule.line().warnings() if schedule.type is ScheduleType.CRON else ()


def _every(seconds: float) -> str:
    """In the largest unit that divides the interval: "every 90 minutes", "every day"."""
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        if seconds % size == 0:
            number = int(seconds) // size
            return f"every {unit}" if number == 1 else f"every {number} {unit}s"
    return f"every {f'{seconds:.6f}'.rstrip('0')} seconds"


# ------------------------------------------------------------------------------------------------------ the maths


def _micros(seconds: float) -> int:
    """Rounded, not cut: 0.1 s and a time read back from a store are a hair off the microsecond that they mean. (The
    fraction by itself, because of the whole a product would be off by one in a few decades.)"""
    whole = math.floor(seconds)
    return whole * _MICROS + round((seconds - whole) * _MICROS)


def _from_micros(schedule: Schedule, micros: int) -> float | None:
    """The first occurrence of an interval from a microsecond on."""
    anchor, step = schedule.grid()
    found = (anchor - (anchor - micros) // step * step) / _MICROS
    return None if found > (LAST_INSTANT if schedule.end_at is None else schedule.end_at) else found


def _up_to_micros(schedule: Schedule, micros: int) -> float | None:
    anchor, step = schedule.grid()
    found = (anchor + (micros - anchor) // step * step) / _MICROS
    return None if schedule.start_at is not None and found < schedule.start_at else found


def _from_second(schedule: Schedule, second: int) -> float | None:
    """The first occurrence of a cron line from a whole second on."""
    found = schedule.line().next_second(second - 1, zone_named(schedule.timezone), schedule.dst)
    return None if found is None or (schedule.end_at is not None and found > schedule.end_at) else float(found)


def _up_to_second(schedule: Schedule, second: int) -> float | None:
    found = schedule.line().previous_second(second, zone_named(schedule.timezone), schedule.dst)
    return None if found is None or (schedule.start_at is not None and found < schedule.start_at) else float(found)
