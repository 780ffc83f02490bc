"""Named channels between roles that run apart. The store stays the truth: what a broker loses, repeats, reorders or
holds up costs latency, never a run.

    scheduler, API ──hints──► runs.p0 … p9 ──► executors    claim in the store what the hints name
    executors ──outcomes──► results ──► recorders           apply them in batches
    API ──requests──► requests ──► recorders                apply them, in order per job
    anybody ──what cannot be read──► dead                   with its bytes, for a person

Two ways to send. A hint is sent without waiting: it may be lost. A request or a result is sent: the call returns when
the broker has it durably. A consumer names the messages that are done; a message that was taken and is not done when
its consumer ends is delivered again, to the next consumer of its partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

PRIORITIES: Final = 10
"""Of runs, 0 to 9; a broker may have fewer channels for them, each for adjacent ones."""
MAX_MESSAGE_BYTES: Final = 2 << 20
"""Of key, value and headers of one message: twice what a job's body may have as shipped. A larger message goes another
way, or its sender refuses it."""
MAX_ERROR_HEADERS_BYTES: Final = 64 << 10
"""A broker takes so much more, for what DEAD says of a message in its headers."""


class ChannelKind(StrEnum):
    """The purpose of a channel."""

    REQUESTS = "requests"
    RUNS = "runs"
    RESULTS = "results"
    DEAD = "dead"


class Channel(NamedTuple):
    """One channel."""

    kind: ChannelKind
    lane: int = 0
    """Of RUNS: from 0 to one less than the broker's `lanes`, the higher ones first."""

    @property
    def name(self) -> str:
        """`requests`, `runs.p5`, `results`, `dead`."""
        return f"{self.kind}.p{self.lane}" if self.kind is ChannelKind.RUNS else str(self.kind)


REQUESTS: Final = Channel(ChannelKind.REQUESTS)
RESULTS: Final = Channel(ChannelKind.RESULTS)
DEAD: Final = Channel(ChannelKind.DEAD)


def lane_of(priority: int, lanes: int) -> Channel:
    """The channel of runs of this priority (0 to 9) where there are so many lanes (1 to 10)."""
    return Channel(ChannelKind.RUNS, min(max(priority, 0), PRIORITIES - 1) * lanes // PRIORITIES)


class Message(NamedTuple):
    """One message to send. Those of one channel with the same key are delivered in the order in which they were sent;
    without a key they are spread."""

    value: bytes
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes]] = ()
    partition: int | None = None
    """The partition that it goes to, for any key; None: the partition of its key."""


def size_of(message: Message) -> int:
    """Its bytes: key, value and headers."""
    size = len(message.value) + len(message.key or b"")
    for name, value in message.headers:
        size += len(name) + len(value)
    return size


class Delivery(NamedTuple):
    """One message as it was taken."""

    channel: Channel
    value: bytes
    key: bytes | None
    headers: Sequence[tuple[str, bytes]]
    partition: int
    offset: int
    sent_at: float
    """The time at which the broker got it, by its clock; Unix seconds. For people and for lag, never for a decision."""


class BrokerState(NamedTuple):
    """The state for metrics and `doctor`: cheap, as of the last look."""

    reachable: bool
    """It answered within the last seconds."""
    detail: str
    """If it did not: why, for people."""
    waiting: int
    """Messages sent or thrown that the broker has not confirmed, …"""
    waiting_most: int
    """… and how many there may be before `send` raises `Busy` and `send_nowait` loses the message."""
    thrown: int
    """Since the start; with those that were …"""
    lost: int
    """… lost: there was no room, or the broker did not confirm them in time."""


class ConsumerState(NamedTuple):
    """The state of one consumer."""

    reachable: bool
    """The broker answers, and messages may come: there are partitions for this one, which more members than
    partitions do not all have."""
    waiting: int
    """Messages that were fetched and not taken, …"""
    waiting_most: int
    """… and how many there may be before fetching pauses."""
    lag: Mapping[str, int]
    """By name of the channel: messages that are there and not done, of the partitions that this one has. As of some
    seconds ago."""


class Consumer(Protocol):
    """One member of a group: each partition of its channels belongs to one member at a time."""

    async def start(self) -> None:
        """Join. Keeps trying in the background if the broker is away; never raises for that. Once, and before the first
        take."""
        ...

    async def stop(self) -> None:
        """Leave the group, with everything that was said done committed as far as the broker can be reached. What was
        taken and is not done goes to others. A take that waits returns. Twice is once."""
        ...

    async def take(self, limit: int, wait_seconds: float) -> Sequence[Delivery]:
        """Up to `limit` messages; waits at most so long for the first.

        Channels named earlier come first, but none is passed over for ever: at least every tenth take begins with the
        message that has waited longest. Of one partition in order. May return nothing. Never raises for an absent
        broker. One take at a time.
        """
        ...

    async def done(self, deliveries: Sequence[Delivery]) -> None:
        """Mark deliveries as done: they need not come again. In each partition, the offset up to the first delivery
        that is taken and not done is committed soon after: commits are gathered. A commit that fails is tried again; it
        costs a repetition, so this never raises. A delivery that was not taken, or whose partition belongs to another
        member by now, changes nothing."""
        ...

    def state(self) -> ConsumerState:
        """The present state."""
        ...


class Broker(Protocol):
    """One connection to the broker, shared by everything in a process. A client that is not used costs little.

    Until `open` has succeeded once, sends raise `BrokerUnavailable`, throws are lost, and consumers that were started
    wait for it to join; so roles may start before the broker does.
    """

    @property
    def lanes(self) -> int:
        """The number of channels for runs, 1 to 10."""
        ...

    def partitions(self, channel: Channel) -> int:
        """The number of its partitions, numbered from 0; the configured one, until the broker was heard."""
        ...

    def partition_of(self, channel: Channel, key: bytes) -> int:
        """The partition of a message with this key, if it names none."""
        ...

    async def open(self, cluster: str) -> None:
        """Make the channels that are not there, check those that are, and that they belong to `cluster`, the name of
        the store that they serve: the first process that opens them marks them.

        Raises `BrokerUnavailable` (try again), `Misconfigured` (they belong to another cluster, cannot be made, or have
        fewer partitions than asked for, or would keep messages for a shorter time). Again after it failed, as often as
        one likes; after it succeeded, it does nothing. Channels that are deleted later are made again, within seconds,
        and what was in them is gone.
        """
        ...

    async def close(self) -> None:
        """Send the waiting messages, for some seconds, and free all resources."""
        ...

    async def send(self, channel: Channel, messages: Sequence[Message]) -> None:
        """Returns when the broker has all of them durably (every replica in sync). Raises `Busy` if too many wait
        (none was taken), `TooLarge` if one is (none was taken), `BrokerUnavailable` if it was not confirmed in time:
        any of them may have arrived or arrive later, so the same is sent again. Cancelling it takes nothing back."""
        ...

    def send_nowait(self, channel: Channel, messages: Sequence[Message]) -> None:
        """Send without waiting. Never raises; what there is no room for, what is too large, or what is not confirmed in
        time, is lost and counted."""
        ...

    def consumer(self, channels: Sequence[Channel], group: str) -> Consumer:
        """A new member of the group `group` for these channels, the most urgent first. Not started."""
        ...

    def state(self) -> BrokerState:
        """The present state."""
        ...
