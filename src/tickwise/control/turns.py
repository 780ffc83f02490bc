"""Long work on the event loop is done in pieces, and others get a turn after each."""

from __future__ import annotations

from typing import Final

from tickwise.ports.clock import Clock

ITEMS: Final = 200
"""Composing a job takes some 20 µs, so others wait for 4 ms."""
BYTES: Final = 256 << 10
"""A task is read and written again at about 100 MB/s, so others wait for 3 ms, and for one item."""


class Turns:
    """One piece of work: counts what it has done, by items and by bytes."""

    def __init__(self, clock: Clock, *, items: int = ITEMS) -> None:
        self._clock = clock
        self._items = items
        self._items_done = 0
        self._bytes_done = 0

    def is_over(self, size: int) -> bool:
        """Count one more item of so many bytes; whether it is the turn of others before it."""
        self._items_done += 1
        self._bytes_done += size
        return self._items_done >= self._items or self._bytes_done >= BYTES

    async def give(self) -> None:
        """Let others work."""
        self._items_done = self._bytes_done = 0
        await self._clock.sleep(0)
