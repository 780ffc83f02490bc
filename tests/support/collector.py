"""A collector of traces in this process: it takes OTLP over HTTP and decodes the protobuf."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Received:
    """A span as it arrived."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    started: int
    ended: int
    """Unix nanoseconds, as `started`."""
    attributes: dict[str, Any]
    resource: dict[str, Any]
    links: list[str]
    """The spans that it names."""
    error: str
    state: str


@dataclass
class Collector:
    """Keeps the spans that came."""

    url: str = ""
    spans: list[Received] = field(default_factory=list)
    requests: int = 0
    status: int = 200
    """It answers with this."""
    hold: threading.Event | None = None
    """It answers nothing before this is set."""
    headers: list[dict[str, str]] = field(default_factory=list)

    def named(self, name: str) -> list[Received]:
        """The spans with this name, the earliest first."""
        return sorted((span for span in self.spans if span.name == name), key=lambda span: span.started)

    def of(self, trace_id: str) -> dict[str, list[Received]]:
        """The spans of a trace by their names."""
        found: dict[str, list[Received]] = {}
        for span in self.spans:
            if span.trace_id == trace_id:
                found.setdefault(span.name, []).append(span)
        return found

    def take(self, body: bytes) -> None:
        """Keep the spans of one request."""
        message = ExportTraceServiceRequest.FromString(body)
        for group in message.resource_spans:
            resource = {each.key: _value(each.value) for each in group.resource.attributes}
            for scope in group.scope_spans:
                self.spans += [_received(span, resource) for span in scope.spans]


def _received(span: Any, resource: dict[str, Any]) -> Received:
    return Received(
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        kind=span.kind,
        started=span.start_time_unix_nano,
        ended=span.end_time_unix_nano,
        attributes={each.key: _value(each.value) for each in span.attributes},
        resource=resource,
        links=[link.span_id.hex() for link in span.links],
        error=span.status.message,
        state=span.trace_state,
    )


def _value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on a free port while the block lasts."""
    here = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            here.headers.append({name.lower(): value for name, value in self.headers.items()})
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            if here.hold is not None:
                here.hold.wait(60)
            here.requests += 1
            if self.path == "/v1/traces" and here.status == 200:
                here.take(body)
            self.send_response(here.status if self.path == "/v1/traces" else 404)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    here.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield here
    finally:
        if here.hold is not None:
            here.hold.set()
        server.shutdown()
        server.server_close()
        thread.join()
