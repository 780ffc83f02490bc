"""The log in Cassandra keeps the promises of the port, on a real node."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.cassandras import linked, next_shard
from tickwise.adapters.store.cassandra.link import CassandraLink
from tickwise.adapters.store.cassandra.log import CassandraLog
from tickwise.testing.contracts.effect_log import EffectLogContract, OpenLog, SharedLogContract

pytestmark = pytest.mark.thorough
LEASE_SECONDS = 0.5


@pytest_asyncio.fixture(scope="module")
async def link(cassandra_url: str) -> AsyncIterator[CassandraLink]:
    """One session for the tests of this module."""
    async with linked(cassandra_url) as opened:
        yield opened


class Backend:
    """Objects of one shard for each test, each as another process would have it."""

    @pytest.fixture
    def open_log(self, link: CassandraLink) -> OpenLog:
        """One more object of the shard."""
        shard = next_shard()

        async def opened() -> CassandraLog:
            return CassandraLog(link, shard, lease_seconds=LEASE_SECONDS)

        return opened


class TestEffectLog(Backend, EffectLogContract):
    pass


class TestSharedLog(Backend, SharedLogContract):
    pass
