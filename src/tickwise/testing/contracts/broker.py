"""A broker: what it must do while it is there. What it may lose, repeat or hold up is the roles' business."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

import pytest
import pytest_asyncio

from tickwise.domain.errors import BrokerUnavailable, Misconfigured, TooLarge
from tickwise.ports.broker import (
    DEAD,
    MAX_MESSAGE_BYTES,
    REQUESTS,
    RESULTS,
    Broker,
    Channel,
    Consumer,
    Delivery,
    Message,
    lane_of,
)
from tickwise.testing.contracts.base import Contract

WITHIN_SECONDS = 60.0
"""The limit for each wait; it suffices on the slowest machine."""
TURN_SECONDS = 0.2
LANES = 2
PARTITIONS = 2
CLUSTER = "the store of this test"

URGENT, USUAL = lane_of(9, LANES), lane_of(0, LANES)


class BrokerSuite(Contract):
    """The fixtures and shortcuts of a test class over a broker. The adapter's class provides the fixture `make`: it
    makes a client that is not opened, of channels that are this test's alone, with `LANES` lanes and `PARTITIONS`
    partitions each."""

    at_once = 30
    """Messages of one key that may be taken before one of them is done."""
    many = 12_000
    """More messages than a consumer fetches ahead."""

    async def group_is_known(self, broker: Broker, channels: Sequence[Channel]) -> None:
        """Let the group `group` be known at these channels before something is sent. Nothing to do where a channel
        keeps what it got for groups that come later."""

    async def until_fetched(self, consumer: Consumer, count: int) -> None:
        """Wait until this number of messages could be taken at once. Nothing to wait for where nothing is fetched
        ahead."""

    @pytest_asyncio.fixture
    async def clients(self, make: Callable[[], Broker]) -> AsyncIterator[Callable[[], Awaitable[Broker]]]:
        """Makes opened clients of the same channels; they are closed in the end."""
        made: list[Broker] = []

        async def opened() -> Broker:
            broker = make()
            made.append(broker)
            await open_patiently(broker)
            return broker

        yield opened
        for broker in made:
            await broker.close()

    @pytest_asyncio.fixture
    async def broker(self, clients: Callable[[], Awaitable[Broker]]) -> Broker:
        """One that is open."""
        return await clients()


class MessagesContract(BrokerSuite):
    """Each message arrives as it was sent."""

    async def test_messages_of_one_key_come_in_the_order_in_which_they_were_sent(self, broker: Broker) -> None:
        """However many calls sent them, and whatever else is sent."""
        sent = {key: [b"%s %d" % (key, number) for number in range(40)] for key in (b"ada", b"bob", b"eve")}
        for start in range(0, 40, 8):
            for key, values in sent.items():
                await broker.send(REQUESTS, [Message(value, key) for value in values[start : start + 8]])
        async with member(broker, [REQUESTS]) as consumer:
            taken = await take_all(consumer, 120, and_done=True)
        assert sent == {key: [each.value for each in taken if each.key == key] for key in sent}

    async def test_what_was_sent_waits_for_a_group_that_comes_later(self, broker: Broker) -> None:
        """A send returns when the broker has it: nobody has to be there to take it."""
        await broker.send(RESULTS, [Message(b"one"), Message(b"two")])
        assert broker.state().waiting == 0
        async with member(broker, [RESULTS]) as consumer:
            assert {b"one", b"two"} == values(await take_all(consumer, 2))

    async def test_a_message_sent_without_waiting_arrives_and_is_counted(self, broker: Broker) -> None:
        """Nobody waits for it; with a broker that is there it is not lost."""
        async with member(broker, [USUAL]) as consumer:
            broker.send_nowait(USUAL, [Message(b"one"), Message(b"two")])
            assert {b"one", b"two"} == values(await take_all(consumer, 2))
        assert (broker.state().thrown, broker.state().lost) == (2, 0)

    async def test_bytes_arrive_as_they_were_sent(self, broker: Broker) -> None:
        """Nobody reads them on the way: nothing, zeros, what is no text, and as much as there may be."""
        sent = [
            Message(b"", b"1"),
            Message(b"\x00\xff\xc3\x28", b"\x00\xff"),
            Message(b"v", b"2", [("h", b""), ("twice", b"\x00\xff"), ("twice", b"again"), ("größe", b"x")]),
            Message(b"\x80" * (MAX_MESSAGE_BYTES - 1), b"3"),
        ]
        await broker.send(DEAD, sent)
        async with member(broker, [DEAD]) as consumer:
            taken = {each.key: each for each in await take_all(consumer, len(sent))}
        for message in sent:
            got = taken[message.key]
            assert (message.value, list(message.headers)) == (got.value, [(name, text) for name, text in got.headers])

    async def test_what_is_too_large_is_refused(self, broker: Broker) -> None:
        """At once, with all that came with it; `send_nowait` loses and counts it."""
        large = Message(b"x" * (2 * MAX_MESSAGE_BYTES), b"key")
        with pytest.raises(TooLarge):
            await broker.send(REQUESTS, [Message(b"small", b"key"), large])
        broker.send_nowait(USUAL, [large])
        assert (broker.state().thrown, broker.state().lost) == (1, 1)
        await broker.send(REQUESTS, [Message(b"after", b"key")])
        async with member(broker, [REQUESTS]) as consumer:
            assert [b"after"] == [each.value for each in await take_all(consumer, 1)]

    async def test_a_message_may_name_its_partition(self, broker: Broker) -> None:
        """A named partition wins over the key; messages without either are spread."""
        assert [PARTITIONS] * 4 == [broker.partitions(channel) for channel in (REQUESTS, RESULTS, DEAD, URGENT)]
        await broker.send(REQUESTS, [Message(b"%d" % at, b"key", (), at) for at in range(PARTITIONS)])
        await broker.send(RESULTS, [Message(b"spread") for _ in range(4 * PARTITIONS)])
        async with member(broker, [REQUESTS, RESULTS]) as consumer:
            taken = await take_all(consumer, 5 * PARTITIONS)
        named = {each.partition: each.value for each in taken if each.channel == REQUESTS}
        assert {at: b"%d" % at for at in range(PARTITIONS)} == named
        assert set(range(PARTITIONS)) == {each.partition for each in taken if each.channel == RESULTS}

    async def test_it_is_known_where_a_key_belongs(self, broker: Broker) -> None:
        """A message with that key goes there, if it names no partition."""
        keys = [b"%d" % number for number in range(40)]
        await broker.send(RESULTS, [Message(b"value", key) for key in keys])
        async with member(broker, [RESULTS]) as consumer:
            taken = {each.key: each.partition for each in await take_all(consumer, len(keys), and_done=True)}
        assert {key: broker.partition_of(RESULTS, key) for key in keys} == taken


class GroupsContract(BrokerSuite):
    """The shares of the members of a group, and the messages that are delivered again."""

    async def test_what_is_not_done_comes_again_and_what_is_done_does_not(self, broker: Broker) -> None:
        """Once the consumer that took it has stopped."""
        await broker.send(REQUESTS, [Message(b"%d" % number, b"key") for number in range(10)])
        async with member(broker, [REQUESTS]) as consumer:
            taken = await take_all(consumer, 10)
            await consumer.done(taken[:6])
        await self._until_it_begins_with(broker, [b"6", b"7", b"8", b"9"])

    async def test_nothing_is_committed_past_what_is_not_done(self, broker: Broker) -> None:
        """Messages that are done out of order are delivered again from the first that is not done."""
        await broker.send(REQUESTS, [Message(b"%d" % number, b"key") for number in range(5)])
        async with member(broker, [REQUESTS]) as consumer:
            taken = await take_all(consumer, 5)
            await consumer.done([taken[4], taken[0]])
            await consumer.done([taken[2]])
        async with member(broker, [REQUESTS]) as consumer:
            again: list[Delivery] = []
            async with asyncio.timeout(WITHIN_SECONDS):
                while {b"1", b"2", b"3", b"4"} - values(again):
                    again += await consumer.take(10, TURN_SECONDS)
            assert [b"1", b"2", b"3", b"4"] == [each.value for each in again][-4:]
            await consumer.done(list(reversed(again)))
        await broker.send(REQUESTS, [Message(b"new", b"key")])
        await self._until_it_begins_with(broker, [b"new"])

    async def _until_it_begins_with(self, broker: Broker, wanted: Sequence[bytes]) -> None:
        """A new member takes these and nothing before them. A commit may fail, which costs a repetition: then what was
        done before is done again, and another member comes."""
        async with asyncio.timeout(WITHIN_SECONDS):
            while True:
                taken: list[Delivery] = []
                async with member(broker, [REQUESTS]) as consumer:
                    while set(wanted) - values(taken):
                        taken += await consumer.take(10, TURN_SECONDS)
                    await consumer.done([each for each in taken if each.value not in wanted])
                assert list(wanted) == [each.value for each in taken][-len(wanted) :]
                if len(taken) == len(wanted):
                    return

    async def test_a_late_done_changes_nothing(self, broker: Broker) -> None:
        """Of what belongs to somebody else by now: it comes again until its owner has done it."""
        await broker.send(REQUESTS, [Message(b"one", b"key")])
        first = broker.consumer([REQUESTS], "group")
        await first.start()
        taken = await take_all(first, 1)
        await first.stop()
        async with member(broker, [REQUESTS]) as second:
            await take_all(second, 1)
            await first.done(taken)
        async with member(broker, [REQUESTS]) as third:
            assert [b"one"] == [each.value for each in await take_all(third, 1)]

    async def test_every_group_gets_everything(self, broker: Broker) -> None:
        """A message that one group has done is still there for another."""
        await broker.send(REQUESTS, [Message(b"one", b"key")])
        for group in ("first", "second"):
            async with member(broker, [REQUESTS], group) as consumer:
                taken = await take_all(consumer, 1)
                assert [b"one"] == [each.value for each in taken]
                await consumer.done(taken)

    async def test_members_of_a_group_share_its_partitions(self, clients: Callable[[], Awaitable[Broker]]) -> None:
        """Each partition is one member's at a time; when one leaves, the other one has them all."""
        here, there = await clients(), await clients()
        async with member(here, [REQUESTS]) as first:
            async with member(there, [REQUESTS]) as second:
                await self._until_shared(here, first, second)
            await here.send(REQUESTS, [Message(b"all", b"key", (), at) for at in range(PARTITIONS)])
            found: set[int] = set()
            async with asyncio.timeout(WITHIN_SECONDS):
                while len(found) < PARTITIONS:
                    taken = await first.take(100, TURN_SECONDS)
                    found |= {each.partition for each in taken if each.value == b"all"}

    async def _until_shared(self, broker: Broker, first: Consumer, second: Consumer) -> None:
        """Messages of every partition are taken, some by each member, none by both since it is so."""
        round_number = 0
        async with asyncio.timeout(WITHIN_SECONDS):
            while True:
                round_number += 1
                marked = b"%d" % round_number
                await broker.send(REQUESTS, [Message(marked, b"key", (), at) for at in range(PARTITIONS)])
                had: list[set[int]] = [set(), set()]
                for _ in range(20):
                    for seen, consumer in zip(had, (first, second), strict=True):
                        taken = await consumer.take(100, TURN_SECONDS / 2)
                        await consumer.done(taken)
                        seen |= {each.partition for each in taken if each.value == marked}
                    if had[0] | had[1] == set(range(PARTITIONS)):
                        break
                if had[0] and had[1] and not had[0] & had[1]:
                    return


class TakesContract(BrokerSuite):
    """In which order, and how much."""

    async def test_more_urgent_channels_come_first(self, broker: Broker) -> None:
        """Of what is there, except for the takes that begin with what has waited longest."""
        await self.group_is_known(broker, [URGENT, USUAL])
        await broker.send(USUAL, [Message(b"usual", b"key") for _ in range(self.at_once)])
        await broker.send(URGENT, [Message(b"urgent", b"key") for _ in range(self.at_once)])
        async with member(broker, [URGENT, USUAL]) as consumer:
            await self.until_fetched(consumer, 2 * self.at_once)
            of_each = self.at_once // 10
            takes = [await consumer.take(10, WITHIN_SECONDS) for _ in range(2 * of_each)]
        assert [[b"urgent"]] * of_each + [[b"usual"]] * of_each == [sorted(values(taken)) for taken in takes]

    async def test_no_channel_is_passed_over_for_ever(self, broker: Broker) -> None:
        """However much of the urgent is there, at least every tenth take begins with what has waited longest."""
        await self.group_is_known(broker, [URGENT, USUAL])
        await broker.send(USUAL, [Message(b"usual", b"key")])
        await broker.send(URGENT, [Message(b"urgent", b"key") for _ in range(self.at_once)])
        async with member(broker, [URGENT, USUAL]) as consumer:
            await self.until_fetched(consumer, self.at_once + 1)
            takes = [await consumer.take(1, WITHIN_SECONDS) for _ in range(10)]
        assert b"usual" in [each.value for taken in takes for each in taken]

    async def test_what_waits_to_be_taken_is_bounded_and_nothing_of_it_is_lost(self, broker: Broker) -> None:
        """More than fits: it comes in parts, each message once and in order."""
        count = self.many
        for start in range(0, count, 2_000):
            messages = [Message(b"%d" % number, b"", (), number % 2) for number in range(start, start + 2_000)]
            await broker.send(REQUESTS, messages)
        async with member(broker, [REQUESTS]) as consumer:
            await self.until_fetched(consumer, min(count, consumer.state().waiting_most // 2))
            taken: list[Delivery] = []
            async with asyncio.timeout(WITHIN_SECONDS):
                while len(taken) < count:
                    assert consumer.state().waiting <= consumer.state().waiting_most
                    got = await consumer.take(700, TURN_SECONDS)
                    assert len(got) <= 700
                    await consumer.done(got)
                    taken += got
        for partition in range(PARTITIONS):
            numbers = [int(each.value) for each in taken if each.partition == partition]
            assert list(range(partition, count, PARTITIONS)) == numbers

    async def test_a_take_returns_what_is_there_or_nothing_in_time(self, broker: Broker) -> None:
        """It waits for the first message only, and not for ever."""
        async with member(broker, [REQUESTS]) as consumer:
            assert [] == list(await consumer.take(10, 0.0))
            assert [] == list(await consumer.take(10, 0.01))
            waiting = asyncio.ensure_future(consumer.take(10, WITHIN_SECONDS))
            await broker.send(REQUESTS, [Message(b"one", b"key")])
            assert [b"one"] == [each.value for each in await waiting]

    async def test_a_take_that_waits_returns_when_its_consumer_stops(self, broker: Broker) -> None:
        """With nothing."""
        consumer = broker.consumer([REQUESTS], "group")
        await consumer.start()
        waiting = asyncio.ensure_future(consumer.take(10, WITHIN_SECONDS))
        await asyncio.wait([waiting], timeout=0.01)
        await consumer.stop()
        async with asyncio.timeout(WITHIN_SECONDS / 2):
            assert [] == list(await waiting)


class LivesContract(BrokerSuite):
    """The life of a client: start, end, and the state that it reports."""

    async def test_nothing_goes_out_before_it_was_opened(self, make: Callable[[], Broker]) -> None:
        """Sends say so, throws are lost and counted, and consumers join once it is open."""
        broker = make()
        consumer = broker.consumer([REQUESTS], "group")
        await consumer.start()
        with pytest.raises(BrokerUnavailable):
            await broker.send(REQUESTS, [Message(b"early")])
        broker.send_nowait(USUAL, [Message(b"early")])
        assert [] == list(await consumer.take(1, 0.0))
        state = broker.state()
        assert (state.reachable, state.thrown, state.lost, bool(state.detail)) == (False, 1, 1, True)
        assert not consumer.state().reachable
        await open_patiently(broker)
        await broker.send(REQUESTS, [Message(b"one", b"key")])
        assert [b"one"] == [each.value for each in await take_all(consumer, 1)]
        assert (broker.state().reachable, broker.state().detail, consumer.state().reachable) == (True, "", True)
        await broker.close()

    async def test_channels_belong_to_one_cluster(self, make: Callable[[], Broker], broker: Broker) -> None:
        """Roles of another one are refused, by both names; their own may come and go."""
        await broker.open(CLUSTER)
        stranger, friend = make(), make()
        with pytest.raises(Misconfigured, match=CLUSTER) as refusal:
            await open_patiently(stranger, "another store")
        assert "another store" in refusal.value.detail
        with pytest.raises(BrokerUnavailable):
            await stranger.send(REQUESTS, [Message(b"one")])
        await open_patiently(friend)
        await stranger.close()
        await friend.close()

    async def test_how_far_a_consumer_is_behind_is_told(self, broker: Broker) -> None:
        """By channel: what is there and not done."""
        await broker.send(REQUESTS, [Message(b"%d" % number, b"key") for number in range(7)])
        async with member(broker, [REQUESTS, USUAL]) as consumer:
            taken = await take_all(consumer, 7)
            await consumer.done(taken[:3])
            await until(lambda: consumer.state().lag == {"requests": 4, USUAL.name: 0})
            await consumer.done(taken[3:])
            await until(lambda: consumer.state().lag == {"requests": 0, USUAL.name: 0})

    async def test_ending_twice_is_ending_once(self, make: Callable[[], Broker], broker: Broker) -> None:
        """And what never began may end."""
        never = make()
        await never.consumer([REQUESTS], "group").stop()
        await never.close()
        consumer = broker.consumer([REQUESTS], "group")
        await consumer.start()
        await consumer.stop()
        await consumer.stop()
        await broker.close()
        await broker.close()
        broker.send_nowait(USUAL, [Message(b"late")])
        assert (broker.state().thrown, broker.state().lost) == (1, 1)


async def open_patiently(broker: Broker, cluster: str = CLUSTER) -> None:
    """As a role does it: a machine that is slow may need more than one try."""
    async with asyncio.timeout(WITHIN_SECONDS):
        while True:
            try:
                return await broker.open(cluster)
            except BrokerUnavailable:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.Event().wait(), TURN_SECONDS)


@contextlib.asynccontextmanager
async def member(broker: Broker, channels: Sequence[Channel], group: str = "group") -> AsyncIterator[Consumer]:
    """A consumer from its start to its stop."""
    consumer = broker.consumer(channels, group)
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def take_all(consumer: Consumer, count: int, *, and_done: bool = False) -> list[Delivery]:
    """This many messages, which must come; and no more than these came with them. One that comes again, as it may, is
    one. `and_done`: each is marked as done once it is taken."""
    taken: dict[tuple[Channel, int, int], Delivery] = {}
    async with asyncio.timeout(WITHIN_SECONDS):
        while len(taken) < count:
            found = await consumer.take(count, TURN_SECONDS)
            for each in found:
                taken.setdefault((each.channel, each.partition, each.offset), each)
            if and_done:
                await consumer.done(found)
    assert len(taken) == count
    return list(taken.values())


def values(deliveries: Iterable[Delivery]) -> set[bytes]:
    """The values of the deliveries."""
    return {each.value for each in deliveries}


async def until(holds: Callable[[], bool]) -> None:
    """Wait until it is so."""
    async with asyncio.timeout(WITHIN_SECONDS):
        while not holds():
            with contextlib.suppress(TimeoutError):  # a state is only read: there is no event of its change
                await asyncio.wait_for(asyncio.Event().wait(), 0.02)
