"""A member of a share group (a preview): messages go to each member that asks, so more members than partitions have
work, and the messages of a member that died are free again when their locks expire, with nothing to rebalance.

    poll ──► acquired, locked for 30 s ──► the loop
      ▲                                      │ done
      └── accept what is done, release the rest, once all is done or HOLD_SECONDS have passed

For hints only. There is no order, and after five deliveries the broker drops a message: a hint that is dropped so is
thrown again by the sweep, a request or a result would be lost.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

from tickwise.adapters.broker.kafka.address import KafkaAddress
from tickwise.adapters.broker.kafka.library import STOP_SECONDS, Complaints, client_library
from tickwise.adapters.broker.kafka.topics import topic_name
from tickwise.adapters.broker.ledger import FAIR_EVERY
from tickwise.ports.broker import Channel, Delivery
from tickwise.ports.clock import Clock

POLL_SECONDS: Final = 0.1
HOLD_SECONDS: Final = 10.0
"""The longest time that an acquired message may wait to be done: a third of the lock, so that it is given back before
it runs out."""
LOOK_SECONDS: Final = 0.02
"""The interval of looks whether all is done."""
AGAIN_SECONDS: Final = 1.0


class Key(NamedTuple):
    """One message."""

    channel: Channel
    partition: int
    offset: int


class Acquired:
    """The messages of one poll, between the thread and the loop."""

    def __init__(self, channels: Sequence[Channel]) -> None:
        self._urgency = {channel: place for place, channel in enumerate(channels)}
        self._lock = threading.Lock()
        self._queue: list[Delivery] = []
        self._open: dict[Key, Any] = {}
        self._done: list[Any] = []
        self._takes = 0

    @property
    def waiting(self) -> int:
        """Messages that were put and not taken."""
        return len(self._queue)

    def put(self, deliveries: Iterable[tuple[Delivery, Any]]) -> None:
        """Add deliveries that were acquired, each with the library's message."""
        with self._lock:
            for delivery, message in deliveries:
                self._open[_key(delivery)] = message
                self._queue.append(delivery)
            self._queue.sort(key=lambda each: (self._urgency[each.channel], each.sent_at))

    def take(self, limit: int) -> list[Delivery]:
        """Up to `limit`, the most urgent first, in every tenth take the oldest before it."""
        with self._lock:
            if not self._queue or limit <= 0:
                return []
            self._takes += 1
            if self._takes % FAIR_EVERY == 0:
                oldest = min(range(len(self._queue)), key=lambda at: self._queue[at].sent_at)
                self._queue.insert(0, self._queue.pop(oldest))
            taken, self._queue = self._queue[:limit], self._queue[limit:]
            return taken

    def done(self, deliveries: Iterable[Delivery]) -> None:
        """Mark deliveries as done: they need not come again."""
        with self._lock:
            for delivery in deliveries:
                message = self._open.pop(_key(delivery), None)
                if message is not None:
                    self._done.append(message)

    def all_done(self) -> bool:
        """True if no delivery is open."""
        return not self._open

    def settle(self) -> tuple[list[Any], list[Any]]:
        """Take the messages to accept and those to release; the buffer is empty then."""
        with self._lock:
            accepted, released = self._done, list(self._open.values())
            self._done, self._open, self._queue = [], {}, []
            return accepted, released

    def lag(self) -> dict[str, int]:
        """Only what is here: a share group has no offsets of its members."""
        lag = {channel.name: 0 for channel in self._urgency}
        with self._lock:
            for key in self._open:
                lag[key.channel.name] += 1
        return lag


class ShareMember:
    """A thread that acquires and gives back."""

    def __init__(
        self, address: KafkaAddress, clock: Clock, complaints: Complaints, channels: Sequence[Channel], group: str
    ) -> None:
        self.buffers = Acquired(channels)
        self.arrived: Callable[[], None] = lambda: None
        """Called in this thread when something was put."""
        self._address = address
        self._clock = clock
        self._complaints = complaints
        self._group = f"{address.prefix}.{group}.share"
        self._channels = {topic_name(address, channel): channel for channel in channels}
        self._library = client_library()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._subscribed = False

    @property
    def ready(self) -> bool:
        """True if the member runs and a poll can return messages."""
        return self._subscribed and self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Begin."""
        self._complaints.complain("share", "share groups are a preview of Kafka's: not for production")
        self._thread = threading.Thread(target=self._run, name=f"kafka {self._group}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Return the messages that are not done, and wait until the thread has ended, or for `STOP_SECONDS`. Blocks."""
        self._stopped.set()
        if self._thread is not None:
            self._complaints.joined(self._thread, STOP_SECONDS)

    def begin_anew(self, channels: Collection[Channel]) -> None:
        """Do nothing: the broker itself knows the deliveries of each member."""

    def _run(self) -> None:
        while not self._stopped.is_set():
            consumer: Any = None
            try:
                consumer = self._library.ShareConsumer(
                    {
                        **self._address.client(),
                        "group.id": self._group,
                        "share.acknowledgement.mode": "explicit",
                        "error_cb": self._complaints.errors(lambda _: None),
                    },
                    logger=self._complaints,
                )
                consumer.subscribe(list(self._channels))
                self._subscribed = True
                while not self._stopped.is_set():
                    self._step(consumer)
            except (self._library.KafkaException, RuntimeError) as failure:
                self._complaints.complain("share", str(failure))
                self._stopped.wait(AGAIN_SECONDS)
            except Exception:  # noqa: BLE001 - fetching must go on after any failure
                self._complaints.failed("share")
                self._stopped.wait(AGAIN_SECONDS)
            finally:
                self._subscribed = False
                self.buffers.settle()
                if consumer is not None:
                    with contextlib.suppress(self._library.KafkaException, RuntimeError):
                        consumer.close()

    def _step(self, consumer: Any) -> None:
        """Poll once, and handle the result."""
        acquired = []
        for message in consumer.poll(POLL_SECONDS):
            if message.error() is None:
                acquired.append((self._delivery(message), message))
            else:
                self._complaints.complain(message.error().name(), message.error().str())
        if not acquired:
            return
        self.buffers.put(acquired)
        self.arrived()
        end = self._clock.monotonic() + HOLD_SECONDS
        while not self.buffers.all_done() and not self._stopped.is_set() and self._clock.monotonic() < end:
            self._stopped.wait(LOOK_SECONDS)
        accepted, released = self.buffers.settle()
        for messages, kind in (
            (accepted, self._library.AcknowledgeType.ACCEPT),
            (released, self._library.AcknowledgeType.RELEASE),
        ):
            for message in messages:
                consumer.acknowledge(message, kind)
        consumer.commit_async()

    def _delivery(self, message: Any) -> Delivery:
        return Delivery(
            self._channels[message.topic()],
            message.value() or b"",
            message.key(),
            [(name, value or b"") for name, value in message.headers() or ()],
            message.partition(),
            message.offset(),
            message.timestamp()[1] / 1_000,
        )


def _key(delivery: Delivery) -> Key:
    return Key(delivery.channel, delivery.partition, delivery.offset)
