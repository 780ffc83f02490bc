"""The span of a fire: in the trace of the run that a scheduler made, if that is recorded."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from tests.support.spans import KeptSpans
from tests.unit.roles.rig import drive
from tests.unit.roles.scheduler_rig import Rig
from tests.unit.roles.test_run_traces import PARENT, SENT, TRACE, UNRECORDED
from tickwise.adapters.clock import VirtualClock
from tickwise.domain.trace_context import trace_id_of_run
from tickwise.observability.tracing import Tracer
from tickwise.ports.store import NewJob
from tickwise.ports.tracing import SpanKind
from tickwise.roles.scheduler.fire_spans import FireSpans


async def once(rig: Rig, **said: Any) -> NewJob:
    """A one-time job, due in ten seconds."""
    due = rig.clock.now() + 10.0
    definition = {"schedule_type": "FUTURE", "schedule_time": due, "task": {"kind": "scripted"}, **said}
    job = rig.make.job(due, definition=json.dumps(definition, separators=(",", ":")))
    await rig.store.jobs.add([job])
    await rig.clock.advance(9.0)
    return job


def traced(rig: Rig, ratio: float) -> tuple[Any, KeptSpans]:
    """A scheduler that records."""
    spans = KeptSpans()
    return rig.scheduler(tracer=Tracer(spans, ratio, rig.clock)), spans


async def test_a_run_of_a_schedule_begins_its_trace_with_its_fire() -> None:
    """Each run, under the id that follows from its own."""
    rig = Rig()
    scheduler, spans = traced(rig, 1.0)
    job = await rig.cron("* * * * * *", rig.clock.now() + 1.0)
    await drive(rig.clock, scheduler.fire_due())
    runs = {UUID(str(span.attributes["tickwise.run.id"])): span for span in spans.named("fire")}
    assert {row.run_id for row in await rig.rows()} == runs.keys() != set()
    for run_id, span in runs.items():
        assert (trace_id_of_run(run_id), None) == (span.context.trace_id, span.parent_id)
        assert {"tickwise.namespace": "default", "tickwise.job.id": str(job.job_id)}.items() <= span.attributes.items()
        assert SpanKind.PRODUCER is span.kind
        assert span.started <= span.ended


@pytest.mark.parametrize("window", [False, True])
async def test_the_fire_of_a_run_that_was_asked_for_is_a_part_of_the_request(window: bool) -> None:
    """Where it needs a decision, too, because a maintenance window may concern it."""
    rig = Rig()
    scheduler, spans = traced(rig, 0.0)
    if window:
        scheduler._fire_loop._rulebook.near = lambda _begin, _seconds: True
        scheduler._fire_loop._rulebook.has_windows = lambda: True
    job = await once(rig, traceparent=SENT, tracestate="a=b")
    await drive(rig.clock, scheduler.fire_due())
    (span,) = spans.all
    assert (TRACE, "a=b", int(PARENT, 16)) == (span.context.trace_text, span.context.tracestate, span.parent_id)
    assert str(job.run_id) == span.attributes["tickwise.run.id"]


@pytest.mark.parametrize("said", [{"traceparent": UNRECORDED}, {}, {"payload": {"traceparent": SENT}}])
async def test_a_run_that_is_not_recorded_has_none(said: dict[str, Any]) -> None:
    """The decision of the caller counts, and a payload says nothing."""
    rig = Rig()
    scheduler, spans = traced(rig, 0.0)
    await once(rig, **said)
    await drive(rig.clock, scheduler.fire_due())
    assert 1 == len(await rig.rows())
    assert [] == spans.all


async def test_without_tracing_a_fire_asks_for_no_name_and_no_definition() -> None:
    """And makes no object for spans."""
    rig = Rig()
    scheduler, asked, real = rig.scheduler(), [], rig.store.timers.fire
    assert scheduler._fire_loop._spans is None

    async def fire(*given: Any, **named: Any) -> Any:
        asked.append(named)
        return await real(*given, **named)

    rig.store.timers.fire = fire  # type: ignore[method-assign]  # to listen
    await once(rig, traceparent=SENT)
    await drive(rig.clock, scheduler.fire_due())
    assert [{"named": False, "traced": False}] == asked


@pytest.mark.parametrize(
    ("ratio", "definition"),
    [(0.0, "{}"), (1.0, f'{{"kind":"function","task":{{}},"traceparent":"{UNRECORDED}"}}')],
    ids=["by its id", "by its caller"],
)
def test_for_a_fire_that_is_not_recorded_no_attribute_is_made(ratio: float, definition: str) -> None:
    """Nothing but the definition is asked of its timer: this one has nothing else."""
    spans = KeptSpans()
    fires = FireSpans(Tracer(spans, ratio, VirtualClock()))
    fires.begin()
    fire = SimpleNamespace(runs=[SimpleNamespace(run_id=UUID(int=1))])
    fires.decided([cast(Any, SimpleNamespace(timer=SimpleNamespace(definition=definition), fire=fire))])
    assert [] == spans.all
