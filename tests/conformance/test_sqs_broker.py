"""The broker over SQS keeps the promises of the port, on a real server, but for what its queues cannot give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.broker.sqs import SqsBroker
from tickwise.adapters.clock import SystemClock
from tickwise.ports.broker import REQUESTS, Broker, Channel, Consumer, Message
from tickwise.testing.contracts.broker import (
    LANES,
    PARTITIONS,
    USUAL,
    BrokerSuite,
    GroupsContract,
    LivesContract,
    MessagesContract,
    TakesContract,
    member,
    take_all,
    until,
    values,
)

pytestmark = pytest.mark.thorough


class Backend(BrokerSuite):
    """Queues under a prefix of their own."""

    at_once = 10
    many = 2_000

    @pytest.fixture
    def make(self, sqs_prefix_url: str, tmp_path: Path) -> Callable[[], SqsBroker]:
        options = f"lanes={LANES}&buckets={PARTITIONS}&wait_seconds=1"
        return lambda: SqsBroker(f"{sqs_prefix_url}&{options}", SystemClock(), open_blobs(f"file://{tmp_path}"))

    async def until_fetched(self, consumer: Consumer, count: int) -> None:
        """Of each bucket ten are fetched ahead."""
        await until(lambda: consumer.state().waiting >= min(count, PARTITIONS * self.at_once))

    async def group_is_known(self, broker: Broker, channels: Sequence[Channel]) -> None:
        async with member(broker, channels):
            pass


class TestMessages(Backend, MessagesContract):
    pass


class TestGroups(Backend, GroupsContract):
    async def test_every_group_gets_everything(self, broker: Broker) -> None:
        """A gap: a queue is read once. Of requests and results there is one group in each installation."""
        await broker.send(REQUESTS, [Message(b"one", b"key")])
        async with member(broker, [REQUESTS], "first") as consumer:
            await consumer.done(await take_all(consumer, 1))
        async with member(broker, [REQUESTS], "second") as consumer:
            assert [] == list(await consumer.take(1, 2.0))

    async def test_hints_go_to_the_groups_that_are_there(self, broker: Broker) -> None:
        """A gap: a group that comes later gets nothing of what was sent before. It costs it some latency, no run."""
        async with member(broker, [USUAL], "early") as early:
            await broker.send(USUAL, [Message(b"one", b"key")])
            async with member(broker, [USUAL], "late") as late:
                await broker.send(USUAL, [Message(b"two", b"key")])
                assert {b"two"} == values(await take_all(late, 1))
            assert {b"one", b"two"} == values(await take_all(early, 2, and_done=True))

    async def test_at_most_ten_messages_of_a_bucket_are_under_way(self, broker: Broker) -> None:
        """A gap: SQS hands out more of a bucket when those are done."""
        await broker.send(REQUESTS, [Message(b"%d" % number, b"key") for number in range(15)])
        async with member(broker, [REQUESTS]) as consumer:
            first = await take_all(consumer, 10)
            assert [] == list(await consumer.take(10, 2.0))
            await consumer.done(first)
            assert {b"10", b"14"} <= values(await take_all(consumer, 5))


class TestTakes(Backend, TakesContract):
    pass


class TestLives(Backend, LivesContract):
    pass
