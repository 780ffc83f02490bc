"""A cron line in plain English: what a person would say, made from the masks and not from the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tickwise.domain.cron.fields import HOUR, MINUTE, SECOND, FieldKind
from tickwise.domain.cron.wall_times import ALL_DAYS, ALL_MONTHS, ALL_WEEKDAYS, WallTimes

_WEEKDAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth")
# Up to this many clock times are easier to read one by one than as separate minutes and hours.
_CLOCK_TIMES_MAX: Final = 6


def explain(line: WallTimes, hashed: Sequence[str]) -> str:
    """The line in words, such as "at 02:30, Monday to Friday" or "every 5 minutes, in December". `hashed`: the fields
    that `H` picked."""
    parts = [_time_of_day(line), _days(line)]
    if line.months != ALL_MONTHS:
        parts.append("in " + _join(_runs(line.months, 1, 12, _MONTHS)))
    told = ", ".join(part for part in parts if part)
    return f"{told} ({_join(list(hashed))} picked by H)" if hashed else told


def _time_of_day(line: WallTimes) -> str:
    minutes, hours = _bits(line.minutes), _bits(line.hours)
    seconds = "" if line.seconds == 1 else _seconds(line)
    if seconds and line.minutes == MINUTE.everything:
        return seconds + _of_hours(line.hours)
    if len(minutes) * len(hours) <= _CLOCK_TIMES_MAX and (len(hours) < 6 or len(minutes) == 1):
        second = _bits(line.seconds)
        ending = f":{second[0]:02}" if seconds and len(second) == 1 else ""
        times = _join([f"{hour:02}:{minute:02}{ending}" for hour in hours for minute in minutes])
        word = "minute" if len(minutes) * len(hours) == 1 else "minutes"
        return f"{seconds} in the {word} {times}" if seconds and not ending else f"at {times}"
    lead = f"{seconds} of " if seconds else ""
    every = _step(line.minutes, MINUTE)
    if every:
        return f"{lead}{every}{_of_hours(line.hours)}"
    word = "minute" if len(minutes) == 1 else "minutes"
    past = f"{word} {_join(_runs(line.minutes, 0, 59))} of {_which_hours(line.hours)}"
    return f"{lead}{past}" if lead else f"at {past}"


def _seconds(line: WallTimes) -> str:
    every = _step(line.seconds, SECOND)
    word = "second" if line.seconds.bit_count() == 1 else "seconds"
    return every or f"at {word} {_join(_runs(line.seconds, 0, 59))} of every minute"


def _of_hours(hours: int) -> str:
    """The end of a phrase such as "every 5 minutes"."""
    if hours == HOUR.everything:
        return ""
    values = _bits(hours)
    if len(values) == values[-1] - values[0] + 1:
        return f" from {values[0]:02}:00 to {values[-1]:02}:59"
    return f" of {_which_hours(hours)}"


def _which_hours(hours: int) -> str:
    if hours == HOUR.everything:
        return "every hour"
    every = _step(hours, HOUR)
    if every:
        return every.replace("every 2 hours", "every second hour").replace(" hours", "th hour") + ", counted from 00"
    word = "hour" if hours.bit_count() == 1 else "hours"
    return f"{word} {_join(_runs(hours, 0, 23))}"


def _step(mask: int, kind: FieldKind) -> str:
    """ "every 5 minutes" if the values are evenly spaced all around, else an empty text."""
    if mask == kind.everything:
        return f"every {kind.name}"
    values = _bits(mask)
    if len(values) < 3 or values[0] != 0 or kind.size % len(values):
        return ""
    step = kind.size // len(values)
    return f"every {step} {kind.name}s" if values == list(range(0, kind.size, step)) else ""


def _days(line: WallTimes) -> str:
    dates = [] if line.days in (0, ALL_DAYS) else _runs(line.days, 1, 31)
    by_date = [f"day {_join(dates)} of the month"] if dates else []
    if line.last_day and line.days != ALL_DAYS:
        by_date.append("the last day of the month")
    weekdays = [] if line.weekdays in (0, ALL_WEEKDAYS) else _runs(line.weekdays, 0, 6, _WEEKDAYS)
    if line.weekdays != ALL_WEEKDAYS:
        weekdays += [f"the {_ORDINALS[bit // 7]} {_WEEKDAYS[bit % 7]} of the month" for bit in _bits(line.nth_weekdays)]
        weekdays += [f"the last {_WEEKDAYS[bit]} of the month" for bit in _bits(line.last_weekdays)]
    dated, weekly = "on " + _join(by_date), _join(weekdays)
    if not by_date:
        # "Monday to Friday" reads well alone; "the last Friday" needs its preposition.
        return f"on {weekly}" if weekly and (weekly[0] == "t" or (len(weekdays) == 1 and " " not in weekly)) else weekly
    if line.both_days:
        return f"{dated} if that is {_join(weekdays, 'or')}" if weekdays else dated
    return f"{dated} and also on {weekly or 'every day'}"


def _runs(mask: int, low: int, high: int, names: tuple[str, ...] = ()) -> list[str]:
    """The values of a mask, three or more in a row as "a to b"; the names go around (November to February)."""
    size = high - low + 1
    values = _bits(mask)
    starts = [value for value in values if not mask >> (low + (value - low - 1) % size) & 1]
    if not names:
        starts = [value for value in values if value == low or not mask >> (value - 1) & 1]
    shown: list[str] = []
    for start in starts or values[:1]:
        end = start
        while (following := low + (end - low + 1) % size) != start and mask >> following & 1 and (names or end < high):
            end = following
        words = [names[value - low] if names else str(value) for value in (start, end)]
        distance = (end - start) % size
        shown += [words[0]] if distance == 0 else words if distance == 1 else [" to ".join(words)]
    return shown


def _join(parts: list[str], last: str = "and") -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {last} {parts[-1]}" if parts else ""


def _bits(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]
