"""One member of a group: a receiver for each of its queues, of which it takes the urgent ones first."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from tickwise.adapters.broker.ledger import FAIR_EVERY, Head, pick
from tickwise.adapters.broker.sqs.receiver import MAX_WAITING, Receiver
from tickwise.domain.errors import BrokerUnavailable, Misconfigured
from tickwise.observability.tasks import end_tasks
from tickwise.ports.broker import Channel, ConsumerState, Delivery
from tickwise.ports.clock import Clock

AGAIN_SECONDS: Final = 1.0


class SqsConsumer:
    """`ports.broker.Consumer` over queues."""

    def __init__(
        self, channels: Sequence[Channel], group: str, *, join: Callable[[Channel, str], Awaitable[Receiver]],
        is_open: Callable[[], bool], clock: Clock,
    ) -> None:  # fmt: skip
        """`join`: makes the receiver of a channel's queue; it may raise `BrokerUnavailable` and `Misconfigured`."""
        self._channels = channels
        self._group = group
        self._join = join
        self._is_open = is_open
        self._clock = clock
        self._urgency = {channel: number for number, channel in enumerate(channels)}
        self._arrived = asyncio.Event()
        self._receivers: list[Receiver] = []
        self._joining: asyncio.Task[None] | None = None
        self._started = False
        self._takes = 0

    async def start(self) -> None:
        """See the port."""
        self._started = True
        await self.opened()

    async def opened(self) -> None:
        """The queues may be there now: join, if that is asked for."""
        if not self._started or self._receivers or self._joining is not None or not self._is_open():
            return
        if not await self._joined():
            self._joining = asyncio.create_task(self._join_later(), name=f"join {self._group}")

    async def stop(self) -> None:
        """See the port."""
        self._started = False
        self._arrived.set()
        joining, self._joining = self._joining, None
        if joining is not None:
            await end_tasks([joining])
        receivers, self._receivers = self._receivers, []
        await asyncio.gather(*(receiver.stop() for receiver in receivers))

    async def take(self, limit: int, wait_seconds: float) -> Sequence[Delivery]:
        """See the port."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_seconds):
                while True:
                    self._arrived.clear()
                    found = self._take(limit)
                    if found or not self._started:
                        return found
                    await self._arrived.wait()
        return ()

    async def done(self, deliveries: Sequence[Delivery]) -> None:
        """See the port. They are deleted within moments."""
        by_channel: dict[Channel, list[Delivery]] = {}
        for delivery in deliveries:
            by_channel.setdefault(delivery.channel, []).append(delivery)
        for receiver in self._receivers:
            receiver.done(by_channel.get(receiver.channel, ()))

    def state(self) -> ConsumerState:
        """See the port."""
        receivers = self._receivers
        return ConsumerState(
            reachable=bool(receivers) and all(receiver.is_reachable for receiver in receivers),
            waiting=sum(receiver.waiting for receiver in receivers),
            waiting_most=MAX_WAITING * len(self._channels),
            lag={receiver.channel.name: receiver.lag for receiver in receivers},
        )

    def _take(self, limit: int) -> list[Delivery]:
        heads = [
            ((receiver, bucket), Head(self._urgency[receiver.channel], bucket.kept[0].sent_at, len(bucket.kept)))
            for receiver in self._receivers
            for bucket in receiver.buckets.values()
            if bucket.kept
        ]
        if not heads:
            return []
        self._takes += 1
        taken: list[Delivery] = []
        for (receiver, bucket), count in pick(heads, limit, oldest_first=self._takes % FAIR_EVERY == 0):
            taken += [bucket.kept.popleft() for _ in range(count)]
            receiver.taken(count)
        return taken

    async def _joined(self) -> bool:
        joined = {receiver.channel for receiver in self._receivers}
        try:
            for channel in self._channels:
                if channel not in joined:
                    receiver = await self._join(channel, self._group)
                    receiver.arrived = self._arrived.set
                    self._receivers.append(receiver)
                    receiver.start()
        except (BrokerUnavailable, Misconfigured):
            return False
        return True

    async def _join_later(self) -> None:
        while True:
            await self._clock.sleep(AGAIN_SECONDS * (0.75 + 0.5 * self._clock.chance()))
            if await self._joined():
                self._joining = None
                return
