"""Traces of this process, if an address for them is set."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

import structlog

from tickwise.adapters.tracing import OtlpSpans, endpoint_of, ratio_of
from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured
from tickwise.observability.metrics import Metrics
from tickwise.observability.tracing import Tracer
from tickwise.ports.clock import Clock

RATIO: Final = 0.01
"""The share of requests and runs that begin a trace, where nothing else is said."""

logger = structlog.get_logger("tickwise.wiring")


@contextlib.asynccontextmanager
async def open_tracing(settings: Settings, metrics: Metrics, clock: Clock, role: str) -> AsyncIterator[Tracer | None]:
    """The tracer of this process; None without an address. What waits is sent at the end, for two seconds at most.

    Raises `Misconfigured` if the setting names an address, and the extra `otel` is missing. An address in the variables
    of OpenTelemetry may be meant for other programs, so then a warning is logged instead.
    """
    endpoint = endpoint_of(settings.otlp_endpoint)
    if endpoint is None:
        yield None
        return
    ratio = ratio_of(settings.trace_ratio, RATIO)
    try:
        spans = OtlpSpans(endpoint, role=role, dropped=metrics.spans_dropped, sent=metrics.spans_sent)
    except Misconfigured as missing:
        if settings.otlp_endpoint is not None:
            raise
        logger.warning("traces_unavailable", detail=missing.detail)
        yield None
        return
    try:
        yield Tracer(spans, ratio, clock)
    finally:
        await asyncio.to_thread(spans.close)
