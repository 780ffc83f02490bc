"""Changes of jobs, and their effects on timers and runs.

Locks are taken in one order, job, timer, runs (by id); a scheduler that holds the timer reads the job without a lock.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.codes import JobStanding
from tickwise.adapters.store.postgres.connection.link import UniqueBroken
from tickwise.adapters.store.postgres.jobs.jobs import find_job
from tickwise.adapters.store.postgres.jobs.quotas import close_room, count_runs, open_room
from tickwise.adapters.store.postgres.jobs.run_commands import cancel_runs
from tickwise.adapters.store.postgres.queue.new_runs import make_runs, make_skips
from tickwise.adapters.store.postgres.queue.wakeups import Woken
from tickwise.adapters.store.postgres.records.audit import write_audit
from tickwise.adapters.store.postgres.records.job_rows import pending
from tickwise.adapters.store.postgres.records.receipts import record_ended
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import AuditEntry
from tickwise.domain.decision import PAUSED_SENTENCE, TimerState
from tickwise.domain.errors import Bug, Conflict, JobNotFound, VersionConflict
from tickwise.domain.model import Trigger
from tickwise.domain.quotas import Quotas
from tickwise.ports.store import JobAction, JobChange, JobMove, JobRow, NewRun, OccurrenceMove, Replan
from tickwise.ports.store.placement import change_lasts, plan_lasts
from tickwise.ports.store.quotas import Cost, StoredJob, cost_of_change

_STANDINGS: Final[Mapping[int, JobAction | None]] = MappingProxyType(
    {JobStanding.PLANNED: None, JobStanding.PAUSED: JobAction.PAUSE, JobStanding.CANCELLED: JobAction.CANCEL}
)


class Changes(Part):
    """`change` of the port's `JobStore`, and moves within a namespace."""

    async def change(self, change: JobChange, *, audit: AuditEntry | None = None) -> JobRow:
        """See the port."""
        lane = await self._lanes.number(change.namespace, change.lane)
        quotas = (await self._quotas.of([change.namespace])).get(change.namespace)
        try:
            async with self._links.pooled(writes=True) as connection, connection.transaction():
                job = await locked(connection, change.namespace, change.job_id)
                if job["version"] == change.expected_version:
                    if change.expected_paused not in (None, job["paused"]):
                        raise VersionConflict("the job was paused or resumed meanwhile; read it again, then decide")
                    if quotas is not None:
                        await _take_room(connection, job, change, quotas)
                    await self._change(connection, job, change, lane)
                    await write_audit(connection, audit)
                elif job["version"] != change.expected_version + 1 or not _matches_change(job, change, lane):
                    raise VersionConflict(
                        f"the job is at version {job['version']}, the change is for {change.expected_version}"
                    )
                if change.operation is not None:
                    await record_ended(connection, (change.operation,))
                return await shown(connection, change.namespace, change.job_id)
        except UniqueBroken:
            raise Conflict(f"another job has the key {change.key!r}", pointer="/key", code="key_taken") from None

    async def _change(self, connection: asyncpg.Connection, job: asyncpg.Record, change: JobChange, lane: int) -> None:
        plan = change.replan
        recurring = job["recurring"] if plan is None else plan.recurring
        # Before its key is written, since keys are unique among the lasting ones only.
        await connection.execute(statement("job_place"), change.job_id, recurring, change_lasts(change))
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
            sorted(change.calendars) or None,
            change.task_changed,
            list(change.secrets) or None,
        )
        if plan is None:
            # A scheduler that is just making a run of the old definition holds the timer: what follows sees that run.
            await connection.execute(statement("timer_touch"), change.job_id)
            await connection.fetch(statement("job_runs_lock"), change.job_id)
        else:
            await self._replan(connection, job, plan, held_back_after_seconds=change.postponed_after_seconds)
        await connection.execute(statement("job_respecify"), change.job_id, lane, change.definition)
        await connection.execute(statement("job_ask_back"), change.job_id)
        if change.rate_changed:
            await connection.execute(statement("job_rate_changed"), change.job_id)

    async def _move(self, move: JobMove | OccurrenceMove, audit: AuditEntry | None) -> JobRow:
        if isinstance(move, OccurrenceMove):
            return await self._move_occurrence(move, audit)
        return await self._move_job(move, audit)

    async def _move_job(self, move: JobMove, audit: AuditEntry | None) -> JobRow:
        woken: list[Woken] = []
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            cancelling = move.action is JobAction.CANCEL
            job = await locked(connection, move.namespace, move.job_id, or_cancelled=cancelling)
            if move.expected_version not in (None, job["version"]):
                if job["version"] - 1 != move.expected_version or not _matches_move(job, move):
                    raise VersionConflict(
                        f"the job is at version {job['version']}, the plan is for {move.expected_version}"
                    )
            elif cancelling:
                woken = await self._cancel(connection, job, move)
            elif move.action is JobAction.PAUSE:
                await self._pause(connection, move)
            elif job["paused"]:
                await self._resume(connection, job, move)
            row = await shown(connection, move.namespace, move.job_id)
            if row.version != job["version"]:
                await write_audit(connection, audit)
        await self._shared.report_handover(woken)
        return row

    async def _pause(self, connection: asyncpg.Connection, move: JobMove) -> None:
        await connection.execute(
            statement("job_stand"), move.job_id, JobStanding.PAUSED, move.reason, move.until, move.by
        )
        await connection.execute(statement("timer_hold"), move.job_id, move.until)
        await connection.fetch(statement("job_runs_lock"), move.job_id)
        await connection.execute(
            statement("plan_pause"), move.job_id, PAUSED_SENTENCE, move.postponed_after_seconds, move.until
        )

    async def _resume(self, connection: asyncpg.Connection, job: asyncpg.Record, move: JobMove) -> None:
        await connection.execute(statement("job_stand"), move.job_id, JobStanding.PLANNED, None, None, None)
        lasts = plan_lasts(move.job_id, move.replan)
        await connection.execute(statement("job_place"), move.job_id, move.replan.recurring, lasts)
        postponed = move.postponed_after_seconds
        await self._replan(connection, job, move.replan, counts_on=True, postponed_after_seconds=postponed)
        await connection.execute(statement("plan_continue"), move.job_id, postponed)
        await connection.execute(statement("job_ask_back"), move.job_id)

    async def _cancel(self, connection: asyncpg.Connection, job: asyncpg.Record, move: JobMove) -> list[Woken]:
        if job["standing"] == JobStanding.CANCELLED:
            return []
        await connection.execute(statement("job_stand"), move.job_id, JobStanding.CANCELLED, None, None, None)
        await connection.execute(statement("timer_drop"), move.job_id)
        return (await cancel_runs(connection, move.job_id, move.reason, None)).woken

    async def _replan(
        self,
        connection: asyncpg.Connection,
        job: asyncpg.Record,
        plan: Replan,
        *,
        counts_on: bool = False,
        postponed_after_seconds: float = math.inf,
        held_back_after_seconds: float = math.inf,
    ) -> None:
        """The new plan in place of the old one, as `Replan` says; `counts_on`: with the count of the old one.

        A run that was postponed by more than `postponed_after_seconds` stays. A run that the plan takes up again in a
        pause is held back if it was postponed by more than `held_back_after_seconds`.
        """
        job_id: UUID = job["job_id"]
        fired = await connection.fetchval(statement("timer_drop"), job_id)
        # A run that is claimed or given back meanwhile would be neither forgotten nor asked back.
        await connection.fetch(statement("job_runs_lock"), job_id)
        delays = postponed_after_seconds, PAUSED_SENTENCE, held_back_after_seconds
        await connection.execute(statement("plan_drop"), job_id, list(plan.keep_dues), *delays)
        await make_runs(connection, [(job_id, run) for run in plan.missed])
        await make_skips(connection, job_id, plan.skips)
        timer = plan.timer
        if timer is None:
            return
        if counts_on and fired is not None:
            timer = timer._replace(fired=fired, minute=None, in_minute=0)
        run_id = plan.run_id if timer.hold is None else None
        if run_id is not None and timer.due <= job["now"] + self._shared.near_seconds:
            await make_runs(connection, [(job_id, NewRun(run_id, timer.due, Trigger.SCHEDULE))])
        else:
            await put_timer(connection, job_id, timer, run_id, plan.zone_data)

    async def _move_occurrence(self, move: OccurrenceMove, audit: AuditEntry | None) -> JobRow:
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await locked(connection, move.namespace, move.job_id)
            row = await connection.fetchrow(statement("timer_lock"), move.job_id)
            stands = None if row is None else pending(row)
            if stands != move.expected:
                if stands == move.timer and await _is_made(connection, move):
                    return await shown(connection, move.namespace, move.job_id)
                raise VersionConflict("the schedule has moved on; read the job again, then decide")
            if move.timer is None:
                await connection.execute(statement("timer_drop"), move.job_id)
            else:
                run_id = row["run_id"] if row is not None and move.timer.hold is None else None
                await put_timer(connection, move.job_id, move.timer, run_id, move.zone_data)
            await make_runs(connection, [] if move.run is None else [(move.job_id, move.run)])
            skips = [*move.passed] if move.skip is None else [*move.passed, move.skip]
            await make_skips(connection, move.job_id, skips)
            await connection.execute(statement("job_touch"), move.job_id)
            await write_audit(connection, audit)
            return await shown(connection, move.namespace, move.job_id)


async def _take_room(connection: asyncpg.Connection, job: asyncpg.Record, change: JobChange, quotas: Quotas) -> None:
    """Take the room that an edit needs; one that shrinks or keeps waits for nobody. Raises `Conflict`.

    Before the edit writes its key: additions that hold the room wait for a key that is just written.
    """
    stored = await connection.fetchrow(statement("job_counted"), change.job_id)
    cost = cost_of_change(change, job["schedule_type"], StoredJob(*stored))
    if cost != Cost():
        room = await open_room(connection, change.namespace, quotas, cost)
        if cost.runs:
            await count_runs(connection, room)
        await close_room(connection, room, room.demand(cost))


async def _is_made(connection: asyncpg.Connection, move: OccurrenceMove) -> bool:
    """Check whether the runs that a move would make exist."""
    for made in (move.run, move.skip, *move.passed):
        if made is not None and await connection.fetchval(statement("run_state"), made.run_id, move.namespace) is None:
            return False
    return True


async def put_timer(
    connection: asyncpg.Connection, job_id: UUID, timer: TimerState, run_id: UUID | None, zone_data: str | None
) -> None:
    """Write where a job's schedule stands, within the caller's transaction."""
    await connection.execute(
        statement("timer_put"),
        job_id,
        timer.due,
        run_id,
        timer.since,
        timer.hold,
        timer.fired,
        timer.minute,
        timer.in_minute,
        zone_data,
    )


async def locked(
    connection: asyncpg.Connection, namespace: str, job_id: UUID, *, or_cancelled: bool = False
) -> asyncpg.Record:
    """The job, for this transaction alone. Raises `NotFound`, and `Conflict` if it is cancelled."""
    job = await connection.fetchrow(statement("job_lock"), namespace, job_id)
    if job is None:
        raise JobNotFound(f"there is no job {job_id}", job_id=job_id)
    if job["standing"] == JobStanding.CANCELLED and not or_cancelled:
        raise Conflict(f"the job {job_id} is cancelled", code="job_cancelled")
    return job


async def shown(connection: asyncpg.Connection, namespace: str, job_id: UUID) -> JobRow:
    row = await find_job(connection, namespace, job_id)
    if row is None:
        raise Bug(f"the job {job_id} went while it was locked")
    return row


def _matches_move(job: asyncpg.Record, move: JobMove) -> bool:
    return move.is_made(_STANDINGS[job["standing"]], (job["pause_reason"], job["pause_until"], job["paused_by"]))


def _matches_change(job: asyncpg.Record, change: JobChange, lane: int) -> bool:
    stored = {"labels": json.loads(job["labels"]), "calendars": frozenset(job["calendars"]), "lane": change.lane}
    return job["lane"] == lane and change.is_made({**job, **stored})
