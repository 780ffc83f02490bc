"""Analytics: questions about many ended runs, answered in bounded time (`domain.observing.analytics`).

A caller with labels counts its own jobs alone. Groups by namespace are those of all namespaces for callers that may
read runs in each, and the caller's own one for all others.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from tickwise.control.access import check_namespace, holds_everywhere, requires
from tickwise.control.context import ControlContext
from tickwise.control.texts import clean_text
from tickwise.control.times import FIRST
from tickwise.domain.errors import Invalid
from tickwise.domain.lifecycle import FINAL
from tickwise.domain.model import Principal
from tickwise.domain.observing.analytics import HOUR_SECONDS, Analysis, GroupBy, GroupSort
from tickwise.domain.permissions import Permission
from tickwise.ports.store import AnalyticsQuery, RunQuery

DAY_SECONDS: Final = 24 * HOUR_SECONDS
DAYS_MOST: Final = 400
DAYS_BY_HOUR_MOST: Final = 31
"""Each hour has a row: 744 of them."""
TOP_MOST: Final = 100
LABEL_MOST: Final = 200
AT_ONCE: Final = 2
"""Questions that a process asks the store at the same time. Others wait: each takes a second of a core of the
database."""

_LABEL: Final = "label:"
_PLAIN: Final = frozenset(each.value for each in GroupBy if each is not GroupBy.LABEL)


class Grouping(NamedTuple):
    """A property that runs are grouped by."""

    by: GroupBy
    label: str | None = None
    """The name of the label."""

    def __str__(self) -> str:
        return f"{_LABEL}{self.label}" if self.by is GroupBy.LABEL else self.by.value


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyticsQuestion:
    """The runs that are counted, and the rows that they are counted in."""

    filter: RunQuery
    """Its window is that of the due times: the last day if it has no begin, up to now if it has no end. Active states
    are refused."""
    grouping: Grouping
    sort: GroupSort = GroupSort.RUNS
    top: int = 20


class AnalyticsAnswer(NamedTuple):
    """An analysis, and what it is about."""

    analysis: Analysis
    grouping: Grouping
    begin: float
    end: float
    everywhere: bool
    """Of all namespaces."""


def grouping_of(text: str, pointer: str = "/group_by") -> Grouping:
    """The property that a text names, `job` or `label:team`. Raises `Invalid`."""
    if text.startswith(_LABEL):
        name = text.removeprefix(_LABEL)
        if not 0 < len(name) <= LABEL_MOST:
            raise Invalid(f"write label:NAME with a name of 1 to {LABEL_MOST} characters", pointer=pointer)
        return Grouping(GroupBy.LABEL, clean_text(name, pointer))
    if text in _PLAIN:
        return Grouping(GroupBy(text))
    known = ", ".join("label:NAME" if each is GroupBy.LABEL else each.value for each in GroupBy)
    raise Invalid(f"there are no groups by {text[:50]!r}; write one of {known}", pointer=pointer)


class AnalyticsService:
    """Counts and measures of many runs."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context
        self._room = asyncio.Semaphore(AT_ONCE)

    @requires(Permission.RUNS_READ, by_labels=True)
    async def answer(self, who: Principal, question: AnalyticsQuestion) -> AnalyticsAnswer:
        """Count ended runs by groups, for people: a replica may be asked. The answer says whether it is of all runs, of
        a sample or of the newest ones. Raises `Invalid`, also where nothing could be counted in time."""
        check_namespace(who, question.filter.namespace)
        begin, end = await self._window(question)
        for place, state in enumerate(question.filter.states):
            if state not in FINAL:
                known = ", ".join(each.value for each in FINAL)
                raise Invalid(f"only ended runs are counted: write one of {known}", pointer=f"/status/{place}")
        if not 1 <= question.top <= TOP_MOST:
            raise Invalid(f"write a number from 1 to {TOP_MOST}", pointer="/top")
        by = question.grouping.by
        everywhere = by is GroupBy.NAMESPACE and holds_everywhere(who, Permission.RUNS_READ)
        query = AnalyticsQuery(
            runs=replace(question.filter, due_after=begin, due_before=end, within=who.within),
            group_by=by,
            label=question.grouping.label,
            sort=question.sort,
            top=question.top,
            everywhere=everywhere,
        )
        async with self._room:
            analysis = await self._context.searches.analyse(query)
        return AnalyticsAnswer(analysis, question.grouping, begin, end, everywhere)

    async def _window(self, question: AnalyticsQuestion) -> tuple[float, float]:
        """The first instant and the one after the last. Occurrences that are yet to come are skipped at most, so none
        is counted."""
        now = await self._context.time.now()
        end = now if question.filter.due_before is None else min(question.filter.due_before, now)
        begin = max(end - DAY_SECONDS, FIRST) if question.filter.due_after is None else question.filter.due_after
        days = DAYS_BY_HOUR_MOST if question.grouping.by is GroupBy.HOUR else DAYS_MOST
        if begin >= end:
            raise Invalid("from is not before until, or is yet to come; give an earlier time", pointer="/from")
        if end - begin > days * DAY_SECONDS:
            raise Invalid(f"these groups are for {days} days at most; give a later time", pointer="/from")
        return begin, end
