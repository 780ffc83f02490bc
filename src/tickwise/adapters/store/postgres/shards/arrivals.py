"""A namespace comes to a database: rows on which nobody acts go to their tables, the others wait until all is there.

Invariant: nothing of the namespace acts here before `let_in` commits, and all of it does after.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Final, NamedTuple
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.shards.departures import LaneRow
from tickwise.adapters.store.postgres.shards.tables import MOVED, CopyWay, MovedTable
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import Conflict

INCOMING: Final = "incoming"
_AT_ONCE: Final = [table for table in MOVED if table.way is CopyWay.AT_ONCE]


class ArrivalState(NamedTuple):
    """The progress of a namespace that comes."""

    move_id: UUID
    state: str
    """copying, staged, arrived."""
    source: str
    """The identity of the database that it comes from."""
    cursors: Mapping[str, str | None]
    """By table: the key up to which it is copied; None: all of it."""


class NamespaceArrival:
    """One namespace and the database that it comes to."""

    def __init__(self, connection: asyncpg.Connection, namespace: str, *, keeps_name: bool) -> None:
        """`keeps_name`: the database has the row of the namespace already, because it lists all of them."""
        self._connection = connection
        self._namespace = namespace
        self._keeps_name = keeps_name
        self._staging: dict[str, str] = {}

    async def state(self) -> ArrivalState | None:
        """Its progress; None: it has not begun, or was given up."""
        row = await self._connection.fetchrow(statement("arrival"), self._namespace)
        if row is None:
            return None
        return ArrivalState(row["move_id"], row["state"], row["source"], json.loads(row["cursors"]))

    async def note(self, source: str, move_id: UUID) -> None:
        """Note that it comes."""
        await self._connection.execute(statement("arrival_begin"), self._namespace, source, move_id)

    async def prepare(self) -> None:
        """Make the tables in which rows wait. May be repeated."""
        for table in MOVED:
            if table.is_staged:
                key = table.key if table.is_captured else None
                await self._connection.execute(statement("arrival_staging_make"), table.name, self._namespace, key)
                self._staging[table.name] = await self._connection.fetchval(
                    statement("arrival_staging"), table.name, self._namespace
                )
        await self.empty()

    async def lanes(self, lanes: Sequence[LaneRow]) -> list[int]:
        """The numbers of these lanes here."""
        return [
            await self._connection.fetchval(
                statement("arrival_lane"), self._namespace, lane.priority, lane.queue, list(lane.requires)
            )
            for lane in lanes
        ]

    async def put_page(self, table: MovedTable, columns: Sequence[str], rows: bytes, upto: str | None) -> None:
        """Put one page in its place, and note how far the table is copied (None: all of it)."""
        async with self._connection.transaction():
            if rows:
                await self._put(table, columns, rows, None)
            await self._connection.execute(statement("arrival_cursor"), self._namespace, table.name, upto)

    async def replace(self, table: MovedTable, columns: Sequence[str], rows: bytes, keys: Sequence[UUID]) -> None:
        """Put changed rows in the place of those that had these keys."""
        async with self._connection.transaction():
            await self._put(table, columns, rows, keys)

    async def empty(self) -> None:
        """Empty the tables that are copied at once: an earlier try may have left rows."""
        for table in _AT_ONCE:
            await self._connection.execute(statement("arrival_staging_empty"), table.name, self._namespace)

    async def fill(self, table: MovedTable, columns: Sequence[str], rows: bytes) -> None:
        """Put all rows of a table that is copied at once; they wait. Or those of one to which rows are only added."""
        if not table.is_staged:
            async with self._connection.transaction():
                await self._put(table, columns, rows, None)
            return
        await self._connection.copy_to_table(
            self._staging[table.name], schema_name="tickwise", source=BytesIO(rows), columns=columns, format="binary"
        )

    async def _put(self, table: MovedTable, columns: Sequence[str], rows: bytes, keys: Sequence[UUID] | None) -> None:
        await self._connection.execute(statement("arrival_incoming"), table.name)
        if rows:
            await self._connection.copy_to_table(INCOMING, source=BytesIO(rows), columns=columns, format="binary")
        await self._connection.execute(
            statement("arrival_put"), table.name, self._namespace, table.is_staged, table.key, keys
        )
        await self._connection.execute(statement("arrival_incoming_drop"))

    async def know_holders(self, holders: str) -> None:
        """Make executors known that hold runs of it. Raises `Conflict` if another executor has the number of one."""
        async with self._connection.transaction():
            others = await self._connection.fetch(statement("arrival_holders"), holders)
            if others:
                raise Conflict(
                    f"the runs that executor {others[0]['name']} holds cannot move: its number, "
                    f"{others[0]['executor']}, is that of another executor in the goal; repeat the move when they have "
                    "ended"
                )

    async def staged(self, token: int, entry: int) -> None:
        """Note that all of it is here."""
        await self._connection.execute(statement("arrival_staged"), self._namespace, token, entry)

    async def let_in(self) -> None:
        """Let it work here, all at once. May be repeated."""
        async with self._connection.transaction():
            found = await self.state()
            if found is None or found.state == "arrived":
                return
            if not self._keeps_name:
                await self._connection.execute(statement("arrival_name_drop"), self._namespace)
            staged = [table.name for table in MOVED if table.is_staged]
            await self._connection.execute(statement("arrival_let_in"), staged, self._namespace)
            await self._connection.execute(statement("arrival_done"), self._namespace)

    async def tidy(self) -> None:
        """Drop the tables in which rows waited."""
        for table in MOVED:
            if table.is_staged:
                await self._connection.execute(statement("arrival_staging_drop"), table.name, self._namespace)

    async def give_up(self) -> None:
        """It does not come. What was copied has been removed before."""
        await self.tidy()
        await self._connection.execute(statement("arrival_forget"), self._namespace)
