"""A value that many ask for and that costs something to make: made once for all of them, and kept for a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from tickwise.ports.clock import Clock

Value = TypeVar("Value")

METRICS_FRESH_SECONDS: Final = 1.0
"""A rendering takes some milliseconds in which no other request is served; Prometheus asks every few seconds."""


class Fresh(Generic[Value]):
    """A value that is made on demand, at most once in `seconds`, for all callers."""

    def __init__(self, make: Callable[[], Awaitable[Value]], clock: Clock, seconds: float) -> None:
        self._make = make
        self._clock = clock
        self._seconds = seconds
        self._until = float("-inf")
        self._value: Value | None = None
        self._making: asyncio.Task[Value] | None = None
        """Under way: all that ask meanwhile wait for this one, so a slow store is not asked by all at once."""

    async def get(self) -> Value:
        """No older than `seconds`. Raises what making it raises, which the next caller tries again."""
        if self._value is not None and self._clock.monotonic() < self._until:
            return self._value
        if self._making is None:
            self._making = asyncio.create_task(self._made(), name="look at the store")
            self._making.add_done_callback(self._over)
        return await asyncio.shield(self._making)

    async def _made(self) -> Value:
        return await self._make()

    def _over(self, making: asyncio.Task[Value]) -> None:
        failed = making.cancelled() or making.exception() is not None
        self._making = None
        self._value = None if failed else making.result()
        self._until = self._clock.monotonic() + self._seconds
