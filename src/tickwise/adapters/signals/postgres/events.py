"""The channel of events through PostgreSQL: LISTEN and NOTIFY, each of our channels under the hash of its name, since
names in the database have 63 bytes.

    publish ──► watchers here; Outgoing ──(one transaction at a time)──► NOTIFY, as text ──► watchers elsewhere
    subscribe ──► LISTEN, and then a gap, because what was said before was not heard

A connection is made when somebody first watches or publishes, not before.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import itertools
from collections.abc import Sequence
from typing import Final

import asyncpg

from tickwise.adapters.signals.keeping import Back, wait_within
from tickwise.adapters.signals.postgres.link import CHECK_SECONDS, PostgresLink, statement
from tickwise.adapters.signals.watching import Frame, Outgoing, Watch, Watchers, unpack
from tickwise.observability.tasks import end_tasks
from tickwise.ports.events import GAP_OF_ALL, Event

MAX_SENT: Final = 200
"""Events of one transaction: the queue of notifications is the server's, and has an end (8 GB, shared by all)."""
QUIET_SECONDS: Final = 0.002
"""Between two transactions of one process."""

_NOTIFY: Final = statement("notify")
_OF_ALL: Final = "tickwise_events"


class PostgresEvents:
    """`ports.events.Events` over one database."""

    def __init__(self, link: PostgresLink) -> None:
        self._link = link
        self._clock = link.clock
        self._origin = link.clock.noise(8)
        self._numbers = itertools.count()
        self._watchers = Watchers()
        self._outgoing = Outgoing()
        self._more = asyncio.Event()
        """Something is to be sent, somebody began or ended to watch, or the link is lost."""
        self._watchers.changed = self._outgoing.more = self._more
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """See the port."""
        if self._task is None:
            step = self._link.keeper.keep("events are neither heard nor sent", self._run)
            self._task = asyncio.create_task(step, name="events")

    async def stop(self) -> None:
        """See the port."""
        task, self._task = self._task, None
        if task is not None:
            await end_tasks([task])
        self._watchers.end()

    def publish(self, channel: str, value: bytes) -> None:
        """See the port."""
        self._outgoing.add(self._watchers.publish(channel, value))

    def subscribe(self, channels: Sequence[str]) -> Watch:
        """See the port."""
        return Watch(self._watchers, channels)

    async def _run(self, back: Back) -> None:
        """Until the link is lost."""
        await self._more.wait()
        async with self._link.linked(self._more.set) as connection:
            heard: dict[str, str] = {}
            await connection.add_listener(_OF_ALL, self._heard)
            back()
            while True:
                self._more.clear()
                await self._listen(connection, heard)
                await self._send(connection)
                await self._clock.sleep(QUIET_SECONDS)
                await wait_within(self._more, CHECK_SECONDS)

    async def _listen(self, connection: asyncpg.Connection, heard: dict[str, str]) -> None:
        """Hear what is watched now; `heard` has it by the names of the database."""
        wanted = {_name(channel): channel for channel in self._watchers.channels}
        for name in heard.keys() - wanted.keys():
            del heard[name]
            await connection.remove_listener(name, self._heard)
        for name in wanted.keys() - heard.keys():
            await connection.add_listener(name, self._heard)
            heard[name] = wanted[name]
            self._watchers.deliver(Event(wanted[name], None))

    async def _send(self, connection: asyncpg.Connection) -> None:
        """What waits; at least a question whether the link is alive."""
        events = self._outgoing.take()
        frames = [Frame(self._origin, next(self._numbers), event) for event in events]
        try:
            for at in range(0, max(1, len(frames)), MAX_SENT):
                batch = frames[at : at + MAX_SENT]
                names = [_OF_ALL if frame.event.channel is None else _name(frame.event.channel) for frame in batch]
                await connection.execute(_NOTIFY, names, [base64.b64encode(frame.pack()).decode() for frame in batch])
        except BaseException:
            self._outgoing.lose(events)
            raise

    def _heard(self, _connection: object, _pid: int, _name: str, payload: object) -> None:
        try:
            frame = unpack(base64.b64decode(str(payload), validate=True))
        except (binascii.Error, ValueError):
            self._watchers.deliver(GAP_OF_ALL)  # written by somebody else
            return
        if frame.origin != self._origin:  # our own watchers heard ours when it was published
            self._watchers.deliver(frame.event)


def _name(channel: str) -> str:
    """Two channels under one name would only hear too much: the frame names its channel."""
    return f"tickwise_{hashlib.blake2b(channel.encode(), digest_size=16).hexdigest()}"
