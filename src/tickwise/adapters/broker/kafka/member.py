"""One member of a group, in a thread of its own: it always polls, so that the member stays in its group and partitions
change hands at once, however busy the event loop is and however long the store is away.

    librdkafka ──► poll, consume ──► buffers ──► the loop
         ▲                                         │ done
         └── pause, resume, commit ◄───────────────┘

Invariant: only this thread touches the library's consumer. Offsets are committed explicitly, never past what is done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from tickwise.adapters.broker.kafka.address import KafkaAddress
from tickwise.adapters.broker.kafka.library import STOP_SECONDS, Complaints, admin_library, client_library
from tickwise.adapters.broker.kafka.partition_buffers import PartitionBuffers, PartitionId
from tickwise.adapters.broker.kafka.remade import Remade
from tickwise.adapters.broker.kafka.topics import topic_name
from tickwise.ports.broker import Channel, Delivery
from tickwise.ports.clock import Clock

POLL_SECONDS: Final = 0.1
"""The longest wait of the thread for a message. While none comes, it notices a stop or a commit so late."""
POLL_PAUSED_SECONDS: Final = 0.01
"""While a partition is paused, because it is resumed from here."""
COMMIT_SECONDS: Final = 0.1
"""Between two commits: what is done is told in one, and a crash repeats no more than this."""
COMMIT_RETRY_SECONDS: Final = 1.0
END_SECONDS: Final = 1.0
"""The longest that a broker may need to say where a partition ends."""
LOOK_SECONDS: Final = 0.5
"""The interval of looks at the lag, …"""
ASK_SECONDS: Final = 3.0
"""… and how often the broker is asked for what its answers do not say: one request for each partition."""
LEAVE_SECONDS: Final = 3.0
"""The longest time that the last commit may take. A broker that does not answer it would hold up the leave for 10 s
more."""
CLASSIC_SESSION_SECONDS: Final = 45
"""As the library ships it; by the newer protocol the broker says it."""
AGAIN_SECONDS: Final = 1.0
"""After the library refused to begin."""


class Member:
    """A thread that fetches into partition buffers."""

    def __init__(
        self, address: KafkaAddress, clock: Clock, complaints: Complaints, channels: Sequence[Channel], group: str
    ) -> None:
        self.buffers = PartitionBuffers(channels)
        self.arrived: Callable[[], None] = lambda: None
        """Called in this thread when something was put."""
        self.heard: Callable[[], None] = lambda: None
        """Called in this thread when the broker has answered."""
        self.reachable: Callable[[], bool] = lambda: True
        self._address = address
        self._clock = clock
        self._complaints = complaints
        self._group = f"{address.prefix}.{group}"
        self._channels = {topic_name(address, channel): channel for channel in channels}
        self._library = client_library()
        self._stopped = threading.Event()
        self._anew = threading.Event()
        self._remade = Remade()
        self._epochs: dict[PartitionId, int] = {}
        """The newest leader's of which there was a message: what it wrote stands behind what earlier ones wrote."""
        self._shorter: set[PartitionId] = set()
        """They lost their end, and are to be read again."""
        self._thread: threading.Thread | None = None
        self._committing = False
        self._commit_at = 0.0
        self._look_at = 0.0
        self._ask_at = 0.0

    @property
    def ready(self) -> bool:
        """True if the member has a partition and its thread runs."""
        return not self.buffers.is_empty and self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, name=f"kafka {self._group}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leave the group, and wait until the thread has ended, or for `STOP_SECONDS`. Blocks."""
        self._stopped.set()
        if self._thread is not None:
            self._complaints.joined(self._thread, STOP_SECONDS)

    def begin_anew(self, channels: Collection[Channel]) -> None:
        """Leave and join again: these were deleted and made again, so offsets of theirs say nothing."""
        self._remade.heard(channels, self._clock.monotonic())
        self._anew.set()

    # ---------------------------------------------------------------------------------------------- the thread

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._anew.clear()
            try:
                self._live()
            except self._library.KafkaException as failure:
                self._complaints.complain("consumer", f"could not begin: {failure}")
                self._stopped.wait(AGAIN_SECONDS)
            except Exception:  # noqa: BLE001 - fetching must go on after any failure
                self._complaints.failed("consumer")
                self._stopped.wait(AGAIN_SECONDS)
            finally:
                self.buffers.revoke(self.buffers.places())

    def _live(self) -> None:
        """One life as a member of the group, until it is told to stop or to begin anew."""
        consumer = self._made()
        try:
            consumer.subscribe(
                list(self._channels), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
            )
            while not (self._stopped.is_set() or self._anew.is_set()):
                self._step(consumer)
        finally:
            if self._anew.is_set():
                # The done messages are of deleted topics: a commit would count for the new ones.
                self.buffers.revoke(self.buffers.places())
            self._finish(consumer)

    def _made(self) -> Any:
        classic = self._address.group_protocol == "classic"
        told = {
            **self._address.client(),
            "group.id": self._group,
            "group.protocol": "classic" if classic else "consumer",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            # The messages in the library, besides those in the buffers.
            "queued.min.messages": 1_000,
            "queued.max.messages.kbytes": 8 << 10,
            # As shipped 1 s: so long it would fetch nothing once its queue was full, and be empty for most of it
            # (2.8k hints a second).
            "fetch.queue.backoff.ms": 10,
            "fetch.message.max.bytes": self._address.message_bytes_most,
            "fetch.max.bytes": max(8 << 20, self._address.message_bytes_most),
            "fetch.wait.max.ms": 500,
            "error_cb": self._complaints.errors(lambda _: None),
            "on_commit": self._committed,
        }
        if classic:
            session_ms = (self._address.session_seconds or CLASSIC_SESSION_SECONDS) * 1_000
            told |= {
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": session_ms,
                # A member hears of a new one by its heartbeat: partitions change hands within two of them.
                "heartbeat.interval.ms": min(1_000, session_ms // 3),
            }
        elif self._address.session_seconds:
            self._set_session(self._address.session_seconds * 1_000)
        return self._library.Consumer(told, logger=self._complaints)

    def _set_session(self, session_ms: int) -> None:
        """By the newer protocol the session is the group's, and the broker keeps it within bounds of its own."""
        admin = admin_library()
        client = admin.AdminClient(self._address.client(), logger=self._complaints)
        failure: Any = None
        # A member hears of a new one by its heartbeat, so often is better; not every broker allows it.
        for heartbeat_ms in (min(1_000, session_ms // 3), min(5_000, session_ms // 3)):
            wanted = {"consumer.session.timeout.ms": session_ms, "consumer.heartbeat.interval.ms": heartbeat_ms}
            entries = [
                admin.ConfigEntry(name, str(value), incremental_operation=admin.AlterConfigOpType.SET)
                for name, value in wanted.items()
            ]
            group = admin.ConfigResource(admin.ResourceType.GROUP, self._group, incremental_configs=entries)
            [answer] = client.incremental_alter_configs([group], request_timeout=END_SECONDS).values()
            try:
                answer.result()
            except self._library.KafkaException as refused:
                failure = refused
            else:
                return
        self._complaints.complain(
            "session",
            f"session_seconds={self._address.session_seconds} is not in force: {failure.args[0].str()}. "
            f"The broker's own bounds are group.consumer.min.session.timeout.ms and "
            f"group.consumer.min.heartbeat.interval.ms.",
        )

    def _step(self, consumer: Any) -> None:
        """Wait for messages, put them where the loop takes them, tell the broker what is done."""
        try:
            for place in list(self._shorter):
                self._begin_again(consumer, place)
            first = consumer.poll(POLL_PAUSED_SECONDS if self.buffers.any_paused() else POLL_SECONDS)
            if first is not None:
                room = self.buffers.room() - 1
                self._put([first, *(consumer.consume(room, 0) if room > 0 else ())])
            turning = self.buffers.turn()
            if turning.pause:
                consumer.pause(self._partitions(turning.pause))
            if turning.resume:
                consumer.resume(self._partitions(turning.resume))
            now = self._clock.monotonic()
            if now >= self._commit_at and not self._committing:
                self._commit(consumer, now)
            if now >= self._look_at:
                self._look(consumer, now)
        except (self._library.KafkaException, RuntimeError) as failure:
            self._complaints.complain("consumer", str(failure))
            self._stopped.wait(COMMIT_SECONDS)

    def _put(self, messages: Iterable[Any]) -> None:
        deliveries: list[Delivery] = []
        count = 0
        for message in messages:
            error = message.error()
            if error is not None:
                self._complaints.complain(error.name(), error.str())
                continue
            delivery = self._delivery(message)
            place = PartitionId(delivery.channel, delivery.partition)
            epoch = message.leader_epoch() or 0
            if epoch > self._epochs.get(place, -1):
                self._epochs[place] = epoch
                count += self.buffers.put(deliveries)
                deliveries = []
                if delivery.offset < self.buffers.next(place):
                    self._shorter.add(place)
            if place not in self._shorter:
                deliveries.append(delivery)
        count += self.buffers.put(deliveries)
        self.heard()
        if count:
            self.arrived()

    def _delivery(self, message: Any) -> Delivery:
        try:
            headers = message.headers()
        except ValueError:
            headers = None  # a name that is no text: not ours, and what the message says is judged by its reader
        return Delivery(
            self._channels[message.topic()],
            message.value() or b"",
            message.key(),
            [(name, value or b"") for name, value in headers] if headers else (),
            message.partition(),
            message.offset(),
            message.timestamp()[1] / 1_000,
        )

    def _look(self, consumer: Any, now: float) -> None:
        """The lag, as the last answers to fetches said. Answers for a paused partition would stay as they were, so the
        broker is asked for its lag now and then."""
        self._look_at = now + LOOK_SECONDS
        ends, paused = {}, frozenset[PartitionId]()
        if now >= self._ask_at and self.reachable():
            self._ask_at = now + ASK_SECONDS
            paused = self.buffers.paused()
        for place in self.buffers.places():
            [partition] = self._partitions([place])
            if place in paused:
                _, end = consumer.get_watermark_offsets(partition, timeout=END_SECONDS)
            else:
                _, end = consumer.get_watermark_offsets(partition, cached=True)
                if 0 <= end < self.buffers.next(place):
                    # Seldom so: a leader that is new may have said it before it knew. Its present answer counts.
                    _, end = consumer.get_watermark_offsets(partition, timeout=END_SECONDS)
            if 0 <= end < self.buffers.next(place):
                self._shorter.add(place)
            elif end >= 0:
                ends[place] = end
        self.buffers.ends(ends)

    def _begin_again(self, consumer: Any, place: PartitionId) -> None:
        """This log lost its end, as when a broker died with what only it had, and was written on from there. What is
        known of its offsets is void, and where it was cut is not known: read it from where it begins."""
        [partition] = self._partitions([place])
        partition.offset, _ = consumer.get_watermark_offsets(partition, timeout=END_SECONDS)
        self._complaints.complain(
            "shorter",
            f"{partition.topic} [{place.partition}] lost messages that it had: it is read again from its start",
        )
        # At once: the partition's next member must not begin at the old offset.
        consumer.commit(offsets=[partition], asynchronous=True)
        consumer.seek(partition)
        consumer.resume([partition])
        self.buffers.assign([place])
        self._shorter.discard(place)

    # ---------------------------------------------------------------------------------------------- who has what

    def _assigned(self, consumer: Any, partitions: Sequence[Any]) -> None:
        self.heard()
        places = self._places(partitions)
        self.buffers.assign(places)
        self._forget(places)
        begin = self._remade.assigned(places, self._clock.monotonic())
        for place, partition in zip(places, partitions, strict=True):
            if place in begin:
                partition.offset = self._library.OFFSET_BEGINNING
        consumer.incremental_assign(partitions)

    def _revoked(self, consumer: Any, partitions: Sequence[Any]) -> None:
        places = self._places(partitions)
        offsets = self.buffers.to_commit(places)
        if offsets and self.reachable():
            try:
                consumer.commit(offsets=self._offsets(offsets), asynchronous=False)
            except self._library.KafkaException as failure:
                self._complaints.complain("commit", str(failure.args[0].str()))
        self.buffers.revoke(places)

    def _lost(self, _consumer: Any, partitions: Sequence[Any]) -> None:
        self.buffers.revoke(self._places(partitions))

    def _forget(self, places: Iterable[PartitionId]) -> None:
        for place in places:
            self._epochs.pop(place, None)
            self._shorter.discard(place)

    def _places(self, partitions: Iterable[Any]) -> list[PartitionId]:
        return [PartitionId(self._channels[each.topic], each.partition) for each in partitions]

    def _partitions(self, places: Iterable[PartitionId]) -> list[Any]:
        return [
            self._library.TopicPartition(topic_name(self._address, place.channel), place.partition) for place in places
        ]

    # ---------------------------------------------------------------------------------------------- what is done

    def _offsets(self, offsets: Mapping[PartitionId, int]) -> list[Any]:
        partitions = self._partitions(offsets)
        for partition, offset in zip(partitions, offsets.values(), strict=True):
            partition.offset = offset
        return partitions

    def _commit(self, consumer: Any, now: float) -> None:
        offsets = self.buffers.to_commit()
        if offsets:
            self._commit_at = now + COMMIT_SECONDS
            self._committing = True
            try:
                consumer.commit(offsets=self._offsets(offsets), asynchronous=True)
            except self._library.KafkaException:
                self._committing = False
                self.buffers.not_committed(offsets)
                raise

    def _committed(self, error: Any, partitions: Sequence[Any]) -> None:
        """The library says what became of a commit."""
        self._committing = False
        failed = [each for each in partitions if error is not None or each.error is not None]
        if failed:
            self._commit_at = self._clock.monotonic() + COMMIT_RETRY_SECONDS
            self.buffers.not_committed(self._places(failed))
            why = error or failed[0].error
            self._complaints.complain("commit", why.str())
        else:
            self.heard()

    def _finish(self, consumer: Any) -> None:
        """The last commit, and the leave if the broker answers."""
        end = self._clock.monotonic() + LEAVE_SECONDS
        try:
            told = False
            while self.reachable() and (self._committing or not told) and self._clock.monotonic() < end:
                if not self._committing:
                    self._commit(consumer, 0.0)
                    told = True
                else:
                    message = consumer.poll(POLL_PAUSED_SECONDS)
                    del message  # its partition begins at the commit again, for its next member
            if self.reachable() and not self._committing:
                consumer.close()
        except (self._library.KafkaException, RuntimeError) as failure:
            self._complaints.complain("consumer", f"could not leave: {failure}")
        self._committing = False
