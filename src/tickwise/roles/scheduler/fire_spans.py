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
                for run in each.fire.runs:
                    if self._is_recorded(run.run_id, trace):
                        self._add(run.run_id, trace, timer.namespace, ended, timer.job_id)

    def fired(self, fired: Fired) -> None:
        """One-time jobs became these runs."""
        ended = self._tracer.now()
        for ready in fired.ready:
            trace = _trace_of(fired.definitions.get(ready.run_id, ""))
            if self._is_recorded(ready.run_id, trace):
                self._add(ready.run_id, trace, ready.namespace, ended)

    def _is_recorded(self, run_id: UUID, trace: TraceContext | None) -> bool:
        """Asked of each run. All that is made for a span is made behind it, for nearly every run has none."""
        return self._tracer.records(run_id) if trace is None else trace.sampled

    def _add(
        self, run_id: UUID, trace: TraceContext | None, namespace: str, ended: float, job_id: UUID | None = None
    ) -> None:
        tracer = self._tracer
        if trace is None:
            own, parent = TraceContext(trace_id_of_run(run_id), tracer.span_id(), True), None
        else:
            own, parent = trace._replace(span_id=tracer.span_id()), trace.span_id
        facts: dict[str, str | int | float | bool] = {"tickwise.namespace": namespace, "tickwise.run.id": str(run_id)}
        if job_id is not None:
            facts["tickwise.job.id"] = str(job_id)
        tracer.add(SpanRecord("fire", SpanKind.PRODUCER, own, parent, self._began, max(self._began, ended), facts))


def _trace_of(definition: str) -> TraceContext | None:
    """The trace that a definition names."""
    return decode_work(definition).trace if NAMES_TRACE in definition else None
