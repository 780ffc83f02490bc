"""A keyspace with four shards and one keeper, in this process: namespaces are spread, tokens name their shard, and the
commands tell and do what they can."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import socket
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.support.blocks import BLOCK_RUNS, end_runs, store_over
from tests.support.cassandras import CLOCK, keyspace, linked, next_shard
from tests.support.waiting import eventually
from tickwise.adapters.store.cassandra.address import read_address
from tickwise.adapters.store.cassandra.log import CassandraLog
from tickwise.adapters.store.cassandra.schema import VERSION, opened_keyspace, status, upgrade
from tickwise.adapters.store.keeper.balancer import ShardBalancer
from tickwise.adapters.store.keeper.shards import shard_names, shard_numbers
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.adapters.store.sharded.placing import rendezvous
from tickwise.config import Settings
from tickwise.domain.errors import Conflict, Misconfigured, NotFound, StoreUnavailable
from tickwise.domain.fencing import shard_bits
from tickwise.domain.model import DEFAULT_NAMESPACE, Claimed
from tickwise.observability.metrics import Metrics
from tickwise.ports.identity.namespaces import NewNamespace
from tickwise.ports.shards import ShardState
from tickwise.ports.store import Added, ClaimRequest, JobTransfer
from tickwise.testing.clock import VirtualClock
from tickwise.testing.factories import Factory, executor
from tickwise.wiring.cassandra import keeping as keepers
from tickwise.wiring.cassandra.bounded_look import LookOrder, bounded_findings
from tickwise.wiring.cassandra.keeping import keeping
from tickwise.wiring.cassandra.keyspace import cassandra_findings, keyspace_status
from tickwise.wiring.cassandra.stores import KeyspaceStore
from tickwise.wiring.installation.shards import add_shards, list_shards, move_namespace, move_status, remove_shard
from tickwise.wiring.installation.shards import set_shard_state as set_state
from tickwise.wiring.secret_keys.secrets_key import new_key
from tickwise.wiring.startup_wait import StartupWait

pytestmark = pytest.mark.thorough
SHARDS: Final = 4
TEAMS: Final = tuple(f"team-{number}" for number in range(12))
HELD: Final = ("shard", "address", "process", "epoch", "lease")


def _held(rows: Sequence[Mapping[str, Any]] | None) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in HELD) for row in rows or ()]


@contextlib.asynccontextmanager
async def _kept(url: str) -> AsyncIterator[ShardBalancer]:
    """A keeper that owns all shards of a keyspace, and goes on to own them however slow the machine is."""
    lasting = functools.partial(CassandraLog, lease_seconds=60.0)
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(keepers, "CassandraLog", lasting)
        keeper = await stack.enter_async_context(
            keeping(Settings(database_url=url), StartupWait(asyncio.Event()), Metrics().keepers)
        )
        await eventually(
            lambda: all(owner.store is not None for owner in keeper.owners.values()),
            within_seconds=60.0, what="the keeper owns all shards",
        )  # fmt: skip
        yield keeper


@pytest_asyncio.fixture
async def url(cassandra_server_url: str) -> AsyncIterator[str]:
    """The address of a keyspace that one keeper serves."""
    async with keyspace(cassandra_server_url, SHARDS) as made, _kept(made) as keeper:
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
        one = executor("one", lease_seconds=600.0)
        await store.executors.join(one)
        request = ClaimRequest(executor=one.number, queues=("default",), labels=(), limit=100, ahead_seconds=0.0)
        claimed: list[Claimed] = []

        async def all_claimed() -> bool:
            claimed.extend(await store.attempts.claim(request))
            return len(claimed) >= len(TEAMS)

        await eventually(all_claimed)
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
    assert [("ok", f"shard {number} is served at {address}, epoch 1") for number in (1, 2, 3, 4)] == [
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


async def test_doctor_looks_at_what_is_beside_a_keyspace(url: str, tmp_path: Path) -> None:
    """Secrets, the broker and Redis, as on PostgreSQL."""
    lost = Settings(
        data_dir=tmp_path, database_url=url, secrets_key=(new_key(),),
        broker_url="kafka://127.0.0.1:1?prefix=nowhere", signals_url="redis://127.0.0.1:1/0",
    )  # fmt: skip
    found = await bounded_findings(LookOrder(url, lost), seconds=60.0, beside_seconds=60.0)
    beside = ("secrets", "other clocks", "broker", "signals", "servers", "database")
    assert [("secrets", "ok"), ("other clocks", "warning"), ("broker", "error"), ("signals", "warning")] == [
        (each.name, each.level) for each in found if each.name in beside
    ]
    [secrets] = [each.detail for each in found if each.name == "secrets"]
    assert "stored encrypted, as a test value shows; 0 under the newest key" in secrets
    unset = await bounded_findings(LookOrder(url, Settings(data_dir=tmp_path, database_url=url)), seconds=60.0)
    assert ["none is stored, and no key is set: tickwise secrets new-key makes one"] == [
        each.detail for each in unset if each.name == "secrets"
    ]


async def test_status_says_who_has_each_shard(cassandra_server_url: str) -> None:
    """With epoch and lease, as the list of shards says it; also without a keeper, which the list needs."""
    nobody = [(number, "", "", 0, "none") for number in (1, 2)]
    async with keyspace(cassandra_server_url, 2) as url:
        async with _kept(url):
            told = await asyncio.to_thread(keyspace_status, url)
            assert (str(VERSION), str(VERSION), True) == told[:3]
            listed = await list_shards([url])
            process = f"process {os.getpid()} on {socket.gethostname()}"
            assert [(number, listed[0]["address"], process, 1, "valid") for number in (1, 2)] == _held(told.shards)
            assert _held(told.shards) == _held(listed)
        told = await asyncio.to_thread(keyspace_status, url)
        assert [(*row[:3], 1, "none") for row in nobody] == _held(told.shards)
        found = [each async for each in cassandra_findings(url) if each.name == "keepers"]
        assert [
            ("error", f"shard {number}: no keeper owns shard {number}: start `tickwise keeper`") for number in (1, 2)
        ] == [(each.level, each.detail) for each in found]
        with pytest.raises(StoreUnavailable, match="`tickwise db status` needs no keeper"):
            await list_shards([url])


async def test_one_shard_is_told_as_several_are(cassandra_server_url: str) -> None:
    """Its number is 0, it holds every namespace, and it cannot be drained."""
    async with keyspace(cassandra_server_url) as url:
        assert [(0, "", "", 0, "none")] == _held((await asyncio.to_thread(keyspace_status, url)).shards)
        async with _kept(url):
            (row,) = await list_shards([url])
            assert (0, "open", 1) == (row["shard"], row["state"], row["namespaces"])
            assert _held([row]) == _held((await asyncio.to_thread(keyspace_status, url)).shards)
            with pytest.raises(NotFound, match="the keyspace has one, which takes all namespaces"):
                await set_state([url], 1, ShardState.DRAINING)


async def test_a_keyspace_that_is_not_made_has_no_shards_to_tell_of(cassandra_server_url: str) -> None:
    """Its status says that it is missing."""
    told = await asyncio.to_thread(keyspace_status, f"{cassandra_server_url}/nothing_{next_shard()}")
    assert ("none", str(VERSION), False, []) == told[:4]


async def test_a_job_does_not_go_to_another_shard(url: str) -> None:
    """The refusal says what can be done in a keyspace, where no namespace moves."""
    store = await _store(url)
    try:
        for name in TEAMS:
            await store.namespaces.add(NewNamespace(name=name, display_name=name, created_by="ada"))
        apart = next(name for name in TEAMS if rendezvous(name, shard_numbers(SHARDS)) != 1)
        job = Factory(await store.now()).job()
        await store.jobs.add([job])
        move = JobTransfer(namespace=DEFAULT_NAMESPACE, job_id=job.job_id, to=apart, expected_version=1)
        with pytest.raises(Conflict, match="create the job again in") as refused:
            await store.jobs.move(move)
        assert ("other_database", False) == (refused.value.code, "shards move" in refused.value.detail)
    finally:
        await store.close()


async def test_what_a_command_writes_is_json_alone(url: str) -> None:
    """No line of a log stands before it, and the three commands agree."""

    async def said(*words: str) -> Any:
        command = [sys.executable, "-m", "tickwise", *words, "--json", "--database", url]
        process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
        answer, complaint = await process.communicate()
        assert b"" == complaint, complaint.decode()
        return json.loads(answer)

    status = await said("db", "status")
    assert _held(status["shards"]) == _held((await said("shards", "list"))["shards"])
    lines = [each["detail"] for each in await said("doctor") if each["name"] == "keepers"]
    assert lines == [f"shard {each['shard']} is served at {each['address']}, epoch 1" for each in status["shards"]]


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
