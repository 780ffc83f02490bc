"""Times at which a schedule must not fire, or may only fire: calendars, maintenance windows, stops; and the verdict on
a fire.

        Rules ──► verdict(nominal) ──► ALLOWED
          │                       └──► Closed(reason, name, skip or defer, opens, sentence)
          ├── calendars, each included or excluded by the job ─┐
          ├── maintenance windows that concern the job ────────┴──► Calendar: the union of its entries
          └── stops that concern the job (`domain/stops.py`)

A calendar's entries are days, weekly hours, recurring windows (a cron line and a duration) and periods, all on the wall
clock of one zone. The entries of iCalendar files and country holidays are days and periods by the time they are here.

**On days on which the clock changes.** A window goes from the first moment at which the clock shows its begin, or
later, to the last moment before its end. So a whole day has the 23 or 25 hours that it really had, a window
whose hour is repeated holds both passes, one that the clock skips in part holds the rest, and one that it skips
whole is not there on that day.

Instants are `float` Unix seconds; a begin belongs to its window, an end does not. Invariants: the search of
`verdict` and `end_of_cover` is bounded in time and steps; at `opens` the same rules allow, and nowhere between.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tickwise.domain.calendar import search as searches
from tickwise.domain.calendar import sentences as said
from tickwise.domain.calendar.entries import Dates, Entry, Period, Recurring, Weekly
from tickwise.domain.stops import Meanwhile, Stop
from tickwise.domain.zones import zone_named

__all__ = [
    "ALLOWED",
    "Allowed",
    "Calendar",
    "CalendarMode",
    "CalendarRule",
    "Closed",
    "ClosedReason",
    "Cover",
    "Dates",
    "Entry",
    "Otherwise",
    "Period",
    "Recurring",
    "ScheduleRules",
    "Weekly",
    "Window",
    "covers",
    "end_of_cover",
    "next_cover",
]  # fmt: skip

SEARCH_SECONDS: Final = 5 * 366 * 86_400.0
"""The span in which `opens` searches. A job that cannot run for five years is as good as ended."""
SEARCH_STEPS: Final = 4_000
"""And over how many windows: five years hold 1,830 nights and 260 weekends; a step takes a few microseconds."""
SEARCH_LOOKS: Final = 40_000
"""A step looks at each part of each calendar and window, so where there are many it is fewer steps: hundreds of them
must not stop all schedules for seconds. A look takes about a microsecond."""
STEPS_LEAST: Final = 400
"""A calendar that leaves room for so many steps is simple enough, wherever they lead."""
_NONE_HOLDS_SECONDS: Final = 86_400.0
"""That nothing opens in years is not asked anew within a day."""


class CalendarMode(StrEnum):
    """The meaning of a calendar to a job."""

    INCLUDE = "include"
    """It runs only inside. Several included calendars must all allow."""
    EXCLUDE = "exclude"
    """It never runs inside."""


class Otherwise(StrEnum):
    """The policy for an occurrence that falls into a closed time."""

    SKIP = "skip"
    DEFER = "defer"
    """It runs as soon as all allow it."""


class ClosedReason(StrEnum):
    """The cause of a closed time, in the words of a ledger record."""

    CALENDAR = "calendar"
    MAINTENANCE = "maintenance"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Calendar:
    """The union of its entries, on the wall clock of a zone."""

    timezone: str = "UTC"
    """An IANA name."""
    entries: tuple[Entry, ...] = ()
    _compiled: list[searches.Compiled] = field(default_factory=list, init=False, compare=False, repr=False)
    """The form to search in, made when it is first asked for. Keep a calendar, and it is made once."""

    def compiled(self) -> searches.Compiled:
        """Raises `Invalid` if the zone, or the cron line of an entry, is none."""
        if not self._compiled:
            self._compiled.append(searches.compiled(zone_named(self.timezone), self.entries))
        return self._compiled[0]


@dataclass(frozen=True, slots=True)
class Cover:
    """A stretch of time that one entry of a calendar covers."""

    begin: float
    end: float
    entry: Entry


def covers(calendar: Calendar, instant: float) -> Cover | None:
    """The cover of the instant; of several entries the one that lasts longest. None: it is outside."""
    found = calendar.compiled().cover_at(instant)
    return None if found is None else Cover(*found)


def next_cover(calendar: Calendar, instant: float, until: float = math.inf) -> Cover | None:
    """The cover of the instant, else the first cover that begins after it and before `until`."""
    compiled = calendar.compiled()
    found = compiled.cover_at(instant)
    if found is None:
        begin = compiled.next_begin(instant)
        if begin is None or begin >= until:
            return None
        found = compiled.cover_at(begin)
    return None if found is None else Cover(*found)


def end_of_cover(calendar: Calendar, instant: float) -> float | None:
    """The first moment from `instant` on that no entry covers: `instant` itself if it is outside. None: there is none
    within the bounds of the search."""
    return ScheduleRules(calendars=(CalendarRule("", calendar),)).opens(instant)


@dataclass(frozen=True, slots=True)
class CalendarRule:
    """A calendar as one job uses it."""

    name: str
    calendar: Calendar
    mode: CalendarMode = CalendarMode.EXCLUDE
    otherwise: Otherwise = Otherwise.SKIP

    def closed_until(self, instant: float) -> float | None:
        """None if it allows the instant; else when it may allow again, infinity if never."""
        compiled = self.calendar.compiled()
        cover = compiled.cover_at(instant)
        if self.mode is CalendarMode.EXCLUDE:
            return None if cover is None else cover[1]
        if cover is not None:
            return None
        begin = compiled.next_begin(instant)
        return math.inf if begin is None else begin

    def sentence(self, instant: float) -> str:
        """The reason of the closure at an instant at which it closes."""
        if self.mode is CalendarMode.INCLUDE:
            return f"outside the calendar {self.name}"
        return f"excluded by the calendar {self.name}: {_entry_words(self.calendar, instant)}"


@dataclass(frozen=True, slots=True)
class Window:
    """A maintenance window of a namespace: nothing that it concerns starts in it."""

    name: str
    when: Calendar
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    """All of these pairs must be among a job's labels; none: every job of the namespace is concerned."""
    action: Otherwise = Otherwise.SKIP
    reason: str = ""
    """The purpose that people gave."""

    def concerns(self, labels: Mapping[str, str]) -> bool:
        """Check whether a job with these labels is concerned."""
        return all(labels.get(name) == value for name, value in self.labels.items())

    def closed_until(self, instant: float) -> float | None:
        """None if it is not going on; else when it ends."""
        cover = self.when.compiled().cover_at(instant)
        return None if cover is None else cover[1]

    def sentence(self, instant: float) -> str:
        """The reason of the closure at an instant at which it closes."""
        reason = f": {self.reason}" if self.reason else ""
        return f"in the maintenance window {self.name}{reason} ({_entry_words(self.when, instant)})"


@dataclass(frozen=True, slots=True)
class Allowed:
    """The occurrence may run at its time."""


ALLOWED: Final = Allowed()


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The occurrence may not run at its time."""

    reason: ClosedReason
    name: str
    """Of the calendar, of the maintenance window, or the id of the stop."""
    otherwise: Otherwise
    until: float
    """The earliest possible end of a closure here: up to then all of them close every occurrence. Infinity:
    never."""
    opens: float | None
    """The next instant at which all rules allow; None: not within the bounds of the search."""
    sentence: str


@dataclass(frozen=True, slots=True)
class ScheduleRules:
    """All that may close a job's times: its calendars, and the maintenance windows and stops that concern it."""

    calendars: tuple[CalendarRule, ...] = ()
    windows: tuple[Window, ...] = ()
    stops: tuple[Stop, ...] = ()
    _searched: list[tuple[float, float, float | None]] = field(
        default_factory=list, init=False, compare=False, repr=False
    )
    """The last search, with the times (from, to before) that it answers: a closed time holds many occurrences."""
    _spent: list[int] = field(default_factory=lambda: [0], init=False, compare=False, repr=False)

    @property
    def looks(self) -> int:
        """The cost of asking all of them about one instant."""
        looks = len(self.stops) + sum(each.when.compiled().looks for each in self.windows)
        return looks + sum(each.calendar.compiled().looks for each in self.calendars)

    @property
    def is_complex(self) -> bool:
        """True if each step of a search costs so much that the search takes few steps."""
        return SEARCH_LOOKS // max(1, self.looks) < STEPS_LEAST

    def take_spent(self) -> int:
        """The looks since this was last asked."""
        spent, self._spent[0] = self._spent[0], 0
        return spent

    def verdict(self, nominal: float) -> Allowed | Closed:
        """Decide whether an occurrence may run at its nominal time.

        Where several close, a stop is named before a window, and a window before a calendar. It is deferred only if all
        that close say so.
        """
        self._spent[0] += self.looks
        stops = [(each, until) for each in self.stops if (until := each.closed_until(nominal)) is not None]
        windows = [(each, until) for each in self.windows if (until := each.closed_until(nominal)) is not None]
        rules = [(each, until) for each in self.calendars if (until := each.closed_until(nominal)) is not None]
        closing: list[tuple[Stop | Window | CalendarRule, float]] = [*stops, *windows, *rules]
        if not closing:
            return ALLOWED
        defers = (
            all(each.meanwhile is Meanwhile.HOLD for each, _ in stops)
            and all(each.action is Otherwise.DEFER for each, _ in windows)
            and all(each.otherwise is Otherwise.DEFER for each, _ in rules)
        )
        first = closing[0][0]
        return Closed(
            reason=_REASONS[type(first)],
            name=str(first.stop_id) if isinstance(first, Stop) else first.name,
            otherwise=Otherwise.DEFER if defers else Otherwise.SKIP,
            until=min(until for _, until in closing),
            opens=self.opens(nominal),
            sentence=first.sentence(nominal),
        )

    def opens(self, instant: float) -> float | None:
        """The first moment from `instant` on at which all allow. None: there is none up to `SEARCH_SECONDS` ahead, or
        it was not found within `SEARCH_STEPS` and `SEARCH_LOOKS`."""
        if self._searched:
            begin, end, found = self._searched[0]
            if begin <= instant < end:
                return found
        found, _ = self._search(instant)
        self._searched[:] = [(instant, instant + _NONE_HOLDS_SECONDS if found is None else found, found)]
        return found

    def is_too_much(self, instant: float) -> bool:
        """Check whether a search from this instant ends because of the cost of its steps, and without an answer."""
        return self.is_complex and not self._search(instant)[1]

    def _search(self, instant: float) -> tuple[float | None, bool]:
        """The time from which all allow, if it was found; and whether it is known."""
        closers: tuple[CalendarRule | Window | Stop, ...] = (*self.stops, *self.windows, *self.calendars)
        cursor, last, looks = instant, instant + SEARCH_SECONDS, max(1, self.looks)
        for _ in range(min(SEARCH_STEPS, 1 + SEARCH_LOOKS // looks)):
            self._spent[0] += looks
            # Until the last of them may open, none of the time between can be allowed by all.
            ends = [until for each in closers if (until := each.closed_until(cursor)) is not None]
            if not ends:
                return cursor, True
            cursor = max(ends)
            if cursor > last:
                return None, True
        return None, False


_REASONS: Final = {
    Stop: ClosedReason.STOPPED,
    Window: ClosedReason.MAINTENANCE,
    CalendarRule: ClosedReason.CALENDAR,
}


def _entry_words(calendar: Calendar, instant: float) -> str:
    cover = covers(calendar, instant)
    return "" if cover is None else said.entry(cover.entry, cover.begin, zone_named(calendar.timezone))
