"""A job goes to another namespace. Locks are taken as for a change: job, timer, runs."""

from __future__ import annotations

import asyncpg

from tickwise.adapters.store.postgres.connection.link import UniqueBroken
from tickwise.adapters.store.postgres.jobs.changes import Changes, locked, shown
from tickwise.adapters.store.postgres.jobs.jobs import find_job
from tickwise.adapters.store.postgres.jobs.quotas import close_room, open_room
from tickwise.adapters.store.postgres.openness import check_open
from tickwise.adapters.store.postgres.records.audit import write_audit
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import JobNotFound, VersionConflict
from tickwise.ports.store import JobMove, JobRow, JobTransfer, OccurrenceMove, job_busy, key_taken_there
from tickwise.ports.store.quotas import cost_of_transfer


class Transfers(Changes):
    """`move` of the port's `JobStore`, to another namespace too."""

    async def move(self, move: JobMove | OccurrenceMove | JobTransfer, *, audit: AuditEntry | None = None) -> JobRow:
        """See the port."""
        if isinstance(move, JobTransfer):
            return await self._transfer(move, audit)
        return await self._move(move, audit)

    async def _transfer(self, transfer: JobTransfer, audit: AuditEntry | None) -> JobRow:
        async with self._links.pooled(writes=False) as connection:
            row = await find_job(connection, transfer.namespace, transfer.job_id)
            if row is None:
                return await _moved_before(connection, transfer)
        lane = await self._lanes.number(transfer.to, row.lane)
        quotas = (await self._quotas.of([transfer.to])).get(transfer.to)
        try:
            async with self._links.pooled(writes=True) as connection, connection.transaction():
                await check_open(connection, transfer.to)
                job = await locked(connection, transfer.namespace, transfer.job_id)
                if job["version"] != transfer.expected_version:
                    raise VersionConflict(
                        f"the job is at version {job['version']}, the move is for {transfer.expected_version}"
                    )
                # A scheduler that is just making a run of it holds the timer: what follows sees that run.
                await connection.execute(statement("timer_touch"), transfer.job_id)
                if await connection.fetchval(statement("job_is_busy"), transfer.job_id):
                    raise job_busy(transfer.job_id)
                if quotas is not None:
                    cost = cost_of_transfer(row.definition)
                    room = await open_room(connection, transfer.to, quotas, cost)
                    await close_room(connection, room, room.demand(cost))
                await connection.execute(statement("job_transfer"), transfer.job_id, transfer.to, lane)
                await write_audit(connection, audit, transfer.arrival)
                return await shown(connection, transfer.to, transfer.job_id)
        except UniqueBroken:
            raise key_taken_there(transfer.to, row.key) from None


async def _moved_before(connection: asyncpg.Connection, transfer: JobTransfer) -> JobRow:
    """The job as this transfer left it, if it was carried out before. Raises `NotFound`."""
    row = await find_job(connection, transfer.to, transfer.job_id)
    if row is None or row.version != transfer.expected_version + 1:
        raise JobNotFound(f"there is no job {transfer.job_id}", job_id=transfer.job_id)
    return row
