"""Who watches events in this process, what waits to be sent to others, and how it is written: the part of every channel
of events that knows no technology.

    publish ──► Watchers, at once
            └─► Outgoing ──(take, in batches)──► a frame each ──► the Watchers of other processes
                  │ full, or not sent: the channel is lost, and a gap is sent for it
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Self

from tickwise.ports.events import GAP_OF_ALL, MAX_CHANNEL_LENGTH, MAX_EVENT_BYTES, Event

MAX_WAITING: Final = 1_000
"""Events that wait for one subscription, and …"""
MAX_OUTGOING: Final = 2_000
"""… for the link of a process: 10 MB of the largest."""
MAX_LOST: Final = 500
"""Channels that are known to have a gap that was not sent; beyond that all have one."""
_ORIGIN_BYTES: Final = 8
_NUMBER_BYTES: Final = 8
_HEAD_BYTES: Final = _ORIGIN_BYTES + _NUMBER_BYTES + 2


def check_channel(channel: str) -> None:
    """Raises `ValueError` for a name that no channel can have."""
    if not 0 < len(channel) <= MAX_CHANNEL_LENGTH or "\0" in channel:
        raise ValueError(f"the name of a channel has 1 to {MAX_CHANNEL_LENGTH} characters, and no U+0000")
    channel.encode()  # a lone surrogate is a ValueError too


class Watch:
    """One subscription."""

    def __init__(self, watchers: Watchers, channels: Sequence[str]) -> None:
        for channel in channels:
            check_channel(channel)
        self.channels = frozenset(channels)
        self._watchers = watchers
        self._waiting: deque[Event] = deque()
        self._gaps: dict[str | None, None] = {}
        self._more = asyncio.Event()
        self._over = False

    async def __aenter__(self) -> Self:
        self._watchers.add(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watchers.drop(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while True:
            if self._waiting:
                return self._waiting.popleft()
            if self._gaps:
                channel = next(iter(self._gaps))
                del self._gaps[channel]
                return Event(channel, None)
            if self._over:
                raise StopAsyncIteration
            self._more.clear()
            await self._more.wait()

    def deliver(self, event: Event) -> None:
        """One more event, or a gap. What follows a gap that was not taken yet is part of it."""
        if None in self._gaps or event.channel in self._gaps:
            return
        if event.is_gap or len(self._waiting) >= MAX_WAITING:
            self._gaps[event.channel] = None
        else:
            self._waiting.append(event)
        self._more.set()

    def end(self) -> None:
        """Nothing more comes."""
        self._over = True
        self._more.set()


class Watchers:
    """All subscriptions of a process."""

    def __init__(self) -> None:
        self._watches: set[Watch] = set()
        self.changed = asyncio.Event()
        """Set when somebody begins or ends to watch."""

    @property
    def channels(self) -> frozenset[str]:
        """That somebody watches."""
        return frozenset().union(*(watch.channels for watch in self._watches))

    def add(self, watch: Watch) -> None:
        """It begins to hear."""
        self._watches.add(watch)
        self.changed.set()

    def drop(self, watch: Watch) -> None:
        """It hears no more."""
        self._watches.discard(watch)
        self.changed.set()

    def deliver(self, event: Event) -> None:
        """To everyone whom it concerns."""
        for watch in self._watches:
            if event.channel is None or event.channel in watch.channels:
                watch.deliver(event)

    def publish(self, channel: str, value: bytes) -> Event:
        """To everyone in this process; what is to be sent to the others. Raises `ValueError` as the port says."""
        check_channel(channel)
        event = Event(channel, bytes(value) if len(value) <= MAX_EVENT_BYTES else None)
        self.deliver(event)
        return event

    def end(self) -> None:
        """Nobody hears anything any more."""
        for watch in self._watches:
            watch.end()
        self._watches.clear()


class Outgoing:
    """What waits for the link."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._lost: dict[str | None, None] = {}
        self.more = asyncio.Event()

    def add(self, event: Event) -> None:
        """One more; without room its channel has a gap, and so has all that follows there until that is sent."""
        if None in self._lost or event.channel in self._lost:
            return
        if event.is_gap or len(self._events) >= MAX_OUTGOING:
            self._lose(event.channel)
        else:
            self._events.append(event)
        self.more.set()

    def take(self) -> list[Event]:
        """All of it, gaps last. Whoever waits for `more` clears it before."""
        taken = [*self._events, *(Event(channel, None) for channel in self._lost)]
        self._events.clear()
        self._lost.clear()
        return taken

    def lose(self, events: Iterable[Event]) -> None:
        """They were not sent, or nobody knows: their channels have a gap."""
        for event in events:
            self._lose(event.channel)
        self.more.set()

    def _lose(self, channel: str | None) -> None:
        if channel is None or len(self._lost) >= MAX_LOST:
            self._lost = {None: None}
            self._events.clear()
        elif None not in self._lost:
            self._lost[channel] = None  # what still waits of this channel goes before the gap


class Frame(NamedTuple):
    """An event as it travels: its sender, its number there (equal events must stay two), itself."""

    origin: bytes
    number: int
    event: Event

    def pack(self) -> bytes:
        """As bytes."""
        channel, value = self.event
        name = (channel or "").encode()
        head = self.origin + self.number.to_bytes(_NUMBER_BYTES, "big") + len(name).to_bytes(2, "big")
        return head + name + (b"-" if value is None else b"+" + value)


def unpack(text: bytes) -> Frame:
    """What was packed; what nobody of ours wrote is a gap of all channels."""
    length = int.from_bytes(text[_HEAD_BYTES - 2 : _HEAD_BYTES], "big")
    name, rest = text[_HEAD_BYTES : _HEAD_BYTES + length], text[_HEAD_BYTES + length :]
    try:
        channel = name.decode()
    except UnicodeDecodeError:
        rest = b""
    if rest[:1] not in (b"+", b"-") or not (channel or rest == b"-"):
        return Frame(b"", 0, GAP_OF_ALL)
    number = int.from_bytes(text[_ORIGIN_BYTES : _ORIGIN_BYTES + _NUMBER_BYTES], "big")
    event = Event(channel, rest[1:] if rest[:1] == b"+" else None) if channel else GAP_OF_ALL
    return Frame(text[:_ORIGIN_BYTES], number, event)
