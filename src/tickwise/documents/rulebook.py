"""Calendars, maintenance windows and stops as a scheduler holds them: all of every namespace, read again when one
changes.

        store.rules.all, stops.find  ──► Rulebook ──► rules(RuledJob) ──► decision.decide
             ▲                              └── near(now, seconds): is any window or stop going on, or about to?
             └── whenever a batch of timers tells another version

Invariant: what cannot be read never opens a time by accident. A job that names a calendar that cannot be read, or that
is gone, is not decided (`Bug`), so it waits; a window that cannot be read closes nothing, for else every job of its
namespace would wait. All are said loudly, once per version.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
import structlog

from tickwise.documents.calendars import CalendarBody, StoredCalendar, decode_calendar, encode_calendar
from tickwise.documents.definition import CalendarUse
from tickwise.domain.calendar.rules import Calendar, CalendarRule, Otherwise, ScheduleRules, Window, next_cover
from tickwise.domain.errors import Bug
from tickwise.domain.stops import Stop
from tickwise.ports.store import KNOWN_SECONDS, RuleKind, RuleRow, RuleStore, StopQuery, StopStore

MAX_KEPT: Final = 10_000
"""Different sets of rules that are kept ready; all are dropped when there are more."""

logger = structlog.get_logger("tickwise.rules")


class _WindowText(msgspec.Struct, omit_defaults=True):
    """The stored form of a maintenance window."""

    when: msgspec.Raw
    """A text of `encode_calendar`."""
    labels: dict[str, str] = {}
    action: Otherwise = Otherwise.SKIP
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StoredWindow:
    """A maintenance window, and what people said of its times."""

    window: Window
    said: CalendarBody
    warnings: tuple[str, ...] = ()


def encode_window(window: Window, when: StoredCalendar) -> str:
    """The text to store; `when` is that of the window, with what was said."""
    text = _WindowText(msgspec.Raw(encode_calendar(when).encode()), dict(window.labels), window.action, window.reason)
    return msgspec.json.encode(text).decode()


@lru_cache(maxsize=64)
def decode_window(name: str, text: str) -> StoredWindow:
    """A text of `encode_window`. Raises `msgspec.MsgspecError` and `Invalid` for anything else."""
    found = msgspec.json.decode(text, type=_WindowText)
    when = decode_calendar(bytes(found.when).decode())
    return StoredWindow(Window(name, when.calendar, found.labels, found.action, found.reason), when.said, when.warnings)


class _KnownInterval(NamedTuple):
    """The rules from one instant to before another: a window is going on, or none is and the next begins then."""

    begin: float
    end: float
    going_on: bool


class RuledJob(NamedTuple):
    """The facts of a job that rules go by."""

    job_id: UUID
    namespace: str
    queue: str
    labels: Mapping[str, str]


class Rulebook:
    """One scheduler's."""

    def __init__(self, store: RuleStore, stops: StopStore) -> None:
        self._stored = store
        self._stored_stops = stops
        self.version: int | None = None
        """Of what is held; None: nothing was read yet."""
        self._calendars: dict[tuple[str, str], Calendar] = {}
        self._unreadable: set[tuple[str, str]] = set()
        self._gone: set[tuple[str, str]] = set()
        """Calendars that jobs named and that are not there."""
        self._windows: dict[str, list[Window]] = {}
        self._stops: dict[str, list[Stop]] = {}
        self._windows_known: _KnownInterval | None = None
        self._kept: dict[object, ScheduleRules] = {}

    async def load(self) -> None:
        """Read them all."""
        version, rows = await self._stored.all()
        # Read after the version: a stop that comes between is read again with the next one.
        stops: dict[str, list[Stop]] = defaultdict(list)
        for stop in await self._stored_stops.find(StopQuery(namespace=None, over_seconds=KNOWN_SECONDS)):
            stops[stop.namespace].append(stop)
        self._calendars.clear()
        self._unreadable.clear()
        self._gone.clear()
        self._kept.clear()
        self._windows_known = None
        windows: dict[str, list[Window]] = defaultdict(list)
        for row in rows:
            try:
                if row.kind is RuleKind.CALENDAR:
                    self._calendars[row.namespace, row.name] = _checked(decode_calendar(row.body).calendar)
                else:
                    window = decode_window(row.name, row.body).window
                    _checked(window.when)
                    windows[row.namespace].append(window)
            except Exception as wrong:  # noqa: BLE001  # one rule that is broken, however, must not stop all schedules
                self._cannot_read(row, wrong)
        self._windows = dict(windows)
        self._stops = dict(stops)
        self.version = version

    def forget(self) -> None:
        """Read anew at the next look: zones have other rules now."""
        self.version = None

    def near(self, now: float, seconds: float) -> bool:
        """Check whether a maintenance window or a stop of any namespace is going on, or begins within `seconds`. Called
        at every look for timers, with up to thousands of windows: the answer is kept until one begins or ends."""
        known = self._windows_known
        if known is None or not known.begin <= now < known.end:
            known = self._windows_known = self._look_at_windows(now)
        return known.going_on or known.end < now + seconds

    def _look_at_windows(self, now: float) -> _KnownInterval:
        earliest = math.inf
        for stop in chain.from_iterable(self._stops.values()):
            if stop.is_on(now):
                return _KnownInterval(now, stop.until, going_on=True)
            if stop.begin > now:
                earliest = min(earliest, stop.begin)
        for window in chain.from_iterable(self._windows.values()):
            cover = next_cover(window.when, now)
            if cover is not None and cover.begin <= now:
                return _KnownInterval(now, cover.end, going_on=True)
            if cover is not None:
                earliest = min(earliest, cover.begin)
        return _KnownInterval(now, earliest, going_on=False)

    def has_windows(self) -> bool:
        """True if there is a maintenance window or a stop."""
        return bool(self._windows or self._stops)

    def rules(self, job: RuledJob, uses: Sequence[CalendarUse]) -> ScheduleRules | None:
        """The rules that may close the times of a job; None: no rule. Raises `Bug` if it names a calendar that cannot
        be read, or that is gone."""
        job_id, namespace, queue, labels = job
        windows, stops = self._windows.get(namespace), self._stops.get(namespace)
        if not uses and windows is None and stops is None:
            return None
        concerned = tuple(window for window in windows or () if window.concerns(labels))
        stopped = tuple(stop for stop in stops or () if stop.concerns(job_id, labels, queue))
        if not uses and not concerned and not stopped:
            return None
        names = tuple(window.name for window in concerned)
        key = (namespace, tuple(uses), names, tuple(stop.stop_id for stop in stopped))
        found = self._kept.get(key)
        if found is None:
            found = ScheduleRules(tuple(self._rule(namespace, use) for use in uses), concerned, stopped)
            if len(self._kept) >= MAX_KEPT:
                self._kept.clear()
            self._kept[key] = found
        return found

    def _rule(self, namespace: str, use: CalendarUse) -> CalendarRule:
        key = (namespace, use.name)
        if key in self._unreadable:
            raise Bug(f"the calendar {use.name} cannot be read, so nothing that goes by it is decided")
        calendar = self._calendars.get(key)
        if calendar is None:
            # The store refuses to delete what a job names, so this is a job that was stored at the same moment.
            if key not in self._gone:
                self._gone.add(key)
                logger.error("calendar_gone", namespace=namespace, calendar=use.name)
            raise Bug(f"the calendar {use.name} is gone, so nothing that goes by it is decided")
        return CalendarRule(use.name, calendar, use.mode, use.otherwise)

    def _cannot_read(self, row: RuleRow, wrong: Exception) -> None:
        detail = f"{type(wrong).__name__}: {wrong}"[:500]
        if row.kind is RuleKind.CALENDAR:
            self._unreadable.add((row.namespace, row.name))
            logger.error("calendar_unreadable", namespace=row.namespace, calendar=row.name, detail=detail)
        else:
            logger.error("window_unreadable", namespace=row.namespace, window=row.name, detail=detail)


def _checked(calendar: Calendar) -> Calendar:
    """Made ready to search, which a zone or a cron line that is none refuses."""
    calendar.compiled()
    return calendar
