"""One open stream: what is written to its client, in a bounded buffer.

    reader ──put──► buffer ──chunks──► the client
                      │ full: the client reads slower than things happen ──► marker `end`, reason `slow_reader`
                      └ nothing for `HEARTBEAT_SECONDS` ──► a comment, with the id up to which all is sent

A stream without a job or run in its filter gets at most `RATE` events a second. What is beyond is counted, and the
marker `coalesced` says how much, so that nobody takes the rest for all.

Invariant: an event that was neither sent nor counted comes after the last id that the client has.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from enum import StrEnum
from typing import Final

import msgspec

from tickwise.control.live.filters import EventFilter
from tickwise.domain.feed import Resumed
from tickwise.domain.lifecycle import RunState
from tickwise.domain.selectors import Selector
from tickwise.roles.shared.service import wait_for

HEARTBEAT_SECONDS: Final = 15.0
"""The pace that the specification of server-sent events recommends. A thousand streams have 67 heartbeats a second."""
BUFFER_BYTES: Final = 256 << 10
"""Of one stream, beside what the connection holds: some 1,000 events."""
ROOM_SECONDS: Final = 10.0
"""A client that comes back is waited for so long, between two parts of what it missed."""
ROOM_SECONDS_BESIDE_OTHERS: Final = 1.0
"""`ROOM_SECONDS` where others come back at the same time, and wait for this one."""
RATE: Final = 1_000.0
"""Events a second of a stream that names neither jobs nor runs."""
RATE_OF_ALL: Final = 20_000.0
"""Events a second of all such streams together; each has its share."""
BURST_SECONDS: Final = 2.0
RETRY_MILLISECONDS: Final = 2_000
CLIENT_WENT: Final = "client"


class End(StrEnum):
    """The reason why the server ends a stream."""

    SLOW_READER = "slow_reader"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    STOPPING = "stopping"
    COMPLETE = "complete"


def marker(name: str, content: object, *, place: str | None = None, retry: int | None = None) -> bytes:
    """An event that is no change: `place` is the id up to which the client then has all."""
    lines = [] if place is None else [f"id: {place}"]
    lines += [] if retry is None else [f"retry: {retry}"]
    head = "".join(f"{line}\n" for line in [*lines, f"event: {name}"]).encode()
    return b"%bdata: %b\n\n" % (head, msgspec.json.encode(content))


def comment(text: str, place: str | None, *, retry: int | None = None) -> bytes:
    """Bytes that no client takes for an event; the id counts."""
    lines = [f": {text}"]
    lines += [] if retry is None else [f"retry: {retry}"]
    lines += [] if place is None else [f"id: {place}"]
    return "".join(f"{line}\n" for line in [*lines, ""]).encode()


class At:
    """The id of a place, that of many streams at once: to tell each of a thousand costs more than to read the page."""

    __slots__ = ("text",)

    def __init__(self, text: str = "") -> None:
        self.text = text


class EventStream:
    """A stream of changes."""

    def __init__(
        self,
        asked: EventFilter,
        within: Selector | None,
        monotonic: Callable[[], float],
        left: Callable[[EventStream], None],
    ) -> None:
        """`within`: the jobs that the caller may see. `left` is called once, when the stream has ended."""
        self.filter = asked
        self.within = within
        self.resumed: Resumed | None = None
        """The changes that a client had when it came back; None: it is new."""
        self.at = At()
        """The id up to which everything was put into the buffer. Streams that are up to date have one in common."""
        self.skipped: Counter[RunState] = Counter()
        """Events beyond the rate since the last marker."""
        self._monotonic = monotonic
        self._left = left
        self._parts: list[bytes] = []
        self._bytes = 0
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._last_words: bytes | None = None
        self._gone = False
        self.end_reason = CLIENT_WENT
        self._tokens = RATE * BURST_SECONDS
        self._tokens_at = monotonic()

    @property
    def ended(self) -> bool:
        """True if nothing more is taken."""
        return self._last_words is not None

    @property
    def is_empty(self) -> bool:
        """True if nothing waits to be sent."""
        return not self._parts

    def allowed(self, count: int, rate: float) -> int:
        """The number of events, of so many, that its rate lets through now."""
        if not self.filter.is_broad:
            return count
        now = self._monotonic()
        self._tokens = min(rate * BURST_SECONDS, self._tokens + (now - self._tokens_at) * rate)
        self._tokens_at = now
        passed = min(count, int(self._tokens))
        self._tokens -= passed
        return passed

    def put(self, part: bytes) -> bool:
        """Add to what is sent. False: the client was too slow, and the stream has ended."""
        if self.ended:
            return False
        if self._bytes and self._bytes + len(part) > BUFFER_BYTES:
            self._parts.clear()
            self.end(End.SLOW_READER)
            return False
        self._parts.append(part)
        self._bytes += len(part)
        self._wake.set()
        return True

    async def room(self, seconds: float) -> bool:
        """Wait until the buffer is empty. False: the client was too slow, or the stream has ended."""
        while self._bytes and not self.ended:
            self._room.clear()
            before = self._bytes
            await wait_for(self._room, seconds)
            if self._bytes >= before:
                self._parts.clear()
                self.end(End.SLOW_READER)
        return not self.ended

    @property
    def last_words(self) -> bytes:
        """The marker that ends it; empty before."""
        return self._last_words or b""

    @property
    def news(self) -> asyncio.Event:
        """Set when there is something to send, or the stream has ended."""
        return self._wake

    def take_news(self) -> bool:
        """Throw away what is in the buffer; whether there was anything."""
        found = bool(self._parts)
        self._parts.clear()
        self._bytes = 0
        self._room.set()
        if not self.ended:
            self._wake.clear()
        return found

    def abandon(self) -> None:
        """The client is gone, or nothing more is sent to it."""
        if not self._gone:
            self._gone = True
            self._left(self)

    def end(self, reason: End, **facts: object) -> None:
        """Send what is in the buffer, then say why, and end. The client may come back with its last id."""
        if self._last_words is None:
            self.end_reason = reason.value
            self._last_words = marker("end", {"reason": reason, **facts}, retry=RETRY_MILLISECONDS)
            self._wake.set()
            self._room.set()

    async def chunks(self) -> AsyncGenerator[bytes]:
        """The parts of the answer, until the stream ends."""
        try:
            yield comment("open", self.at.text, retry=RETRY_MILLISECONDS)
            while True:
                if self._parts:
                    part = b"".join(self._parts)
                    self._parts.clear()
                    self._bytes = 0
                    self._room.set()
                    yield part
                elif self._last_words is not None:
                    yield self._last_words
                    return
                else:
                    self._wake.clear()
                    await wait_for(self._wake, HEARTBEAT_SECONDS)
                    if not self._wake.is_set():
                        yield comment("heartbeat", self.at.text)
        finally:
            self.abandon()
