"""What cannot be read or applied is put aside for a person, as it came, and holds up nothing else."""

from __future__ import annotations

from typing import Final

import structlog

from tickwise.ports.broker import DEAD, Broker, Delivery, Message
from tickwise.ports.clock import Clock
from tickwise.roles.service import Telemetry

ERROR_MOST: Final = 2_000
"""Characters of what is said of it."""

logger = structlog.get_logger("tickwise.roles")


class Parking:
    """One role's way to the channel of dead messages."""

    def __init__(self, broker: Broker, *, role: str, clock: Clock, telemetry: Telemetry) -> None:
        self._broker = broker
        self._role = role
        self._clock = clock
        self._telemetry = telemetry

    async def park(self, delivery: Delivery, error: str) -> None:
        """Put it aside with its bytes, its key and its own headers; ours say where it was, and what is wrong with it.

        Raises `BrokerUnavailable` and `Busy`: it is not put aside yet.
        """
        ours = {
            "channel": delivery.channel.name,
            "partition": str(delivery.partition),
            "offset": str(delivery.offset),
            "error": error[:ERROR_MOST],
            "role": self._role,
            "time": f"{self._clock.now():.6f}",
        }
        headers = [(name, text.encode("utf-8", "replace")) for name, text in ours.items()]
        await self._broker.send(DEAD, [Message(delivery.value, delivery.key, [*delivery.headers, *headers])])
        logger.error(
            "message_parked",
            channel=delivery.channel.name,
            partition=delivery.partition,
            offset=delivery.offset,
            length=len(delivery.value),
            error=error[:ERROR_MOST],
        )
        self._telemetry.parked_message(delivery.channel.name)
