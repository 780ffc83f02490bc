"""A broker's topics past the product: how much is in them, what is parked, messages that nobody should have sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.services.kafka import Kafka
from tests.support.waiting import eventually

PREFIX: Final = "chaos"
LANES: Final = 2
PARTITIONS: Final = 4
ASK_SECONDS: Final = 5.0
TAKEN_SECONDS: Final = 60.0
"""By then a broker that lives has taken what it is given, on a machine that does much else, too."""
QUIET: Final = {"log_level": 0, "broker.address.family": "v4"}
Told = TypeVar("Told")


class Origin(NamedTuple):
    """Where a message was."""

    channel: str
    partition: int
    offset: int


class Parked(NamedTuple):
    """One message of the channel of the dead."""

    value: bytes
    headers: Mapping[str, bytes]

    @property
    def origin(self) -> Origin:
        """Where it was, as its headers say."""
        told = self.headers
        return Origin(told["channel"].decode(), int(told["partition"]), int(told["offset"]))


class Channels:
    """Of one broker, under one prefix."""

    def __init__(self, kafka: Kafka, prefix: str = PREFIX) -> None:
        self.kafka = kafka
        self.prefix = prefix

    @property
    def url(self) -> str:
        """As roles are told."""
        return f"{self.kafka.url}?prefix={self.prefix}&lanes={LANES}&partitions={PARTITIONS}"

    async def names(self) -> list[str]:
        """The topics under the prefix, without it."""
        found = await self._ask(self._names)
        return sorted(name.removeprefix(f"{self.prefix}.") for name in found)

    async def sent(self, start: str) -> int:
        """How many messages the topics whose names begin so were ever given."""
        return await self._ask(partial(self._sent, start))

    async def delete(self, names: Sequence[str]) -> None:
        """These topics, with all that is in them."""
        await self._ask(partial(self._delete, [f"{self.prefix}.{name}" for name in names]))

    async def put(self, name: str, values: Sequence[bytes]) -> dict[Origin, bytes]:
        """Messages that no role has sent; where the broker says that each of them is now."""
        return await asyncio.to_thread(self._put, name, values)

    async def parked(self) -> list[Parked]:
        """All that could not be read."""
        return await self._ask(self._parked)

    async def lead(self) -> dict[bool, int]:
        """How many partitions have a leader (True), and how many none."""
        return await self._ask(self._lead)

    # ------------------------------------------------------------------ blocking, in a thread

    async def _ask(self, ask: Callable[[], Told]) -> Told:
        """Its answer, as soon as the broker gives one."""

        async def look() -> tuple[Told] | None:
            try:
                return (await asyncio.to_thread(ask),)
            except KafkaException:
                return None

        return (await eventually(look, within_seconds=60, what=f"the broker answers; {self.kafka.said()[-500:]}"))[0]

    @property
    def _settings(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.kafka.address, **QUIET}

    def _metadata(self) -> dict[str, Any]:
        admin = AdminClient(self._settings)
        topics = admin.list_topics(timeout=ASK_SECONDS).topics
        return {name: topic for name, topic in topics.items() if name.startswith(f"{self.prefix}.")}

    def _names(self) -> list[str]:
        return [*self._metadata()]

    def _lead(self) -> dict[bool, int]:
        leaders = [each.leader for topic in self._metadata().values() for each in topic.partitions.values()]
        return {known: sum((leader >= 0) is known for leader in leaders) for known in (True, False)}

    def _ends(self, start: str) -> list[tuple[TopicPartition, int]]:
        consumer = Consumer({**self._settings, "group.id": f"{self.prefix}.looking"})
        try:
            places = [
                TopicPartition(name, partition)
                for name, topic in self._metadata().items()
                if name.startswith(f"{self.prefix}.{start}")
                for partition in topic.partitions
            ]
            return [(place, consumer.get_watermark_offsets(place, ASK_SECONDS)[1]) for place in places]
        finally:
            consumer.close()

    def _sent(self, start: str) -> int:
        return sum(end for _, end in self._ends(start))

    def _delete(self, names: Sequence[str]) -> None:
        admin = AdminClient(self._settings)
        for answer in admin.delete_topics([*names], operation_timeout=ASK_SECONDS).values():
            answer.result(ASK_SECONDS * 2)

    def _put(self, name: str, values: Sequence[bytes]) -> dict[Origin, bytes]:
        # Each is there once, however often the library had to send it; asked as a whole, it would not be.
        producer = Producer({**self._settings, "enable.idempotence": True})
        places: dict[Origin, bytes] = {}

        def taken(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                raise KafkaException(error)
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert partition is not None
            assert offset is not None
            assert isinstance(value, bytes)
            places[Origin(name, partition, offset)] = value

        for value in values:
            producer.produce(f"{self.prefix}.{name}", value, on_delivery=taken)
        producer.flush(TAKEN_SECONDS)
        assert len(values) == len(places), f"the broker took {len(places)} of {len(values)} messages"
        return places

    def _parked(self) -> list[Parked]:
        consumer = Consumer({**self._settings, "group.id": f"{self.prefix}.reading", "enable.auto.commit": False})
        try:
            ends = self._ends("dead")
            consumer.assign([TopicPartition(place.topic, place.partition, 0) for place, _ in ends])
            found: list[Parked] = []
            while len(found) < sum(end for _, end in ends):
                messages = consumer.consume(100, ASK_SECONDS)
                if not messages:
                    raise KafkaException("what is parked does not come")
                found += [_parked(each) for each in messages]
            return found
        finally:
            consumer.close()


def _parked(message: Message) -> Parked:
    headers: Any = message.headers() or []
    value = message.value()
    assert isinstance(value, bytes), "the dead have their bytes"
    return Parked(value, dict(headers))
