"""The calendars, maintenance windows and stops of a namespace, as the store has them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from tickwise.control.context import ControlContext
from tickwise.documents.calendars import decode_calendar
from tickwise.documents.definition import CalendarUse
from tickwise.documents.rulebook import RuledJob, decode_window
from tickwise.domain.calendar.rules import CalendarRule, ScheduleRules
from tickwise.ports.store import KNOWN_SECONDS, PAGE_BYTES, JobRow, RuleKind, RuleQuery, RuleRow, StopQuery

PAGE: Final = 500


async def calendars_known(context: ControlContext, namespace: str, names: Collection[str]) -> frozenset[str]:
    """The names under which there is a calendar."""
    return frozenset(await _calendars(context, namespace, names))


async def _calendars(context: ControlContext, namespace: str, names: Collection[str]) -> dict[str, RuleRow]:
    """The calendars of these names, as far as there are any."""
    known = tuple(name for name in names if "\0" not in name)
    query = RuleQuery(namespace=namespace, kind=RuleKind.CALENDAR, names=known, limit=len(known))
    return {row.name: row for row in await context.store.rules.find(query)} if known else {}


async def _windows(context: ControlContext, namespace: str) -> list[RuleRow]:
    """All maintenance windows of one namespace, page by page."""
    query = RuleQuery(namespace=namespace, kind=RuleKind.WINDOW, limit=PAGE, bytes_most=PAGE_BYTES)
    found: list[RuleRow] = []
    while True:
        page = await context.store.rules.find(query)
        found += page
        if not page.is_full(PAGE):
            return found
        query = replace(query, after=page[-1].name)


def ruled(row: JobRow) -> RuledJob:
    """The facts of a stored job that rules go by."""
    return RuledJob(row.job_id, row.namespace, row.lane.queue, row.labels)


async def rules_for(context: ControlContext, job: RuledJob, uses: Sequence[CalendarUse]) -> ScheduleRules | None:
    """The rules that may close the times of a job; None if there are none."""
    job_id, namespace, queue, labels = job
    stored = await _calendars(context, namespace, {use.name for use in uses})
    calendars = [
        CalendarRule(use.name, decode_calendar(stored[use.name].body).calendar, use.mode, use.otherwise)
        for use in uses
        if use.name in stored
    ]
    windows = [decode_window(row.name, row.body).window for row in await _windows(context, namespace)]
    concerned = tuple(window for window in windows if window.concerns(labels))
    found = await context.store.stops.find(StopQuery(namespace=namespace, over_seconds=KNOWN_SECONDS))
    stops = tuple(stop for stop in found if stop.concerns(job_id, labels, queue))
    return ScheduleRules(tuple(calendars), concerned, stops) if calendars or concerned or stops else None
