"""The channel of events through Redis: one of its channels for each of ours, and one for gaps of all.

    publish ──► watchers here; Outgoing ──(one pipeline at a time)──► PUBLISH ──► watchers of other processes
    subscribe ──► SUBSCRIBE, confirmed by the server: a gap, because what was said before was not heard

Nothing is connected to hear before somebody watches.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Sequence
from typing import Final

from tickwise.adapters.signals.keeping import Back
from tickwise.adapters.signals.redis.link import AWAY, Hearing, RedisLink
from tickwise.adapters.signals.watching import Frame, Outgoing, Watch, Watchers, unpack
from tickwise.observability.tasks import end_tasks
from tickwise.ports.events import GAP_OF_ALL, Event

MAX_SENT: Final = 200
"""Events of one pipeline."""


class RedisEvents:
    """`ports.events.Events` over one Redis."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._origin = link.clock.noise(8)
        self._numbers = itertools.count()
        self._watchers = Watchers()
        self._outgoing = Outgoing()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """See the port."""
        if not self._tasks:
            keep = self._link.keeper.keep
            self._tasks = [
                asyncio.create_task(keep("events are not heard", self._hear), name="events: hear"),
                asyncio.create_task(keep("events are not sent", self._send), name="events: send"),
            ]

    async def stop(self) -> None:
        """See the port."""
        tasks, self._tasks = self._tasks, []
        await end_tasks(tasks)
        self._watchers.end()

    def publish(self, channel: str, value: bytes) -> None:
        """See the port."""
        self._outgoing.add(self._watchers.publish(channel, value))

    def subscribe(self, channels: Sequence[str]) -> Watch:
        """See the port."""
        return Watch(self._watchers, channels)

    def _name(self, channel: str | None) -> str:
        return self._link.key("events") if channel is None else self._link.key("events", channel)

    async def _send(self, back: Back) -> None:
        await self._outgoing.more.wait()
        self._outgoing.more.clear()
        events = self._outgoing.take()
        try:
            for at in range(0, len(events), MAX_SENT):
                await self._publish(events[at : at + MAX_SENT])
        except BaseException:
            self._outgoing.lose(events)
            raise
        back()

    async def _publish(self, events: Sequence[Event]) -> None:
        frames = [Frame(self._origin, next(self._numbers), event) for event in events]
        answers = await self._link.run([("PUBLISH", self._name(frame.event.channel), frame.pack()) for frame in frames])
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer

    async def _hear(self, back: Back) -> None:
        """Hear for those who watch, until nobody does or the connection is lost."""
        while not self._watchers.channels:
            self._watchers.changed.clear()
            await self._watchers.changed.wait()
        async with self._link.hearing([self._name(None)]) as hearing:
            follow = asyncio.create_task(self._follow(hearing), name="events: follow")
            try:
                while True:
                    said = await hearing.next()
                    if said.value is not None:
                        frame = unpack(said.value)
                        if frame.origin != self._origin:  # our own watchers heard ours when it was published
                            self._watchers.deliver(frame.event)
                        continue
                    back()
                    channel = said.channel.removeprefix(self._name(""))
                    self._watchers.deliver(GAP_OF_ALL if said.channel == self._name(None) else Event(channel, None))
            finally:
                await end_tasks([follow])

    async def _follow(self, hearing: Hearing) -> None:
        """Hear what is watched, as that changes. That the connection is lost is for who reads from it to see."""
        heard: frozenset[str] = frozenset()
        with contextlib.suppress(*AWAY):
            while True:
                self._watchers.changed.clear()
                wanted = self._watchers.channels
                await hearing.add([self._name(channel) for channel in wanted - heard])
                await hearing.drop([self._name(channel) for channel in heard - wanted])
                heard = wanted
                await self._watchers.changed.wait()
