"""The wall times that a cron line names, on a clock that is never changed: the next, the last, and how many.

A line is six bit masks, bit n for value n. Searching is shifting masks and taking lowest or highest bits: no loop
over time, and for the days of a month one mask too (there are only 28 kinds of month). Counting goes by months.

Wall times are integers as in `zones`: seconds since 1970-01-01T00:00:00 as the clock shows it. Invariant: all the
answers are about one and the same set of wall times. When they happen is the business of `cron`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import Final

from tickwise.domain.zones import DAY_SECONDS

ALL_WEEKDAYS: Final = 0b1111111
ALL_DAYS: Final = (1 << 32) - 2
ALL_MONTHS: Final = (1 << 13) - 2

_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_LAST_YEAR: Final = 9999
_FIRST_YEAR: Final = 1
_DAYS_OF_EVERY_MONTH: Final = (1 << 29) - 2
_MONTH_LENGTHS: Final = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@dataclass(frozen=True, slots=True, kw_only=True)
class WallTimes:
    """The masks of a line's fields; `cron.parse` makes them."""

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
    """`fields.FieldMasks` tells the layout."""
    both_days: bool = field(compare=False)
    """A day must suit day of month and day of week; else either is enough."""
    _months_seen: dict[int, int] = field(default_factory=dict, compare=False, repr=False)
    """Days by kind of month, filled as they are asked for: at most 28 entries."""

    def wall_at_or_after(self, wall: int) -> int | None:
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

    def wall_at_or_before(self, wall: int) -> int | None:
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

    def count_walls(self, begin: int, end: int) -> int:
        """The number of named wall times from `begin` to before `end`; about a microsecond a month."""
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

    def bits(self, begin: int, end: int) -> int:
        """The named wall times from `begin` to before `end` as a mask: bit n for `begin + n`. For spans of a day or so:
        86,400 bits take about 50 microseconds."""
        a_minute = self.seconds
        an_hour = sum(a_minute << 60 * minute for minute in range(60) if self.minutes >> minute & 1)
        a_day = sum(an_hour << 3_600 * hour for hour in range(24) if self.hours >> hour & 1)
        found = 0
        for day in range(begin // DAY_SECONDS, (end - 1) // DAY_SECONDS + 1):
            if self._count_days(day, day + 1):
                ahead = day * DAY_SECONDS - begin
                found |= a_day << ahead if ahead >= 0 else a_day >> -ahead
        return found & ((1 << end - begin) - 1)

    def _count_days(self, begin: int, end: int) -> int:
        """The number of days (since the epoch) from `begin` to before `end` that suit the line."""
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
        """Check whether every month has some of these days: the quick answer for nearly every line."""
        if not self.both_days:
            return bool(self.weekdays or self.last_weekdays or self.last_day or self.days & _DAYS_OF_EVERY_MONTH)
        if self.weekdays == ALL_WEEKDAYS:
            return bool(self.last_day or self.days & _DAYS_OF_EVERY_MONTH)
        return self.days == ALL_DAYS and bool(self.weekdays or self.last_weekdays)

    @property
    def names_each_week(self) -> bool:
        """Check that no seven days are without such a time; False also if the answer takes a longer search."""
        each_week = self.weekdays != 0 and (self.days == ALL_DAYS or not self.both_days)
        return each_week and self.months == ALL_MONTHS

    def ever_fires(self) -> bool:
        """Check whether there is any such time. Every pair of month length and first weekday occurs in the 400 years
        after which the calendar repeats."""
        return self._has_plain_days() or any(
            self._days_of_kind(length, weekday)
            for month in range(1, 13)
            if self.months >> month & 1
            for length in ((28, 29) if month == 2 else (_MONTH_LENGTHS[month],))
            for weekday in range(7)
        )

    def fires_every_year(self) -> bool:
        """Check that no year is without such a time. 2001 to 2028 (no century among them) hold each of the 14 kinds of
        year."""
        return self._has_plain_days() or all(
            any(self.months >> month & 1 and self._days_in(year, month) for month in range(1, 13))
            for year in range(2001, 2029)
        )


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _highest(mask: int) -> int:
    return mask.bit_length() - 1


def _month_length(year: int, month: int) -> int:
    if month == 2 and year % 4 == 0 and (year % 100 or year % 400 == 0):
        return 29
    return _MONTH_LENGTHS[month]
