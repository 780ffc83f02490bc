"""Both maps of shards keep the promises of the port."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.memory import MemoryStore
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.ports.shards import ShardMap
from tickwise.testing.clock import VirtualClock
from tickwise.testing.contracts.shards import ShardMapContract


class TestMemoryShardMap(ShardMapContract):
    @pytest.fixture
    def shard_map(self) -> ShardMap:
        return MemoryStore(VirtualClock()).shard_map


class TestPostgresShardMap(ShardMapContract):
    @pytest_asyncio.fixture
    async def shard_map(self, empty_url: str) -> AsyncIterator[ShardMap]:
        await upgrade(empty_url)
        store = PostgresStore(empty_url, clock=SystemClock())
        await store.open()
        yield store.shard_map
        await store.close()
