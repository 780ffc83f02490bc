"""Values of settings: read from the text of a file or of a variable, by the annotation of the setting.

A value that is none raises `ValueError`; who asked says where it stands and what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple


class Kind(NamedTuple):
    """The reader of the values of one annotation, and their name in a message."""

    read: Callable[[Any], Any]
    called: str


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or "\n" in value.strip():
        raise ValueError
    return value.strip()


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError
    number = float(value)
    if number != number:  # not a number: no limit would refuse it
        raise ValueError
    return number


def _path(value: Any) -> Path:
    return Path(_text(str(value) if isinstance(value, Path) else value)).expanduser().absolute()


def _names(value: Any) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else list(value)
    names = tuple(_text(part) for part in parts)
    if any(re.search(r"[\s,]", name) for name in names):
        raise ValueError
    return tuple(dict.fromkeys(names))


KINDS: Final[Mapping[str, Kind]] = {
    "str": Kind(_text, "a text of one line"),
    "int": Kind(_whole, "a whole number"),
    "float": Kind(_number, "a number"),
    "Path": Kind(_path, "a path"),
    "tuple[str, ...]": Kind(_names, "a list of names (in the environment with commas between)"),
}


_UNITS: Final = {
    "_bytes_per_second_least": "bytes per s",
    "_per_second_most": "per s",
    "_per_minute_most": "per min",
    "_per_second": "per s",
    "_seconds": "s",
    "_bytes": "bytes",
    "_days": "days",
}


def unit_of(name: str) -> str:
    """The unit of a setting's number, by the end of its name; empty: it has none."""
    return next((unit for end, unit in _UNITS.items() if name.endswith(end)), "")
