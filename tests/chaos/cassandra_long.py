"""Faults that `make test` has no time for: three nodes of Cassandra with three copies, each lost in turn.

`make chaos` plays it after its rows; alone: `pytest -s tests/chaos/cassandra_long.py`, which prints the figures.

    fault                                  must hold                                         target
    each of three nodes killed in turn     every entry once; appends go on                   no append over 5 s
    each of three nodes frozen in turn     the same                                          no append over 5 s
    the owner killed                       the next owner has all entries                    within lease + 1 s
    an owner that releases                 the next owner need not wait                      within 1 s
    a node whose clock is an hour off      time is that of the others, and never goes back   within 1 s of it
    a node killed 8 times during appends   every entry once                                  –
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.chaos.shim import ShiftedClock
from tests.services.cassandra import Cassandra, cluster
from tests.support.cassandra_load import under_load
from tests.support.cassandras import CLOCK, USUAL_SECONDS, keyspace, linked, next_shard
from tests.support.local_up import ROOT
from tests.support.waiting import eventually
from tickwise.adapters.store.cassandra.address import read_address
from tickwise.adapters.store.cassandra.log import CassandraLog
from tickwise.adapters.store.cassandra.schema import findings
from tickwise.testing.contracts.effect_log import own, read_all

pytestmark = pytest.mark.takes_up_to(900)
APPEND_SECONDS = 5.0
LEASE_SECONDS = 2.0
HOUR_SECONDS = 3_600.0


@pytest.fixture(scope="module")
def clocks(tmp_path_factory: pytest.TempPathFactory) -> list[ShiftedClock]:
    """The wall clocks of the nodes."""
    folder = Path(tmp_path_factory.mktemp("clocks"))
    return [ShiftedClock(folder, f"node{number}") for number in range(3)]


@pytest_asyncio.fixture(scope="module")
async def nodes(clocks: list[ShiftedClock]) -> AsyncIterator[list[Cassandra]]:
    """Three that these tests may harm."""
    async with cluster(3, shifted=[clock.environment for clock in clocks]) as running:
        yield running


@pytest_asyncio.fixture(scope="module")
async def url(nodes: list[Cassandra]) -> AsyncIterator[str]:
    """A keyspace with three copies, by the addresses of all nodes."""
    hosts = ",".join(node.address for node in nodes)
    async with keyspace(f"cassandra://{hosts}") as made:
        yield made


def note(figure: str) -> None:
    """Show it with `-s`."""
    print(figure)  # noqa: T201  # figures are for people


async def until_whole(url: str) -> None:
    """All nodes see each other, by the findings that `doctor` gives."""

    async def whole() -> bool:
        _, found = await findings(read_address(url), CLOCK)
        return all(each.level == "ok" for each in found)

    await eventually(whole, within_seconds=120.0, what="three nodes that are well")


async def test_a_cluster_of_three_is_well(url: str) -> None:
    """`doctor` has nothing to say of it: three copies, synced commit logs, Paxos v2, clocks that agree."""
    await until_whole(url)
    _, found = await findings(read_address(url), CLOCK)
    assert "3 of each row" in [each.detail for each in found]


@pytest.mark.parametrize("number", range(3))
async def test_the_loss_of_a_node_stops_nobody(url: str, nodes: list[Cassandra], number: int) -> None:
    """Killed in the middle of appends: they go on without it, and all entries are there once, also when it is back."""
    await until_whole(url)
    async with (
        linked(url, answer_seconds=USUAL_SECONDS) as link,
        under_load(CassandraLog(link, next_shard(), lease_seconds=60.0)) as load,
    ):
        nodes[number].kill()
        await load.goes_on(100)
        await nodes[number].start()
        await load.goes_on(100)
    note(f"node {number + 1} killed: longest append {load.longest_seconds:.2f} s, {len(load.doubted)} in doubt")
    assert load.longest_seconds < APPEND_SECONDS


@pytest.mark.parametrize("number", range(3))
async def test_a_frozen_node_stops_nobody(url: str, nodes: list[Cassandra], number: int) -> None:
    """It keeps its connections and answers nothing: other nodes are asked."""
    await until_whole(url)
    async with (
        linked(url, answer_seconds=1.0) as link,
        under_load(CassandraLog(link, next_shard(), lease_seconds=60.0)) as load,
    ):
        nodes[number].freeze()
        try:
            await load.goes_on(100)
        finally:
            nodes[number].thaw()
    note(f"node {number + 1} frozen: longest append {load.longest_seconds:.2f} s, {len(load.doubted)} in doubt")
    assert load.longest_seconds < APPEND_SECONDS


async def test_a_dead_owner_is_replaced_when_its_lease_ends(url: str) -> None:
    """By another that waits for it, with all its entries."""
    await until_whole(url)
    shard = next_shard()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.cassandra_owner", url, str(shard), str(LEASE_SECONDS),
        cwd=ROOT, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    told = [await process.stdout.readline() for _ in range(200)]
    async with linked(url, answer_seconds=USUAL_SECONDS) as link:
        log = CassandraLog(link, shard, lease_seconds=LEASE_SECONDS)
        waiting = asyncio.ensure_future(own(log, "next"))
        told += [await process.stdout.readline() for _ in range(200)]
        assert not waiting.done()
        process.send_signal(signal.SIGKILL)
        begun = CLOCK.monotonic()
        await waiting
        seconds = CLOCK.monotonic() - begun
        rest, _ = await process.communicate()
        lines = [line.split() for line in (b"".join(told) + rest).splitlines()]
        found = {entry.position: entry.body for entry in await read_all(log)}
        assert {int(position): body for position, body in lines} == {n: found[n] for n in range(1, len(lines) + 1)}
        note(f"taken over {seconds:.2f} s after a death, with a lease of {LEASE_SECONDS:g} s")
        assert seconds < LEASE_SECONDS + 1.0
        begun = CLOCK.monotonic()
        await log.release()
        await own(CassandraLog(link, shard), "third")
        note(f"handed over in {CLOCK.monotonic() - begun:.3f} s")
        assert CLOCK.monotonic() - begun < 1.0


@pytest.mark.parametrize("hours", [1, -1])
@pytest.mark.parametrize("number", range(3))
async def test_one_wrong_clock_of_three_changes_no_time(
    url: str, clocks: list[ShiftedClock], number: int, hours: int
) -> None:
    """Nothing is early or late by it, and appends keep their order."""
    await until_whole(url)
    async with linked(url, answer_seconds=USUAL_SECONDS) as link:
        log = CassandraLog(link, next_shard())
        await own(log, "owner")
        before = log.time.now() - CLOCK.monotonic()
        clocks[number].shift(hours * HOUR_SECONDS)
        try:
            await log.time.measure()
            assert abs(log.time.now() - CLOCK.monotonic() - before) < 1.0
            assert [*range(1, 31)] == [await log.append(b"%d" % number) for number in range(30)]
            _, found = await findings(read_address(url), CLOCK)
            assert "warning" in [each.level for each in found if each.name == "node clocks"]
        finally:
            clocks[number].shift(0.0)
        assert 31 == await log.append(b"with all clocks right")
        assert [*range(1, 32)] == [entry.position for entry in await read_all(log)]


async def test_many_kills_of_one_node_lose_nothing() -> None:
    """A cluster of one: what it acknowledged was on the disk."""
    async with Cassandra() as node, keyspace(node.url) as url, linked(url, answer_seconds=USUAL_SECONDS) as link:
        async with under_load(CassandraLog(link, next_shard(), lease_seconds=60.0)) as load:
            for _ in range(8):
                node.kill()
                await node.start()
                await load.goes_on(50)
        note(f"8 kills: {len(load.acknowledged)} appends, {len(load.doubted)} left in doubt, none lost, none twice")
