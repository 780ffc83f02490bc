"""One line in the log for each request; of very many, the failures and the total.

    answered ──► request            method, route, status, time, key and address of the caller
    flush    ──► requests_unlogged  how many lines the bound left out

The route is the template and never the path, the key is its id and never the secret.

Invariant: at a high rate a request costs no line. Lines are bounded, failures by a bound of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from tickwise.domain.model import Principal
from tickwise.domain.trace_context import TraceContext
from tickwise.observability.log_budget import LogBudget

FLUSH_SECONDS: Final = 1.1
"""After the second of what was left out, however late in it that was."""
PER_SECOND: Final = 100

logger = structlog.get_logger("tickwise.requests")


class RequestLog:
    """Of one process."""

    def __init__(self, monotonic: Callable[[], float], per_second: int = PER_SECOND) -> None:
        """`per_second` bounds the lines of requests that went well, and of the others, each; 0 logs none."""
        self._on = per_second > 0
        self._well = LogBudget(per_second, monotonic)
        self._refused = LogBudget(per_second, monotonic)
        self._flush: asyncio.TimerHandle | None = None

    def answered(
        self,
        *,
        method: str,
        route: str,
        status: int,
        seconds: float,
        request_id: str,
        principal: Principal | None,
        address: str,
        trace: TraceContext | None = None,
    ) -> None:
        """A request was answered, or its client was gone (499)."""
        if not self._on:
            return
        if not (self._well if status < 400 else self._refused).take():
            if self._flush is None:
                self._flush = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)
            return
        logger.info(
            "request",
            method=method,
            route=route,
            status=status,
            seconds=round(seconds, 6),
            request_id=request_id,
            namespace=None if principal is None else principal.namespace,
            key_id=None if principal is None or principal.key_id is None else str(principal.key_id),
            address=address,
            trace_id=None if trace is None else trace.trace_text,
            span_id=None if trace is None else trace.span_text,
        )

    def flush(self) -> None:
        """Say how many lines were left out."""
        self._flush = None
        well, refused = self._well.left_out(), self._refused.left_out()
        if well or refused:
            logger.info("requests_unlogged", answered=well, refused=refused)
