"""The listeners of this process and the rings that are still to be sent: the part of every bell that knows no
technology.

    send ──► Listeners.ring, at once
         └─► Pending ──(take, in batches; put back when it was not sent)──► the other processes

Invariant: both are bounded. Of each topic there is one pending ring, which names at most `MAX_ABOUT` ids or none.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from tickwise.ports.signals import MAX_ABOUT, Topic

EVERYBODY: Final[frozenset[UUID]] = frozenset()
"""The subject of a ring that names no ids."""
_ID_BYTES: Final = 16

Concerns = Callable[[UUID], bool]


class Listeners:
    """The listeners of this process."""

    def __init__(self) -> None:
        self._by_topic: defaultdict[Topic, list[tuple[asyncio.Event, Concerns | None]]] = defaultdict(list)

    def add(self, topic: Topic, concerns: Concerns | None) -> asyncio.Event:
        """One more."""
        event = asyncio.Event()
        self._by_topic[topic].append((event, concerns))
        return event

    def ring(self, topic: Topic, about: Iterable[UUID] = ()) -> None:
        """Wake the listeners that a ring concerns. A ring without ids, or with too many, concerns all of them."""
        ids = about if isinstance(about, Sequence) else tuple(about)
        for event, concerns in self._by_topic[topic]:
            if not ids or concerns is None or len(ids) > MAX_ABOUT or any(map(concerns, ids)):
                event.set()

    def ring_all(self) -> None:
        """Wake every listener, because rings may have been missed."""
        for topic in Topic:
            self.ring(topic)

    def clear(self) -> None:
        """No listener is left."""
        self._by_topic.clear()


class PendingRings:
    """The rings that other processes must hear."""

    def __init__(self) -> None:
        self._topics: dict[Topic, set[UUID] | frozenset[UUID]] = {}

    def add(self, topic: Topic, about: Iterable[UUID] = ()) -> None:
        """One more ring of a topic: together with what is pending it is one, about all of it."""
        ids, before = set(about), self._topics.get(topic)
        if not ids or before == EVERYBODY or len(ids) > MAX_ABOUT:
            self._topics[topic] = EVERYBODY
            return
        ids |= before or EVERYBODY
        self._topics[topic] = ids if len(ids) <= MAX_ABOUT else EVERYBODY

    def take(self) -> Mapping[Topic, Iterable[UUID]]:
        """Take all of it; the caller sends it, or puts it back."""
        taken, self._topics = self._topics, {}
        return taken

    def put_back(self, taken: Mapping[Topic, Iterable[UUID]]) -> None:
        """Add rings again that were not sent, or may not have been."""
        for topic, about in taken.items():
            self.add(topic, about)


def pack(about: Iterable[UUID]) -> bytes:
    """Ids as bytes, for the link."""
    return b"".join(each.bytes for each in about)


def unpack(text: bytes) -> Sequence[UUID]:
    """The ids again. A text without ids concerns every listener: a ring too many is harmless, a missing one delays
    work."""
    if len(text) % _ID_BYTES or len(text) > _ID_BYTES * MAX_ABOUT:
        return ()
    return [UUID(bytes=text[at : at + _ID_BYTES]) for at in range(0, len(text), _ID_BYTES)]
