"""The spans of writes of outcomes: when an end became durable, in the trace of its attempt.

    attempt ended ──► outbox, or broker and recorder ──► write ──► record (a part of the attempt)

Attempts that are recorded have one, others have none; without a tracer nothing is made. A write that failed is
repeated, and has none: the span is of the write that the store took.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tickwise.domain.trace_context import TraceContext, TracesByRun
from tickwise.observability.tracing import Tracer
from tickwise.ports.tracing import SpanGroup, SpanKind, SpanRecord


class RecordShape(NamedTuple):
    """The common part of the spans of writes. Of a group: its own span's id and that of the attempt; the begin and the
    end of the write; the run's id."""

    outcomes: int
    """All that were written."""
    tracestate: str

    def spans(self, group: SpanGroup) -> list[SpanRecord]:
        """See `SpanShape`."""
        own, attempt = group.span_ids
        began, ended = group.instants
        facts: dict[str, str | int | float | bool] = {
            "tickwise.run.id": str(group.ids[0]),
            "tickwise.outcomes": self.outcomes,
        }
        context = TraceContext(group.trace_id, own, True, self.tracestate)
        return [SpanRecord("record", SpanKind.INTERNAL, context, attempt, began, ended, facts)]


@contextmanager
def recording(tracer: Tracer, traces: TracesByRun, outcomes: int) -> Iterator[None]:
    """Record a span for each of these attempts, from the beginning to the end of the block, which writes `outcomes`: of
    them and of others."""
    began = tracer.now()
    yield
    instants = began, max(began, tracer.now())
    for run_id, (trace_id, attempt, _, state) in traces.items():
        shape = RecordShape(outcomes, state)
        tracer.add_group(SpanGroup(shape, 1, trace_id, (tracer.span_id(), attempt), instants, (run_id,)))
