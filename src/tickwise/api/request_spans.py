"""The span of a request, by OpenTelemetry's conventions for HTTP servers: the route and never the path, no header, no
query, no body."""

from __future__ import annotations

from typing import Final

from tickwise.domain.model import Principal
from tickwise.observability.tracing import OpenSpan

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER: Final = "_OTHER"
"""OpenTelemetry's word for a method that a client made up."""


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
