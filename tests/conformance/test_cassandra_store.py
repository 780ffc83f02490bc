"""The store of a keeper on Cassandra keeps every promise of the store's port, through the wire, on a real node.

Each test has a shard of its own. The suites of the hot path run always; `make test-cassandra` runs all of them.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio

from tests.conformance import test_keeper_wire as wire
from tests.support.cassandras import linked, next_shard
from tests.support.keepers import ServedStore, served_by
from tickwise.adapters.store.cassandra.link import CassandraLink
from tickwise.adapters.store.cassandra.log import CassandraLog
from tickwise.testing.clock import VirtualClock

pytestmark = pytest.mark.thorough
WHOLE: Final = "TICKWISE_TEST_WHOLE_CASSANDRA"
ALWAYS: Final = {
    "TestClaims", "TestFinishes", "TestHandovers", "TestLeases", "TestSubmits", "TestTimers", "TestWalks",
}  # fmt: skip


@pytest_asyncio.fixture(scope="module")
async def link(cassandra_url: str) -> AsyncIterator[CassandraLink]:
    """One session for the tests of this module."""
    async with linked(cassandra_url) as opened:
        yield opened


class Backend(wire.Backend):
    """A client of a keeper whose log is in Cassandra."""

    @pytest.fixture
    async def keeper(self, clock: VirtualClock, link: CassandraLink) -> AsyncIterator[ServedStore]:
        self.virtual_clock = clock
        async with served_by(CassandraLog(link, next_shard()), clock) as self.served:
            yield self.served


def _suites() -> dict[str, type]:
    """The suites over this backend."""
    made = {}
    for name, suite in vars(wire).items():
        is_suite = name.startswith("Test") and isinstance(suite, type)
        if is_suite and (name in ALWAYS or os.environ.get(WHOLE)):
            bases = tuple(Backend if each is wire.Backend else each for each in suite.__bases__)
            own = {word: value for word, value in vars(suite).items() if word in ("seeds", "pytestmark")}
            made[name] = type(name, bases, {**own, "__doc__": suite.__doc__, "__module__": __name__})
    return made


globals().update(_suites())
