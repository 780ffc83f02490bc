"""Explanations, as callers reach them: of a run, and of a job at a time."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from tickwise.control.access import requires
from tickwise.control.context import ControlContext
from tickwise.control.environments.declarations import EnvironmentDeclarations
from tickwise.control.explain.explanations import Explanation, sentence
from tickwise.control.explain.job_explanations import JobExplanations
from tickwise.control.explain.output_explanations import OutputExplanations
from tickwise.control.explain.run_explanations import UNFINISHED, RunExplanations
from tickwise.control.times import written
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.ports.shared_state import SharedState
from tickwise.ports.store import JobRow


class ExplainService:
    """Explains jobs and runs."""

    def __init__(
        self,
        context: ControlContext,
        declarations: EnvironmentDeclarations,
        membership: SharedState | None = None,
    ) -> None:
        """`declarations` knows the environments of jobs, `membership` the roles that are active."""
        self._context = context
        self._declarations = declarations
        self._output = OutputExplanations(context, membership)

    @requires(Permission.RUNS_READ, by_labels=True)
    async def run(self, who: Principal, run: UUID) -> Explanation:
        """Explain the state of a run. Raises `NotFound`."""
        row = await self._context.run(who, run)
        job = await self._context.store.jobs.get(who.namespace, row.job_id)
        runs = RunExplanations(self._context, who.within)
        standing = None if job is None else await JobExplanations(self._context, runs).standing(job)
        found = await self._output.told(await runs.explained(row, standing), row)
        return found if job is None or row.state not in UNFINISHED else await self._with_environment(found, job)

    @requires(Permission.RUNS_READ, by_labels=True)
    async def job(self, who: Principal, job_id: UUID, at: float | None = None) -> Explanation:
        """Explain what a job does, did or will do at a time; None: now. Raises `NotFound`; `Invalid` for a time too far
        ahead."""
        jobs = JobExplanations(self._context, RunExplanations(self._context, who.within))
        row = await self._context.job(who, job_id)
        found = await jobs.explained(row, at)
        is_over = row.status in (JobStatus.CANCELLED, JobStatus.COMPLETED)
        return found if at is not None or is_over else await self._with_environment(found, row)

    async def _with_environment(self, found: Explanation, job: JobRow) -> Explanation:
        """The explanation, with the reason that the environment of the job's script could not be built ahead."""
        fault = await self._declarations.fault(job)
        if fault is None:
            return found
        detail = " ".join(fault.detail.split())
        words = sentence(f"the executor {fault.executor} built its environment ahead, and failed: {detail}")
        said = {"reason": fault.reason, "detail": fault.detail, "failed_time": written(fault.failed_at)}
        data = {**found.data, "environment": {**said, "executor": fault.executor}}
        return replace(found, sentence=f"{found.sentence} {words}", data=data)
