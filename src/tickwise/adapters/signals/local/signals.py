"""A bell inside one process: for the memory store, which no other process uses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

from tickwise.adapters.signals.listeners import Concerns, Listeners
from tickwise.ports.signals import Topic


class LocalSignals:
    """Rings at once; nothing is debounced, because setting an event twice is setting it once."""

    def __init__(self) -> None:
        self._listeners = Listeners()

    async def start(self) -> None:
        """There is nothing to begin."""

    async def stop(self) -> None:
        """Forget the listeners."""
        self._listeners.clear()

    def send(self, topic: Topic, about: Sequence[UUID] = ()) -> None:
        """See the port."""
        self._listeners.ring(topic, about)

    def listen(self, topic: Topic, concerns: Concerns | None = None) -> asyncio.Event:
        """See the port."""
        return self._listeners.add(topic, concerns)
