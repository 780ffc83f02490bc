"""A cron line: its next and its last fire on any wall clock, how many lie between, and what to warn about.

A line is six bit masks, bit n for value n. Finding a fire is shifting masks and taking lowest or highest bits:
no loop over time, and for the days of a month one mask too (there are only 28 kinds of month). The search
runs on wall time as an integer; `zones` says which stretch of wall time is shown when:

    next_second ──► stretch by stretch: wall time ──► _wall_at_or_after ──► back to an instant
                          └─ at a change: the rule below

**The rule at clock changes** is Debian cron's. A line whose minute or hour field begins with `*` keeps real
time: it fires at each real moment whose wall time it names, twice where an hour repeats, and not for times that
the clock skips. Every other line fires once for each wall time that it names: at its first pass where an
hour repeats; and those that the clock skips become one fire at the instant of the change.

Day of month and day of week both given: either is enough, as in Vixie cron, unless one begins with `*` (or `?`):
then both must hold. `cron_fields` reads the text, `cron_english` says it in words.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC as DATETIME_UTC
from datetime import date, datetime
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from tickwise.domain.cron_english import explain
from tickwise.domain.cron_fields import FieldMasks, read_field, split_line
from tickwise.domain.errors import CronInvalid
from tickwise.domain.zones import (
    CHANGE_REACH_SECONDS,
    DAY_SECONDS,
    FIRST_INSTANT,
    LAST_INSTANT,
    UTC,
    Stretch,
    stretch_at,
)

_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_LAST_YEAR: Final = 9999
_FIRST_YEAR: Final = 1
_ALL_WEEKDAYS: Final = 0b1111111
_DAYS_OF_EVERY_MONTH: Final = (1 << 29) - 2
_MONTH_LENGTHS: Final = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron line that was read. Two lines are equal if their text is; `parse` makes one."""

    expression: str
    seconds: int = field(compare=False)
    minutes: int = field(compare=False)
    hours: int = field(compare=False)
    days: int = field(compare=False)
    """Bits 1 to 31."""
    months: int = field(compare=False)
    """Bits 1 to 12."""
    weekdays: int = field(compare=False)
    """Bits 0 (Sunday) to 6."""
    last_day: bool = field(compare=False)
    last_weekdays: int = field(compare=False)
    nth_weekdays: int = field(compare=False)
    """`cron_fields.FieldMasks` tells the layout."""
    both_days: bool = field(compare=False)
    """A day must suit day of month and day of week; else either is enough."""
    keeps_real_time: bool = field(compare=False)
    """The minute or hour begins with `*`: see the rule at clock changes."""
    has_seconds: bool = field(compare=False)
    _reading_warnings: tuple[str, ...] = field(compare=False, repr=False)
    _months_seen: dict[int, int] = field(default_factory=dict, compare=False, repr=False)
    """Days by kind of month, filled as they are asked for: at most 28 entries."""

    @staticmethod
    def parse(text: str) -> Cron:
        """Read a line. Raises `CronInvalid` for what cannot be read and for what could never fire."""
        return parse(text)

    def next_after(self, instant: datetime, zone: ZoneInfo) -> datetime | None:
        """The first fire strictly after `instant` (aware), in UTC. None: there is none before the year 10000."""
        found = self.next_second(_whole_seconds(instant), zone)
        return None if found is None else datetime.fromtimestamp(found, DATETIME_UTC)

    def previous_at_or_before(self, instant: datetime, zone: ZoneInfo) -> datetime | None:
        """The last fire at or before `instant` (aware), in UTC. None: there is none since the year 1."""
        found = self.previous_second(_whole_seconds(instant), zone)
        return None if found is None else datetime.fromtimestamp(found, DATETIME_UTC)

    def next_second(self, after: int, zone: ZoneInfo) -> int | None:
        """The first fire strictly after a Unix time in seconds. Bounded: it walks over the zone's changes on the way,
        and leaps over years without a fire."""
        cursor = max(after + 1, FIRST_INSTANT)
        if zone is UTC:
            return self._wall_at_or_after(cursor) if cursor <= LAST_INSTANT else None
        while cursor <= LAST_INSTANT:
            stretch = stretch_at(zone, cursor)
            if cursor <= stretch.begin and self._fires_for_gap(stretch):
                return stretch.begin
            lowest = max(cursor + stretch.offset, self._first_wall(stretch))
            wall = self._wall_at_or_after(lowest)
            if wall is None:
                return None
            found = wall - stretch.offset
            if found < stretch.end:
                return found
            cursor = stretch.end
            # Far away, and no named time shortly before `lowest` that a change could show again: leap near to it.
            near = found - CHANGE_REACH_SECONDS
            if near > cursor and self._wall_at_or_after(lowest - CHANGE_REACH_SECONDS) == wall:
                cursor = near
        return None

    def previous_second(self, at_or_before: int, zone: ZoneInfo) -> int | None:
        """The last fire at or before a Unix time in seconds; bounded as `next_second` is."""
        cursor = min(at_or_before, LAST_INSTANT)
        while cursor >= FIRST_INSTANT:
            stretch = stretch_at(zone, cursor)
            highest = min(cursor, stretch.end - 1) + stretch.offset
            wall = self._wall_at_or_before(highest)
            if wall is not None and wall >= self._first_wall(stretch):
                return wall - stretch.offset
            if self._fires_for_gap(stretch):
                return stretch.begin
            if wall is None:
                return None
            cursor = stretch.begin - 1
            near = wall - stretch.offset + CHANGE_REACH_SECONDS
            if near < cursor and self._wall_at_or_before(highest + CHANGE_REACH_SECONDS) == wall:
                cursor = near
        return None

    def count(self, first: int, last: int, zone: ZoneInfo) -> int:
        """How many fires lie from `first` to `last`, both included. It counts by month, so ten years of every second
        take about a millisecond."""
        total = 0
        cursor, last = max(first, FIRST_INSTANT), min(last, LAST_INSTANT)
        while cursor <= last:
            stretch = stretch_at(zone, cursor)
            begin = max(cursor + stretch.offset, self._first_wall(stretch))
            end = min(stretch.end, last + 1) + stretch.offset
            total += self._count_walls(begin, end)
            if cursor <= stretch.begin and self._fires_for_gap(stretch):
                named = self._wall_at_or_after(stretch.begin + stretch.offset)
                total += named != stretch.begin + stretch.offset
            cursor = stretch.end
        return total

    def warnings(self) -> tuple[str, ...]:
        """What is legal and probably not meant, in sentences."""
        found = list(self._reading_warnings)
        narrows_days = self.days != _FULL_DAYS or self.last_day
        narrows_weekdays = self.weekdays != _ALL_WEEKDAYS
        if not self.both_days:
            found.append(
                "day of month and day of week are both given: it fires on days that suit either, "
                "not only on those that suit both"
            )
        elif narrows_days and narrows_weekdays:
            found.append("day of month and day of week are both given, and one begins with *: a day must suit both")
        if not self._fires_every_year():
            found.append("it fires less than once a year")
        return tuple(found)

    def explain(self) -> str:
        """The line in plain English, such as "at 02:30, Monday to Friday"."""
        return explain(self)

    # ------------------------------------------------------------------------------ at a change of the clock

    def _first_wall(self, stretch: Stretch) -> int:
        """The first wall time of a stretch that counts: a fixed time is done with after its first pass."""
        if self.keeps_real_time:
            return stretch.begin + stretch.offset
        return stretch.begin + max(stretch.offset, stretch.before)

    def _fires_for_gap(self, stretch: Stretch) -> bool:
        """Whether the clock skips, at the begin of this stretch, a time that must then fire at once."""
        if self.keeps_real_time or stretch.offset <= stretch.before:
            return False
        wall = self._wall_at_or_after(stretch.begin + stretch.before)
        return wall is not None and wall < stretch.begin + stretch.offset

    # --------------------------------------------------------------------------------- on the wall clock alone

    def _wall_at_or_after(self, wall: int) -> int | None:
        """The first named wall time from `wall` on."""
        day, second = divmod(wall, DAY_SECONDS)
        today = date.fromordinal(day + _EPOCH_ORDINAL)
        year, month = today.year, today.month
        if self.months >> month & 1:
            ahead = self._days_in(year, month) >> today.day
            if ahead & 1:
                found = self._time_at_or_after(second)
                if found >= 0:
                    return day * DAY_SECONDS + found
                ahead ^= 1
            if ahead:
                return (day + _lowest(ahead)) * DAY_SECONDS + self._time_at_or_after(0)
        while True:
            later = self.months >> (month + 1)
            if later:
                month += 1 + _lowest(later)
            else:
                year, month = year + 1, _lowest(self.months)
                if year > _LAST_YEAR:
                    return None
            days = self._days_in(year, month)
            if days:
                day = date(year, month, _lowest(days)).toordinal() - _EPOCH_ORDINAL
                return day * DAY_SECONDS + self._time_at_or_after(0)

    def _wall_at_or_before(self, wall: int) -> int | None:
        """The last named wall time up to `wall`."""
        day, second = divmod(wall, DAY_SECONDS)
        today = date.fromordinal(day + _EPOCH_ORDINAL)
        year, month = today.year, today.month
        if self.months >> month & 1:
            behind = self._days_in(year, month) & ((2 << today.day) - 1)
            if behind >> today.day:
                found = self._time_at_or_before(second)
                if found >= 0:
                    return day * DAY_SECONDS + found
                behind ^= 1 << today.day
            if behind:
                return (day - today.day + _highest(behind)) * DAY_SECONDS + self._time_at_or_before(DAY_SECONDS - 1)
        while True:
            earlier = self.months & ((1 << month) - 1)
            if earlier:
                month = _highest(earlier)
            else:
                year, month = year - 1, _highest(self.months)
                if year < _FIRST_YEAR:
                    return None
            days = self._days_in(year, month)
            if days:
                day = date(year, month, _highest(days)).toordinal() - _EPOCH_ORDINAL
                return day * DAY_SECONDS + self._time_at_or_before(DAY_SECONDS - 1)

    def _time_at_or_after(self, second_of_day: int) -> int:
        """The first named time of day from `second_of_day` on, -1 if the day has no more."""
        minute_of_day, second = divmod(second_of_day, 60)
        hour, minute = divmod(minute_of_day, 60)
        if self.hours >> hour & 1:
            if self.minutes >> minute & 1:
                later = self.seconds >> second
                if later:
                    return second_of_day + _lowest(later)
            later = self.minutes >> (minute + 1)
            if later:
                return (minute_of_day + 1 + _lowest(later)) * 60 + _lowest(self.seconds)
        later = self.hours >> (hour + 1)
        if later:
            return ((hour + 1 + _lowest(later)) * 60 + _lowest(self.minutes)) * 60 + _lowest(self.seconds)
        return -1

    def _time_at_or_before(self, second_of_day: int) -> int:
        """The last named time of day up to `second_of_day`, -1 if the day has none before."""
        minute_of_day, second = divmod(second_of_day, 60)
        hour, minute = divmod(minute_of_day, 60)
        if self.hours >> hour & 1:
            if self.minutes >> minute & 1:
                earlier = self.seconds & ((2 << second) - 1)
                if earlier:
                    return minute_of_day * 60 + _highest(earlier)
            earlier = self.minutes & ((1 << minute) - 1)
            if earlier:
                return (hour * 60 + _highest(earlier)) * 60 + _highest(self.seconds)
        earlier = self.hours & ((1 << hour) - 1)
        if earlier:
            return (_highest(earlier) * 60 + _highest(self.minutes)) * 60 + _highest(self.seconds)
        return -1

    # ------------------------------------------------------------------------------------------------- counting

    def _count_walls(self, begin: int, end: int) -> int:
        """How many named wall times lie from `begin` to before `end`."""
        if end <= begin:
            return 0
        first_day, first_second = divmod(begin, DAY_SECONDS)
        last_day, last_second = divmod(end, DAY_SECONDS)
        a_day = self.hours.bit_count() * self.minutes.bit_count() * self.seconds.bit_count()
        total = self._count_days(first_day, last_day) * a_day
        if self._count_days(first_day, first_day + 1):
            total -= self._count_times_before(first_second)
        if last_second and self._count_days(last_day, last_day + 1):
            total += self._count_times_before(last_second)
        return total

    def _count_days(self, begin: int, end: int) -> int:
        """How many days (since the epoch) from `begin` to before `end` suit the line."""
        total = 0
        while begin < end:
            today = date.fromordinal(begin + _EPOCH_ORDINAL)
            length = _month_length(today.year, today.month)
            behind = min(end - begin, length + 1 - today.day)
            if self.months >> today.month & 1:
                ahead = self._days_in(today.year, today.month) >> today.day
                total += (ahead & ((1 << behind) - 1)).bit_count()
            begin += behind
        return total

    def _count_times_before(self, second_of_day: int) -> int:
        minute_of_day, second = divmod(second_of_day, 60)
        hour, minute = divmod(minute_of_day, 60)
        a_minute = self.seconds.bit_count()
        total = (self.hours & ((1 << hour) - 1)).bit_count() * self.minutes.bit_count() * a_minute
        if self.hours >> hour & 1:
            total += (self.minutes & ((1 << minute) - 1)).bit_count() * a_minute
            if self.minutes >> minute & 1:
                total += (self.seconds & ((1 << second) - 1)).bit_count()
        return total

    # ---------------------------------------------------------------------------------------- days of a month

    def _days_in(self, year: int, month: int) -> int:
        """The mask (bits 1 to 31) of the days of a month that suit both day fields, whether or not the month does."""
        length = _month_length(year, month)
        first_weekday = (date(year, month, 1).toordinal()) % 7
        kind = length * 7 + first_weekday
        days = self._months_seen.get(kind)
        if days is None:
            days = self._months_seen[kind] = self._days_of_kind(length, first_weekday)
        return days

    def _days_of_kind(self, length: int, first_weekday: int) -> int:
        by_date = self.days & ((2 << length) - 2)
        if self.last_day:
            by_date |= 1 << length
        by_weekday = 0
        for index in range(length):
            weekday, week = (first_weekday + index) % 7, index // 7
            if (
                self.weekdays >> weekday & 1
                or self.nth_weekdays >> (7 * week + weekday) & 1
                or (self.last_weekdays >> weekday & 1 and index + 7 >= length)
            ):
                by_weekday |= 2 << index
        return by_date & by_weekday if self.both_days else by_date | by_weekday

    def _has_plain_days(self) -> bool:
        """Whether the days are such that every month has some: the quick answer for nearly every line."""
        if not self.both_days:
            return bool(self.weekdays or self.last_weekdays or self.last_day or self.days & _DAYS_OF_EVERY_MONTH)
        if self.weekdays == _ALL_WEEKDAYS:
            return bool(self.last_day or self.days & _DAYS_OF_EVERY_MONTH)
        return self.days == _FULL_DAYS and bool(self.weekdays or self.last_weekdays)

    def ever_fires(self) -> bool:
        """Every pair of month length and first weekday occurs in the 400 years after which the calendar repeats."""
        return self._has_plain_days() or any(
            self._days_of_kind(length, weekday)
            for month in range(1, 13)
            if self.months >> month & 1
            for length in ((28, 29) if month == 2 else (_MONTH_LENGTHS[month],))
            for weekday in range(7)
        )

    def _fires_every_year(self) -> bool:
        """These 28 years (2001 to 2028, no century among them) hold each of the 14 kinds of year."""
        return self._has_plain_days() or all(
            any(self.months >> month & 1 and self._days_in(year, month) for month in range(1, 13))
            for year in range(2001, 2029)
        )


_FULL_DAYS: Final = (1 << 32) - 2


@lru_cache(maxsize=4096)
def parse(text: str) -> Cron:
    """Read a line; the last few thousand are remembered. `CronInvalid` says what is wrong, where, and what to write."""
    fields = split_line(text)
    masks = [read_field(each) for each in fields]
    has_seconds = len(masks) == 6
    second = masks[0] if has_seconds else FieldMasks(1)
    minute, hour, day, month, weekday = masks[-5:]
    warnings: tuple[str, ...] = ()
    for each in masks:
        warnings += each.warnings
    cron = Cron(
        expression=text,
        seconds=second.values,
        minutes=minute.values,
        hours=hour.values,
        days=day.values,
        months=month.values,
        weekdays=weekday.values,
        last_day=day.last_day,
        last_weekdays=weekday.last_weekdays,
        nth_weekdays=weekday.nth_weekdays,
        both_days=fields[-3].text[0] in "*?" or fields[-1].text[0] in "*?",
        keeps_real_time=fields[-5].text[0] == "*" or fields[-4].text[0] == "*",
        has_seconds=has_seconds,
        _reading_warnings=warnings,
    )
    if not cron.ever_fires():
        raise CronInvalid(
            "day of month: it never fires, because no such day exists in the months given; "
            "write days that the months have, or L for the last day",
            position=fields[-3].position,
        )
    return cron


def _whole_seconds(instant: datetime) -> int:
    """Unix seconds, rounded down. Subtracting keeps it exact where `timestamp` goes through a float."""
    if instant.tzinfo is None:
        raise ValueError("an instant needs a time zone")
    passed = instant - _EPOCH
    return passed.days * DAY_SECONDS + passed.seconds


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=DATETIME_UTC)


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _highest(mask: int) -> int:
    return mask.bit_length() - 1


def _month_length(year: int, month: int) -> int:
    if month == 2 and year % 4 == 0 and (year % 100 or year % 400 == 0):
        return 29
    return _MONTH_LENGTHS[month]
