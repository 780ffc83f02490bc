"""Requests on their way to a broker: gathered, in order, bounded, and everybody hears what became of theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tickwise.adapters.clock import SystemClock
from tickwise.domain.errors import BrokerUnavailable, Busy, Unavailable
from tickwise.ports.broker import REQUESTS, Channel, Message
from tickwise.roles.shared.group_commit import Room
from tickwise.roles.shared.group_send import MAX_SENDS, Sender


class Slow:
    """A broker whose sends end when the test says so."""

    def __init__(self) -> None:
        self.sent: list[list[bytes]] = []
        self.ends: list[asyncio.Future[None]] = []

    async def send(self, _channel: Channel, messages: Sequence[Message]) -> None:
        self.sent.append([message.value for message in messages])
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ends.append(end)
        await end


async def turns() -> None:
    """Let everything that can go on go on."""
    for _ in range(20):
        await asyncio.sleep(0)  # noqa: TID251 - turns of the loop, no time


def messages(*values: bytes) -> list[Message]:
    return [Message(value, b"key") for value in values]


async def started(broker: Slow, **bounds: object) -> Sender:
    sender = Sender(broker, REQUESTS, SystemClock(), **bounds)  # type: ignore[arg-type]  # of a broker it only sends
    await sender.start()
    return sender


async def test_what_waits_goes_together_and_in_order() -> None:
    """While as many sends as may be are under way, what comes is gathered; it leaves in the order in which it came."""
    broker = Slow()
    sender = await started(broker)
    futures = []
    for number in range(MAX_SENDS + 5):
        futures += sender.put(messages(b"%d" % number))
        await turns()
    assert [[b"%d" % number] for number in range(MAX_SENDS)] == broker.sent
    assert (MAX_SENDS + 5, 20_000) == sender.buffers()["requests"]
    broker.ends[0].set_result(None)
    await turns()
    assert [b"%d" % number for number in range(MAX_SENDS, MAX_SENDS + 5)] == broker.sent[-1]
    for end in broker.ends[1:]:
        end.set_result(None)
    await asyncio.gather(*futures)
    await sender.stop()
    assert 0 == sender.buffers()["requests"].items


async def test_a_failure_is_told_to_those_whose_messages_it_was_about() -> None:
    """Each has an exception of its own; those of another send hear nothing of it."""
    broker = Slow()
    sender = await started(broker)
    [lost, also_lost] = sender.put(messages(b"a", b"b"))
    await turns()
    [kept] = sender.put(messages(b"c"))
    await turns()
    broker.ends[0].set_exception(BrokerUnavailable("not confirmed"))
    broker.ends[1].set_result(None)
    told = await asyncio.gather(lost, also_lost, kept, return_exceptions=True)
    assert [BrokerUnavailable, BrokerUnavailable, type(None)] == [type(one) for one in told]
    assert told[0] is not told[1]
    await sender.stop()


async def test_more_than_may_wait_is_refused_whole() -> None:
    """By number and by bytes; none of it is taken, and it is told when to come again."""
    broker = Slow()
    sender = await started(broker, waiting_most=3)
    futures = sender.put(messages(b"a", b"b"))
    with pytest.raises(Busy) as refused:
        sender.put(messages(b"c", b"d"))
    assert refused.value.retry_after_seconds >= 1
    futures += sender.put(messages(b"e"))
    await turns()
    broker.ends[0].set_result(None)
    await asyncio.gather(*futures)
    assert [[b"a", b"b", b"e"]] == broker.sent
    await sender.stop()
    small = await started(broker, room=Room(SystemClock(), 10))
    [first] = small.put(messages(b"x" * 8))
    with pytest.raises(Busy):
        small.put(messages(b"y" * 8))
    await turns()
    broker.ends[-1].set_result(None)
    await first
    await small.stop()


async def test_an_end_waits_for_what_was_taken() -> None:
    """What was put is sent before it stops; afterwards nothing more is taken."""
    broker = Slow()
    sender = await started(broker)
    [future] = sender.put(messages(b"a"))
    ending = asyncio.create_task(sender.stop())
    await turns()
    assert not ending.done()
    broker.ends[0].set_result(None)
    await ending
    await future
    with pytest.raises(Unavailable):
        sender.put(messages(b"b"))
