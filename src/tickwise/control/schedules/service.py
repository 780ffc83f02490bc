"""Schedules, as callers reach them: preview them, read time lines, act on one occurrence, run those of the past."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from tickwise.control.access import requires
from tickwise.control.bodies import BackfillBody, PreviewBody, SkipNextBody, SnoozeBody
from tickwise.control.context import ControlContext, ReceiptFor
from tickwise.control.schedules.backfills import Backfill, Backfills
from tickwise.control.schedules.fires import Moved, NextOccurrence
from tickwise.control.schedules.next_times import NextTimes
from tickwise.control.schedules.occurrences import Section, TimeLine, TimeLines
from tickwise.control.schedules.plans import NamespacePlan, Plans, PlanWindow
from tickwise.control.schedules.previews import Look, Preview, Previews
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.ports.store import JobRow, Replay


class ScheduleService:
    """Everything about the occurrences of schedules."""

    def __init__(self, context: ControlContext) -> None:
        self._previews = Previews(context)
        self._plans = Plans(context)
        self._time_lines = TimeLines(context)
        self._next = NextOccurrence(context)
        self._next_times = NextTimes(context)
        self._backfills = Backfills(context)

    @requires(Permission.JOBS_READ, by_labels=True)
    async def preview(self, who: Principal, body: PreviewBody) -> Preview:
        """Preview a schedule as if it were saved now. Raises `Invalid`."""
        return await self._previews.preview(who, body)

    @requires(Permission.JOBS_READ, by_labels=True)
    async def preview_job(self, who: Principal, job_id: UUID, look: Look) -> Preview:
        """Preview the schedule of a job. Raises `NotFound`, `Invalid`."""
        return await self._previews.preview_job(who, job_id, look)

    @requires(Permission.JOBS_READ, by_labels=True)
    async def plan(self, who: Principal, window: PlanWindow) -> NamespacePlan:
        """The starts to come of the namespace, bounded in number. Raises `Invalid`."""
        return await self._plans.plan(who, window)

    @requires(Permission.JOBS_READ, by_labels=True)
    async def next_allowed(self, who: Principal, rows: Sequence[JobRow]) -> Sequence[JobRow]:
        """These jobs of the caller's namespace, with the next times that calendars, windows and stops let run."""
        return await self._next_times.allowed(who, rows)

    @requires(Permission.RUNS_READ, by_labels=True)
    async def occurrences(self, who: Principal, job_id: UUID, section: Section) -> TimeLine:
        """A page of the time line of a job. Raises `NotFound`, `Invalid`."""
        return await self._time_lines.occurrences(who, job_id, section)

    @requires(Permission.JOBS_OPERATE, Permission.JOBS_WRITE, by_labels=True)
    async def skip_next(self, who: Principal, job_id: UUID, body: SkipNextBody) -> Moved:
        """The next occurrence does not run. Raises `NotFound`; `Conflict` if there is none that can be skipped."""
        return await self._next.skip_next(who, job_id, body)

    @requires(Permission.JOBS_OPERATE, Permission.JOBS_WRITE, by_labels=True)
    async def snooze(self, who: Principal, job_id: UUID, body: SnoozeBody) -> Moved:
        """The next occurrence runs at another time. Raises `NotFound`, `Invalid`; `Conflict` if there is none that can
        be moved."""
        return await self._next.snooze(who, job_id, body)

    @requires(Permission.RUNS_WRITE, by_labels=True)
    async def backfill(
        self, who: Principal, job_id: UUID, body: BackfillBody, receipt_for: ReceiptFor[Backfill] | None = None
    ) -> Backfill | Replay:
        """Run the occurrences of a range of the past. Raises `NotFound`, `Invalid`, `Conflict`."""
        return await self._backfills.backfill(who, job_id, body, receipt_for)

    @requires(Permission.RUNS_WRITE, by_labels=True)
    async def cancel_backfill(self, who: Principal, job_id: UUID, backfill_id: UUID) -> int:
        """End the unfinished runs of a backfill: how many there were. Raises `NotFound` for the job."""
        return await self._backfills.cancel(who, job_id, backfill_id)
