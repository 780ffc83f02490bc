"""A namespace leaves a database: its rows are read while it works there, and then, fenced, for the last time.

    begin ──► watch ──► pages ──► changes ──► lock, fence ──► the rest ──► leave ──► clean
              triggers note what changes          │
                                                  └── void after a few seconds, unless it left: a mover that died
                                                      holds nobody up

Invariants: a row that changes after its page was read is read again. While the fence stands, and once the namespace has
left, the database refuses each write for it. Batches of all namespaces pass over what is locked here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.connection.link import translated
from tickwise.adapters.store.postgres.shards.tables import AUDIT, MOVED, CopyWay, MovedTable, Ownership
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import StoreUnavailable

PAGE_ROWS: Final = 5_000
CHANGES_A_ROUND: Final = 20_000
FENCE_SECONDS: Final = 15.0
"""The fence is void after so long: several times what the rest takes."""
SOON_SECONDS: Final = 60.0
"""Timers that are due within this are locked: nothing takes a timer further ahead, and no fence stands for so long."""
AWAIT: Final = "500ms"
CLEANED_ROWS: Final = 5_000
NO_ROWS_BYTES: Final = 21
"""The header and the trailer of COPY's binary format."""
WATCHED: Final = ("INSERT", "UPDATE", "DELETE")
GUARDED: Final = ("INSERT",)
"""New rows are still to be refused once none of its rows is left."""


class DepartureState(NamedTuple):
    """The progress of a namespace that leaves."""

    move_id: UUID
    state: str
    """copying, fenced, left."""
    goal: str
    """The identity of the database that it goes to."""
    cleaned: bool
    begun: datetime
    """The time of that database at which it began."""


class LaneRow(NamedTuple):
    """A lane of the namespace, in the old database."""

    number: int
    priority: int
    queue: str
    requires: Sequence[str]


class NamespaceDeparture:
    """One namespace and the database that it leaves."""

    def __init__(self, connection: asyncpg.Connection, namespace: str, *, keeps_name: bool) -> None:
        """`keeps_name`: the database keeps the row of the namespace, because it lists all of them."""
        self._connection = connection
        self._namespace = namespace
        self._keeps_name = keeps_name
        self._columns: dict[str, list[str]] = {}

    async def state(self) -> DepartureState | None:
        """Its progress; None: it has not begun, or was given up."""
        row = await self._connection.fetchrow(statement("departure"), self._namespace)
        return None if row is None else DepartureState(*row)

    async def begin(self, goal: str, move_id: UUID) -> None:
        """Note that it leaves, and watch its rows from now on. May be repeated."""
        await self._connection.execute(statement("departure_begin"), self._namespace, goal, move_id)
        await self.watch()

    async def watch(self) -> None:
        """See to it that each change is noted or refused. Each trigger is made in a transaction of its own, so that
        writers wait for one at a time."""
        for table in MOVED:
            key = table.key if table.is_captured else None
            events = [*WATCHED, "UPDATE_OLD"] if table.name == "jobs" else WATCHED
            # Updates and deletes of runs are watched row by row: claims of all namespaces come by here.
            await self._watch(table, key, GUARDED if table.name == "runs" else events)
        await self._connection.execute(statement("departure_watch_runs"), self._namespace, True)

    async def _watch(self, table: MovedTable, key: str | None, events: Sequence[str]) -> None:
        await self._connection.execute(statement("departure_watch"), table.name, table.ownership, key, list(events))

    async def lanes(self) -> list[LaneRow]:
        """The lanes that its jobs and runs name by number."""
        return [LaneRow(*row) for row in await self._connection.fetch(statement("departure_lanes"), self._namespace)]

    async def map_lanes(self, here: Sequence[int], there: Sequence[int]) -> None:
        """From now on rows are read with these numbers."""
        await self._connection.execute(statement("departure_lanes_table"))
        await self._connection.execute(statement("departure_lanes_put"), here, there)

    async def page_end(self, table: MovedTable, after: str | None) -> str | None:
        """The last key of the next page; None: there is none."""
        found: str | None = await self._connection.fetchval(
            statement("departure_page"), table.name, table.ownership, self._namespace, table.key, after, PAGE_ROWS
        )
        return found

    async def text(
        self,
        table: MovedTable,
        *,
        after: str | None = None,
        upto: str | None = None,
        since: datetime | None = None,
        keys: Sequence[UUID] | None = None,
    ) -> str:
        """The statement that reads rows: all of them, or those within these bounds."""
        found: str = await self._connection.fetchval(
            statement("departure_read"),
            table.name,
            table.ownership,
            self._namespace,
            table.key,
            after,
            upto,
            since,
            keys,
        )
        return found

    async def read(self, text: str) -> bytes:
        """Rows in the binary format of COPY; empty if there are none."""
        parts: list[bytes] = []

        async def take(part: bytes) -> None:
            parts.append(part)

        await self._connection.copy_from_query(text, output=take, format="binary")
        rows = b"".join(parts)
        return rows if len(rows) > NO_ROWS_BYTES else b""

    async def columns(self, table: MovedTable) -> list[str]:
        """The columns of these rows, in their order."""
        if table.name not in self._columns:
            found = await self._connection.fetchval(statement("departure_columns"), table.name)
            self._columns[table.name] = list(found)
        return self._columns[table.name]

    @asynccontextmanager
    async def changes(self) -> AsyncIterator[dict[str, list[UUID]]]:
        """The keys of changed rows, by table, taken when the body has ended well."""
        async with self._connection.transaction():
            rows = await self._connection.fetch(statement("departure_changes"), self._namespace, CHANGES_A_ROUND)
            yield {row["relation"]: row["keys"] for row in rows}

    async def fence(self, move_id: UUID) -> bool:
        """Refuse its writes for a while; False: it is not leaving in this move. Waits for those under way."""
        async with self._connection.transaction():
            await self._connection.execute(statement("departure_await_seconds"), AWAIT)
            await self._connection.execute(statement("departure_await"), self._namespace)
            done = await self._connection.fetchval(
                statement("departure_fence"), self._namespace, move_id, FENCE_SECONDS
            )
        return bool(done)

    async def unfence(self) -> None:
        """Take its writes again."""
        await self._connection.execute(statement("departure_unfence"), self._namespace)

    async def numbers(self) -> tuple[int, int]:
        """No token of its runs and no number of its audit entries is above these."""
        row = await self._connection.fetchrow(statement("departure_numbers"))
        return row["token"], row["entry"]

    async def holders(self) -> str:
        """The executors that hold its runs, as JSON."""
        found: str = await self._connection.fetchval(statement("departure_holders"), self._namespace)
        return found

    async def is_here(self) -> bool:
        """Check whether the database has a job, an active or an ended run of it."""
        found: bool = await self._connection.fetchval(statement("departure_is_here"), self._namespace)
        return found

    async def forget_runs(self) -> None:
        """Reports of its runs are no longer to be sent again here: they belong to the new place."""
        await self._connection.execute(statement("departure_runs_forget"), self._namespace)

    async def give_up(self) -> None:
        """It does not leave: nothing of its changes is noted any more."""
        await self._connection.execute(statement("departure_forget"), self._namespace)
        await self._connection.execute(statement("departure_watch_runs"), self._namespace, False)
        await self.thin_out()

    async def clean(self) -> AsyncIterator[int]:
        """Remove its rows, children first, and tell how many after each page. It has left, or has yet to arrive."""
        await self._connection.execute(statement("departure_check_gone"), self._namespace)
        for table in reversed(MOVED):
            if table.name in AUDIT or (self._keeps_name and table.ownership is Ownership.NAME):
                continue
            while gone := await self._connection.fetchval(
                statement("departure_remove"), table.name, table.ownership, self._namespace, CLEANED_ROWS
            ):
                yield gone
        while gone := await self._connection.fetchval(
            statement("departure_remove_audit"), self._namespace, CLEANED_ROWS
        ):
            yield gone
        await self._connection.execute(statement("departure_lanes_idle"), self._namespace)

    async def end(self) -> None:
        """All of it is gone: what remains to be refused are new rows."""
        await self._connection.execute(statement("departure_cleaned"), self._namespace)
        await self._connection.execute(statement("departure_watch_runs"), self._namespace, False)
        await self.thin_out()

    async def thin_out(self) -> None:
        """Keep of the triggers what the namespaces of this database still need."""
        rows = await self._connection.fetch(statement("departures"))
        if any(not row["cleaned"] for row in rows):
            return
        for table in MOVED:
            guards = rows and table.ownership in (Ownership.NAMESPACE, Ownership.PRINCIPAL)
            key = table.key if table.is_captured else None
            await self._watch(table, key, GUARDED if guards else ())


class LockedRows:
    """A transaction in the old database that holds what others would take, and removes it when the namespace leaves."""

    def __init__(self, connection: asyncpg.Connection, namespace: str) -> None:
        self._connection = connection
        self._namespace = namespace
        self._transaction = connection.transaction()

    async def begin(self) -> None:
        """Lock: waits for batches that have taken some of it."""
        await self._transaction.start()
        await self._connection.execute(statement("departure_await_seconds"), AWAIT)
        await self._connection.execute(statement("departure_lock"), self._namespace, SOON_SECONDS)
        await self._connection.execute(statement("departure_await_seconds"), "5s")

    async def remove_acting(self) -> None:
        """Remove the rows that somebody acts on, but for held runs; seen by nobody before it has left."""
        for table in reversed([each for each in MOVED if each.acts and each.name != "runs"]):
            await self._connection.execute(
                statement("departure_remove"), table.name, table.ownership, self._namespace, None
            )

    async def leave(self, move_id: UUID) -> bool:
        """Commit that it has left; False: its fence was over by then, and all is as it was."""
        await self._connection.execute(statement("departure_runs_noted"), self._namespace)
        await self._connection.execute(
            statement("departure_remove"), "runs", Ownership.NAMESPACE, self._namespace, None
        )
        # Last, because who has this lock may wait for no row.
        await self._connection.execute(statement("departure_await"), self._namespace)
        if not await self._connection.fetchval(statement("departure_left"), self._namespace, move_id):
            return False
        with translated(writes=True):
            await self._transaction.commit()
        return True

    async def undo(self) -> None:
        """Let all of it go."""
        if not self._connection.is_closed():
            await self._transaction.rollback()


def captured(name: str) -> MovedTable:
    """The table whose changes are noted under this name."""
    for table in MOVED:
        if table.name == name and table.is_captured:
            return table
    raise StoreUnavailable(f"changes of the table {name} were noted, which this program does not know: upgrade it")


PAGED: Final = tuple(table for table in MOVED if table.way is not CopyWay.AT_ONCE)
