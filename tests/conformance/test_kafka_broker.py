"""The broker over Kafka keeps the promises of the port, on a real one. Its older groups: `make chaos`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tickwise.adapters.broker.kafka import KafkaBroker
from tickwise.adapters.clock import SystemClock
from tickwise.ports.broker import Consumer
from tickwise.testing.contracts.broker import (
    LANES,
    PARTITIONS,
    BrokerSuite,
    GroupsContract,
    LivesContract,
    MessagesContract,
    TakesContract,
    until,
)

pytestmark = pytest.mark.thorough


class Backend(BrokerSuite):
    """Topics under a prefix of their own; groups by the protocol of Kafka 4."""

    protocol = "consumer"

    @pytest.fixture
    def make(self, kafka_prefix_url: str) -> Callable[[], KafkaBroker]:
        # A session that outlasts a machine that is busy with other tests: whoever loses it takes everything again.
        options = f"lanes={LANES}&partitions={PARTITIONS}&group_protocol={self.protocol}&session_seconds=45"
        return lambda: KafkaBroker(f"{kafka_prefix_url}&{options}", SystemClock())

    async def until_fetched(self, consumer: Consumer, count: int) -> None:
        await until(lambda: consumer.state().waiting >= count)


class TestMessages(Backend, MessagesContract):
    pass


class TestGroups(Backend, GroupsContract):
    pass


class TestTakes(Backend, TakesContract):
    pass


class TestLives(Backend, LivesContract):
    pass
