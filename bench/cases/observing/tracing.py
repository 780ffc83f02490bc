"""TRACES: T2 while one run of a hundred is recorded as a trace, beside T2 without tracing.

The collector is in the client's process: it takes OTLP over HTTP and counts the spans afterwards. Flows with and
without tracing take turns, for a role reads its settings at its start; each one with is held against the two around it.
A flow that sent fewer spans than its runs make measured no tracing, and is void.
"""

from __future__ import annotations

import contextlib
import gzip
import statistics
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bench import raw
from bench.cases.events import Window, cost, window
from bench.harness import Case, Check, Failed, Rig, Round
from bench.stream import flowing

RATIO: Final = 0.01
SPANS_OF_RUN: Final = 3
"""Wait, attempt and task."""


class Collector:
    """What was sent, undecoded: to read it is not what is measured."""

    def __init__(self) -> None:
        self.url = ""
        self.bodies: list[bytes] = []

    @property
    def spans(self) -> int:
        """The number of spans that came."""
        messages = [ExportTraceServiceRequest.FromString(gzip.decompress(body)) for body in self.bodies]
        return sum(
            len(scope.spans) for message in messages for group in message.resource_spans for scope in group.scope_spans
        )


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    """A collector that listens while the block lasts."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:  # the name is the library's
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            collector.bodies.append(body if self.headers.get("Content-Encoding") == "gzip" else gzip.compress(body, 1))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the library's
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def traced(rig: Rig) -> Round:
    """The rate with tracing, of the rate without."""
    seconds, turns = (15.0, 5) if rig.full else (8.0, 3)
    off: list[Window] = []
    on: list[Window] = []
    spans = 0
    with collecting() as collector:
        given = {"otlp_endpoint": collector.url, "trace_ratio": RATIO}
        for turn in range(2 * turns + 1):
            is_on = turn % 2 == 1
            async with flowing(rig, settings=given if is_on else {}) as stream:
                (on if is_on else off).append(await window(stream, seconds))
                await stream.finish()
            # The roles have ended, and sent what they had.
            sent, collector.bodies = collector.spans, []
            spans += sent
            if sent < 0.5 * SPANS_OF_RUN * RATIO * stream.sent * is_on:
                raise Failed(f"{stream.sent:,} runs sent {sent:,} spans: they were not traced")
    around = [statistics.mean(each.rate for each in off[at : at + 2]) for at in range(turns)]
    ratios = [each.rate / rate for each, rate in zip(on, around, strict=True)]
    return Round(
        statistics.median(ratios),
        {
            "ratios": [round(ratio, 3) for ratio in ratios],
            "without": [round(each.rate) for each in off],
            "cpu_us_a_run_without": cost(off),
            "cpu_us_a_run": cost(on),
            "cpu_more_percent": round(100 * (cost(on)["product"] / cost(off)["product"] - 1), 1),
            "spans": spans,
            "trace_ratio": RATIO,
        },
    )


CASE = Case(
    "TRACES",
    "of T2",
    0.98,
    True,
    traced,
    raw.sustained,
    "raw SQL: submit, claim and finish with history",
    checks=(Check("CPU for each run, more in percent", "cpu_more_percent", 2.0),),
)
