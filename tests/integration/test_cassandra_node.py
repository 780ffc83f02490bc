"""The log of a shard while its one node is killed, frozen, or set to another time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.chaos.shim import ShiftedClock
from tests.services.cassandra import Cassandra
from tests.support.cassandra_load import under_load
from tests.support.cassandras import CLOCK, PATIENT_SECONDS, USUAL_SECONDS, keyspace, linked, next_shard
from tests.support.waiting import eventually
from tickwise.adapters.store.cassandra.log import CassandraLog
from tickwise.adapters.store.keeper.log import OwnershipLost
from tickwise.domain.errors import StoreUnavailable
from tickwise.testing.contracts.effect_log import own

pytestmark = [pytest.mark.thorough, pytest.mark.takes_up_to(300)]
HOUR_SECONDS = 3_600.0
KILLS = 2


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> ShiftedClock:
    """The node's wall clock."""
    return ShiftedClock(Path(tmp_path_factory.mktemp("clock")), "node")


@pytest_asyncio.fixture(scope="module")
async def node(clock: ShiftedClock) -> AsyncIterator[Cassandra]:
    """One that these tests may harm."""
    async with Cassandra(shifted=clock.environment) as running:
        yield running


@pytest_asyncio.fixture(scope="module")
async def url(node: Cassandra) -> AsyncIterator[str]:
    """A keyspace of it."""
    async with keyspace(node.url) as made:
        yield made


async def test_a_node_that_is_killed_loses_nothing(url: str, node: Cassandra) -> None:
    """`kill -9` in the middle of appends, again and again: what was acknowledged is there, in its place, once."""
    async with (
        linked(url, answer_seconds=USUAL_SECONDS) as link,
        under_load(CassandraLog(link, next_shard(), lease_seconds=60.0)) as load,
    ):
        for _ in range(KILLS):
            node.kill()
            await node.start()
            await load.goes_on()


async def test_a_node_that_is_frozen_past_the_lease_ends_reads_and_no_entry(url: str, node: Cassandra) -> None:
    """The owner learns that its lease could not be renewed; it goes on, or another owner has taken the shard."""
    shard = next_shard()
    async with linked(url, answer_seconds=0.5) as link, linked(url, answer_seconds=PATIENT_SECONDS) as patient:
        log, other = CassandraLog(link, shard, lease_seconds=1.0), CassandraLog(patient, shard, lease_seconds=60.0)
        await eventually(lambda: _is_owned(log), what="the log is owned")
        await log.append(b"before")
        node.freeze()
        renewing = asyncio.ensure_future(log.renew())
        try:
            await CLOCK.sleep(2.0)
            assert not renewing.done(), "a frozen node cannot renew a lease"
        finally:
            node.thaw()
        with pytest.raises(StoreUnavailable, match="longer than the lease"):
            await renewing
        tenure = await own(other, "other")
        assert 1 == tenure.last
        with pytest.raises(OwnershipLost):
            await log.append(b"stale")
        assert 2 == await other.append(b"after")


async def _is_owned(log: CassandraLog) -> bool:
    """Own it, by a link that waits for no slow answer: not each call of an acquisition is repeated."""
    with contextlib.suppress(StoreUnavailable):
        await own(log, "owner")
        return True
    return False


@pytest.mark.parametrize("hours", [1, -1])
async def test_a_node_whose_clock_jumps_keeps_order_and_time(
    url: str, node: Cassandra, clock: ShiftedClock, hours: int
) -> None:
    """By an hour, either way: entries stay in order, an owner is replaced in time, and the time never goes back."""
    shard = next_shard()
    async with linked(url, answer_seconds=PATIENT_SECONDS) as link:
        log = CassandraLog(link, shard, lease_seconds=1.0)
        await own(log, "owner")
        told = log.time.now()
        clock.shift(hours * HOUR_SECONDS)
        try:
            assert [1, 2] == [await log.append(b"one"), await log.append(b"two")]
            await log.time.measure()
            now = log.time.now()
            assert now >= told
            assert (now - told > HOUR_SECONDS - 60) == (hours > 0), "the node's clock did not jump"
            await log.append(b"three")
            begun = CLOCK.monotonic()
            other = CassandraLog(link, shard, lease_seconds=1.0)
            await own(other, "other")
            assert 1.0 <= CLOCK.monotonic() - begun, "it was replaced before its lease ended"
            assert other.time.now() >= now
            with pytest.raises(OwnershipLost):
                await log.append(b"stale")
            last = other.time.now()
            assert 4 == await other.append(b"four")
        finally:
            clock.shift(0.0)
        again = CassandraLog(link, shard, lease_seconds=1.0)
        await own(again, "again")
        assert again.time.now() >= last
        assert 5 == await again.append(b"five")
        assert [b"one", b"two", b"three", b"four", b"five"] == [entry.body async for entry in again.entries(0)]
