"""The starts to come of a whole namespace, in the order of their times: what a time line shows ahead of now.

    searches.jobs ──► jobs ──► the next occurrence of each, merged by time ──► calendars, windows, jitter ──► starts
                                                                             └── bounded: `known_until` says how far

The rules are those of a scheduler's decision. Overlap, limits, rates and executors are not looked at: a start is the
time at which a run is due.

Invariant: nothing that is due before `known_until` is missing, and a look never reads or makes more than its bounds.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

import structlog

from tickwise.control.context import ControlContext
from tickwise.control.rules import RulesOfNamespace, ruled
from tickwise.control.schedules.previews import OccurrenceFate
from tickwise.documents.definition import Definition, decode_definition
from tickwise.domain import schedule as schedules
from tickwise.domain.calendar.rules import Allowed, Otherwise, ScheduleRules
from tickwise.domain.decision import NEVER, Hold, spread
from tickwise.domain.errors import Invalid
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.model import Principal
from tickwise.domain.schedule import Schedule
from tickwise.ports.store import PAGE_BYTES, JobRow, PlannedPage, PlannedQuery

JOBS_MAX: Final = 200
"""The jobs of one look."""
TIMERS_MAX: Final = 600
"""The timers that the store reads for it."""
STARTS_MAX: Final = 2_000
"""The starts of one look: some 30 µs each, without calendars."""
HELD: Final = "held back until its calendars and windows allow it"
LOOKS_MAX: Final = 20_000
"""The looks at calendars and windows of one look (`ScheduleRules.take_spent`): some 50 ms."""
TURN: Final = 200
"""After so many starts other requests get a turn."""

logger = structlog.get_logger("tickwise.plans")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWindow:
    """The time that is looked at, and the jobs."""

    start: float
    end: float
    """Not included."""
    job_id: UUID | None = None
    name: str | None = None
    """A part of the name, any case."""
    labels: Mapping[str, str] = field(default_factory=dict)
    queue: str | None = None


class PlannedStart(NamedTuple):
    """One occurrence to come."""

    job_id: UUID
    nominal: float
    due: float
    """The time at which its run is due. Of one that will be skipped, its nominal time."""
    fate: OccurrenceFate
    note: str | None = None
    """The reason for which it is skipped or deferred."""


class NamespacePlan(NamedTuple):
    """The starts of a look."""

    starts: Sequence[PlannedStart]
    """By the time at which they are due."""
    jobs: Mapping[UUID, JobRow]
    known_until: float | None
    """From this time on starts may be missing; None: none is."""
    unreadable: int = 0
    """Jobs whose schedule this version cannot read."""


class Plans:
    """Looks at the starts to come."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    async def plan(self, who: Principal, window: PlanWindow) -> NamespacePlan:
        """The starts of a window, which may begin before now: what is overdue since then comes at its time. Raises
        `Invalid` for a window that ends before it begins."""
        if window.end <= window.start:
            raise Invalid("the window must end after it begins; give a later end", pointer="/to")
        query = PlannedQuery(
            namespace=who.namespace,
            due_after=0.0,
            due_before=window.end,
            job_id=window.job_id,
            name=window.name,
            labels=window.labels,
            queue=window.queue,
            within=who.within,
            limit=JOBS_MAX,
            looked=TIMERS_MAX,
            bytes_most=PAGE_BYTES,
        )
        found = await self._context.searches.jobs(query)
        known_until = found.known_until if isinstance(found, PlannedPage) else None
        lines, unreadable = _lines(found, window)
        known = await RulesOfNamespace.read(
            self._context, who.namespace, {use.name for line in lines for use in line.definition.calendars}
        )
        end = window.end if known_until is None else min(window.end, known_until)
        starts = [each for line in lines for each in line.held() if window.start <= each.due < end]
        looks, cut = 0, known_until
        for nominal, line in _merged(lines, window.start, end):
            if len(starts) >= STARTS_MAX or looks > LOOKS_MAX:
                cut = nominal
                break
            rules = line.rules(known)
            starts += line.start(nominal, rules)
            looks += 0 if rules is None else rules.take_spent()
            if len(starts) % TURN == TURN - 1:
                await self._context.clock.sleep(0)
        kept = [each for each in starts if each.due < window.end and (cut is None or each.due < cut)]
        kept.sort(key=lambda each: (each.due, each.job_id))
        return NamespacePlan(kept, {row.job_id: row for row in found}, cut, unreadable)


class _PlannedJob:
    """The occurrences to come of one job."""

    def __init__(self, row: JobRow, definition: Definition, schedule: Schedule) -> None:
        self.row = row
        self.definition = definition
        self._schedule = schedule
        self._rules: ScheduleRules | None = None
        self._has_rules = False
        self._opened: set[float] = set()
        """The times to which occurrences were deferred: those of one time become one run."""

    def held(self) -> Iterable[PlannedStart]:
        """The start of what a calendar or window holds back, once that opens."""
        timer = self.row.timer
        if timer is None or timer.hold is None or timer.hold is Hold.PAUSED or timer.due == NEVER:
            return ()
        return (PlannedStart(self.row.job_id, timer.first_open, timer.due, OccurrenceFate.DEFER, HELD),)

    def occurrences(self, start: float, end: float) -> Iterator[float]:
        """Nominal times from `start` to before `end` that are not on record, in order."""
        at = self._first(start)
        left = 0.0 if at is None else self._left(at)
        while at is not None and at < end and left > 0:
            yield at
            left -= 1
            at = schedules.next_fire(self._schedule, at) if self._schedule.recurs else None

    def placed(self, place: int, start: float, end: float) -> Iterator[tuple[float, int]]:
        """The occurrences, each with the place of the job, for a merge."""
        return ((at, place) for at in self.occurrences(start, end))

    def _first(self, start: float) -> float | None:
        timer = self.row.timer
        if timer is None or timer.due == NEVER:
            return None
        if not self._schedule.recurs:
            return timer.due if timer.hold is None and timer.due >= start else None
        if timer.hold is None:
            return timer.due if timer.due >= start else schedules.first_fire(self._schedule, start)
        return schedules.first_fire(self._schedule, max(schedules.just_after(timer.due), start))

    def _left(self, first: float) -> float:
        """The number of runs that the schedule may still make from its first shown occurrence on."""
        schedule, timer = self._schedule, self.row.timer
        if schedule.max_runs is None or timer is None:
            return math.inf
        before = schedules.count_between(schedule, timer.first_open, first) if schedule.recurs else 0
        return max(0, schedule.max_runs - timer.fired - before)

    def rules(self, known: RulesOfNamespace) -> ScheduleRules | None:
        """The rules that may close its times."""
        if not self._has_rules:
            self._rules = known.of(ruled(self.row), self.definition.calendars)
            self._has_rules = True
        return self._rules

    def start(self, nominal: float, rules: ScheduleRules | None) -> Iterable[PlannedStart]:
        """The start that an occurrence comes to; none if an earlier one was deferred to the same time."""
        verdict = None if rules is None else rules.verdict(nominal)
        moved = spread(self._schedule, nominal)
        if verdict is None or isinstance(verdict, Allowed):
            return (PlannedStart(self.row.job_id, nominal, nominal + moved, OccurrenceFate.FIRE),)
        if verdict.otherwise is not Otherwise.DEFER or verdict.opens is None:
            return (PlannedStart(self.row.job_id, nominal, nominal, OccurrenceFate.SKIP, verdict.sentence),)
        if verdict.opens in self._opened:
            return ()
        self._opened.add(verdict.opens)
        due = verdict.opens + moved
        return (PlannedStart(self.row.job_id, nominal, due, OccurrenceFate.DEFER, verdict.sentence),)


def _lines(rows: Sequence[JobRow], window: PlanWindow) -> tuple[list[_PlannedJob], int]:
    """The jobs of a look that will fire, and the number of those that cannot be read."""
    lines, unreadable = [], 0
    for row in rows:
        if row.status is JobStatus.CANCELLED or row.timer is None:
            continue
        try:
            definition = decode_definition(row.definition)
            line = _PlannedJob(row, definition, definition.schedule(row.job_id))
            next(line.occurrences(window.start, window.end), None)
        except Exception as wrong:  # noqa: BLE001  # one job that is broken, however, must not hide all others
            unreadable += 1
            logger.warning("plan_unreadable", job_id=str(row.job_id), detail=f"{type(wrong).__name__}: {wrong}"[:200])
            continue
        lines.append(line)
    return lines, unreadable


def _merged(lines: Sequence[_PlannedJob], start: float, end: float) -> Iterator[tuple[float, _PlannedJob]]:
    """The occurrences of all jobs, in the order of their times."""
    for at, place in heapq.merge(*(line.placed(place, start, end) for place, line in enumerate(lines))):
        yield at, lines[place]
