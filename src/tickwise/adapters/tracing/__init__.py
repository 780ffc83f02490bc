"""Sends spans to a collector by OTLP over HTTP, beside the work: OpenTelemetry's own exporter, in one thread.

Its messages are filled in `encoding.py`; it knows compression, keys, certificates, time-outs and repeats.

    add, add_group ──► queue, bounded ──► thread: gathers for a second ──► exporter ──► collector
                         └── full: dropped, counted       └── failed after its repeats: dropped, counted, said once

The exporter reads the standard variables OTEL_EXPORTER_OTLP_… (headers, certificates, time-out, compression), and the
resource reads OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.

Invariant: nothing waits for the collector, except the end of the process, and that for `FLUSH_SECONDS` at most.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import structlog

from tickwise import __version__
from tickwise.domain.errors import Misconfigured
from tickwise.ports.tracing import SpanGroup, SpanRecord

if TYPE_CHECKING:
    from tickwise.adapters.tracing.encoding import SpanEncoder

QUEUE_MAX: Final = 8_192
"""Spans that wait: some 8 MB."""
BATCH: Final = 2_048
"""Spans of one request, some 0.6 MB: a request costs as much as 100 spans. A collector takes 20 MiB by its defaults."""
GATHER_SECONDS: Final = 1.0
FLUSH_SECONDS: Final = 2.0
"""The longest wait for the collector at the end of the process."""
TRACES_PATH: Final = "/v1/traces"
_RATIO_SAMPLERS: Final = frozenset({"traceidratio", "parentbased_traceidratio"})
_FIXED_SAMPLERS: Final = {
    "always_on": 1.0, "parentbased_always_on": 1.0, "always_off": 0.0, "parentbased_always_off": 0.0,
}  # fmt: skip

logger = structlog.get_logger("tickwise.tracing")


def endpoint_of(chosen: str | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """The address that traces are sent to: the chosen one, or that of OpenTelemetry's own variables; None: there is
    none, or they say that nothing is to be sent."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    if chosen is None and environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        return None
    base = chosen or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip()
    exact = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
    if chosen is None and exact:
        return exact
    if not base:
        return None
    base = base.rstrip("/")
    return base if base.endswith(TRACES_PATH) else base + TRACES_PATH


def ratio_of(chosen: float | None, otherwise: float, environ: Mapping[str, str] = os.environ) -> float:
    """The share of requests and runs that begin a trace: the chosen one, that of OTEL_TRACES_SAMPLER, or the last.
    Raises `Misconfigured` for a share that is none."""
    if chosen is not None:
        return chosen
    sampler = environ.get("OTEL_TRACES_SAMPLER", "").strip().lower()
    if sampler in _FIXED_SAMPLERS:
        return _FIXED_SAMPLERS[sampler]
    if sampler not in _RATIO_SAMPLERS:
        return otherwise
    text = environ.get("OTEL_TRACES_SAMPLER_ARG", "").strip() or "1"
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0.0 <= ratio <= 1.0:
        raise Misconfigured(f"OTEL_TRACES_SAMPLER_ARG is {text[:100]!r}, and must be a number from 0 to 1")
    return ratio


class OtlpSpans:
    """A `SpanSink` that exports. Close it at the end of the process."""

    def __init__(
        self,
        endpoint: str,
        *,
        role: str = "",
        dropped: Callable[[str, int], None] = lambda _why, _count: None,
        sent: Callable[[int], None] = lambda _count: None,
    ) -> None:
        """`dropped` is told why (`full`, `failed`, `end`) and how many spans are lost, `sent` how many arrived. Both
        are called from a thread of its own, and `full` from the caller's. Raises `Misconfigured` without the extra."""
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        except ImportError as missing:
            raise Misconfigured(
                "traces are sent by OpenTelemetry's libraries, which are not installed: pip install 'tickwise[otel]', "
                "or unset TICKWISE_OTLP_ENDPOINT and OTEL_EXPORTER_OTLP_ENDPOINT"
            ) from missing
        # Its words about each failed try; a failure is said once, below.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._exporter: Any = OTLPSpanExporter(endpoint)
        self._encoder = make_encoder(role)
        self._endpoint = endpoint
        self._dropped = dropped
        self._sent = sent
        self._queue: deque[SpanRecord | SpanGroup] = deque()
        self._added = self._taken = 0
        """Spans, since the begin. Each number is changed by one thread alone."""
        self._more = threading.Event()
        self._failing = False
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="tickwise-traces", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of spans in the queue."""
        return self._added - self._taken

    def add(self, span: SpanRecord) -> None:
        """See `SpanSink`."""
        self._add(span, 1)

    def add_group(self, group: SpanGroup) -> None:
        """See `SpanSink`."""
        self._add(group, group.size)

    def _add(self, item: SpanRecord | SpanGroup, count: int) -> None:
        waiting = self._added - self._taken + count
        if self._closing or waiting > QUEUE_MAX:
            self._dropped("full", count)
            return
        self._added += count
        self._queue.append(item)
        if waiting >= BATCH and not self._more.is_set():
            self._more.set()

    def close(self) -> None:
        """Send what waits, for `FLUSH_SECONDS` at most; the rest is dropped and counted. Blocks so long."""
        self._closing = True
        self._more.set()
        self._thread.join(FLUSH_SECONDS)
        if self._thread.is_alive():
            self._exporter.shutdown()  # ends the wait of a repeat
            self._thread.join(FLUSH_SECONDS / 4)
        else:
            self._exporter.shutdown()
        if self._queue:
            self._dropped("end", self._take(QUEUE_MAX)[1])

    def _run(self) -> None:
        while True:
            self._more.wait(GATHER_SECONDS)
            self._more.clear()
            while self._queue:
                self._send(*self._take(BATCH))
            if self._closing:
                return

    def _take(self, most: int) -> tuple[list[SpanRecord | SpanGroup], int]:
        """The oldest of what waits, and the number of its spans: about `most`, for a group is taken whole."""
        taken: list[SpanRecord | SpanGroup] = []
        count = 0
        while count < most:
            try:
                item = self._queue.popleft()
            except IndexError:
                break
            taken.append(item)
            count += item.size if isinstance(item, SpanGroup) else 1
        self._taken += count
        return taken, count

    def _send(self, batch: Sequence[SpanRecord | SpanGroup], count: int) -> None:
        try:
            body = self._encoder.request(batch)
            arrived = self._exporter._client.export(body).success  # noqa: SLF001  # `export` takes spans of the library alone, whose version is pinned
        except Exception:  # a defect of a library must not end the thread
            logger.exception("spans_unsendable", spans=count)
            arrived = False
        if arrived:
            self._sent(count)
            if self._failing:
                logger.info("spans_sent_again")
            self._failing = False
            return
        self._dropped("failed", count)
        if not self._failing:
            logger.warning("spans_unsent", spans=count, detail="the collector is away, or refuses them")
        self._failing = True


def make_encoder(role: str) -> SpanEncoder:
    """The encoder of a process with this role, which its resource names."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    from tickwise.adapters.tracing.encoding import SpanEncoder  # of the extra `otel`

    facts: dict[str, Any] = {
        "service.version": __version__,
        "service.namespace": "tickwise",
        "service.instance.id": f"{socket.gethostname()}:{os.getpid()}",
        "host.name": socket.gethostname(),
        "process.pid": os.getpid(),
    }
    if not os.environ.get("OTEL_SERVICE_NAME"):
        facts["service.name"] = f"tickwise-{role}" if role else "tickwise"
    # The variable's attributes win over ours.
    resource = Resource(facts).merge(Resource.create({}))
    if "service.name" in facts and "service.name" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        resource = resource.merge(Resource({"service.name": facts["service.name"]}))
    return SpanEncoder(resource, InstrumentationScope("tickwise", __version__))
