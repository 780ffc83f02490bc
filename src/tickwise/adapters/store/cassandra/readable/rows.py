"""Rows as statements: one prepared INSERT for each set of columns, and values in the bytes of the driver's own types.

    runs, of a run that succeeded at once
    INSERT INTO runs (…, state, attempt, …) VALUES (?, …, 'SUCCESS', 1, …)    usual values stand in the statement

Generic binding looks at each value anew: whether it is set, encrypted, a datetime, a date or a number. A row has up to
30 values, thousands of rows come a second, and their types are known when the statement is prepared. A third of the
values are the same in nearly all rows: those are neither sent nor read by the node, which has them in the statement.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from cassandra.cqltypes import DateType, LongType
from cassandra.query import BatchStatement, BatchType, BoundStatement

from tickwise.adapters.store.cassandra.link import PROTOCOL, UNSET, CassandraLink, statement
from tickwise.adapters.store.keeper.readable.tables import (
    READABLE,
    PartitionDrop,
    ReadableTable,
    RowWrite,
)
from tickwise.domain.errors import Bug
from tickwise.domain.model import DEFAULT_PRIORITY, Trigger

SHAPES: Final = 48
"""Sets of columns of a table, with their usual values, that get a statement of their own, such as those of a run that
succeeds at once. All others share a statement of all columns, of which some are not set."""

USUAL: Final[Mapping[str, Mapping[str, frozenset[Any]]]] = {
    "jobs": {
        "state": frozenset({"ACTIVE"}),
        "schedule_type": frozenset({"IMMEDIATE", "FUTURE", "RECURRING"}),
        "recurring": frozenset({False, True}),
        "version": frozenset({1}),
        "priority": frozenset({DEFAULT_PRIORITY}),
    },
    "runs": {
        "state": frozenset({"SUCCESS", "FAILED"}),
        "trigger": frozenset({each.name for each in Trigger}),
        "attempt": frozenset({1}),
        "failures": frozenset({0, 1}),
        "crashes": frozenset({0}),
        "occurrences": frozenset({1}),
    },
    "attempts": {"attempt": frozenset({1}), "state": frozenset({"SUCCESS", "FAILED"})},
}
"""Values that stand in statements, by table and column. A row whose columns have others is bound as a whole."""

USUAL_COLUMNS: Final = {each: tuple(USUAL.get(each.name, ())) for each in READABLE}
MANY: Final = 2
"""Of fewer columns `itemgetter` makes no tuple."""

TURN_ROWS: Final = 100
"""After so many rows, about 0.5 ms, the event loop has its turn: they must not hold up commits."""

Serialize = Callable[[Any, int], bytes]


class RowForm:
    """A prepared INSERT of some columns of a table."""

    __slots__ = ("_named", "partition", "prepared", "rest", "width")

    def __init__(self, table: ReadableTable, columns: Sequence[str], prepared: Any, *, is_whole: bool = False) -> None:
        """`columns`: those that are bound. `is_whole`: a row need not have all of them."""
        self.prepared = prepared
        self._named = _some_of(columns) if is_whole or len(columns) < MANY else itemgetter(*columns)
        serializers = [_serializer(each.type) for each in prepared.column_metadata]
        self.width = len(table.partition)
        self.partition, self.rest = serializers[: self.width], serializers[self.width :]

    def values(self, partition: list[bytes], row: RowWrite) -> list[Any]:
        """The values of a row, in the order of the statement."""
        columns = row.columns
        assert columns is not None
        given = (*row.key[self.width :], *self._named(columns), row.position)
        return partition + [
            value if value is None or value is UNSET else serialize(value, PROTOCOL)
            for serialize, value in zip(self.rest, given, strict=True)
        ]


def _some_of(columns: Sequence[str]) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    return lambda said: [said.get(name, UNSET) for name in columns]


def _literal(value: Any) -> str:
    """A usual value in CQL."""
    return f"'{value}'" if isinstance(value, str) else str(value).lower()


def _serializer(kind: Any) -> Serialize:
    # Times are given in ms. The driver's type for them tries two other forms first, and each costs an exception.
    chosen = LongType if issubclass(kind, DateType) else kind
    return chosen.serialize  # type: ignore[no-any-return]  # the driver has no types


class RowForms:
    """The statements of all rows of one keyspace."""

    def __init__(self, link: CassandraLink) -> None:
        self._link = link
        self._forms: dict[tuple[ReadableTable, tuple[str, ...], tuple[Any, ...] | None], RowForm] = {}
        """By table, columns, and what the columns of `USUAL` say; None: something else than usual."""
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
        for place, row in enumerate(rows, start=1):
            if place % TURN_ROWS == 0:
                await self._link.clock.sleep(0.0)
            if row.columns is None:
                batch.add(await self._link.prepared(f"{row.table.name}_delete"), (row.position, *row.key))
                continue
            try:
                said = tuple(map(row.columns.get, USUAL_COLUMNS[row.table]))
                form = self._forms.get((row.table, tuple(row.columns), said)) or await self._form(row, said)
                if not partition:
                    partition = [
                        serialize(value, PROTOCOL) for serialize, value in zip(form.partition, row.key, strict=False)
                    ]
                values = form.values(partition, row)
            except (TypeError, ValueError, AttributeError, struct.error) as failure:
                raise Bug(f"a value of a row of {row.table.name} does not fit its column: {failure}") from failure
            if batch.routing_key is None:
                bound = BoundStatement(form.prepared)
                bound.values = values
                batch.add(bound)
            else:
                # `add` would look for the partition and for a payload once more.
                batch._add_statement_and_params(True, form.prepared.query_id, values)  # noqa: SLF001  # see above
        return batch

    async def _form(self, row: RowWrite, said: tuple[Any, ...]) -> RowForm:
        """The statement of the columns of a row, new ones as long as there are few."""
        table, columns = row.table, row.columns
        assert columns is not None
        usual = USUAL.get(table.name, {})
        fixed = {name: columns[name] for name in USUAL_COLUMNS[table] if columns.get(name) in usual[name]}
        if len(fixed) != sum(each is not None for each in said):
            fixed = {}
        names = tuple(columns)
        key = table, names, said if fixed else None
        found = self._forms.get(key)
        if found is not None:
            return found
        known = self._shapes.get(table, 0)
        if known < SHAPES:
            bound = [name for name in names if name not in fixed]
            form = RowForm(table, bound, await self._prepared(table, bound, fixed))
            if key not in self._forms:
                self._shapes[table] = known + 1
            self._forms[key] = form
            return form
        whole = self._whole.get(table)
        if whole is None:
            prepared = await self._prepared(table, table.columns, {})
            whole = self._whole[table] = RowForm(table, table.columns, prepared, is_whole=True)
        return whole

    async def _prepared(self, table: ReadableTable, columns: Sequence[str], fixed: Mapping[str, Any]) -> Any:
        names = (*table.partition, *table.clustering, *columns)
        values = ["?" for _ in names] + [_literal(each) for each in fixed.values()]
        text = statement("row_put").format(
            table=table.name, columns=", ".join((*names, *fixed)), values=", ".join(values)
        )
        return await self._link.prepared(f"{table.name}: {', '.join(columns)}; {fixed}", text)
