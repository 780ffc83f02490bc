"""Decides which requests and runs are recorded as traces, and makes their spans.

    traceparent of the caller? ── sampled: recorded · not sampled: handed on as it came
                               └─ none: a share of requests and runs, `ratio`, begins a trace of its own

    request ──► submit ──► (stored with the run) ──► wait · attempt ──► task
                  └──► store calls

A process without tracing has no `Tracer`: each place looks at one attribute, and does nothing. A request or run that is
not recorded makes no span object and no ids. `CURRENT` holds the span of the work at hand, so that calls of the store
become parts of it.

Invariant: no attribute holds a secret, a payload or a text of a caller's choice, but the name of a namespace and the
id of a request. They are ids, routes, numbers and words of this program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from struct import unpack
from typing import Any, Final, cast
from uuid import UUID

from tickwise.domain.trace_context import TraceContext
from tickwise.ports.clock import Clock
from tickwise.ports.store import Store
from tickwise.ports.store.wrapping import Call, WrappedStore
from tickwise.ports.tracing import SpanGroup, SpanKind, SpanRecord, SpanSink

Attributes = dict[str, str | int | float | bool]

_SAMPLED_OF: Final = 1 << 56
"""The lower bits of a run's id decide whether it is recorded. They are drawn from a hash."""
DECIDING_BITS: Final = _SAMPLED_OF - 1
IDS_DRAWN: Final = 256
"""Ids of spans that are drawn at once: a call of the system for each takes longer than all else about an id."""
PARTS_MAX: Final = 1_000
"""Recorded parts of one span: a stream of live events asks the store for hours."""


class OpenSpan:
    """A span of work that goes on. It is recorded when it ends."""

    __slots__ = ("_sink", "attributes", "context", "error", "kind", "links", "name", "parent_id", "parts", "started")

    def __init__(
        self, sink: SpanSink, name: str, kind: SpanKind, context: TraceContext, parent_id: int | None, started: float
    ) -> None:
        self._sink = sink
        self.name = name
        self.kind = kind
        self.context = context
        self.parent_id = parent_id
        self.started = started
        self.attributes: Attributes = {}
        self.error: str | None = None
        """The reason of its failure, in one word."""
        self.links: Sequence[TraceContext] = ()
        self.parts = 0
        """The number of its parts, also of those that were not recorded."""

    def end(self, at: float, error: str | None = None) -> None:
        """Record it."""
        if self.parts > PARTS_MAX:
            self.attributes["tickwise.parts.left_out"] = self.parts - PARTS_MAX
        self._sink.add(
            SpanRecord(
                self.name,
                self.kind,
                self.context,
                self.parent_id,
                self.started,
                max(self.started, at),
                self.attributes,
                error or self.error,
                self.links,
            )
        )


CURRENT: Final[ContextVar[OpenSpan | None]] = ContextVar("tickwise_span", default=None)
"""The recorded span of the work at hand; None: it is not recorded."""


class Tracer:
    """Makes the spans of one process."""

    def __init__(self, sink: SpanSink, ratio: float, clock: Clock) -> None:
        """`ratio`: the share of requests and runs that begin a trace, from 0 to 1. Those of a caller whose trace is
        recorded are recorded too."""
        self._sink = sink
        self._ratio = ratio
        self.bound = round(ratio * _SAMPLED_OF)
        """A run that belongs to no trace is recorded if the `DECIDING_BITS` of its id are below it. `records` says the
        same; this is for a loop over tens of thousands of runs a second."""
        self._clock = clock
        self._drawn: list[int] = []

    def span_id(self) -> int:
        """A new one. Its two lowest bits are 0, so three further ones follow from it (`| 1`, `| 2`, `| 3`)."""
        if not self._drawn:
            self._drawn[:] = unpack(f">{IDS_DRAWN}Q", self._clock.random_bytes(8 * IDS_DRAWN))
        return self._drawn.pop() & ~0b11 or 0b100

    def request(self, name: str, sent: TraceContext | None) -> OpenSpan | None:
        """The span of a request that came with this trace; None: it is not recorded."""
        if sent is None:
            if self._clock.chance() >= self._ratio:
                return None
            trace_id = int.from_bytes(self._clock.random_bytes(16), "big") or 1
            return self._open(name, SpanKind.SERVER, TraceContext(trace_id, self.span_id(), True), None)
        return self._under(name, SpanKind.SERVER, sent) if sent.sampled else None

    def part(self, name: str, kind: SpanKind = SpanKind.INTERNAL) -> OpenSpan | None:
        """A part of the work at hand; None: that is not recorded, or has too many parts."""
        current = CURRENT.get()
        if current is None:
            return None
        current.parts += 1
        return None if current.parts > PARTS_MAX else self._under(name, kind, current.context)

    def shared(self, name: str, works_for: Sequence[TraceContext]) -> OpenSpan:
        """A span of work for several recorded requests at once: a part of the first, with links to the others."""
        span = self._under(name, SpanKind.INTERNAL, works_for[0])
        span.links = works_for[1:]
        return span

    def records(self, run_id: UUID) -> bool:
        """Check whether a run that belongs to no trace begins one. Each process gives the same answer with the same
        `ratio`."""
        return run_id.int & DECIDING_BITS < self.bound

    def now(self) -> float:
        """Unix seconds."""
        return self._clock.now()

    def add(self, span: SpanRecord) -> None:
        """Record a span that was measured elsewhere."""
        self._sink.add(span)

    def add_group(self, group: SpanGroup) -> None:
        """Record spans that were measured elsewhere, and are made when they are sent."""
        self._sink.add_group(group)

    @contextmanager
    def within(self, span: OpenSpan) -> Iterator[OpenSpan]:
        """Make the work of this block a part of the span, which ends with it."""
        token = CURRENT.set(span)
        error: str | None = None
        try:
            yield span
        except BaseException as failure:
            error = type(failure).__name__
            raise
        finally:
            CURRENT.reset(token)
            span.end(self._clock.now(), error)

    def _under(self, name: str, kind: SpanKind, parent: TraceContext) -> OpenSpan:
        context = TraceContext(parent.trace_id, self.span_id(), True, parent.tracestate)
        return self._open(name, kind, context, parent.span_id)

    def _open(self, name: str, kind: SpanKind, context: TraceContext, parent_id: int | None) -> OpenSpan:
        return OpenSpan(self._sink, name, kind, context, parent_id, self._clock.now())


class _TracedStore(WrappedStore):
    def __init__(self, store: Store, tracer: Tracer, facts: Mapping[str, str]) -> None:
        self._tracer = tracer
        self._facts = facts
        super().__init__(store)

    def around(self, name: str, call: Call) -> Call:
        tracer, facts, current = self._tracer, self._facts, CURRENT.get

        async def traced_call(*arguments: Any, **named: Any) -> Any:
            if current() is None or (span := tracer.part(name, SpanKind.CLIENT)) is None:
                return await call(*arguments, **named)
            span.attributes |= {**facts, "db.operation.name": name}
            error: str | None = None
            try:
                return await call(*arguments, **named)
            except BaseException as failure:
                error = type(failure).__name__
                raise
            finally:
                span.end(tracer.now(), error)

        return traced_call


def traced(store: Store, tracer: Tracer, system: str) -> Store:
    """This store; a call for a recorded request becomes a part of its trace. `system`: the database, by OpenTelemetry's
    name."""
    return cast("Store", _TracedStore(store, tracer, {"db.system.name": system}))
