"""The days of a recurrence rule (RFC 5545, 3.3.10), within a span and within a budget.

`dateutil` has all of the standard, and looks for a day that never comes until the year 9999, in one call that nothing
can stop: 4.4 s for one line of `FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30`, and a file holds thousands. So rules are carried
out here, period by period; in the tests dateutil is the second opinion.

        start ──► period (year, month, week or day) ──► the days in it that suit all parts ──► BYSETPOS ──► days
                    └── the next one, `interval` later, until the span, the rule or the budget ends

Parts that a calendar of closed times does not need are refused by name: rules within a day, and BYWEEKNO.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from enum import StrEnum
from typing import Any, Final

from tickwise.ports.calendars import DaySpan

_WEEKDAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_INTERVAL_MAX: Final = 10_000
_KNOWN: Final = frozenset(
    {"FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYMONTH", "BYMONTHDAY", "BYYEARDAY", "BYDAY", "BYSETPOS"}
)
_TIME_PARTS: Final = ("BYHOUR", "BYMINUTE", "BYSECOND")
# Not even the last day of the year 9999 may be stepped over.
_LAST_YEAR: Final = 9998


class Unreadable(Exception):
    """A part of a file that cannot be taken over; the text says why, and what to write."""


class Frequency(StrEnum):
    """The length of a period."""

    DAILY = "DAILY"
    WEEKLY = "WEEKLY"
    MONTHLY = "MONTHLY"
    YEARLY = "YEARLY"


class Budget:
    """Steps that all rules of a file may take together. A step is about a microsecond: a day that was looked at."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def spend(self, steps: int) -> None:
        """Raises `Unreadable` when there is nothing left."""
        self._left -= steps
        if self._left < 0:
            raise Unreadable(
                "the recurring events of the file come to too many times; give them an UNTIL, or send fewer"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """A rule that was read. Empty tuples: that part was not given."""

    frequency: Frequency
    interval: int = 1
    count: int | None = None
    until: date | None = None
    """The last day that may be one."""
    week_start: int = 0
    """0 is Monday."""
    months: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    year_days: tuple[int, ...] = ()
    weekdays: tuple[tuple[int, int], ...] = ()
    """Number and weekday: (0, 4) is every Friday, (-1, 4) the last one."""
    positions: tuple[int, ...] = ()


# --------------------------------------------------------------------------------------------------------- reading


def read(parts: Mapping[str, Sequence[Any]], start: date | datetime) -> Recurrence:
    """A rule from the parts that `icalendar` read, for an event that begins at `start`. An UNTIL with a zone must have
    been put on the event's wall clock before. Raises `Unreadable`."""
    given = {name.upper(): values for name, values in parts.items()}
    frequency = _frequency(_single(given, "FREQ"))
    _check_times(given, start)
    for name in given:
        if name not in _KNOWN and name not in _TIME_PARTS:
            raise Unreadable(f"{str(name)[:40]} is not supported in a rule; leave it out, or write the days as RDATE")
    if "COUNT" in given and "UNTIL" in given:
        raise Unreadable("a rule may have COUNT or UNTIL, not both")
    rule = Recurrence(
        frequency=frequency,
        interval=_whole(given, "INTERVAL", 1, _INTERVAL_MAX) or 1,
        count=_whole(given, "COUNT", 1, 2**31 - 1),
        until=_until(_single(given, "UNTIL"), start),
        week_start=_weekday(_single(given, "WKST", "MO"))[1],
        months=_numbers(given, "BYMONTH", 12, negative=False),
        month_days=_numbers(given, "BYMONTHDAY", 31),
        year_days=_numbers(given, "BYYEARDAY", 366),
        weekdays=tuple(sorted({_weekday(each) for each in given.get("BYDAY", ())})),
        positions=_numbers(given, "BYSETPOS", 366),
    )
    return _completed(rule, start)


def _frequency(text: Any) -> Frequency:
    name = str(text).upper()
    if name in ("HOURLY", "MINUTELY", "SECONDLY"):
        raise Unreadable(f"FREQ={name} is not taken from a file; write such a window as recurring: cron and duration")
    try:
        return Frequency(name)
    except ValueError:
        raise Unreadable("a rule needs FREQ=DAILY, WEEKLY, MONTHLY or YEARLY") from None


def _check_times(given: Mapping[str, Sequence[Any]], start: date | datetime) -> None:
    """A rule may repeat the time at which its event begins, no other."""
    own = (start.hour, start.minute, start.second) if isinstance(start, datetime) else (0, 0, 0)
    for name, value in zip(_TIME_PARTS, own, strict=True):
        if name in given and list(given[name]) != [value]:
            raise Unreadable(f"{name} is not taken from a file; write an event for each time of day")


def _until(value: Any, start: date | datetime) -> date | None:
    """The last day on which an event that begins at the time of `start` is not after UNTIL."""
    if value is None or not isinstance(value, date):
        if value is not None:
            raise Unreadable("UNTIL must be a day or a time")
        return None
    if not isinstance(value, datetime):
        return value
    late = isinstance(start, datetime) and start.time() > value.time()
    return date.fromordinal(max(1, value.toordinal() - late))


def _completed(rule: Recurrence, start: date) -> Recurrence:
    """With the parts that the start stands for where the rule says nothing of the day, and checked as a whole."""
    if any(number for number, _ in rule.weekdays) and rule.frequency not in (Frequency.MONTHLY, Frequency.YEARLY):
        raise Unreadable("BYDAY with a number, such as 2MO, needs FREQ=MONTHLY or YEARLY")
    if rule.year_days and rule.frequency is not Frequency.YEARLY:
        raise Unreadable("BYYEARDAY needs FREQ=YEARLY")
    if rule.month_days and rule.frequency is Frequency.WEEKLY:
        raise Unreadable("BYMONTHDAY does not go with FREQ=WEEKLY")
    months, month_days, weekdays = rule.months, rule.month_days, rule.weekdays
    if not (month_days or rule.year_days or weekdays):
        if rule.frequency is Frequency.WEEKLY:
            weekdays = ((0, start.weekday()),)
        elif rule.frequency is not Frequency.DAILY:
            month_days = (start.day,)
            months = months or ((start.month,) if rule.frequency is Frequency.YEARLY else ())
    return replace(rule, months=months, month_days=month_days, weekdays=weekdays)


def _single(given: Mapping[str, Sequence[Any]], name: str, default: Any = None) -> Any:
    values = given.get(name)
    if not values:
        return default
    if len(values) > 1:
        raise Unreadable(f"{name} is given more than once in a rule")
    return values[0]


def _whole(given: Mapping[str, Sequence[Any]], name: str, least: int, most: int) -> int | None:
    value = _single(given, name)
    if value is None:
        return None
    if not isinstance(value, int) or not least <= value <= most:
        raise Unreadable(f"{name} must be from {least} to {most}")
    return value


def _numbers(given: Mapping[str, Sequence[Any]], name: str, most: int, *, negative: bool = True) -> tuple[int, ...]:
    values = given.get(name, ())
    for value in values:
        if not isinstance(value, int) or not 1 <= abs(value) <= most or (value < 0 and not negative):
            raise Unreadable(f"{name} must be from 1 to {most}" + (", or negative, from the end" if negative else ""))
    return tuple(sorted({int(value) for value in values}))


def _weekday(value: Any) -> tuple[int, int]:
    text = str(value).upper()
    number, name = text[:-2], text[-2:]
    if name not in _WEEKDAYS or (number and not number.lstrip("+-").isdecimal()) or abs(int(number or 0)) > 53:
        raise Unreadable(f"{text[:20]!r} is no weekday of a rule; write such as MO or -1FR")
    return int(number or 0), _WEEKDAYS.index(name)


# -------------------------------------------------------------------------------------------------------- carrying out


def days(rule: Recurrence, start: date, span: DaySpan, budget: Budget) -> Iterator[date]:
    """The rule's days in the span, ascending, none before `start`. Raises `Unreadable` if the budget does not do."""
    begin, last = start.toordinal(), span.last.toordinal()
    if rule.until is not None:
        last = min(last, rule.until.toordinal())
    # A rule with a count must be followed from its start; any other may skip the periods before the span.
    number = 0 if rule.count is not None else max(0, _periods_between(rule, start, span.first) - 1)
    left, work = rule.count, _work(rule)
    while True:
        first_of_period = _period_start(rule, start, number * rule.interval)
        if first_of_period is None or first_of_period > last:
            return
        budget.spend(work)
        found = _chosen(rule, sorted(_days_in_period(rule, first_of_period)))
        budget.spend(len(found))
        for day in found:
            if day < begin:
                continue
            if day > last or left == 0:
                return
            if left is not None:
                left -= 1
            if day >= span.first.toordinal():
                yield date.fromordinal(day)
        number += 1


def _work(rule: Recurrence) -> int:
    """Steps that a period takes, found or not: what its parts make to look at."""
    if _by_year(rule):
        looked_at = 366
    elif rule.frequency in (Frequency.YEARLY, Frequency.MONTHLY):
        months = (len(rule.months) or 12) if rule.frequency is Frequency.YEARLY else 1
        looked_at = months * (len(rule.month_days) or 8 + len(rule.weekdays))
    else:
        looked_at = 7 if rule.frequency is Frequency.WEEKLY else 1
    return 1 + looked_at + len(rule.positions) // 4


def _by_year(rule: Recurrence) -> bool:
    """Check whether the rule's days are numbered within the year, not within a month."""
    if rule.frequency is not Frequency.YEARLY or (rule.months and not rule.year_days):
        return False
    return bool(rule.year_days) or not rule.month_days or any(number for number, _ in rule.weekdays)


def _periods_between(rule: Recurrence, start: date, first: date) -> int:
    """The least number of times that `interval` periods fit between two days."""
    if rule.frequency is Frequency.YEARLY:
        periods = first.year - start.year
    elif rule.frequency is Frequency.MONTHLY:
        periods = (first.year - start.year) * 12 + first.month - start.month
    else:
        length = 7 if rule.frequency is Frequency.WEEKLY else 1
        periods = (first.toordinal() - start.toordinal()) // length
    return periods // rule.interval


def _period_start(rule: Recurrence, start: date, periods: int) -> int | None:
    """The ordinal of the first day of the period so many after that of `start`; None after the last year."""
    if rule.frequency is Frequency.YEARLY:
        year = start.year + periods
        return date(year, 1, 1).toordinal() if year <= _LAST_YEAR else None
    if rule.frequency is Frequency.MONTHLY:
        years, month = divmod(start.month - 1 + periods, 12)
        year = start.year + years
        return date(year, month + 1, 1).toordinal() if year <= _LAST_YEAR else None
    if rule.frequency is Frequency.WEEKLY:
        found = start.toordinal() - (start.weekday() - rule.week_start) % 7 + 7 * periods
    else:
        found = start.toordinal() + periods
    return found if found < date(_LAST_YEAR, 12, 31).toordinal() else None


def _days_in_period(rule: Recurrence, first: int) -> set[int]:
    """The ordinals of the days of a period that suit all parts of the rule."""
    day = date.fromordinal(max(1, first))
    if _by_year(rule):
        return _days_of_year(rule, day.year)
    if rule.frequency is Frequency.YEARLY:
        months = rule.months or range(1, 13)
        return set().union(*(_days_of_month(rule, day.year, month) for month in months))
    if rule.frequency is Frequency.MONTHLY:
        return _days_of_month(rule, day.year, day.month) if _in(day.month, rule.months) else set()
    length = 7 if rule.frequency is Frequency.WEEKLY else 1
    wanted = {weekday for _, weekday in rule.weekdays}
    return {
        each
        for each in range(max(1, first), first + length)
        if (not wanted or (each + 6) % 7 in wanted) and _suits_month(rule, each)
    }


def _suits_month(rule: Recurrence, ordinal: int) -> bool:
    if not (rule.months or rule.month_days):
        return True
    day = date.fromordinal(ordinal)
    if not _in(day.month, rule.months):
        return False
    return _in(day.day, rule.month_days) or day.day - monthrange(day.year, day.month)[1] - 1 in rule.month_days


def _days_of_year(rule: Recurrence, year: int) -> set[int]:
    """Of a yearly rule by the number of the day, or by the weekdays of the whole year."""
    first, length = date(year, 1, 1).toordinal(), date(year, 12, 31).timetuple().tm_yday
    found = _by_number(rule.year_days, first, length) if rule.year_days else set(range(first, first + length))
    if rule.weekdays:
        found &= _by_weekday(rule.weekdays, first, length)
    return {each for each in found if _suits_month(rule, each)}


def _days_of_month(rule: Recurrence, year: int, month: int) -> set[int]:
    first, length = _month(year, month)
    found = _by_number(rule.month_days, first, length) if rule.month_days else set(range(first, first + length))
    return found & _by_weekday(rule.weekdays, first, length) if rule.weekdays else found


def _month(year: int, month: int) -> tuple[int, int]:
    """The ordinal of its first day, and its length."""
    return date(year, month, 1).toordinal(), monthrange(year, month)[1]


def _by_number(numbers: Sequence[int], first: int, length: int) -> set[int]:
    """The days with these numbers in a stretch of days, negative ones from its end."""
    return {first + (number - 1 if number > 0 else length + number) for number in numbers if abs(number) <= length}


def _by_weekday(weekdays: Sequence[tuple[int, int]], first: int, length: int) -> set[int]:
    """The days with these weekdays in a stretch of days; where one has a number, the nth of them alone."""
    found: set[int] = set()
    for number, weekday in weekdays:
        each = range(first + (weekday - first - 6) % 7, first + length, 7)
        if not number:
            found.update(each)
        elif abs(number) <= len(each):
            found.add(each[number - 1 if number > 0 else number])
    return found


def _chosen(rule: Recurrence, found: list[int]) -> list[int]:
    """BYSETPOS: some of a period's days, by their position."""
    if not rule.positions:
        return found
    return sorted({found[each - 1 if each > 0 else each] for each in rule.positions if abs(each) <= len(found)})


def _in(number: int, numbers: Sequence[int]) -> bool:
    return not numbers or number in numbers
