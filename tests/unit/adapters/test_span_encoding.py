"""Spans as OTLP's protobuf: the same messages as OpenTelemetry's own encoder writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, TraceFlags, TraceState
from opentelemetry.trace import SpanKind as Theirs
from opentelemetry.trace.status import Status, StatusCode

from tickwise.adapters.tracing import encoding
from tickwise.adapters.tracing.encoding import SpanEncoder
from tickwise.adapters.tracing.templates import GroupTemplate
from tickwise.domain.trace_context import TraceContext
from tickwise.ports.tracing import SpanGroup, SpanKind, SpanRecord
from tickwise.roles.executor.run_traces import AttemptShape
from tickwise.roles.shared.record_spans import RecordShape

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


IDS = st.uuids()
REASONS = st.sampled_from(["exit_code", "timeout"])
ATTEMPTS = st.builds(
    AttemptShape,
    namespace=st.sampled_from(["default", "100%", "ä" * 40]),
    kind=st.sampled_from(["function", "http"]),
    attempt=st.integers(1, 300),
    executor=st.sampled_from([1, 70_000]),
    state=st.sampled_from(["SUCCESS", "FAILED"]),
    error=st.none() | REASONS,
    tracestate=STATES,
    has_begun=st.booleans(),
    has_parent=st.booleans(),
)


@st.composite
def attempts(draw: st.DrawFn, shape: AttemptShape) -> SpanGroup:
    """A group of this shape, of any ids and times."""
    ids = draw(st.tuples(*[SPAN_IDS] * (4 if shape.has_parent else 3)))
    instants = draw(st.tuples(*[INSTANTS] * 4))
    return SpanGroup(shape, 2 + shape.has_begun, draw(TRACE_IDS), ids, instants, draw(st.tuples(IDS, IDS)))


@st.composite
def records(draw: st.DrawFn) -> SpanGroup:
    """The span of a write."""
    shape = RecordShape(draw(st.sampled_from([1, 500])), draw(STATES))
    values = draw(st.tuples(SPAN_IDS, SPAN_IDS)), draw(st.tuples(INSTANTS, INSTANTS)), draw(st.tuples(IDS))
    return SpanGroup(shape, 1, draw(TRACE_IDS), *values)


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


@pytest.fixture
def _soon() -> Iterator[None]:
    """The second group of a shape goes into its template."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "TEMPLATE_AFTER", 1)
        yield


@pytest.mark.usefixtures("_soon")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ATTEMPTS, min_size=1, max_size=3, unique=True), st.data())
def test_spans_of_a_group_are_those_that_its_shape_makes(shapes: list[AttemptShape], data: st.DataObject) -> None:
    """By templates: of any ids, times and shapes, beside spans of no group."""
    encoder = SpanEncoder(RESOURCE, SCOPE)
    groups = st.sampled_from(shapes).flatmap(attempts) | records()
    for _ in range(4):
        batch = data.draw(st.lists(groups | SPANS, min_size=1, max_size=6))
        made = [span for each in batch for span in (each.spans() if isinstance(each, SpanGroup) else [each])]
        found = ExportTraceServiceRequest.FromString(encoder.request(batch))
        assert sorted(map(str, spans_of(by_the_library(made)))) == sorted(map(str, spans_of(found)))


def spans_of(message: ExportTraceServiceRequest) -> list[Any]:
    """The spans of a request."""
    return [*message.resource_spans[0].scope_spans[0].spans]


class Deciding(NamedTuple):
    """A shape that goes by a value, which shapes must not."""

    def spans(self, group: SpanGroup) -> list[SpanRecord]:
        """An odd span is named so."""
        trace = TraceContext(group.trace_id, group.span_ids[0], True)
        name = "odd" if group.span_ids[0] % 2 else "even"
        return [SpanRecord(name, SpanKind.INTERNAL, trace, None, group.instants[0], group.instants[1], {})]


@pytest.mark.usefixtures("_soon")
def test_a_shape_whose_values_decide_something_has_no_template() -> None:
    """Its groups are encoded span by span: a template is tried before it is used."""
    encoder = SpanEncoder(RESOURCE, SCOPE)
    groups = [SpanGroup(Deciding(), 1, 5, (number,), (1.0, 2.0), ()) for number in range(1, 7)]
    bodies = [ExportTraceServiceRequest.FromString(encoder.request([each])) for each in groups]
    found = [span.name for body in bodies for span in spans_of(body)]
    assert ["odd", "even"] * 3 == found


def test_the_templates_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are as many shapes as callers make notes on their traces. What is sent stays what the shape makes."""
    monkeypatch.setattr(encoding, "MAX_TEMPLATES", 8)
    monkeypatch.setattr(encoding, "TEMPLATE_AFTER", 2)
    encoder = SpanEncoder(RESOURCE, SCOPE)
    for number in range(40):
        group = SpanGroup(RecordShape(1, f"a={number}"), 1, 5, (1, 2), (1.0, 2.0), (UUID(int=7),))
        found = ExportTraceServiceRequest.FromString(encoder.request([group] * 3))
        assert by_the_library([*group.spans()] * 3) == found
        assert len(encoder._templates) <= 8


def test_a_shape_has_a_template_from_a_number_of_groups_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """To make one takes longer than to encode a group span by span."""
    monkeypatch.setattr(encoding, "TEMPLATE_AFTER", 3)
    encoder = SpanEncoder(RESOURCE, SCOPE)
    group = SpanGroup(RecordShape(1, ""), 1, 5, (1, 2), (1.0, 2.0), (UUID(int=7),))
    had = []
    for _ in range(4):
        encoder.request([group])
        had.append(isinstance(encoder._templates[group.shape], GroupTemplate))
    assert [False, False, True, True] == had
