"""The calendars, maintenance windows, stops and channels of a namespace, as the store has them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, Self

from tickwise.control.context import ControlContext
from tickwise.documents.calendars import decode_calendar
from tickwise.documents.definition import CalendarUse
from tickwise.documents.rulebook import RuledJob, decode_window
from tickwise.domain.calendar.rules import Calendar, CalendarRule, ScheduleRules, Window
from tickwise.domain.stops import Stop
from tickwise.ports.store import KNOWN_SECONDS, PAGE_BYTES, JobRow, RuleKind, RuleQuery, RuleRow, StopQuery

PAGE: Final = 500


async def calendars_known(context: ControlContext, namespace: str, names: Collection[str]) -> frozenset[str]:
    """The names under which there is a calendar."""
    return frozenset(await _calendars(context, namespace, names))


async def channels_known(context: ControlContext, namespace: str) -> frozenset[str]:
    """The names of the channels of a namespace, of which a job is about to name some: from now on the namespace notes
    the events of its jobs."""
    found = frozenset(channel.name for channel in await context.store.channels.find(namespace))
    if found:
        await context.surely(lambda: context.store.notification_rules.watch(namespace))
    return found


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


class RulesOfNamespace:
    """The calendars, windows and stops of a namespace, read once for many jobs."""

    def __init__(self, calendars: Mapping[str, Calendar], windows: Sequence[Window], stops: Sequence[Stop]) -> None:
        self._calendars = calendars
        self._windows = windows
        self._stops = stops
        self._kept: dict[object, ScheduleRules] = {}

    @classmethod
    async def read(cls, context: ControlContext, namespace: str, names: Collection[str]) -> Self:
        """The calendars of these names, as far as there are any, and all windows and stops."""
        stored = await _calendars(context, namespace, names)
        calendars = {name: decode_calendar(row.body).calendar for name, row in stored.items()}
        windows = [decode_window(row.name, row.body).window for row in await _windows(context, namespace)]
        stops = await context.store.stops.find(StopQuery(namespace=namespace, over_seconds=KNOWN_SECONDS))
        return cls(calendars, windows, stops)

    def of(self, job: RuledJob, uses: Sequence[CalendarUse]) -> ScheduleRules | None:
        """The rules that may close the times of a job; None if there are none."""
        named = [use for use in uses if use.name in self._calendars]
        windows = tuple(window for window in self._windows if window.concerns(job.labels))
        stops = tuple(stop for stop in self._stops if stop.concerns(job.job_id, job.labels, job.queue))
        if not named and not windows and not stops:
            return None
        key = (tuple(named), tuple(window.name for window in windows), tuple(stop.stop_id for stop in stops))
        if key not in self._kept:
            rules = [CalendarRule(use.name, self._calendars[use.name], use.mode, use.otherwise) for use in named]
            self._kept[key] = ScheduleRules(tuple(rules), windows, stops)
        return self._kept[key]


async def rules_for(context: ControlContext, job: RuledJob, uses: Sequence[CalendarUse]) -> ScheduleRules | None:
    """The rules that may close the times of a job; None if there are none."""
    return (await RulesOfNamespace.read(context, job.namespace, {use.name for use in uses})).of(job, uses)
