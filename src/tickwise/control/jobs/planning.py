"""From the fields of a schedule to its fires: short forms, inference, contradictions, and the plan of a job.

    Said ──┬─ words ──► long form, one type ──┐
           └─ policies ───────────────────────┴──► Plan ── check ──► Timing (the plan, its first due time, warnings)

Pure functions. Every refusal points at the field as the caller wrote it: who sent `cron` reads of `/cron`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from tickwise.control.bodies import SCHEDULE_DETAILS, SCHEDULE_NAMED, SCHEDULE_POLICIES, TEXT_MAX
from tickwise.control.times import instant
from tickwise.documents.definition import CalendarUse, ClockChanges, MisfirePolicy, Plan
from tickwise.documents.drawn_fields import DrawnFields
from tickwise.domain import schedule as schedules
from tickwise.domain.cron import expression as cron
from tickwise.domain.decision import Overlap
from tickwise.domain.errors import Invalid
from tickwise.domain.job_fields import SCHEDULE_FIELDS
from tickwise.domain.model import run_id
from tickwise.domain.schedule import ASKED_FOR, UNTIMED, MisfireMode, Schedule, ScheduleType
from tickwise.domain.zones import LAST_INSTANT, data_version

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)", re.ASCII)
_UNIT_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
WILL_NEVER_FIRE: Final = "it will never fire: its schedule names no time from now on"


class ScheduleFields(Protocol):
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
    start_at: datetime | UnsetType | None
    end_at: datetime | UnsetType | None
    max_runs: int | UnsetType | None
    dst: ClockChanges | UnsetType | None
    jitter_seconds: float | UnsetType | None
    window_seconds: float | UnsetType | None
    misfire: MisfirePolicy | UnsetType | None
    overlap: Overlap | UnsetType | None
    calendars: list[CalendarUse] | UnsetType | None


class NormalizedSchedule(NamedTuple):
    """The fields of a schedule in the long form, with the names that were used."""

    kind: ScheduleType | None
    at: float | None
    cron: str | None
    interval_seconds: float | None
    used: dict[str, str]
    """From the long name to the short one, for pointers."""
    warnings: tuple[str, ...]


class Timing(msgspec.Struct, frozen=True):
    """A plan that was checked, and what follows from it at the moment."""

    plan: Plan
    due: float | None
    """The time of its first fire; None for an IMMEDIATE one (at once) and for one that never will."""
    recurs: bool = False
    """There may be further runs of it: ON_DEMAND too."""
    never: bool = False
    warnings: tuple[str, ...] = ()
    usual: bool = False
    """Nothing but type and time is other than the default."""
    run_id: UUID | None = None
    """The id of its only run; None if it recurs, or a scheduler must decide it."""
    zone_data: str | None = None
    """The version of the zone data behind `due`; None if no zone's rules were needed."""


UTC_NAME: Final = "UTC"
RECURRING: Final = (ScheduleType.CRON, ScheduleType.INTERVAL)
LASTING: Final = (*RECURRING, ScheduleType.ON_DEMAND)
"""Jobs of which there may be another run at any time: stores keep them, and they can be paused."""
ABOUT_TIMES: Final = ("misfire", "overlap", "calendars", *(field.name for field in SCHEDULE_FIELDS))
_DRAWN: Final = DrawnFields(SCHEDULE_FIELDS)
_policies_sent = attrgetter(*SCHEDULE_POLICIES)
_NO_POLICIES: Final = (UNSET,) * len(SCHEDULE_POLICIES)
_AT_ONCE: Final = Plan(schedule_type=ScheduleType.IMMEDIATE)
_UTC_SAID: Final = (UNSET, None, UTC_NAME)
_FUTURE_SAID: Final = (ScheduleType.FUTURE, None)


def duration_seconds(text: str, pointer: str = "/every") -> float:
    """Seconds of `90s`, `5m`, `1h30m`."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise Invalid("write a duration such as 30s, 5m, 1h30m, 1d or 1w", pointer=pointer)
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)


# ------------------------------------------------------------------------------------------ a schedule of its own


def timing(said: ScheduleFields, job_id: UUID, now: float) -> Timing:
    """`planned`, on a short way for almost every job of a busy day. All other bodies, and refused ones, take the long
    way."""
    return _usual(said, job_id, now) or planned(said, job_id, now)


def _usual(said: ScheduleFields, job_id: UUID, now: float) -> Timing | None:
    """The timing of one time to come, under either name, or of at once; None for all other bodies."""
    if (
        said.cron_expression or said.cron or said.interval_seconds or said.every or said.anchor
        or said.timezone not in _UTC_SAID or said.start_at or said.end_at or said.max_runs or said.dst
        or (said.schedule_time and said.at) or _policies_sent(said) != _NO_POLICIES
    ):  # fmt: skip
        return None
    kind, time = said.schedule_type or None, said.schedule_time or said.at
    if time and kind in _FUTURE_SAID:
        at = instant(time)
        if now <= at <= LAST_INSTANT:
            plan = Plan(schedule_type=ScheduleType.FUTURE, schedule_time=at)
            return Timing(plan, at, usual=True, run_id=run_id(job_id, at))
    elif not time and kind is ScheduleType.IMMEDIATE:
        return Timing(_AT_ONCE, None, usual=True, run_id=run_id(job_id, now))
    return None


def planned(said: ScheduleFields, job_id: UUID, now: float, before: Plan | None = None) -> Timing:
    """The plan that was meant, checked; policies that were not said are those of `before`. Raises `Invalid`."""
    found = words(said)
    kind = found.kind or _inferred(found)
    policies = _policies(said, before)
    warnings = _unspread(kind, policies, said) if kind in UNTIMED else ()
    warnings += _idle(said) if kind is ScheduleType.ON_DEMAND else ()
    plan = Plan(
        schedule_type=kind,
        schedule_time=found.at,
        cron_expression=found.cron,
        interval_seconds=found.interval_seconds,
        anchor=instant(said.anchor) if said.anchor else None,
        timezone=said.timezone or UTC_NAME,
        start_at=instant(said.start_at) if said.start_at else None,
        end_at=instant(said.end_at) if said.end_at else None,
        max_runs=said.max_runs or None,
        dst=said.dst or ClockChanges(),
        # To the microsecond, as every store keeps it.
        planned_at=round(now, 6) if kind in RECURRING else None,
        **policies,
    )
    return _timed(_anchored(plan), job_id, now, found.used, (*found.warnings, *warnings))


def _anchored(plan: Plan) -> Plan:
    """An interval counts from somewhere: if nothing was said, from its start, or from now."""
    if plan.schedule_type is not ScheduleType.INTERVAL or plan.anchor is not None:
        return plan
    return msgspec.structs.replace(plan, anchor=plan.planned_at if plan.start_at is None else plan.start_at)


def _timed(plan: Plan, job_id: UUID, now: float, used: dict[str, str], warnings: tuple[str, ...]) -> Timing:
    """A plan after its check, with what follows from it."""
    schedule = plan.schedule(job_id)
    try:
        schedules.check(schedule, now=now)
    except Invalid as refusal:
        name = (refusal.pointer or "").removeprefix("/")
        if name in used:
            refusal.pointer = f"/{used[name]}"
        raise
    if plan.schedule_type is ScheduleType.ON_DEMAND:
        return Timing(plan, None, True, True, warnings)
    if not schedule.recurs:
        only = None if is_decided(plan) else run_id(job_id, now if schedule.at is None else schedule.at)
        return Timing(plan, schedule.at, warnings=warnings, run_id=only)
    due = schedules.next_fire(schedule, now)
    said = (*schedules.warnings(schedule), *warnings, *((WILL_NEVER_FIRE,) if due is None else ()))
    return Timing(plan, due, True, due is None, said, zone_data=zone_data(plan))


def retimed(plan: Plan, job_id: UUID, now: float) -> Timing:
    """A plan that was made elsewhere at `now`: checked, and what follows from it. Raises `Invalid`."""
    if plan.schedule_type is ScheduleType.INTERVAL and plan.anchor is None:
        raise Invalid("an interval counts from an anchor", pointer="/anchor")
    _calendars(plan.calendars)
    return _timed(plan, job_id, now, {}, ())


def words(said: ScheduleFields) -> NormalizedSchedule:
    """The fields of a schedule, without short forms. Raises `Invalid` where one field was given twice."""
    used: dict[str, str] = {}
    warnings: tuple[str, ...] = ()
    kind = said.schedule_type or None
    at, line, interval = said.schedule_time or None, said.cron_expression or None, said.interval_seconds or None
    if said.at:
        _said_once(at, "schedule_time", "at")
        at, used["schedule_time"] = said.at, "at"
    if said.cron:
        _said_once(line, "cron_expression", "cron")
        line, used["cron_expression"] = said.cron, "cron"
    if said.every:
        _said_once(interval, "interval_seconds", "every")
        interval, used["interval_seconds"] = duration_seconds(said.every), "every"
    seconds = None if line is None else _every(line, used.get("cron_expression", "cron_expression"))
    if seconds is not None:
        name = used.pop("cron_expression", "cron_expression")
        if interval is not None:
            other = used.get("interval_seconds", "interval_seconds")
            raise Invalid(f"{name} and {other} contradict each other; send one of them", pointer=f"/{other}")
        kind = ScheduleType.INTERVAL if kind is ScheduleType.CRON else kind
        warnings = (
            f"{line!r} is kept as an INTERVAL with interval_seconds {seconds:g}: it counts from its anchor, start_at "
            "or the moment at which it is stored, not by the wall clock",
        )
        line, interval, used["interval_seconds"] = None, seconds, name
    return NormalizedSchedule(kind, None if at is None else instant(at), line, interval, used, warnings)


def _every(line: str, name: str) -> float | None:
    """The seconds of `@every 90s`; None for every other line."""
    if "@" not in line:
        return None
    try:
        return cron.every_seconds(line)
    except Invalid as refusal:
        refusal.pointer = f"/{name}"
        raise


def _said_once(long_form: object, name: str, alias: str) -> None:
    if long_form is not None:
        raise Invalid(f"{alias} is short for {name}; send one of them", pointer=f"/{alias}")


def _inferred(said: NormalizedSchedule) -> ScheduleType:
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
            "say when it shall run: schedule_type IMMEDIATE for at once, ON_DEMAND for only when it is asked for, or "
            "schedule_time, cron_expression or interval_seconds",
            pointer="/schedule_type",
        )
    if len(given) > 1:
        first, second = (said.used.get(name, name) for _, name in given[:2])
        raise Invalid(f"{first} and {second} contradict each other; send one of them", pointer=f"/{second}")
    return given[0][0]


# ------------------------------------------------------------------------------------------ policies


def _policies(said: ScheduleFields, before: Plan | None) -> dict[str, Any]:
    """The fields of a plan that say what is done with its times; what was not said is as `before`, or the default."""
    found: dict[str, Any] = {} if before is None else {name: getattr(before, name) for name in SCHEDULE_POLICIES}
    if _policies_sent(said) == _NO_POLICIES:
        return found
    if said.jitter_seconds is not UNSET:
        found["jitter_seconds"] = float(said.jitter_seconds or 0.0)
        if said.jitter_seconds and said.window_seconds is UNSET:
            found["window_seconds"] = 0.0
    if said.window_seconds is not UNSET:
        found["window_seconds"] = float(said.window_seconds or 0.0)
        if said.window_seconds and said.jitter_seconds is UNSET:
            found["jitter_seconds"] = 0.0
    if said.misfire is not UNSET:
        found["misfire"] = said.misfire or MisfirePolicy()
    if said.overlap is not UNSET:
        found["overlap"] = said.overlap or Overlap.SKIP
    if said.calendars is not UNSET:
        found["calendars"] = _calendars(said.calendars or [])
    return found | _DRAWN.sent(said)


def _calendars(uses: Sequence[CalendarUse]) -> tuple[CalendarUse, ...]:
    names: set[str] = set()
    for place, use in enumerate(uses):
        pointer = f"/calendars/{place}/name"
        if not 1 <= len(use.name) <= TEXT_MAX or "\0" in use.name:
            raise Invalid(f"the name of a calendar has 1 to {TEXT_MAX} characters, and no U+0000", pointer=pointer)
        if use.name in names:
            raise Invalid(f"the calendar {use.name!r} is named twice; name it once", pointer=pointer)
        names.add(use.name)
    return tuple(uses)


def _idle(said: ScheduleFields) -> tuple[str, ...]:
    """Refuse fields about scheduled times where there are none."""
    names = [name for name in ABOUT_TIMES if getattr(said, name)]
    return (f"{' and '.join(names)} concern runs by schedule, and this job has no schedule",) if names else ()


def _unspread(kind: ScheduleType, policies: dict[str, Any], said: ScheduleFields) -> tuple[str, ...]:
    """A spread that the job had before means nothing to what has no time now."""
    runs = ASKED_FOR if kind is ScheduleType.ON_DEMAND else "at once"
    warnings: tuple[str, ...] = ()
    for name, value in (("jitter_seconds", said.jitter_seconds), ("window_seconds", said.window_seconds)):
        if policies.get(name) and not value:
            policies[name] = 0.0
            warnings += (f"{name} has no meaning for a job that runs {runs}, so it was removed",)
    return warnings


# ------------------------------------------------------------------------------------------ a change


class Replanned(NamedTuple):
    """The plan after a change."""

    timing: Timing
    anew: bool
    """A new schedule was named; else the one that was there goes on with other details or policies."""
    times_changed: bool
    """Its occurrences may be others than before."""


def replanned(said: ScheduleFields, before: Plan, job_id: UUID, now: float) -> Replanned | None:
    """The plan after a change; None if nothing was said of it. Raises `Invalid`."""
    if any(getattr(said, name) is not UNSET for name in SCHEDULE_NAMED):
        return Replanned(planned(said, job_id, now, before), anew=True, times_changed=True)
    details = any(getattr(said, name) is not UNSET for name in SCHEDULE_DETAILS)
    if not details and all(getattr(said, name) is UNSET for name in SCHEDULE_POLICIES):
        return None
    policies = _policies(said, before)
    plan = msgspec.structs.replace(before, **_details(said), **policies)
    others = details and plan != msgspec.structs.replace(before, **policies)
    if others and plan.schedule_type in RECURRING:
        plan = _anchored(msgspec.structs.replace(plan, planned_at=round(now, 6)))
        return Replanned(_timed(plan, job_id, now, {}, ()), anew=False, times_changed=True)
    # A time that has passed is no fault of what is said here: it is not checked against now.
    schedule = plan.schedule(job_id)
    schedules.check(schedule)
    lasts = plan.schedule_type in LASTING
    timing = Timing(plan, None, lasts, warnings=schedules.warnings(schedule))
    return Replanned(timing, anew=False, times_changed=False)


def _details(said: ScheduleFields) -> dict[str, Any]:
    """The details of a schedule that were said; `null` is the default."""
    found: dict[str, Any] = {}
    for name in ("anchor", "start_at", "end_at"):
        value = getattr(said, name)
        if value is not UNSET:
            found[name] = None if value is None else instant(value)
    if said.timezone is not UNSET:
        found["timezone"] = said.timezone or UTC_NAME
    if said.max_runs is not UNSET:
        found["max_runs"] = said.max_runs
    if said.dst is not UNSET:
        found["dst"] = said.dst or ClockChanges()
    return found


# ------------------------------------------------------------------------------------------ what follows from a plan


def plan_of(definition: Plan) -> Plan:
    """The plan alone, of a whole definition."""
    return Plan(**{name: getattr(definition, name) for name in Plan.__struct_fields__})


def plan_fields(plan: Plan) -> dict[str, Any]:
    """The fields of the definition that say when, and what then."""
    return msgspec.structs.asdict(plan)


def is_decided(plan: Plan) -> bool:
    """Check whether a scheduler must decide the only occurrence of a one-time job."""
    return bool(plan.calendars or plan.jitter_seconds or plan.window_seconds or plan.misfire.mode is MisfireMode.SKIP)


def zone_data(plan: Plan) -> str | None:
    """The version of the zone data that its times are computed with; None if no zone's rules are needed."""
    if plan.schedule_type is ScheduleType.CRON and plan.timezone != UTC_NAME:
        return data_version()
    return None


def upcoming(schedule: Schedule, after: float, count: int) -> list[float]:
    """The next fires, an IMMEDIATE job's own first one included."""
    if schedule.type is ScheduleType.IMMEDIATE:
        return [after]
    return schedules.preview(schedule, after, count)
