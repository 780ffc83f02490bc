"""A bell through PostgreSQL: LISTEN and NOTIFY on a connection of its own, for all processes of one database.

    send ──► own listeners at once
         └─► pending topics ──(at once; within 2 ms of the last ring, then)──► one NOTIFY a topic ──► everybody else
                                                                              its payload: the ids that it is about

A NOTIFY in a transaction that writes data makes commits wait for each other (6.7k inserts a second became 1.5k); here
none does, and hundreds of calls are one ring. When the link is lost it is made again in the background; whoever listens
is woken then, because rings may have been missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

import asyncpg

from tickwise.adapters.signals.listeners import Concerns, Listeners, Pending, pack, unpack
from tickwise.ports.clock import Clock
from tickwise.ports.signals import Topic

QUIET_SECONDS: Final = 0.002
"""Between two rings of one process. With 5 ms, each of 200 jobs a second waited 3 ms for the ring before its own."""

CONNECT_SECONDS: Final = 10.0
CHECK_SECONDS: Final = 30.0
"""How often a quiet link is tried, so that one that died without a word is found out."""

RETRY_SECONDS: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)

_RING: Final = "\n".join(
    line
    for line in Path(__file__).with_name("sql").joinpath("ring.sql").read_text(encoding="utf-8").splitlines()
    if not line.startswith("--")
)
_TOPICS: Final = {f"tickwise_{topic}": topic for topic in Topic}

log = logging.getLogger(__name__)


class PostgresSignals:
    """`ports.signals.Signals` over one database."""

    def __init__(self, dsn: str, clock: Clock) -> None:
        self._dsn = dsn
        self._clock = clock
        self._listeners = Listeners()
        self._pending = Pending()
        self._wanted = asyncio.Event()
        self._own_pid = 0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """See the port."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="signals")

    async def stop(self) -> None:
        """See the port."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._listeners.clear()

    def send(self, topic: Topic, about: Sequence[UUID] = ()) -> None:
        """See the port."""
        self._listeners.ring(topic, about)
        self._pending.add(topic, about)
        self._wanted.set()

    def listen(self, topic: Topic, concerns: Concerns | None = None) -> asyncio.Event:
        """See the port."""
        return self._listeners.add(topic, concerns)

    async def _run(self) -> None:
        """Keep a link, for ever."""
        failures = 0
        while True:
            try:
                async with self._linked() as connection:
                    failures = 0
                    await self._ring(connection)
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                pause = RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)]
                if failures == 0:
                    log.warning("wake-ups through PostgreSQL are lost until it can be reached again: %s", error)
                failures += 1
                await self._clock.sleep(pause * (0.5 + self._clock.chance()))

    @contextlib.asynccontextmanager
    async def _linked(self) -> AsyncIterator[asyncpg.Connection]:
        connection = await asyncpg.connect(
            self._dsn,
            timeout=CONNECT_SECONDS,
            command_timeout=CONNECT_SECONDS,
            server_settings={"application_name": "tickwise signals"},
        )
        try:
            connection.add_termination_listener(lambda _: self._wanted.set())
            for channel in _TOPICS:
                await connection.add_listener(channel, self._heard)
            self._own_pid = connection.get_server_pid()
            self._listeners.ring_all()  # what rang while nobody heard it
            yield connection
        finally:
            connection.terminate()

    def _heard(self, _connection: object, pid: int, channel: str, payload: object) -> None:
        if pid != self._own_pid:  # our own listeners heard it when it was sent
            self._listeners.ring(_TOPICS[channel], _ids(str(payload)))

    async def _ring(self, connection: asyncpg.Connection) -> None:
        """Send what is pending, until the link is lost."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._wanted.wait()
            self._wanted.clear()
            rings = self._pending.take()
            about = [pack(ids).hex() for ids in rings.values()]
            try:
                await connection.execute(_RING, [f"tickwise_{topic}" for topic in rings], about)
            except BaseException:
                self._pending.put_back(rings)
                self._wanted.set()
                raise
            await self._clock.sleep(QUIET_SECONDS)


def _ids(payload: str) -> Sequence[UUID]:
    try:
        return unpack(bytes.fromhex(payload))
    except ValueError:
        return ()  # written by somebody else: it concerns everybody
