"""The span of the write of an outcome: a part of the attempt, made by the process that wrote it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.spans import KeptSpans
from tests.unit.roles.rig import Rig, Silent, drive
from tests.unit.roles.test_results import ended, recorder, register
from tests.unit.roles.test_run_traces import SENT, UNRECORDED, launched, traced
from tickwise.adapters.broker.memory import MemoryBroker
from tickwise.adapters.clock import VirtualClock
from tickwise.domain.errors import StoreUnavailable
from tickwise.domain.trace_context import read_trace
from tickwise.observability.tracing import Tracer
from tickwise.ports.broker import RESULTS
from tickwise.roles.recorder.role import ResultsRecorder
from tickwise.roles.shared.messages import OutcomeTrace, Results, decode, encode

OTHER = SENT.replace("0af7651916cd43dd", "1af7651916cd43dd")


def parent_of(rig: Rig, spans: KeptSpans) -> tuple[int | None, int]:
    """The span that `record` is a part of, and that of the attempt."""
    (record,), (attempt,) = spans.named("record"), spans.named("attempt")
    assert record.context.trace_id == attempt.context.trace_id
    assert attempt.attributes["tickwise.run.id"] == record.attributes["tickwise.run.id"]
    assert record.started <= record.ended
    return record.parent_id, attempt.context.span_id


@pytest.mark.parametrize("many", [False, True])
async def test_the_write_of_an_outcome_is_a_part_of_its_attempt(many: bool) -> None:
    """Of quick functions too, which end in one report."""
    rig, spans = traced()
    await rig.executor.prepare()
    found = await launched(rig, traceparent=SENT)
    rig.runner.end_many([found.run_id]) if many else rig.runner.end(found.run_id)
    await rig.tick()
    parent, attempt = parent_of(rig, spans)
    assert parent == attempt
    assert 1 == spans.named("record")[0].attributes["tickwise.outcomes"]


async def test_a_write_that_was_in_vain_has_no_span() -> None:
    """The one that the store took has."""
    rig, spans = traced()
    await rig.executor.prepare()
    found = await launched(rig, traceparent=SENT)
    rig.flaky.away.add("attempts.finish")
    rig.runner.end(found.run_id)
    with pytest.raises(StoreUnavailable):
        await drive(rig.clock, rig.executor._outbox.send())
    assert [] == spans.named("record")
    rig.flaky.away.clear()
    await drive(rig.clock, rig.executor._outbox.send())
    assert 1 == len(spans.named("record"))
    assert {} == rig.executor._outbox._traces


@pytest.mark.parametrize("away", [False, True])
async def test_of_a_batch_the_recorded_attempts_alone_have_a_span(away: bool) -> None:
    """Each its own, also where the first write of the batch was in vain."""
    rig, spans = traced()
    await rig.executor.prepare()
    definitions: list[dict[str, Any]] = [{}, {"traceparent": SENT}, {}, {"traceparent": OTHER}, {}]
    for each in definitions:
        await rig.submit(**each)
    await rig.tick()
    await rig.clock.settle()
    runs = list(rig.runner.running)
    rig.runner.end_many(runs)
    if away:
        rig.flaky.away.add("attempts.finish")
        with pytest.raises(StoreUnavailable):
            await drive(rig.clock, rig.executor._outbox.send())
        rig.flaky.away.clear()
    await drive(rig.clock, rig.executor._outbox.send())
    places = {
        span.attributes["tickwise.run.id"]: (span.context.trace_id, span.context.span_id)
        for span in spans.named("attempt")
    }
    records = {
        span.attributes["tickwise.run.id"]: (span.context.trace_id, span.parent_id) for span in spans.named("record")
    }
    assert 2 == len(places)
    assert places == records
    assert {5} == {span.attributes["tickwise.outcomes"] for span in spans.named("record")}


async def test_a_recorder_records_what_it_writes() -> None:
    """The message names the span of the attempt; the executor records no write then."""
    own, theirs = KeptSpans(), KeptSpans()
    rig = await register(tracer=Tracer(own, 1.0, VirtualClock()))
    (job,) = await ended(rig)
    assert rig.broker is not None
    made = ResultsRecorder(
        store=rig.flaky,
        broker=MemoryBroker(rig.broker._exchange, rig.clock),
        signals=rig.signals,
        clock=rig.clock,
        telemetry=Silent(),
        tracer=Tracer(theirs, 0.0, VirtualClock()),
    )
    await made._consumer.start()
    await drive(rig.clock, made.step(0.0))
    assert "SUCCESS" == await rig.state(job)
    assert [] == own.named("record")
    (record,), (attempt,) = theirs.named("record"), own.named("attempt")
    assert (attempt.context.trace_id, attempt.context.span_id) == (record.context.trace_id, record.parent_id)


async def test_outcomes_that_no_recorder_applies_are_recorded_by_the_executor() -> None:
    """When it writes them itself."""
    spans = KeptSpans()
    rig = await register(tracer=Tracer(spans, 1.0, VirtualClock()))
    await ended(rig)
    assert rig.executor._publisher is not None
    await drive(rig.clock, rig.executor._publisher.write_all(rig.executor._lease.number))
    parent, attempt = parent_of(rig, spans)
    assert parent == attempt


async def test_a_recorder_without_tracing_makes_nothing_of_it() -> None:
    """And a message about attempts that are not recorded has no such field."""
    rig = await register(tracer=Tracer(KeptSpans(), 1.0, VirtualClock()))
    (job,) = await ended(rig)
    plain = await recorder(rig)
    await drive(rig.clock, plain.step(0.0))
    assert "SUCCESS" == await rig.state(job)
    outcome = (await results(await register()))[0].outcomes[0]
    assert b"traces" not in encode(Results.of(7, 1, [outcome], 1))


async def results(rig: Rig) -> list[Results]:
    """The messages about one job that ended."""
    await ended(rig)
    assert rig.broker is not None
    consumer = rig.broker.consumer([RESULTS], "of the test")
    await consumer.start()
    return [decode(Results, each.value) for each in await consumer.take(10, 0.0)]


@pytest.mark.parametrize(
    "said", [OutcomeTrace(0, "no trace"), OutcomeTrace(5, SENT), OutcomeTrace(-1, SENT), OutcomeTrace(0, UNRECORDED)]
)
async def test_a_trace_that_is_none_is_ignored(said: OutcomeTrace) -> None:
    """The outcomes of the message count."""
    [message] = await results(await register())
    changed: Any = Results(message.executor, message.number, message.outcomes, traces=(said,))
    assert {} == decode(Results, encode(changed)).traces_by_run()
    run_id = message.outcomes[0].run_id
    good = Results(message.executor, message.number, message.outcomes, traces=(OutcomeTrace(0, SENT, "a=b"),))
    assert {run_id: read_trace(SENT, "a=b")} == decode(Results, encode(good)).traces_by_run()
