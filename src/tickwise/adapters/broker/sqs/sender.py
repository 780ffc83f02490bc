"""Sends bodies to queues: batches of up to ten, of one bucket in the order in which they came.

    send ──► outbox of a queue ──► worker (bucket modulo WORKERS) ──batch──► SQS ──► settled

A worker has one request under way, so what it sends later cannot pass what it sent before. What was not confirmed goes
out again under the same deduplication id, by which SQS keeps one of them. Invariants: what waits is bounded by count
and by bytes, and throws may have only a share of that; each message is confirmed or given up within `confirm_seconds`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from tickwise.adapters.broker.sqs.address import SqsAddress
from tickwise.adapters.broker.sqs.library import QueueAbsent, Troubles, translated
from tickwise.domain.errors import BrokerUnavailable, Busy, Misconfigured
from tickwise.observability.draining import Drain
from tickwise.observability.tasks import end_tasks
from tickwise.ports.clock import Clock

MAX_WAITING: Final = 20_000
MAX_WAITING_BYTES: Final = 64 << 20
THROWN_SHARE: Final = 0.5
"""Of each bound, the most that throws may use."""
WORKERS: Final = 8
"""Of each queue: requests that are under way at once."""
BATCH: Final = 10
"""SQS takes no more in one request."""
BATCH_BYTES: Final = 250 << 10
AGAIN_SECONDS: Final = 0.1
MAX_AGAIN_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 5.0


class Addressed(NamedTuple):
    """A body with its bucket."""

    bucket: int
    body: str


class Call:
    """The bodies of one call of `send`, and the caller's future; without one nobody waits."""

    __slots__ = ("_failure", "_left", "done")

    def __init__(self, count: int, done: asyncio.Future[None] | None) -> None:
        self.done = done
        self._left = count
        self._failure = ""

    def settle(self, failure: str) -> None:
        """One of them is confirmed, or, with a reason, given up."""
        self._failure = self._failure or failure
        self._left -= 1
        if self._left or self.done is None or self.done.done():
            return
        if self._failure:
            self.done.set_exception(BrokerUnavailable(f"the broker did not confirm: {self._failure}"))
        else:
            self.done.set_result(None)


class Parcel:
    """One body on its way to one queue."""

    __slots__ = ("body", "bucket", "call", "deduplication", "until")

    def __init__(self, addressed: Addressed, call: Call, until: float, deduplication: str) -> None:
        self.bucket, self.body = addressed
        self.call = call
        self.until = until
        self.deduplication = deduplication


class Outbox:
    """The bodies that wait for one worker of one queue."""

    def __init__(self) -> None:
        self.parcels: deque[Parcel] = deque()
        self.filled = asyncio.Event()
        self.worker: asyncio.Task[None] | None = None

    def batch(self) -> list[Parcel]:
        """Take up to ten of the first ones, as many as fit into one request."""
        taken: list[Parcel] = []
        size = 0
        while self.parcels and len(taken) < BATCH and (not taken or size + len(self.parcels[0].body) <= BATCH_BYTES):
            size += len(self.parcels[0].body)
            taken.append(self.parcels.popleft())
        return taken


class Sender:
    """All outboxes of a process."""

    def __init__(self, address: SqsAddress, clock: Clock, troubles: Troubles) -> None:
        self._address = address
        self._clock = clock
        self._troubles = troubles
        self._drain = Drain(clock)
        self._client: Any = None
        self._outboxes: dict[tuple[str, int], Outbox] = {}
        self._bytes = 0
        self.waiting = 0
        """Bodies that are neither confirmed nor given up; one for each queue that it goes to."""
        self.thrown = 0
        self.lost = 0
        self.heard: Callable[[], None] = lambda: None
        """Called when SQS has confirmed something."""
        self.failed: Callable[[str], None] = lambda _: None
        """Called with the reason of each request that failed."""

    def start(self, client: Any) -> None:
        """Begin to send by this client."""
        self._client = client

    async def stop(self) -> None:
        """Wait some seconds for what is under way, give up the rest, end."""
        end = self._clock.monotonic() + CLOSE_SECONDS
        while self._client is not None and self.waiting and self._clock.monotonic() < end:
            await self._clock.sleep(0.02)
        self._client = None
        outboxes, self._outboxes = self._outboxes, {}
        await end_tasks([outbox.worker for outbox in outboxes.values() if outbox.worker is not None])
        for outbox in outboxes.values():
            for parcel in outbox.parcels:
                self._settle(parcel, "the client ended")

    async def send(self, urls: Sequence[str], bodies: Sequence[Addressed]) -> None:
        """Returns when each queue has all of them. Raises `Busy` (none was taken), `BrokerUnavailable`."""
        if self._client is None:
            raise BrokerUnavailable("the broker was not reached yet")
        count, size = len(urls) * len(bodies), len(urls) * sum(len(each.body) for each in bodies)
        if not self._has_room(count, size, 1.0):
            wait = self._drain.wait_seconds(count)
            raise Busy(f"{self.waiting} messages wait for the broker; try again later", retry_after_seconds=wait)
        if not count:
            return
        call = Call(count, asyncio.get_running_loop().create_future())
        self._put(urls, bodies, call)
        assert call.done is not None
        await call.done

    def send_nowait(self, urls: Sequence[str], bodies: Sequence[Addressed]) -> None:
        """See the port. `thrown` and `lost` count messages, however many queues each goes to."""
        self.thrown += len(bodies)
        for each in bodies:
            if not self._has_room(len(urls), len(urls) * len(each.body), THROWN_SHARE):
                self.lost += 1
            else:
                self._put(urls, [each], Call(len(urls), None))

    def lose(self, count: int) -> None:
        """Count messages that were thrown away and may not go out."""
        self.thrown += count
        self.lost += count

    def _has_room(self, count: int, size: int, share: float) -> bool:
        """Check whether so many bodies and bytes fit. One call's bodies always fit into an empty buffer."""
        if self._client is None:
            return False
        return not self.waiting or (
            self.waiting + count <= MAX_WAITING * share and self._bytes + size <= MAX_WAITING_BYTES * share
        )

    def _put(self, urls: Sequence[str], bodies: Sequence[Addressed], call: Call) -> None:
        if not self.waiting:
            self._drain.filled()
        until = self._clock.monotonic() + self._address.confirm_seconds
        for url in urls:
            for each in bodies:
                self.waiting += 1
                self._bytes += len(each.body)
                outbox = self._outbox(url, each.bucket % WORKERS)
                outbox.parcels.append(Parcel(each, call, until, self._clock.random_bytes(16).hex()))
                outbox.filled.set()

    def _outbox(self, url: str, number: int) -> Outbox:
        found = self._outboxes.get((url, number))
        if found is None:
            found = self._outboxes[url, number] = Outbox()
            found.worker = asyncio.create_task(self._work(url, found), name=f"send to {url.rsplit('/', 1)[-1]}")
        return found

    async def _work(self, url: str, outbox: Outbox) -> None:
        pause = AGAIN_SECONDS
        while True:
            if not outbox.parcels:
                outbox.filled.clear()
                await outbox.filled.wait()
            batch = outbox.batch()
            try:
                left = await self._request(url, batch)
            except asyncio.CancelledError:
                outbox.parcels.extendleft(reversed(batch))
                raise
            if not left:
                pause = AGAIN_SECONDS
                continue
            outbox.parcels.extendleft(reversed(left))
            self._give_up(outbox)
            await self._clock.sleep(pause * (0.5 + self._clock.chance()))
            pause = min(2 * pause, MAX_AGAIN_SECONDS)

    async def _request(self, url: str, batch: Sequence[Parcel]) -> list[Parcel]:
        """Send one batch; those that SQS did not confirm, in order."""
        entries = [
            {
                "Id": str(number),
                "MessageBody": parcel.body,
                "MessageGroupId": str(parcel.bucket),
                "MessageDeduplicationId": parcel.deduplication,
            }
            for number, parcel in enumerate(batch)
        ]
        try:
            with translated():
                answer = await self._client.send_message_batch(QueueUrl=url, Entries=entries)
        except (BrokerUnavailable, Misconfigured) as failure:
            return self._failed(failure.detail, batch)
        except QueueAbsent:
            return self._failed(f"the queue {url.rsplit('/', 1)[-1]} is not there", batch)
        except Exception as failure:  # noqa: BLE001 - a worker that ends would keep all that waits for ever
            return self._failed(f"{type(failure).__name__}: {failure}", batch)
        there = {int(each["Id"]) for each in answer.get("Successful", ())}
        for number in there:
            self._settle(batch[number], "")
        self._drain.left(len(there))
        self.heard()
        if refused := answer.get("Failed"):
            self._failed(f"{refused[0].get('Code')}: {refused[0].get('Message')}", batch)
        return [parcel for number, parcel in enumerate(batch) if number not in there]

    def _failed(self, reason: str, batch: Sequence[Parcel]) -> list[Parcel]:
        self._troubles.complain("send", reason)
        self.failed(reason)
        self._reason = reason
        return [*batch]

    def _give_up(self, outbox: Outbox) -> None:
        """Those whose time is over. They came in order, so they are the first ones."""
        now = self._clock.monotonic()
        while outbox.parcels and outbox.parcels[0].until <= now:
            self._settle(outbox.parcels.popleft(), self._reason)

    def _settle(self, parcel: Parcel, failure: str) -> None:
        self.waiting -= 1
        self._bytes -= len(parcel.body)
        if failure and parcel.call.done is None:
            self.lost += 1
        parcel.call.settle(failure)

    _reason = ""
