"""Clients of one Kafka, what they do for ever, and what must hold while they are harmed."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from urllib.parse import quote, urlencode

from tests.services.kafka import Kafka
from tickwise.adapters.broker.kafka import KafkaBroker
from tickwise.adapters.clock import SystemClock
from tickwise.domain.errors import BrokerUnavailable
from tickwise.ports.broker import REQUESTS, Consumer, Message, lane_of
from tickwise.testing.contracts.broker import member, open_patiently, until

PASSWORD = "p@ss:w/rd?&="
HINTS = lane_of(5, 1)


class Make:
    """Clients of one prefix; closed in the end."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        self.prefix = f"t{uuid.uuid4().hex[:12]}"
        self.made: list[KafkaBroker] = []

    def client(self, **options: object) -> KafkaBroker:
        """One that is not opened."""
        return self._made("", self.kafka.address, options)

    def secure(self, password: str = PASSWORD, **options: object) -> KafkaBroker:
        """A client of the broker's listener that asks for a password."""
        login = f"ann:{quote(password, safe='')}@"
        return self._made(login, self.kafka.secure_address, {"tls": "true", **options})

    async def opened(self, **options: object) -> KafkaBroker:
        """One that is."""
        broker = self.client(**options)
        await open_patiently(broker)
        return broker

    def _made(self, login: str, address: str, options: dict[str, object]) -> KafkaBroker:
        given = {"prefix": self.prefix, "lanes": 1, "partitions": 2, **options}
        broker = KafkaBroker(f"kafka://{login}{address}?{urlencode(given)}", SystemClock())
        self.made.append(broker)
        return broker


async def send_for_ever(broker: KafkaBroker, sent: list[bytes]) -> None:
    """Numbered requests, one after another, each until it is confirmed."""
    number = 0
    while True:
        value = b"%d" % number
        with contextlib.suppress(BrokerUnavailable):
            await broker.send(REQUESTS, [Message(value, value)])
            sent.append(value)
            number += 1
        broker.send_nowait(HINTS, [Message(value)])
        await SystemClock().sleep(0.002)


async def take_for_ever(consumer: Consumer, taken: list[bytes]) -> None:
    """All that comes, done at once."""
    while True:
        deliveries = await consumer.take(100, 0.1)
        taken += [each.value for each in deliveries]
        await consumer.done(deliveries)


@contextlib.asynccontextmanager
async def under_load(broker: KafkaBroker) -> AsyncIterator[tuple[list[bytes], list[bytes]]]:
    """The messages that were sent and confirmed, and those that were taken, while both go on; at the end every
    confirmed message was taken."""
    sent: list[bytes] = []
    taken: list[bytes] = []
    async with member(broker, [REQUESTS]) as consumer:
        tasks = [asyncio.create_task(send_for_ever(broker, sent))]
        tasks.append(asyncio.create_task(take_for_ever(consumer, taken)))
        try:
            await until(lambda: len(taken) > 10)
            yield sent, taken
            tasks[0].cancel()
            await until(lambda: set(sent) <= set(taken))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def goes_on(*lists: list[bytes]) -> Callable[[], bool]:
    """A check that each of these lists has grown by ten since this call."""
    before = [len(each) for each in lists]
    return lambda: all(len(each) >= count + 10 for each, count in zip(lists, before, strict=True))
