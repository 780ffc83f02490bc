"""Polls one queue: keeps what it got hidden from others while it is under way, and deletes what is done.

    receive ──► kept ──take──► taken ──done──► deleted, from the first of its bucket on
                  └── hidden anew at a third of its time; made visible at the stop ──► the next consumer

SQS hands out no more of a bucket while messages of it are under way, so order holds as long as they are deleted in
order: an end that is not the first of its bucket waits for those before it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from tickwise.adapters.broker.sqs.address import SqsAddress
from tickwise.adapters.broker.sqs.envelope import opened, unpacked
from tickwise.adapters.broker.sqs.library import QueueAbsent, Troubles, translated
from tickwise.domain.errors import BrokerUnavailable, Misconfigured, NotFound, Unavailable
from tickwise.observability.tasks import end_tasks
from tickwise.ports.blobs import Blobs
from tickwise.ports.broker import Channel, Delivery
from tickwise.ports.clock import Clock

BATCH: Final = 10
MAX_WAITING: Final = 1_000
"""Messages of one queue that were received and are not taken."""
AGAIN_SECONDS: Final = 0.2
MAX_AGAIN_SECONDS: Final = 5.0
LAG_SECONDS: Final = 5.0
FINISHED_REMEMBERED: Final = 10_000
"""Messages that were done lately: one of them that comes again, because its deletion was lost, is deleted again."""
OFFSET_BITS: Final = 63
"""Numbers of AWS have more, and grow within these for a century."""


class Held:
    """One message that is under way here."""

    __slots__ = ("blob", "delivery", "hidden_at", "is_done", "message_id", "receipt")

    def __init__(self, delivery: Delivery, message_id: str, receipt: str, hidden_at: float, blob: str | None) -> None:
        self.delivery = delivery
        self.message_id = message_id
        self.receipt = receipt
        self.hidden_at = hidden_at
        self.blob = blob
        self.is_done = False


class Bucket:
    """The messages of one bucket that are under way here, by number, in order."""

    __slots__ = ("held", "kept")

    def __init__(self) -> None:
        self.held: dict[int, Held] = {}
        self.kept: deque[Delivery] = deque()
        """Those of them that were not taken."""


class Receiver:
    """One queue of one consumer."""

    def __init__(
        self, channel: Channel, url: str, *, address: SqsAddress, client: Any, blobs: Blobs | None, clock: Clock,
        troubles: Troubles,
    ) -> None:  # fmt: skip
        self.channel = channel
        self.buckets: dict[int, Bucket] = {}
        self.waiting = 0
        """Received and not taken."""
        self.lag = 0
        """As SQS said some seconds ago: there and not deleted."""
        self.is_reachable = False
        self.arrived: Callable[[], None] = lambda: None
        self.is_absent: Callable[[], None] = lambda: None
        """Called when the queue is not there."""
        self._url = url
        self._address = address
        self._client = client
        self._blobs = blobs
        self._clock = clock
        self._troubles = troubles
        self._finished: OrderedDict[str, None] = OrderedDict()
        """By the ids of messages: numbers begin anew in a queue that is made again."""
        self._to_delete: dict[str, str | None] = {}
        """Receipts of messages that are done, each with the blob that goes with it."""
        self._deleting = asyncio.Event()
        self._room = asyncio.Event()
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []
        self._polling: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to poll."""
        name = self._url.rsplit("/", 1)[-1]
        self._polling = asyncio.create_task(self._poll(), name=f"poll {name}")
        self._tasks = [
            asyncio.create_task(self._delete_all(), name=f"deletions of {name}"),
            asyncio.create_task(self._watch(), name=f"watch {name}"),
        ]

    async def stop(self) -> None:
        """End the poll that is under way, delete what is done, and give the rest to others at once."""
        self._stopping = True
        self._room.set()
        if self._polling is not None:
            # Cut off, its messages would be hidden from all for as long as one may be silent.
            await asyncio.wait([self._polling], timeout=self._address.wait_seconds + 3.0)
            await end_tasks([self._polling])
        await end_tasks(self._tasks)
        if self._to_delete:
            await self._delete_some()
        await self._show([held for bucket in self.buckets.values() for held in bucket.held.values()])
        self.buckets.clear()
        self.waiting = 0

    def taken(self, delivery_count: int) -> None:
        """Note that so many of those that waited were taken."""
        self.waiting -= delivery_count
        self._room.set()

    def done(self, deliveries: Iterable[Delivery]) -> None:
        """Mark deliveries as done; the first ones of each bucket are deleted soon."""
        for delivery in deliveries:
            bucket = self.buckets.get(delivery.partition)
            held = None if bucket is None else bucket.held.get(delivery.offset)
            if bucket is None or held is None or held.delivery is not delivery:
                continue  # not ours any more
            held.is_done = True
            while bucket.held:
                number, first = next(iter(bucket.held.items()))
                if not first.is_done:
                    break
                del bucket.held[number]
                self._to_delete[first.receipt] = first.blob
                self._finished[first.message_id] = None
                if len(self._finished) > FINISHED_REMEMBERED:
                    self._finished.popitem(last=False)
            if not bucket.held:
                del self.buckets[delivery.partition]
        if self._to_delete:
            self._deleting.set()

    # ---------------------------------------------------------------------------------------------- receive

    async def _poll(self) -> None:
        pause, attempt = AGAIN_SECONDS, self._clock.random_bytes(16).hex()
        while not self._stopping:
            if self.waiting + BATCH > MAX_WAITING:
                self._room.clear()
                await self._room.wait()
                continue
            try:
                with translated():
                    answer = await self._client.receive_message(
                        QueueUrl=self._url,
                        MaxNumberOfMessages=BATCH,
                        WaitTimeSeconds=self._address.wait_seconds,
                        VisibilityTimeout=self._address.visibility_seconds,
                        MessageSystemAttributeNames=["SequenceNumber", "MessageGroupId", "SentTimestamp"],
                        ReceiveRequestAttemptId=attempt,
                    )
                for message in answer.get("Messages", ()):
                    await self._receive(message)
            except (BrokerUnavailable, Misconfigured, Unavailable, QueueAbsent) as failure:
                self._away(failure)
                await self._clock.sleep(pause * (0.5 + self._clock.chance()))
                pause = min(2 * pause, MAX_AGAIN_SECONDS)
                continue  # under the same attempt: what the lost answer had comes again
            self.is_reachable = True
            pause, attempt = AGAIN_SECONDS, self._clock.random_bytes(16).hex()
            if answer.get("Messages"):
                self.arrived()

    def _away(self, failure: Exception) -> None:
        self.is_reachable = False
        if isinstance(failure, QueueAbsent):
            self.is_absent()
        self._troubles.complain("receive", getattr(failure, "detail", "") or f"{self._url} is not there")

    async def _receive(self, message: Any) -> None:
        told = message.get("Attributes", {})
        number = int(told["SequenceNumber"]) % (1 << OFFSET_BITS)
        message_id, receipt = message["MessageId"], message["ReceiptHandle"]
        partition = int(told["MessageGroupId"])
        bucket = self.buckets.get(partition)
        if message_id in self._finished:
            self._to_delete[receipt] = None
            self._deleting.set()
            return
        held = None if bucket is None else bucket.held.get(number)
        if (
            held is not None and held.message_id == message_id
        ):  # its time ran out here: the newest receipt alone is good
            held.receipt, held.hidden_at = receipt, self._clock.monotonic()
            return
        found = opened(message["Body"])
        blob = found.blob
        if blob is not None:
            try:
                found = unpacked(await self._content(blob))
            except (NotFound, ValueError) as wrong:
                # It is delivered as what it is: nobody can read it, and those who read it say so.
                self._troubles.complain("blob", f"{blob}: {wrong}")
        delivery = Delivery(
            self.channel, found.value, found.key, [*found.headers], partition, number,
            int(told.get("SentTimestamp", 0)) / 1_000,
        )  # fmt: skip
        bucket = self.buckets.setdefault(partition, Bucket())
        bucket.held.pop(number, None)  # of a queue that was made again: the earlier one of this number is gone with it
        bucket.held[number] = Held(delivery, message_id, receipt, self._clock.monotonic(), blob)
        bucket.kept.append(delivery)
        self.waiting += 1

    async def _content(self, key: str) -> bytes:
        if self._blobs is None:
            raise NotFound("this process has no blobs")
        return await self._blobs.get(key)

    # ---------------------------------------------------------------------------------------------- delete, hide

    async def _delete_all(self) -> None:
        while True:
            await self._deleting.wait()
            self._deleting.clear()
            if not await self._delete_some():
                await self._clock.sleep(AGAIN_SECONDS)
                self._deleting.set()

    async def _delete_some(self) -> bool:
        """Delete what is done, with its blobs; false: something is left."""
        while self._to_delete:
            batch = [*self._to_delete.items()][:BATCH]
            entries = [{"Id": str(number), "ReceiptHandle": each[0]} for number, each in enumerate(batch)]
            try:
                with translated():
                    await self._client.delete_message_batch(QueueUrl=self._url, Entries=entries)
                # One that is refused by itself has an old receipt: it comes again, and is deleted then.
                for receipt, _ in batch:
                    self._to_delete.pop(receipt, None)
                if self._blobs is not None and (blobs := [blob for _, blob in batch if blob is not None]):
                    await self._blobs.delete(blobs)
            except QueueAbsent:
                self._to_delete.clear()
            except (BrokerUnavailable, Misconfigured, Unavailable) as failure:
                self._troubles.complain("delete", failure.detail)
                return False
        return True

    async def _watch(self) -> None:
        """Hide anew what is under way; learn how much is there."""
        step = min(self._address.visibility_seconds / 3, LAG_SECONDS)
        while True:
            try:
                with translated():
                    answer = await self._client.get_queue_attributes(
                        QueueUrl=self._url,
                        AttributeNames=["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"],
                    )
                self.lag = sum(int(count) for count in answer.get("Attributes", {}).values())
                await self._hide()
            except QueueAbsent:
                self.is_absent()
            except (BrokerUnavailable, Misconfigured) as failure:
                self._troubles.complain("watch", failure.detail)
            await self._clock.sleep(step * (0.75 + 0.25 * self._clock.chance()))

    async def _hide(self) -> None:
        before = self._clock.monotonic() - self._address.visibility_seconds / 3
        due = [held for bucket in self.buckets.values() for held in bucket.held.values() if held.hidden_at < before]
        await self._change(due, self._address.visibility_seconds)
        for held in due:
            held.hidden_at = self._clock.monotonic()

    async def _show(self, all_held: Sequence[Held]) -> None:
        """Make messages visible to others at once, the last first: a bucket is let go with its first one."""
        try:
            await self._change([*reversed(all_held)], 0)
        except (BrokerUnavailable, Misconfigured, QueueAbsent) as failure:
            self._troubles.complain("stop", str(failure))  # they come when their time is over

    async def _change(self, all_held: Sequence[Held], seconds: int) -> None:
        for start in range(0, len(all_held), BATCH):
            entries = [
                {"Id": str(number), "ReceiptHandle": held.receipt, "VisibilityTimeout": seconds}
                for number, held in enumerate(all_held[start : start + BATCH])
            ]
            with translated():
                await self._client.change_message_visibility_batch(QueueUrl=self._url, Entries=entries)
