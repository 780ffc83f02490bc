"""Cron by the rules and nothing else: every real moment is looked at, one after another.

Slow and obvious on purpose, with `datetime` and `zoneinfo` alone, and it shares no code with the product: it decides
what is right near changes of the clock.

    watch a zone's clock ──► which moments show a wall time, which wall times are never shown
    a line               ──► which of those wall times it names
    the two rules        ──► the moments at which it fires
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

_NAMES = {
    name: number
    for names, first in (("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC", 1), ("SUN MON TUE WED THU FRI SAT", 0))
    for number, name in enumerate(names.split(), first)
}
_LIMITS = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


@dataclass(frozen=True)
class Film:
    """What a wall clock showed from `begin` to before `end` (UTC), and a while before and after that."""

    begin: datetime
    end: datetime
    shown: list[tuple[datetime, list[datetime]]]
    """Each wall time with the moments that showed it, in order."""
    skipped: list[tuple[datetime, datetime, datetime]]
    """Each wall time that was left out, the moment when it was, and when an unchanged clock would have shown it."""


def watch(zone: ZoneInfo, begin: datetime, end: datetime, *, step: timedelta = timedelta(minutes=1)) -> Film:
    """Look at the clock of a zone at every step."""
    # The run-up and the run-out tell which wall times are shown twice: no change has been larger than a day. Second by
    # second, only changes of up to an hour.
    margin = timedelta(hours=26) if step >= timedelta(minutes=1) else timedelta(hours=3)
    shown: dict[datetime, list[datetime]] = {}
    skipped = []
    moment = begin - margin
    expected = _wall(moment, zone)
    while moment < end + margin:
        wall = _wall(moment, zone)
        missing = expected
        while missing < wall:
            skipped.append((missing, moment, moment + (missing - expected)))
            missing += step
        shown.setdefault(wall, []).append(moment)
        expected = wall + step
        moment += step
    return Film(begin, end, list(shown.items()), skipped)


@dataclass(frozen=True)
class Named:
    """Of a film, the wall times that a line names."""

    film: Film
    shown: list[tuple[datetime, list[datetime]]]
    skipped: list[tuple[datetime, datetime, datetime]]
    wildcard: bool

    def fires(self, gap: str | None = None, overlap: str | None = None) -> list[datetime]:
        """Every fire, in order, by the two rules; what is not given is as Debian's cron has it."""
        gap = gap or ("skip" if self.wildcard else "run_after")
        overlap = overlap or ("both" if self.wildcard else "first")
        found: set[datetime] = set()
        for _, moments in self.shown:
            if overlap == "first":
                found.add(moments[0])
            elif overlap == "second":
                found.add(moments[-1])
            else:
                found.update(moments)
        for _, change, unchanged in self.skipped:
            if gap == "run_after":
                found.add(change)
            elif gap == "shift":
                found.add(unchanged)
        return sorted(moment for moment in found if self.film.begin <= moment < self.film.end)


class SlowCron:
    """A line of plain items: `*`, `?`, values, names, ranges, steps, lists, `L`, `5L` and `5#2`."""

    def __init__(self, line: str) -> None:
        texts = line.split()
        self.with_seconds = len(texts) == 6
        if not self.with_seconds:
            texts.insert(0, "0")
        self.texts = texts
        self.sets = [
            _values(text, low, high, is_weekday=index == 5)
            for index, (text, (low, high)) in enumerate(zip(texts, _LIMITS, strict=True))
        ]
        self.wildcard = texts[1].startswith("*") or texts[2].startswith("*")
        self.names_day = cache(self._names_day)

    def names(self, wall: datetime) -> bool:
        """Whether the line names this wall time."""
        seconds, minutes, hours, *_ = self.sets
        return (
            wall.minute in minutes
            and wall.hour in hours
            and wall.second in seconds
            and self.names_day(wall.toordinal())
        )

    def _names_day(self, ordinal: int) -> bool:
        day = date.fromordinal(ordinal)
        _, _, _, days, months, weekdays = self.sets
        if day.month not in months:
            return False
        weekday, nth = day.isoweekday() % 7, (day.day + 6) // 7
        is_last_day = (day + timedelta(days=1)).month != day.month
        is_last_week = (day + timedelta(days=7)).month != day.month
        by_date = day.day in days or (is_last_day and "L" in self.texts[3].split(","))
        by_weekday = weekday in weekdays
        for item in self.texts[5].split(","):
            if item.endswith("L"):
                by_weekday = by_weekday or (is_last_week and _number(item[:-1]) % 7 == weekday)
            elif "#" in item:
                by_weekday = by_weekday or [_number(part) for part in item.split("#")] in (
                    [weekday, nth],
                    [weekday + 7, nth],
                )
        if self.texts[3][0] in "*?" or self.texts[5][0] in "*?":
            return by_date and by_weekday
        return by_date or by_weekday

    def named(self, film: Film) -> Named:
        """What the line names of what the clock showed and left out."""
        return Named(
            film,
            [each for each in film.shown if self.names(each[0])],
            [each for each in film.skipped if self.names(each[0])],
            self.wildcard,
        )

    def fires(self, begin: datetime, end: datetime, zone: ZoneInfo) -> list[datetime]:
        """Every fire from `begin` to before `end` (UTC), as Debian's cron has it."""
        step = timedelta(seconds=1 if self.with_seconds else 60)
        return self.named(watch(zone, begin, end, step=step)).fires()


def _wall(instant: datetime, zone: ZoneInfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def _values(text: str, low: int, high: int, *, is_weekday: bool) -> set[int]:
    values: set[int] = set()
    for item in text.split(","):
        if "#" in item or item.endswith("L"):
            continue
        span, _, step = item.partition("/")
        if span in ("*", "?"):
            begin, end = low, high
        else:
            first, _, last = span.partition("-")
            begin = _number(first)
            end = _number(last) if last else high if step else begin
        if is_weekday and begin == 7 and end < 7:
            begin = 0
        walk = begin
        taken = 0
        while True:
            if taken % int(step or 1) == 0:
                values.add(walk % 7 if is_weekday else walk)
            if walk == end:
                break
            taken += 1
            walk = low if walk == high and not (is_weekday and end == 7) else walk + 1
    return values


def _number(text: str) -> int:
    return _NAMES[text.upper()] if text.upper() in _NAMES else int(text)


def at(text: str) -> datetime:
    """An instant from `2026-03-08 07:00`, UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
