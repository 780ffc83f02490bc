"""Group sends: many requests, one call of the broker.

    put(message) ─┐
    put(message) ─┼──► waiting ──► sender: all that waits, up to a limit, in one `send` ──► each caller hears
    put(message) ─┘               (a few sends are under way at once; then what arrives waits for one of them)

Invariants: the caller that put a message hears that the broker has it durably, or that it may not; messages are handed
over in the order in which they were put, so those of one key arrive in it. What waits for a broker that is slower than
the load is bounded by number and by bytes: beyond that callers hear `Busy`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from tickwise.domain.errors import BrokerUnavailable, Busy, Unavailable
from tickwise.observability.buffers import Buffer
from tickwise.observability.draining import Drain
from tickwise.observability.tasks import end_tasks
from tickwise.ports.broker import MAX_MESSAGE_BYTES, Broker, Channel, Message
from tickwise.ports.broker import size_of as message_size
from tickwise.ports.clock import Clock
from tickwise.roles.shared.group_commit import Room

MAX_SEND: Final = 1_000
"""Messages of one send: some milliseconds of work for client and broker."""
MAX_SEND_BYTES: Final = 4 << 20
MAX_SENDS: Final = 4
"""Sends under way at once: with one, each request would wait for the send before its own as well."""
MAX_WAITING: Final = 20_000
CLOSE_SECONDS: Final = 10.0
"""At the end, the time for the messages that wait; a caller whose message is not confirmed then hears so."""

logger = structlog.get_logger("tickwise.sending")

Waiting = tuple[Message, int, "asyncio.Future[None]"]


class Sender:
    """Turns single messages of one channel into sends of many."""

    def __init__(
        self,
        broker: Broker,
        channel: Channel,
        clock: Clock,
        *,
        waiting_most: int = MAX_WAITING,
        room: Room | None = None,
    ) -> None:
        self._broker = broker
        self._channel = channel
        self._waiting_most = waiting_most
        self._clock = clock
        self._room = room or Room(clock)
        self._drain = Drain(clock)
        self._waiting: list[Waiting] = []
        self._sending = 0
        self._sends: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    def put(self, messages: Sequence[Message]) -> list[asyncio.Future[None]]:
        """For each message when the broker has it; all are taken, or none. A future raises `BrokerUnavailable` if it is
        unknown whether the broker has its message. Raises `Busy` if too many wait already, or too much."""
        if self._closing or self._task is None:
            raise Unavailable("this server is going down; send the same again to another, or a little later")
        waiting = len(self._waiting) + self._sending
        if waiting and waiting + len(messages) > self._waiting_most:
            raise Busy(
                "too many requests wait for the broker; send the same again a little later",
                retry_after_seconds=self._drain.wait_seconds(waiting + len(messages) - self._waiting_most),
            )
        sizes = [size_of(message) for message in messages]
        self._room.take(sum(sizes))
        if not waiting:
            self._drain.filled()
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[None]] = [loop.create_future() for _ in messages]
        self._waiting += zip(messages, sizes, futures, strict=True)
        self._wake.set()
        return futures

    def buffers(self) -> Mapping[str, Buffer]:
        """The waiting messages, and their limit."""
        return {"requests": Buffer(len(self._waiting) + self._sending, self._waiting_most)}

    async def start(self) -> None:
        """Begin to send."""
        self._closing = False
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Send the waiting messages, for some seconds, then end."""
        self._closing = True
        self._wake.set()
        task, self._task = self._task, None
        if task is None:
            return
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await task
        except TimeoutError:
            await end_tasks(self._sends)
            self._answer_all(
                self._waiting, BrokerUnavailable("the server is going down, and the broker did not confirm")
            )
            self._waiting = []

    async def _run(self) -> None:
        while self._waiting or self._sends or not self._closing:
            if self._waiting and len(self._sends) < MAX_SENDS:
                batch = self._next()
                self._sending += len(batch)
                # Each begins in its turn, and has handed its messages over before it waits.
                send = asyncio.create_task(self._carry_out(batch))
                self._sends.add(send)
                send.add_done_callback(self._ended)
                await self._clock.sleep(0)  # what arrives in the same turn of the loop goes together
            else:
                self._wake.clear()
                await self._wake.wait()

    def _ended(self, send: asyncio.Task[None]) -> None:
        self._sends.discard(send)
        self._wake.set()

    async def _carry_out(self, batch: Sequence[Waiting]) -> None:
        try:
            await self._settle(batch)
        finally:
            self._sending -= len(batch)
            self._room.give(sum([size for _, size, _ in batch]))
            self._drain.left(len(batch))

    def _next(self) -> list[Waiting]:
        """Take the messages of one send: at least one."""
        count = size = 0
        for _, bytes_, _ in self._waiting[:MAX_SEND]:
            size += bytes_
            if count and size > MAX_SEND_BYTES:
                break
            count += 1
        batch = self._waiting[:count]
        del self._waiting[:count]
        return batch

    async def _settle(self, batch: Sequence[Waiting]) -> None:
        """Send a batch and answer each of its callers."""
        failure: Exception | None = None
        try:
            await self._broker.send(self._channel, [message for message, _, _ in batch])
        except asyncio.CancelledError:
            self._answer_all(batch, BrokerUnavailable("the server is going down, and the broker did not confirm"))
            raise
        except Unavailable as away:
            failure = away
        except Exception as unforeseen:
            logger.exception("send_failed", channel=self._channel.name, messages=len(batch))
            failure = unforeseen
        self._answer_all(batch, failure)

    def _answer_all(self, batch: Sequence[Waiting], failure: Exception | None) -> None:
        for _, _, future in batch:
            if future.done():
                continue
            if failure is None:
                future.set_result(None)
            else:
                future.set_exception(_copy(failure))


def size_of(message: Message) -> int:
    """Bytes of it that its sender chooses the number of."""
    return len(message.value) + len(message.key or b"")


def fits(message: Message) -> bool:
    """Check whether a broker takes a message of this size."""
    return message_size(message) <= MAX_MESSAGE_BYTES


def _copy(failure: Exception) -> Exception:
    """An exception of its own for each caller: one that is raised in many tasks collects all their traces."""
    if isinstance(failure, Unavailable):
        return type(failure)(failure.detail, retry_after_seconds=failure.retry_after_seconds)
    return failure
