"""What waits for a broker that is not there: bounded, and given up in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tickwise.adapters.broker.kafka import producer as module
from tickwise.adapters.broker.kafka.address import read_address
from tickwise.adapters.broker.kafka.library import Complaints
from tickwise.adapters.broker.kafka.producer import Producer
from tickwise.adapters.clock import SystemClock
from tickwise.domain.errors import BrokerUnavailable, Busy
from tickwise.ports.broker import Message
from tickwise.testing.contracts.broker import until

NOWHERE = "kafka://127.0.0.1:1?confirm_seconds={seconds}"


@pytest_asyncio.fixture(params=[300])
async def producer(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> AsyncIterator[Producer]:
    """It has room for ten messages, and nobody to send them to. It waits for so many seconds: minutes, unless the test
    is about what is given up."""
    monkeypatch.setattr(module, "MAX_WAITING", 10)
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.1)
    made = Producer(read_address(NOWHERE.format(seconds=request.param)), SystemClock(), Complaints())
    made.start()
    yield made
    await made.stop()


def messages(count: int, size: int = 1) -> list[Message]:
    """So many."""
    return [Message(b"x" * size, b"key") for _ in range(count)]


@pytest.mark.parametrize("producer", [1], indirect=True)
async def test_what_is_not_confirmed_in_time_is_given_up(producer: Producer) -> None:
    """Whoever waits for it is told, `send_nowait` counts the loss, and the room is free again."""
    producer.send_nowait("hints", 1, messages(3))
    with pytest.raises(BrokerUnavailable):
        await producer.send("requests", 1, messages(4))
    await until(lambda: producer.waiting == 0)
    assert (3, 3) == (producer.thrown, producer.lost)


async def test_there_is_an_end_to_what_waits(producer: Producer) -> None:
    """Then nothing of a send is taken, and it says when to come again; throws have only a half."""
    producer.send_nowait("hints", 1, messages(9))
    assert (5, 4) == (producer.waiting, producer.lost)
    sending = asyncio.ensure_future(producer.send("requests", 1, messages(3)))
    await until(lambda: producer.waiting == 8)
    with pytest.raises(Busy) as refusal:
        await producer.send("requests", 1, messages(3))
    assert refusal.value.retry_after_seconds >= 1.0
    assert producer.waiting == 8
    await producer.stop()
    with pytest.raises(BrokerUnavailable):
        await sending


async def test_bytes_are_bounded_too(producer: Producer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few large messages fill it as well as many small ones."""
    monkeypatch.setattr(module, "MAX_WAITING_BYTES", 1_000)
    producer.send_nowait("hints", 1, messages(2, size=400))
    assert (1, 1) == (producer.waiting, producer.lost)
    with pytest.raises(Busy):
        await producer.send("requests", 1, messages(1, size=700))


async def test_an_end_gives_up_what_waits(producer: Producer) -> None:
    """After some moments; nobody waits for ever, and what is sent later is refused."""
    sending = asyncio.ensure_future(producer.send("requests", 1, messages(3)))
    await until(lambda: producer.waiting == 3)
    await producer.stop()
    with pytest.raises(BrokerUnavailable):
        await sending
    with pytest.raises(BrokerUnavailable):
        await producer.send("requests", 1, messages(1))
    producer.send_nowait("hints", 1, messages(2))
    assert (0, 2) == (producer.waiting, producer.lost)


async def test_who_stops_waiting_leaves_no_trace(producer: Producer) -> None:
    """A send that is cancelled is settled like any other."""
    sending = asyncio.ensure_future(producer.send("requests", 1, messages(3)))
    await until(lambda: producer.waiting == 3)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    await producer.stop()
    assert 0 == producer.waiting
