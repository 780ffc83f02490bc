"""When a job fires: at once, at a time, by cron, or at an interval; and what a scheduler decides when a timer is due.

        Schedule ── next_fire ──► the timer's due ── time passes ──► decide ──► Decision(fires, next_due, coalesced)

Instants at the edge of this module are `float` Unix seconds, exact to the microsecond. Inside, cron and zones
count whole seconds and intervals count whole microseconds, so nothing drifts, whatever the number of fires.

Invariants: every answer is strictly after what was asked; a decision's fires ascend and none is before its time;
after a decision the next due time is in the future, or the list was cut at its limit and goes on right there.
All is bounded, however long the scheduler was away. Civil time lives here and in `cron` and `zones`, nowhere else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from tickwise.domain import cron
from tickwise.domain.errors import Bug, Invalid
from tickwise.domain.zones import LAST_INSTANT, zone_named

INTERVAL_MIN_SECONDS: Final = 1.0
INTERVAL_MAX_SECONDS: Final = 10 * 366 * 86_400.0
GRACE_MAX_SECONDS: Final = 366 * 86_400.0
_MICROS: Final = 1_000_000


class ScheduleType(StrEnum):
    """How a job's times are given."""

    IMMEDIATE = "IMMEDIATE"
    FUTURE = "FUTURE"
    CRON = "CRON"
    INTERVAL = "INTERVAL"


class MisfireMode(StrEnum):
    """What becomes of occurrences that were missed for longer than the grace."""

    SKIP = "skip"
    LATEST = "latest"
    """They become one run, of the latest of them."""
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Misfire:
    """What to do with occurrences that could not fire in time. Those missed by up to the grace just fire late."""

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
    """INTERVAL: fires are at the anchor plus any whole number of intervals. None: it counts from 1970-01-01T00:00Z."""
    misfire: Misfire = field(default_factory=Misfire)

    @property
    def recurs(self) -> bool:
        """Whether it can fire more than once."""
        return self.type in (ScheduleType.CRON, ScheduleType.INTERVAL)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a due timer comes to."""

    fires: tuple[float, ...]
    """Nominal times to run, ascending."""
    next_due: float | None
    """Where the timer goes; None: never again."""
    coalesced: int = 0
    """Occurrences before the first of `fires` that were missed and have no run of their own."""


# ------------------------------------------------------------------------------------------------------- checking


def check(schedule: Schedule, *, now: float | None = None) -> None:
    """Refuse (`Invalid`, with the pointer of the field) what could not be carried out, or contradicts itself.

    With `now`, a FUTURE time that has passed by more than the grace is refused too.
    """
    zone_named(schedule.timezone)
    _check_misfire(schedule.misfire)
    _check_nothing_extra(schedule)
    if schedule.type is ScheduleType.CRON:
        if schedule.cron_expression is None:
            raise Invalid("CRON needs cron_expression, such as '0 3 * * *'", pointer="/cron_expression")
        cron.parse(schedule.cron_expression)
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
    if misfire.mode is not MisfireMode.LATEST:
        raise Invalid(f"misfire mode {misfire.mode} is not supported yet; write latest", pointer="/misfire/mode")
    if misfire.max_catchup != Misfire().max_catchup:
        raise Invalid(
            "max_catchup has no effect before misfire mode all is supported; leave it out",
            pointer="/misfire/max_catchup",
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
            f"schedule_time {_written(schedule.at)} is in the past (now {_written(now)}); give a time to come, "
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

    IMMEDIATE has none: its timer is due when it is created.
    """
    if schedule.type is ScheduleType.CRON:
        return _seconds(_cron(schedule).next_second(math.floor(after), zone_named(schedule.timezone)))
    if schedule.type is ScheduleType.INTERVAL:
        anchor, step = _grid(schedule)
        return _on_grid(anchor + ((_micros(after) - anchor) // step + 1) * step)
    if schedule.type is ScheduleType.FUTURE and schedule.at is not None and schedule.at > after:
        return schedule.at
    return None


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


def decide(schedule: Schedule, due: float, now: float, until: float, limit: int = 100) -> Decision:
    """What a timer with the stored time `due` comes to, seen at `now` by a scheduler that plans ahead up to `until`.

    Each occurrence from `due` to `until` that is at most the grace older than `now` fires at its nominal time.
    The older ones become one run: the latest occurrence up to `now`. If that one is within the grace it
    fires anyway, and they are only counted. `due` itself counts as an occurrence even if the schedule no longer
    names it (the zone's rules may have changed since it was stored). `coalesced` is exact.

    `next_due` is after `until` (and `now`), or, if `limit` cut the list, the occurrence where it goes on.
    The work does not grow with the downtime for an interval, and by a few microseconds a month for a cron line.
    """
    until = max(until, now)
    if due > until:
        return Decision((), due)
    if not schedule.recurs:
        return Decision((due,), None)
    first, coalesced = due, 0
    fresh = now - schedule.misfire.grace_seconds
    if due < fresh:
        first = max(due, _latest(schedule, now) or due)
        if first >= fresh:
            first = _first_from(schedule, fresh)
        coalesced = _count_after(schedule, due, first) if first > due else 0
    fires = [first]
    following = next_fire(schedule, first)
    while following is not None and following <= until and len(fires) < limit:
        fires.append(following)
        following = next_fire(schedule, following)
    return Decision(tuple(fires), following, coalesced)


def explain(schedule: Schedule) -> str:
    """The schedule in plain English."""
    if schedule.type is ScheduleType.CRON:
        return f"{_cron(schedule).explain()} ({schedule.timezone})"
    if schedule.type is ScheduleType.INTERVAL:
        return _every(schedule.interval_seconds or 0.0)
    if schedule.type is ScheduleType.FUTURE and schedule.at is not None:
        return f"once, at {_written(schedule.at)}"
    return "once, at once"


def warnings(schedule: Schedule) -> tuple[str, ...]:
    """What is legal and probably not meant."""
    return _cron(schedule).warnings() if schedule.type is ScheduleType.CRON else ()


def _every(seconds: float) -> str:
    """In the largest unit that divides the interval: "every 90 minutes", "every day"."""
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        if seconds % size == 0:
            number = int(seconds) // size
            return f"every {unit}" if number == 1 else f"every {number} {unit}s"
    return f"every {f'{seconds:.6f}'.rstrip('0')} seconds"


# ------------------------------------------------------------------------------------------------------ the maths


def _latest(schedule: Schedule, now: float) -> float | None:
    """The last occurrence of a recurring schedule at or before `now`."""
    if schedule.type is ScheduleType.CRON:
        return _seconds(_cron(schedule).previous_second(math.floor(now), zone_named(schedule.timezone)))
    anchor, step = _grid(schedule)
    return _on_grid(anchor + (_micros(now) - anchor) // step * step)


def _first_from(schedule: Schedule, instant: float) -> float:
    """The first occurrence at or after `instant`; asked only where one is known to exist."""
    if schedule.type is ScheduleType.CRON:
        found = _cron(schedule).next_second(math.ceil(instant) - 1, zone_named(schedule.timezone))
        if found is None:
            raise Bug(f"no fire of {schedule.cron_expression!a} from {instant} on, though one was found before")
        return float(found)
    anchor, step = _grid(schedule)
    return _on_grid(anchor - (anchor - _micros(instant)) // step * step)


def _count_after(schedule: Schedule, due: float, first: float) -> int:
    """How many occurrences lie from `due`, which counts as one, to before `first`."""
    if schedule.type is ScheduleType.CRON:
        zone = zone_named(schedule.timezone)
        return 1 + _cron(schedule).count(math.floor(due) + 1, math.ceil(first) - 1, zone)
    anchor, step = _grid(schedule)
    return 1 + (_micros(first) - 1 - anchor) // step - (_micros(due) - anchor) // step


def _cron(schedule: Schedule) -> cron.Cron:
    return cron.parse(schedule.cron_expression or "")


def _grid(schedule: Schedule) -> tuple[int, int]:
    """An interval's anchor and step in microseconds."""
    return _micros(schedule.anchor or 0.0), _micros(schedule.interval_seconds or 0.0)


def _micros(seconds: float) -> int:
    """Rounded, not cut: 0.1 s and a time read back from a store are a hair off the microsecond that they mean."""
    return round(seconds * _MICROS)


def _on_grid(micros: int) -> float:
    return micros / _MICROS


def _seconds(found: int | None) -> float | None:
    return None if found is None else float(found)
