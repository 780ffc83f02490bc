"""The receiver of the installation's heartbeat: a service elsewhere that alarms when it hears nothing for long."""

from __future__ import annotations

from typing import Protocol


class PingLost(Exception):
    """A ping did not come through. The text says why, without the address, which holds a token."""


class Pinger(Protocol):
    """Sends pings to one receiver. Callers bound the time of a ping, and cancel it then."""

    @property
    def receiver(self) -> str:
        """Host and port, for the log: nothing of it is secret."""
        ...

    async def well(self) -> None:
        """Say that all is well. Raises `PingLost`."""
        ...

    async def unwell(self, sentence: str) -> None:
        """Say that it is not, and why. To a receiver that is not told of failures nothing is sent. Raises
        `PingLost`."""
        ...
