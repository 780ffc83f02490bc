"""Notes what each call of a memory store changes, without a word of it in the store's own code.

    table[key] = record ──► the table notes the key          (a dictionary that notes what is written)
    record.field = value ─► the record's table notes the field (the record's class is replaced by one that notes)
    after the call ───────► `take`: the images of what is noted, and of each single value that is another one

Invariant: nothing that is kept (`tables`) can be changed without a note: tables, the records in them, and the
containers in those note it themselves. A value that none of these reaches is immutable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar

from tickwise.adapters.store.keeper.tables import RECORDS, TABLES, VALUES, TableKind, check_complete
from tickwise.adapters.store.memory.ended import EndedRuns
from tickwise.adapters.store.memory.ended.job_table import JobTable
from tickwise.adapters.store.memory.state import State
from tickwise.domain.errors import Bug

K = TypeVar("K")
V = TypeVar("V")

FRESH: Final = 0
"""A key that came, at the end of its table."""
WHOLE: Final = 1
"""A key whose value is another one, at its place."""
GONE: Final = 2
"""A key that went."""
FIELDS: Final = 3
"""A record of which some fields are other ones."""

_MISSING: Final = object()


class Change(NamedTuple):
    """The after-image of one key of a table."""

    table: TableKind
    how: int
    key: Any
    value: Any
    """FRESH, WHOLE: the value. FIELDS: those fields of the record, by name. GONE: None."""


class NotedPlace(NamedTuple):
    """The place of a value that is changed in place: a key of a table, or a field of the record there."""

    table: Table
    key: Any
    field: str | None


class Table:
    """The notes about one table."""

    __slots__ = (
        "content", "dirty", "kind", "noted", "noted_fields", "notes", "placed", "recorder", "records", "whole_with",
    )  # fmt: skip

    def __init__(self, kind: TableKind, dirty: list[Table], recorder: EffectRecorder) -> None:
        self.kind = kind
        self.notes: dict[Any, int | set[str]] = {}
        self.dirty = dirty
        self.recorder = recorder
        self.records = kind.value in RECORDS
        self.placed = not self.records or RECORDS[kind.value].key is None
        self.whole_with = RECORDS[kind.value].whole_with if self.records else frozenset()
        self.content: MutableMapping[Any, Any] = {}
        self.noted: Any = _MISSING
        """The key of the last field that was noted: a call sets many fields of one record, one after the other."""
        self.noted_fields: set[str] | None = None
        """Those of that key that were noted; None: it will be told as a whole."""

    def note(self, key: Any, how: int) -> None:
        """A key came, went, or has another value."""
        notes, self.noted = self.notes, _MISSING
        if not notes:
            self.dirty.append(self)
        if how != FRESH and self.placed:
            self.recorder.release(self.content.get(key))
        if how != WHOLE:
            # A key that went and came again is the last one of its table.
            notes.pop(key, None)
        elif notes.get(key) == FRESH:
            return
        notes[key] = how

    def note_field(self, key: Any, field: str) -> None:
        """A field of the record at this key is another one."""
        notes = self.notes
        found = notes.get(key)
        if found is None:
            if not notes:
                self.dirty.append(self)
            found = notes[key] = {field}
        elif isinstance(found, set):
            found.add(field)
        self.noted, self.noted_fields = key, found if isinstance(found, set) else None

    def take(self) -> Iterable[Change]:
        """The images of what was noted; from then on nothing is."""
        notes, self.notes = self.notes, {}
        self.noted = _MISSING
        content, recorder = self.content, self.recorder
        for key, how in notes.items():
            value = content.get(key, _MISSING)
            if value is _MISSING:
                if how == GONE:
                    yield Change(self.kind, GONE, key, None)
            elif isinstance(how, set) and self.whole_with.isdisjoint(how):
                yield Change(self.kind, FIELDS, key, {each: recorder.adopted_field(value, each) for each in how})
            else:
                whole = WHOLE if isinstance(how, set) else how
                yield Change(self.kind, whole, key, recorder.adopted(self, key, value))


class TrackedDict(dict[K, V], Generic[K, V]):
    """A dictionary that says which keys change, before they do."""

    __slots__ = ("note",)

    note: Callable[[Any, int], None]

    def __setitem__(self, key: K, value: V) -> None:
        before = self.get(key, _MISSING)
        if before is not value:
            self.note(key, FRESH if before is _MISSING else WHOLE)
            dict.__setitem__(self, key, value)

    def __delitem__(self, key: K) -> None:
        if key in self:
            self.note(key, GONE)
        dict.__delitem__(self, key)

    def pop(self, key: K, *default: Any) -> Any:
        """As of a dictionary."""
        if key in self:
            self.note(key, GONE)
        return dict.pop(self, key, *default)

    def setdefault(self, key: K, default: Any = None) -> Any:
        """As of a dictionary."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *others: Any, **named: Any) -> None:
        """As of a dictionary."""
        for key, value in dict(*others, **named).items():
            self[key] = value

    def clear(self) -> None:
        """As of a dictionary."""
        for key in list(self):
            del self[key]

    def popitem(self) -> tuple[K, V]:
        """As of a dictionary."""
        key = next(reversed(self))
        return key, self.pop(key)

    def __ior__(self, other: Any) -> TrackedDict[K, V]:  # type: ignore[override,misc]  # it is the same dictionary
        self.update(other)
        return self


class TrackedCounter(TrackedDict[K, int], Counter[K]):  # type: ignore[misc]  # its `|=` is that of a dictionary
    """A counter that says which keys change."""

    __slots__ = ()

    def __delitem__(self, key: Any) -> None:
        if key in self:
            TrackedDict.__delitem__(self, key)

    def update(self, *others: Any, **named: Any) -> None:
        """As of a counter."""
        for key, number in Counter(*others, **named).items():
            self[key] = self[key] + number


class TrackedList(list[V], Generic[V]):
    """A list that says that it changes."""

    __slots__ = ("note",)

    note: Callable[[], None]


class TrackedSet(set[V], Generic[V]):
    """A set that says that it changes."""

    __slots__ = ("note",)

    note: Callable[[], None]


def _saying(plain: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *given: Any, **named: Any) -> Any:
        self.note()
        return plain(self, *given, **named)

    return method


for _kind, _plain, _names in (
    (TrackedList, list, "append extend insert remove pop clear sort reverse __setitem__ __delitem__ __iadd__ __imul__"),
    (
        TrackedSet,
        set,
        "add remove discard pop clear update difference_update intersection_update symmetric_difference_update "
        "__ior__ __iand__ __isub__ __ixor__",
    ),
):
    for _name in _names.split():
        setattr(_kind, _name, _saying(getattr(_plain, _name)))


class EffectRecorder:
    """The notes about one state, from when it is made on."""

    def __init__(self, state: State) -> None:
        check_complete(state)
        self.state = state
        self._dirty: list[Table] = []
        self._places: dict[int, NotedPlace] = {}
        """Of records and containers that are not found by their key, by identity."""
        self._classes: dict[type, type] = {}
        self._values = {each.name: _copy(each.get(state)) for each in VALUES}
        self.tables = {each.path: self._begin(each) for each in TABLES}

    def _begin(self, kind: TableKind) -> Table:
        """Note what changes in one table from now on."""
        owner, _, last = kind.path.rpartition(".")
        parent = attrgetter(owner)(self.state) if owner else self.state
        before = getattr(parent, last)
        if isinstance(before, EndedRuns):
            return self._begin_ended(kind, before)
        if isinstance(before, JobTable):
            return self._begin_jobs(kind, before)
        if not isinstance(before, dict):
            raise Bug(f"the table {kind.path} of the state is no dictionary")
        table = Table(kind, self._dirty, self)
        content: TrackedDict[Any, Any] = TrackedCounter() if isinstance(before, Counter) else TrackedDict()
        content.note = table.note
        dict.update(content, before)
        table.content = content
        if kind.value in RECORDS:
            self._class_of(kind.value, table)
        for key, value in before.items():
            self.adopted(table, key, value)
        setattr(parent, last, content)
        return table

    def _begin_ended(self, kind: TableKind, ended: EndedRuns) -> Table:
        """The table of ended runs notes by itself what comes and goes, and its values never change."""
        table = Table(kind, self._dirty, self)
        table.content, table.placed = ended, False
        ended.note_by(lambda run_id: table.note(run_id, FRESH), lambda run_id: table.note(run_id, GONE))
        return table

    def _begin_jobs(self, kind: TableKind, jobs: JobTable) -> Table:
        """The table of jobs notes by itself what comes and goes; its records note their changes."""
        table = Table(kind, self._dirty, self)
        table.content = jobs
        noting = self._class_of(kind.value, table)
        jobs.note_by(lambda job_id: table.note(job_id, FRESH), lambda job_id: table.note(job_id, GONE), noting)
        for job in jobs.awake:
            self.adopted(table, job.job_id, job)
        return table

    def take(self) -> tuple[list[Change], dict[str, Any]]:
        """All changes since the last time: of tables in their order, and the single values that are other ones."""
        changes = [change for table in self._dirty for change in table.take()]
        self.state.jobs.settle()
        self._dirty.clear()
        values, before = {}, self._values
        for kind in VALUES:
            value = kind.get(self.state)
            if value != before[kind.name]:
                before[kind.name] = values[kind.name] = _copy(value)
        return changes, values

    def everything(self) -> tuple[list[Change], dict[str, Any]]:
        """The whole state, as changes of an empty one."""
        self.take()
        tables = self.tables.values()
        rows = [Change(each.kind, FRESH, key, value) for each in tables for key, value in each.content.items()]
        return rows, dict(self._values)

    def forget(self) -> None:
        """Take the state apart once nobody uses it, so that its records leave memory at once. They refer to each other,
        and an owner keeps the garbage collector from them (`gc.freeze`)."""
        for job in self.state.jobs.awake:
            object.__setattr__(job, "timer", None)
            job.runs.clear()
        for table in self.tables.values():
            if isinstance(table.content, dict):
                dict.clear(table.content)
        self.state.ended.forget()
        self.state.jobs.forget()
        vars(self.state).clear()

    # ------------------------------------------------------------------------------------------- what is in a table

    def adopted(self, table: Table, key: Any, value: Any) -> Any:
        """The value of a key, which notes its own changes from now on."""
        kept = self._adopt(value, NotedPlace(table, key, None))
        if kept is not value:
            dict.__setitem__(table.content, key, kept)  # type: ignore[index]  # ended runs are kept as they are
        return kept

    def adopted_field(self, record: Any, field: str) -> Any:
        """A field of a record; a container in it notes its own changes from now on."""
        value = getattr(record, field)
        if type(value) in _CONTAINERS:
            place = self._places.get(id(record))
            if place is not None and field not in RECORDS[type(record).__mro__[1]].derived:
                value = self._contained(value, place._replace(field=field))
                object.__setattr__(record, field, value)
        return value

    def release(self, value: Any) -> None:
        """A value that leaves its table."""
        if self._places.pop(id(value), None) is not None and hasattr(value, "__dataclass_fields__"):
            for each in fields(value):
                self._places.pop(id(getattr(value, each.name)), None)

    def _adopt(self, value: Any, place: NotedPlace) -> Any:
        kind = type(value)
        if kind in _CONTAINERS:
            return self._contained(value, place)
        if kind in RECORDS:
            object.__setattr__(value, "__class__", self._class_of(kind, place.table))
        else:
            kind = kind.__base__ or object
            if kind not in RECORDS:
                return value  # it is immutable
        if RECORDS[kind].key is None:
            self._places[id(value)] = place
            for each in fields(kind):
                self.adopted_field(value, each.name)
        return value

    def _contained(self, value: Any, place: NotedPlace) -> Any:
        """A container of a record or a table, in the form that notes."""
        tracked: Any
        if type(value) in _TRACKING:
            tracked = value
        elif isinstance(value, dict):
            tracked = TrackedCounter() if isinstance(value, Counter) else TrackedDict()
            dict.update(tracked, {key: self._adopt(each, place) for key, each in value.items()})
            tracked.note = lambda _key, _how: self._note(tracked)
        else:
            tracked = TrackedList(value) if isinstance(value, list) else TrackedSet(value)
            tracked.note = lambda: self._note(tracked)
        self._places[id(tracked)] = place
        return tracked

    def _note(self, value: Any, field: str = "") -> None:
        """A record or a container at a place says that it is another one."""
        place = self._places.get(id(value))
        if place is None:
            return
        table = place.table
        if not table.records:
            table.note(place.key, WHOLE)
        else:
            table.note_field(place.key, place.field or field)

    def _class_of(self, kind: type, table: Table) -> type:
        """The class of records of this kind that note their changes."""
        made = self._classes.get(kind)
        if made is None:
            made = self._classes[kind] = self._noting(kind, table)
        return made

    def _noting(self, kind: type, table: Table) -> type:
        put, says = object.__setattr__, self._note
        key_field = RECORDS[kind].key

        def note_by_place(record: Any, name: str, value: Any) -> None:
            put(record, name, value)
            says(record, name)

        def note_by_key(record: Any, name: str, value: Any) -> None:
            put(record, name, value)
            key = key_of(record)
            if key is not table.noted:
                note_field(key, name)
            elif table.noted_fields is not None:
                table.noted_fields.add(name)

        if key_field is not None:
            key_of, note_field = attrgetter(key_field), table.note_field
        setter = note_by_place if key_field is None else note_by_key
        return type(kind.__name__, (kind,), {"__slots__": (), "__setattr__": setter, "__doc__": kind.__doc__})


_TRACKING: Final = frozenset({TrackedDict, TrackedCounter, TrackedList, TrackedSet})
_CONTAINERS: Final = _TRACKING | {dict, Counter, list, set}


def _copy(value: Any) -> Any:
    """A value that later changes of the state do not reach."""
    if isinstance(value, Mapping):
        return {key: _copy(each) for key, each in value.items()}
    return value.copy() if isinstance(value, list | set) else value
