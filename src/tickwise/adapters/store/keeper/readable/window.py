"""The effects of successive entries, merged by key before any of them is read: a short run is read once, at its end.

    run came ──► was claimed ──► ended, went       of the run nothing, of its end one image
    run came                                       held back for a while: it may end soon
    job came with a run that is held back          held back with it

Invariant: what a window hands over is what its entries say together, as of the last one of them. What it holds back
came in these entries, so no table has heard of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tickwise.adapters.store.keeper.images import Entry, Reader, TableReader
from tickwise.adapters.store.keeper.tracking import FIELDS, FRESH, GONE, WHOLE

JOBS_PATH: Final = "jobs"
RUNS_PATH: Final = "runs"
ENDED_PATH: Final = "ended"
AUDIT_PATH: Final = "audit.rows"
PROJECTED: Final = (JOBS_PATH, RUNS_PATH, ENDED_PATH, AUDIT_PATH)
"""The tables of the state that have rows."""

Change = tuple[int, Any]
"""FRESH, WHOLE, FIELDS or GONE, and the value. Of records: their fields by name."""
Changes = Mapping[str, Mapping[Any, Change]]
"""By table of the state, then by key."""


class MergedChange:
    """The changes of one key."""

    __slots__ = ("came", "first", "how", "key", "raws", "value")

    def __init__(self, how: int, raw: Any, first: int, came: float) -> None:
        self.how = how
        self.raws = [raw]
        """Images that are not read yet: a whole one, or fields, each newer than the one before."""
        self.value: Any = None
        """As far as it was read."""
        self.key: Any = None
        """None: it was not read. What is held back is looked at again and again."""
        self.first = first
        """The position of the entry in which it began."""
        self.came = came

    def more(self, how: int, raw: Any) -> None:
        """A later entry says more."""
        if how == FIELDS:
            self.raws.append(raw)
            return
        self.raws, self.value = [raw], None
        # A key that went and came again is the same row with other columns.
        self.how = GONE if how == GONE else FRESH if self.how == FRESH else WHOLE

    def read(self, table: TableReader) -> Change:
        """The outcome."""
        if self.how == GONE:
            return GONE, None
        for raw in self.raws:
            value = table.value(raw)
            self.value = value if self.value is None else {**self.value, **value}
        self.raws = []
        return self.how, self.value


class ChangeWindow:
    """The effects of entries that no table has heard of yet."""

    def __init__(self) -> None:
        self.position = 0
        """Of the last entry that was added."""
        self._tables: dict[str, dict[bytes, MergedChange]] = {path: {} for path in PROJECTED}
        """By the bytes of the keys: of one schema a key has one form, and bytes are compared much sooner than ids."""
        self._readers: dict[str, TableReader] = {}

    def __len__(self) -> int:
        """The number of keys that changed."""
        return sum(map(len, self._tables.values()))

    @property
    def done(self) -> int:
        """Up to this position all was handed over."""
        held = [each.first for changes in self._tables.values() for each in changes.values()]
        return min(held) - 1 if held else self.position

    def add(self, reader: Reader, entry: Entry, position: int, now: float) -> None:
        """The effects of one more entry."""
        readers, tables = self._readers, self._tables
        for path, how, raw_key, raw in entry.changes:
            changes = tables.get(path)
            if changes is None:
                continue
            if path not in readers:
                found = reader.table(path)
                if found is None:
                    continue
                readers[path] = found
            key = bytes(raw_key)
            known = changes.get(key)
            if known is None:
                changes[key] = MergedChange(how, raw, position, now)
            elif how == GONE and known.how == FRESH:
                del changes[key]  # it never was
            else:
                known.more(how, raw)
        self.position = position

    def is_apart(self, entry: Entry) -> bool:
        """Tell whether an entry must not be merged with others: it has another schema, or a job that may be in another
        namespace, where its later runs are filed."""
        return entry.schema is not None or any(how == WHOLE and path == JOBS_PATH for path, how, _, _ in entry.changes)

    def take(self, came_before: float, into: dict[str, dict[Any, Change]]) -> Iterator[None]:
        """Hand over, step by step, what is not held back: a run that is new and active, and a job that is new and has
        no timer, while it came after this time and nothing of it is handed over. No entry may be added meanwhile."""
        tables, readers = self._tables, self._readers
        if not readers:
            return
        owners: set[Any] = set()
        """The jobs of the runs that are handed over."""
        for path in (ENDED_PATH, AUDIT_PATH, RUNS_PATH, JOBS_PATH):
            changes, found = tables[path], into.setdefault(path, {})
            held = {}
            for raw_key, change in changes.items():
                is_held = change.how == FRESH and change.came > came_before
                if is_held and path == RUNS_PATH:
                    held[raw_key] = change
                    continue
                reader = readers[path]
                outcome = change.read(reader)
                key, value = change.key, outcome[1]
                if key is None:
                    key = change.key = reader.key(raw_key)
                if is_held and path == JOBS_PATH and key not in owners and value.get("timer") is None:
                    held[raw_key] = change
                    continue
                if path == ENDED_PATH and value is not None:
                    owners.add(value.row.job_id)
                elif path == RUNS_PATH and value is not None and "job" in value:
                    owners.add(value["job"])
                found[key] = outcome
                yield
            tables[path] = held
        self._readers = {} if not len(self) else readers
