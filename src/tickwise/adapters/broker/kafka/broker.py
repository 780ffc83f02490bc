"""One connection to a Kafka cluster for everything in a process; and the task that keeps its channels there.

Invariant: until the channels were opened for this cluster nothing is sent, fetched or made by this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import structlog

from tickwise.adapters.broker.kafka.address import read_address
from tickwise.adapters.broker.kafka.consumer import Fetcher, KafkaConsumer
from tickwise.adapters.broker.kafka.library import Complaints, client_library, free
from tickwise.adapters.broker.kafka.member import Member
from tickwise.adapters.broker.kafka.producer import MAX_WAITING, Producer
from tickwise.adapters.broker.kafka.share import ShareMember
from tickwise.adapters.broker.kafka.topics import Found, Topics, topic_name
from tickwise.domain.errors import BrokerUnavailable, Misconfigured
from tickwise.observability.tasks import end_tasks
from tickwise.ports.broker import BrokerState, Channel, ChannelKind, Message
from tickwise.ports.clock import Clock

KEEP_SECONDS: Final = 3.0
"""The interval of looks for the channels: one request of a few hundred bytes."""
KEEP_AWAY_SECONDS: Final = 1.0
"""The interval of those looks while the broker does not answer."""
KEEP_SECONDS_LEAST: Final = 0.1
"""Between two looks, however many messages fail."""

logger = structlog.get_logger("tickwise.kafka")


class KafkaBroker:
    """`ports.broker.Broker` over Kafka."""

    def __init__(self, url: str, clock: Clock) -> None:
        """Raises `Misconfigured` for an address that cannot be. Touches no network."""
        client_library()
        self._address = read_address(url)
        self._clock = clock
        self._complaints = Complaints()
        self._topics = Topics(self._address, self._complaints)
        self._producer = Producer(self._address, clock, self._complaints)
        self._producer.failed = self._failed
        self._found: Mapping[Channel, Found] = {}
        self._cluster = ""
        self._opened = False
        self._refused = ""
        """The reason why the channels cannot be used any more: they were deleted, and others came in their place."""
        self._reachable = False
        self._detail = "it was not reached yet"
        self._consumers: list[tuple[KafkaConsumer, Fetcher]] = []
        self._opening = asyncio.Lock()
        self._look = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    @property
    def lanes(self) -> int:
        """See the port."""
        return self._address.lanes

    def partitions(self, channel: Channel) -> int:
        """See the port."""
        found = self._found.get(channel)
        return found.partitions if found else self._address.partitions

    def partition_of(self, channel: Channel, key: bytes) -> int:
        """See the port. As the library's own partitioner (`consistent_random`) does it."""
        return zlib.crc32(key) % self.partitions(channel)

    async def open(self, cluster: str) -> None:
        """See the port."""
        async with self._opening:
            if self._opened:
                return
            try:
                self._found = await asyncio.to_thread(self._topics.ensure)
                await asyncio.to_thread(self._topics.mark, cluster)
            except BrokerUnavailable as failure:
                self._away(failure.detail)
                raise
            self._cluster = cluster
            self._opened = True
            self._there()
            self._producer.start()
            self._keeper = asyncio.create_task(self._keep(), name="broker keeper")
            for consumer, _ in self._consumers:
                consumer.opened()

    async def close(self) -> None:
        """See the port."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            await end_tasks([keeper])
        await asyncio.gather(*(consumer.stop() for consumer, _ in self._consumers))
        self._consumers.clear()
        await self._producer.stop()
        self._opened = False
        await free(self._topics.forget, self._complaints)

    async def send(self, channel: Channel, messages: Sequence[Message]) -> None:
        """See the port."""
        if not self._opened or self._refused:
            raise BrokerUnavailable(f"the broker is away: {self._refused or self._detail}")
        await self._producer.send(topic_name(self._address, channel), self.partitions(channel), messages)

    def send_nowait(self, channel: Channel, messages: Sequence[Message]) -> None:
        """See the port."""
        if self._refused:
            self._producer.lose(len(messages))
            return
        self._producer.send_nowait(topic_name(self._address, channel), self.partitions(channel), messages)

    def consumer(self, channels: Sequence[Channel], group: str) -> KafkaConsumer:
        """See the port."""
        member = self._fetcher(channels, group)
        made = KafkaConsumer(member, reachable=lambda: self._reachable, wanted=lambda: self._opened)
        self._consumers.append((made, member))
        return made

    def _fetcher(self, channels: Sequence[Channel], group: str) -> Fetcher:
        if self._address.group_protocol == "share" and all(channel.kind is ChannelKind.RUNS for channel in channels):
            return ShareMember(self._address, self._clock, self._complaints, channels, group)
        member = Member(self._address, self._clock, self._complaints, channels, group)
        member.reachable = lambda: self._reachable
        return member

    def state(self) -> BrokerState:
        """See the port."""
        producer = self._producer
        detail = "" if self._reachable else self._detail
        return BrokerState(self._reachable, detail, producer.waiting, MAX_WAITING, producer.thrown, producer.lost)

    # ---------------------------------------------------------------------------------------------- how it stands

    def _there(self) -> None:
        if not self._reachable:
            self._reachable, self._detail = True, ""
            self._complaints.recovered()

    def _away(self, detail: str) -> None:
        self._reachable, self._detail = False, detail

    def _failed(self, error: Any) -> None:
        """The producer met an error. Of those that say that brokers or topics are gone, the keeper looks soon."""
        kinds = client_library().KafkaError
        if error.code() == kinds._ALL_BROKERS_DOWN:  # noqa: SLF001 - the library's own codes begin so
            self._away("no broker of the cluster can be reached")
        elif error.code() not in (
            kinds._UNKNOWN_TOPIC,  # noqa: SLF001 - as above
            kinds._UNKNOWN_PARTITION,  # noqa: SLF001 - as above
            kinds.UNKNOWN_TOPIC_OR_PART,
            kinds.UNKNOWN_TOPIC_ID,
        ):
            return
        self._look.set()

    async def _keep(self) -> None:
        """Look at the channels now and then, and make deleted ones again."""
        while True:
            await self._clock.sleep(KEEP_SECONDS_LEAST)
            pause = (KEEP_SECONDS if self._reachable else KEEP_AWAY_SECONDS) * (0.75 + 0.5 * self._clock.chance())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._look.wait()
            self._look.clear()
            await self._keep_once()

    async def _keep_once(self) -> None:
        try:
            found = await asyncio.to_thread(self._topics.look)
            if _identities(found) != _identities(self._found) or not self._topics.marked or self._refused:
                logger.warning("channels_deleted", prefix=self._address.prefix)
                found = await asyncio.to_thread(self._topics.ensure)
                await asyncio.to_thread(self._topics.mark, self._cluster)
            self._refused = ""
            self._kept(found)
        except BrokerUnavailable as failure:
            self._away(failure.detail)
        except Misconfigured as refusal:
            self._refused = refusal.detail
            self._away(refusal.detail)
            self._complaints.complain("channels", refusal.detail)
        except Exception as failure:  # noqa: BLE001 - the watch must go on after any failure
            self._complaints.failed("keeper")
            self._away(f"it could not be looked at: {type(failure).__name__}")

    def _kept(self, found: Mapping[Channel, Found]) -> None:
        """Take the topics that were found as the present ones; members that read topics which were made again begin
        anew."""
        before, self._found = self._found, found
        self._there()
        identities = _identities(before)
        others = [channel for channel, topic in found.items() if identities.get(channel) not in (None, topic.identity)]
        if others:
            for _, member in self._consumers:
                member.begin_anew(others)


def _identities(found: Mapping[Channel, Found]) -> dict[Channel, str]:
    return {channel: topic.identity for channel, topic in found.items()}
