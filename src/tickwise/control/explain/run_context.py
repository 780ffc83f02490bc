"""The runs and queues around one run, for its explanation: the holders of its slots, the run that started it, and the
runs that its end started. The number of look-ups is bounded.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from tickwise.control.context import ControlContext
from tickwise.control.explain.explanations import Followed
from tickwise.documents.definition import Definition, decode_definition
from tickwise.domain.audit import AuditAction
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Trigger
from tickwise.domain.retry import UNKNOWN_OUTCOME
from tickwise.domain.rules.confinement import Isolation
from tickwise.domain.rules.limits import QUOTA_KEY
from tickwise.domain.selectors import Selector, matches
from tickwise.ports.audit import AuditQuery
from tickwise.ports.store import NO_TEXT, JobRow, LetterResolution, LetterRow, RunQuery, RunRow

RUNNING_LOOKED_AT: Final = 500
MAX_HOLDERS: Final = 20
ENTRIES_LOOKED_AT: Final = 20
ASKED: Final = (Trigger.RUN_NOW, Trigger.BACKFILL)
"""Triggers whose runs a person or a key asked for, with an entry of the audit log about the job."""
"""The most holders of slots that are listed, among as many unfinished runs."""


class RunContext:
    """The facts of `waits`."""

    def __init__(self, context: ControlContext, within: Selector | None) -> None:
        """`within`: the jobs that may be named."""
        self._context = context
        self._within = within

    async def facts(self, run: RunRow, job: tuple[JobRow, Definition] | None) -> dict[str, Any]:
        """Look up the limits and queues that a run waits for, the run that started it, and the runs that it started."""
        found: dict[str, Any] = {}
        namespace = run.namespace
        if run.trigger == Trigger.SEQUENCE and run.origin is not None:
            before = await self._context.store.runs.get(namespace, run.origin)
            name = None if before is None else await self._job_name(namespace, before.job_id)
            if before is not None and name is not None:
                found["origin"] = (before, name)
        if run.trigger in ASKED:
            found["asked_by"] = await self._asked_by(run)
        if run.state is RunState.FAILED:
            found["letter"] = await self._context.store.letters.get(
                namespace, run.run_id, self._context.dead_letter_seconds
            )
        row = await self._context.store.namespaces.get(namespace)
        found["concurrent_runs"] = None if row is None else row.quotas.concurrent_runs
        found["least_isolation"] = Isolation.PROCESS if row is None else row.quotas.least_isolation
        if job is None:
            return found
        if run.state in (RunState.QUEUED, RunState.RETRYING):
            rows = await self._context.store.queues.all(namespace)
            found["queue"] = next((row for row in rows if row.queue == job[0].lane.queue), None)
            if run.blocked and run.limit_key is not None:
                found["holders"] = await self._holders(namespace, run.limit_key)
        if run.state in (RunState.SUCCESS, RunState.FAILED):
            found["followed"] = await self._followed(run, job[1], found.get("letter"))
        return found

    async def _asked_by(self, run: RunRow) -> str | None:
        """The person or key that asked for a run, by the audit log: the entry is written with the run."""
        query = AuditQuery(
            namespace=run.namespace,
            since=run.queued_at - 1.0,
            until=run.queued_at + 1.0,
            action=AuditAction.RUN_REQUESTED,
            target=str(run.job_id),
            limit=ENTRIES_LOOKED_AT,
        )
        rows = await self._context.store.audit.find(query)
        named = [row for row in rows if str(run.run_id) in (row.detail or "")] or list(rows)
        return named[0].source.name if len({row.source.name for row in named}) == 1 else None

    async def _holders(self, namespace: str, key: str) -> list[tuple[RunRow, str]]:
        """The runs that have the slots of a concurrency limit, or of the quota of runs at once."""
        query = RunQuery(namespace=namespace, states=(RunState.RUNNING,), limit=RUNNING_LOOKED_AT, texts=NO_TEXT)
        rows = [
            row
            for row in await self._context.store.searches.runs(query)
            if row.limit_key is not None and key in (row.limit_key, QUOTA_KEY)
        ]
        named = [(row, await self._job_name(namespace, row.job_id)) for row in rows[:MAX_HOLDERS]]
        return [(row, name) for row, name in named if name is not None]

    async def _job_name(self, namespace: str, job_id: UUID) -> str | None:
        """The name of a job, or its id if the job is gone; None: it may not be named."""
        row = await self._context.store.jobs.get(namespace, job_id)
        if not matches({} if row is None else row.labels, self._within):
            return None
        return str(job_id) if row is None else row.name

    async def _followed(self, run: RunRow, own: Definition, letter: LetterRow | None) -> list[Followed]:
        """The fate of the jobs that its end was to start."""
        plan = own if run.definition is None else decode_definition(run.definition)
        succeeded = run.state is RunState.SUCCESS
        if run.reason == UNKNOWN_OUTCOME:
            if letter is None or letter.resolution is None:
                return []
            succeeded = letter.resolution is LetterResolution.SUCCEEDED
        field = "then" if succeeded else "on_failure"
        found: list[Followed] = []
        for job_id in getattr(plan, field):
            job = await self._context.store.jobs.get(run.namespace, job_id)
            if not matches({} if job is None else job.labels, self._within):
                continue
            runs = await self._context.store.searches.runs(
                RunQuery(
                    namespace=run.namespace, job_id=job_id, origin=run.run_id, triggers=(Trigger.SEQUENCE,), limit=1
                )
            )
            name, status = (str(job_id), None) if job is None else (job.name, job.status)
            found.append(Followed(job_id, name, status, field, runs[0] if runs else None))
        return found
