"""Sequences and queues on hold."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.codes import JobStanding
from tickwise.adapters.store.postgres.connection.link import translated
from tickwise.adapters.store.postgres.openness import check_open
from tickwise.adapters.store.postgres.queue.new_runs import make_runs, make_skips
from tickwise.adapters.store.postgres.queue.wakeups import wake_queue
from tickwise.adapters.store.postgres.records.audit import write_audit
from tickwise.adapters.store.postgres.records.records import run_row
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import AuditEntry
from tickwise.domain.decision import SkipReason
from tickwise.domain.errors import Unavailable
from tickwise.domain.model import joined
from tickwise.domain.rules.sentences import SEQUENCE_PAUSED_SENTENCE
from tickwise.ports.store import Completion, NewRun, NewSkip, QueueHold, QueueRow, Successor

COUNTED_PAGES: Final = 500
"""A table of runs with more pages, some 40,000 runs, is sampled for the figures of lists."""


class Completions(Part):
    """`CompletionStore` of the port."""

    async def pending(self, limit: int) -> Sequence[Completion]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("completions"), limit)
        return [Completion(run=run_row(row), succeeded=row["succeeded"]) for row in rows]

    async def commit(self, namespace: str, ends: Mapping[UUID, Sequence[Successor]]) -> int:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            done = await connection.fetch(statement("completions_done"), namespace, list(ends))
            starts = [start for (run_id,) in done for start in ends[run_id]]
            jobs = {start.job_id for start in starts}
            standing = dict(await connection.fetch(statement("jobs_share"), namespace, list(jobs))) if jobs else {}
            runs = [
                (start.job_id, _named(start.run))
                for start in starts
                if start.run is not None and standing.get(start.job_id) == JobStanding.PLANNED
            ]
            made = await make_runs(connection, runs, not_before_now=True)
            for start in starts:
                skips = _skips(start, standing.get(start.job_id))
                await make_skips(connection, start.job_id, [skip for skip, _ in skips], [origin for _, origin in skips])
        return made


class Queues(Part):
    """`QueueStore` of the port."""

    async def hold(self, hold: QueueHold, *, audit: AuditEntry | None = None) -> QueueRow:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            async with connection.transaction():
                await check_open(connection, hold.namespace, or_closing=False)
                named = (hold.namespace, hold.queue, joined(hold.namespace, hold.queue))
                await connection.execute(statement("hold_shortened"), *named)
                await connection.execute(
                    statement("queue_hold"),
                    hold.namespace,
                    hold.queue,
                    hold.begin,
                    hold.until,
                    hold.reason,
                    hold.by,
                )
                await connection.execute(statement("hold_recorded"), *named)
                await connection.execute(statement("queue_unask"), hold.namespace, hold.queue)
                await connection.execute(statement("stops_tell_again"), hold.namespace)
                await write_audit(connection, audit)
            # Once it stands, no claim takes more of the queue: what is held by then is all there is to ask for. If that
            # cannot be asked for now, the next heartbeat does it.
            with contextlib.suppress(Unavailable), translated(writes=True):
                await ask_back(connection)
            rows = await connection.fetch(statement("queues_list"), hold.namespace, hold.queue, COUNTED_PAGES)
            return _queue_row(hold.namespace, rows[0]) if rows else _passed(hold)

    async def resume(self, namespace: str, queue: str, *, audit: AuditEntry | None = None) -> bool:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("hold_shortened"), namespace, queue, joined(namespace, queue))
            stood = await connection.fetchval(statement("queue_resume"), namespace, queue)
            await connection.execute(statement("stops_tell_again"), namespace)
            if stood:
                await write_audit(connection, audit)
        await self._wake(namespace, queue)
        return bool(stood)

    async def _wake(self, namespace: str, queue: str) -> None:
        """Give free slots to runs that wait there; if that fails now, the next sweep does it."""
        with contextlib.suppress(Unavailable):
            async with self._links.pooled(writes=True) as connection:
                woken = await wake_queue(connection, namespace, queue)
            await self._shared.report_handover(woken)

    async def all(self, namespace: str) -> Sequence[QueueRow]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("queues_list"), namespace, None, COUNTED_PAGES)
        return [_queue_row(namespace, row) for row in rows]


async def ask_back(connection: asyncpg.Connection) -> None:
    """Ask executors to return the runs of queues whose hold has just begun, and of stops that have."""
    async with connection.transaction():
        await connection.execute(statement("holds_brief"))
        await connection.execute(statement("holds_wait"))
        await connection.execute(statement("holds_tell"))


def _skips(start: Successor, standing: int | None) -> list[tuple[NewSkip, UUID | None]]:
    """The runs to record as skipped, with their origin: those to be skipped, and those of a paused job."""
    skips: list[tuple[NewSkip, UUID | None]] = []
    if start.skip is not None and standing in (JobStanding.PLANNED, JobStanding.PAUSED):
        skips.append((start.skip, None))
    if start.run is not None and standing == JobStanding.PAUSED:
        skips.append((_paused(start.run), start.run.origin))
    return skips


def _named(run: NewRun) -> NewRun:
    """With its nominal time, which stays although what is due already is due now."""
    return run._replace(nominal=run.due if run.nominal is None else run.nominal)


def _paused(run: NewRun) -> NewSkip:
    nominal = run.due if run.nominal is None else run.nominal
    return NewSkip(run.run_id, nominal, nominal, 1, SkipReason.PAUSED, SEQUENCE_PAUSED_SENTENCE, run.trigger)


def _queue_row(namespace: str, row: asyncpg.Record) -> QueueRow:
    hold = None
    if row["has_hold"]:
        hold = QueueHold(
            namespace=namespace,
            queue=row["queue"],
            begin=row["begin"],
            until=row["until"],
            reason=row["reason"],
            by=row["asked_by"],
            asked_at=row["asked_at"],
        )
    return QueueRow(
        queue=row["queue"],
        hold=hold,
        held=bool(row["held"]),
        queued=row["queued"],
        dispatched=row["dispatched"],
        running=row["running"],
    )


def _passed(hold: QueueHold) -> QueueRow:
    """The row of an unused queue whose hold is over."""
    return QueueRow(queue=hold.queue, hold=None, held=False, queued=0, dispatched=0, running=0)
