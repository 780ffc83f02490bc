"""A bell through Redis: publish and subscribe, for all processes of one cluster.

    send ──► own listeners at once
         └─► pending ──(at once; within 2 ms of the last ring, then)──► PUBLISH ──► everybody who hears just now
                                                            cancels ──► a stream, for a minute ──► who comes back

Publishing reaches only those who listen at that moment. So a process that (re)connects wakes all of its listeners; and
cancels, which somebody waits for, are also kept for `KEPT_SECONDS`, and read every two seconds from where one was: a
ring that got lost without the link being lost (the server moved, a replica was asked) is late by that much and no more.

All of it may vanish, fail or be slow: a ring is pending until it was sent, together with those that come meanwhile,
and never more than one a topic.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from tickwise.adapters.signals.keeping import Back, wait_within
from tickwise.adapters.signals.listeners import Concerns, Listeners, PendingRings, pack, unpack
from tickwise.adapters.signals.redis.link import CHECK_SECONDS, Command, RedisLink
from tickwise.observability.tasks import end_tasks
from tickwise.ports.signals import Topic

QUIET_SECONDS: Final = 0.002
"""Between two rings of one process; the same as through PostgreSQL, where it was measured."""
KEPT_SECONDS: Final = 60
"""The time after the last cancel for which those of the last minute are kept."""
MAX_KEPT: Final = 2_000
"""Rings about cancels that are kept, about; with all their ids 6 MB."""
MAX_CATCH_UP: Final = 500
"""Of those, read at once."""
_ORIGIN_BYTES: Final = 8
_MARK_BYTES: Final = 16
"""Of a ring: its origin and its number there, before the ids that it is about."""

log = logging.getLogger(__name__)


class RedisSignals:
    """`ports.signals.Signals` over one Redis."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._clock = clock = link.clock
        self._origin = clock.random_bytes(_ORIGIN_BYTES)
        self._listeners = Listeners()
        self._pending = PendingRings()
        self._wanted = asyncio.Event()
        self._channels = {link.key("signals", topic): topic for topic in Topic}
        self._kept = link.key("cancels")
        self._seen = "-"
        """The last kept cancel that was looked at, as the server names it."""
        self._next_look = 0.0
        self._heard_cancels: dict[bytes, None] = {}
        """Marks of the last `MAX_KEPT` that were heard, so that they are not heard again from what was kept."""
        self._numbers = itertools.count()
        self._refused = False
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """See the port."""
        if not self._tasks:
            self._wanted.set()  # so that the first look at what was kept is now
            keep = self._link.keeper.keep
            self._tasks = [
                asyncio.create_task(keep("wake-ups are not heard", self._hear), name="signals: hear"),
                asyncio.create_task(keep("wake-ups are not sent", self._ring), name="signals: ring"),
            ]

    async def stop(self) -> None:
        """See the port."""
        tasks, self._tasks = self._tasks, []
        await end_tasks(tasks)
        self._listeners.clear()

    def send(self, topic: Topic, about: Sequence[UUID] = ()) -> None:
        """See the port."""
        self._listeners.ring(topic, about)
        self._pending.add(topic, about)
        self._wanted.set()

    def listen(self, topic: Topic, concerns: Concerns | None = None) -> asyncio.Event:
        """See the port."""
        return self._listeners.add(topic, concerns)

    # ------------------------------------------------------------------ hearing

    async def _hear(self, back: Back) -> None:
        """Hear, until the connection is lost."""
        async with self._link.hearing(list(self._channels)) as hearing:
            while True:
                said = await hearing.next()
                topic = self._channels.get(said.channel)
                if topic is None:
                    continue
                if said.value is None:
                    back()
                    self._listeners.ring(topic)  # the rings that were missed meanwhile
                else:
                    self._carry(topic, said.value)

    def _carry(self, topic: Topic, ring: bytes) -> None:
        """Wake the listeners that a ring of another process concerns; our own rings woke them when they were sent."""
        mark, about = ring[:_MARK_BYTES], ring[_MARK_BYTES:]
        if mark[:_ORIGIN_BYTES] == self._origin or mark in self._heard_cancels:
            return
        if topic is Topic.CANCELS:
            self._heard_cancels[mark] = None
            if len(self._heard_cancels) > MAX_KEPT:
                del self._heard_cancels[next(iter(self._heard_cancels))]
        self._listeners.ring(topic, unpack(about))

    # ------------------------------------------------------------------ ringing

    async def _ring(self, back: Back) -> None:
        """Send the pending rings, and look at the kept ones."""
        await wait_within(self._wanted, CHECK_SECONDS)
        self._wanted.clear()
        rings = self._pending.take()
        try:
            if rings:
                await self._publish(rings)
                rings = {}
            await self._catch_up()
        except BaseException:
            self._pending.put_back(rings)
            self._wanted.set()
            raise
        back()
        await self._clock.sleep(QUIET_SECONDS)

    async def _publish(self, rings: Mapping[Topic, Iterable[UUID]]) -> None:
        sent = {topic: self._mark() + pack(about) for topic, about in rings.items()}
        commands: list[Command] = [("PUBLISH", self._link.key("signals", topic), ring) for topic, ring in sent.items()]
        if Topic.CANCELS in sent:
            kept = ("MAXLEN", "~", MAX_KEPT, "*", "ring", sent[Topic.CANCELS])
            commands += [("XADD", self._kept, *kept), ("EXPIRE", self._kept, KEPT_SECONDS)]
        answers = await self._link.run(commands)
        for refused in answers[: len(rings)]:
            if isinstance(refused, Exception):
                raise refused
        self._kept_or_not(answers[len(rings) :])

    def _mark(self) -> bytes:
        return self._origin + next(self._numbers).to_bytes(_MARK_BYTES - _ORIGIN_BYTES, "big")

    def _kept_or_not(self, answers: Sequence[object]) -> None:
        """A replica that may not be written to, or a full memory, still rings: that is said, once."""
        refused = next((each for each in answers if isinstance(each, Exception)), None)
        if refused is not None and not self._refused:
            log.warning("Redis does not keep cancels: %s", refused)
        if answers:
            self._refused = refused is not None

    async def _catch_up(self) -> None:
        """Hear the cancels that were kept since the last look, every two seconds."""
        if self._clock.monotonic() < self._next_look:
            return
        since = "-" if self._seen == "-" else f"({self._seen}"
        found = await self._link.ask("XRANGE", self._kept, since, "+", "COUNT", MAX_CATCH_UP)
        for number, fields in found:
            self._seen = number.decode()
            self._carry(Topic.CANCELS, fields[b"ring"])
        self._next_look = self._clock.monotonic() + CHECK_SECONDS
