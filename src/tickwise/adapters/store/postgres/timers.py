"""From timers to runs: one-time jobs in one statement; what needs a decision goes to the scheduler in between."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.claiming import FAR_PAST, LAG_SECONDS
from tickwise.adapters.store.postgres.jobs import pending
from tickwise.adapters.store.postgres.link import translated
from tickwise.adapters.store.postgres.statements import statement
from tickwise.adapters.store.postgres.submits import run_columns, skip_columns
from tickwise.domain.decision import Overlap
from tickwise.domain.errors import Bug
from tickwise.ports.store import Fire, FireBatch, FireRequest, Timer

SWEEP_SECONDS: Final = 1.0
"""How often timers are read from the very first: one that was written late is found in time, since it is due no sooner
than the store's horizon after it was written."""
SWEEP_SHARE: Final = 20

# The driver's own transaction objects cannot end one from within the block that began it.
COMMIT: Final = "COMMIT"
ROLLBACK: Final = "ROLLBACK"


class TakenTimers:
    """A `FireBatch`: timers that a transaction of ours holds."""

    def __init__(
        self, connection: asyncpg.Connection, timers: Sequence[Timer], *, now: float, rules_version: int
    ) -> None:
        self._connection = connection
        self._timers = timers
        self._now = now
        self._rules_version = rules_version

    @property
    def now(self) -> float:
        """The store's clock."""
        return self._now

    @property
    def rules_version(self) -> int:
        """See the port."""
        return self._rules_version

    @property
    def timers(self) -> Sequence[Timer]:
        """The earliest first."""
        return self._timers

    async def commit(self, fires: Sequence[Fire]) -> int:
        """See the port."""
        if not self._connection.is_in_transaction():
            raise Bug("these timers were committed already")
        with translated(writes=True):
            fires = await self._park(fires)
            count: int = await self._connection.fetchval(statement("fires_commit"), *_columns(fires))
            await self._connection.execute(COMMIT)
        return count

    async def _park(self, fires: Sequence[Fire]) -> Sequence[Fire]:
        """Pause jobs by the fuse; the fires but for those whose job is just being changed: they are decided anew."""
        parks = [fire for fire in fires if fire.park is not None]
        if not parks:
            return fires
        rows = await self._connection.fetch(
            statement("fires_park"),
            [fire.job_id for fire in parks],
            [fire.due for fire in parks],
            [fire.park for fire in parks],
        )
        parked = {row[0] for row in rows}
        return [fire for fire in fires if fire.park is None or fire.job_id in parked]


def _columns(fires: Sequence[Fire]) -> list[list[Any]]:
    """The parameters of `fires_commit`."""
    timers = [fire.timer for fire in fires]
    runs = [(fire.job_id, run) for fire in fires for run in fire.runs]
    skips = [skip for fire in fires for skip in fire.skips]
    return [
        [fire.job_id for fire in fires],
        [fire.due for fire in fires],
        [None if timer is None else timer.due for timer in timers],
        [None if timer is None else timer.since for timer in timers],
        [None if timer is None else timer.hold for timer in timers],
        [None if timer is None else timer.fired for timer in timers],
        [None if timer is None else timer.minute for timer in timers],
        [None if timer is None else timer.in_minute for timer in timers],
        [fire.zone_data for fire in fires],
        *run_columns(runs),
        [settles for fire in fires for settles in _settles(fire)],
        [fire.job_id for fire in fires for _ in fire.skips],
        *skip_columns(skips),
    ]


def _settles(fire: Fire) -> list[bool]:
    """Which of its runs may start whatever comes, if no other of their job is unfinished now: the first of them, unless
    one that the timer has yet to make could come before it."""
    timer = fire.timer
    comes = math.inf if timer is None else timer.due if timer.since is None else timer.since
    first = min(((run.due, run.run_id) for run in fire.runs), default=None)
    return [
        run.overlap is not Overlap.ALLOW and (run.due, run.run_id) == first and run.due <= comes for run in fire.runs
    ]


class Timers(Part):
    """`timers_fire`, `fires` and `fires_counted` of the port."""

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

    async def fires_counted(self, counts: Mapping[str, int]) -> Mapping[str, int]:
        """See the port."""
        if not counts:
            return {}
        async with self._links.pooled(writes=True) as connection:
            rows = await connection.fetch(statement("fires_counted"), list(counts.keys()), list(counts.values()))
        return dict(rows)

    def fires(self, request: FireRequest) -> AbstractAsyncContextManager[FireBatch]:
        """See the port."""
        return self._fires(request)

    @contextlib.asynccontextmanager
    async def _fires(self, request: FireRequest) -> AsyncIterator[FireBatch]:
        async with self._links.idle_line("fires").hold() as connection:
            with translated(writes=False):
                await connection.execute(statement("fires_begin"))
                now, rules_version = await connection.fetchrow(statement("fires_now"))
                timers = await _take(connection, request)
            try:
                yield TakenTimers(connection, timers, now=now, rules_version=rules_version)
            finally:
                if not connection.is_closed() and connection.is_in_transaction():
                    with translated(writes=False):
                        await connection.execute(ROLLBACK)


async def _take(connection: asyncpg.Connection, request: FireRequest) -> list[Timer]:
    """Timers for this transaction, the earliest first."""
    reach = (request.horizon_seconds, request.limit)
    if request.other_zone_data_than is not None:
        rows = await connection.fetch(
            statement("fires_take_outdated"), *reach, request.other_zone_data_than, request.once
        )
    else:
        rows = await connection.fetch(statement("fires_take_all" if request.once else "fires_take"), *reach)
    return [
        Timer(
            job_id=row["job_id"],
            namespace=row["namespace"],
            pending=pending(row),
            definition=row["definition"],
            labels=None if row["labels"] is None else json.loads(row["labels"]),
            run_id=row["run_id"],
        )
        for row in sorted(rows, key=lambda row: row["due"])
    ]
