"""The store of a keeper on Cassandra keeps every promise of the store's port, through the wire, on a real node.

Each test has a shard of its own; no ended run is in memory, and three are a block. At its end the state is read from
a checkpoint that names the blocks. The suites of the hot path run always; `make test-cassandra` runs all of them.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from tests.conformance import test_keeper_wire as wire
from tests.support.blocks import small_blocks, wrong_in_log
from tests.support.cassandras import linked, next_shard
from tests.support.keepers import ServedStore, served_by
from tickwise.adapters.store.cassandra.link import CassandraLink
from tickwise.adapters.store.cassandra.log import CassandraLog
from tickwise.adapters.store.keeper.log import Tenure
from tickwise.testing.clock import VirtualClock

pytestmark = pytest.mark.thorough
BLOCK_RUNS: Final = 3
PATIENCE_SECONDS: Final = 60.0
"""Cassandra that takes long here is late, and not away; no owner loses its shard by that."""
WHOLE: Final = "TICKWISE_TEST_WHOLE_CASSANDRA"
ALWAYS: Final = {
    "TestClaims", "TestFinishes", "TestHandovers", "TestLeases", "TestSubmits", "TestTimers", "TestWalks",
}  # fmt: skip


@pytest_asyncio.fixture(scope="module")
async def link(cassandra_url: str) -> AsyncIterator[CassandraLink]:
    """One session for the tests of this module."""
    async with linked(cassandra_url, answer_seconds=PATIENCE_SECONDS) as opened:
        yield opened


class Backend(wire.Backend):
    """A client of a keeper whose log is in Cassandra."""

    @pytest.fixture
    async def keeper(self, clock: VirtualClock, link: CassandraLink, tmp_path: Path) -> AsyncIterator[ServedStore]:
        self.virtual_clock = clock
        log = CassandraLog(link, next_shard(), lease_seconds=PATIENCE_SECONDS)
        async with served_by(log, clock, lambda: small_blocks(tmp_path, runs=BLOCK_RUNS)) as self.served:
            yield self.served
            store = self.served.store
            assert not store.memory.state.ended.in_memory
            if store.answers and store.memory.state.ended:
                for _ in range(2):  # the second one names blocks that are there
                    await store.keep_checkpoint()
                assert {} == await wrong_in_log(store, Tenure(0, (await log.owner()).checkpoint, store.position))


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
