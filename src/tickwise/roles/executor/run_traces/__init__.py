"""The spans of the attempts of one executor, for runs that are recorded as traces.

    launch ──► recorded? ── no ──► the task gets the trace that its run was made in, or none
                  └─ yes ──► an id for the attempt; the task gets its own span as `traceparent`
    ended ──► one group: wait (due → begun) · attempt (claimed → ended) ──► task (begun → ended)

A run without a trace of its own may begin one, under an id that follows from the run's id, so that all of its attempts
are in it. Nothing is kept of an attempt but a few numbers, until it ends: a lost executor loses its spans, and no more.
The spans are made when they are sent, in another thread (`AttemptShape`): at one run of a hundred all runs pay for what
is done here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tickwise.domain.lifecycle import STATES, RunState
from tickwise.domain.model import Outcome
from tickwise.domain.trace_context import TraceContext, trace_id_of_run
from tickwise.observability.tracing import Tracer
from tickwise.ports.tracing import SpanGroup, SpanKind, SpanRecord
from tickwise.roles.executor.held_runs import AttemptTrace, HeldRun
from tickwise.roles.executor.lease import Lease

FAULTS: Final = frozenset({RunState.FAILED, RunState.RETRYING})
_new = tuple.__new__


class AttemptShape(NamedTuple):
    """The common part of the spans of many attempts.

    Of a group: the span ids of attempt, task, wait and their parent; the instants at which the attempt was claimed, was
    due, had begun and had ended; the ids of run and job. Without a parent the wait is a part of the attempt.
    """

    namespace: str
    kind: str
    attempt: int
    executor: int
    state: str
    error: str | None
    tracestate: str
    has_begun: bool
    """Its task had begun."""
    has_parent: bool

    def spans(self, group: SpanGroup) -> list[SpanRecord]:
        """See `SpanShape`."""
        own, task, wait = (TraceContext(group.trace_id, each, True, self.tracestate) for each in group.span_ids[:3])
        claimed, due, began, ended = group.instants
        parent = group.span_ids[3] if self.has_parent else None
        facts: dict[str, str | int | float | bool] = {
            "tickwise.namespace": self.namespace,
            "tickwise.job.id": str(group.ids[1]),
            "tickwise.run.id": str(group.ids[0]),
            "tickwise.attempt": self.attempt,
        }
        of_task = {**facts, "tickwise.task.kind": self.kind}
        of_attempt = {**of_task, "tickwise.executor": self.executor, "tickwise.outcome": self.state}
        if self.error is not None:
            of_attempt["error.type"] = self.error
        above = own.span_id if parent is None else parent
        made = [
            SpanRecord("wait", SpanKind.INTERNAL, wait, above, due, began, facts),
            SpanRecord("attempt", SpanKind.CONSUMER, own, parent, claimed, ended, of_attempt, self.error),
        ]
        if self.has_begun:
            kind = SpanKind.CLIENT if self.kind == "http" else SpanKind.INTERNAL
            made.append(
                SpanRecord(f"task {self.kind}", kind, task, own.span_id, began, ended, of_task, self.error)
            )  # fmt: skip
        return made


class RunTraces:
    """Of one executor."""

    def __init__(self, tracer: Tracer, lease: Lease) -> None:
        self._tracer = tracer
        self._lease = lease
        self.bound = tracer.bound
        """Of a run without a trace of its own: see `Tracer.bound`."""

    def launch(self, held: HeldRun) -> None:
        """Give a run that is about to begin its own place in the trace, if the run is recorded.

        A caller need not ask for a run without a trace whose id is not below `bound`."""
        work = held.body.work
        if work.traceparent is None:
            run_id = held.claimed.run_id
            if self._tracer.records(run_id):
                held.trace = _new(AttemptTrace, (trace_id_of_run(run_id), self._tracer.span_id(), None, ""))
            return
        found = work.trace
        if found is not None and found.sampled:
            held.trace = AttemptTrace(found.trace_id, self._tracer.span_id(), found.span_id, found.tracestate)

    def ended(self, held: HeldRun, outcome: Outcome) -> TraceContext | None:
        """Record the spans of an attempt that ended; its own, of which the write of its outcome is a part. None: it is
        not recorded."""
        trace, claimed = held.trace, held.claimed
        if trace is None:
            return None
        held.trace = None
        state, started, ended = STATES[outcome.state], outcome.started, outcome.ended
        began = started or ended
        due = max(claimed.due, claimed.ready)
        parent = trace.parent_id
        ids = trace.span_id, trace.task_id, trace.wait_id
        shape = _new(
            AttemptShape,
            (
                claimed.namespace,
                held.body.kind,
                claimed.attempt,
                self._lease.number,
                state.value,
                (outcome.reason or "error") if state in FAULTS else None,
                trace.tracestate,
                bool(started),
                parent is not None,
            ),
        )
        self._tracer.add_group(
            _new(
                SpanGroup,
                (
                    shape,
                    3 if started else 2,
                    trace.trace_id,
                    ids if parent is None else (*ids, parent),
                    (min(claimed.now, began), min(due, began), began, max(began, ended)),
                    (claimed.run_id, claimed.job_id),
                ),
            )
        )
        return trace.attempt
