"""The span of a request, by OpenTelemetry's conventions for HTTP servers: the route and never the path, no header, no
query, no body."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tickwise.domain.model import Principal
from tickwise.domain.trace_context import TraceContext, read_trace
from tickwise.observability.tracing import OpenSpan

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER: Final = "_OTHER"
"""OpenTelemetry's word for a method that a client made up."""
_PARENT: Final = b"traceparent"
_STATE: Final = b"tracestate"


def trace_sent(headers: Iterable[tuple[bytes, bytes]]) -> TraceContext | None:
    """The trace that a request names; None: none, or several. Lines of the state are one list (RFC 9110, 5.3)."""
    parents, states = [], []
    for name, value in headers:
        if name == _PARENT:
            parents.append(value)
        elif name == _STATE:
            states.append(value)
    return read_trace(parents[0], b",".join(states)) if len(parents) == 1 else None


def describe_request(
    span: OpenSpan, *, method: str, route: str, status: int, request_id: str, principal: Principal | None
) -> None:
    """Name a request that was answered."""
    known = method if method in METHODS else OTHER
    span.name = f"{'HTTP' if known == OTHER else known} {route}"
    span.attributes |= {
        "http.request.method": known,
        "http.route": route,
        "http.response.status_code": status,
        "tickwise.request.id": request_id,
    }
    if principal is not None:
        span.attributes["tickwise.namespace"] = principal.namespace
    if status >= 500:
        span.attributes["error.type"] = str(status)
        span.error = str(status)
