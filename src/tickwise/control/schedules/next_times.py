"""The next times of the jobs of a list, as calendars, maintenance windows and stops let them run.

    timer: the next time of the schedule ──closed?──► the next one behind the closure ──…──► allowed, or deferred to
                                                                                             when all of them open

A timer names the next time of a schedule, and whether that runs is decided when it comes. Here the rules are asked now,
and read once for all jobs of a page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tickwise.control.context import ControlContext
from tickwise.control.rules import RulesOfNamespace, ruled
from tickwise.documents.definition import Plan, decode_plan
from tickwise.domain import schedule as schedules
from tickwise.domain.calendar.rules import Closed, Otherwise, ScheduleRules
from tickwise.domain.decision import Hold
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.model import Principal
from tickwise.domain.schedule import ScheduleType
from tickwise.ports.store import JobRow

MAX_CLOSURES: Final = 100
"""Closures in a row that are passed over for one job: the days of a year's weekends."""
SLICE: Final = 5
"""After so many jobs others get a turn: asking calendars takes up to some 10 ms."""
_RECURRING: Final = frozenset({ScheduleType.CRON, ScheduleType.INTERVAL})


class NextTimes:
    """Looks up next times."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    async def allowed(self, who: Principal, rows: Sequence[JobRow]) -> Sequence[JobRow]:
        """These jobs, each with the next time at which it will run in place of that of its schedule; None: at no time
        that is near."""
        plans = {row.job_id: decode_plan(row.definition) for row in rows if _goes_by_rules(row)}
        if not plans:
            return rows
        names = {use.name for plan in plans.values() for use in plan.calendars}
        rules = await RulesOfNamespace.read(self._context, who.namespace, names)
        found: list[JobRow] = []
        for row in rows:
            plan = plans.get(row.job_id)
            closing = None if plan is None else rules.of(ruled(row), plan.calendars)
            if plan is not None and closing is not None:
                row = row._replace(next_run_at=_allowed(row, plan, closing))
            found.append(row)
            if len(found) % SLICE == 0:
                await self._context.clock.sleep(0)
        return found


def _goes_by_rules(row: JobRow) -> bool:
    """Check whether its next run is one of its schedule: a run that waits, or was asked for, comes before it."""
    timer = row.timer
    if row.status is not JobStatus.SCHEDULED or row.schedule_type not in _RECURRING or timer is None:
        return False
    return timer.hold is not Hold.PAUSED and row.next_run_at == timer.due


def _allowed(row: JobRow, plan: Plan, rules: ScheduleRules) -> float | None:
    timer = row.timer
    assert timer is not None
    schedule = plan.schedule(row.job_id)
    nominal: float | None = timer.first_open
    for _ in range(MAX_CLOSURES):
        if nominal is None:
            return None
        closed = rules.verdict(nominal)
        if not isinstance(closed, Closed):
            # What was held back runs when its hold ends, and not before.
            return max(nominal, timer.due)
        if closed.otherwise is Otherwise.DEFER:
            return closed.opens
        # What nothing opens for in years is as good as over.
        nominal = None if closed.opens is None else schedules.first_fire(schedule, closed.until)
    return None
