"""One connection to SQS for everything in a process; and the task that keeps its queues there.

Invariant: until the queues were opened for this store nothing is sent or received by this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import Sequence
from typing import Any, Final

from tickwise.adapters.broker.sqs.address import read_address
from tickwise.adapters.broker.sqs.consumer import SqsConsumer
from tickwise.adapters.broker.sqs.envelope import body_of, stored
from tickwise.adapters.broker.sqs.library import QueueAbsent, Troubles, make_client, translated
from tickwise.adapters.broker.sqs.queues import SEEN_SECONDS, Queues
from tickwise.adapters.broker.sqs.receiver import Receiver
from tickwise.adapters.broker.sqs.sender import MAX_WAITING, Addressed, Sender
from tickwise.domain.errors import BrokerUnavailable, Misconfigured, TooLarge
from tickwise.observability.tasks import end_tasks
from tickwise.ports.blobs import Blobs
from tickwise.ports.broker import BrokerState, Channel, ChannelKind, Message
from tickwise.ports.clock import Clock

KEEP_SECONDS: Final = 10.0
"""The interval of looks for the queues, and for groups of executors that came or went."""
KEEP_AWAY_SECONDS: Final = 1.0
"""The interval of those looks while SQS does not answer."""
KEEP_SECONDS_LEAST: Final = 0.2
"""Between two looks, however many requests fail."""


class SqsBroker:
    """`ports.broker.Broker` over SQS."""

    def __init__(self, url: str, clock: Clock, blobs: Blobs | None = None) -> None:
        """`blobs`: where messages lie that are too large for SQS; without, they are refused. Raises `Misconfigured`
        for an address that cannot be. Touches no network."""
        self._address = read_address(url)
        self._clock = clock
        self._blobs = blobs
        self._troubles = Troubles()
        self._sender = Sender(self._address, clock, self._troubles)
        self._sender.heard = self._there
        self._sender.failed = self._failed
        self._exits = contextlib.AsyncExitStack()
        self._client: Any = None
        self._queues: Queues | None = None
        self._cluster = ""
        self._opened = False
        self._reachable = False
        self._detail = "it was not reached yet"
        self._turn = 0
        self._seen_at = float("-inf")
        self._consumers: list[SqsConsumer] = []
        self._hints: list[tuple[Channel, str]] = []
        """Channels of hints that consumers of this process read, each with its group."""
        self._opening = asyncio.Lock()
        self._look = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    @property
    def lanes(self) -> int:
        """See the port."""
        return self._address.lanes

    def partitions(self, channel: Channel) -> int:  # noqa: ARG002 - the same for each channel
        """See the port."""
        return self._address.buckets

    def partition_of(self, channel: Channel, key: bytes) -> int:
        """See the port."""
        return zlib.crc32(key) % self.partitions(channel)

    async def open(self, cluster: str) -> None:
        """See the port."""
        async with self._opening:
            if self._opened:
                return
            try:
                if self._client is None:
                    with translated():
                        self._client = await self._exits.enter_async_context(make_client(self._address))
                queues = self._queues = Queues(self._address, self._client)
                await queues.ensure()
                await queues.mark(cluster)
                await queues.find_groups(self._clock.now())
            except BrokerUnavailable as failure:
                self._away(failure.detail)
                raise
            except QueueAbsent as failure:
                self._away("a queue was deleted a moment ago")
                raise BrokerUnavailable(f"SQS: a queue was deleted a moment ago: {failure}") from None
            self._cluster = cluster
            self._opened = True
            self._there()
            self._sender.start(self._client)
            self._keeper = asyncio.create_task(self._keep(), name="broker keeper")
            for consumer in self._consumers:
                await consumer.opened()

    async def close(self) -> None:
        """See the port."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            await end_tasks([keeper])
        await asyncio.gather(*(consumer.stop() for consumer in self._consumers))
        self._consumers.clear()
        await self._sender.stop()
        self._opened = False
        self._client = None
        await self._exits.aclose()

    async def send(self, channel: Channel, messages: Sequence[Message]) -> None:
        """See the port."""
        queues = self._open_queues()
        bodies: list[Addressed] = []
        large: list[tuple[int, Message]] = []
        for message in messages:
            body = body_of(message)
            if body is None:
                large.append((len(bodies), message))
            bodies.append(Addressed(self._bucket(channel, message), body or ""))
        if large and self._blobs is None:
            await stored(large[0][1], None, "")
        for place, message in large:
            name = f"{self._address.prefix}/{self._clock.random_bytes(16).hex()}"
            bodies[place] = bodies[place]._replace(body=await stored(message, self._blobs, name))
        await self._sender.send(_urls(queues, channel), bodies)

    def send_nowait(self, channel: Channel, messages: Sequence[Message]) -> None:
        """See the port."""
        if not self._opened or self._queues is None:
            self._sender.lose(len(messages))
            return
        bodies = []
        for message in messages:
            try:
                body = body_of(message)
            except TooLarge:
                body = None
            if body is None:
                self._sender.lose(1)
            else:
                bodies.append(Addressed(self._bucket(channel, message), body))
        self._sender.send_nowait(_urls(self._queues, channel), bodies)

    def consumer(self, channels: Sequence[Channel], group: str) -> SqsConsumer:
        """See the port."""
        made = SqsConsumer(channels, group, join=self._join, is_open=lambda: self._opened, clock=self._clock)
        self._consumers.append(made)
        return made

    def state(self) -> BrokerState:
        """See the port."""
        sender = self._sender
        detail = "" if self._reachable else self._detail
        return BrokerState(self._reachable, detail, sender.waiting, MAX_WAITING, sender.thrown, sender.lost)

    # ---------------------------------------------------------------------------------------------- parts

    def _open_queues(self) -> Queues:
        if not self._opened or self._queues is None:
            raise BrokerUnavailable(f"the broker is away: {self._detail}")
        return self._queues

    def _bucket(self, channel: Channel, message: Message) -> int:
        if message.partition is not None:
            return message.partition
        if message.key is not None:
            return self.partition_of(channel, message.key)
        self._turn += 1
        return self._turn % self._address.buckets

    async def _join(self, channel: Channel, group: str) -> Receiver:
        queues = self._open_queues()
        if channel.kind is ChannelKind.RUNS:
            try:
                url = await queues.join(channel, group, self._clock.now())
            except QueueAbsent as failure:
                raise BrokerUnavailable(str(failure)) from None
            self._hints.append((channel, group))
        else:
            url = queues.fixed[channel]
        made = Receiver(
            channel, url, address=self._address, client=self._client, blobs=self._blobs, clock=self._clock,
            troubles=self._troubles,
        )  # fmt: skip
        made.is_absent = self._look.set
        return made

    # ---------------------------------------------------------------------------------------------- how it stands

    def _there(self) -> None:
        if not self._reachable:
            self._reachable, self._detail = True, ""
            self._troubles.recovered()

    def _away(self, detail: str) -> None:
        self._reachable, self._detail = False, detail

    def _failed(self, reason: str) -> None:
        self._away(reason)
        self._look.set()

    async def _keep(self) -> None:
        """Look at the queues now and then, and make deleted ones again."""
        while True:
            await self._clock.sleep(KEEP_SECONDS_LEAST)
            pause = (KEEP_SECONDS if self._reachable else KEEP_AWAY_SECONDS) * (0.75 + 0.5 * self._clock.chance())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._look.wait()
            self._look.clear()
            try:
                await self._keep_once(self._open_queues())
                self._there()
            except (BrokerUnavailable, Misconfigured) as failure:
                self._away(failure.detail)
                self._troubles.complain("queues", failure.detail)

    async def _keep_once(self, queues: Queues) -> None:
        try:
            await queues.look()
        except QueueAbsent:
            self._troubles.complain("deleted", f"a queue of {self._address.prefix} was deleted; it is made again")
            await self._made_again(queues)
        now = self._clock.now()
        try:
            if now - self._seen_at >= SEEN_SECONDS or self._seen_at > now:
                for channel, group in self._hints:
                    await queues.join(channel, group, now)
                self._seen_at = now
            await queues.find_groups(now)
        except QueueAbsent as failure:
            raise BrokerUnavailable(f"SQS: a queue of hints is not there: {failure}") from None

    async def _made_again(self, queues: Queues) -> None:
        try:
            await queues.ensure()
            await queues.mark(self._cluster)
        except QueueAbsent as failure:
            raise BrokerUnavailable(f"SQS: {failure}") from None


def _urls(queues: Queues, channel: Channel) -> Sequence[str]:
    """The queues of a channel: of hints one for each group that is there."""
    if channel.kind is ChannelKind.RUNS:
        return [*queues.groups.get(channel, {}).values()]
    return [queues.fixed[channel]]
