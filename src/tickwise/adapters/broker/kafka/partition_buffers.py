"""Fetched messages that are not taken yet, by partition. The fetching thread writes them, the event loop takes them.

    thread: put ──► │ runs.p9/0  ▒▒▒▒▒▒▒▒ │ ──► take: loop
                    │ runs.p9/1  ▒▒       │
            held ◄──│ runs.p0/0  ▒▒▒▒▒▒▒▒ │ ◄── done: loop
                    └── what is full is paused, and fetched again at half

Invariants: bounded by count and by bytes, however many partitions there are. Of each partition in order and without a
gap since it was assigned. A revoked partition is removed at once: none of its messages is taken, and a message done
afterwards has no effect. Every method holds the lock for microseconds.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tickwise.adapters.broker.ledger import FAIR_EVERY, Head, Ledger, pick
from tickwise.ports.broker import Channel, Delivery

MAX_WAITING: Final = 5_000
"""Messages of one consumer, all its partitions together."""
MAX_WAITING_BYTES: Final = 32 << 20
MAX_BATCH: Final = 500
"""Messages put at once."""


class PartitionId(NamedTuple):
    """One partition of one channel."""

    channel: Channel
    partition: int


class PartitionBuffer:
    """The messages of one partition."""

    __slots__ = ("dirty", "end", "kept", "ledger", "paused")

    def __init__(self) -> None:
        self.kept: deque[Delivery] = deque()
        self.ledger: Ledger | None = None
        """From the first message on."""
        self.paused = False
        self.end = 0
        """The offset of the broker's next message, as last read."""
        self.dirty = False
        """A message is done that no commit covers yet."""


class Turning(NamedTuple):
    """The commands to the fetching thread."""

    pause: list[PartitionId]
    resume: list[PartitionId]


class PartitionBuffers:
    """The messages of all partitions of one consumer."""

    def __init__(self, channels: Sequence[Channel]) -> None:
        self._urgency = {channel: place for place, channel in enumerate(channels)}
        self._lock = threading.Lock()
        self._buffers: dict[PartitionId, PartitionBuffer] = {}
        self._takes = 0
        self._bytes = 0
        self.waiting = 0
        """Messages that were put and not taken."""

    # ---------------------------------------------------------------------------------------------- the thread's

    def assign(self, places: Iterable[PartitionId]) -> None:
        """Add partitions; the first message of each says where it begins."""
        with self._lock:
            for place in places:
                self._drop(place)
                self._buffers[place] = PartitionBuffer()

    def revoke(self, places: Iterable[PartitionId]) -> None:
        """Drop partitions that are assigned to this member no longer."""
        with self._lock:
            for place in places:
                self._drop(place)

    def room(self) -> int:
        """The number of further messages that may be put now."""
        with self._lock:
            return 0 if self._bytes >= MAX_WAITING_BYTES else min(MAX_BATCH, MAX_WAITING - self.waiting)

    def put(self, deliveries: Iterable[Delivery]) -> int:
        """Add deliveries that were fetched; the number of those that are new and of assigned partitions."""
        count = 0
        with self._lock:
            for delivery in deliveries:
                buffer = self._buffers.get(PartitionId(delivery.channel, delivery.partition))
                if buffer is None or _end(buffer) > delivery.offset:
                    continue  # of a partition that was revoked meanwhile, or fetched again after a pause
                buffer.kept.append(delivery)
                count += 1
                self._bytes += len(delivery.value)
            self.waiting += count
        return count

    def turn(self) -> Turning:
        """The partitions to pause and to resume now. It is said once: the caller does it."""
        with self._lock:
            # All buffers at their limit and one batch more are within the bound of all.
            limit = max(1, (MAX_WAITING - MAX_BATCH) // max(1, len(self._buffers)))
            full = self.waiting + MAX_BATCH > MAX_WAITING or self._bytes >= MAX_WAITING_BYTES
            turning = Turning([], [])
            for place, buffer in self._buffers.items():
                held = len(buffer.kept)
                if not buffer.paused and (held >= limit or (full and held)):
                    buffer.paused = True
                    turning.pause.append(place)
                elif buffer.paused and held <= limit // 2 and not (full and held):
                    buffer.paused = False
                    turning.resume.append(place)
            return turning

    def paused(self) -> frozenset[PartitionId]:
        """The partitions whose fetching is paused."""
        with self._lock:
            return frozenset(place for place, buffer in self._buffers.items() if buffer.paused)

    def any_paused(self) -> bool:
        """True if a partition waits to be resumed."""
        with self._lock:
            return any(buffer.paused for buffer in self._buffers.values())

    def to_commit(self, places: Iterable[PartitionId] | None = None) -> dict[PartitionId, int]:
        """Of these partitions (None: of all), those of which something is done that no commit has told, with the
        offset to commit."""
        offsets = {}
        with self._lock:
            for place in self._buffers if places is None else places:
                buffer = self._buffers.get(place)
                if buffer is not None and buffer.dirty and buffer.ledger is not None:
                    buffer.dirty = False
                    offsets[place] = buffer.ledger.committed()
        return offsets

    def not_committed(self, places: Iterable[PartitionId]) -> None:
        """Mark the partitions of a failed commit, so that it is sent again."""
        with self._lock:
            for place in places:
                if place in self._buffers:
                    self._buffers[place].dirty = True

    def ends(self, ends: Mapping[PartitionId, int]) -> None:
        """The present ends of these partitions on the broker."""
        with self._lock:
            for place, end in ends.items():
                if place in self._buffers:
                    self._buffers[place].end = end

    @property
    def is_empty(self) -> bool:
        """No partition is ours."""
        return not self._buffers

    def next(self, place: PartitionId) -> int:
        """The lowest offset of this partition that is not known yet; 0 if nothing was fetched of it."""
        with self._lock:
            buffer = self._buffers.get(place)
            return _end(buffer) if buffer is not None else 0

    def places(self) -> list[PartitionId]:
        """The assigned partitions."""
        with self._lock:
            return list(self._buffers)

    # ---------------------------------------------------------------------------------------------- the loop's

    def take(self, limit: int) -> list[Delivery]:
        """Up to `limit`, as the port says."""
        with self._lock:
            heads = [
                (place, Head(self._urgency[place.channel], buffer.kept[0].sent_at, len(buffer.kept)))
                for place, buffer in self._buffers.items()
                if buffer.kept
            ]
            if not heads:
                return []
            self._takes += 1
            taken = []
            for place, count in pick(heads, limit, oldest_first=self._takes % FAIR_EVERY == 0):
                buffer = self._buffers[place]
                ledger = buffer.ledger = buffer.ledger or Ledger(buffer.kept[0].offset)
                for _ in range(count):
                    delivery = buffer.kept.popleft()
                    ledger.take(delivery.offset)
                    taken.append(delivery)
                    self._bytes -= len(delivery.value)
            self.waiting -= len(taken)
            return taken

    def done(self, deliveries: Iterable[Delivery]) -> None:
        """Mark deliveries as done: they need not come again."""
        with self._lock:
            for delivery in deliveries:
                buffer = self._buffers.get(PartitionId(delivery.channel, delivery.partition))
                if buffer is not None and buffer.ledger is not None:
                    buffer.ledger.done(delivery.offset)
                    buffer.dirty = True

    def lag(self) -> dict[str, int]:
        """By name of the channel: what is not done, up to where each partition ended when it was looked last."""
        lag = {channel.name: 0 for channel in self._urgency}
        with self._lock:
            for place, buffer in self._buffers.items():
                first = buffer.kept[0].offset if buffer.kept else buffer.end
                at = buffer.ledger.committed() if buffer.ledger is not None else first
                lag[place.channel.name] += max(0, buffer.end - at)
        return lag

    def _drop(self, place: PartitionId) -> None:
        buffer = self._buffers.pop(place, None)
        if buffer is not None:
            self.waiting -= len(buffer.kept)
            self._bytes -= sum(len(delivery.value) for delivery in buffer.kept)


def _end(buffer: PartitionBuffer) -> int:
    """The lowest offset that is not known yet."""
    if buffer.kept:
        return buffer.kept[-1].offset + 1
    return buffer.ledger.next if buffer.ledger is not None else 0
