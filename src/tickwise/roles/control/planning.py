"""From what was said to when it fires: short forms, inference, contradictions, and the plan of a job.

Pure functions. Every refusal points at the field as the caller wrote it: who sent `cron` reads of `/cron`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from msgspec import UNSET, UnsetType

from tickwise.domain import schedule as schedules
from tickwise.domain.errors import Invalid
from tickwise.domain.model import run_id
from tickwise.domain.schedule import Schedule, ScheduleType
from tickwise.domain.zones import LAST_INSTANT
from tickwise.ports.store import NewRun, Replan
from tickwise.roles.definition import Definition

KEPT_AHEAD_SECONDS: Final = 30.0
"""Runs that are made already, for fires of the old plan that the new one has too, are looked for this far ahead:
well beyond any horizon of a scheduler."""
KEPT_MAX: Final = 64

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)", re.ASCII)
_UNIT_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}


class Said(Protocol):
    """The words about time that a job body and a preview share."""

    schedule_type: ScheduleType | UnsetType | None
    schedule_time: datetime | UnsetType | None
    at: datetime | UnsetType | None
    cron_expression: str | UnsetType | None
    cron: str | UnsetType | None
    interval_seconds: float | UnsetType | None
    every: str | UnsetType | None
    anchor: datetime | UnsetType | None
    timezone: str | UnsetType | None


class Words(NamedTuple):
    """The same, in the long form, with the names that were used."""

    kind: ScheduleType | None
    at: float | None
    cron: str | None
    interval_seconds: float | None
    anchor: float | None
    timezone: str
    used: dict[str, str]
    """From the long name to the short one, for pointers."""


UTC_NAME: Final = "UTC"
AT_ONCE: Final = Schedule(ScheduleType.IMMEDIATE)
_UTC_SAID: Final = (UNSET, None, UTC_NAME)
_FUTURE_SAID: Final = (ScheduleType.FUTURE, None)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def instant(time: datetime) -> float:
    """Unix seconds of an aware time; of every year, which `timestamp` is not made for."""
    return (time - _EPOCH).total_seconds()


def duration_seconds(text: str, pointer: str = "/every") -> float:
    """Seconds of `90s`, `5m`, `1h30m`."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise Invalid("write a duration such as 30s, 5m, 1h30m, 1d or 1w", pointer=pointer)
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)


def words(said: Said) -> Words:
    """What was said, without short forms. Raises `Invalid` where one thing was said twice."""
    used: dict[str, str] = {}
    at, cron, interval = said.schedule_time or None, said.cron_expression or None, said.interval_seconds or None
    if said.at:
        _said_once(at, "schedule_time", "at")
        at, used["schedule_time"] = said.at, "at"
    if said.cron:
        _said_once(cron, "cron_expression", "cron")
        cron, used["cron_expression"] = said.cron, "cron"
    if said.every:
        _said_once(interval, "interval_seconds", "every")
        interval, used["interval_seconds"] = duration_seconds(said.every), "every"
    return Words(
        said.schedule_type or None,
        None if at is None else instant(at),
        cron,
        interval,
        instant(said.anchor) if said.anchor else None,
        said.timezone or UTC_NAME,
        used,
    )


def said_schedule(said: Said, now: float) -> Schedule:
    """`schedule_of` the `words`, without the detour for what almost every job of a busy day says: one time to come, or
    at once. Whatever else is said, and whatever is refused, takes the long way."""
    if (
        said.at or said.cron_expression or said.cron or said.interval_seconds or said.every or said.anchor
        or said.timezone not in _UTC_SAID
    ):  # fmt: skip
        return schedule_of(words(said), now)
    kind, time = said.schedule_type or None, said.schedule_time
    if time and kind in _FUTURE_SAID:
        at = (time - _EPOCH).total_seconds()
        if now <= at <= LAST_INSTANT:
            return Schedule(ScheduleType.FUTURE, at, misfire=AT_ONCE.misfire)
    elif not time and kind is ScheduleType.IMMEDIATE:
        return AT_ONCE
    return schedule_of(words(said), now)


def _said_once(long_form: object, name: str, alias: str) -> None:
    if long_form is not None:
        raise Invalid(f"{alias} is short for {name}; send one of them", pointer=f"/{alias}")


def schedule_of(said: Words, now: float) -> Schedule:
    """The schedule that was meant, checked. Raises `Invalid`."""
    schedule = Schedule(
        type=said.kind or _inferred(said),
        at=said.at,
        cron_expression=said.cron,
        interval_seconds=said.interval_seconds,
        timezone=said.timezone,
        anchor=said.anchor,
    )
    try:
        schedules.check(schedule, now=now)
    except Invalid as refusal:
        name = (refusal.pointer or "").removeprefix("/")
        if name in said.used:
            refusal.pointer = f"/{said.used[name]}"
        raise
    if schedule.type is ScheduleType.INTERVAL and schedule.anchor is None:
        return Schedule(
            type=schedule.type,
            interval_seconds=schedule.interval_seconds,
            timezone=schedule.timezone,
            # To the microsecond, as every store keeps it.
            anchor=round(now, 6),
        )
    return schedule


def _inferred(said: Words) -> ScheduleType:
    """The type that the fields speak of."""
    given = [
        (kind, name)
        for kind, name, value in (
            (ScheduleType.FUTURE, "schedule_time", said.at),
            (ScheduleType.CRON, "cron_expression", said.cron),
            (ScheduleType.INTERVAL, "interval_seconds", said.interval_seconds),
        )
        if value is not None
    ]
    if not given:
        raise Invalid(
            "say when it shall run: schedule_type IMMEDIATE for at once, or schedule_time, cron_expression or "
            "interval_seconds",
            pointer="/schedule_type",
        )
    if len(given) > 1:
        first, second = (said.used.get(name, name) for _, name in given[:2])
        raise Invalid(f"{first} and {second} contradict each other; send one of them", pointer=f"/{second}")
    return given[0][0]


def saved_schedule(definition: Definition) -> Schedule:
    """The schedule inside a stored definition."""
    return Schedule(
        type=definition.schedule_type,
        at=definition.schedule_time,
        cron_expression=definition.cron_expression,
        interval_seconds=definition.interval_seconds,
        timezone=definition.timezone,
        anchor=definition.anchor,
    )


def first_due(schedule: Schedule, now: float) -> float | None:
    """When a new job fires first; None for an IMMEDIATE one (at once) and for a recurring one that never will."""
    if schedule.type is ScheduleType.FUTURE:
        return schedule.at
    return schedules.next_fire(schedule, now)


def replan(schedule: Schedule, job_id: UUID, now: float, missed: tuple[NewRun, ...] = ()) -> Replan:
    """What a job does from `now` on under this schedule."""
    if schedule.recurs:
        kept = schedules.fires_between(schedule, now, now + KEPT_AHEAD_SECONDS, KEPT_MAX)
        due = kept[0] if kept else schedules.next_fire(schedule, now)
        return Replan(recurring=True, next_due=due, keep_dues=kept, missed=missed)
    due = round(now, 6) if schedule.at is None else schedule.at
    return Replan(recurring=False, next_due=due, run_id=run_id(job_id, due), keep_dues=(due,), missed=missed)


def silence(*, recurring: bool, next_due: float | None = None) -> Replan:
    """No fire by schedule, or none before `next_due`."""
    return Replan(recurring=recurring, next_due=next_due)


def upcoming(schedule: Schedule, now: float, count: int) -> list[float]:
    """The next fires, an IMMEDIATE job's own first one included."""
    if schedule.type is ScheduleType.IMMEDIATE:
        return [now]
    return schedules.preview(schedule, now, count)
