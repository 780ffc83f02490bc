"""The entries of a calendar in time: the entry that covers an instant, and the begin of the next cover.

        days, periods ──► intervals sorted once, found by halving          (10,000 of them cost as much as ten)
        weekly hours  ──► the windows of the days around an instant
        cron windows  ──► the line's fire before the instant, or after it

Each source answers the same two questions, so a calendar is a list of at most one source per week, one for all
intervals, and one per cron line. Invariant: `cover_at(t)` begins at or before t and ends after it; `next_begin(t)` is
after t, and is covered.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, NamedTuple, Protocol
from zoneinfo import ZoneInfo

from tickwise.domain.calendar.entries import Dates, Entry, Period, Recurring, Weekly
from tickwise.domain.cron import expression as cron
from tickwise.domain.cron.expression import Cron
from tickwise.domain.zones import CHANGE_REACH_SECONDS, DAY_SECONDS, FIRST_INSTANT, LAST_INSTANT, stretch_at

_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_EPOCH_WEEKDAY: Final = 3  # 1970-01-01 was a Thursday
_FIRST: Final = float(FIRST_INSTANT + 2 * CHANGE_REACH_SECONDS)
_LAST: Final = float(LAST_INSTANT - 2 * CHANGE_REACH_SECONDS)
# A window that begins yesterday may last until today, and around a change of the clock one day longer.
_DAYS_BACK: Final = 2
# Of a weekly window one date may be skipped by the clock; then that of the week after is the next.
_DAYS_AHEAD: Final = 16
# Windows that were worked out: fires follow on each other, so nearly all ask for the days of the one before.
_DAYS_KEPT: Final = 64


class FoundCover(NamedTuple):
    """A cover; `calendar.Cover` to the outside."""

    begin: float
    end: float
    entry: Entry


class _CoverSource(Protocol):
    looks: int
    """The cost of one question, in looks: a look takes about a microsecond."""

    def cover_at(self, instant: float) -> FoundCover | None: ...

    def next_begin(self, after: float) -> float | None: ...


@dataclass(frozen=True, slots=True)
class Compiled:
    """A calendar in the form to search in."""

    sources: tuple[_CoverSource, ...]

    @property
    def looks(self) -> int:
        """The cost of one question."""
        return sum(source.looks for source in self.sources)

    def cover_at(self, instant: float) -> FoundCover | None:
        """Of all that cover an instant, the one that ends last; the first of those that end together."""
        best: FoundCover | None = None
        if not _FIRST <= instant <= _LAST:
            return None
        for source in self.sources:
            found = source.cover_at(instant)
            if found is not None and (best is None or found.end > best.end):
                best = found
        return best

    def next_begin(self, after: float) -> float | None:
        """The first begin strictly after an instant, whether or not something else covers it already."""
        if not _FIRST <= after <= _LAST:
            return None
        begins = [begin for source in self.sources if (begin := source.next_begin(after)) is not None]
        found = min(begins, default=math.inf)
        return found if found <= _LAST else None


def compiled(zone: ZoneInfo, entries: Sequence[Entry]) -> Compiled:
    """Raises `CronInvalid` for a cron line that is none."""
    fixed, weekly = [], []
    sources: list[_CoverSource] = []
    for entry in entries:
        if isinstance(entry, Dates):
            begin, end = span(zone, wall_of(entry.first), wall_of(entry.last) + DAY_SECONDS)
            fixed.append(FoundCover(begin, end, entry))
        elif isinstance(entry, Period):
            fixed.append(FoundCover(entry.begin, entry.end, entry))
        elif isinstance(entry, Weekly):
            weekly.append(entry)
        else:
            sources.append(_Fires(zone, cron.parse(entry.cron), entry))
    if weekly:
        sources.insert(0, _Week(zone, weekly))
    if fixed:
        sources.insert(0, _Intervals(fixed))
    return Compiled(tuple(sources))


class _Intervals:
    """Days and periods. With the intervals sorted by begin, the one that reaches farthest of those that begin by an
    instant tells whether any covers it: kept for each, so that one halving answers."""

    looks = 1

    def __init__(self, found: Iterable[FoundCover]) -> None:
        # A day that the clock skips whole is an interval without length.
        ordered = sorted((each for each in found if each.begin < each.end), key=lambda each: each[:2])
        self._begins = [each.begin for each in ordered]
        self._farthest: list[FoundCover] = []
        for each in ordered:
            longest = self._farthest[-1] if self._farthest else each
            self._farthest.append(each if each.end > longest.end else longest)

    def cover_at(self, instant: float) -> FoundCover | None:
        index = bisect_right(self._begins, instant) - 1
        if index < 0:
            return None
        found = self._farthest[index]
        return found if instant < found.end else None

    def next_begin(self, after: float) -> float | None:
        index = bisect_right(self._begins, after)
        return self._begins[index] if index < len(self._begins) else None


class _Week:
    """Weekly hours."""

    def __init__(self, zone: ZoneInfo, entries: Iterable[Weekly]) -> None:
        self._zone = zone
        by_day: list[list[Weekly]] = [[] for _ in range(7)]
        for entry in entries:
            for day in entry.days:
                by_day[day].append(entry)
        self._by_day = [sorted(each, key=lambda entry: entry.from_second) for each in by_day]
        self._kept: dict[int, tuple[FoundCover, ...]] = {}
        # Some days are gone through at each question, twenty windows in a microsecond.
        self.looks = 1 + (_DAYS_BACK + 2) * max(map(len, by_day)) // 20

    def cover_at(self, instant: float) -> FoundCover | None:
        best: FoundCover | None = None
        today = self._day_at(instant)
        for day in range(today - _DAYS_BACK, today + 2):
            for found in self._windows(day):
                if found.begin <= instant < found.end and (best is None or found.end > best.end):
                    best = found
        return best

    def next_begin(self, after: float) -> float | None:
        today = self._day_at(after)
        best: float | None = None
        for day in range(today - _DAYS_BACK, today + _DAYS_AHEAD):
            # The dates follow each other, but around a change the windows of one may begin after those of the next.
            if best is not None and wall_start(day) > best + CHANGE_REACH_SECONDS:
                break
            for found in self._windows(day):
                if found.begin > after and (best is None or found.begin < best):
                    best = found.begin
        return best

    def _day_at(self, instant: float) -> int:
        second = math.floor(instant)
        return (second + stretch_at(self._zone, second).offset) // DAY_SECONDS

    def _windows(self, day: int) -> tuple[FoundCover, ...]:
        """The windows that begin on a date (days since the epoch), without those that the clock skips."""
        windows = self._kept.get(day)
        if windows is None:
            if len(self._kept) >= _DAYS_KEPT:
                self._kept.clear()
            windows = self._kept[day] = tuple(self._windows_of(day))
        return windows

    def _windows_of(self, day: int) -> Iterator[FoundCover]:
        midnight = wall_start(day)
        for entry in self._by_day[(day + _EPOCH_WEEKDAY) % 7]:
            length = (entry.to_second - entry.from_second) % DAY_SECONDS or DAY_SECONDS
            begin, end = span(self._zone, midnight + entry.from_second, midnight + entry.from_second + length)
            if begin < end:
                yield FoundCover(begin, end, entry)


class _Fires:
    """From each fire of a cron line on, for a while.

    The last two fires that were found are kept, with the time between them: a line that fires once in years is asked
    thousands of times for the same.
    """

    looks = 10
    """Both fires of a line take 6 to 20 us to find, of a rare one up to 80."""

    def __init__(self, zone: ZoneInfo, line: Cron, entry: Recurring) -> None:
        self._zone, self._line, self._entry = zone, line, entry
        self._known: tuple[float, float] = (math.inf, -math.inf)
        """A fire and the next one; -inf and inf: there is none."""

    def _fires(self, instant: float) -> tuple[float, float]:
        """The last fire by the instant, and the next one after it."""
        last, following = self._known
        if not last <= instant < following:
            second = math.floor(instant)
            before = self._line.previous_second(second, self._zone)
            after = self._line.next_second(second, self._zone)
            last, following = -math.inf if before is None else before, math.inf if after is None else after
            self._known = last, following  # at once: another thread may read it
        return last, following

    def cover_at(self, instant: float) -> FoundCover | None:
        fire, _ = self._fires(instant)
        if instant >= fire + self._entry.duration_seconds:
            return None
        return FoundCover(float(fire), float(fire + self._entry.duration_seconds), self._entry)

    def next_begin(self, after: float) -> float | None:
        _, following = self._fires(after)
        return None if following == math.inf else float(following)


# ------------------------------------------------------------------------------------------ wall time and instants


def wall_start(day: int) -> int:
    """The wall time at which a date begins, given in days since the epoch."""
    return day * DAY_SECONDS


def wall_of(day: date) -> int:
    """The wall-clock number of a date."""
    return wall_start(day.toordinal() - _EPOCH_ORDINAL)


def span(zone: ZoneInfo, begin: int, end: int) -> tuple[float, float]:
    """The instants between two wall times: from the first that shows `begin` or later, to the last before `end`. Where
    the clock skips all of it, both are the instant of the change."""
    return float(_first_showing(zone, begin)), float(_last_before(zone, end))


def _first_showing(zone: ZoneInfo, wall: int) -> int:
    """The first instant at which the clock shows `wall` or later."""
    stretch = stretch_at(zone, _clamped(wall - CHANGE_REACH_SECONDS))
    while wall - stretch.offset >= stretch.end and stretch.end <= LAST_INSTANT:
        stretch = stretch_at(zone, stretch.end)
    return max(stretch.begin, wall - stretch.offset)


def _last_before(zone: ZoneInfo, wall: int) -> int:
    """The instant from which on the clock shows `wall` or later, for good."""
    stretch = stretch_at(zone, _clamped(wall + CHANGE_REACH_SECONDS))
    while stretch.begin + stretch.offset >= wall and stretch.begin > FIRST_INSTANT:
        stretch = stretch_at(zone, stretch.begin - 1)
    return min(stretch.end, wall - stretch.offset)


def _clamped(instant: int) -> int:
    return max(FIRST_INSTANT, min(instant, LAST_INSTANT))
