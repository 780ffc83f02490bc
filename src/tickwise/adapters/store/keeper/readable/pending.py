"""Rows that are not written yet, by partition: many changes of one row become one write.

    run made ──► claimed ──► ended ──► retired          one row, if all of it comes between two writes
    timer set ──► fired                                 nothing, if nothing of the row was ever written

A write has the position of the last change in it as its timestamp: the row is, as of that position, what is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tickwise.adapters.store.keeper.readable.tables import PartitionDrop, ReadableTable, RowWrite

ROWS_A_WRITE: Final = 400
BYTES_A_WRITE: Final = 256 << 10
"""Of texts. Nodes take 16 MiB in one mutation."""
ROW_BYTES: Final = 1_200
"""The memory of a row of a job or run beside its long texts, with its key and values."""

LONG_TEXTS: Final = frozenset(
    {"definition", "error", "result", "reason", "cancel_error", "pause_reason", "value_before", "value_after", "detail"}
)
"""Columns whose texts are bounded by no rule of names. All others of a row are below 4 KiB."""

RowKey = tuple[Any, ...]


class PendingRow:
    """The changes of one row."""

    __slots__ = ("columns", "deleted_at", "is_new", "position")

    def __init__(self) -> None:
        self.columns: dict[str, Any] | None = None
        """None: there is no row, as far as is known here."""
        self.position = 0
        self.deleted_at: int | None = None
        self.is_new = False
        """True if the database never heard of the row, so its end needs no word either."""


class PendingPartition:
    """The changes of one partition."""

    __slots__ = ("dropped_at", "final", "rows")

    def __init__(self) -> None:
        self.rows: dict[tuple[ReadableTable, RowKey], PendingRow] = {}
        self.final: list[RowWrite] = []
        """Rows that nothing changes any more, so that nobody looks for them."""
        self.dropped_at: int | None = None

    def writes(self) -> Iterator[RowWrite]:
        """Each row, and before it its end if it had one."""
        for (table, key), row in self.rows.items():
            if row.deleted_at is not None:
                yield RowWrite(table, key, row.deleted_at, None)
            if row.columns is not None:
                yield RowWrite(table, key, row.position, row.columns)
        yield from self.final


def _text_size(columns: Mapping[str, Any]) -> int:
    """The characters of the columns that may have long texts."""
    size = 0
    for name in LONG_TEXTS & columns.keys():
        size += len(columns[name] or "")
    return size


class PendingRows:
    """The changes since the last write. `horizon`: an earlier owner may have written entries up to there."""

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon
        self.partitions: dict[tuple[str, RowKey], PendingPartition] = {}
        self.count = 0
        """The number of rows that are not written."""
        self.size = 0
        """The memory in bytes, about, of all that came, also of what went again."""

    def put(
        self, table: ReadableTable, key: RowKey, position: int, columns: Mapping[str, Any], *, is_fresh: bool = False
    ) -> PendingRow:
        """Change columns of a row. `is_fresh`: the row was not there before this position."""
        row = self._row(table, key)
        if row.columns is None:
            row.columns = {}
            row.is_new = is_fresh and position > self.horizon and row.deleted_at is None
        row.columns.update(columns)
        row.position = position
        self.size += _text_size(columns)
        return row

    def add(
        self, table: ReadableTable, bucket: RowKey, rest: RowKey, position: int, columns: Mapping[str, Any]
    ) -> None:
        """A row of the partition `bucket` that nothing was said of here, and that only ends with its partition."""
        self._partition(table.group, bucket).final.append(RowWrite(table, bucket + rest, position, columns))
        self.count += 1
        self.size += ROW_BYTES + _text_size(columns)

    def delete(self, table: ReadableTable, key: RowKey, position: int) -> None:
        """End a row."""
        row = self._row(table, key)
        if row.is_new:
            partition = self.partitions[table.group, key[: len(table.partition)]]
            del partition.rows[table, key]
            self.count -= 1
            if not partition.rows and not partition.final and partition.dropped_at is None:
                del self.partitions[table.group, key[: len(table.partition)]]
            return
        row.columns, row.deleted_at = None, position

    def drop(self, group: str, key: RowKey, position: int) -> None:
        """End all rows of a partition."""
        partition = self._partition(group, key)
        self.count -= len(partition.rows) + len(partition.final)
        partition.rows.clear()
        partition.final.clear()
        partition.dropped_at = position

    def is_new(self, table: ReadableTable, key: RowKey) -> bool:
        """Tell whether the database never heard of this row."""
        partition = self.partitions.get((table.group, key[: len(table.partition)]))
        row = None if partition is None else partition.rows.get((table, key))
        return row is not None and row.is_new

    def writes(self) -> Iterator[tuple[Sequence[RowWrite], PartitionDrop | None]]:
        """All of it, in writes of one partition each, none too large. What is taken to be written is not kept."""
        for group, key in [*self.partitions]:
            partition = self.partitions.pop((group, key))
            self.count -= len(partition.rows) + len(partition.final)
            dropped_at = partition.dropped_at
            drop = None if dropped_at is None else PartitionDrop(group, key, dropped_at)
            rows: list[RowWrite] = []
            size = 0
            for row in partition.writes():
                rows.append(row)
                if row.columns is not None:
                    size += _text_size(row.columns)
                if len(rows) >= ROWS_A_WRITE or size >= BYTES_A_WRITE:
                    yield rows, drop
                    rows, size, drop = [], 0, None
            if rows or drop is not None:
                yield rows, drop

    def _partition(self, group: str, key: RowKey) -> PendingPartition:
        partition = self.partitions.get((group, key))
        if partition is None:
            partition = self.partitions[group, key] = PendingPartition()
        return partition

    def _row(self, table: ReadableTable, key: RowKey) -> PendingRow:
        partition = self._partition(table.group, key[: len(table.partition)])
        row = partition.rows.get((table, key))
        if row is None:
            row = partition.rows[table, key] = PendingRow()
            self.count += 1
            self.size += ROW_BYTES
        return row
