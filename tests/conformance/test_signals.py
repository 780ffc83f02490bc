"""All bells keep the promises of the port."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
import pytest_asyncio

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.signals.local import LocalSignals
from tickwise.adapters.signals.postgres import PostgresLink, PostgresSignals
from tickwise.adapters.signals.redis import RedisLink, RedisSignals
from tickwise.ports.signals import Signals
from tickwise.testing.contracts.signals import SignalsContract


class TestLocal(SignalsContract):
    @pytest.fixture
    def bells(self) -> tuple[Signals, Signals]:
        bell = LocalSignals()
        return bell, bell


class TestPostgres(SignalsContract):
    @pytest.fixture
    def bells(self, database_url: str) -> tuple[Signals, Signals]:
        here, there = (PostgresSignals(PostgresLink(database_url, SystemClock())) for _ in range(2))
        return here, there


class TestRedis(SignalsContract):
    @pytest_asyncio.fixture
    async def bells(self, redis_url: str) -> AsyncIterator[tuple[Signals, Signals]]:
        clock, cluster = SystemClock(), uuid4().hex
        links = [RedisLink(redis_url, cluster, clock) for _ in range(2)]
        yield RedisSignals(links[0]), RedisSignals(links[1])
        for link in links:
            await link.close()
