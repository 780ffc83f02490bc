"""Snapshots of a keyspace, taken and restored as `docs/how-to/cassandra.md` says, with Cassandra's own `nodetool`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.integration.processes.fleet import Fleet, Role
from tests.services.cassandra import Cassandra
from tests.support.cassandras import CLOCK, linked
from tests.support.local_up import environment, run_command
from tests.support.waiting import eventually
from tickwise.adapters.store.cassandra.address import read_address
from tickwise.domain.fencing import first_token
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.ports.store import ClaimRequest
from tickwise.testing import factories
from tickwise.testing.factories import Factory
from tickwise.wiring.cassandra.stores import KeyspaceStore

pytestmark = [pytest.mark.thorough, pytest.mark.takes_up_to(300)]
KEYSPACE = "tickwise"
SHARDS = 2
TABLES = (
    "checkpoint_draft", "checkpoint_part", "history_block", "history_draft", "keeper", "log_entry", "meta", "shard",
)  # fmt: skip
"""Those that the page names: the readable ones are written anew."""


class Site:
    """A managed node, one keeper at a time, and clients of it."""

    def __init__(self, node: Cassandra, fleet: Fleet, folder: Path) -> None:
        self.node, self.fleet, self.folder = node, fleet, folder
        self.url = f"{node.url}/{KEYSPACE}"
        self.keeper: Role

    def tickwise(self, *words: str) -> str:
        """The answer of a command."""
        ran = run_command(words, environment(TICKWISE_DATABASE_URL=self.url))
        assert ran.code == 0, ran.err
        return ran.out

    async def upgrade(self, *words: str) -> None:
        """Make the keyspace."""
        await asyncio.to_thread(self.tickwise, "db", "upgrade", *words)

    async def start_keeper(self) -> None:
        """The owner of all shards."""
        self.keeper = self.fleet.start("keeper")
        await self.keeper.event("log_opened", count=SHARDS)

    async def stop_keeper(self) -> None:
        """In order: it has written what it had."""
        self.keeper.process.terminate()
        await self.keeper.ended()

    @contextlib.asynccontextmanager
    async def store(self) -> AsyncIterator[Any]:
        """A client of the keeper."""
        made = KeyspaceStore(read_address(self.url), CLOCK)
        await made.open()
        try:
            yield made
        finally:
            await made.close()

    async def there(self, ids: Sequence[UUID]) -> int:
        """The number of these jobs that the keyspace has."""
        async with self.store() as store:
            found = [await store.jobs.get(DEFAULT_NAMESPACE, each) for each in ids]
        return sum(each is not None for each in found)

    # ------------------------------------------------------------------ the steps of the page

    async def snapshot(self, name: str) -> Path:
        """The files of the tables, outside of the node's folder."""
        await self.node.nodetool("snapshot", "-t", name, KEYSPACE)
        kept = self.folder / name
        for place in (self.node.folder / "data").glob(f"**/{KEYSPACE}/*/snapshots/{name}"):
            table = place.parent.parent.name.rpartition("-")[0]
            if table in TABLES:
                await asyncio.to_thread(shutil.copytree, place, kept / table)
        await self.node.nodetool("clearsnapshot", "-t", name)
        return kept

    async def restore(self, kept: Path) -> None:
        """Into a keyspace that is made anew."""
        await self.node.nodetool("repair", "--paxos-only", KEYSPACE)
        async with linked(self.url, answer_seconds=30.0) as link:
            await link.run(f"DROP KEYSPACE {KEYSPACE}")
        await self.upgrade()
        async with linked(self.url, answer_seconds=30.0) as link:
            for table in TABLES:
                await link.run(f"TRUNCATE {KEYSPACE}.{table}")
        for table in TABLES:
            if any((kept / table).glob("*-Data.db")):
                await self.node.nodetool("import", "--copy-data", KEYSPACE, table, str(kept / table))
        await self.node.nodetool("repair", "--full", KEYSPACE)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with Cassandra(managed=True) as node:
        fleet = Fleet(f"{node.url}/{KEYSPACE}", tmp_path)
        try:
            yield Site(node, fleet, tmp_path)
        finally:
            fleet.stop()


async def add(store: Any, seed: str, due: float = 86_400.0) -> list[UUID]:
    """New jobs."""
    now = await store.now()
    make = Factory(now, seed=seed)
    jobs = [make.job(now + due) for _ in range(20)]
    await store.jobs.add(jobs)
    return [each.job_id for each in jobs]


async def test_a_snapshot_is_restored_with_all_that_it_had(site: Site) -> None:
    """Jobs, the keyspace's own name and key, and the readable tables; nothing of later."""
    await site.upgrade("--shards", str(SHARDS))
    await site.start_keeper()
    async with site.store() as store:
        name, early = store.upkeep.cluster_id, await add(store, "early")
        await add(store, "due", due=-1.0)
        executor = await store.executors.join(factories.executor(lease_seconds=600.0))
        taken = await store.attempts.claim(
            ClaimRequest(executor=executor, queues=("default",), labels=(), limit=5, ahead_seconds=0.0)
        )
        [row] = await store.executors.all()
        held = {(str(each.run_id), str(each.job_id), await _name(store, each.job_id), row.name) for each in taken}
    await site.stop_keeper()
    kept = await site.snapshot("monday")
    await site.start_keeper()
    async with site.store() as store:
        late = await add(store, "late")
    assert (20, 20) == (await site.there(early), await site.there(late))
    await site.stop_keeper()

    await site.restore(kept)
    await site.start_keeper()
    assert (20, 0) == (await site.there(early), await site.there(late))
    report = json.loads(await asyncio.to_thread(site.tickwise, "db", "restored", "--json"))
    assert (1, 5, 15) == (report["executors"], report["held"], report["queued"])
    assert held == {(each["run_id"], each["job_id"], each["name"], each["executor"]) for each in report["holding"]}
    async with site.store() as store:
        assert name == store.upkeep.cluster_id
        again = await store.attempts.claim(
            ClaimRequest(executor=executor, queues=("default",), labels=(), limit=5, ahead_seconds=0.0)
        )
        assert 5 == len(again)
        assert first_token(report["epoch"]) < min(each.token for each in again)
        more = await add(store, "more")
    await eventually(lambda: _listed(site, {*early, *more}), what="the readable tables have all jobs")


async def _name(store: Any, job_id: UUID) -> str:
    found = await store.jobs.get(DEFAULT_NAMESPACE, job_id)
    return str(found.name)


async def _listed(site: Site, ids: set[UUID]) -> bool:
    async with linked(site.url) as link:
        found = {row[0] for row in await link.run(f"SELECT job_id FROM {KEYSPACE}.jobs")}
    return ids <= found and len(found) == 60
