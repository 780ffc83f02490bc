"""Fills OTLP's own messages (`opentelemetry/proto/trace/v1/trace.proto`) with our spans.

    SpanRecord ──► SpanEncoder.request ──► the bytes of one ExportTraceServiceRequest

The messages and their bytes are the work of `opentelemetry-proto`. The encoder of the SDK wants a span object of its
own for each of ours, makes a message for each attribute anew, and hashes the resource as JSON for each span. Where one
run of a hundred is recorded, all runs pay for that.

Invariant: a collector reads each span as the SDK would have told it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span, SpanFlags, Status

from tickwise.domain.trace_context import TraceContext
from tickwise.ports.tracing import SpanRecord

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

Attribute = str | int | float | bool
Written = dict[tuple[str, type[Attribute], Attribute], KeyValue]
"""Attributes as messages. 1, 1.0 and True are one key, and three attributes."""

_MICRO: Final = 1_000_000
_KNOWN: Final = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
_REMOTE: Final = _KNOWN | SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
_NO_ERROR: Final = Status()


class SpanEncoder:
    """Encodes the spans of one process."""

    def __init__(self, resource: Resource, scope: InstrumentationScope) -> None:
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext

        some = ReadableSpan("", context=SpanContext(1, 1, False), resource=resource, instrumentation_scope=scope)
        self._group: ResourceSpans = encode_spans([some]).resource_spans[0]
        del self._group.scope_spans[0].spans[:]

    def request(self, spans: Sequence[SpanRecord]) -> bytes:
        """The body that tells a collector of these."""
        known: Written = {}
        request = ExportTraceServiceRequest(resource_spans=[self._group])
        request.resource_spans[0].scope_spans[0].spans.extend([_span(span, known) for span in spans])
        body: bytes = request.SerializeToString()
        return body


def _span(span: SpanRecord, known: Written) -> Span:
    """`known`: attributes of the batch that were made already, for the spans of one run name the same ids."""
    name, kind, context, parent_id, started, ended, attributes, error, links = span
    return Span(
        trace_id=context.trace_id.to_bytes(16, "big"),
        span_id=context.span_id.to_bytes(8, "big"),
        parent_span_id=b"" if parent_id is None else parent_id.to_bytes(8, "big"),
        trace_state=context.tracestate,
        name=name,
        kind=Span.SpanKind.ValueType(kind),
        start_time_unix_nano=round(started * _MICRO) * 1_000,
        end_time_unix_nano=round(ended * _MICRO) * 1_000,
        attributes=[_attribute(key, value, known) for key, value in attributes.items()],
        links=[_link(each) for each in links],
        status=_NO_ERROR if error is None else Status(message=error, code=Status.STATUS_CODE_ERROR),
        flags=_KNOWN if parent_id is None else _REMOTE,
    )


def _attribute(key: str, value: Attribute, known: Written) -> KeyValue:
    of = type(value)
    found = known.get((key, of, value))
    if found is None:
        found = known[key, of, value] = KeyValue(key=key, value=_value(value))
    return found


def _value(value: Attribute) -> AnyValue:
    if isinstance(value, str):
        return AnyValue(string_value=value)
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    return AnyValue(int_value=value) if isinstance(value, int) else AnyValue(double_value=value)


def _link(linked: TraceContext) -> Span.Link:
    return Span.Link(
        trace_id=linked.trace_id.to_bytes(16, "big"), span_id=linked.span_id.to_bytes(8, "big"), flags=_REMOTE
    )
