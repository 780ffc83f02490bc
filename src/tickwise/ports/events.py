"""What happens, told at once to whoever watches just now. Nothing is kept: who was not there, or was slow, looks into
the store, and is told that there is a reason to.

    publish(channel, value) ──► bounded, sent in batches ──► each subscription of the channel, in any process
                                     │                             │
                                     └── what had no room, or was lost on the way, or was too large: a gap

Invariant: between two events that a subscription yields nothing is missing of their channel without a gap between
them, as far as the sender and the link could know it. A process that dies with what it had not sent tells nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, Self

MAX_EVENT_BYTES: Final = 5_000
"""A larger event is told as a gap of its channel. So much fits into a notification of PostgreSQL (8,000 bytes of text);
all technologies keep to it, so that changing one changes nothing else."""
MAX_CHANNEL_LENGTH: Final = 200
"""Characters of a channel's name."""


class Event(NamedTuple):
    """One thing that a subscription yields."""

    channel: str | None
    """None, of a gap alone: something may be missing of every channel."""
    value: bytes | None
    """None: a gap; something of this channel may be missing here."""

    @property
    def is_gap(self) -> bool:
        """Whether something is missing here."""
        return self.value is None


GAP_OF_ALL: Final = Event(None, None)


class Subscription(Protocol):
    """One who watches: `async with events.subscribe(channels) as watched: async for event in watched`.

    It begins to hear when it is entered; a gap may come first, when the link is made. What it does not take is kept
    for it, in a buffer with an end; then the newest are dropped, and it is told of the gap.
    """

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> Event:
        """The next one; waits for it. Ends when `Events` is stopped."""
        ...


class Events(Protocol):
    """The channel. It never makes anybody wait, and never raises because the other side is away."""

    async def start(self) -> None:
        """Begin. Keeps trying in the background if the other side is away; never raises for that."""
        ...

    async def stop(self) -> None:
        """End every subscription and free everything."""
        ...

    def publish(self, channel: str, value: bytes) -> None:
        """Tell all who watch `channel`, those of this process at once; without waiting. Events of one publisher reach
        a subscription in their order. Raises `ValueError` for a name of a channel that is empty or too long."""
        ...

    def subscribe(self, channels: Sequence[str]) -> Subscription:
        """Watch these channels."""
        ...
