"""Every way in which processes hear of each other keeps the promises of its port."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
import pytest_asyncio

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.signals.local import LocalLimits, LocalSharedState
from tickwise.adapters.signals.postgres import PostgresLink, PostgresSharedState, postgres_limits
from tickwise.adapters.signals.redis import RedisLink, RedisSharedState, redis_limits
from tickwise.adapters.store.postgres import upgrade
from tickwise.ports.limits import RateLimits
from tickwise.ports.shared_state import SharedState
from tickwise.testing.contracts.limits import MakeLimits, RateLimitsContract
from tickwise.testing.contracts.shared_state import SharedStateContract

PATIENCE_SECONDS = 60.0
"""What takes long here is late, and not away."""


@pytest_asyncio.fixture
async def redis_links(redis_url: str) -> AsyncIterator[tuple[RedisLink, RedisLink]]:
    """Two processes of one cluster."""
    cluster = uuid4().hex
    here, there = (RedisLink(redis_url, cluster, SystemClock(), answer_seconds=PATIENCE_SECONDS) for _ in range(2))
    links = here, there
    yield links
    for link in links:
        await link.close()


@pytest_asyncio.fixture(scope="module")
async def upgraded_url(database_url: str) -> str:
    """A database with our schema."""
    await upgrade(database_url)
    return database_url


@pytest_asyncio.fixture
async def postgres_links(upgraded_url: str) -> AsyncIterator[tuple[PostgresLink, PostgresLink]]:
    """Two processes of one database, whose shared state is empty."""
    here, there = (PostgresLink(upgraded_url, SystemClock(), answer_seconds=PATIENCE_SECONDS) for _ in range(2))
    links = here, there
    await links[0].ask("TRUNCATE tickwise.board, tickwise.paces")
    yield links
    for link in links:
        await link.close()


class TestLocalSharedState(SharedStateContract):
    @pytest.fixture
    def shared_states(self) -> tuple[SharedState, SharedState]:
        shared_state = LocalSharedState(SystemClock())
        return shared_state, shared_state


class TestPostgresSharedState(SharedStateContract):
    @pytest.fixture
    def shared_states(self, postgres_links: tuple[PostgresLink, PostgresLink]) -> tuple[SharedState, SharedState]:
        here, there = (PostgresSharedState(link) for link in postgres_links)
        return here, there


class TestRedisSharedState(SharedStateContract):
    @pytest.fixture
    def shared_states(self, redis_links: tuple[RedisLink, RedisLink]) -> tuple[SharedState, SharedState]:
        here, there = (RedisSharedState(link) for link in redis_links)
        return here, there


class TestLocalLimits(RateLimitsContract):
    @pytest.fixture
    def make_limits(self) -> MakeLimits:
        def make() -> tuple[RateLimits, RateLimits]:
            limits = LocalLimits(SystemClock())
            return limits, limits

        return make


class TestPostgresLimits(RateLimitsContract):
    @pytest.fixture
    def make_limits(self, postgres_links: tuple[PostgresLink, PostgresLink]) -> MakeLimits:
        def make() -> tuple[RateLimits, RateLimits]:
            here, there = (postgres_limits(link, wait_seconds=PATIENCE_SECONDS) for link in postgres_links)
            return here, there

        return make


class TestRedisLimits(RateLimitsContract):
    @pytest.fixture
    def make_limits(self, redis_links: tuple[RedisLink, RedisLink]) -> MakeLimits:
        def make() -> tuple[RateLimits, RateLimits]:
            here, there = (redis_limits(link, wait_seconds=PATIENCE_SECONDS) for link in redis_links)
            return here, there

        return make
