"""Changes of jobs and what they do to timers and runs; runs that people ask for or want ended.

Locks are taken in one order, job, timer, runs; a scheduler that holds the timer reads the job without a lock.
"""

from __future__ import annotations

import json
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.jobs import find_job
from tickwise.adapters.store.postgres.link import UniqueBroken
from tickwise.adapters.store.postgres.placing import LASTING_TYPES, plan_lasts
from tickwise.adapters.store.postgres.statements import statement
from tickwise.adapters.store.postgres.submits import make_runs, take_receipt
from tickwise.domain.errors import Bug, Conflict, NotFound, VersionConflict
from tickwise.domain.lifecycle import STATES, RunState
from tickwise.domain.model import Trigger
from tickwise.ports.store import JobAction, JobChange, JobMove, JobRow, NewRun, Receipt, Replan, Replay

PLANNED, PAUSED, CANCELLED = 0, 1, 2


class _JobCancelled(Exception):
    """Ends a transaction that must leave nothing, not even its receipt."""


class Changes(Part):
    """`job_change`, `job_move`, `runs_add` and `runs_cancel` of the port."""

    async def job_change(self, change: JobChange) -> JobRow:
        """See the port."""
        lane = (await self._lanes.numbers([change.lane]))[change.lane]
        try:
            async with self._links.pooled(writes=True) as connection, connection.transaction():
                job = await _locked(connection, change.namespace, change.job_id)
                if job["version"] == change.expected_version:
                    await self._change(connection, job, change, lane)
                elif job["version"] != change.expected_version + 1 or not _says(job, change, lane):
                    raise VersionConflict(
                        f"the job is at version {job['version']}, the change is for {change.expected_version}"
                    )
                return await _shown(connection, change.namespace, change.job_id)
        except UniqueBroken:
            raise Conflict(f"another job has the key {change.key!r}", pointer="/key", code="key_taken") from None

    async def _change(self, connection: asyncpg.Connection, job: asyncpg.Record, change: JobChange, lane: int) -> None:
        plan = change.replan
        recurring = job["recurring"] if plan is None else plan.recurring
        lasts = change.key is not None or change.schedule_type in LASTING_TYPES or plan_lasts(change.job_id, plan)
        # Before its key is written, since keys are unique among the lasting ones only.
        await connection.execute(statement("job_place"), change.job_id, recurring, lasts)
        await connection.execute(
            statement("job_write"),
            change.job_id,
            change.name,
            change.key,
            change.schedule_type,
            change.task_kind,
            change.definition,
            lane,
            json.dumps(dict(change.labels)) if change.labels else None,
            change.owner,
        )
        if plan is None:
            # A scheduler that is just making a run of the old definition holds the timer: what follows sees that run.
            await connection.execute(statement("timer_touch"), change.job_id)
        else:
            await self._replan(connection, job, plan)
        await connection.execute(statement("job_respecify"), change.job_id, lane, change.definition)

    async def job_move(self, move: JobMove) -> JobRow:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            cancelling = move.action is JobAction.CANCEL
            job = await _locked(connection, move.namespace, move.job_id, or_cancelled=cancelling)
            if move.expected_version not in (None, job["version"]):
                raise VersionConflict(
                    f"the job is at version {job['version']}, the plan is for {move.expected_version}"
                )
            if cancelling:
                await self._cancel(connection, job, move)
            elif move.action is JobAction.PAUSE:
                await self._stand(connection, job, move, PAUSED)
            elif job["standing"] == PAUSED:
                await self._stand(connection, job, move, PLANNED)
            return await _shown(connection, move.namespace, move.job_id)

    async def _stand(self, connection: asyncpg.Connection, job: asyncpg.Record, move: JobMove, standing: int) -> None:
        paused = standing == PAUSED
        reason, until = (move.reason, move.until) if paused else (None, None)
        await connection.execute(statement("job_stand"), move.job_id, standing, reason, until)
        lasts = plan_lasts(move.job_id, move.replan)
        await connection.execute(statement("job_place"), move.job_id, move.replan.recurring, lasts)
        await self._replan(connection, job, move.replan)

    async def _cancel(self, connection: asyncpg.Connection, job: asyncpg.Record, move: JobMove) -> None:
        if job["standing"] == CANCELLED:
            return
        await connection.execute(statement("job_stand"), move.job_id, CANCELLED, None, None)
        await connection.execute(statement("timer_drop"), move.job_id)
        await connection.fetch(statement("job_runs_lock"), move.job_id)
        await connection.execute(statement("job_runs_cancel"), move.job_id, move.reason)

    async def _replan(self, connection: asyncpg.Connection, job: asyncpg.Record, plan: Replan) -> None:
        """The new plan in place of the old one, as `Replan` says."""
        job_id: UUID = job["job_id"]
        await connection.execute(statement("timer_drop"), job_id)
        # A run that is claimed or given back meanwhile would be neither forgotten nor asked back.
        await connection.fetch(statement("job_runs_lock"), job_id)
        await connection.execute(statement("plan_drop"), job_id, list(plan.keep_dues))
        await make_runs(connection, [(job_id, run) for run in plan.missed])
        if plan.next_due is None:
            return
        if not plan.recurring and plan.run_id is not None and plan.next_due <= job["now"] + self._near_seconds:
            await make_runs(connection, [(job_id, NewRun(plan.run_id, plan.next_due, Trigger.SCHEDULE))])
        else:
            run_id = None if plan.recurring else plan.run_id
            await connection.execute(statement("timer_put"), job_id, plan.next_due, run_id)

    async def runs_add(
        self, namespace: str, job_id: UUID, run: NewRun, receipt: Receipt | None = None
    ) -> bool | Replay:
        """See the port."""
        try:
            async with self._links.pooled(writes=True) as connection, connection.transaction():
                if receipt is not None and (replay := await take_receipt(connection, receipt)) is not None:
                    return replay
                standing = await connection.fetchval(statement("job_share"), namespace, job_id)
                if standing is None:
                    raise NotFound(f"there is no job {job_id}")
                if standing == CANCELLED:
                    raise _JobCancelled
                await make_runs(connection, [(job_id, run)], not_before_now=True)
        except _JobCancelled:
            return False
        return True

    async def runs_cancel(self, namespace: str, run_id: UUID, principal: str) -> RunState:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            state = await connection.fetchval(statement("run_cancel"), run_id, namespace, f"cancelled by {principal}")
            if state is None:  # it ended before, or just now
                state = await connection.fetchval(statement("run_state"), run_id, namespace)
        if state is None:
            raise NotFound(f"there is no run {run_id}")
        return STATES[state]


async def _locked(
    connection: asyncpg.Connection, namespace: str, job_id: UUID, *, or_cancelled: bool = False
) -> asyncpg.Record:
    """The job, for this transaction alone. Raises `NotFound`, and `Conflict` if it is cancelled."""
    job = await connection.fetchrow(statement("job_lock"), namespace, job_id)
    if job is None:
        raise NotFound(f"there is no job {job_id}")
    if job["standing"] == CANCELLED and not or_cancelled:
        raise Conflict(f"the job {job_id} is cancelled", code="job_cancelled")
    return job


async def _shown(connection: asyncpg.Connection, namespace: str, job_id: UUID) -> JobRow:
    row = await find_job(connection, namespace, job_id)
    if row is None:
        raise Bug(f"the job {job_id} went while it was locked")
    return row


def _says(job: asyncpg.Record, change: JobChange, lane: int) -> bool:
    """Whether a job is as a change would have it: the change is a repeat."""
    names = ("name", "key", "schedule_type", "task_kind", "definition", "owner")
    return (
        job["lane"] == lane
        and json.loads(job["labels"]) == dict(change.labels)
        and all(job[name] == getattr(change, name) for name in names)
    )
