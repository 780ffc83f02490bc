"""Wake-ups: they make things quick, never right. Any of them may be lost, repeated, late or out of order.

writer ──send(topic, about)──► (debounced) ──► every listener of that topic that is concerned, in any process:
                                               its event is set
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, Protocol
from uuid import UUID

MAX_ABOUT: Final = 200
"""Ids that one ring can name: so many fit into a notification of PostgreSQL, which has 8,000 bytes of text. A ring that
would name more names none."""


class Topic(StrEnum):
    """The kind of object that may have changed."""

    RUNS = "runs"
    """Runs may have become claimable."""
    TIMERS = "timers"
    """A timer may have come nearer than any scheduler knows."""
    CANCELS = "cancels"
    """A run was asked to stop, and an executor may hold it."""
    COMPLETIONS = "completions"
    """A run may have ended whose job names others that go on from there."""
    QUEUES = "queues"
    """A queue that stood still may go on: what waits there has been ready for long."""
    OPERATIONS = "operations"
    """Something may be asked to be done to many things at once."""
    KEYS = "keys"
    """An API key may be good no longer."""
    ENVIRONMENTS = "environments"
    """A job may declare an environment that is not built yet."""


class Signals(Protocol):
    """A bell. A listener that hears it looks into the store; one that misses it finds the same by polling, later."""

    async def start(self) -> None:
        """Begin to hear. Keeps trying in the background if the other side is away; never raises for that."""
        ...

    async def stop(self) -> None:
        """Stop hearing and free everything."""
        ...

    def send(self, topic: Topic, about: Sequence[UUID] = ()) -> None:
        """Ring, without waiting. Many calls within a few milliseconds are one ring. Never raises.

        `about`: the ids that the ring concerns, if they are known. Without ids, or with more than `MAX_ABOUT`, a ring
        concerns every listener."""
        ...

    def listen(self, topic: Topic, concerns: Callable[[UUID], bool] | None = None) -> asyncio.Event:
        """A new event that is set at each ring of `topic`, our own included; the listener clears it before it looks.

        With `concerns` it is not set by a ring that names ids of which none concerns this listener."""
        ...
