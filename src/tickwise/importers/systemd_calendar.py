"""systemd's calendar events (`OnCalendar=`): read as systemd 252 reads them, and said as a cron line with seconds.

    Mon..Fri *-*-01..07 02:00:00 Europe/Berlin
    │        │ │ │      │  │  │  └ zone, else the machine's
    │        │ │ │      └ hour, minute, second
    │        └ year, month, day (after `~`: counted from the end of the month)
    └ weekdays; a day must suit weekday and date

Each part becomes the set of values that it names; sets are then written as cron fields. Invariant: a line that comes
out fires at exactly the wall times that the event names, and what cannot be said so raises `Untranslatable`. The
grammar is that of systemd.time(7); where the manual is silent, that of `calendarspec.c`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from tickwise.importers.translation import (
    ALL_WEEKDAYS,
    UTC_NAME,
    Untranslatable,
    checked_line,
    days_suiting_both,
    field_text,
    known_zone,
    time_text,
)

# The longest that is any use lists all the minutes of an hour, twice.
_MAX_CHARACTERS: Final = 500

_NAMED: Final = {
    "minutely": "*-*-* *:*:00",
    "hourly": "*-*-* *:00:00",
    "daily": "*-*-* 00:00:00",
    "weekly": "Mon *-*-* 00:00:00",
    "monthly": "*-*-01 00:00:00",
    "quarterly": "*-01,04,07,10-01 00:00:00",
    "semiannually": "*-01,07-01 00:00:00",
    "semi-annually": "*-01,07-01 00:00:00",
    "biannually": "*-01,07-01 00:00:00",
    "bi-annually": "*-01,07-01 00:00:00",
    "yearly": "*-01-01 00:00:00",
    "annually": "*-01-01 00:00:00",
    "anually": "*-01-01 00:00:00",  # systemd takes this slip too
}
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTH_LENGTHS: Final = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

_WEEKDAY_WORD = re.compile(r"[A-Za-z][A-Za-z.,-]*", re.ASCII)
_DATE = re.compile(r"(?:(?P<year>[^-~]+)-)?(?P<month>[^-~]+)(?P<sign>[-~])(?P<day>[^-~]+)")
_ITEM = re.compile(r"(?P<first>\d{1,4})(?:\.\.(?P<last>\d{1,4}))?(?:/(?P<step>\d{1,4}))?", re.ASCII)
_SECOND_ITEM = re.compile(
    r"(?P<first>\d{1,4})(?:\.0*)?(?:\.\.(?P<last>\d{1,4})(?:\.0*)?)?(?:/(?P<step>\d{1,4})(?:\.0*)?)?", re.ASCII
)
_FRACTION = re.compile(r"[\d./,]*\.\d[\d./,]*", re.ASCII)
_STAMP = re.compile(r"@\d{1,12}", re.ASCII)


class _Part(NamedTuple):
    """One part of the date or the time: its values run from `low` to `high`."""

    name: str
    low: int
    high: int


_YEAR: Final = _Part("year", 1970, 2199)
_MONTH: Final = _Part("month", 1, 12)
_DAY: Final = _Part("day", 1, 31)
_DAY_FROM_END: Final = _Part("day from the end of the month", 1, 28)
_HOUR: Final = _Part("hour", 0, 23)
_MINUTE: Final = _Part("minute", 0, 59)
_SECOND: Final = _Part("second", 0, 59)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarEvent:
    """The wall times of an `OnCalendar=`: all whose parts are in these sets."""

    weekdays: frozenset[int]
    """0 is Sunday."""
    years: frozenset[int] | None
    """None: every year."""
    months: frozenset[int]
    days: frozenset[int]
    """1 is the first of the month, or its last day if they count `from_end`."""
    from_end: bool
    hours: frozenset[int]
    minutes: frozenset[int]
    seconds: frozenset[int]
    timezone: str | None
    """None: that of the machine."""


class CalendarLine(NamedTuple):
    """The line as the schedule of a job."""

    cron_expression: str
    first_year: int | None
    last_year: int | None
    """It runs from the begin of the first to the end of the last year; None: no bound."""


def read_calendar(text: str) -> CalendarEvent:
    """Read the value of an `OnCalendar=`. Raises `Untranslatable` for what systemd refuses, and for fractions of
    a second."""
    if not text or len(text) > _MAX_CHARACTERS:
        raise Untranslatable(f"a calendar event has 1 to {_MAX_CHARACTERS} characters, such as `*-*-* 02:00:00`")
    if _STAMP.fullmatch(text):
        return _of_stamp(int(text[1:]))
    words = text.split(" ")
    words = [word for word in words if word]
    timezone = None
    if len(words) > 1 and words[-1][0].isalpha():
        timezone = known_zone(words.pop(), "the zone of the calendar event")
    if len(words) == 1 and words[0].lower() in _NAMED:
        words = _NAMED[words[0].lower()].split(" ")
    weekdays = ALL_WEEKDAYS
    if words and _WEEKDAY_WORD.fullmatch(words[0]):
        weekdays = _weekdays(words.pop(0))
    date = words.pop(0) if words and ":" not in words[0] else None
    time = words.pop(0) if words and ":" in words[0] else None
    if words:
        raise _unreadable(
            words[0], "write weekday, date, time and zone in this order, such as `Mon *-*-* 02:00:00 UTC`"
        )
    years, months, days, from_end = _date(date)
    hours, minutes, seconds = _time(time)
    return CalendarEvent(
        weekdays=weekdays,
        years=years,
        months=months,
        days=days,
        from_end=from_end,
        hours=hours,
        minutes=minutes,
        seconds=seconds,
        timezone=timezone,
    )


def _unreadable(word: str, advice: str) -> Untranslatable:
    shown = word if len(word) <= 30 else word[:29] + "…"
    return Untranslatable(f"{shown!a} is no part of a calendar event; {advice}")


def _of_stamp(seconds: int) -> CalendarEvent:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=min(seconds, 7_258_118_399))
    return CalendarEvent(
        weekdays=ALL_WEEKDAYS,
        years=frozenset({at.year}),
        months=frozenset({at.month}),
        days=frozenset({at.day}),
        from_end=False,
        hours=frozenset({at.hour}),
        minutes=frozenset({at.minute}),
        seconds=frozenset({at.second}),
        timezone=UTC_NAME,
    )


def _weekdays(text: str) -> frozenset[int]:
    """`Mon`, `Mon..Fri`, `mon,wed-fri`: numbers as in cron, 0 is Sunday. The week begins on Monday here."""
    found: set[int] = set()
    items = text.split(",")
    if items[-1] == "" and len(items) > 1:
        items.pop()  # systemd takes a comma at the end
    for item in items:
        first, separator, last = item.partition(".." if ".." in item else "-")
        begin = _weekday(first)
        end = _weekday(last) if separator else begin
        if end < begin:
            raise _unreadable(item, "the week begins on Monday; write `Sat,Sun,Mon` instead of `Sat..Mon`")
        found.update((day + 1) % 7 for day in range(begin, end + 1))
    return frozenset(found)


def _weekday(name: str) -> int:
    for number, weekday in enumerate(_WEEKDAYS):
        if name.lower() in (weekday, weekday[:3]):
            return number
    raise _unreadable(name, "a weekday is written `Mon` or `Monday`")


def _date(text: str | None) -> tuple[frozenset[int] | None, frozenset[int], frozenset[int], bool]:
    if text is None:
        return None, _all(_MONTH), _all(_DAY), False
    match = _DATE.fullmatch(text)
    if match is None:
        raise _unreadable(text, "a date is written `*-*-01`, `12-24`, or `*-*~01` for the last day of a month")
    year = match["year"]
    from_end = match["sign"] == "~"
    if match["day"] == "*":
        days, from_end = _all(_DAY), False
    elif from_end:
        days = _values_from_end(match["day"])
    else:
        days = _values(match["day"], _DAY)
    years = None if year is None or year == "*" else _values(year, _YEAR)
    return years, _values(match["month"], _MONTH), days, from_end


def _time(text: str | None) -> tuple[frozenset[int], frozenset[int], frozenset[int]]:
    if text is None:
        return frozenset({0}), frozenset({0}), frozenset({0})
    parts = text.split(":")
    if len(parts) not in (2, 3):
        raise _unreadable(text, "a time is written `02:30` or `02:30:00`")
    seconds = frozenset({0}) if len(parts) == 2 else _values(parts[2], _SECOND)
    return _values(parts[0], _HOUR), _values(parts[1], _MINUTE), seconds


def _all(part: _Part) -> frozenset[int]:
    return frozenset(range(part.low, part.high + 1))


def _values(text: str, part: _Part) -> frozenset[int]:
    """`*`, `1,3`, `1..5`, `0/15`, `8..18/2`."""
    if text == "*":
        return _all(part)
    found: set[int] = set()
    for first, last, step in _items(text, part):
        found.update(range(first, (part.high if last is None else last) + 1, step) if step else (first,))
    return frozenset(found)


def _values_from_end(text: str) -> frozenset[int]:
    """Days that are counted from the end: `07/1` goes on from the seventh-last day to the last."""
    found: set[int] = set()
    for first, last, step in _items(text, _DAY_FROM_END):
        if last is not None:
            found.update(range(first, last + 1, step))
        elif step:
            found.update(range(first, 0, -step))
        else:
            found.add(first)
    return frozenset(found)


def _items(text: str, part: _Part) -> list[tuple[int, int | None, int]]:
    """Each item as (first, last, step): the step is 0 for a single value, the last None if there is no end."""
    if part is _SECOND and "." in text.replace("..", ""):
        _refuse_fraction(text)
    found = []
    for item in text.split(","):
        match = (_SECOND_ITEM if part is _SECOND else _ITEM).fullmatch(item)
        if match is None:
            raise _unreadable(
                item, f"the {part.name} is written `*`, `{part.low + 1}`, `1..5`, `0/15`, or a list of these"
            )
        first = _whole(match["first"], part)
        last = _whole(match["last"], part) if match["last"] else None
        if not part.low <= first <= part.high or (last is not None and not first <= last <= part.high):
            raise _unreadable(item, f"the {part.name} lies between {part.low} and {part.high}, and a range ascends")
        step = int(match["step"]) if match["step"] else int(last is not None)
        if match["step"] and not 1 <= step <= _step_most(part, first, last):
            raise _unreadable(item, "the step must lead to a further value, else write the value alone")
        found.append((first, last, step))
    return found


def _whole(digits: str, part: _Part) -> int:
    """The number; a year of two digits lies between 1970 and 2069."""
    number = int(digits)
    if part is _YEAR and number < 100:
        return number + (2000 if number < 70 else 1900)
    return number


def _step_most(part: _Part, first: int, last: int | None) -> int:
    """The largest step that systemd takes: without an end to go to, it must reach at least one more value."""
    if last is not None:
        return part.high
    return first - 1 if part is _DAY_FROM_END else part.high - first


def _refuse_fraction(text: str) -> None:
    for item in text.split(","):
        if _FRACTION.fullmatch(item) and not _SECOND_ITEM.fullmatch(item):
            raise Untranslatable("it names fractions of a second; a job starts at whole seconds: write them without")


# ----------------------------------------------------------------------------------------------------- as a cron line


def as_cron(event: CalendarEvent) -> CalendarLine:
    """The event as a cron line with seconds and the years that bound it. Raises `Untranslatable`."""
    first_year, last_year = _bounds(event.years)
    day, weekday = _day_fields(event)
    fields = (
        time_text(event.seconds, 60),
        time_text(event.minutes, 60),
        time_text(event.hours, 24),
        day,
        field_text(event.months, 12),
        weekday,
    )
    # The seconds are left out where they say nothing: most people read five fields.
    expression = " ".join(fields[1:] if event.seconds == {0} else fields)
    return CalendarLine(checked_line(expression), first_year, last_year)


def _bounds(years: frozenset[int] | None) -> tuple[int | None, int | None]:
    if years is None:
        return None, None
    first, last = min(years), max(years)
    if len(years) != last - first + 1:
        raise Untranslatable(
            "years with gaps between them have no cron line; write one timer for each stretch of years"
        )
    # systemd looks no further than 2199: a stretch up to there has no end.
    return first, None if last == _YEAR.high else last


def _day_fields(event: CalendarEvent) -> tuple[str, str]:
    if not event.from_end:
        return days_suiting_both(event.days, event.weekdays)
    if event.days == {1}:
        if event.weekdays == ALL_WEEKDAYS:
            return "L", "*"
    elif event.days == set(range(1, 8)) and event.weekdays != ALL_WEEKDAYS:
        return "*", ",".join(f"{weekday}L" for weekday in sorted(event.weekdays))
    lengths = {_MONTH_LENGTHS[month] for month in event.months}
    if len(lengths) == 1 and 2 not in event.months:
        length = lengths.pop()
        return days_suiting_both({length + 1 - day for day in event.days}, event.weekdays)
    raise Untranslatable(
        "days counted from the end of a month have a cron line only as the last day (`*-*~01`) or as the last such "
        "weekday (`Fri *-*~07/1`); write one of these, or fixed days such as `*-*-28`"
    )
