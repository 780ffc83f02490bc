"""A checkpoint and an entry in which each table has a row and each field a value, as this release writes them.

    python -m tests.support.kept_images NAME      writes NAME.bin and NAME.json beside the tests that read them

A release keeps what it wrote: run it once before a release, under that release's name, and never again for that name.
The rows are made from the types of the tables alone, so a field that is new is in the next release's files by itself.
"""

from __future__ import annotations

import json
import sys
import types
from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, fields, is_dataclass
from datetime import date
from enum import Enum
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from tickwise.adapters.store.keeper.file_frames import FrameFile, framed
from tickwise.adapters.store.keeper.images import (
    CODECS,
    entry_body,
    head_part,
    last_part,
    table_part,
)
from tickwise.adapters.store.keeper.rebuild import Contents
from tickwise.adapters.store.keeper.tables import LENT, TABLES, VALUES, TableKind
from tickwise.adapters.store.keeper.tracking import FRESH, Change
from tickwise.adapters.store.memory.records import RunRecord

FOLDER: Final = Path(__file__).parents[1] / "unit" / "adapters" / "keeper" / "releases"
UNTIL: Final = 1
_PLAIN: Final[Mapping[Any, Any]] = {str: "a text", float: 1.5, bool: True, bytes: b"\x01\x02", date: date(2027, 1, 15)}


class Samples:
    """A value of each type; the same ones each time."""

    def __init__(self) -> None:
        self._numbers = count(1_000)

    def of(self, kind: Any) -> Any:
        """One with a value in each field."""
        if kind in _PLAIN:
            return _PLAIN[kind]
        if kind is int:
            return next(self._numbers)
        if kind is UUID:
            return UUID(int=next(self._numbers))
        if kind in (Any, object):
            return "anything"
        if isinstance(kind, type) and issubclass(kind, Enum):
            return [*kind][-1]
        if isinstance(kind, type) and (hasattr(kind, "_fields") or is_dataclass(kind)):
            return kind(**self._fields(kind))
        return self._composed(get_origin(kind), get_args(kind), kind)

    def _composed(self, origin: Any, given: tuple[Any, ...], kind: Any) -> Any:
        if origin is Literal:
            return given[-1]
        if origin in (Union, types.UnionType):
            return self.of(next(each for each in given if each is not type(None)))
        if origin is tuple:
            return tuple(self.of(each) for each in given if each is not ...)
        if origin is Counter:
            return Counter({self.of(given[0]): 2})
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {self.of(given[0]): self.of(given[1])}
        if isinstance(origin, type) and issubclass(origin, AbstractSet):
            return frozenset({self.of(given[0])})
        if isinstance(origin, type):
            return [self.of(given[0])]
        raise AssertionError(f"no sample of {kind}")

    def _fields(self, kind: Any) -> dict[str, Any]:
        hints = get_type_hints(kind)
        names = kind._fields if hasattr(kind, "_fields") else [each.name for each in fields(kind) if each.init]
        return {name: self.of(hints[name]) for name in names}

    def record(self, kind: type) -> Any:
        """A record as the log keeps it: all that is no index."""
        codec = CODECS[kind]
        values = {name: self.of(hint) for name, hint in codec.kinds.items()}
        if kind is RunRecord:
            values["job"] = SimpleNamespace(job_id=values["job"])
        for field in fields(kind):  # the others keep what is left out, too
            if field.name not in values and field.default is MISSING and field.default_factory is MISSING:
                values[field.name] = None
        return SimpleNamespace(**values)


def rows() -> Iterator[tuple[TableKind, Any, Any]]:
    """A row of each table."""
    samples = Samples()
    for table in TABLES:
        key = samples.of(table.key)
        value = samples.record(table.value) if table.value in CODECS else samples.of(table.value)
        yield table, key, value


def written() -> list[bytes]:
    """The parts of a checkpoint with all rows, then an entry with the same ones."""
    samples = Samples()
    values = {each.name: samples.of(each.kind) for each in VALUES if each.name != LENT}
    parts = [head_part(values), *(table_part(table, [(key, value)]) for table, key, value in rows()), last_part(UNTIL)]
    changes = [Change(table, FRESH, key, value) for table, key, value in rows()]
    return [*parts, entry_body(changes, values, with_schema=True)]


def read(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The facts that this release reads in a file: the checkpoint's tables, and those of the entry."""
    *parts, entry = [frame.body for frame in FrameFile(file, 0).frames(1)]
    checkpoint, log = Contents(), Contents()
    for place, part in enumerate(parts):
        checkpoint.read_part(part, is_first=place == 0)
    log.read_entry(UNTIL, entry)
    return facts(checkpoint), facts(log)


def facts(contents: Contents) -> dict[str, Any]:
    """All rows and values by their names, in the words of JSON."""
    tables = {path: plain(table) for path, table in contents.tables.items() if table}
    return {"tables": tables, "values": plain(contents.values)}


def plain(value: Any) -> Any:
    """A value as JSON has it; fields by their names."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: plain(getattr(value, name)) for name in value._fields}
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {json.dumps(plain(key)): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | AbstractSet):
        return [plain(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def lacks(expected: Any, found: Any, place: str = "") -> list[str]:
    """The places where a release's facts are not found; what is new since is no matter."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return [
            each
            for name, value in expected.items()
            for each in (lacks(value, found[name], f"{place}/{name}") if name in found else [f"{place}/{name} is gone"])
        ]
    return [] if expected == found else [f"{place} was {expected!r} and is read as {found!r}"]


def main() -> None:
    """The command."""
    (name,) = sys.argv[1:]
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / f"{name}.bin"
    file.write_bytes(b"".join(framed(number, body) for number, body in enumerate(written(), 1)))
    checkpoint, entry = read(file)
    assert checkpoint == entry
    (FOLDER / f"{name}.json").write_text(json.dumps(checkpoint, indent=1) + "\n")


if __name__ == "__main__":
    main()
