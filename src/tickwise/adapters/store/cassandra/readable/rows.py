"""Rows as statements: one prepared INSERT for each set of columns, and values in the bytes of the driver's own types.

Generic binding looks at each value anew: whether it is set, encrypted, a datetime, a date or a number. A row has up to
30 values, thousands of rows come a second, and their types are known when the statement is prepared.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from cassandra.cqltypes import DateType, LongType
from cassandra.query import BatchStatement, BatchType, BoundStatement

from tickwise.adapters.store.cassandra.link import PROTOCOL, UNSET, CassandraLink, statement
from tickwise.adapters.store.keeper.readable.tables import PartitionDrop, ReadableTable, RowWrite
from tickwise.domain.errors import Bug

SHAPES: Final = 48
"""Sets of columns of a table that get a statement of their own, such as those of a run that succeeds at once. All
others share a statement of all columns, of which some are not set."""

TURN_ROWS: Final = 100
"""After so many rows, about 0.5 ms, the event loop has its turn: they must not hold up commits."""

Serialize = Callable[[Any, int], bytes]


class RowForm:
    """A prepared INSERT of some columns of a table."""

    __slots__ = ("columns", "partition", "prepared", "rest", "width")

    def __init__(self, table: ReadableTable, columns: Sequence[str] | None, prepared: Any) -> None:
        self.prepared = prepared
        self.columns = columns
        """None: those of the row, in its order."""
        serializers = [_serializer(each.type) for each in prepared.column_metadata]
        self.width = len(table.partition)
        self.partition, self.rest = serializers[: self.width], serializers[self.width :]

    def values(self, partition: list[bytes], row: RowWrite) -> list[Any]:
        """The values of a row, in the order of the statement."""
        columns = row.columns
        assert columns is not None
        named = columns.values() if self.columns is None else [columns.get(name, UNSET) for name in self.columns]
        given = (*row.key[self.width :], *named, row.position)
        return partition + [
            value if value is None or value is UNSET else serialize(value, PROTOCOL)
            for serialize, value in zip(self.rest, given, strict=True)
        ]


def _serializer(kind: Any) -> Serialize:
    # Times are given in ms. The driver's type for them tries two other forms first, and each costs an exception.
    chosen = LongType if issubclass(kind, DateType) else kind
    return chosen.serialize  # type: ignore[no-any-return]  # the driver has no types


class RowForms:
    """The statements of all rows of one keyspace."""

    def __init__(self, link: CassandraLink) -> None:
        self._link = link
        self._forms: dict[tuple[ReadableTable, tuple[str, ...]], RowForm] = {}
        self._whole: dict[ReadableTable, RowForm] = {}
        self._shapes: dict[ReadableTable, int] = {}

    async def batch(self, rows: Sequence[RowWrite], drop: PartitionDrop | None, dropped: Iterable[str]) -> Any:
        """One unlogged batch of a partition. Raises `Bug` for a value that its column cannot take."""
        batch = BatchStatement(BatchType.UNLOGGED)
        batch.is_idempotent = True
        if drop is not None:
            for name in dropped:
                batch.add(await self._link.prepared(f"{name}_drop"), (drop.position, *drop.key))
        partition: list[bytes] = []
        bound: dict[RowForm, Any] = {}
        for place, row in enumerate(rows, start=1):
            if place % TURN_ROWS == 0:
                await self._link.clock.sleep(0.0)
            if row.columns is None:
                batch.add(await self._link.prepared(f"{row.table.name}_delete"), (row.position, *row.key))
                continue
            form = self._forms.get((row.table, tuple(row.columns))) or await self._form(row)
            statement = bound.get(form)
            if statement is None:
                statement = bound[form] = BoundStatement(form.prepared)
            try:
                if not partition:
                    partition = [
                        serialize(value, PROTOCOL) for serialize, value in zip(form.partition, row.key, strict=False)
                    ]
                # A batch keeps the values of a statement, not the statement.
                statement.values = form.values(partition, row)
            except (TypeError, ValueError, AttributeError, struct.error) as failure:
                raise Bug(f"a value of a row of {row.table.name} does not fit its column: {failure}") from failure
            batch.add(statement)
        return batch

    async def _form(self, row: RowWrite) -> RowForm:
        """The statement of the columns of a row, new ones as long as there are few."""
        table = row.table
        assert row.columns is not None
        names = tuple(row.columns)
        known = self._shapes.get(table, 0)
        if known < SHAPES:
            form = RowForm(table, None, await self._prepared(table, names))
            if (table, names) not in self._forms:
                self._shapes[table] = known + 1
            self._forms[table, names] = form
            return form
        whole = self._whole.get(table)
        if whole is None:
            whole = self._whole[table] = RowForm(table, table.columns, await self._prepared(table, table.columns))
        return whole

    async def _prepared(self, table: ReadableTable, columns: Sequence[str]) -> Any:
        names = (*table.partition, *table.clustering, *columns)
        text = statement("row_put").format(
            table=table.name, columns=", ".join(names), marks=", ".join("?" for _ in names)
        )
        return await self._link.prepared(f"{table.name}: {', '.join(columns)}", text)
