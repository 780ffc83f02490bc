"""The spans of writes of outcomes: when an end became durable, in the trace of its attempt.

    attempt ended ──► outbox, or broker and recorder ──► write ──► record (a part of the attempt)

Attempts that are recorded have one, others have none; without a tracer nothing is made. A write that failed is
repeated, and has none: the span is of the write that the store took.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tickwise.domain.trace_context import TracesByRun
from tickwise.observability.tracing import Tracer
from tickwise.ports.tracing import SpanKind, SpanRecord


@contextmanager
def recording(tracer: Tracer, traces: TracesByRun, outcomes: int) -> Iterator[None]:
    """Record a span for each of these attempts, from the beginning to the end of the block, which writes `outcomes`: of
    them and of others."""
    began = tracer.now()
    yield
    ended = max(began, tracer.now())
    for run_id, attempt in traces.items():
        facts: dict[str, str | int | float | bool] = {"tickwise.run.id": str(run_id), "tickwise.outcomes": outcomes}
        own = attempt._replace(span_id=tracer.span_id())
        tracer.add(SpanRecord("record", SpanKind.INTERNAL, own, attempt.span_id, began, ended, facts))
