"""The spans of fires: the making of a run by a scheduler, in the trace of that run.

    look ──► timers taken, decided, committed ──► fire (a part of the request that asked for the run; else of no span)

Runs that are recorded have one (`observability.tracing`), others have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from tickwise.documents.definition import decode_work
from tickwise.domain.trace_context import TraceContext, trace_id_of_run
from tickwise.observability.tracing import Tracer
from tickwise.ports.store import Fired
from tickwise.ports.tracing import SpanKind, SpanRecord
from tickwise.roles.scheduler.fires import Decided

NAMES_TRACE: Final = '"traceparent"'
"""In the text of a definition: it may name a trace. A payload may have such a name too."""


class FireSpans:
    """Of one scheduler."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._began = 0.0

    def begin(self) -> None:
        """A look for timers begins."""
        self._began = self._tracer.now()

    def decided(self, fires: Sequence[Decided]) -> None:
        """The runs of these decisions are made."""
        ended = self._tracer.now()
        for each in fires:
            if each.fire.runs:
                timer, trace = each.timer, _trace_of(each.timer.definition)
                facts = {"tickwise.namespace": timer.namespace, "tickwise.job.id": str(timer.job_id)}
                for run in each.fire.runs:
                    self._add(run.run_id, trace, facts, ended)

    def fired(self, fired: Fired) -> None:
        """One-time jobs became these runs."""
        ended = self._tracer.now()
        for ready in fired.ready:
            trace = _trace_of(fired.definitions.get(ready.run_id, ""))
            self._add(ready.run_id, trace, {"tickwise.namespace": ready.namespace}, ended)

    def _add(self, run_id: UUID, trace: TraceContext | None, facts: dict[str, str], ended: float) -> None:
        tracer = self._tracer
        if trace is None:
            if not tracer.records(run_id):
                return
            own, parent = TraceContext(trace_id_of_run(run_id), tracer.span_id(), True), None
        elif trace.sampled:
            own, parent = trace._replace(span_id=tracer.span_id()), trace.span_id
        else:
            return
        attributes: dict[str, str | int | float | bool] = {**facts, "tickwise.run.id": str(run_id)}
        tracer.add(SpanRecord("fire", SpanKind.PRODUCER, own, parent, self._began, max(self._began, ended), attributes))


def _trace_of(definition: str) -> TraceContext | None:
    """The trace that a definition names."""
    return decode_work(definition).trace if NAMES_TRACE in definition else None
