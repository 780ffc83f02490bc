"""Celery's schedules, `crontab(…)` and intervals, as those of a job.

Celery reads a field much as cron does, with differences that matter: a list may be a Python list, names may be longer
than three letters, 7 is no Sunday, and a day must suit the day of the month and the day of the week. At a change of the
clock it starts what the clock skips at the same elapsed time, and what the clock shows twice at the first pass only;
`dst` says the same. (Rules: `celery/schedules.py` of 5.6.)
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Final

from tickwise.importers.translation import (
    MAX_INTERVAL_SECONDS,
    UTC_NAME,
    Untranslatable,
    checked_line,
    days_suiting_both,
    field_text,
    time_text,
)

_MAX_FIELD_CHARACTERS: Final = 500
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

_PART = re.compile(r"(?:(?P<star>\*)|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>\d{1,4}))?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crontab:
    """The arguments of a `crontab(…)`: each a number, a text, or a list of numbers."""

    minute: Any = "*"
    hour: Any = "*"
    day_of_week: Any = "*"
    day_of_month: Any = "*"
    month_of_year: Any = "*"


@dataclass(frozen=True, slots=True)
class Interval:
    """Seconds from one start to the next."""

    seconds: float
    relative: bool = False
    """Celery rounds the times to whole minutes, hours or days."""


CRONTAB_FIELDS: Final = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")
"""In the order of `crontab(…)`'s parameters."""


def crontab_of_line(text: str) -> Crontab:
    """As `crontab.from_string` reads a line."""
    fields = text.split()
    if len(text) > _MAX_FIELD_CHARACTERS or len(fields) != 5:
        raise Untranslatable(f"{text[:60]!a} has not five fields; write a line such as '0 3 * * *'")
    minute, hour, day_of_month, month_of_year, day_of_week = fields
    return Crontab(
        minute=minute, hour=hour, day_of_week=day_of_week, day_of_month=day_of_month, month_of_year=month_of_year
    )


def schedule_fields(schedule: Crontab | Interval, zone: str, changes: list[str]) -> dict[str, Any]:
    """The words of a job body that mean this schedule in a time zone. Raises `Untranslatable`."""
    if isinstance(schedule, Interval):
        return _interval(schedule, changes)
    minutes = _values(schedule.minute, "minute", 0, 60)
    hours = _values(schedule.hour, "hour", 0, 24)
    days = _values(schedule.day_of_month, "day_of_month", 1, 31)
    months = _values(schedule.month_of_year, "month_of_year", 1, 12)
    day, weekday = days_suiting_both(days, _values(schedule.day_of_week, "day_of_week", 0, 7))
    line = " ".join((time_text(minutes, 60), time_text(hours, 24), day, field_text(months, 12), weekday))
    found = {"schedule_type": "CRON", "cron_expression": checked_line(line), "timezone": zone}
    return found if zone == UTC_NAME else {**found, "dst": {"gap": "shift", "overlap": "first"}}


def _interval(schedule: Interval, changes: list[str]) -> dict[str, Any]:
    seconds = schedule.seconds
    if not math.isfinite(seconds) or not 1 <= seconds <= MAX_INTERVAL_SECONDS:
        raise Untranslatable(f"an interval has 1 second to 10 years, not {seconds:g} s; write one of these")
    if schedule.relative:
        changes.append("`relative`: the interval counts from the import on, Celery rounds it to whole units of time")
    return {"schedule_type": "INTERVAL", "interval_seconds": int(seconds) if seconds == int(seconds) else seconds}


def _values(given: Any, name: str, low: int, size: int) -> set[int]:
    """The numbers that a field names."""
    if isinstance(given, str):
        if len(given) > _MAX_FIELD_CHARACTERS:
            raise Untranslatable(f"{name} has more than {_MAX_FIELD_CHARACTERS} characters; write a range or a step")
        return {value for part in given.split(",") for value in _part(part, name, low, size)}
    items = list(given) if isinstance(given, list | tuple | set | frozenset) else [given]
    if not items or not all(isinstance(item, int) and not isinstance(item, bool) for item in items):
        raise Untranslatable(f"{name} is no number, text or list of numbers; write one such as '*/15' or [0, 30]")
    for item in items:
        _check(item, str(item) if abs(item) < 1_000_000 else "the number", name, low, size)
    return set(items)


def _part(part: str, name: str, low: int, size: int) -> list[int]:
    match = _PART.fullmatch(part)
    if match is None or (match["step"] and match["first"] and not match["last"]):
        raise Untranslatable(
            f"{name}: {part[:30]!a} cannot be read; write `*`, `*/15`, `1-5`, `1-9/2`, or a list of these"
        )
    step = int(match["step"] or 1)
    if step == 0:
        raise Untranslatable(f"{name}: {part[:30]!a} has a step of 0; write at least 1")
    if match["star"]:
        return list(range(low, low + size))[::step]
    first = _number(match["first"], name, low, size)
    last = first if match["last"] is None else _number(match["last"], name, low, size)
    if last < first:
        last += size
    return [low + (value - low) % size for value in range(first, last + 1)][::step]


def _number(text: str, name: str, low: int, size: int) -> int:
    if text.isdigit():
        return _check(int(text[:9]), text, name, low, size)
    # Celery looks for a month in every field, then for a weekday, by three letters of the name.
    short = text[:3].lower()
    if short in _MONTHS:
        return _check(_MONTHS.index(short) + 1, text, name, low, size)
    if short in _WEEKDAYS:
        return _check(_WEEKDAYS.index(short), text, name, low, size)
    raise Untranslatable(
        f"{name}: {text[:30]!a} is no number and no name; write numbers from {low} to {low + size - 1}"
    )


def _check(value: int, text: str, name: str, low: int, size: int) -> int:
    if not low <= value < low + size:
        hint = "; Sunday is 0" if name == "day_of_week" and value == 7 else ""
        raise Untranslatable(f"{name}: {text[:30]!a} does not lie between {low} and {low + size - 1}{hint}")
    return value
