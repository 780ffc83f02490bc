"""A router over four shards of a keyspace keeps the promises of the store's port, through the wire, on a real node.

Each test has four shards of its own. The suites of the hot path run always; `make test-cassandra` runs all of them. The
gaps are those of four shards (`test_sharded_keepers`), and each must really fail here, too.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.conformance import test_sharded_keepers as keepers
from tests.conformance.test_cassandra_store import ALWAYS, WHOLE
from tests.support.cassandras import linked, next_shard
from tests.support.patient_router import PATIENT_SECONDS
from tickwise.adapters.store.cassandra.link import CassandraLink
from tickwise.adapters.store.cassandra.log import CassandraLog
from tickwise.adapters.store.keeper.log import EffectLog

pytestmark = pytest.mark.thorough


@pytest_asyncio.fixture(scope="module")
async def link(cassandra_url: str) -> AsyncIterator[CassandraLink]:
    """One session for the tests of this module."""
    async with linked(cassandra_url, answer_seconds=PATIENT_SECONDS) as opened:
        yield opened


class Backend(keepers.Backend):
    """Clients of keepers whose logs are in Cassandra."""

    by_wire = True
    session: CassandraLink

    @pytest.fixture(autouse=True)
    def _session(self, link: CassandraLink) -> None:
        self.session = link

    def log(self, number: int, folder: Path) -> EffectLog:  # a shard of the log has any number
        return CassandraLog(self.session, next_shard(), lease_seconds=PATIENT_SECONDS)


globals().update(keepers.over_shards(Backend, None if os.environ.get(WHOLE) else ALWAYS))
