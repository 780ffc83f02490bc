"""A keyspace with four shards and one keeper, in this process: namespaces are spread, tokens name their shard, and the
commands tell and do what they can."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from tests.support.blocks import BLOCK_RUNS, end_runs, store_over
from tests.support.cassandras import CLOCK, keyspace, linked, next_shard
from tests.support.waiting import eventually
from tickwise.adapters.store.cassandra.address import read_address
from tickwise.adapters.store.cassandra.log import CassandraLog
from tickwise.adapters.store.cassandra.schema import VERSION, opened_keyspace, status, upgrade
from tickwise.adapters.store.keeper.shards import shard_names, shard_numbers
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.adapters.store.sharded.placing import rendezvous
from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured, StoreUnavailable
from tickwise.domain.fencing import shard_bits
from tickwise.observability.metrics import Metrics
from tickwise.ports.identity.namespaces import NewNamespace
from tickwise.ports.shards import ShardState
from tickwise.ports.store import Added, ClaimRequest
from tickwise.testing.clock import VirtualClock
from tickwise.testing.factories import Factory, executor
from tickwise.wiring.cassandra.keeping import keeping
from tickwise.wiring.cassandra.keyspace import cassandra_findings
from tickwise.wiring.cassandra.stores import KeyspaceStore
from tickwise.wiring.installation.shards import add_shards, list_shards, move_namespace, move_status, remove_shard
from tickwise.wiring.installation.shards import set_shard_state as set_state
from tickwise.wiring.startup_wait import StartupWait

pytestmark = pytest.mark.thorough
SHARDS: Final = 4
TEAMS: Final = tuple(f"team-{number}" for number in range(12))


@pytest_asyncio.fixture
async def url(cassandra_server_url: str) -> AsyncIterator[str]:
    """The address of a keyspace that one keeper serves."""
    stop = StartupWait(asyncio.Event())
    async with (
        keyspace(cassandra_server_url, SHARDS) as made,
        keeping(Settings(database_url=made), stop, Metrics().keepers) as keeper,
    ):
        await eventually(
            lambda: all(owner.store is not None for owner in keeper.owners.values()),
            within_seconds=60.0, what="the keeper owns all shards",
        )  # fmt: skip
        assert "it owns 4 of 4 shards: 1, 2, 3, 4" == keeper.state
        yield made


async def _store(url: str) -> KeyspaceStore:
    store = KeyspaceStore(read_address(url), CLOCK)
    await store.open()
    return store


async def test_namespaces_are_spread_and_tokens_name_their_shard(url: str) -> None:
    """Two processes agree where a namespace is, and one claim takes from all shards."""
    store, other = await _store(url), await _store(url)
    try:
        for name in TEAMS:
            await store.namespaces.add(NewNamespace(name=name, display_name=name, created_by="ada"))
        wanted = {name: rendezvous(name, shard_numbers(SHARDS)) for name in TEAMS}
        assert set(wanted.values()) == {1, 2, 3, 4}
        placed = await store.shards[0].shard_map.read()
        assert wanted == {name: placed.places[name].shard for name in TEAMS}
        state = await status(read_address(url), CLOCK)
        assert shard_names(state.installation, SHARDS) == tuple(each.cluster_id for each in placed.shards.values())
        assert state.installation == other.upkeep.cluster_id
        make = Factory(await store.now())
        added = await other.jobs.add([make.job(namespace=name) for name in TEAMS])
        assert all(isinstance(each, Added) for each in added)
        one = executor("one")
        await store.executors.join(one)
        request = ClaimRequest(executor=one.number, queues=("default",), labels=(), limit=100, ahead_seconds=0.0)
        claimed = []
        for _ in range(40):
            claimed += await store.attempts.claim(request)
            if len(claimed) >= len(TEAMS):
                break
            await CLOCK.sleep(0.1)
        assert {name: shard_bits(wanted[name]) for name in TEAMS} == {
            each.namespace: shard_bits(each.token) for each in claimed
        }
        assert len(claimed) == len(TEAMS)
    finally:
        await other.close()
        await store.close()


async def test_the_commands_tell_of_the_shards(url: str) -> None:
    """With their keeper; a drained one gets no new namespace, and what a keyspace cannot do is refused."""
    rows = await list_shards([url])
    assert [(1, "open"), (2, "open"), (3, "open"), (4, "open")] == [(row["shard"], row["state"]) for row in rows]
    [address] = {row["address"] for row in rows}
    found = [each async for each in cassandra_findings(url) if each.name == "keepers"]
    assert [("ok", f"shard {number} is served at {address}") for number in (1, 2, 3, 4)] == [
        (each.level, each.detail) for each in found
    ]
    for number in (2, 3, 4):
        await set_state([url], number, ShardState.DRAINING)
    store = await _store(url)
    try:
        for name in TEAMS:
            await store.namespaces.add(NewNamespace(name=name, display_name=name, created_by="ada"))
    finally:
        await store.close()
    # `default` is in the first shard.
    assert [1 + len(TEAMS), 0, 0, 0] == [row["namespaces"] for row in await list_shards([url])]
    assert [] == await move_status([url])
    for refused in (add_shards([url]), remove_shard([url], 2), move_namespace([url], TEAMS[0], 2, _hear)):
        with pytest.raises(Misconfigured, match="shard"):
            await refused


async def _hear(_told: object) -> None:
    raise AssertionError("nothing moves")


async def test_the_number_of_shards_stays(cassandra_server_url: str) -> None:
    """That of a keyspace of version 2 is one; another number is refused, and nothing is changed."""
    address = read_address(f"{cassandra_server_url}/number_{next_shard()}")
    await upgrade(address, CLOCK, shards=SHARDS)
    await upgrade(address, CLOCK)
    with pytest.raises(Misconfigured, match="has 4 shards, and --shards says 8"):
        await upgrade(address, CLOCK, shards=8)
    assert (SHARDS, shard_numbers(SHARDS)) == ((found := await status(address, CLOCK)).shards, found.numbers)
    async with linked(address) as link:
        await link.ask("meta_write", "version", "2")
        await link.run(f"DELETE FROM {address.keyspace}.meta WHERE name IN ('shards', 'installation')")
    with pytest.raises(Misconfigured, match="has 1 shard, and --shards says 4"):
        await upgrade(address, CLOCK, shards=SHARDS)
    await upgrade(address, CLOCK)
    found = await status(address, CLOCK)
    assert (VERSION, 1, (0,)) == (found.version, found.shards, found.numbers)


async def test_a_keyspace_of_version_3_gets_tables_for_blocks(cassandra_server_url: str, tmp_path: Path) -> None:
    """Its checkpoint has all ended runs. They are there after the upgrade, and in blocks after the next checkpoint."""
    clock, address = VirtualClock(), read_address(f"{cassandra_server_url}/three_{next_shard()}")
    await upgrade(address, CLOCK)
    async with linked(address, answer_seconds=20.0) as link:
        for table in ("history_block", "history_draft"):
            await link.run(f"DROP TABLE {address.keyspace}.{table}")
        await link.ask("meta_write", "version", "3")
        before = KeeperStore(CassandraLog(link, 0), clock)
        await before.open()
        runs = await end_runs(before, 2 * BLOCK_RUNS)
        await before.keep_checkpoint()
        await before.close()
    with pytest.raises(StoreUnavailable, match="has version 3, and this program needs"):
        await opened_keyspace(address, CLOCK)
    await upgrade(address, CLOCK)
    link, _ = await opened_keyspace(address, CLOCK)
    for blocks in (2, 2):
        store = store_over(CassandraLog(link, 0), tmp_path, clock)
        await store.open()
        assert set(runs) == set(store.memory.state.ended)
        await store.keep_checkpoint()
        assert blocks == len(await store.log.blocks())
        await store.close()
    await link.close()
