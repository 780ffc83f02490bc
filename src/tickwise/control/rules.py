"""The calendars and maintenance windows of a namespace, as the store has them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from tickwise.control.context import ControlContext
from tickwise.domain.calendar.rules import CalendarRule, ScheduleRules
from tickwise.ports.store import RuleKind, RuleRow
from tickwise.roles.shared.calendars import decode_calendar
from tickwise.roles.shared.definition import CalendarUse
from tickwise.roles.shared.rulebook import decode_window

FEW_CALENDARS: Final = 20
"""So many names are looked up one by one; for more, all calendars of the namespace are listed."""
PAGE: Final = 500


async def calendars_known(context: ControlContext, namespace: str, names: Collection[str]) -> frozenset[str]:
    """Those of the names under which there is a calendar."""
    if len(names) > FEW_CALENDARS:
        return frozenset(names) & await _calendar_names(context, namespace)
    known = [name for name in names if "\0" not in name]
    rows = [await context.store.rules.get(namespace, RuleKind.CALENDAR, name) for name in known]
    return frozenset(row.name for row in rows if row is not None)


async def _calendar_names(context: ControlContext, namespace: str) -> set[str]:
    return {row.name for row in await _rules_of(context, namespace, RuleKind.CALENDAR)}


async def _rules_of(context: ControlContext, namespace: str, kind: RuleKind) -> list[RuleRow]:
    """All of one namespace, page by page."""
    found: list[RuleRow] = []
    while True:
        page = await context.store.rules.page(namespace, kind, after=found[-1].name if found else None, limit=PAGE)
        found += page
        if len(page) < PAGE:
            return found


async def rules_for(
    context: ControlContext, namespace: str, uses: Sequence[CalendarUse], labels: Mapping[str, str] | None
) -> ScheduleRules | None:
    """The rules that may close the times of a job with these labels; None if there are none."""
    calendars: list[CalendarRule] = []
    for use in uses:
        row = await context.store.rules.get(namespace, RuleKind.CALENDAR, use.name)
        if row is not None:
            calendars.append(CalendarRule(use.name, decode_calendar(row.body).calendar, use.mode, use.otherwise))
    rows = await _rules_of(context, namespace, RuleKind.WINDOW)
    windows = [decode_window(row.name, row.body).window for row in rows]
    concerned = tuple(window for window in windows if window.concerns(labels or {}))
    return ScheduleRules(tuple(calendars), concerned) if calendars or concerned else None
