"""Requests of people for runs: made, ended, skipped or postponed; and the waking of waiting runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.codes import JobStanding
from tickwise.adapters.store.postgres.jobs.quotas import close_room, count_runs, open_room
from tickwise.adapters.store.postgres.openness import check_open
from tickwise.adapters.store.postgres.queue.new_runs import make_runs
from tickwise.adapters.store.postgres.queue.wakeups import Ended, Woken, sweep, unblock, wake, wake_or_not
from tickwise.adapters.store.postgres.records.audit import write_audit
from tickwise.adapters.store.postgres.records.receipts import take_receipt
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import JobNotFound, NotFound
from tickwise.domain.lifecycle import STATES, RunState
from tickwise.domain.rules.sentences import cancelled_sentence
from tickwise.ports.store import (
    NewRun,
    Ready,
    Receipt,
    Replay,
    RunCancel,
    RunMove,
    RunPostpone,
    RunSkip,
    not_postponable,
)
from tickwise.ports.store.quotas import Cost


class _JobCancelled(Exception):
    """Ends a transaction that must leave nothing, not even its receipt."""


class CancelledRuns(NamedTuple):
    """The unfinished runs of a job that are cancelled together."""

    found: int
    changed: int
    """Those that end by it, or whose holder was not asked before."""
    woken: list[Woken]
    """The runs that are claimable by it."""


class RunCommands(Part):
    """The changes of `RunStore` of the port."""

    async def add(
        self,
        namespace: str,
        job_id: UUID,
        runs: Sequence[NewRun],
        *,
        receipt: Receipt | None = None,
        audit: AuditEntry | None = None,
    ) -> bool | Replay:
        """See the port."""
        quotas = (await self._quotas.of([namespace])).get(namespace)
        try:
            async with self._links.pooled(writes=True) as connection, connection.transaction():
                if receipt is not None and (replay := await take_receipt(connection, receipt)) is not None:
                    return replay
                await check_open(connection, namespace)
                # Before the room: a change of the job waits for its timer, and a scheduler with that timer for room.
                standing = await connection.fetchval(statement("job_share"), namespace, job_id)
                if standing is None:
                    raise JobNotFound(f"there is no job {job_id}", job_id=job_id)
                if standing == JobStanding.CANCELLED:
                    raise _JobCancelled
                room = None if quotas is None else await open_room(connection, namespace, quotas, Cost(runs=len(runs)))
                made = await make_runs(connection, [(job_id, run) for run in runs], not_before_now=True)
                if room is not None:
                    await count_runs(connection, room)
                    taken = room.demand(Cost(runs=made))
                    await close_room(connection, room, taken)
                if made:
                    await write_audit(connection, audit)
        except _JobCancelled:
            return False
        return True

    async def move(self, move: RunMove, *, audit: AuditEntry | None = None) -> RunState:
        """See the port."""
        if isinstance(move, RunPostpone):
            return await self._postpone(move, audit)
        if isinstance(move, RunSkip):
            return await self._end("run_skip", move, move.error, audit)
        return await self._end("run_cancel", move, cancelled_sentence(move.by), audit)

    async def _end(self, how: str, move: RunCancel | RunSkip, error: str, audit: AuditEntry | None) -> RunState:
        """End a run that has no holder; its state afterwards."""
        over = Ended()
        async with self._links.pooled(writes=True) as connection:
            async with connection.transaction():
                row = await connection.fetchrow(statement(how), move.run_id, move.namespace, error)
                state = await _state(connection, move, None if row is None else row["state"])
                if row is not None and row["changed"]:
                    await write_audit(connection, audit)
            if row is not None:
                over.add_row(row["job_id"], row["namespace"], row["limit_key"])
            woken = await wake_or_not(connection, over)
        await self._shared.report_handover(woken)
        return state

    async def _postpone(self, move: RunPostpone, audit: AuditEntry | None) -> RunState:
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("run_job_share"), move.run_id, move.namespace)
            job_id = await connection.fetchval(statement("run_postpone"), move.run_id, move.namespace, move.due)
            if job_id is None:
                await _state(connection, move, None)
                raise not_postponable(move.run_id)
            await write_audit(connection, audit)
            woken = await unblock(connection, [job_id])  # what waited for it may be before it now
        await self._shared.report_handover(woken)
        return RunState.QUEUED

    async def cancel_all(
        self, namespace: str, job_id: UUID, origin: UUID, *, principal: str, audit: AuditEntry | None = None
    ) -> int:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            if await connection.fetchval(statement("job_share"), namespace, job_id) is None:
                return 0
            cancelled = await cancel_runs(connection, job_id, cancelled_sentence(principal), origin)
            if cancelled.changed:
                await write_audit(connection, audit)
        await self._shared.report_handover(cancelled.woken)
        return cancelled.found

    async def unblock(self) -> int:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            woken = await sweep(connection)
        await self._shared.report_handover(woken)
        return len(woken)

    async def waiting(self, ready_from: float, ready_to: float, limit: int) -> Sequence[Ready]:
        """See the port."""
        # A hot connection: this query runs twice a second, on a table without useful statistics.
        async with self._links.line("waiting").use(writes=False) as connection:
            rows = await connection.fetch(statement("runs_waiting"), ready_from, ready_to, limit)
        lanes = await self._lanes.places({lane for _, _, lane in rows})
        return [lanes[lane].ready_run(run_id, ready) for run_id, ready, lane in rows]


async def cancel_runs(
    connection: asyncpg.Connection, job_id: UUID, why: str | None, origin: UUID | None
) -> CancelledRuns:
    """Cancel the unfinished runs of a job (of this origin, if one is given) within the caller's transaction."""
    await connection.fetch(statement("job_runs_lock"), job_id)
    count, changed, namespaces, keys = await connection.fetchrow(statement("job_runs_cancel"), job_id, why, origin)
    over = Ended()
    over.add([job_id], namespaces, keys)
    return CancelledRuns(count, changed, await wake(connection, over))


async def _state(connection: asyncpg.Connection, move: RunMove, state: int | None) -> RunState:
    """The state of a run that was just changed; None: it ended before, or just now. Raises `NotFound`."""
    if state is None:
        state = await connection.fetchval(statement("run_state"), move.run_id, move.namespace)
    if state is None:
        raise NotFound(f"there is no run {move.run_id}")
    return STATES[state]
