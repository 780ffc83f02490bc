"""A bell through PostgreSQL: LISTEN and NOTIFY on a connection of its own, for all processes of one database.

    send ──► own listeners at once
         └─► pending topics ──(at once; within 2 ms of the last ring, then)──► one NOTIFY a topic ──► everybody else
                                                                              its payload: the ids that it is about

A NOTIFY in a transaction that writes data makes commits wait for each other (6.7k inserts a second became 1.5k); here
none does, and hundreds of calls are one ring. When the link is lost it is made again in the background; all listeners
are woken then, because rings may have been missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final
from uuid import UUID

import asyncpg

from tickwise.adapters.signals.keeping import Back, wait_within
from tickwise.adapters.signals.listeners import Concerns, Listeners, PendingRings, pack, unpack
from tickwise.adapters.signals.postgres.link import CHECK_SECONDS, PostgresLink, statement
from tickwise.observability.tasks import end_tasks
from tickwise.ports.signals import Topic

QUIET_SECONDS: Final = 0.002
"""Between two rings of one process. With 5 ms, each of 200 jobs a second waited 3 ms for the ring before its own."""

_RING: Final = statement("ring")
_TOPICS: Final = {f"tickwise_{topic}": topic for topic in Topic}


class PostgresSignals:
    """`ports.signals.Signals` over one database."""

    def __init__(self, link: PostgresLink) -> None:
        self._link = link
        self._clock = link.clock
        self._listeners = Listeners()
        self._pending = PendingRings()
        self._wanted = asyncio.Event()
        self._own_pid = 0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """See the port."""
        if self._task is None:
            step = self._link.keeper.keep("wake-ups are neither heard nor sent", self._run)
            self._task = asyncio.create_task(step, name="signals")

    async def stop(self) -> None:
        """See the port."""
        task, self._task = self._task, None
        if task is not None:
            await end_tasks([task])
        self._listeners.clear()

    def send(self, topic: Topic, about: Sequence[UUID] = ()) -> None:
        """See the port."""
        self._listeners.ring(topic, about)
        self._pending.add(topic, about)
        self._wanted.set()

    def listen(self, topic: Topic, concerns: Concerns | None = None) -> asyncio.Event:
        """See the port."""
        return self._listeners.add(topic, concerns)

    async def _run(self, back: Back) -> None:
        """Hear, and send what is pending, until the link is lost."""
        async with self._link.linked(self._wanted.set) as connection:
            for channel in _TOPICS:
                await connection.add_listener(channel, self._heard)
            self._own_pid = connection.get_server_pid()
            self._listeners.ring_all()  # the rings that were missed meanwhile
            back()
            while True:
                await wait_within(self._wanted, CHECK_SECONDS)
                self._wanted.clear()
                await self._ring(connection)
                await self._clock.sleep(QUIET_SECONDS)

    def _heard(self, _connection: object, pid: int, channel: str, payload: object) -> None:
        if pid != self._own_pid:  # our own listeners heard it when it was sent
            self._listeners.ring(_TOPICS[channel], _ids(str(payload)))

    async def _ring(self, connection: asyncpg.Connection) -> None:
        """Send pending rings; at least ask whether the link is alive."""
        rings = self._pending.take()
        about = [pack(ids).hex() for ids in rings.values()]
        try:
            await connection.execute(_RING, [f"tickwise_{topic}" for topic in rings], about)
        except BaseException:
            self._pending.put_back(rings)
            self._wanted.set()
            raise


def _ids(payload: str) -> Sequence[UUID]:
    try:
        return unpack(bytes.fromhex(payload))
    except ValueError:
        return ()  # from another program: it concerns every listener
