"""Which requests are recorded, and what becomes a part of what."""

from __future__ import annotations

import pytest

from tests.support.app import API, world
from tests.support.spans import KeptSpans
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.memory import MemoryStore
from tickwise.domain.errors import StoreUnavailable
from tickwise.domain.trace_context import TraceContext, read_trace
from tickwise.observability import tracing
from tickwise.observability.tracing import CURRENT, Tracer, traced
from tickwise.ports.store.wrapping import Call, WrappedStore
from tickwise.ports.tracing import SpanKind, SpanRecord

SENT = TraceContext(0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331, True, "a=b")


def only(spans: KeptSpans, name: str) -> SpanRecord:
    """The only one with this name."""
    (found,) = spans.named(name)
    return found


class Away(WrappedStore):
    """A store that is away."""

    def around(self, _name: str, _call: Call) -> Call:
        """Whatever is asked."""

        async def gone(*_arguments: object, **_named: object) -> None:
            raise StoreUnavailable("it is away")

        return gone


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_the_decision_of_the_caller_counts_and_else_the_share(ratio: float) -> None:
    """A caller that does not record is not overruled."""
    spans = KeptSpans()
    tracer = Tracer(spans, ratio, SystemClock())
    found = tracer.request("GET", SENT)
    assert found is not None
    assert (SENT.trace_id, SENT.span_id, "a=b") == (found.context.trace_id, found.parent_id, found.context.tracestate)
    assert tracer.request("GET", SENT._replace(sampled=False)) is None
    own = tracer.request("GET", None)
    assert (ratio == 1.0) == (own is not None)
    if own is not None:
        assert own.parent_id is None
        assert read_trace(own.context.traceparent) == own.context


async def test_calls_of_the_store_are_parts_of_the_work_at_hand_and_of_no_other() -> None:
    """Failed ones too, with the name of the error and without its text."""
    spans = KeptSpans()
    tracer = Tracer(spans, 1.0, SystemClock())
    store = traced(MemoryStore(SystemClock()), tracer, "memory")
    away = traced(Away(MemoryStore(SystemClock())), tracer, "memory")
    await store.executors.all()
    assert [] == spans.all
    request = tracer.request("GET", SENT)
    assert request is not None
    with tracer.within(request):
        await store.executors.all()
        with pytest.raises(StoreUnavailable):
            await away.now()
    assert CURRENT.get() is None
    good, bad, whole = spans.all
    assert (request.context.span_id, request.context.span_id) == (good.parent_id, bad.parent_id)
    assert ("executors.all", SpanKind.CLIENT, None) == (good.name, good.kind, good.error)
    assert ("now", "StoreUnavailable", None) == (bad.name, bad.error, whole.error)


async def test_a_span_has_a_bounded_number_of_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many were left out is one of its attributes."""
    monkeypatch.setattr(tracing, "PARTS_MAX", 3)
    spans = KeptSpans()
    tracer = Tracer(spans, 1.0, SystemClock())
    store = traced(MemoryStore(SystemClock()), tracer, "memory")
    request = tracer.request("GET", SENT)
    assert request is not None
    with tracer.within(request):
        for _ in range(8):
            await store.executors.all()
    assert 3 + 1 == len(spans.all)
    assert 5 == only(spans, "GET").attributes["tickwise.parts.left_out"]


async def test_a_request_is_named_by_its_route_and_has_no_text_of_its_caller() -> None:
    """Neither path nor query, header nor body; a method that a client made up has one name; probes are left out."""
    spans = KeptSpans()
    async with world(tracer=Tracer(spans, 1.0, SystemClock())) as here:
        await here.client.get(f"{API}/jobs/019a2b3c-4d5e-8f60-9123-456789abcdef", headers={"x-own": "a-secret"})
        await here.client.get("/livez")
        await here.client.request("BREW", f"{API}/jobs")
        await here.client.get(f"{API}/jobs", headers={"Authorization": "Bearer a-secret"})
    found = {
        (span.name, span.attributes["http.response.status_code"])
        for span in spans.all
        if "http.route" in span.attributes
    }
    assert {(f"GET {API}/jobs/{{job_id}}", 404), ("HTTP unknown", 405), ("GET unknown", 401)} == found
    assert "secret" not in str(spans.all)
    assert "019a2b3c" not in str(spans.all)
