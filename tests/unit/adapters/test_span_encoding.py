"""Spans as OTLP's protobuf: the same messages as OpenTelemetry's own encoder writes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, TraceFlags, TraceState
from opentelemetry.trace import SpanKind as Theirs
from opentelemetry.trace.status import Status, StatusCode

from tickwise.adapters.tracing.encoding import SpanEncoder
from tickwise.domain.trace_context import TraceContext
from tickwise.ports.tracing import SpanKind, SpanRecord

RESOURCE = Resource({"service.name": "tickwise-executor", "process.pid": 7, "tags": ["a", "b"]})
SCOPE = InstrumentationScope("tickwise", "1.0")
TRACE_IDS = st.integers(1, (1 << 128) - 1)
SPAN_IDS = st.integers(1, (1 << 64) - 1)
STATES = st.sampled_from(["", "a=b", "vendor@x=1,other=2"])
TRACES = st.builds(TraceContext, TRACE_IDS, SPAN_IDS, st.just(True), STATES)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
VALUES = st.one_of(TEXT, st.booleans(), NUMBERS, st.sampled_from([0, 1, 1.0, 0.0]), st.floats(allow_nan=False))
INSTANTS = st.integers(0, 4_000_000_000_000_000).map(lambda microseconds: microseconds / 1_000_000)
SPANS = st.builds(
    SpanRecord,
    name=TEXT,
    kind=st.sampled_from(SpanKind),
    context=TRACES,
    parent_id=st.none() | SPAN_IDS,
    started=INSTANTS,
    ended=INSTANTS,
    attributes=st.dictionaries(st.text("abc.", max_size=3), VALUES, max_size=6),
    error=st.none() | TEXT,
    links=st.lists(TRACES, max_size=2).map(tuple),
)


def by_the_library(spans: list[SpanRecord]) -> ExportTraceServiceRequest:
    """The message that the library makes of these."""
    return encode_spans([theirs(span) for span in spans])


def theirs(span: SpanRecord) -> ReadableSpan:
    """The library's object."""
    return ReadableSpan(
        span.name,
        context=context(span.context, span.context.span_id),
        parent=None if span.parent_id is None else context(span.context, span.parent_id),
        resource=RESOURCE,
        attributes=span.attributes,
        links=[Link(context(each, each.span_id)) for each in span.links],
        kind=Theirs[span.kind.name],
        status=Status(StatusCode.UNSET) if span.error is None else Status(StatusCode.ERROR, span.error),
        start_time=round(span.started * 1_000_000) * 1_000,
        end_time=round(span.ended * 1_000_000) * 1_000,
        instrumentation_scope=SCOPE,
    )


def context(trace: TraceContext, span_id: int) -> SpanContext:
    """A place that may be in another process."""
    state = TraceState.from_header([trace.tracestate]) if trace.tracestate else None
    return SpanContext(trace.trace_id, span_id, True, TraceFlags(1), state)


def by_us(spans: list[SpanRecord]) -> ExportTraceServiceRequest:
    """The message that a collector reads."""
    found: ExportTraceServiceRequest = ExportTraceServiceRequest.FromString(SpanEncoder(RESOURCE, SCOPE).request(spans))
    return found


@given(st.lists(SPANS, min_size=1, max_size=5))
def test_a_collector_reads_what_the_library_would_have_written(spans: list[SpanRecord]) -> None:
    """All fields, of any values: resource and scope, ids, kinds, times, attributes by type, links, errors, flags."""
    assert by_the_library(spans) == by_us(spans)


@pytest.mark.parametrize("values", [(1, True, 1.0, "1"), (True, 1, "1", 1.0), (0.0, False, 0, "")])
def test_attributes_that_are_equal_keep_their_types(values: tuple[Any, ...]) -> None:
    """In one batch, in which attributes that were written already are not written anew."""
    spans = [
        SpanRecord("a", SpanKind.INTERNAL, TraceContext(1, 2, True), None, 1.0, 2.0, {"value": value})
        for value in values
    ]
    assert by_the_library(spans) == by_us(spans)
    written = [span.attributes[0].value for span in by_us(spans).resource_spans[0].scope_spans[0].spans]
    kinds = {str: "string_value", bool: "bool_value", int: "int_value", float: "double_value"}
    assert [kinds[type(value)] for value in values] == [each.WhichOneof("value") for each in written]


def test_texts_of_one_size_are_each_their_own() -> None:
    """Ids are: what comes before the text is kept, and the text is not. A size is one in bytes."""
    values = ["a" * 36, "b" * 36, "ä" * 18, "c" * 35, "", "d" * 200, "e" * 200]
    spans = [
        SpanRecord("a", SpanKind.INTERNAL, TraceContext(1, 2, True), None, 1.0, 2.0, {"id": value}) for value in values
    ]
    assert by_the_library(spans) == by_us(spans)
    written = [span.attributes[0].value for span in by_us(spans).resource_spans[0].scope_spans[0].spans]
    assert values == [each.string_value for each in written]
