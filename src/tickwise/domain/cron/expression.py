"""A cron line: its next and its last fire on any wall clock, how many lie between, and what to warn about.

    text ──► fields ──► masks: wall_times ──► Cron
                                                │  zones: which stretch of wall time is shown when
    next_second ──► stretch by stretch: wall time ──► named time ──► back to an instant
                          └─ at a change of the clock: clock_changes

**The rule at clock changes** is Debian cron's, unless the caller's `Dst` says otherwise. A line whose minute or hour
field begins with `*` keeps real time: it fires at each real moment whose wall time it names, twice where an hour
repeats, and not for times that the clock skips. Every other line fires once for each wall time that it names: at its
first pass where an hour repeats; and those that the clock skips become one fire at the instant of the change.

Day of month and day of week both given: either is enough, as in Vixie cron, unless one begins with `*` (or `?`):
then both must hold. `fields` reads the text, `english` says it in words.

Invariants: never before its time; no instant twice; next, previous and count are about one and the same instants.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from tickwise.domain.cron import clock_changes
from tickwise.domain.cron.clock_changes import GapSkip
from tickwise.domain.cron.english import explain
from tickwise.domain.cron.fields import MAX_LENGTH, FieldMasks, every_seconds, read_field, split_line
from tickwise.domain.cron.wall_times import ALL_DAYS, ALL_WEEKDAYS, WallTimes
from tickwise.domain.errors import CronInvalid
from tickwise.domain.zones import (
    CHANGE_REACH_SECONDS,
    DEBIAN,
    FIRST_INSTANT,
    LAST_INSTANT,
    UTC,
    Dst,
    GapRule,
    RepeatRule,
    Stretch,
    stretch_at,
)

__all__ = ["Cron", "GapSkip", "every_seconds", "parse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron(WallTimes):
    """A cron line that was read. Two lines are equal if their text and seed are; `parse` makes one."""

    expression: str
    seed: bytes | None
    """The seed that spread `H`; None where the line has no `H`."""
    hashed: tuple[str, ...] = field(compare=False)
    """The names of the fields with an `H`."""
    keeps_real_time: bool = field(compare=False)
    """The minute or hour begins with `*`: see the rule at clock changes."""
    has_seconds: bool = field(compare=False)
    _reading_warnings: tuple[str, ...] = field(compare=False, repr=False)

    def next_second(self, after: int, zone: ZoneInfo, dst: Dst = DEBIAN) -> int | None:
        """The first fire strictly after a Unix time in seconds. Bounded: it walks over the zone's changes on the way,
        and leaps over years without a fire."""
        cursor = max(after + 1, FIRST_INSTANT)
        if zone is UTC:
            return self.wall_at_or_after(cursor) if cursor <= LAST_INSTANT else None
        gap, overlap = self._rules(dst)
        while cursor <= LAST_INSTANT:
            stretch = stretch_at(zone, cursor)
            moved = None
            if stretch.offset > stretch.before:
                moved = clock_changes.moved_at_or_after(self, stretch, gap, cursor)
            first, end = clock_changes.passes(stretch, overlap)
            lowest = max(cursor + stretch.offset, first)
            wall = self.wall_at_or_after(lowest)
            if wall is not None and wall < end:
                found = wall - stretch.offset
                return found if moved is None or found < moved else moved
            if moved is not None or wall is None:
                return moved
            cursor = stretch.end
            # Far away, and no named time shortly before `lowest` that a change could show again: leap near to it.
            near = wall - stretch.offset - CHANGE_REACH_SECONDS
            if near > cursor and self.wall_at_or_after(lowest - CHANGE_REACH_SECONDS) == wall:
                cursor = near
        return None

    def previous_second(self, at_or_before: int, zone: ZoneInfo, dst: Dst = DEBIAN) -> int | None:
        """The last fire at or before a Unix time in seconds; bounded as `next_second` is."""
        cursor = min(at_or_before, LAST_INSTANT)
        gap, overlap = self._rules(dst)
        while cursor >= FIRST_INSTANT:
            stretch = stretch_at(zone, cursor)
            moved = None
            if stretch.offset > stretch.before:
                moved = clock_changes.moved_at_or_before(self, stretch, gap, cursor)
            first, end = clock_changes.passes(stretch, overlap)
            highest = min(cursor + stretch.offset, end - 1)
            wall = self.wall_at_or_before(highest)
            if wall is not None and wall >= first:
                found = wall - stretch.offset
                return found if moved is None or found > moved else moved
            if moved is not None or wall is None:
                return moved
            cursor = stretch.begin - 1
            near = wall - stretch.offset + CHANGE_REACH_SECONDS
            if near < cursor and self.wall_at_or_before(highest + CHANGE_REACH_SECONDS) == wall:
                cursor = near
        return None

    def count(self, first: int, last: int, zone: ZoneInfo, dst: Dst = DEBIAN) -> int:
        """The number of fires from `first` to `last`, both included. It counts by month, so ten years of every second
        take about a millisecond."""
        total = 0
        gap, overlap = self._rules(dst)
        first, last = max(first, FIRST_INSTANT), min(last, LAST_INSTANT)
        for begin, stretch in _stretches(zone, first, last):
            end = min(stretch.end, last + 1)
            first_wall, end_wall = clock_changes.passes(stretch, overlap)
            total += self.count_walls(max(begin + stretch.offset, first_wall), min(end + stretch.offset, end_wall))
            if stretch.offset > stretch.before:
                total += clock_changes.count_moved(self, stretch, gap, begin, end)
        return total

    def note_at(self, instant: int, zone: ZoneInfo, dst: Dst = DEBIAN) -> str | None:
        """The effect of a clock change on a fire at `instant` (a Unix time in seconds); None: no effect."""
        gap, overlap = self._rules(dst)
        return clock_changes.note(self, stretch_at(zone, instant), gap, overlap, instant)

    def gap_skips(self, first: int, last: int, zone: ZoneInfo, dst: Dst = DEBIAN) -> list[GapSkip]:
        """The changes from `first` to `last`, both included, at which the rule `skip` leaves out times of the line.

        A line that keeps real time loses nothing where it fires again soon enough, unless `skip` was asked for.
        """
        if not self.loses_times(dst):
            return []
        found = (
            clock_changes.skipped_at(self, stretch, keeps_spacing=dst.gap is None)
            for begin, stretch in _stretches(zone, max(first, FIRST_INSTANT), min(last, LAST_INSTANT))
            if stretch.offset > stretch.before and stretch.begin == begin
        )
        return [skip for skip in found if skip is not None]

    def loses_times(self, dst: Dst = DEBIAN) -> bool:
        """Check whether `gap_skips` has an answer for changes of the clock in any zone."""
        return self._rules(dst)[0] is GapRule.SKIP

    def warnings(self) -> tuple[str, ...]:
        """Warnings about legal parts that are probably not meant, a sentence each."""
        found = list(self._reading_warnings)
        narrows_days = self.days != ALL_DAYS or self.last_day
        narrows_weekdays = self.weekdays != ALL_WEEKDAYS
        if not self.both_days:
            found.append(
                "day of month and day of week are both given: it fires on days that suit either, "
                "not only on those that suit both"
            )
        elif narrows_days and narrows_weekdays:
            found.append("day of month and day of week are both given, and one begins with *: a day must suit both")
        if not self.fires_every_year():
            found.append("it fires less than once a year")
        return tuple(found)

    def explain(self) -> str:
        """The line in plain English, such as "at 02:30, Monday to Friday"."""
        return explain(self, self.hashed)

    def _rules(self, dst: Dst) -> tuple[GapRule, RepeatRule]:
        if self.keeps_real_time:
            return dst.gap or GapRule.SKIP, dst.overlap or RepeatRule.BOTH
        return dst.gap or GapRule.RUN_AFTER, dst.overlap or RepeatRule.FIRST


def parse(text: str, seed: bytes | None = None) -> Cron:
    """Read a line. `CronInvalid` says what is wrong, where, and what to write.

    `seed` spreads the values of `H`: a job's id, so that each job gets its own and keeps it. Without one (a preview)
    the values are an example, and a warning says so.
    """
    return _parse(text, (seed or b"") if _HASH.search(text, 0, MAX_LENGTH) else None)


# An H that no letter touches: THU and @hourly have none. A false find (H in a refused line) costs nothing.
_HASH: Final = re.compile(r"(?<![0-9A-Za-z@])[Hh](?![0-9A-Za-z])", re.ASCII)


@lru_cache(maxsize=4096)
def _parse(text: str, seed: bytes | None) -> Cron:
    """The last few thousand are remembered; without an `H` all jobs share the line."""
    fields = split_line(text)
    masks = [read_field(each, seed or b"") for each in fields]
    has_seconds = len(masks) == 6
    second = masks[0] if has_seconds else FieldMasks(1)
    minute, hour, day, month, weekday = masks[-5:]
    warnings: tuple[str, ...] = ()
    for each in masks:
        warnings += each.warnings
    hashed = tuple(each.kind.name for each, read in zip(fields, masks, strict=True) if read.hashed)
    if hashed and not seed:
        warnings += ("H is spread by the job's id; without a job its times here are only an example",)
    cron = Cron(
        expression=text,
        seed=seed,
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
        hashed=hashed,
        keeps_real_time=fields[-5].text[0] == "*" or fields[-4].text[0] == "*",
        has_seconds=has_seconds,
        _reading_warnings=warnings,
    )
    if not cron.ever_fires():
        raise CronInvalid(
            "day of month: it never fires, because no such day exists in the months given",
            position=fields[-3].position,
            hint="write days that the months have, or L for the last day",
        )
    return cron


def _stretches(zone: ZoneInfo, first: int, last: int) -> Iterator[tuple[int, Stretch]]:
    """The stretches from the one that holds `first` to the one that holds `last`, each with where to look in it from:
    its begin may lie before that, and have been seen."""
    while first <= last:
        stretch = stretch_at(zone, first)
        yield first, stretch
        first = stretch.end
