"""The partitions that are read from their first message, because their topics were deleted and made again.

An offset that was committed for the old topic says nothing of the new one, and may be told to the broker after the new
one was made: by this member, or by another that hears of it later. If the new topic has grown past it, a member that
begins there skips messages.

Invariant: each partition begins anew at the first assignment after this member heard of it, and at one that follows
within `HEARD_SECONDS`, once; after that, what is committed is of the new topic.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from typing import Final

from tickwise.adapters.broker.kafka.partition_buffers import PartitionId
from tickwise.ports.broker import Channel

HEARD_SECONDS: Final = 60.0
"""By then every member of a group has heard of it: each looks every few seconds."""


class _New:
    """One channel whose topic is another one."""

    __slots__ = ("begun", "heard_at", "joined")

    def __init__(self, heard_at: float) -> None:
        self.heard_at = heard_at
        self.joined = False
        """There was an assignment since."""
        self.begun: set[PartitionId] = set()


class Remade:
    """The knowledge of one member; written in the event loop, read in the member's thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channels: dict[Channel, _New] = {}

    def heard(self, channels: Collection[Channel], now: float) -> None:
        """Note the channels whose topics were made again."""
        with self._lock:
            self._channels |= {channel: _New(now) for channel in channels}

    def assigned(self, places: Iterable[PartitionId], now: float) -> set[PartitionId]:
        """Note assigned partitions; those that must be read from where they begin."""
        with self._lock:
            known = {
                channel: new
                for channel, new in self._channels.items()
                if not new.joined or now < new.heard_at + HEARD_SECONDS
            }
            self._channels = known
            begin = {place for place in places if place.channel in known and place not in known[place.channel].begun}
            for new in known.values():
                new.joined = True
            for place in begin:
                known[place.channel].begun.add(place)
            return begin
