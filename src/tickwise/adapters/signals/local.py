"""A bell inside one process: for the memory store, where nobody else could hear it."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from tickwise.ports.signals import Topic


class LocalSignals:
    """Rings at once; nothing is debounced, because setting an event twice is setting it once."""

    def __init__(self) -> None:
        self._listeners: defaultdict[Topic, list[asyncio.Event]] = defaultdict(list)

    async def start(self) -> None:
        """There is nothing to begin."""

    async def stop(self) -> None:
        """Forget who listens."""
        self._listeners.clear()

    def send(self, topic: Topic) -> None:
        """Every listener of `topic` is woken."""
        for event in self._listeners[topic]:
            event.set()

    def listen(self, topic: Topic) -> asyncio.Event:
        """A new event that is set at each ring."""
        event = asyncio.Event()
        self._listeners[topic].append(event)
        return event
