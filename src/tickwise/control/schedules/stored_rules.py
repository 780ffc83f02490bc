"""The part that calendars and maintenance windows share: read, store, look up, delete, and which times they cover.

        CalendarBody | WindowBody ──► read_calendar, in a thread ──► RuleRow ──► store ──► timers are decided anew

Invariant: what is stored was read to its end before, so that no scheduler ever meets one that it cannot carry out.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from tickwise.control.audit.entries import entry
from tickwise.control.context import ControlContext
from tickwise.control.texts import clean_id
from tickwise.control.times import LAST, written
from tickwise.documents.calendars import (
    NAME_MAX,
    CalendarBody,
    StoredCalendar,
    read_calendar,
)
from tickwise.domain.audit import AuditAction
from tickwise.domain.calendar.rules import (
    Calendar,
    CalendarRule,
    Recurring,
    ScheduleRules,
    end_of_cover,
    next_cover,
)
from tickwise.domain.calendar.sentences import entry as entry_words
from tickwise.domain.errors import Busy, Conflict, Invalid, Misconfigured, NotFound
from tickwise.domain.model import Principal
from tickwise.domain.zones import zone_named
from tickwise.ports.calendars import CalendarReader
from tickwise.ports.signals import Topic
from tickwise.ports.store import PAGE_BYTES, Page, RuleKind, RuleQuery, RuleRow

MAX_READING_SECONDS: Final = 30.0
"""A reader is bounded, and done within seconds; this is for machines that have no time for it."""
MAX_READINGS: Final = 2
"""Threads that read at once: each may keep a core busy for seconds."""
MAX_COVERS: Final = 1_000
MAX_RANGE_SECONDS: Final = 3_660 * 86_400.0
RANGE_SECONDS_USUAL: Final = 30 * 86_400.0

T = TypeVar("T")

_PUT: Final = {RuleKind.CALENDAR: AuditAction.CALENDAR_PUT, RuleKind.WINDOW: AuditAction.WINDOW_PUT}
_DELETED: Final = {RuleKind.CALENDAR: AuditAction.CALENDAR_DELETED, RuleKind.WINDOW: AuditAction.WINDOW_DELETED}


class FoundRule(NamedTuple):
    """The object found under a name, for a write that must not meet another version."""

    row: RuleRow | None
    """None: there was nothing."""


class WrittenCalendar(NamedTuple):
    """The result of a write."""

    row: RuleRow
    created: bool
    """There was none under this name before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The times that are looked at."""

    start: float | None = None
    """None: now."""
    end: float | None = None
    """None: 30 days later."""
    limit: int = 100


class CoveredStretch(NamedTuple):
    """Time without a break that a calendar covers."""

    begin: float
    end: float | None
    """It may lie after the range; None: no end is in sight."""
    what: str
    """The entry that covers its begin, in words."""


class Covers(NamedTuple):
    """The covered times of a range."""

    start: float
    end: float
    stretches: tuple[CoveredStretch, ...]
    more: bool
    """The limit came before the end of the range."""
    warnings: tuple[str, ...] = ()


class StoredRules:
    """Calendars and windows as they are stored. It checks no permission: the services over it do."""

    def __init__(self, context: ControlContext, reader: CalendarReader) -> None:
        """`reader` reads .ics files and the holidays of countries."""
        self._context = context
        self._calendar_reader = reader
        self._readings = asyncio.Semaphore(MAX_READINGS)
        self._slots_of = WeakValueDictionary[str, asyncio.Lock]()
        """The lock of each namespace, while a caller holds it or waits for it."""

    async def find(self, who: Principal, kind: RuleKind, name: str) -> RuleRow | None:
        """The calendar or window of this name, or None."""
        if "\0" in name:
            return None
        query = RuleQuery(namespace=who.namespace, kind=kind, names=(name,), limit=1)
        return next(iter(await self._context.store.rules.find(query)), None)

    async def page(self, who: Principal, kind: RuleKind, after: str | None, limit: int) -> Page[RuleRow]:
        """Calendars or windows by name, those after `after`. A page is bounded in bytes."""
        query = RuleQuery(namespace=who.namespace, kind=kind, after=after, limit=limit, bytes_most=PAGE_BYTES)
        return await self._context.store.rules.find(query)

    async def get(self, who: Principal, kind: RuleKind, name: str) -> RuleRow:
        """The calendar or window of this name. Raises `NotFound`."""
        row = await self.find(who, kind, name)
        if row is None:
            raise NotFound(f"there is no {kind} {name[:NAME_MAX]!r} in the namespace {who.namespace}")
        return row

    async def delete(self, who: Principal, kind: RuleKind, name: str, only: RuleRow | None = None) -> RuleRow:
        """Delete, with `only` nothing but that; what was deleted. Raises `NotFound`, `VersionConflict`; `Conflict`,
        code `calendar_in_use`, while a job that is not CANCELLED names the calendar."""
        row = only or await self.get(who, kind, name)
        try:
            audit = entry(who, _DELETED[kind], kind.value, name, before=_fields(row.body))
            await self._context.surely(
                lambda: self._context.store.rules.delete(who.namespace, kind, name, expected=only, audit=audit)
            )
        except NotFound:
            pass  # it was there a moment ago: another caller, or our own first try, has deleted it
        except Conflict as refusal:
            if refusal.code != "calendar_in_use":
                raise
            raise Conflict(
                f"jobs go by the calendar {name}, and would run when it closes; take it out of the `calendars` "
                "of these jobs, or cancel them, then delete it",
                code="calendar_in_use",
            ) from None
        self._context.signals.send(Topic.TIMERS)
        return row

    async def put(
        self, who: Principal, kind: RuleKind, name: str, text: str, found: FoundRule | None
    ) -> WrittenCalendar:
        """Store it under the name; with `found`, only over what was found. Raises `VersionConflict`, `Conflict`."""
        before = await self.find(who, kind, name) if found is None else found.row
        expected = None if found is None else 0 if found.row is None else found.row.version
        rule = RuleRow(
            namespace=who.namespace,
            kind=kind,
            name=name,
            body=text,
            created_by=who.name,
            created_at=found.row.created_at if found is not None and found.row is not None else 0.0,
        )
        tries = itertools.count()
        was = None if before is None else _fields(before.body)
        audit = entry(who, _PUT[kind], kind.value, name, before=was, after=_fields(text))
        row = await self._context.surely(
            lambda: self._context.store.rules.put(rule, expected, again=next(tries) > 0, audit=audit)
        )
        self._context.signals.send(Topic.TIMERS)
        return WrittenCalendar(row, before is None)

    async def check_cost(self, who: Principal, kind: RuleKind, name: str, calendar: Calendar) -> None:
        """Raises `Invalid` for one whose open times cannot be found at a bounded cost: schedules would wait for it."""
        now = await self._context.time.now()
        rules = ScheduleRules(calendars=(CalendarRule(name, calendar),))
        if not rules.is_complex or not await self.in_thread(who, lambda: rules.is_too_much(now)):
            return
        field = "/recurring" if any(isinstance(entry, Recurring) for entry in calendar.entries) else ""
        raise Invalid(
            f"it takes too long to find out when the {kind} {name} ends: its times follow on each other without a gap. "
            "Write hours that come each week as weekly, merge recurring lines that meet, or give them longer durations",
            pointer=f"/when{field}" if kind is RuleKind.WINDOW else field,
            code="calendar_too_much",
        )

    async def read(self, who: Principal, body: CalendarBody, pointer: str = "") -> StoredCalendar:
        """Read a body to its end. Raises `Invalid`, `Busy`."""
        now = await self._context.time.now()
        reader = self._calendar_reader
        if body.ics is None and body.holidays is None:
            return read_calendar(body, reader, now=now, pointer=pointer)
        try:
            return await self.in_thread(who, lambda: read_calendar(body, reader, now=now, pointer=pointer))
        except Misconfigured as missing:
            field = "holidays" if body.ics is None else "ics"
            raise Invalid(
                f"this server cannot read {field}: {missing.detail}, on the server; or write the times out as dates",
                pointer=f"{pointer}/{field}",
                code="calendar_library_missing",
            ) from None

    async def covers(self, who: Principal, calendar: Calendar, within: Range, warnings: tuple[str, ...]) -> Covers:
        """The times of a range that a calendar covers. Raises `Invalid`, `Busy`."""
        start, end = await self._range(within)
        limit = min(within.limit, MAX_COVERS)
        stretches = await self.in_thread(who, lambda: _stretches(calendar, start, end, limit + 1))
        return Covers(start, end, tuple(stretches[:limit]), len(stretches) > limit, warnings)

    async def _range(self, within: Range) -> tuple[float, float]:
        """From when to when is looked. Raises `Invalid`."""
        start = await self._context.time.now() if within.start is None else within.start
        end = min(start + RANGE_SECONDS_USUAL, LAST) if within.end is None else within.end
        if end <= start:
            raise Invalid(f"to must come after from, {written(start)}; give a later time", pointer="/to")
        if end - start > MAX_RANGE_SECONDS:
            raise Invalid("from and to lie more than ten years apart; ask for a shorter range", pointer="/to")
        return start, end

    async def covering(self, who: Principal, calendars: Mapping[str, Calendar], within: Range) -> Mapping[str, Covers]:
        """The times of a range that several calendars cover, by their names. Raises `Invalid`, `Busy`."""
        start, end = await self._range(within)
        limit = min(within.limit, MAX_COVERS)

        def work() -> Mapping[str, Covers]:
            found = {name: _stretches(each, start, end, limit + 1) for name, each in calendars.items()}
            return {
                name: Covers(start, end, tuple(stretches[:limit]), len(stretches) > limit)
                for name, stretches in found.items()
            }

        return await self.in_thread(who, work)

    async def in_thread(self, who: Principal, work: Callable[[], T]) -> T:
        """Work beside the event loop, a few pieces at a time, one for each namespace. Raises `Busy` if it takes too
        long."""
        readings, slot = self._readings, self._slots_of.setdefault(who.namespace, asyncio.Lock())
        busy = Busy(
            f"calendars of the namespace {who.namespace} are being read for more than {MAX_READING_SECONDS:.0f} s; "
            "send the same again a little later, or a calendar with fewer events",
            retry_after_seconds=MAX_READING_SECONDS,
        )

        def done(_: object) -> None:
            readings.release()
            slot.release()

        try:
            async with asyncio.timeout(MAX_READING_SECONDS):
                await slot.acquire()
                try:
                    await readings.acquire()
                except BaseException:
                    slot.release()
                    raise
                thread = asyncio.ensure_future(asyncio.to_thread(work))
                # A thread cannot be stopped: it keeps its places until it ends, also if its caller has gone.
                thread.add_done_callback(done)
                return await asyncio.shield(thread)
        except TimeoutError:
            raise busy from None


def check_name(name: str, kind: RuleKind) -> None:
    """Raises `Invalid` for a name that neither a calendar nor a window can have."""
    if not 0 < len(name) <= NAME_MAX or name != name.strip():
        raise Invalid(f"the name of a {kind} has 1 to {NAME_MAX} characters, none of them a space at an end")
    clean_id(name, "")


def _stretches(calendar: Calendar, start: float, end: float, limit: int) -> list[CoveredStretch]:
    """The covered stretches from `start` to before `end`, adjacent ones joined, at most so many."""
    zone = zone_named(calendar.timezone)
    found: list[CoveredStretch] = []
    at: float | None = start
    while at is not None and at < end and len(found) < limit:
        cover = next_cover(calendar, at, end)
        if cover is None:
            break
        begin = max(cover.begin, at)
        at = end_of_cover(calendar, begin)
        found.append(CoveredStretch(begin, at, entry_words(cover.entry, cover.begin, zone)))
    return found


def _fields(body: str) -> Mapping[str, Any]:
    """The fields of a stored rule for the audit log."""
    said = json.loads(body)
    return said if isinstance(said, dict) else {"body": said}
