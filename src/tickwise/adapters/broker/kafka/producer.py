"""Sends messages from an event loop, through librdkafka's own threads, and learns what became of them.

    send ──► librdkafka's queue ──► broker
      ▲                               │ confirmed, every replica in sync
      └── the loop's timer: poll(0) ◄─┘

There is no thread of ours. The library calls back for each message; from another thread each such call would have to
win the interpreter from a busy loop first (5 ms each at worst). So the loop itself asks, every millisecond while a
send waits, seldom otherwise, and is told of hundreds at once.

Invariants: what waits is bounded by count and by bytes; throws may have only a share of it, so that hints never keep
a request out. Each message that was accepted is confirmed or given up within `confirm_seconds`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from tickwise.adapters.broker.kafka.address import KafkaAddress
from tickwise.adapters.broker.kafka.library import Complaints, client_library, free
from tickwise.domain.errors import BrokerUnavailable, Busy, TooLarge
from tickwise.observability.draining import Drain
from tickwise.ports.broker import Message, size_of
from tickwise.ports.clock import Clock

MAX_WAITING: Final = 50_000
"""Messages: some seconds of work for a broker on the same two cores."""
MAX_WAITING_BYTES: Final = 64 << 20
THROWN_SHARE: Final = 0.5
"""Of each bound, the most that throws may use."""
LINGER_MS: Final = 2
"""The time that a message waits for others to share its batch."""
POLL_SECONDS: Final = 0.001
"""The pause between polls while a caller waits for a confirmation."""
POLL_IDLE_SECONDS: Final = 0.02
"""While only throws are under way."""
POLL_QUIET_SECONDS: Final = 1.0
"""While nothing is: errors and logs of the library come this way too."""
CLOSE_SECONDS: Final = 5.0


class Sent:
    """The messages of one call of `send`, and the caller's future."""

    __slots__ = ("_failure", "_left", "done")

    def __init__(self, count: int, done: asyncio.Future[None]) -> None:
        self.done = done
        self._left = count
        self._failure = ""

    def settle(self, failure: str) -> None:
        """One of them is confirmed, or, with a reason, given up."""
        self._failure = self._failure or failure
        self._left -= 1
        if self._left == 0 and not self.done.done():
            if self._failure:
                self.done.set_exception(BrokerUnavailable(f"the broker did not confirm: {self._failure}"))
            else:
                self.done.set_result(None)


class Producer:
    """One producer for a process. All its methods are called by the loop."""

    def __init__(self, address: KafkaAddress, clock: Clock, complaints: Complaints) -> None:
        self._address = address
        self._clock = clock
        self._complaints = complaints
        self._drain = Drain(clock)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._next_poll = float("inf")
        self._client: Any = None
        self._broken = False
        self._turn = 0
        self._bytes = 0
        self._sends = 0
        self.waiting = 0
        """Messages that are neither confirmed nor given up."""
        self.thrown = 0
        self.lost = 0
        self.heard: Callable[[], None] = lambda: None
        """Called when the broker has confirmed something."""
        self.failed: Callable[[Any], None] = lambda _: None
        """Called with each error of the library: of one message, or of the whole client."""

    @property
    def open(self) -> bool:
        """True if the producer can send."""
        return self._client is not None

    def start(self) -> None:
        """Begin. Makes threads of the library's, and no connection yet."""
        self._loop = asyncio.get_running_loop()
        self._client = self._made()
        self._poll_in(POLL_QUIET_SECONDS)

    async def stop(self) -> None:
        """Wait some seconds for what is under way, give up the rest, end."""
        client, loop = self._client, self._loop
        if client is None or loop is None:
            return
        end = self._clock.monotonic() + CLOSE_SECONDS
        client.flush(0)  # do not linger any more
        while self.waiting and self._clock.monotonic() < end:
            await self._clock.sleep(POLL_IDLE_SECONDS)
        self._client = None
        if self._timer is not None:
            self._timer.cancel()
        client.purge()
        client.poll(0)
        # The last reference goes in the other thread: freeing joins the library's own.
        hand = [client]
        del client
        await free(hand.clear, self._complaints)

    async def send(self, topic: str, partitions: int, messages: Sequence[Message]) -> None:
        """See the port."""
        if self._client is None or self._loop is None:
            raise BrokerUnavailable("the broker was not reached yet")
        size = sum(map(_weight, messages))
        self._must_fit(messages, size)
        if not messages:
            return
        sent = Sent(len(messages), self._loop.create_future())

        def settled(error: Any, message: Any) -> None:
            self._sends -= 1
            self._settled(error, message)
            sent.settle(error.str() if error else "")

        self._sends += len(messages)
        self._enter(len(messages), size)
        for message in messages:
            failure = self._produce(topic, partitions, message, settled)
            if failure:
                self._sends -= 1
                self._leave(_weight(message))
                sent.settle(failure)
        self._poll_in(POLL_SECONDS)
        await sent.done

    def send_nowait(self, topic: str, partitions: int, messages: Sequence[Message]) -> None:
        """See the port."""
        self.thrown += len(messages)
        for message in messages:
            size = _weight(message)
            if not self._has_room(1, size, THROWN_SHARE) or size_of(message) > self._address.message_bytes_most:
                self.lost += 1
                continue
            self._enter(1, size)
            if self._produce(topic, partitions, message, self._threw):
                self.lost += 1
                self._leave(size)
        self._poll_in(POLL_IDLE_SECONDS)

    def lose(self, count: int) -> None:
        """Count messages that were thrown away and may not go out."""
        self.thrown += count
        self.lost += count

    def _must_fit(self, messages: Sequence[Message], size: int) -> None:
        largest = max(map(size_of, messages), default=0)
        if largest > self._address.message_bytes_most:
            raise TooLarge(f"a message has {largest} bytes; the broker takes up to {self._address.message_bytes_most}")
        if not self._has_room(len(messages), size, 1.0):
            wait = self._drain.wait_seconds(len(messages))
            raise Busy(f"{self.waiting} messages wait for the broker; try again later", retry_after_seconds=wait)

    def _has_room(self, count: int, size: int, share: float) -> bool:
        """Check whether so many messages and bytes fit. One call's messages always fit into an empty buffer."""
        if self._client is None:
            return False
        most, bytes_most = MAX_WAITING * share, MAX_WAITING_BYTES * share
        return not self.waiting or (self.waiting + count <= most and self._bytes + size <= bytes_most)

    def _enter(self, count: int, size: int) -> None:
        if not self.waiting:
            self._drain.filled()
        self.waiting += count
        self._bytes += size

    def _leave(self, size: int) -> None:
        self.waiting -= 1
        self._bytes -= size

    def _produce(self, topic: str, partitions: int, message: Message, settled: Callable[[Any, Any], None]) -> str:
        """Hand one to the library; why it could not be, if so. A message without a key goes to the next partition:
        the library would send all of some milliseconds to one, and so to one executor."""
        partition = message.partition
        if partition is None:
            partition = -1
            if message.key is None:
                self._turn += 1
                partition = self._turn % partitions
        library = client_library()
        try:
            self._client.produce(
                topic, message.value, message.key, partition, on_delivery=settled, headers=list(message.headers)
            )
        except BufferError:
            return "the client's queue is full"
        except library.KafkaException as failure:
            self.failed(failure.args[0])
            return str(failure.args[0].str())
        return ""

    def _threw(self, error: Any, message: Any) -> None:
        if error:
            self.lost += 1
        self._settled(error, message)

    def _settled(self, error: Any, message: Any) -> None:
        self._leave(len(message) + len(message.key() or b""))
        if error:
            self._complaints.complain(error.name(), error.str())
            self.failed(error)

    # ---------------------------------------------------------------------------------------------- the library

    def _made(self) -> Any:
        return client_library().Producer(
            {
                **self._address.client(),
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": LINGER_MS,
                "delivery.timeout.ms": self._address.confirm_seconds * 1_000,
                "message.max.bytes": self._address.message_bytes_most,
                # Our own bounds come first; these are a net below them.
                "queue.buffering.max.messages": 2 * MAX_WAITING,
                "queue.buffering.max.kbytes": 2 * MAX_WAITING_BYTES >> 10,
                "topic.metadata.propagation.max.ms": 2_000,
                "error_cb": self._complaints.errors(self._erred),
            },
            logger=self._complaints,
        )

    def _erred(self, error: Any) -> None:
        if error.fatal():
            self._broken = True
        self.failed(error)

    def _poll_in(self, seconds: float) -> None:
        """Ask the library no later than in so many seconds."""
        if self._loop is None or self._client is None:
            return
        at = self._loop.time() + seconds
        if at < self._next_poll:
            if self._timer is not None:
                self._timer.cancel()
            self._next_poll, self._timer = at, self._loop.call_at(at, self._poll)

    def _poll(self) -> None:
        self._next_poll = float("inf")
        before = self.waiting
        self._client.poll(0)
        settled = before - self.waiting
        if settled:
            self._drain.left(settled)
            self.heard()
        if self._broken:
            self._replace()
        quiet = POLL_IDLE_SECONDS if self.waiting else POLL_QUIET_SECONDS
        self._poll_in(POLL_SECONDS if self._sends else quiet)

    def _replace(self) -> None:
        """The library has given this client up (it could not keep its promise of order); what waits is given up, and
        a new one begins."""
        old, self._broken = self._client, False
        old.purge()
        old.poll(0)
        self._client = self._made()


def _weight(message: Message) -> int:
    """Its bytes as they are counted while it waits: what a report of the library still knows, so without headers."""
    return len(message.value) + len(message.key or b"")
