"""The difference that an edit makes to a job, as lines: texts such as a script line by line, other fields as values.

Values of variables, headers and payloads are not shown: a terminal may be recorded, and they may be secrets.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

Json = Mapping[str, Any]

MAX_LINES: Final = 60
"""Of one text."""
CONTEXT: Final = 2
VALUE_CHARACTERS: Final = 60
HIDDEN: Final = frozenset({"payload", "env", "headers", "body", "url"})
"""Fields whose values are not shown."""


class DifferenceLine(NamedTuple):
    """A line: `+` it comes, `-` it goes, a space it stays, empty: it says what the next ones are about."""

    sign: str
    text: str


def changed_fields(before: Json, changes: Json) -> list[str]:
    """The names of the fields that an edit changes, of the task each: `task.source`, `task.files.helper.py`."""
    return [name for name, _, _ in _pairs(before, changes)]


def difference_lines(before: Json, changes: Json) -> Iterator[DifferenceLine]:
    """The difference, field by field."""
    for name, one, other in _pairs(before, changes):
        if name.split(".")[-1] in HIDDEN and not name.startswith("task.files"):
            yield DifferenceLine("", f"{name}: {_names(one, other)}")
        elif isinstance(one, str | None) and isinstance(other, str | None) and "\n" in f"{one or ''}{other or ''}":
            yield DifferenceLine("", name)
            yield from _of_texts(one or "", other or "")
        else:
            yield DifferenceLine("", f"{name}: {_value(one)} → {_value(other)}")


def _pairs(before: Json, changes: Json) -> Iterator[tuple[str, Any, Any]]:
    """Name, value before and value after of each field that differs."""
    for name, other in changes.items():
        one = before.get(name)
        if one == other:
            continue
        if name == "task" and isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from _members("task", one, other)
        else:
            yield name, one, other


def _members(name: str, before: Json, after: Json) -> Iterator[tuple[str, Any, Any]]:
    for each in dict.fromkeys([*before, *after]):
        one, other = before.get(each), after.get(each)
        if one == other:
            continue
        if each == "files":
            yield from _members(f"{name}.files", one or {}, other or {})
        else:
            yield f"{name}.{each}", one, other


def _of_texts(before: str, after: str) -> Iterator[DifferenceLine]:
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=CONTEXT, lineterm=""))[2:]
    for line in lines[:MAX_LINES]:
        yield DifferenceLine("…", "") if line.startswith("@@") else DifferenceLine(line[0], line[1:])
    if len(lines) > MAX_LINES:
        yield DifferenceLine("…", f"{len(lines) - MAX_LINES} lines more")


def _names(before: Any, after: Any) -> str:
    """The names of the members that differ, or that it changes."""
    if not isinstance(before, Mapping | None) or not isinstance(after, Mapping | None):
        return "changed"
    one, other = before or {}, after or {}
    return ", ".join(each for each in dict.fromkeys([*one, *other]) if one.get(each) != other.get(each)) or "changed"


def _value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, Mapping) and value.keys() == {"base64"}:
        return "bytes"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_CHARACTERS else text[: VALUE_CHARACTERS - 1] + "…"
