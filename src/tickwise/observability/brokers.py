"""A broker as metrics see it: wrapped once, so that adapters and roles stay plain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from tickwise.observability.metrics import Metrics
from tickwise.ports.broker import Broker, Channel, Consumer, Message


class _WatchedBroker:
    """Forwards everything; counts what is sent, and knows the consumers."""

    def __init__(self, broker: Broker, metrics: Metrics, monotonic: Callable[[], float]) -> None:
        self._broker = broker
        self._metrics = metrics
        self._monotonic = monotonic
        # Nothing comes between a commit and its hints: those are counted by the broker's own state.
        self.send_nowait = broker.send_nowait
        self.partition_of = broker.partition_of
        metrics.watch_broker(broker.state)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    async def send(self, channel: Channel, messages: Sequence[Message]) -> None:
        """See the port."""
        began = self._monotonic()
        await self._broker.send(channel, messages)
        self._metrics.sent(channel.name, len(messages), self._monotonic() - began)

    def consumer(self, channels: Sequence[Channel], group: str) -> Consumer:
        """See the port."""
        return cast("Consumer", _WatchedConsumer(self._broker.consumer(channels, group), self._metrics))


class _WatchedConsumer:
    """Forwards everything; is looked at while it is a member of its group."""

    def __init__(self, consumer: Consumer, metrics: Metrics) -> None:
        self._consumer = consumer
        self._metrics = metrics
        self.take = consumer.take
        self.done = consumer.done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    async def start(self) -> None:
        """See the port."""
        await self._consumer.start()
        self._metrics.watch_consumer(self._consumer)

    async def stop(self) -> None:
        """See the port."""
        self._metrics.forget_consumer(self._consumer)
        await self._consumer.stop()


def watched(broker: Broker, metrics: Metrics, monotonic: Callable[[], float]) -> Broker:
    """This broker, with its events in the metrics."""
    return cast("Broker", _WatchedBroker(broker, metrics, monotonic))
