"""The effects of successive entries, merged by key before any of them is read: a short run is read once, at its end.

    run came ──► was claimed ──► ended, went       of the run nothing, of its end one image
    run came                                       held back for a while: it may end soon
    job came with a run that is held back          held back with it

What is handed over comes in portions, and leaves the window with them: read values are several times as large as
their images.

Invariant: what a window hands over is what its entries say together, as of the last one of them. What it holds back
came in these entries, so no table has heard of it. A portion has the jobs of its runs, and what goes comes after all
that comes: so the rows are the same, wherever it is cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tickwise.adapters.store.keeper.images import Entry, Reader, TableReader, value_image
from tickwise.adapters.store.keeper.tracking import FIELDS, FRESH, GONE, WHOLE

JOBS_PATH: Final = "jobs"
RUNS_PATH: Final = "runs"
ENDED_PATH: Final = "ended"
AUDIT_PATH: Final = "audit.rows"
PROJECTED: Final = (JOBS_PATH, RUNS_PATH, ENDED_PATH, AUDIT_PATH)
"""The tables of the state that have rows."""

PORTION_KEYS: Final = 50
"""Keys that are handed over at once: about 1 ms until they are rows."""
KEY_BYTES: Final = 380
"""The memory of a change of one key beside its images: the bytes of the key, two objects, a list, and the places in a
dictionary."""
IMAGE_BYTES: Final = 41
"""The memory of an image beside its bytes."""

Change = tuple[int, Any]
"""FRESH, WHOLE, FIELDS or GONE, and the value. Of records: their fields by name."""
Changes = Mapping[str, Mapping[Any, Change]]
"""By table of the state, then by key."""


class MergedChange:
    """The changes of one key."""

    __slots__ = ("came", "first", "how", "is_timed", "raws")

    def __init__(self, how: int, raw: bytes, first: int, came: float) -> None:
        self.how = how
        self.raws = [raw]
        """Images that are not read yet: a whole one, or fields, each newer than the one before."""
        self.first = first
        """The position of the entry in which it began."""
        self.came = came
        self.is_timed: bool | None = None
        """Of a job that may be held back: True if it has a timer. None: it was not looked at."""

    @property
    def size(self) -> int:
        """Its memory in bytes, about."""
        return KEY_BYTES + sum(map(len, self.raws)) + IMAGE_BYTES * len(self.raws)

    def more(self, how: int, raw: bytes) -> None:
        """A later entry says more."""
        self.is_timed = None
        if how == FIELDS:
            self.raws.append(raw)
            return
        self.raws = [raw]
        # A key that went and came again is the same row with other columns.
        self.how = GONE if how == GONE else FRESH if self.how == FRESH else WHOLE

    def read(self, table: TableReader) -> Change:
        """The outcome."""
        if self.how == GONE:
            return GONE, None
        first, *others = self.raws
        value = table.value(first)
        for raw in others:
            value = {**value, **table.value(raw)}
        return self.how, value


class ChangeWindow:
    """The effects of entries that no table has heard of yet."""

    def __init__(self) -> None:
        self.position = 0
        """Of the last entry that was added."""
        self.size = 0
        """Its memory in bytes, about."""
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
        """The effects of one more entry. They are copied: a part of an entry would keep all of it in memory."""
        if not len(self):
            self._readers = {}  # the entry may have another schema than those before it
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
                known = changes[key] = MergedChange(how, bytes(raw), position, now)
                self.size += known.size
                continue
            self.size -= known.size
            if how == GONE and known.how == FRESH:
                del changes[key]  # it never was
                continue
            known.more(how, bytes(raw))
            self.size += known.size
        self.position = position

    def is_apart(self, entry: Entry) -> bool:
        """Tell whether an entry must not be merged with others: it has another schema, or a job that may be in another
        namespace, where its later runs are filed."""
        return entry.schema is not None or any(how == WHOLE and path == JOBS_PATH for path, how, _, _ in entry.changes)

    def take(self, came_before: float) -> Iterator[Changes]:
        """Hand over, portion by portion, what is not held back: a run that is new and active, and a job that is new and
        has no timer, while it came after this time and nothing of it is handed over. No entry may be added
        meanwhile."""
        for path in (ENDED_PATH, RUNS_PATH, JOBS_PATH, AUDIT_PATH):
            yield from self._take_coming(path, came_before)
        for path in (ENDED_PATH, RUNS_PATH, AUDIT_PATH, JOBS_PATH):
            yield from self._take_going(path)

    def _take_coming(self, path: str, came_before: float) -> Iterator[Changes]:
        """Hand over the keys of a table that are there in the end, and with a run its job."""
        changes, portion = self._tables[path], dict[str, dict[Any, Change]]()
        for number, raw_key in enumerate([*changes], start=1):
            change = changes.get(raw_key)
            if change is not None and change.how != GONE and not self._is_held(path, change, came_before):
                value = self._hand(path, raw_key, portion)
                if path == ENDED_PATH:
                    self._hand_job(value.row.job_id, portion)
                elif path == RUNS_PATH and "job" in value:
                    self._hand_job(value["job"], portion)
            if portion and number % PORTION_KEYS == 0:
                yield portion
                portion = {}
        if portion:
            yield portion

    def _take_going(self, path: str) -> Iterator[Changes]:
        """Hand over the keys of a table that are gone."""
        changes = self._tables[path]
        gone = [raw_key for raw_key, change in changes.items() if change.how == GONE]
        for begin in range(0, len(gone), PORTION_KEYS):
            portion: dict[str, dict[Any, Change]] = {}
            for raw_key in gone[begin : begin + PORTION_KEYS]:
                self._hand(path, raw_key, portion)
            yield portion

    def _is_held(self, path: str, change: MergedChange, came_before: float) -> bool:
        if change.how != FRESH or change.came <= came_before or path not in (RUNS_PATH, JOBS_PATH):
            return False
        if path == RUNS_PATH:
            return True
        if change.is_timed is None:
            change.is_timed = change.read(self._readers[path])[1].get("timer") is not None
        return not change.is_timed

    def _hand_job(self, job_id: Any, portion: dict[str, dict[Any, Change]]) -> None:
        """A job goes with the first of its runs, unless it goes for good."""
        raw_key = value_image(job_id)
        change = self._tables[JOBS_PATH].get(raw_key)
        if change is not None and change.how != GONE:
            self._hand(JOBS_PATH, raw_key, portion)

    def _hand(self, path: str, raw_key: bytes, portion: dict[str, dict[Any, Change]]) -> Any:
        """Move one key into a portion; its value."""
        change, reader = self._tables[path].pop(raw_key), self._readers[path]
        self.size -= change.size
        found = portion.setdefault(path, {})[reader.key(raw_key)] = change.read(reader)
        return found[1]
