"""A role whose broker loses a tenth of the hints, repeats a tenth, and lets a tenth come late and out of order.

It is the product, wired by the product; only the broker that its role is given is wrapped. What is sent (requests and
results) may not be lost or overtake its like, so that is only repeated: as a producer does that did not hear that it
was heard.

    CHAOS_SHARE=0.1 python -m tests.chaos.lossy executor
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, cast

from tickwise.cli.main import main
from tickwise.ports.broker import Broker, Channel, Message
from tickwise.wiring import processes
from tickwise.wiring.runtime import Runtime

VARIABLE: Final = "CHAOS_SHARE"
LATE_SECONDS: Final = 2.0


def program() -> Sequence[str]:
    """To start a role as."""
    return (sys.executable, "-m", "tests.chaos.lossy")


class LossyBroker:
    """A broker that keeps what the port promises, and nothing beyond."""

    def __init__(self, broker: Broker, share: float) -> None:
        self._broker = broker
        self._share = share
        self._dice = random.Random(os.getpid())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    async def send(self, channel: Channel, messages: Sequence[Message]) -> None:
        """See the port."""
        await self._broker.send(channel, messages)
        again = [message for message in messages if self._falls()]
        if again:
            await self._broker.send(channel, again)

    def send_nowait(self, channel: Channel, messages: Sequence[Message]) -> None:
        """See the port."""
        now: list[Message] = []
        for message in messages:
            if self._falls():
                continue
            if self._falls():
                late = self._dice.random() * LATE_SECONDS
                asyncio.get_running_loop().call_later(late, self._broker.send_nowait, channel, [message])
                continue
            now += [message, message] if self._falls() else [message]
        self._dice.shuffle(now)
        if now:
            self._broker.send_nowait(channel, now)

    def _falls(self) -> bool:
        return self._dice.random() < self._share


def prepare(share: float) -> None:
    """From now on every role that this process starts has such a broker."""
    open_runtime = vars(processes)["open_runtime"]

    @asynccontextmanager
    async def opened(*arguments: Any, **named: Any) -> AsyncIterator[Runtime]:
        async with open_runtime(*arguments, **named) as runtime:
            yield replace(runtime, broker=cast("Broker", LossyBroker(runtime.broker, share)))

    vars(processes)["open_runtime"] = opened


if __name__ == "__main__":
    prepare(float(os.environ[VARIABLE]))
    sys.exit(main(sys.argv[1:]))
