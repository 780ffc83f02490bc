"""The spans of the attempts of one executor, for runs that are recorded as traces.

    launched ──► recorded? ── no ──► the task gets the trace that its run was made in, or none
                     └─ yes ──► ids for attempt and task; the task gets its own span as `traceparent`
    ended ──► wait (due → begun) · attempt (claimed → ended) ──► task (begun → ended)

A run without a trace of its own may begin one, under an id that follows from the run's id, so that all of its attempts
are in it. Nothing is kept of an attempt but a few numbers, until it ends: a lost executor loses its spans, and no more.
"""

from __future__ import annotations

from typing import Final

from tickwise.domain.lifecycle import STATES, RunState
from tickwise.domain.model import Outcome
from tickwise.domain.trace_context import TraceContext, trace_id_of_run
from tickwise.observability.tracing import Tracer
from tickwise.ports.runner import Assignment
from tickwise.ports.tracing import SpanKind, SpanRecord
from tickwise.roles.executor.held_runs import AttemptTrace, HeldRun
from tickwise.roles.executor.lease import Lease

FAULTS: Final = frozenset({RunState.FAILED, RunState.RETRYING})


class RunTraces:
    """Of one executor."""

    def __init__(self, tracer: Tracer, lease: Lease) -> None:
        self._tracer = tracer
        self._lease = lease
        self.bound = tracer.bound
        """Of a run without a trace of its own: see `Tracer.bound`."""

    def launched(self, held: HeldRun, assignment: Assignment) -> Assignment:
        """The assignment of a run that is about to begin, in its own place of the trace, if the run is recorded.

        A caller need not ask for a run without a trace whose id is not below `bound`."""
        run_id = held.claimed.run_id
        if assignment.traceparent is None:
            if not self._tracer.records(run_id):
                return assignment
            trace_id, parent, state = trace_id_of_run(run_id), None, ""
        else:
            found = held.work.trace
            if found is None or not found.sampled:
                return assignment
            trace_id, parent, state = found.trace_id, found.span_id, found.tracestate
        # At one run of a hundred all runs pay for this: one draw, and tuples that are made, not replaced.
        attempt, task, wait = (TraceContext(trace_id, own, True, state) for own in self._tracer.span_ids(3))
        held.trace = AttemptTrace(attempt, parent, task, wait)
        return assignment._replace(traceparent=task.traceparent, tracestate=task.tracestate or None)

    def ended(self, held: HeldRun, outcome: Outcome) -> TraceContext | None:
        """Record the spans of an attempt that ended; its own, of which the write of its outcome is a part. None: it is
        not recorded."""
        trace, claimed = held.trace, held.claimed
        if trace is None:
            return None
        held.trace = None
        state = STATES[outcome.state]
        error = (outcome.reason or "error") if state in FAULTS else None
        kind = held.body.kind
        facts: dict[str, str | int | float | bool] = {
            "tickwise.namespace": claimed.namespace,
            "tickwise.job.id": str(claimed.job_id),
            "tickwise.run.id": str(claimed.run_id),
            "tickwise.attempt": claimed.attempt,
        }
        task = {**facts, "tickwise.task.kind": kind}
        attempt = {**task, "tickwise.executor": self._lease.number, "tickwise.outcome": state.value}
        if error is not None:
            attempt["error.type"] = error
        began = outcome.started or outcome.ended
        due = max(claimed.due, claimed.ready)
        above = trace.attempt.span_id if trace.parent_id is None else trace.parent_id
        add = self._tracer.add
        add(SpanRecord("wait", SpanKind.INTERNAL, trace.wait, above, min(due, began), began, facts))
        start = min(claimed.now, began)
        add(
            SpanRecord(
                "attempt", SpanKind.CONSUMER, trace.attempt, trace.parent_id, start, outcome.ended, attempt, error
            )
        )
        if outcome.started:
            add(
                SpanRecord(
                    f"task {kind}",
                    SpanKind.CLIENT if kind == "http" else SpanKind.INTERNAL,
                    trace.task,
                    trace.attempt.span_id,
                    began,
                    outcome.ended,
                    task,
                    error,
                )
            )
        return trace.attempt
