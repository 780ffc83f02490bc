"""From timers to runs: one-time jobs in one statement; timers that need a decision go to the scheduler in between."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import asyncpg

from tickwise.adapters.store.postgres.base import Part, Shared
from tickwise.adapters.store.postgres.connection.batches import COMMIT
from tickwise.adapters.store.postgres.connection.link import UniqueBroken, translated
from tickwise.adapters.store.postgres.queue.claim_cursor import FAR_PAST, LAG_SECONDS
from tickwise.adapters.store.postgres.queue.new_runs import run_columns, skip_columns
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.decision import Hold, Overlap, TimerState
from tickwise.domain.errors import StoreUnavailable, Unavailable
from tickwise.ports.store import Fire, FireBatch, Fired, FireRequest, Timer

SWEEP_SECONDS: Final = 1.0
"""The interval at which timers are read from the very first: one that was written late is found in time, since it is
due no sooner than the store's horizon after it was written."""
SWEEP_SHARE: Final = 20

_NOWHERE: Final = (None,) * len(TimerState._fields)
"""The position of a timer that never fires again."""
_NOTHING: Final[tuple[tuple[Any, ...], ...]] = ((),) * len(TimerState._fields)
_DUE: Final = attrgetter("pending.due")

log = logging.getLogger(__name__)


async def _commit(connection: asyncpg.Connection, fires: Sequence[Fire]) -> int:
    """Record the decisions and end the transaction; the number of runs made."""
    try:
        with translated(writes=True):
            fires = await _pause_by_fuse(connection, fires)
            count: int = await connection.fetchval(statement("fires_commit"), *_columns(fires))
            await connection.execute(COMMIT)
    except UniqueBroken as broken:
        log.error("another transaction made the run of a timer at the same moment")
        raise StoreUnavailable(
            "a run was made twice at once: nothing was written, and the next look finds the one that is"
        ) from broken
    return count


async def _pause_by_fuse(connection: asyncpg.Connection, fires: Sequence[Fire]) -> Sequence[Fire]:
    """Pause jobs by the fuse; the fires but for those whose job is just being changed: they are decided anew."""
    parks = [fire for fire in fires if fire.park is not None]
    if not parks:
        return fires
    rows = await connection.fetch(
        statement("fires_park"),
        [fire.job_id for fire in parks],
        [fire.due for fire in parks],
        [fire.park for fire in parks],
    )
    parked = {row[0] for row in rows}
    return [fire for fire in fires if fire.park is None or fire.job_id in parked]


def _columns(fires: Sequence[Fire]) -> list[Sequence[Any]]:
    """The parameters of `fires_commit`. Of a column that says nothing, as most of them do, nothing is sent: what the
    driver does for each element took a tenth of the time of a fire."""
    jobs, taken, timers, _, _, _, zone_data = zip(*fires, strict=True) if fires else ((),) * len(Fire._fields)
    due, since, hold, fired, minute, in_minute = (
        zip(*[_NOWHERE if timer is None else timer for timer in timers], strict=True) if fires else _NOTHING
    )
    runs = [(fire.job_id, run) for fire in fires for run in fire.runs]
    skips = [skip for fire in fires for skip in fire.skips]
    *columns, dues, triggers, definitions, origins, nominals, overlaps = run_columns(runs)
    return [
        jobs,
        taken,
        due,
        _said(since),
        _said(hold),
        fired,
        _said(minute),
        in_minute if any(in_minute) else (),
        _said(zone_data),
        *columns,
        dues,
        triggers,
        _said(definitions),
        _said(origins),
        () if nominals == dues else nominals,  # most are due when their schedule says
        overlaps,
        [settles for fire in fires for settles in _settles(fire)],
        [fire.job_id for fire in fires for _ in fire.skips],
        *skip_columns(skips),
    ]


def _said(column: Sequence[Any]) -> Sequence[Any]:
    """The column, or nothing if it is all NULL: an array that ends early goes on with NULLs."""
    return () if column.count(None) == len(column) else column


def _settles(fire: Fire) -> list[bool]:
    """Its runs that may start in any case, if no other of their job is unfinished now: the first of them, unless
    one that the timer has yet to make could come before it."""
    timer = fire.timer
    comes = math.inf if timer is None else timer.due if timer.since is None else timer.since
    if len(fire.runs) == 1:
        return [fire.runs[0].overlap is not Overlap.ALLOW and fire.runs[0].due <= comes]
    first = min(((run.due, run.run_id) for run in fire.runs), default=None)
    return [
        run.overlap is not Overlap.ALLOW and (run.due, run.run_id) == first and run.due <= comes for run in fire.runs
    ]


class TimerCommands(Part):
    """`TimerStore` of the port, but for its repair."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._timers_mark = FAR_PAST
        self._timers_swept = FAR_PAST
        self._fires_quiet = False
        shared.at_clock_move.append(self._forget)

    def _forget(self) -> None:
        """Begin at the earliest timer again: the store's clock was moved."""
        self._timers_mark = self._timers_swept = FAR_PAST

    async def fire(self, horizon_seconds: float, limit: int, *, named: bool = False, traced: bool = False) -> Fired:
        """See the port."""
        if not named:
            [(count, _, _)] = await self._fire("timers_fire", horizon_seconds, limit)
            return Fired(count)
        rows = await self._fire("timers_fire_named", horizon_seconds, limit, traced)
        count = rows[0][3]
        made = [row for row in rows if row[0] is not None]
        try:
            lanes = await self._lanes.places({row[2] for row in made})
        except Unavailable:
            return Fired(count)  # the runs are there, and `RunStore.waiting` finds them
        ready = [lanes[lane].ready_run(run_id, ready) for run_id, ready, lane, *_ in made]
        return Fired(count, ready, {row[0]: row[4] for row in made if row[4] is not None} if traced else {})

    async def _fire(self, name: str, horizon_seconds: float, limit: int, *more: bool) -> Sequence[asyncpg.Record]:
        """The rows of a statement that fires; each ends with the last due time (NULL: none was) and the clock."""
        begun = self._clock.monotonic()
        sweep = begun >= self._timers_swept
        async with self._links.line("timers").use(writes=True) as connection:
            rows: Sequence[asyncpg.Record] = await connection.fetch(
                statement(name), limit, horizon_seconds, FAR_PAST if sweep else self._timers_mark, *more
            )
        ended = self._clock.monotonic()
        *_, latest, now = rows[0]
        if latest is not None:
            # Below this they are gone and their index entries dead; a new one may still come behind the clock.
            self._timers_mark = max(self._timers_mark, min(latest, now) - LAG_SECONDS)
        if sweep:
            self._timers_swept = ended + max(SWEEP_SECONDS, SWEEP_SHARE * (ended - begun))
        return rows

    async def count(self, counts: Mapping[str, int]) -> Mapping[str, int]:
        """See the port."""
        if not counts:
            return {}
        async with self._links.pooled(writes=True) as connection:
            rows = await connection.fetch(statement("fires_counted"), list(counts.keys()), list(counts.values()))
        return dict(rows)

    async def take(self, request: FireRequest) -> FireBatch:
        """See the port."""
        batch = await self._shared.batches.begin()
        async with batch.use():
            now, rules_version, timers = await self._taken(batch.connection, request)
            if timers:
                self._shared.batches.keep(batch)
        return FireBatch(batch.batch_id, now, rules_version, timers)

    async def commit(self, batch_id: int, fires: Sequence[Fire]) -> int:
        """See the port."""
        batch = self._shared.batches.pop(batch_id)
        if batch is None:
            if not fires:
                return 0
            raise StoreUnavailable("the batch of timers is over: nothing was fired; take the timers again")
        async with batch.use():
            return await _commit(batch.connection, fires)

    async def release(self, batch_id: int) -> None:
        """See the port."""
        batch = self._shared.batches.pop(batch_id)
        if batch is not None:
            async with batch.use():
                pass

    async def _taken(self, connection: asyncpg.Connection, request: FireRequest) -> tuple[float, int, Sequence[Timer]]:
        """The store's clock, which rules stand, and due timers, held by a transaction. Where none was due the last
        time, a cheap question comes first: of a scheduler with nothing to do, that is all."""
        looks_ahead = request.other_zone_data_than is None
        if looks_ahead and self._fires_quiet:
            now, rules_version, near = await connection.fetchrow(
                statement("fires_near"), request.horizon_seconds, request.once
            )
            if not near:
                return now, rules_version, ()
        await connection.execute(statement("fires_begin"))
        now, rules_version = await connection.fetchrow(statement("fires_now"))
        timers = await self._take(connection, request)
        if looks_ahead:
            self._fires_quiet = not timers
        return now, rules_version, timers

    async def _take(self, connection: asyncpg.Connection, request: FireRequest) -> list[Timer]:
        """Timers for this transaction, the earliest first."""
        reach = (request.horizon_seconds, request.limit)
        if request.other_zone_data_than is not None:
            rows = await connection.fetch(
                statement("fires_take_outdated"), *reach, request.other_zone_data_than, request.once
            )
        elif request.without:
            rows = await connection.fetch(statement("fires_take_without"), *reach, request.without, request.once)
        else:
            rows = await connection.fetch(statement("fires_take_all" if request.once else "fires_take"), *reach)
        lanes = await self._lanes.places({row["lane"] for row in rows})
        timers = [
            Timer(
                job_id,
                namespace,
                TimerState(due, since, None if hold is None else Hold(hold), *counts),
                definition,
                None if labels is None else json.loads(labels),
                run_id,
                lanes[lane].lane,
            )
            for job_id, namespace, definition, labels, run_id, lane, due, since, hold, *counts in rows
        ]
        timers.sort(key=_DUE)
        return timers
