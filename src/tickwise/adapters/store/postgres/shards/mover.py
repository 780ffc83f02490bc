"""A namespace moves from one database to another while its jobs run on.

    old database                      new database                    map (first database)
    begin: note, watch                wipe leftovers, note            on its way
    copied ─────── pages ───────────► jobs, history; the rest waits
    caught up ──── changes ─────────►
    fenced: no writes
    staged ─────── the rest ────────► all of it is here
    left          ◄── the point of no return: one commit in the old database
    let in                            one commit: it acts here
    switched                                                          at its goal
    cleaned: rows removed

Invariants: before "left" the old database has all of it, and the move may be undone; after it the new one has, and the
move can only be ended. The same call goes on from each step, after any death. Nothing acts in both databases at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.connection.link import translated
from tickwise.adapters.store.postgres.shards.arrivals import ArrivalState, NamespaceArrival
from tickwise.adapters.store.postgres.shards.departures import (
    PAGED,
    DepartureState,
    LockedRows,
    NamespaceDeparture,
    captured,
)
from tickwise.adapters.store.postgres.shards.sessions import mover_session
from tickwise.adapters.store.postgres.shards.tables import MOVED, CopyWay, MovedTable
from tickwise.domain.errors import Conflict, StoreUnavailable
from tickwise.ports.clock import Clock
from tickwise.ports.shards import ShardMap

SWITCH_TRIES: Final = 20
FEW_CHANGES: Final = 2_000
"""A number of changes that is copied in a small part of the pause."""
ROUNDS_MAX: Final = 50
"""A namespace that changes faster than it is copied is fenced all the same, and its pause is longer."""
APPENDED_MARGIN_SECONDS: Final = 600.0
"""An entry may be committed so long after the time that it bears."""


class MoveStep(StrEnum):
    """The steps of a move; each is durable before it is told."""

    BEGUN = "begun"
    COPYING = "copying"
    COPIED = "copied"
    CAUGHT_UP = "caught_up"
    FENCED = "fenced"
    STAGED = "staged"
    LEFT = "left"
    LET_IN = "let_in"
    SWITCHED = "switched"
    CLEANING = "cleaning"
    CLEANED = "cleaned"


class MoveProgress(NamedTuple):
    """The progress of a move."""

    step: MoveStep
    bytes_copied: int


class MovePause(NamedTuple):
    """A namespace that has moved."""

    seconds: float | None
    """For so long it took no writes; None: an earlier call fenced it."""
    bytes_copied: int


Tell = Callable[[MoveProgress], Awaitable[None]]
"""Hears each step, and each page; the move goes on when it returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveEnd:
    """One of the two databases of a move."""

    number: int
    cluster_id: str
    dsn: str

    @property
    def keeps_name(self) -> bool:
        """True for the database that lists all namespaces."""
        return self.number == 1


class NamespaceMover:
    """One move; `run` and `undo` may be called again after any error. One process at a time may have it."""

    def __init__(
        self, namespace: str, *, source: MoveEnd, goal: MoveEnd, shard_map: ShardMap, clock: Clock, tell: Tell
    ) -> None:
        self._namespace = namespace
        self._source = source
        self._goal = goal
        self._map = shard_map
        self._clock = clock
        self._tell = tell
        self._copied = 0
        self._fenced_at: float | None = None

    async def run(self) -> MovePause:
        """Move it, from the step on that an earlier call came to."""
        async with AsyncExitStack() as stack:
            source, goal = await self._connect(stack)
            with translated(writes=True):
                departure, arrival = self._ends(source, goal)
                found = await departure.state()
                if found is None or found.state != "left":
                    await self._check_goal(self._leftovers(goal), await arrival.state())
                    await self._map.begin_move(self._namespace, self._goal.number)
                    move_id = await self._begin(departure, arrival, self._leftovers(goal))
                    await self._copy(departure, arrival)
                    await self._switch(departure, arrival, move_id)
                elif found.goal != self._goal.cluster_id:
                    raise Conflict(f"the namespace {self._namespace!r} has left for another database: {found.goal}")
                return await self._arrive(departure, arrival, goal)

    async def undo(self) -> None:
        """Leave it where it is. Raises `Conflict` if it has left already."""
        async with AsyncExitStack() as stack:
            source, goal = await self._connect(stack)
            with translated(writes=True):
                departure, arrival = self._ends(source, goal)
                found = await departure.state()
                if found is not None and found.state == "left":
                    raise Conflict(
                        f"the namespace {self._namespace!r} has left its old database: end the move, with "
                        f"`tickwise shards move {self._namespace} --to {self._goal.number}`"
                    )
                await departure.give_up()
                coming = await arrival.state()
                if coming is not None and coming.state != "arrived":
                    # What was complete there is void from now on.
                    await arrival.note(self._source.cluster_id, coming.move_id)
                    await _wipe(self._leftovers(goal))
                    await arrival.give_up()
                await self._map.end_move(self._namespace, arrived=False)

    async def _connect(self, stack: AsyncExitStack) -> tuple[asyncpg.Connection, asyncpg.Connection]:
        source = await stack.enter_async_context(mover_session(self._source.dsn))
        return source, await stack.enter_async_context(mover_session(self._goal.dsn))

    def _ends(
        self, source: asyncpg.Connection, goal: asyncpg.Connection
    ) -> tuple[NamespaceDeparture, NamespaceArrival]:
        return (
            NamespaceDeparture(source, self._namespace, keeps_name=self._source.keeps_name),
            NamespaceArrival(goal, self._namespace, keeps_name=self._goal.keeps_name),
        )

    async def _begin(
        self, departure: NamespaceDeparture, arrival: NamespaceArrival, leftovers: NamespaceDeparture
    ) -> UUID:
        """Note the move in both databases, unless an earlier call did; the move's id."""
        leaving, coming = await departure.state(), await arrival.state()
        if not _is_one_move(leaving, coming, self._goal.cluster_id):
            move_id = UUID(bytes=self._clock.random_bytes(16), version=4)
            # The old database first: changes are noted before a row is read.
            await departure.begin(self._goal.cluster_id, move_id)
            if coming is not None:
                await arrival.give_up()
            await arrival.note(self._source.cluster_id, move_id)
            await _wipe(leftovers)
        else:
            assert leaving is not None
            move_id = leaving.move_id
            await departure.watch()
        await arrival.prepare()
        await self._say(MoveStep.BEGUN)
        return move_id

    async def _check_goal(self, leftovers: NamespaceDeparture, coming: ArrivalState | None) -> None:
        """Raise `Conflict` if the new database has the namespace, and not as a leftover: the map may be an old one."""
        gone = await leftovers.state()
        is_leftover = (gone is not None and gone.state == "left") or (coming is not None and coming.state != "arrived")
        if not is_leftover and await leftovers.is_here():
            raise Conflict(
                f"shard {self._goal.number} has jobs of the namespace {self._namespace!r} already, and no move brought "
                "them: was a database restored from an older dump? See `tickwise doctor`"
            )

    def _leftovers(self, goal: asyncpg.Connection) -> NamespaceDeparture:
        """The namespace as an earlier stay, or an earlier try, left it in the new database."""
        return NamespaceDeparture(goal, self._namespace, keeps_name=self._goal.keeps_name)

    async def _copy(self, departure: NamespaceDeparture, arrival: NamespaceArrival) -> None:
        """Copy while the namespace works, until few changes are left."""
        await self._map_lanes(departure, arrival)
        found = await arrival.state()
        cursors = {} if found is None else found.cursors
        for table in PAGED:
            columns = await departure.columns(table)
            after = cursors.get(table.name)
            if table.name in cursors and after is None:
                continue
            while (upto := await departure.page_end(table, after)) is not None:
                rows = await departure.read(await departure.text(table, after=after, upto=upto))
                await arrival.put_page(table, columns, rows, upto)
                self._copied += len(rows)
                after = upto
                await self._say(MoveStep.COPYING)
                if table.way is not CopyWay.APPENDED:
                    await self._map_lanes(departure, arrival)
            await arrival.put_page(table, columns, b"", None)
        await self._say(MoveStep.COPIED)
        for _ in range(ROUNDS_MAX):
            if await self._changes(departure, arrival) < FEW_CHANGES:
                break
        await self._say(MoveStep.CAUGHT_UP)

    async def _changes(self, departure: NamespaceDeparture, arrival: NamespaceArrival) -> int:
        """Copy the rows that changed; how many."""
        await self._map_lanes(departure, arrival)
        async with departure.changes() as changed:
            if jobs := changed.get("jobs"):
                # Whose timers they are is seen by their jobs: one may have gone to another namespace.
                changed["timers"] = [*changed.get("timers", ()), *jobs]
            # Jobs first: which of the others are of this namespace is seen by them.
            for table in sorted(map(captured, changed), key=MOVED.index):
                rows = await departure.read(await departure.text(table, keys=changed[table.name]))
                await arrival.replace(table, await departure.columns(table), rows, changed[table.name])
                self._copied += len(rows)
        return sum(map(len, changed.values()))

    async def _map_lanes(self, departure: NamespaceDeparture, arrival: NamespaceArrival) -> None:
        lanes = await departure.lanes()
        await departure.map_lanes([lane.number for lane in lanes], await arrival.lanes(lanes))

    async def _switch(self, departure: NamespaceDeparture, arrival: NamespaceArrival, move_id: UUID) -> None:
        """Fence, copy the rest, leave. Tried again if somebody holds a lock for long, or the fence's time was over."""
        rest = await _rest(departure)
        for _ in range(SWITCH_TRIES):
            async with mover_session(self._source.dsn) as connection:
                locked = LockedRows(connection, self._namespace)
                try:
                    await locked.begin()
                    if not await departure.fence(move_id):
                        raise StoreUnavailable("the move was changed meanwhile: repeat the call")
                    self._fenced_at = self._clock.monotonic()
                    await self._say(MoveStep.FENCED)
                    await asyncio.gather(self._finish(departure, arrival, rest), locked.remove_acting())
                    await self._say(MoveStep.STAGED)
                    if await locked.leave(move_id):
                        await self._say(MoveStep.LEFT)
                        return
                except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
                    pass
                except BaseException:
                    await _quietly(departure)
                    raise
                await locked.undo()
            await departure.unfence()
            await arrival.empty()
            await self._changes(departure, arrival)
        raise StoreUnavailable(
            f"the namespace {self._namespace!r} could not be fenced: a transaction has written for it and stays open; "
            "look for it in pg_stat_activity, then repeat the call"
        )

    async def _finish(
        self, departure: NamespaceDeparture, arrival: NamespaceArrival, rest: Sequence[tuple[MovedTable, str]]
    ) -> None:
        """Copy what is left, while the fence stands."""
        while await self._changes(departure, arrival):
            pass
        for table, text in rest:
            if rows := await departure.read(text):
                await arrival.fill(table, await departure.columns(table), rows)
                self._copied += len(rows)
        await arrival.know_holders(await departure.holders())
        await arrival.staged(*await departure.numbers())

    async def _arrive(
        self, departure: NamespaceDeparture, arrival: NamespaceArrival, goal: asyncpg.Connection
    ) -> MovePause:
        await arrival.let_in()
        await self._say(MoveStep.LET_IN)
        await self._map.end_move(self._namespace, arrived=True)
        pause = None if self._fenced_at is None else self._clock.monotonic() - self._fenced_at
        await departure.forget_runs()
        await self._say(MoveStep.SWITCHED)
        async for _ in departure.clean():
            await self._say(MoveStep.CLEANING)
        await departure.end()
        await arrival.tidy()
        await self._leftovers(goal).thin_out()
        await self._say(MoveStep.CLEANED)
        return MovePause(pause, self._copied)

    async def _say(self, step: MoveStep) -> None:
        await self._tell(MoveProgress(step, self._copied))


def _is_one_move(leaving: DepartureState | None, coming: ArrivalState | None, goal: str) -> bool:
    """Check whether both databases know of the same move, to this goal."""
    return (
        leaving is not None
        and coming is not None
        and leaving.move_id == coming.move_id
        and leaving.goal == goal
        and coming.state != "arrived"
    )


async def _rest(departure: NamespaceDeparture) -> list[tuple[MovedTable, str]]:
    """The tables that are read while the fence stands, with the statement for each: all is prepared before."""
    found = await departure.state()
    since = None if found is None else found.begun - timedelta(seconds=APPENDED_MARGIN_SECONDS)
    rest = [table for table in MOVED if not table.is_captured]
    for table in rest:
        await departure.columns(table)
    return [
        (table, await departure.text(table, since=since if table.way is CopyWay.APPENDED else None)) for table in rest
    ]


async def _wipe(leftovers: NamespaceDeparture) -> None:
    async for _ in leftovers.clean():
        pass


async def _quietly(departure: NamespaceDeparture) -> None:
    """Take writes again, as far as the database is there; else the fence ends by itself."""
    with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
        await departure.unfence()
