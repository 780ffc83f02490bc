"""Quotas: known for a few seconds, and their use locked by the transaction that adds.

A namespace without quotas costs an addition a look into a dictionary. One with quotas has a row that its additions take
in turn, so no two of them see the same room.
"""

from __future__ import annotations

from collections.abc import Mapping

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.quotas import Quotas, QuotaUse
from tickwise.ports.store.quotas import CROWDED_SECONDS, RECOUNT_SECONDS, Cost, QuotaRoom


async def open_room(connection: asyncpg.Connection, namespace: str, quotas: Quotas, wanted: Cost) -> QuotaRoom:
    """The room of a namespace, locked until the caller's transaction ends. `wanted`: what the caller would add."""
    runs, jobs, size, age = await connection.fetchrow(statement("quota_lock"), namespace)
    room = QuotaRoom(namespace, quotas, jobs, runs, size)
    counts = quotas.jobs is not None or quotas.bytes is not None
    crowded = age > CROWDED_SECONDS and room.lacks(wanted._replace(runs=0)) is not None
    if counts and (age > RECOUNT_SECONDS or crowded):
        room.jobs, room.bytes = await connection.fetchrow(statement("quota_count"), namespace)
        await _write(connection, namespace, room, recounted=True)
    return room


async def close_room(connection: asyncpg.Connection, namespace: str, room: QuotaRoom) -> None:
    """Write what was taken, within the same transaction."""
    await _write(connection, namespace, room, recounted=False)


async def _write(connection: asyncpg.Connection, namespace: str, room: QuotaRoom, *, recounted: bool) -> None:
    await connection.execute(statement("quota_write"), namespace, room.runs, room.jobs, room.bytes, recounted)


class QuotaUses(Part):
    """`QuotaStore` of the port."""

    async def use(self, namespace: str) -> QuotaUse:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            jobs, size = await connection.fetchrow(statement("quota_count"), namespace)
            runs, lanes, calendars, windows, going = await connection.fetchrow(statement("quota_shown"), namespace)
        return QuotaUse(
            jobs=jobs,
            runs_today=runs,
            bytes=size,
            lanes=lanes,
            calendars=calendars,
            windows=windows,
            concurrent_runs=going,
        )

    async def take_runs(self, wanted: Mapping[str, int]) -> Mapping[str, int]:
        """See the port."""
        quotas = await self._quotas.of(wanted)
        lacking: dict[str, int] = {}
        # In one order, so that two schedulers do not wait for each other.
        for namespace in sorted(quotas):
            most = quotas[namespace].runs_per_day
            if most is None:
                continue
            async with self._links.pooled(writes=True) as connection, connection.transaction():
                room = await open_room(connection, namespace, quotas[namespace], Cost())
                taken = min(wanted[namespace], max(0, most - room.runs))
                room.runs = max(0, room.runs + taken)
                await close_room(connection, namespace, room)
            if taken < wanted[namespace]:
                lacking[namespace] = wanted[namespace] - taken
        return lacking
