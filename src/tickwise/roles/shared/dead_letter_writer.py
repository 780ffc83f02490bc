"""Puts messages that cannot be read or applied aside for a person, byte by byte, so that they hold up nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import structlog

from tickwise.domain.errors import TooLarge
from tickwise.ports.broker import (
    DEAD,
    MAX_ERROR_HEADERS_BYTES,
    MAX_MESSAGE_BYTES,
    Broker,
    Channel,
    Delivery,
    Message,
    size_of,
)
from tickwise.ports.clock import Clock
from tickwise.roles.shared.service import Telemetry

MAX_ERROR: Final = 2_000
"""Characters of what is said of it."""
MAX_SEND_BYTES: Final = 4 << 20
"""Bytes of messages that are put aside in one send: a client that can write a topic can fill it with large messages."""
ERROR_HEADERS: Final = 6
"""Headers that we add."""
MAX_LOGGED: Final = 20
"""Messages of one call that are logged one by one."""

logger = structlog.get_logger("tickwise.roles")


class Rejected(NamedTuple):
    """A message that is to be put aside."""

    delivery: Delivery
    error: str


class DeadLetterWriter:
    """One role's way to the channel of dead messages."""

    def __init__(self, broker: Broker, *, role: str, clock: Clock, telemetry: Telemetry) -> None:
        self._broker = broker
        self._role = role
        self._clock = clock
        self._telemetry = telemetry

    def expects(self, channels: Iterable[Channel]) -> None:
        """Declare the channels whose messages may become dead letters here."""
        for channel in channels:
            self._telemetry.expects(channel.name)

    async def write(self, delivery: Delivery, error: str) -> None:
        """Put one aside with its bytes, its key and its own headers; ours say where it was, and what is wrong with it.

        Raises `BrokerUnavailable` and `Busy`: it is not put aside yet.
        """
        await self.write_many([Rejected(delivery, error)])

    async def write_many(self, rejected: Sequence[Rejected]) -> None:
        """Write each message as a dead letter. After an error some may be written, and the repetition writes them
        again."""
        begin = size = 0
        messages = [self._message(one) for one in rejected]
        for place, message in enumerate(messages):
            if place > begin and size + size_of(message) > MAX_SEND_BYTES:
                await self._send(messages[begin:place])
                begin, size = place, 0
            size += size_of(message)
        await self._send(messages[begin:])
        for place, one in enumerate(rejected):
            self._count(one, logged=place < MAX_LOGGED)
        if len(rejected) > MAX_LOGGED:
            logger.error("messages_parked", count=len(rejected), logged=MAX_LOGGED)

    async def _send(self, messages: Sequence[Message]) -> None:
        try:
            await self._broker.send(DEAD, messages)
        except TooLarge:
            for message in messages:
                await self._send_alone(message)

    async def _send_alone(self, message: Message) -> None:
        """One that came as large as the broker takes any has no room for what we say of it: it loses its own headers
        then, or, if that does not help, its key and the end of its value."""
        bare = message._replace(headers=message.headers[-ERROR_HEADERS:])
        cut = bare._replace(value=message.value[:MAX_MESSAGE_BYTES], key=None)
        fitting = next(
            (less for less in (message, bare) if size_of(less) <= MAX_MESSAGE_BYTES + MAX_ERROR_HEADERS_BYTES), cut
        )
        await self._broker.send(DEAD, [fitting])

    def _message(self, rejected: Rejected) -> Message:
        delivery = rejected.delivery
        error_headers = self._error_headers(delivery, rejected.error[:MAX_ERROR])
        headers = [(name, text.encode("utf-8", "replace")) for name, text in error_headers.items()]
        return Message(delivery.value, delivery.key, [*delivery.headers, *headers])

    def _error_headers(self, delivery: Delivery, error: str) -> dict[str, str]:
        return {
            "channel": delivery.channel.name,
            "partition": str(delivery.partition),
            "offset": str(delivery.offset),
            "error": error,
            "role": self._role,
            "time": f"{self._clock.now():.6f}",
        }

    def _count(self, rejected: Rejected, *, logged: bool) -> None:
        delivery = rejected.delivery
        if logged:
            logger.error(
                "message_parked",
                channel=delivery.channel.name,
                partition=delivery.partition,
                offset=delivery.offset,
                length=len(delivery.value),
                error=rejected.error[:MAX_ERROR],
            )
        self._telemetry.parked_message(delivery.channel.name)
