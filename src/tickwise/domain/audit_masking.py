"""The fields of a thing as the audit log shows them: secrets masked, commands as digests, the whole bounded.

Values under names that hold secrets (`env`, `headers`, `payload`, …) are `***`, whole. A script, a command or a
file is its SHA-256, because no pattern finds each secret in a command line. Addresses are masked as the API masks them.
A value that is masked on both sides still shows that it was changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from tickwise.domain.audit import differences, document
from tickwise.domain.masking import HTTP, MASK, is_secret_name, masked
from tickwise.domain.secrets.places import is_shown

VALUE_CHARACTERS_MAX: Final = 2_048
"""A longer value of a field is shown by its digest."""
HIDDEN: Final = frozenset({"env", "headers", "payload", "params", "body", "args", "kwargs", "password", "secret"})
"""Fields whose values are masked, each by itself: people put secrets into them."""
FILES: Final = "files"
"""The files that travel with a task, by name: their contents are shown by their digests, as scripts are."""
SCRIPTS: Final = frozenset({"source", "script", "command", "argv"})
"""Fields that are shown by their digest. A reader of the log needs no permission to read jobs, and a log is kept for
longer than a job: the secrets of a command line must not be in it."""


class Changed(tuple[str | None, str | None]):
    """The texts `before` and `after` of an entry."""

    __slots__ = ()

    @property
    def before(self) -> str | None:
        """The changed fields as they were; None: there were none."""
        return self[0]

    @property
    def after(self) -> str | None:
        """The changed fields as they are; None: there are none."""
        return self[1]


def changed(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> Changed:
    """The fields of a thing that differ. None: it was not there before, or is not there after."""
    if before is None or after is None:
        return Changed((shown(before), shown(after)))
    was, now = differences(before, after)
    return Changed((shown(was), shown(now)))


def shown(fields: Mapping[str, Any] | None) -> str | None:
    """Fields as JSON text, masked and bounded."""
    return None if fields is None else document({name: _bounded(_shown(name, value)) for name, value in fields.items()})


def _shown(name: str, value: Any) -> Any:
    if value is None or (isinstance(value, bool | int | float) and name not in HIDDEN and not is_secret_name(name)):
        return value
    if name == FILES and isinstance(value, Mapping):
        return {file: _digest(text if isinstance(text, str) else document({"": text})) for file, text in value.items()}
    if name in SCRIPTS:
        return _digest(value if isinstance(value, str) else document({"": value}))
    if name in HIDDEN or is_secret_name(name):
        if isinstance(value, Mapping) and name in ("env", "headers"):
            return {key: inner if is_shown(inner) else MASK for key, inner in value.items()}
        return value if is_shown(value) else MASK
    if isinstance(value, Mapping):
        task = masked(value) if value.get("kind") == HTTP and isinstance(value.get("url"), str) else value
        return {key: _shown(key, inner) for key, inner in task.items()}
    if isinstance(value, list | tuple):
        return [_shown("", inner) for inner in value]
    return value


def _bounded(value: Any) -> Any:
    """The value, or its digest if it is long."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else document({"": value})
    return value if len(text) <= VALUE_CHARACTERS_MAX else _digest(text)


def _digest(text: str) -> Mapping[str, Any]:
    content = text.encode("utf-8", "surrogatepass")
    return {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
