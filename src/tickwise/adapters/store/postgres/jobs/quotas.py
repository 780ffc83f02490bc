"""Quotas: known for a few seconds, and their use locked by the transaction that adds.

    open_room ──► the sizes of the namespace, locked ──► the caller's own locks ──► count_runs ──► writes ──► close_room

A namespace without quotas costs an addition a look into a dictionary. One with quotas has two rows: its sizes (jobs and
bytes), which its additions take in turn, and its runs of a day. The first is locked by each addition, so that additions
do not queue for the second; the second is locked for the writes alone. A scheduler takes it without waiting
(`QuotaUses.take_runs`), and finds it free between two additions.

Invariant: locks are taken in one order, job, sizes, runs of the day. So an addition that holds one waits for no job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import StoreUnavailable
from tickwise.domain.quotas import Quotas, QuotaUse
from tickwise.ports.store.quotas import CROWDED_SECONDS, RECOUNT_SECONDS, Cost, QuotaRoom

SHOWN_PAGES: Final = 250
"""Of the table of jobs that last, for showing their number; some twenty jobs stand in one."""
SHOWN_JOBS: Final = 5_000


async def open_room(connection: asyncpg.Connection, namespace: str, quotas: Quotas, wanted: Cost) -> QuotaRoom:
    """The room of a namespace, locked until the caller's transaction ends. `wanted`: what the caller would add at most.

    Jobs and bytes are right as far as `wanted` asks for them; runs are not counted yet (`count_runs`).
    """
    jobs, size, age = await connection.fetchrow(statement("quota_sizes_lock"), namespace)
    room = QuotaRoom(namespace, quotas, jobs, 0, size)
    counts = (quotas.jobs is not None and wanted.jobs > 0) or (quotas.bytes is not None and wanted.bytes > 0)
    crowded = age > CROWDED_SECONDS and room.lacks(wanted._replace(runs=0)) is not None
    if counts and (age > RECOUNT_SECONDS or crowded):
        room.jobs, room.bytes = await connection.fetchrow(statement("quota_count"), namespace)
        await _write_sizes(connection, room, recounted=True)
    return room


async def count_runs(connection: asyncpg.Connection, room: QuotaRoom) -> None:
    """Lock the runs of today, if there is a quota of them. Called as late as the caller can: fires of the namespace are
    put off until its transaction ends."""
    if room.quotas.runs_per_day is not None:
        room.runs = await connection.fetchval(statement("quota_runs_lock"), room.namespace)


async def close_room(connection: asyncpg.Connection, room: QuotaRoom, taken: Cost) -> None:
    """Write what was taken, within the same transaction."""
    if taken.jobs or taken.bytes:
        await _write_sizes(connection, room, recounted=False)
    if taken.runs and room.quotas.runs_per_day is not None:
        await connection.execute(statement("quota_runs_write"), room.namespace, room.runs)


async def _write_sizes(connection: asyncpg.Connection, room: QuotaRoom, *, recounted: bool) -> None:
    await connection.execute(statement("quota_sizes_write"), room.namespace, room.jobs, room.bytes, recounted)


class QuotaUses(Part):
    """`QuotaStore` of the port."""

    async def use(self, namespace: str) -> QuotaUse:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            sizes = await connection.fetchrow(statement("quota_sizes_shown"), namespace, SHOWN_PAGES, SHOWN_JOBS)
            runs, lanes, calendars, windows, going = await connection.fetchrow(statement("quota_shown"), namespace)
        jobs, size, are_all = sizes
        return QuotaUse(
            jobs=jobs,
            runs_today=runs,
            bytes=size,
            is_estimate=not are_all,
            lanes=lanes,
            calendars=calendars,
            windows=windows,
            concurrent_runs=going,
        )

    async def take_runs(self, batch_id: int, wanted: Mapping[str, int]) -> Mapping[str, int | None]:
        """See the port."""
        batch = self._shared.batches.pop(batch_id)
        if batch is None:
            raise StoreUnavailable("the batch of timers is over: no run was counted; take the timers again")
        async with batch.use():
            lacking = await self._take_runs(batch.connection, wanted)
            self._shared.batches.keep(batch)
        return lacking

    async def _take_runs(self, connection: asyncpg.Connection, wanted: Mapping[str, int]) -> Mapping[str, int | None]:
        """By the transaction that holds the timers, and without waiting: timers of other namespaces are among them."""
        quotas = await self._quotas.of(wanted, by=connection)
        limited = {name: most for name, each in quotas.items() if (most := each.runs_per_day) is not None}
        if not limited:
            return {}
        asked = [*limited], [wanted[name] for name in limited], [*limited.values()]
        rows = await connection.fetch(statement("quota_runs_take"), *asked)
        if absent := [name for name, _, there in rows if not there]:
            await connection.execute(statement("quota_runs_rows"), absent)
            asked = absent, [wanted[name] for name in absent], [limited[name] for name in absent]
            rows = [row for row in rows if row[2]] + await connection.fetch(statement("quota_runs_take"), *asked)
        return {name: lacking for name, lacking, _ in rows if lacking != 0}
