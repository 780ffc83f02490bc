"""Writes spans as OTLP's protobuf (`opentelemetry/proto/trace/v1/trace.proto`), without an object for each field.

    SpanRecord ──► SpanEncoder.request ──► the bytes of one ExportTraceServiceRequest

OpenTelemetry's encoder makes a message for each attribute and one for its value, and hashes the resource as JSON for
each span. That is three to four times as long as this takes, and where one run of a hundred is recorded, all runs paid
2 % for it. Resource and scope are the library's own bytes, made once.

Invariant: a collector reads each span as the library would have written it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Final

from tickwise.domain.trace_context import TraceContext
from tickwise.ports.tracing import SpanKind, SpanRecord

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

Attribute = str | int | float | bool
Written = dict[tuple[str, Attribute], bytes]
"""Attributes as fields of a span."""

_MICRO: Final = 1_000_000
_INT64: Final = (1 << 64) - 1
_double: Final = Struct("<d").pack
_times: Final = Struct("<BQBQ").pack
"""Fields 7 and 8, with their tags 0x39 and 0x41: Unix nanoseconds."""
_NO_ERROR: Final = b"\x7a\x00"
"""Field 15, an empty status."""
_ROOT: Final = b"\x85\x01\x00\x01\x00\x00"
"""Field 16, the flags: it is known whether the parent is of another process …"""
_PART: Final = b"\x85\x01\x00\x03\x00\x00"
"""… and it may be."""
_LINKED: Final = b"\x35\x00\x03\x00\x00"
"""Field 6 of a link: the same flags."""


class SpanEncoder:
    """Writes the spans of one process."""

    def __init__(self, resource: Resource, scope: InstrumentationScope) -> None:
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext

        some = ReadableSpan("", context=SpanContext(1, 1, False), resource=resource, instrumentation_scope=scope)
        [group] = encode_spans([some]).resource_spans
        [scoped] = group.scope_spans
        del scoped.spans[:]
        self._scope: bytes = scoped.SerializeToString()
        del group.scope_spans[:]
        self._resource: bytes = group.SerializeToString()

    def request(self, spans: Sequence[SpanRecord]) -> bytes:
        """The body that tells a collector of these."""
        known: Written = {}
        scoped = self._scope + b"".join([_field(2, _span(span, known)) for span in spans])
        return _field(1, self._resource + _field(2, scoped))


def _span(span: SpanRecord, known: Written) -> bytes:
    """`known`: attributes of the batch that were written already, for the spans of one run name the same ids."""
    name, kind, context, parent_id, started, ended, attributes, error, links = span
    parts = [
        b"\x0a\x10",
        context.trace_id.to_bytes(16, "big"),
        b"\x12\x08",
        context.span_id.to_bytes(8, "big"),
        _head(name, kind),
        _times(0x39, round(started * _MICRO) * 1_000, 0x41, round(ended * _MICRO) * 1_000),
    ]
    for pair in attributes.items():
        of = pair[1].__class__
        if of is str or of is int:  # 1, 1.0 and True are one key, and three attributes
            written = known.get(pair)
            if written is None:
                written = known[pair] = _attribute(*pair)
            parts.append(written)
        else:
            parts.append(_attribute(*pair))
    if context.tracestate:
        parts.append(_field(3, context.tracestate.encode()))
    if links:
        parts += [_link(each) for each in links]
    parts.append(_NO_ERROR if error is None else _field(15, _field(2, error.encode()) + b"\x18\x02"))
    parts += (_ROOT,) if parent_id is None else (b"\x22\x08", parent_id.to_bytes(8, "big"), _PART)
    return b"".join(parts)


@lru_cache(1_000)
def _head(name: str, kind: SpanKind) -> bytes:
    """Fields 5 and 6. Names are few (`SpanRecord`)."""
    return _field(5, name.encode()) + b"\x30" + _varint(kind)


def _attribute(key: str, value: Attribute) -> bytes:
    """Field 9: a name, and a value of one of four types."""
    if isinstance(value, str):
        content = _field(1, value.encode())
    elif isinstance(value, bool):
        content = b"\x10\x01" if value else b"\x10\x00"
    elif isinstance(value, int):
        content = b"\x18" + _varint(value & _INT64)
    else:
        content = b"\x21" + _double(value)
    return _field(9, _field(1, key.encode()) + _field(2, content))


def _link(linked: TraceContext) -> bytes:
    """Field 13."""
    ids = b"\x0a\x10" + linked.trace_id.to_bytes(16, "big") + b"\x12\x08" + linked.span_id.to_bytes(8, "big")
    return _field(13, ids + _LINKED)


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes, a text or a message. `number` is at most 15."""
    size = len(content)
    if size < 0x80:
        return bytes((number << 3 | 2, size)) + content
    return bytes((number << 3 | 2,)) + _varint(size) + content


def _varint(value: int) -> bytes:
    """A number in groups of seven bits, the lowest first."""
    groups = bytearray()
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)
