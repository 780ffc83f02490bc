"""Explanations, as callers reach them: of a run, and of a job at a time."""

from __future__ import annotations

from uuid import UUID

from tickwise.control.access import requires
from tickwise.control.context import ControlContext
from tickwise.control.explain.explanations import Explanation
from tickwise.control.explain.job_explanations import JobExplanations
from tickwise.control.explain.run_explanations import RunExplanations
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission


class ExplainService:
    """Explains jobs and runs."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    @requires(Permission.RUNS_READ, by_labels=True)
    async def run(self, who: Principal, run: UUID) -> Explanation:
        """Explain the state of a run. Raises `NotFound`."""
        row = await self._context.run(who, run)
        job = await self._context.store.jobs.get(who.namespace, row.job_id)
        runs = RunExplanations(self._context, who.within)
        standing = None if job is None else await JobExplanations(self._context, runs).standing(job)
        return await runs.explained(row, standing)

    @requires(Permission.RUNS_READ, by_labels=True)
    async def job(self, who: Principal, job_id: UUID, at: float | None = None) -> Explanation:
        """Explain what a job does, did or will do at a time; None: now. Raises `NotFound`; `Invalid` for a time too far
        ahead."""
        jobs = JobExplanations(self._context, RunExplanations(self._context, who.within))
        return await jobs.explained(await self._context.job(who, job_id), at)
