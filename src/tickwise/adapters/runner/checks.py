"""Small checks of tasks, of their fields and of their ends, with one form for refusals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from tickwise.domain.errors import Invalid

MAX_PAUSE_SECONDS = 86_400.0
"""The longest pause before the next attempt that a task may ask for: a day. A later time is a job's own schedule."""


def asked_pause_seconds(asked: object) -> float | None:
    """The pause that a task asked for, at most a day; None if it is no number of seconds."""
    if isinstance(asked, bool) or not isinstance(asked, int | float):
        return None
    try:
        seconds = float(asked)
    except OverflowError:
        return None
    return min(seconds, MAX_PAUSE_SECONDS) if math.isfinite(seconds) and seconds >= 0.0 else None


def refuse_unknown(task: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raises `Invalid` for the first field that this kind does not have."""
    names = set(known) | {"kind"}
    for name in task:
        if name not in names:
            pointer = "/" + str(name).replace("~", "~0").replace("/", "~1")
            has = ", ".join(f"`{known_name}`" for known_name in sorted(names))
            raise Invalid(f"a task of kind `{task.get('kind')}` has no field `{name}`; it has {has}", pointer=pointer)


def text(task: Mapping[str, Any], name: str, *, characters_most: int) -> str:
    """The field as a text that is not empty. Raises `Invalid`."""
    value = task.get(name)
    if value is None:
        raise Invalid(f"`{name}` is missing", pointer=f"/{name}")
    if not isinstance(value, str):
        raise Invalid(f"`{name}` must be a text, not {json_type(value)}", pointer=f"/{name}")
    if not value.strip():
        raise Invalid(f"`{name}` is empty", pointer=f"/{name}")
    if len(value) > characters_most:
        raise Invalid(f"`{name}` has {len(value)} characters, {characters_most} are the most", pointer=f"/{name}")
    if "\0" in value:
        raise Invalid(f"`{name}` contains a NUL character", pointer=f"/{name}")
    return value


def exactly_one(task: Mapping[str, Any], first: str, second: str) -> str:
    """The name of the one field of two that is given. Raises `Invalid`."""
    given = [name for name in (first, second) if task.get(name) is not None]
    if len(given) == 1:
        return given[0]
    if given:
        raise Invalid(f"give either `{first}` or `{second}`, not both", pointer=f"/{second}")
    raise Invalid(f"`{first}` or `{second}` is missing", pointer=f"/{first}")


def json_type(value: Any) -> str:
    """Its name in JSON."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a text"
    return "an array" if isinstance(value, list | tuple) else "an object"
