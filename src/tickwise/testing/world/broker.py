"""A broker that loses, repeats and reorders what it carries, is slow to say so, and is away now and then.

    sender ──► (lost? twice? late?) ──► the exchange ──► the partition's member
                                                           └── dead or frozen for a session: others have it

Invariant: nothing here makes anything right. A world whose broker loses every message ends as all others do, later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from tickwise.adapters.broker.memory import Exchange, MemoryBroker
from tickwise.domain.errors import BrokerUnavailable
from tickwise.ports.broker import BrokerState, Channel, ChannelKind, Consumer, Message
from tickwise.ports.clock import Clock
from tickwise.testing.world.loop import NETWORK, WorldLoop
from tickwise.testing.world.process import SimulatedProcess

SESSION_SECONDS = 3.0
"""A member that is silent for so long loses its partitions."""
LANES = 3
PARTITIONS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Carriage:
    """The transport of messages from now on."""

    lost: float = 0.0
    """The share of messages that never arrive, those included that were said to have, …"""
    repeated: float = 0.0
    """… and of those that arrive twice."""
    late_seconds: float = 0.002
    """Up to so late, each by its own time: they overtake each other."""
    unconfirmed: float = 0.0
    """The share of sends whose sender is told that nobody knows."""


class Post:
    """The broker of a world."""

    def __init__(self, loop: WorldLoop, dice: Random, *, start: float, seen: Callable[[str], None]) -> None:
        """`seen` is told what befell a message, once for each."""
        self.carriage = Carriage()
        self.exchange = Exchange(lanes=LANES, partitions=PARTITIONS)
        self.exchange.carry = self._carry
        self._loop = loop
        self._dice = dice
        self._start = start
        self._seen = seen

    def of(self, process: SimulatedProcess, clock: Clock) -> ProcessBroker:
        """The client of one process."""
        return ProcessBroker(self, process, clock)

    def unconfirmed(self) -> bool:
        """Draw whether the confirmation of a send that takes place now is lost."""
        return self._dice.random() < self.carriage.unconfirmed

    def travel_seconds(self) -> float:
        """The travel time of the next message, or of its confirmation."""
        return self._dice.random() * self.carriage.late_seconds

    def _carry(self, channel: Channel, messages: Sequence[Message]) -> Sequence[Message]:
        carriage, dice = self.carriage, self._dice
        for message in messages:
            what = "hint" if channel.kind is ChannelKind.RUNS else "result"
            if dice.random() < carriage.lost:
                self._seen(f"{what} lost")
                continue
            self._deliver(channel, message)
            if dice.random() < carriage.repeated:
                self._seen(f"{what} repeated")
                self._deliver(channel, message)
        return ()

    def _deliver(self, channel: Channel, message: Message) -> None:
        def arrive() -> None:
            self.exchange.append(channel, [message], self._start + self._loop.time())

        self._loop.call_later(self.travel_seconds(), arrive, context=NETWORK)


class ProcessBroker:
    """The port `Broker` of one process."""

    def __init__(self, post: Post, process: SimulatedProcess, clock: Clock) -> None:
        self._post = post
        self._process = process
        self._clock = clock
        self._inner = MemoryBroker(post.exchange, clock)
        process.at_death.append(lambda: self._silent(process))

    @property
    def lanes(self) -> int:
        return self._inner.lanes

    def partitions(self, channel: Channel) -> int:
        return self._inner.partitions(channel)

    def partition_of(self, channel: Channel, key: bytes) -> int:
        return self._inner.partition_of(channel, key)

    async def open(self, cluster: str) -> None:
        await self._inner.open(cluster)

    async def close(self) -> None:
        await self._inner.close()

    async def send(self, channel: Channel, messages: Sequence[Message]) -> None:
        """As the port says. What was not confirmed may have arrived."""
        post = self._post
        lost_word = post.unconfirmed()
        if not lost_word or self._clock.chance() < 0.5:
            await self._inner.send(channel, messages)
        await asyncio.sleep(post.travel_seconds())  # noqa: TID251 - the loop's own timers are the time
        if lost_word:
            post._seen("result unconfirmed")
            raise BrokerUnavailable("nobody said that it has them")

    def send_nowait(self, channel: Channel, messages: Sequence[Message]) -> None:
        self._inner.send_nowait(channel, messages)

    def consumer(self, channels: Sequence[Channel], group: str) -> Consumer:
        return self._inner.consumer(channels, group)

    def state(self) -> BrokerState:
        return self._inner.state()

    def _silent(self, process: SimulatedProcess) -> None:
        """It is dead, or stands still: if it is so for a session, others take over."""

        def judge() -> None:
            if not process.alive or process.frozen:
                self._inner.expel()

        self._post._loop.call_later(SESSION_SECONDS, judge, context=NETWORK)

    def is_frozen(self) -> None:
        """Its process stands still from now on."""
        self._silent(self._process)
