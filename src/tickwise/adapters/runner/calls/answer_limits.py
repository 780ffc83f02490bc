"""The time that an http task waits for an answer, and the bytes that it takes of one. The whole is bounded by the job's
`timeout_seconds`, what is kept of it by its `limits.output_bytes`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from tickwise.adapters.runner.checks import json_type
from tickwise.domain.errors import Invalid

CONNECT_SECONDS: Final = 30.0
SECONDS_MAX: Final = 86_400.0
READ_BYTES_MAX: Final = 1 << 30
"""Of an answer of which only the beginning is kept, unless the task says less."""

ANSWER_FIELDS: Final = ("connect_seconds", "first_byte_seconds", "answer_bytes", "kept_bytes")
_SECONDS: Final = {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": SECONDS_MAX}
_BYTES: Final = {"type": ["integer", "null"], "minimum": 1, "maximum": READ_BYTES_MAX}

SCHEMAS: Final[Mapping[str, Any]] = MappingProxyType({
    "connect_seconds": {
        **_SECONDS,
        "description": f"From the look-up of the name to a connection that is ready. Default: {CONNECT_SECONDS:g}.",
    },
    "first_byte_seconds": {
        **_SECONDS,
        "description": "From the beginning of a request to the status and headers of its answer. Default: no limit but "
        "the job's `timeout_seconds`.",
    },
    "answer_bytes": {
        **_BYTES,
        "description": "Of the body of an answer, unpacked. A larger one ends the attempt (`answer_limit`).",
    },
    "kept_bytes": {
        **_BYTES,
        "description": "The beginning of the answer that is kept as output; the rest is read and dropped. Default: all "
        "of it.",
    },
})  # fmt: skip


class AnswerLimits(NamedTuple):
    """The limits of one request. None: there is none."""

    connect_seconds: float = CONNECT_SECONDS
    first_byte_seconds: float | None = None
    answer_bytes: int | None = None
    kept_bytes: int | None = None


def checked_limits(task: Mapping[str, Any]) -> Mapping[str, int | float]:
    """These fields of a task, without those that say nothing. Raises `Invalid`."""
    checked: dict[str, int | float] = {}
    for name in ANSWER_FIELDS:
        value = task.get(name)
        if value is None:
            continue
        kind = int | float if name.endswith("_seconds") else int
        if isinstance(value, bool) or not isinstance(value, kind):
            what = "a number of seconds" if name.endswith("_seconds") else "a whole number of bytes"
            raise Invalid(f"`{name}` is {what}, not {json_type(value)}", pointer=f"/{name}")
        most = SECONDS_MAX if name.endswith("_seconds") else READ_BYTES_MAX
        if not (math.isfinite(value) and 0 < value <= most):
            raise Invalid(f"`{name}` is more than 0 and at most {most:g}", pointer=f"/{name}")
        checked[name] = value
    if "kept_bytes" in checked and checked["kept_bytes"] > checked.get("answer_bytes", READ_BYTES_MAX):
        raise Invalid("`kept_bytes` is at most `answer_bytes`", pointer="/kept_bytes")
    return checked


def limits_of(task: Mapping[str, Any]) -> AnswerLimits:
    """The limits of a checked task."""
    said = {name: task[name] for name in ANSWER_FIELDS if name in task}
    if "kept_bytes" in said:
        said.setdefault("answer_bytes", READ_BYTES_MAX)
    return AnswerLimits(**said)
