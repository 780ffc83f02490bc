"""Cron by the rule and nothing else: every real moment is looked at, one after another.

Slow and obvious on purpose, and it shares no code with the product: it decides what is right near clock changes.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

_NAMES = {
    name: number
    for names, first in (("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC", 1), ("SUN MON TUE WED THU FRI SAT", 0))
    for number, name in enumerate(names.split(), first)
}
_LIMITS = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


class SlowCron:
    """A line of plain items: `*`, values, names, ranges, steps and lists."""

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

    def names(self, wall: datetime) -> bool:
        """Whether the line names this wall time."""
        seconds, minutes, hours, days, months, weekdays = self.sets
        if wall.second not in seconds or wall.minute not in minutes or wall.hour not in hours:
            return False
        if wall.month not in months:
            return False
        by_date, by_weekday = wall.day in days, wall.isoweekday() % 7 in weekdays
        if self.texts[3].startswith("*") or self.texts[5].startswith("*"):
            return by_date and by_weekday
        return by_date or by_weekday

    def fires(self, begin: datetime, end: datetime, zone: ZoneInfo) -> list[datetime]:
        """Every fire from `begin` to before `end` (UTC)."""
        step = timedelta(seconds=1 if self.with_seconds else 60)
        found: list[datetime] = []
        # The run-up tells which wall times have been shown before. Second by second, only changes of up to an hour.
        shown: set[datetime] = set()
        instant = begin - (timedelta(hours=3) if self.with_seconds else timedelta(days=2))
        before = _wall(instant - step, zone)
        while instant < end:
            wall = _wall(instant, zone)
            if self.wildcard:
                fires = self.names(wall)
            else:
                skipped = []
                missing = before + step
                while missing < wall:
                    skipped.append(missing)
                    missing += step
                fires = any(self.names(each) for each in skipped) or (wall not in shown and self.names(wall))
                shown.add(wall)
            if fires and instant >= begin:
                found.append(instant)
            before = wall
            instant += step
        return found


def _wall(instant: datetime, zone: ZoneInfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def _values(text: str, low: int, high: int, *, is_weekday: bool) -> set[int]:
    values: set[int] = set()
    for item in text.split(","):
        span, _, step = item.partition("/")
        if span == "*":
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
