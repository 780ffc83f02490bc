"""The log in Cassandra keeps the promises of the port, on a real node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.cassandras import linked, next_shard
from tickwise.adapters.store.cassandra.link import CassandraLink
from tickwise.adapters.store.cassandra.log import PAGE_BYTES, CassandraLog
from tickwise.testing.contracts.effect_log import EffectLogContract, OpenLog, SharedLogContract

pytestmark = pytest.mark.thorough
LEASE_SECONDS = 60.0
SHORT_SECONDS = 1.0
"""The lease where another process waits for its end."""
PATIENCE_SECONDS = 60.0
"""An answer that takes long here is late, and Cassandra is not away."""


@pytest_asyncio.fixture(scope="module")
async def link(cassandra_url: str) -> AsyncIterator[CassandraLink]:
    """One session for the tests of this module."""
    async with linked(cassandra_url, answer_seconds=PATIENCE_SECONDS) as opened:
        yield opened


class Backend:
    """Objects of one shard for each test, each as another process would have it."""

    lease_seconds = LEASE_SECONDS

    @pytest.fixture
    def open_log(self, link: CassandraLink) -> OpenLog:
        """One more object of the shard."""
        shard = next_shard()

        async def opened() -> CassandraLog:
            return CassandraLog(link, shard, lease_seconds=self.lease_seconds)

        return opened


class TestEffectLog(Backend, EffectLogContract):
    async def test_a_reader_that_is_behind_has_little_of_the_log_in_memory(
        self, open_log: OpenLog, link: CassandraLink, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A page of large entries has few of them; small ones take few pages. All are there."""
        log, page, pages = await open_log(), link.page, list[int]()
        await log.acquire("reader", "")
        bodies = [b"%d" % number * 100 for number in range(300)]
        bodies += [b"%3d" % number * 140_000 for number in range(40)]
        for body in bodies:
            await log.append(body)

        async def counted(*given: Any, **named: Any) -> Any:
            rows, after = await page(*given, **named)
            pages.append(sum(len(row[-1]) for row in rows))
            return rows, after

        monkeypatch.setattr(link, "page", counted)
        assert bodies == [entry.body async for entry in log.entries(0)]
        # Small entries give no hint of the size of those behind them: one page may be larger.
        *_, second, largest = sorted(pages)
        assert second <= PAGE_BYTES
        assert largest <= 64 * 420_000
        assert len(pages) < 20


class TestSharedLog(Backend, SharedLogContract):
    lease_seconds = SHORT_SECONDS
