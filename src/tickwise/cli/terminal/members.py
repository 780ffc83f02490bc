"""Some members of JSON objects: `--json name,task.kind`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

_MISSING: Final = object()


def with_members(value: Any, names: Sequence[str]) -> Any:
    """The value with these members of its objects alone: of itself, or of each item if it is a list. A member of an
    inner object is named by its path. Raises `click.UsageError` for a name that none of them has."""
    objects = value if isinstance(value, list) else [value]
    plain = [each for each in objects if isinstance(each, dict)]
    for name in names:
        if plain and all(_member(each, name) is _MISSING for each in plain):
            known = ", ".join(dict.fromkeys(field for each in plain for field in each))
            raise click.UsageError(f"--json: there is no field {name!r}; there are {known}.")
    shown = [_chosen(each, names) for each in objects]
    return shown if isinstance(value, list) else shown[0]


def _chosen(each: Any, names: Sequence[str]) -> Any:
    if not isinstance(each, dict):
        return each
    found = {name: _member(each, name) for name in names}
    return {name: None if value is _MISSING else value for name, value in found.items()}


def _member(each: Any, path: str) -> Any:
    """The member at the path; one whose name has dots itself comes first."""
    if isinstance(each, dict) and path in each:
        return each[path]
    first, dot, rest = path.partition(".")
    if not dot or not isinstance(each, dict) or first not in each:
        return _MISSING
    inner = each[first]
    return None if inner is None else _member(inner, rest)
