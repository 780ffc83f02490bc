"""What `make test` has no time for, on a real Kafka: it stands still, its groups are of another protocol.

`make chaos` plays it after its rows; alone: `pytest tests/chaos/kafka_long.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.conformance.test_kafka_broker import Backend
from tests.services.kafka import Access, Kafka
from tests.support.kafka import HINTS, PASSWORD, Make, goes_on, under_load
from tickwise.domain.errors import BrokerUnavailable
from tickwise.ports.broker import REQUESTS, Message
from tickwise.testing.contracts.broker import (
    WITHIN_SECONDS,
    GroupsContract,
    member,
    open_patiently,
    take_all,
    until,
    values,
)


class TestClassicGroups(Backend, GroupsContract):
    """For brokers older than 4.0: what is particular to their protocol."""

    protocol = "classic"


@pytest_asyncio.fixture(scope="module")
async def kafka() -> AsyncIterator[Kafka]:
    """One that these tests may harm."""
    async with Kafka(access=Access(tls=True, users={"ann": PASSWORD})) as running:
        yield running


@pytest_asyncio.fixture
async def make(kafka: Kafka) -> AsyncIterator[Make]:
    """Clients of topics that are this test's alone."""
    make = Make(kafka)
    yield make
    for broker in make.made:
        await broker.close()


async def test_a_broker_that_was_killed_has_all_that_it_confirmed(make: Make) -> None:
    """And who waited for a confirmation gets it once it is back: nobody has to ask again."""
    broker = await make.opened(confirm_seconds=int(WITHIN_SECONDS), group_protocol="classic")
    async with under_load(broker) as (sent, taken):
        make.kafka.kill()
        await until(lambda: not broker.state().reachable)
        await make.kafka.start()
        await until(goes_on(sent, taken))
        await until(lambda: broker.state().reachable)


async def test_a_broker_that_stands_still_is_waited_for_no_longer_than_allowed(make: Make) -> None:
    """A send gives up, a consumer stops, the loop goes on; and all is well once the broker moves again."""
    broker = await make.opened(confirm_seconds=1)
    async with under_load(broker) as (sent, taken):
        make.kafka.freeze()
        try:
            with pytest.raises(BrokerUnavailable):
                await broker.send(REQUESTS, [Message(b"frozen", b"frozen")])
            await until(lambda: not broker.state().reachable)
            assert broker.state().detail
            other = broker.consumer([HINTS], "other")
            await other.start()
            async with asyncio.timeout(WITHIN_SECONDS / 2):
                await other.stop()
        finally:
            make.kafka.thaw()
        await until(goes_on(sent, taken))


async def test_a_share_group_gives_hints_to_each_member_that_asks(make: Make) -> None:
    """More members than partitions have work; requests stay with an ordinary group, whose order holds."""
    broker = await make.opened(group_protocol="share", partitions=1)
    had = [0, 0]
    async with member(broker, [HINTS], "hints") as one, member(broker, [HINTS], "hints") as two:
        async with asyncio.timeout(WITHIN_SECONDS):
            while not all(had):  # a share group begins with what is thrown after it was made
                broker.send_nowait(HINTS, [Message(b"hint")] * 20)
                for at, consumer in enumerate((one, two)):
                    taken = await consumer.take(5, 0.1)
                    await consumer.done(taken)
                    had[at] += len(taken)
    await broker.send(REQUESTS, [Message(b"one", b"key"), Message(b"two", b"key")])
    async with member(broker, [REQUESTS]) as consumer:
        assert [b"one", b"two"] == [each.value for each in await take_all(consumer, 2)]


async def test_a_user_comes_in_by_the_older_hash(make: Make) -> None:
    """Whatever signs the password has."""
    broker = make.secure(sasl="SCRAM-SHA-256", ca=make.kafka.authority)
    await open_patiently(broker)
    await broker.send(REQUESTS, [Message(b"one", b"key")])
    async with member(broker, [REQUESTS]) as consumer:
        assert {b"one"} == values(await take_all(consumer, 1))
