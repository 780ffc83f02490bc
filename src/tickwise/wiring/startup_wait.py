"""Machines come up in any order: a process waits for what it needs, and says what it waits for.

Roles on their own wait without end: their supervisor would start them again anyway, and their health port tells what is
missing. `up` has a person before it, who wants to know that an address is wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

import structlog

from tickwise.adapters.clock import SystemClock
from tickwise.domain.errors import Misconfigured, Unavailable
from tickwise.roles.shared.service import wait_for

PERSON_SECONDS: Final = 60.0
"""The time that `up` waits."""
TELL_SECONDS: Final = 10.0
"""The interval of notices that something is still waited for."""
LOOK_SECONDS: Final = 1.0

T = TypeVar("T")

logger = structlog.get_logger("tickwise.wiring")


class StoppedEarly(Exception):
    """An end was requested before all services were ready. No error."""


class StartupWait:
    """One process's, at its start."""

    def __init__(self, stop: asyncio.Event, *, most_seconds: float | None = None) -> None:
        """`stop` is set when the process is to end; `most_seconds` is how long each thing is waited for."""
        self.stop = stop
        self.awaited = "it starts"
        """The name of the awaited server, for people."""
        self._most_seconds = most_seconds
        self._clock = SystemClock()

    async def until(self, what: str, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of `call`, as soon as it raises no `Unavailable` any more.

        Raises `StoppedEarly` if the process is asked to end meanwhile, `Misconfigured` if it took too long."""
        began, told_at = self._clock.monotonic(), float("-inf")
        while True:
            try:
                return await call()
            except Unavailable as away:
                now = self._clock.monotonic()
                if self._most_seconds is not None and now - began >= self._most_seconds:
                    raise Misconfigured(
                        f"{away.detail}. It was tried for {self._most_seconds:.0f} s; check the address, and that it "
                        "runs and has room on its disk."
                    ) from away
                self.awaited = f"it waits for the {what}: {away.detail}"
                if now - told_at >= TELL_SECONDS:
                    told_at = now
                    logger.warning("awaited", what=what, detail=away.detail, waited_seconds=round(now - began))
            await wait_for(self.stop, LOOK_SECONDS)
            if self.stop.is_set():
                raise StoppedEarly
