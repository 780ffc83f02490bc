"""Spans to a collector: a real exporter, and a server that decodes what it sends. Nothing waits if it is away."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import UUID

import pytest
import structlog

from tests.support.collector import Collector, collecting
from tests.support.waiting import eventually
from tickwise.adapters import tracing
from tickwise.adapters.tracing import OtlpSpans, endpoint_of, ratio_of
from tickwise.domain.errors import Misconfigured
from tickwise.domain.trace_context import TraceContext
from tickwise.ports.tracing import SpanGroup, SpanKind, SpanRecord
from tickwise.roles.executor.run_traces import AttemptShape

TRACE = 0x0AF7651916CD43DD8448EB211C80319C


def span(number: int = 1, **more: Any) -> SpanRecord:
    given: dict[str, Any] = {
        "name": "attempt",
        "kind": SpanKind.CONSUMER,
        "context": TraceContext(TRACE, number, True, "a=b"),
        "parent_id": 7,
        "started": 1_800_000_000.25,
        "ended": 1_800_000_001.5,
        "attributes": {"tickwise.attempt": 2, "tickwise.outcome": "FAILED", "ok": True, "share": 0.5},
        "error": "exit_code",
        "links": (TraceContext(TRACE, 9, True),),
    }
    return SpanRecord(**{**given, **more})


class Losses:
    """What the exporter says of its spans."""

    def __init__(self) -> None:
        self.dropped: Counter[str] = Counter()
        self.sent = 0

    def drop(self, why: str, count: int) -> None:
        self.dropped[why] += count

    def arrive(self, count: int) -> None:
        self.sent += count


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "GATHER_SECONDS", 0.02)
    for name in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_EXPORTER_OTLP_HEADERS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as here:
        yield here


def exporter(url: str, losses: Losses, role: str = "executor") -> OtlpSpans:
    address = endpoint_of(url, {})
    assert address is not None
    return OtlpSpans(address, role=role, dropped=losses.drop, sent=losses.arrive)


async def test_a_span_arrives_as_it_was_recorded(collector: Collector) -> None:
    """Ids, times to the microsecond, attributes by type, links, the error, the state, and which process it is."""
    losses = Losses()
    with closing(exporter(collector.url, losses)) as spans:
        spans.add(span())
        spans.add(span(2, parent_id=None, error=None, links=()))
        await eventually(lambda: len(collector.spans) == 2)
    first, second = collector.spans
    assert (f"{TRACE:032x}", f"{1:016x}", f"{7:016x}", "a=b") == (
        first.trace_id, first.span_id, first.parent_id, first.state,
    )  # fmt: skip
    assert (1_800_000_000_250_000_000, 1_800_000_001_500_000_000) == (first.started, first.ended)
    assert {"tickwise.attempt": 2, "tickwise.outcome": "FAILED", "ok": True, "share": 0.5} == first.attributes
    assert ("attempt", int(SpanKind.CONSUMER), "exit_code", [f"{9:016x}"]) == (
        first.name, first.kind, first.error, first.links,
    )  # fmt: skip
    assert ("", "", []) == (second.parent_id, second.error, second.links)
    assert ("tickwise-executor", "tickwise") == (
        first.resource["service.name"], first.resource["service.namespace"],
    )  # fmt: skip
    assert (2, Counter()) == (losses.sent, losses.dropped)


async def test_the_standard_variables_are_heeded(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys for a collector are headers; the name of the service may be another."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=of-the-collector")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "ours")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    with closing(exporter(collector.url, Losses())) as spans:
        spans.add(span())
        await eventually(lambda: collector.spans)
    assert "of-the-collector" == collector.headers[0]["api-key"]
    resource = collector.spans[0].resource
    assert ("ours", "test") == (resource["service.name"], resource["deployment.environment.name"])


def test_what_waits_is_sent_at_the_end(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends loses no span while the collector is there."""
    monkeypatch.setattr(tracing, "GATHER_SECONDS", 60.0)
    monkeypatch.setattr(tracing, "FLUSH_SECONDS", 60.0)
    losses = Losses()
    spans = exporter(collector.url, losses)
    for number in range(1, 1_001):
        spans.add(span(number))
    spans.close()
    assert (1_000, Counter()) == (len(collector.spans), losses.dropped)
    spans.add(span())
    assert {"full": 1} == losses.dropped


async def test_a_collector_that_is_away_costs_spans_and_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And once more when it takes spans again."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    losses = Losses()
    with (
        structlog.testing.capture_logs() as logs,
        closing(exporter("http://127.0.0.1:1", losses)) as spans,
    ):
        for number in range(1, 4):
            spans.add(span(number))
            await eventually(lambda count=number: losses.dropped["failed"] == count)  # type: ignore[misc]  # mypy cannot see the type of a default
        with collecting() as here:
            spans._exporter = exporter_to(here)
            spans.add(span(4))
            await eventually(lambda: losses.sent == 1)
    assert ["spans_unsent", "spans_sent_again"] == [line["event"] for line in logs]


def exporter_to(here: Collector) -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(f"{here.url}/v1/traces", timeout=60)


@pytest.mark.parametrize("status", [400, 503])
async def test_a_collector_that_refuses_costs_spans(
    collector: Collector, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its repeats end."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.3")
    collector.status = status
    losses = Losses()
    with closing(exporter(collector.url, losses)) as spans:
        spans.add(span())
        await eventually(lambda: losses.dropped["failed"] == 1)
    assert 0 == losses.sent


def test_a_collector_that_hangs_fills_a_bounded_queue_and_holds_up_nobody(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is added then is dropped and counted; the end of the process does not wait for it either."""
    monkeypatch.setattr(tracing, "QUEUE_MAX", 100)
    monkeypatch.setattr(tracing, "FLUSH_SECONDS", 0.1)
    collector.hold = threading.Event()
    losses = Losses()
    spans = exporter(collector.url, losses)
    for number in range(1, 1_001):
        spans.add(span(number))
    assert losses.dropped["full"] >= 1_000 - 100 - tracing.BATCH
    assert spans.waiting <= 100
    spans.close()
    assert 0 == losses.sent
    assert 0 == spans.waiting
    collector.hold.set()


async def test_a_group_counts_as_its_spans_and_arrives_whole(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the bound, in what was sent and in what was dropped."""
    monkeypatch.setattr(tracing, "QUEUE_MAX", 10)
    monkeypatch.setattr(tracing, "GATHER_SECONDS", 60.0)
    monkeypatch.setattr(tracing, "FLUSH_SECONDS", 60.0)
    losses = Losses()
    spans = exporter(collector.url, losses)
    shape = AttemptShape("default", "shell", 1, 3, "SUCCESS", None, "", has_begun=True, has_parent=False)
    for number in range(1, 6):
        ids = 4 * number, 4 * number + 1, 4 * number + 2
        spans.add_group(SpanGroup(shape, 3, TRACE, ids, (1.0, 2.0, 3.0, 4.0), (UUID(int=1), UUID(int=2))))
    assert (9, {"full": 6}) == (spans.waiting, losses.dropped)
    spans.close()
    assert (9, 9, 0) == (len(collector.spans), losses.sent, spans.waiting)
    assert ["attempt", "task shell", "wait"] * 3 == sorted(span.name for span in collector.spans)[::3] * 3


@pytest.mark.parametrize(
    ("chosen", "environ", "expected"),
    [
        (None, {}, None),
        ("http://a:4318", {}, "http://a:4318/v1/traces"),
        ("http://a:4318/", {}, "http://a:4318/v1/traces"),
        ("https://a/otlp/v1/traces", {}, "https://a/otlp/v1/traces"),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b:4318"}, "http://b:4318/v1/traces"),
        (None, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/own"}, "http://c/own"),
        (
            "http://a",
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c"},
            "http://a/v1/traces",
        ),
        ("http://a", {"OTEL_SDK_DISABLED": "true"}, None),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b", "OTEL_TRACES_EXPORTER": "none"}, None),
    ],
)
def test_the_address_is_the_chosen_one_or_that_of_the_standard_variables(
    chosen: str | None, environ: dict[str, str], expected: str | None
) -> None:
    """The path for traces is added to the address of a collector."""
    assert expected == endpoint_of(chosen, environ)


@pytest.mark.parametrize(
    ("chosen", "environ", "expected"),
    [
        (None, {}, 0.01),
        (0.5, {"OTEL_TRACES_SAMPLER": "always_on"}, 0.5),
        (None, {"OTEL_TRACES_SAMPLER": "always_on"}, 1.0),
        (None, {"OTEL_TRACES_SAMPLER": "parentbased_always_off"}, 0.0),
        (None, {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"}, 0.25),
        (None, {"OTEL_TRACES_SAMPLER": "jaeger_remote"}, 0.01),
    ],
)
def test_the_share_is_the_chosen_one_or_that_of_the_standard_variables(
    chosen: float | None, environ: dict[str, str], expected: float
) -> None:
    """One per cent, if nothing is said."""
    assert expected == ratio_of(chosen, 0.01, environ)


@pytest.mark.parametrize("text", ["2", "-1", "much", "nan"])
def test_a_share_that_is_none_is_refused(text: str) -> None:
    """At the start."""
    with pytest.raises(Misconfigured, match="OTEL_TRACES_SAMPLER_ARG"):
        ratio_of(None, 0.01, {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": text})
