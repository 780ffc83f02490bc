"""Calendars that people keep: store, look up, delete, and which times they cover."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tickwise.control.access import requires
from tickwise.control.schedules.stored_rules import Covers, FoundRule, Range, StoredRules, WrittenCalendar, check_name
from tickwise.documents.calendars import CalendarBody, StoredCalendar, decode_calendar, encode_calendar
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.ports.store import Page, RuleKind, RuleRow


class CalendarEntry(NamedTuple):
    """A calendar of a list."""

    row: RuleRow
    stored: StoredCalendar


class CalendarService:
    """Everything about calendars."""

    def __init__(self, rules: StoredRules) -> None:
        self._rules = rules

    @requires(Permission.CALENDARS_WRITE)
    async def put(
        self, who: Principal, name: str, body: CalendarBody, found: FoundRule | None = None
    ) -> WrittenCalendar:
        """Create or replace; with `found`, only what was found. Raises `Invalid`, `VersionConflict`, `Busy`; `Conflict`
        if no more can be stored."""
        check_name(name, RuleKind.CALENDAR)
        stored = await self._rules.read(who, body)
        await self._rules.check_cost(who, RuleKind.CALENDAR, name, stored.calendar)
        return await self._rules.put(who, RuleKind.CALENDAR, name, encode_calendar(stored), found)

    @requires(Permission.CALENDARS_WRITE)
    async def to_change(self, who: Principal, name: str) -> FoundRule:
        """The calendar of this name, if there is one, for a write that is judged by it."""
        return FoundRule(await self._rules.find(who, RuleKind.CALENDAR, name))

    @requires(Permission.CALENDARS_WRITE)
    async def to_delete(self, who: Principal, name: str) -> RuleRow:
        """The calendar of this name, for a delete that is judged by it. Raises `NotFound`."""
        return await self._rules.get(who, RuleKind.CALENDAR, name)

    @requires(Permission.CALENDARS_WRITE)
    async def delete(self, who: Principal, name: str, only: RuleRow | None = None) -> RuleRow:
        """Delete, with `only` nothing but that; what was deleted. Raises `NotFound`, `VersionConflict`; `Conflict`,
        code `calendar_in_use`, while a job that is not CANCELLED names the calendar."""
        return await self._rules.delete(who, RuleKind.CALENDAR, name, only)

    @requires(Permission.CALENDARS_READ)
    async def get(self, who: Principal, name: str) -> RuleRow:
        """One calendar. Raises `NotFound`."""
        return await self._rules.get(who, RuleKind.CALENDAR, name)

    @requires(Permission.CALENDARS_READ)
    async def page(self, who: Principal, after: str | None, limit: int) -> Page[CalendarEntry]:
        """By name, those after `after`. A page is bounded in bytes."""
        return await self._entries(who, after, limit)

    async def _entries(self, who: Principal, after: str | None, limit: int) -> Page[CalendarEntry]:
        rows = await self._rules.page(who, RuleKind.CALENDAR, after, limit)
        return await self._rules.in_thread(
            who, lambda: Page((CalendarEntry(row, decode_calendar(row.body)) for row in rows), cut=rows.cut)
        )

    @requires(Permission.CALENDARS_READ)
    async def covers(self, who: Principal, name: str, within: Range) -> Covers:
        """The times that a stored calendar covers. Raises `NotFound`, `Invalid`."""
        stored = decode_calendar((await self._rules.get(who, RuleKind.CALENDAR, name)).body)
        return await self._rules.covers(who, stored.calendar, within, stored.warnings)

    @requires(Permission.CALENDARS_READ)
    async def covering(
        self, who: Principal, within: Range, most: int, *, after: str | None = None
    ) -> Sequence[tuple[CalendarEntry, Covers]]:
        """The times that each of `most` calendars covers, by name, those after `after`. Raises `Invalid`, `Busy`."""
        entries = await self._entries(who, after, most)
        found = await self._rules.covering(who, {each.row.name: each.stored.calendar for each in entries}, within)
        return [(each, found[each.row.name]) for each in entries]

    @requires(Permission.CALENDARS_READ)
    async def preview(self, who: Principal, body: CalendarBody, within: Range) -> Covers:
        """The times that a calendar would cover if it were stored now. Raises `Invalid`, `Busy`."""
        stored = await self._rules.read(who, body, "/calendar")
        return await self._rules.covers(who, stored.calendar, within, stored.warnings)
