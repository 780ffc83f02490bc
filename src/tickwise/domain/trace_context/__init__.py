"""The trace that a request or a run belongs to, as W3C Trace Context writes it (`traceparent`, `tracestate`).

    00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
    version · trace · span of the caller · flags (01: the caller records it)

Text from outside is read by these functions alone. Text that is not valid is no trace, and never an error: the
specification says to go on as if it had not been sent.

Invariant: the texts of a `TraceContext` hold lower-case hex digits, and printable ASCII without line breaks, so they
may stand in a header or a variable of the environment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID

TRACESTATE_CHARACTERS_MAX: Final = 512
"""A longer one is left out. The specification asks for at least so many."""
MEMBERS_MAX: Final = 32
_SAMPLED: Final = 1

_PARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[\x20-\x7e]*)?")
_PARENT_LENGTH: Final = 55
_PARENT_LENGTH_MAX: Final = 256
"""A later version may be longer than version 00."""
_KEY: Final = r"(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})"
_VALUE: Final = r"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
_MEMBER: Final = re.compile(f"({_KEY})={_VALUE}")

_VARIANT_BITS: Final = 0b11 << 62
"""The bits of a run's id that are the same in each id."""


class TraceContext(NamedTuple):
    """A place in a trace: what comes of it has `span_id` as its parent."""

    trace_id: int
    """128 bits, not 0."""
    span_id: int
    """64 bits, not 0."""
    sampled: bool
    tracestate: str = ""
    """The notes of systems on the way; empty: none."""

    @property
    def traceparent(self) -> str:
        """In version 00."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{'01' if self.sampled else '00'}"

    @property
    def trace_text(self) -> str:
        """The trace's id as logs and collectors show it: 32 hex digits."""
        return f"{self.trace_id:032x}"

    @property
    def span_text(self) -> str:
        """The span's id: 16 hex digits."""
        return f"{self.span_id:016x}"


TracesByRun = Mapping[UUID, TraceContext]
"""The spans of attempts that are recorded, by their runs."""
NO_TRACES: Final[TracesByRun] = {}


def read_trace(traceparent: str | bytes | None, tracestate: str | bytes | None = None) -> TraceContext | None:
    """The trace that these headers name; None: they name none. A `tracestate` that is too long or not valid is left
    out, and the trace is kept."""
    text = _text(traceparent)
    if text is None or not _PARENT_LENGTH <= len(text) <= _PARENT_LENGTH_MAX:
        return None
    found = _PARENT.fullmatch(text)
    if found is None:
        return None
    version, trace, span, flags, rest = found.groups()
    if version == "ff" or (version == "00" and rest is not None):
        return None
    trace_id, span_id = int(trace, 16), int(span, 16)
    if not trace_id or not span_id:
        return None
    return TraceContext(trace_id, span_id, bool(int(flags, 16) & _SAMPLED), _read_state(_text(tracestate)))


def _text(header: str | bytes | None) -> str | None:
    """The value of a header, without the blanks around it."""
    if header is None:
        return None
    text = header.decode("latin-1") if isinstance(header, bytes) else header
    return text.strip(" \t")


def _read_state(text: str | None) -> str:
    if not text or len(text) > TRACESTATE_CHARACTERS_MAX:
        return ""
    members = [member for each in text.split(",") if (member := each.strip(" \t"))]
    if len(members) > MEMBERS_MAX:
        return ""
    keys = set()
    for member in members:
        found = _MEMBER.fullmatch(member)
        if found is None or found[1] in keys:
            return ""
        keys.add(found[1])
    return ",".join(members)


def trace_id_of_run(run_id: UUID) -> int:
    """The trace of a run that belongs to no other: the run's id, but for two bits.

    Each process knows it without a look-up, and all attempts of the run share it. Its lower 64 bits are drawn from the
    hash inside the id, so samplers that go by a trace's id take a fair share.
    """
    value = run_id.int
    drawn = (value >> 64) & 0b11
    return value & ~_VARIANT_BITS | drawn << 62
