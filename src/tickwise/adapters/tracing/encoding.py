"""Fills OTLP's own messages (`opentelemetry/proto/trace/v1/trace.proto`) with our spans.

    SpanRecord ──► SpanEncoder.request ──► the bytes of one ExportTraceServiceRequest
    SpanGroup ───► its template, filled ───┘

The messages and their bytes are the work of `opentelemetry-proto`. The encoder of the SDK wants a span object of its
own for each of ours, makes a message for each attribute anew, and hashes the resource as JSON for each span. Where one
run of a hundred is recorded, all runs pay for that.

Here a span is filled in its place in the request, for a message that is put into another one is copied. What spans have
in common (a name, an attribute with its value) is kept in its encoded form: the library reads it into the next span.

Groups of one shape differ in ids and times alone, whose size OTLP fixes. So a group is encoded once, and later ones are
its bytes with other ids and times in their places (`adapters/tracing/templates.py`).

Invariant: a collector reads each span as the SDK would have told it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span, SpanFlags, Status

from tickwise.adapters.tracing.templates import GroupTemplate, make_template, nanoseconds
from tickwise.ports.tracing import SpanGroup, SpanRecord, SpanShape

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

Attribute = str | int | float | bool

MAX_KEPT: Final = 4_096
"""Encoded parts that are kept, some 0.5 MB: the ids of the newest runs, and words that all spans share."""
MAX_BEGINS: Final = 1_024
"""Names and sizes of text attributes whose begin is kept: ids are new in each run, and as long as the last one."""
MAX_TEMPLATES: Final = 1_024
"""Templates that are kept, of some 1.5 kB."""
TEMPLATE_AFTER: Final = 32
"""A shape gets a template when so many groups of it have come: to make one takes as long as it saves for so many.
Batches of outcomes have many sizes, and most of them come seldom."""
_KNOWN: Final = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
_REMOTE: Final = _KNOWN | SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK


class SpanEncoder:
    """Encodes the spans of one process."""

    def __init__(self, resource: Resource, scope: InstrumentationScope) -> None:
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext

        some = ReadableSpan("", context=SpanContext(1, 1, False), resource=resource, instrumentation_scope=scope)
        group = encode_spans([some]).resource_spans[0]
        del group.scope_spans[0].spans[:]
        self._begin: bytes = ExportTraceServiceRequest(resource_spans=[group]).SerializeToString()
        self._kept: dict[tuple[Any, ...], bytes] = {}
        """By what they say. 1, 1.0 and True are one key, and three attributes: types are a part of it."""
        self._begins: dict[tuple[str, int], bytes] = {}
        """By name and size in bytes of a text attribute, its encoded form up to the text."""
        self._templates: dict[SpanShape, GroupTemplate | int] = {}
        """By shape; a number: of its groups so far, before it is tried whether the shape has a template."""

    def request(self, spans: Sequence[SpanRecord | SpanGroup]) -> bytes:
        """The body that tells a collector of these."""
        request = ExportTraceServiceRequest.FromString(self._begin)
        scope = request.resource_spans[0].scope_spans[0]
        filled: list[bytes] = []
        for each in spans:
            if not isinstance(each, SpanGroup):
                self._fill(scope.spans.add(), each)
            elif (template := self._template(each)) is not None:
                filled.append(template.fill(each))
            else:
                for span in each.spans():
                    self._fill(scope.spans.add(), span)
        scope.MergeFromString(b"".join(filled))
        body: bytes = request.SerializeToString()
        return body

    def _template(self, group: SpanGroup) -> GroupTemplate | None:
        shape, templates = group.shape, self._templates
        found = templates.get(shape, 0)
        if not isinstance(found, int):
            return found
        if not found and len(templates) >= MAX_TEMPLATES:
            templates.clear()
        templates[shape] = found + 1
        if found + 1 != TEMPLATE_AFTER:
            return None
        made = make_template(group, self._encoded)
        if made is not None:
            templates[shape] = made
        return made

    def _encoded(self, group: SpanGroup) -> bytes:
        """The spans of a group, as they stand in a request."""
        scope = ScopeSpans()
        for span in group.spans():
            self._fill(scope.spans.add(), span)
        encoded: bytes = scope.SerializeToString()
        return encoded

    def _fill(self, message: Span, span: SpanRecord) -> None:
        name, kind, context, parent_id, started, ended, attributes, error, links = span
        kept = self._kept
        if len(kept) > MAX_KEPT:
            kept.clear()
        common = (name, kind, error, parent_id is None)
        parts = [kept[common] if common in kept else self._common(common)]
        for key, value in attributes.items():
            said = (key, value, type(value))
            parts.append(kept[said] if said in kept else self._attribute(said))
        message.MergeFromString(b"".join(parts))
        message.trace_id = context.trace_id.to_bytes(16, "big")
        message.span_id = context.span_id.to_bytes(8, "big")
        if parent_id is not None:
            message.parent_span_id = parent_id.to_bytes(8, "big")
        if context.tracestate:
            message.trace_state = context.tracestate
        message.start_time_unix_nano = nanoseconds(started)
        message.end_time_unix_nano = nanoseconds(ended)
        for each in links:
            message.links.add(
                trace_id=each.trace_id.to_bytes(16, "big"), span_id=each.span_id.to_bytes(8, "big"), flags=_REMOTE
            )

    def _common(self, common: tuple[str, int, str | None, bool]) -> bytes:
        """The part of a span that all of its name have."""
        name, kind, error, is_root = common
        span = Span(
            name=name,
            kind=Span.SpanKind.ValueType(kind),
            status=Status() if error is None else Status(message=error, code=Status.STATUS_CODE_ERROR),
            flags=_KNOWN if is_root else _REMOTE,
        )
        encoded: bytes = span.SerializeToString()
        self._kept[common] = encoded
        return encoded

    def _attribute(self, said: tuple[str, Attribute, type[Attribute]]) -> bytes:
        """A span with this attribute and nothing else: the next span is read on from it."""
        key, value, _ = said
        text = value.encode() if isinstance(value, str) else b""
        begin = self._begins.get((key, len(text))) if text else None
        if begin is not None:
            encoded = begin + text
        else:
            encoded = Span(attributes=[KeyValue(key=key, value=_value(value))]).SerializeToString()
            if text and encoded.endswith(text) and len(self._begins) < MAX_BEGINS:
                self._begins[key, len(text)] = encoded[: -len(text)]
        self._kept[said] = encoded
        return encoded


def _value(value: Attribute) -> AnyValue:
    if isinstance(value, str):
        return AnyValue(string_value=value)
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    return AnyValue(int_value=value) if isinstance(value, int) else AnyValue(double_value=value)
