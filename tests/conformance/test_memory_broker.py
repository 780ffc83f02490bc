"""The broker in one process's memory keeps the promises of the port."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tickwise.adapters.broker.memory import Exchange, MemoryBroker
from tickwise.adapters.clock import SystemClock
from tickwise.testing.contracts.broker import (
    LANES,
    PARTITIONS,
    BrokerSuite,
    GroupsContract,
    LivesContract,
    MessagesContract,
    TakesContract,
)


class Backend(BrokerSuite):
    """Channels in a world of their own."""

    @pytest.fixture
    def make(self) -> Callable[[], MemoryBroker]:
        exchange = Exchange(lanes=LANES, partitions=PARTITIONS)
        return lambda: MemoryBroker(exchange, SystemClock(), opened=False)


class TestMessages(Backend, MessagesContract):
    pass


class TestGroups(Backend, GroupsContract):
    pass


class TestTakes(Backend, TakesContract):
    pass


class TestLives(Backend, LivesContract):
    pass
