"""Wake-ups: they make things quick, never right. Any of them may be lost, repeated, late or out of order.

writer ──send(topic)──► (debounced) ──► every listener of that topic, in any process: its event is set
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Protocol


class Topic(StrEnum):
    """What may have changed."""

    RUNS = "runs"
    """Runs may have become claimable."""
    TIMERS = "timers"
    """A timer may have come nearer than any scheduler knows."""
    CANCELS = "cancels"
    """An executor may hold a run that somebody wants stopped."""
    FOLLOWS = "follows"
    """A run may have ended whose job names others that go on from there."""
    OPERATIONS = "operations"
    """Something may be asked to be done to many things at once."""


class Signals(Protocol):
    """A bell. Who hears it looks into the store; who does not finds the same by polling, later."""

    async def start(self) -> None:
        """Begin to hear. Keeps trying in the background if the other side is away; never raises for that."""
        ...

    async def stop(self) -> None:
        """Stop hearing and free everything."""
        ...

    def send(self, topic: Topic) -> None:
        """Ring, without waiting. Many calls within a few milliseconds are one ring. Never raises."""
        ...

    def listen(self, topic: Topic) -> asyncio.Event:
        """A new event that is set at each ring of `topic`, our own included; the listener clears it before it looks."""
        ...
