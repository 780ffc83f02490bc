"""Maintenance windows that people keep: store, look up, delete, and when they go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from tickwise.control.access import requires
from tickwise.control.bodies import Labels
from tickwise.control.schedules.stored_rules import Covers, FoundRule, Range, StoredRules, WrittenCalendar, check_name
from tickwise.control.texts import clean_reason
from tickwise.documents.calendars import CalendarBody
from tickwise.documents.rulebook import StoredWindow, decode_window, encode_window
from tickwise.domain.calendar.rules import Otherwise, Window
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.ports.store import Page, RuleKind, RuleRow


class WindowBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A maintenance window: nothing that it concerns starts in it."""

    when: CalendarBody
    labels: Labels = {}
    """All of these pairs must be among a job's labels; none: every job of the namespace is concerned."""
    action: Otherwise = Otherwise.SKIP
    reason: Annotated[str, Meta(max_length=1_000, description="Its description for people.")] = ""


class WindowEntry(NamedTuple):
    """A maintenance window of a list."""

    row: RuleRow
    stored: StoredWindow


class WindowService:
    """Everything about maintenance windows."""

    def __init__(self, rules: StoredRules) -> None:
        self._rules = rules

    @requires(Permission.WINDOWS_WRITE)
    async def put(self, who: Principal, name: str, body: WindowBody, found: FoundRule | None = None) -> WrittenCalendar:
        """Create or replace; with `found`, only what was found. Raises `Invalid`, `VersionConflict`, `Busy`; `Conflict`
        if no more can be stored."""
        check_name(name, RuleKind.WINDOW)
        clean_reason(body.reason, "/reason")
        when = await self._rules.read(who, body.when, "/when")
        await self._rules.check_cost(who, RuleKind.WINDOW, name, when.calendar)
        window = Window(name, when.calendar, dict(body.labels), body.action, body.reason)
        return await self._rules.put(who, RuleKind.WINDOW, name, encode_window(window, when), found)

    @requires(Permission.WINDOWS_WRITE)
    async def to_change(self, who: Principal, name: str) -> FoundRule:
        """The window of this name, if there is one, for a write that is judged by it."""
        return FoundRule(await self._rules.find(who, RuleKind.WINDOW, name))

    @requires(Permission.WINDOWS_WRITE)
    async def to_delete(self, who: Principal, name: str) -> RuleRow:
        """The window of this name, for a delete that is judged by it. Raises `NotFound`."""
        return await self._rules.get(who, RuleKind.WINDOW, name)

    @requires(Permission.WINDOWS_WRITE)
    async def delete(self, who: Principal, name: str, only: RuleRow | None = None) -> RuleRow:
        """Delete, with `only` nothing but that; what was deleted. Raises `NotFound`, `VersionConflict`."""
        return await self._rules.delete(who, RuleKind.WINDOW, name, only)

    @requires(Permission.WINDOWS_READ)
    async def get(self, who: Principal, name: str) -> RuleRow:
        """One maintenance window. Raises `NotFound`."""
        return await self._rules.get(who, RuleKind.WINDOW, name)

    @requires(Permission.WINDOWS_READ)
    async def page(self, who: Principal, after: str | None, limit: int) -> Page[WindowEntry]:
        """By name, those after `after`. A page is bounded in bytes."""
        return await self._entries(who, after, limit)

    async def _entries(self, who: Principal, after: str | None, limit: int) -> Page[WindowEntry]:
        rows = await self._rules.page(who, RuleKind.WINDOW, after, limit)
        return await self._rules.in_thread(
            who, lambda: Page((WindowEntry(row, decode_window(row.name, row.body)) for row in rows), cut=rows.cut)
        )

    @requires(Permission.WINDOWS_READ)
    async def covering(
        self, who: Principal, within: Range, most: int, *, after: str | None = None
    ) -> Sequence[tuple[WindowEntry, Covers]]:
        """The times at which each of `most` windows is open, by name, those after `after`. Raises `Invalid`, `Busy`."""
        entries = await self._entries(who, after, most)
        found = await self._rules.covering(who, {each.row.name: each.stored.window.when for each in entries}, within)
        return [(each, found[each.row.name]) for each in entries]

    @requires(Permission.WINDOWS_READ)
    async def covers(self, who: Principal, name: str, within: Range) -> Covers:
        """The times at which a maintenance window is open. Raises `NotFound`, `Invalid`."""
        row = await self._rules.get(who, RuleKind.WINDOW, name)
        stored = decode_window(row.name, row.body)
        return await self._rules.covers(who, stored.window.when, within, stored.warnings)
