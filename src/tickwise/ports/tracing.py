"""Spans of traces, as this program hands them over for export. OpenTelemetry's words: https://opentelemetry.io/docs/specs/otel/.

    Tracer (observability) ──► SpanRecord ──► SpanSink.add ───────┐
    an attempt that ended ───► SpanGroup ───► SpanSink.add_group ─┴─► a collector, some time later

A group names what its spans have in common (`SpanShape`), and the numbers in which they differ. A loop over tens of
thousands of runs a second hands over these, and no span is made there.

Invariant: `add` and `add_group` neither wait nor raise. A collector that is away costs spans, never work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol
from uuid import UUID

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


class SpanShape(Protocol):
    """The common part of the spans of many groups: names, kinds, most attributes, and the place of each value.
    Hashable, and equal to a shape that makes the same spans.

    A value goes into a span as it is, and decides nothing: an exporter learns the places of values from a few groups,
    and makes no span for the others.
    """

    def spans(self, group: SpanGroup) -> Sequence[SpanRecord]:
        """The spans of a group of this shape, `group.size` of them. Texts among the attributes that are values are
        those of `ids`."""
        ...


class SpanGroup(NamedTuple):
    """Spans that ended together, before they are made."""

    shape: SpanShape
    size: int
    """Spans."""
    trace_id: int
    span_ids: tuple[int, ...]
    """Theirs, and those of their parents."""
    instants: tuple[float, ...]
    """Unix seconds."""
    ids: tuple[UUID, ...]
    """Runs and jobs, which stand in attributes as text."""

    def spans(self) -> Sequence[SpanRecord]:
        """Make them."""
        return self.shape.spans(self)


class SpanSink(Protocol):
    """Takes spans for export."""

    def add(self, span: SpanRecord) -> None:
        """Keep it until it is exported, or drop it and count that, if too many wait. Returns at once, never raises. May
        be called from one thread alone."""
        ...

    def add_group(self, group: SpanGroup) -> None:
        """As `add`, of all spans of a group: all are kept, or none."""
        ...
