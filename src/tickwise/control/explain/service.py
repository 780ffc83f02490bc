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
        self._runs = RunExplanations(context)
        self._jobs = JobExplanations(context, self._runs)

    @requires(Permission.RUNS_READ)
    async def run(self, who: Principal, run: UUID) -> Explanation:
        """Explain the state of a run. Raises `NotFound`."""
        row = await self._context.run(who, run)
        job = await self._context.store.jobs.get(who.namespace, row.job_id)
        return await self._runs.explained(row, None if job is None else await self._jobs.standing(job))

    @requires(Permission.RUNS_READ)
    async def job(self, who: Principal, job_id: UUID, at: float | None = None) -> Explanation:
        """Explain what a job does, did or will do at a time; None: now. Raises `NotFound`; `Invalid` for a time too far
        ahead."""
        return await self._jobs.explained(await self._context.job(who, job_id), at)
