"""The spans of attempts, and the trace that a task is handed."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
import structlog

from tests.support.spans import KeptSpans
from tests.unit.roles.rig import Rig, drive
from tickwise.adapters.clock import VirtualClock
from tickwise.domain.trace_context import TraceContext, read_trace, trace_id_of_run
from tickwise.observability.tracing import Tracer
from tickwise.ports.runner import Assignment, Verdict
from tickwise.ports.tracing import SpanKind

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SENT = f"00-{TRACE}-{PARENT}-01"
UNRECORDED = f"00-{TRACE}-{PARENT}-00"


def traced(ratio: float = 0.0, **settings: Any) -> tuple[Rig, KeptSpans]:
    """An executor that records."""
    spans = KeptSpans()
    return Rig(tracer=Tracer(spans, ratio, VirtualClock()), **settings), spans


async def launched(rig: Rig, **definition: Any) -> Assignment:
    """The assignment of a run that was just begun."""
    await rig.submit(**definition)
    await rig.tick()
    await rig.clock.settle()
    (found,) = rig.runner.running.values()
    return found


async def test_a_task_is_handed_the_trace_of_its_request_where_nothing_is_recorded() -> None:
    """As it was sent, with the state; a run without a trace gets none."""
    rig = Rig()
    await rig.executor.prepare()
    found = await launched(rig, traceparent=SENT, tracestate="a=b")
    assert (SENT, "a=b") == (found.traceparent, found.tracestate)
    rig.runner.end(found.run_id)
    found = await launched(rig)
    assert (None, None) == (found.traceparent, found.tracestate)


@pytest.mark.parametrize("sent", [UNRECORDED, None])
async def test_what_is_not_recorded_makes_no_span(sent: str | None) -> None:
    """The trace is handed on as it came."""
    rig, spans = traced()
    await rig.executor.prepare()
    found = await launched(rig, **({} if sent is None else {"traceparent": sent}))
    assert sent == found.traceparent
    rig.runner.end(found.run_id)
    await rig.tick()
    assert [] == spans.all


async def test_an_attempt_is_a_part_of_the_request_that_made_it_and_the_task_of_the_attempt() -> None:
    """From the time that it was due: the wait, the attempt, the task. The task is handed its own span."""
    rig, spans = traced()
    await rig.executor.prepare()
    begun = rig.clock.now()
    found = await launched(rig, traceparent=SENT, tracestate="a=b")
    handed = read_trace(found.traceparent, found.tracestate)
    await rig.clock.advance(2.0)
    rig.runner.end(found.run_id)
    await rig.tick()
    (wait,), (attempt,), (task,) = spans.named("wait"), spans.named("attempt"), spans.named("task scripted")
    parent = int(PARENT, 16)
    assert (parent, parent, attempt.context.span_id) == (wait.parent_id, attempt.parent_id, task.parent_id)
    assert handed == task.context
    assert {(TRACE, "a=b", True)} == {
        (span.context.trace_text, span.context.tracestate, span.context.sampled) for span in spans.all
    }
    assert pytest.approx(2.0, abs=0.01) == task.ended - task.started
    assert task.error is None
    assert wait.started <= wait.ended == task.started
    assert attempt.started <= task.started
    assert attempt.started >= begun - 5.0
    assert SpanKind.CONSUMER is attempt.kind
    assert {"tickwise.namespace": "default", "tickwise.attempt": 1, "tickwise.outcome": "SUCCESS"}.items() <= (
        attempt.attributes.items()
    )
    assert str(found.run_id) == attempt.attributes["tickwise.run.id"]


async def test_attempts_of_one_run_are_in_one_trace_and_a_failure_is_an_error() -> None:
    """Also of a run that brought none."""
    rig, spans = traced(1.0)
    await rig.executor.prepare()
    found = await launched(rig, max_retries=1, retry={"base_seconds": 1.0, "jitter": 0.0})
    rig.runner.end(found.run_id, Verdict.FAILED, reason="exit_code", error="a secret text of the task")
    await rig.tick()
    await rig.tick(2.0)
    await rig.clock.settle()
    (again,) = rig.runner.running.values()
    assert 2 == again.attempt
    rig.runner.end(again.run_id)
    await rig.tick()
    first, second = spans.named("attempt")
    trace = trace_id_of_run(found.run_id)
    assert {trace} == {span.context.trace_id for span in spans.all}
    assert (None, None) == (first.parent_id, second.parent_id)
    assert ("exit_code", None) == (first.error, second.error)
    assert ("RETRYING", "exit_code") == (first.attributes["tickwise.outcome"], first.attributes["error.type"])
    assert [1, 2] == [span.attributes["tickwise.attempt"] for span in (first, second)]
    assert "secret" not in str(spans.all)
    ids = [span.context.span_id for span in spans.all]
    assert len(set(ids)) == len(ids)


async def test_many_ends_in_one_report_are_recorded_like_single_ones() -> None:
    """Quick functions end so."""
    rig, spans = traced(1.0)
    await rig.executor.prepare()
    for _ in range(3):
        await rig.submit()
    await rig.tick()
    await rig.clock.settle()
    rig.runner.end_many([*rig.runner.running])
    await rig.tick()
    assert (3, 3) == (len(spans.named("attempt")), len(spans.named("task scripted")))


async def test_a_share_of_runs_is_recorded_and_every_process_agrees_which() -> None:
    """By the id of the run."""
    rig = Rig()
    tracers = [Tracer(KeptSpans(), 0.25, rig.clock) for _ in range(2)]
    runs = [UUID(int=int.from_bytes(rig.clock.random_bytes(16), "big")) for _ in range(4_000)]
    first, second = ([tracer.records(run) for run in runs] for tracer in tracers)
    assert first == second
    assert 850 < sum(first) < 1_150
    assert not any(Tracer(KeptSpans(), 0.0, rig.clock).records(run) for run in runs)
    assert all(Tracer(KeptSpans(), 1.0, rig.clock).records(run) for run in runs)


async def test_lines_of_a_run_name_its_trace() -> None:
    """Of the start and the end; of one that is recorded by itself, too."""
    rig, _ = traced(1.0, log_runs_per_second=10)
    await rig.executor.prepare()
    with structlog.testing.capture_logs() as logs:
        found = await launched(rig, traceparent=UNRECORDED)
        rig.runner.end(found.run_id)
        await rig.tick()
        other = await launched(rig, max_retries=0)
        rig.runner.end(other.run_id, Verdict.FAILED, reason="exit_code")
        await rig.tick()
        await drive(rig.clock, rig.executor.tick())
    lines = [(log["event"], log["trace_id"]) for log in logs if str(log["event"]).startswith("run_")]
    own = TraceContext(trace_id_of_run(other.run_id), 1, True).trace_text
    assert [("run_started", TRACE), ("run_ended", TRACE), ("run_started", own), ("run_failed", own)] == lines
