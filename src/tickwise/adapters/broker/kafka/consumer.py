"""The event loop's side of a member of a group: takes the messages that the member's thread has fetched, and marks
messages as done."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from tickwise.adapters.broker.kafka.partition_buffers import MAX_WAITING
from tickwise.ports.broker import Channel, ConsumerState, Delivery


class FetchBuffers(Protocol):
    """The buffers between the thread, which puts, and the loop, which takes: `PartitionBuffers`, or `Acquired`."""

    @property
    def waiting(self) -> int:
        """Messages that were put and not taken."""
        ...

    def take(self, limit: int) -> list[Delivery]:
        """Up to `limit`, as the port says."""
        ...

    def done(self, deliveries: Sequence[Delivery]) -> None:
        """Mark deliveries as done: they need not come again."""
        ...

    def lag(self) -> dict[str, int]:
        """By name of the channel."""
        ...


class Fetcher(Protocol):
    """A thread that fetches: `Member`, or `ShareMember`."""

    arrived: Callable[[], None]

    @property
    def buffers(self) -> FetchBuffers:
        """The fetched messages."""
        ...

    @property
    def ready(self) -> bool:
        """True if the member runs and may be given messages."""
        ...

    def begin_anew(self, channels: Collection[Channel]) -> None:
        """Of these the topics were deleted and made again."""
        ...

    def start(self) -> None:
        """Begin."""
        ...

    def stop(self) -> None:
        """Leave; blocks until the thread has ended."""
        ...


class KafkaConsumer:
    """`ports.broker.Consumer` over a thread that fetches."""

    def __init__(self, fetcher: Fetcher, *, reachable: Callable[[], bool], wanted: Callable[[], bool]) -> None:
        """`wanted`: whether the channels are open, so that there is something to join."""
        self._fetcher = fetcher
        self._reachable = reachable
        self._wanted = wanted
        self._arrived = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started = False
        self._fetching = False

    async def start(self) -> None:
        """See the port."""
        self._loop = asyncio.get_running_loop()
        self._started = True
        self._fetcher.arrived = self._wake
        self.opened()

    def opened(self) -> None:
        """The channels may be open now: join, if that is asked for."""
        if self._started and not self._fetching and self._wanted():
            self._fetching = True
            self._fetcher.start()

    async def stop(self) -> None:
        """See the port."""
        self._started = False
        self._arrived.set()
        if self._fetching:
            self._fetching = False
            await asyncio.to_thread(self._fetcher.stop)

    async def take(self, limit: int, wait_seconds: float) -> Sequence[Delivery]:
        """See the port."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_seconds):
                while True:
                    self._arrived.clear()
                    found = self._fetcher.buffers.take(limit)
                    if found or not self._started:
                        return found
                    await self._arrived.wait()
        return ()

    async def done(self, deliveries: Sequence[Delivery]) -> None:
        """See the port. The commit follows within a tenth of a second."""
        self._fetcher.buffers.done(deliveries)

    def state(self) -> ConsumerState:
        """See the port."""
        buffers = self._fetcher.buffers
        reachable = self._reachable() and self._fetching and self._fetcher.ready
        return ConsumerState(reachable, buffers.waiting, MAX_WAITING, buffers.lag())

    def _wake(self) -> None:
        if self._loop is not None and not self._arrived.is_set():
            with contextlib.suppress(RuntimeError):  # the loop has ended before us
                self._loop.call_soon_threadsafe(self._arrived.set)
