"""From timers to runs: one-time jobs in one statement, recurring ones decided by the scheduler in between."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.claiming import FAR_PAST, LAG_SECONDS
from tickwise.adapters.store.postgres.link import translated
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import Bug
from tickwise.ports.store import Fire, FireBatch, Timer

SWEEP_SECONDS: Final = 1.0
"""How often timers are read from the very first: one that was written late is found in time, since it is due no sooner
than the store's horizon after it was written."""
SWEEP_SHARE: Final = 20

# The driver's own transaction objects cannot end one from within the block that began it.
BEGIN: Final = "BEGIN"
COMMIT: Final = "COMMIT"
ROLLBACK: Final = "ROLLBACK"


class TakenTimers:
    """A `FireBatch`: timers that a transaction of ours holds."""

    def __init__(self, connection: asyncpg.Connection, now: float, timers: Sequence[Timer]) -> None:
        self._connection = connection
        self._now = now
        self._timers = timers

    @property
    def now(self) -> float:
        """The store's clock."""
        return self._now

    @property
    def timers(self) -> Sequence[Timer]:
        """The earliest first."""
        return self._timers

    async def commit(self, fires: Sequence[Fire]) -> int:
        """See the port."""
        if not self._connection.is_in_transaction():
            raise Bug("these timers were committed already")
        runs = [(fire.job_id, *run) for fire in fires for run in fire.runs]
        columns = [list(column) for column in zip(*runs, strict=True)] if runs else [[], [], [], [], [], []]
        with translated(writes=True):
            count: int = await self._connection.fetchval(
                statement("fires_commit"),
                [fire.job_id for fire in fires],
                [fire.due for fire in fires],
                [fire.next_due for fire in fires],
                *columns,
            )
            await self._connection.execute(COMMIT)
        return count


class Timers(Part):
    """`timers_fire` and `fires` of the port."""

    async def timers_fire(self, horizon_seconds: float, limit: int) -> int:
        """See the port."""
        begun = self._clock.monotonic()
        sweep = begun >= self._timers_swept
        async with self._links.line("timers").use(writes=True) as connection:
            count, latest, now = await connection.fetchrow(
                statement("timers_fire"), limit, horizon_seconds, FAR_PAST if sweep else self._timers_mark
            )
        ended = self._clock.monotonic()
        if count:
            # Below this they are gone and their index entries dead; a new one may still come behind the clock.
            self._timers_mark = max(self._timers_mark, min(latest, now) - LAG_SECONDS)
        if sweep:
            self._timers_swept = ended + max(SWEEP_SECONDS, SWEEP_SHARE * (ended - begun))
        return int(count)

    def fires(self, horizon_seconds: float, limit: int) -> AbstractAsyncContextManager[FireBatch]:
        """See the port."""
        return self._fires(horizon_seconds, limit)

    @contextlib.asynccontextmanager
    async def _fires(self, horizon_seconds: float, limit: int) -> AsyncIterator[FireBatch]:
        async with self._links.idle_line("fires").hold() as connection:
            with translated(writes=False):
                await connection.execute(BEGIN)
                now = await connection.fetchval(statement("now"))
                rows = await connection.fetch(statement("fires_take"), horizon_seconds, limit)
            try:
                yield TakenTimers(connection, now, [Timer(**dict(row)) for row in rows])
            finally:
                if not connection.is_closed() and connection.is_in_transaction():
                    with translated(writes=False):
                        await connection.execute(ROLLBACK)
