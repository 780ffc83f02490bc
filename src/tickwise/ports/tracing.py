"""Spans of traces, as this program hands them over for export. OpenTelemetry's words: https://opentelemetry.io/docs/specs/otel/.

    Tracer (observability) ──► SpanRecord ──► SpanSink.add ──► a collector, some time later

Invariant: `add` neither waits nor raises. A collector that is away costs spans, never work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from tickwise.domain.trace_context import TraceContext


class SpanKind(IntEnum):
    """The numbers are those of OTLP."""

    INTERNAL = 1
    SERVER = 2
    CLIENT = 3
    PRODUCER = 4
    CONSUMER = 5


class SpanRecord(NamedTuple):
    """A span that has ended. Its instants are Unix seconds."""

    name: str
    """Of a few: a route, a method, a kind of task; never an id, a name that a caller chose, or a payload."""
    kind: SpanKind
    context: TraceContext
    """Its trace and its own id."""
    parent_id: int | None
    """The span that it is a part of; None: it is the root of its trace."""
    started: float
    ended: float
    attributes: Mapping[str, str | int | float | bool]
    error: str | None = None
    """The reason of its failure, in one word for programs; None: it went well."""
    links: Sequence[TraceContext] = ()
    """Spans of other requests that it also works for."""


class SpanSink(Protocol):
    """Takes spans for export."""

    def add(self, span: SpanRecord) -> None:
        """Keep it until it is exported, or drop it and count that, if too many wait. Returns at once, never raises. May
        be called from one thread alone."""
        ...
