"""A broker inside one process: for tests and for the simulated world, where time is virtual and nothing runs beside
the event loop.

    Exchange        the logs, the groups and what goes wrong; one for all clients of a world
    MemoryBroker    one client of it, as one process has it

Invariants: no method awaits between reading and writing; the same calls in the same order give the same answers. What
Kafka does and this does not: a session that runs out by itself (`MemoryBroker.expel` ends it by hand).
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final, NamedTuple

from tickwise.adapters.broker.ledger import FAIR_EVERY, Head, Ledger, pick
from tickwise.domain.errors import BrokerUnavailable, Misconfigured, TooLarge
from tickwise.ports.broker import (
    MAX_ERROR_HEADERS_BYTES,
    MAX_MESSAGE_BYTES,
    BrokerState,
    Channel,
    ConsumerState,
    Delivery,
    Message,
    size_of,
)
from tickwise.ports.clock import Clock

MAX_KEPT: Final = 100_000
"""Messages of one partition; then the oldest are dropped, as the retention of a real broker would."""


class MemoryPartition(NamedTuple):
    """One partition of one channel."""

    channel: Channel
    partition: int


@dataclass(slots=True)
class Log:
    """The content of one partition: the messages from offset `first` on."""

    first: int = 0
    kept: deque[Delivery] = field(default_factory=deque)

    @property
    def end(self) -> int:
        """The offset of the next message."""
        return self.first + len(self.kept)

    def trim(self, first: int) -> None:
        """Drop the messages before this offset."""
        while self.kept and self.first < first:
            self.kept.popleft()
            self.first += 1


@dataclass(slots=True)
class Group:
    """The members that share the work of some channels."""

    committed: dict[MemoryPartition, int] = field(default_factory=dict)
    members: list[MemoryConsumer] = field(default_factory=list)
    """In the order in which they joined."""


class Exchange:
    """The broker that all clients of a world share."""

    def __init__(self, *, lanes: int = 10, partitions: int = 6, kept_most: int = MAX_KEPT) -> None:
        self.lanes = lanes
        self.partitions = partitions
        self.cluster: str | None = None
        """The owner of these channels; the first client to open them says it."""
        self.carry: Callable[[Channel, Sequence[Message]], Sequence[Message]] = lambda _, messages: messages
        """The treatment of messages on their way: a test may drop some, repeat some, or keep some and `append` them
        later."""
        self._away = False
        self._kept_most = kept_most
        self._logs: defaultdict[MemoryPartition, Log] = defaultdict(Log)
        self._groups: defaultdict[str, Group] = defaultdict(Group)
        self._turns = count()

    @property
    def away(self) -> bool:
        """True while the broker is unreachable: sends fail, messages sent without waiting are lost, none is taken,
        commits wait."""
        return self._away

    @away.setter
    def away(self, away: bool) -> None:
        self._away = away
        self._wake(None)

    def append(self, channel: Channel, messages: Sequence[Message], sent_at: float) -> None:
        """Append messages to their partitions."""
        for message in messages:
            place = MemoryPartition(channel, self._partition(message))
            log = self._logs[place]
            log.kept.append(
                Delivery(channel, message.value, message.key, message.headers, place.partition, log.end, sent_at)
            )
            log.trim(log.end - self._kept_most)
        self._wake(channel)

    def _partition(self, message: Message) -> int:
        if message.partition is not None:
            return message.partition
        return next(self._turns) % self.partitions if message.key is None else self.partition_of(message.key)

    def partition_of(self, key: bytes) -> int:
        """The partition of a key."""
        return zlib.crc32(key) % self.partitions

    def log(self, place: MemoryPartition) -> Log:
        """One partition."""
        return self._logs[place]

    def join(self, member: MemoryConsumer) -> None:
        """A new member: partitions are dealt anew."""
        group = self._groups[member.group]
        if member not in group.members:
            group.members.append(member)
            self._deal(group)

    def leave(self, member: MemoryConsumer) -> None:
        """Remove a member from its group; a repeat changes nothing."""
        group = self._groups[member.group]
        if member in group.members:
            group.members.remove(member)
            member.assigned({})
            self._deal(group)

    def commit(self, group: str, place: MemoryPartition, offset: int) -> None:
        """Commit an offset: all messages before it are done. They stay, for groups that come later."""
        self._groups[group].committed[place] = offset

    def _wake(self, channel: Channel | None) -> None:
        for group in self._groups.values():
            for member in group.members:
                if channel is None or channel in member.channels:
                    member.arrived.set()

    def _deal(self, group: Group) -> None:
        """Each partition to one member that wants its channel, in turn; a member keeps its books of those that stay."""
        dealt: dict[MemoryConsumer, dict[MemoryPartition, Ledger]] = {member: {} for member in group.members}
        channels = dict.fromkeys(channel for member in group.members for channel in member.channels)
        for channel in channels:
            takers = [member for member in group.members if channel in member.channels]
            for partition in range(self.partitions):
                place, taker = MemoryPartition(channel, partition), takers[partition % len(takers)]
                start = max(group.committed.get(place, 0), self._logs[place].first)
                dealt[taker][place] = taker.books.get(place) or Ledger(start)
        for member, books in dealt.items():
            member.assigned(books)


class MemoryBroker:
    """`ports.broker.Broker` over an exchange."""

    def __init__(self, exchange: Exchange, clock: Clock, *, opened: bool = True) -> None:
        """`opened`: as if `open` had succeeded; most tests begin there."""
        self._exchange = exchange
        self._clock = clock
        self._consumers: list[MemoryConsumer] = []
        self._opened = opened
        self._thrown = 0
        self._lost = 0

    @property
    def lanes(self) -> int:
        """See the port."""
        return self._exchange.lanes

    def partitions(self, channel: Channel) -> int:  # noqa: ARG002 - all have as many here
        """See the port."""
        return self._exchange.partitions

    def partition_of(self, channel: Channel, key: bytes) -> int:  # noqa: ARG002 - all have as many here
        """See the port."""
        return self._exchange.partition_of(key)

    async def open(self, cluster: str) -> None:
        """See the port."""
        if self._exchange.away:
            raise BrokerUnavailable("the broker is away")
        owner = self._exchange.cluster = self._exchange.cluster or cluster
        if owner != cluster:
            raise Misconfigured(f"these channels belong to the cluster {owner}, and this store is {cluster}")
        self._opened = True
        for consumer in self._consumers:
            consumer.arrived.set()

    async def close(self) -> None:
        """See the port."""
        for consumer in self._consumers:
            await consumer.stop()
        self._consumers.clear()
        self._opened = False

    async def send(self, channel: Channel, messages: Sequence[Message]) -> None:
        """See the port. Never `Busy`: nothing waits here."""
        if not self._reachable():
            raise BrokerUnavailable(self._detail())
        largest = max(map(size_of, messages), default=0)
        if largest > MAX_MESSAGE_BYTES + MAX_ERROR_HEADERS_BYTES:
            raise TooLarge(f"a message has {largest} bytes; the broker takes up to {MAX_MESSAGE_BYTES}")
        self._exchange.append(channel, self._exchange.carry(channel, messages), self._clock.now())

    def send_nowait(self, channel: Channel, messages: Sequence[Message]) -> None:
        """See the port."""
        self._thrown += len(messages)
        fit = [each for each in messages if size_of(each) <= MAX_MESSAGE_BYTES + MAX_ERROR_HEADERS_BYTES]
        if not self._reachable():
            fit = []
        self._lost += len(messages) - len(fit)
        if fit:
            self._exchange.append(channel, self._exchange.carry(channel, fit), self._clock.now())

    def consumer(self, channels: Sequence[Channel], group: str) -> MemoryConsumer:
        """See the port."""
        made = MemoryConsumer(self._exchange, channels, group, self._reachable)
        self._consumers.append(made)
        return made

    def state(self) -> BrokerState:
        """See the port."""
        return BrokerState(self._reachable(), self._detail(), 0, 0, self._thrown, self._lost)

    def expel(self) -> None:
        """The sessions of this client's consumers are over, as when its process died or stood still for too long: what
        they took and did not say done goes to others. Those that live join again at their next take."""
        for consumer in self._consumers:
            self._exchange.leave(consumer)

    def _reachable(self) -> bool:
        return self._opened and not self._exchange.away

    def _detail(self) -> str:
        return "" if self._reachable() else "the broker is away" if self._opened else "the broker was not opened yet"


class MemoryConsumer:
    """`ports.broker.Consumer` over an exchange. Nothing is fetched ahead: a take reads the logs themselves."""

    def __init__(
        self, exchange: Exchange, channels: Sequence[Channel], group: str, reachable: Callable[[], bool]
    ) -> None:
        self.channels = tuple(channels)
        self.group = group
        self.books: dict[MemoryPartition, Ledger] = {}
        """Of the partitions that are this member's now."""
        self.arrived = asyncio.Event()
        """Something may be there."""
        self._exchange = exchange
        self._reachable = reachable
        self._started = False
        self._takes = 0

    async def start(self) -> None:
        """See the port."""
        self._started = True
        if self._reachable():
            self._exchange.join(self)

    async def stop(self) -> None:
        """See the port."""
        self._started = False
        self._commit(list(self.books))
        self._exchange.leave(self)
        self.arrived.set()

    async def take(self, limit: int, wait_seconds: float) -> Sequence[Delivery]:
        """See the port."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_seconds):
                while True:
                    self.arrived.clear()
                    found = self._read(limit)
                    if found or not self._started:
                        return found
                    await self.arrived.wait()
        return ()

    async def done(self, deliveries: Sequence[Delivery]) -> None:
        """See the port."""
        touched: dict[MemoryPartition, None] = {}
        for delivery in deliveries:
            place = MemoryPartition(delivery.channel, delivery.partition)
            if place in self.books:
                self.books[place].done(delivery.offset)
                touched[place] = None
        self._commit(list(touched))

    def state(self) -> ConsumerState:
        """See the port."""
        lag = {channel.name: 0 for channel in self.channels}
        for place, book in self.books.items():
            lag[place.channel.name] += self._exchange.log(place).end - book.committed()
        return ConsumerState(self._reachable() and self._started, 0, 0, lag)

    def assigned(self, books: dict[MemoryPartition, Ledger]) -> None:
        """Assign these partitions to this member, in place of the earlier ones."""
        self.books = books
        self.arrived.set()

    def _read(self, limit: int) -> list[Delivery]:
        if not (self._started and self._reachable()):
            return []
        self._exchange.join(self)
        heads = []
        for place, book in self.books.items():
            log = self._exchange.log(place)
            book.next = max(book.next, log.first)  # what was before is gone
            if book.next < log.end:
                head = log.kept[book.next - log.first]
                heads.append((place, Head(self.channels.index(place.channel), head.sent_at, log.end - book.next)))
        if not heads:
            return []
        self._takes += 1
        found: list[Delivery] = []
        for place, number in pick(heads, limit, oldest_first=self._takes % FAIR_EVERY == 0):
            log, book = self._exchange.log(place), self.books[place]
            for _ in range(number):
                found.append(log.kept[book.next - log.first])
                book.take(book.next)
        return found

    def _commit(self, places: Sequence[MemoryPartition]) -> None:
        if self._reachable():
            for place in places:
                self._exchange.commit(self.group, place, self.books[place].committed())
