"""The databases of one installation: one address, or several separated by spaces.

    one       the store itself; nothing of what follows is there
    several   upgraded in order ──► each joins the installation of the first, gets its number, and draws tokens that
              name it ──► one router over them all (`adapters.store.sharded`)

Invariant: a database of another installation, one with content of its own, and one that is named twice are refused
before anything is written to them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.cassandra.address import is_cassandra
from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured, StoreUnavailable
from tickwise.ports.clock import Clock
from tickwise.ports.store import Store
from tickwise.wiring.cassandra.keyspace import cassandra_store
from tickwise.wiring.storage.file_store import open_file_store


def addresses(url: str) -> list[str]:
    """The addresses of the databases, the first one first. Raises `Misconfigured` if one is named twice."""
    found = url.split()
    if len(set(found)) < len(found):
        raise Misconfigured("TICKWISE_DATABASE_URL names one address twice: name each database once")
    if len(found) > 1 and any(not each.startswith(("postgresql:", "postgres:")) for each in found):
        raise Misconfigured("several databases are PostgreSQL each: postgresql://… postgresql://…")
    return found


def make_store(settings: Settings, url: str, clock: Clock, *, lost: Callable[[], None]) -> Store:
    """The store of these addresses, not yet open. `lost` is called if the process has to end."""
    if url.startswith("file:"):
        return open_file_store(
            url, clock, near_seconds=settings.horizon_seconds, ended_in_memory=settings.ended_runs_in_memory, lost=lost
        )
    if is_cassandra(url):
        return cassandra_store(url, clock)
    if url.startswith("memory:"):
        from tickwise.adapters.store.memory import MemoryStore

        return MemoryStore(clock, near_seconds=settings.horizon_seconds)
    store: Store = _of_databases(url, clock, settings)
    return store


def make_replica(settings: Settings, url: str, clock: Clock) -> Store:
    """Replicas for searches: of each database, in any order."""
    store: Store = _of_databases(url, clock, settings, reads_only=True)
    return store


def store_of(url: str, clock: Clock) -> Store:
    """The store of these addresses for a command, with the usual settings; not yet open."""
    if is_cassandra(url):
        return cassandra_store(url, clock)
    store: Store = _of_databases(url, clock, None)
    return store


def _of_databases(url: str, clock: Clock, settings: Settings | None, *, reads_only: bool = False) -> Any:
    from tickwise.adapters.store.postgres import PostgresStore

    wanted: dict[str, Any] = {}
    if settings is not None:
        wanted = {"near_seconds": settings.horizon_seconds, "pool_connections": settings.database_connections}
    stores = [PostgresStore(address, clock=clock, reads_only=reads_only, **wanted) for address in addresses(url)]
    if len(stores) == 1:
        return stores[0]
    from tickwise.adapters.store.sharded import ShardedStore

    return ShardedStore(stores, stores[0].shard_map, clock=clock, reads_only=reads_only)


async def upgrade_all(url: str, then: Any = None, tell: Callable[[int, int], None] | None = None) -> str:
    """Bring the schema of each database to what this program needs, and make them one installation; the oldest version
    that one has then. Raises `Misconfigured`."""
    from tickwise.adapters.store.postgres import upgrade

    heard = tell if tell is not None else (lambda _done, _of: None)
    found = addresses(url)
    versions = [await upgrade(address, then, heard) for address in found]
    if len(found) > 1:
        await _join(found)
    return min(versions)


async def _join(found: list[str]) -> None:
    """Give each database its number in the installation of the first."""
    from tickwise.adapters.store.postgres import PostgresStore
    from tickwise.adapters.store.postgres.shards.tokens import draw_tokens

    async with AsyncExitStack() as stack:
        stores = []
        for address in found:
            store = PostgresStore(address, clock=SystemClock())
            await store.open()
            stack.push_async_callback(store.close)
            stores.append(store)
        first, ids = stores[0], [store.upkeep.cluster_id for store in stores]
        check_distinct(ids)
        for number, store in enumerate(stores, 1):
            known = (await first.shard_map.read()).shards
            there = next((each.number for each in known.values() if each.cluster_id == store.upkeep.cluster_id), None)
            # Checked with the number that it has or would get, before the map knows it.
            await store.shard_membership.join(ids[0], there or max(known, default=0) + 1)
            shard = await first.shard_map.add(store.upkeep.cluster_id)
            await draw_tokens(found[number - 1], shard.number)


def check_distinct(cluster_ids: list[str]) -> None:
    """Raise `Misconfigured` if two addresses lead to one database, or one is a copy of another."""
    for at, cluster_id in enumerate(cluster_ids):
        before = cluster_ids.index(cluster_id)
        if before < at:
            raise Misconfigured(
                f"the addresses {before + 1} and {at + 1} of TICKWISE_DATABASE_URL lead to one database, or to "
                "copies of one: name each database once"
            )


async def check_alone(store: Any) -> None:
    """Refuse to work on one database of several as if it were alone. Raises `Misconfigured`."""
    first = await store.shard_membership.first_cluster()
    shards = len((await store.shard_map.read()).shards)
    if first not in (None, store.upkeep.cluster_id):
        raise Misconfigured(
            "this database is one of several of an installation, and not its first: name all of them in "
            "TICKWISE_DATABASE_URL, the first one first, separated by spaces"
        )
    if shards > 1:
        raise Misconfigured(
            f"this installation has {shards} databases: name all of them in TICKWISE_DATABASE_URL, separated by spaces"
        )


async def has_schemas(url: str) -> bool:
    """Check whether each database has a schema that this program can work with, or a newer one."""
    from tickwise.adapters.store.postgres import schema_status

    for address in addresses(url):
        try:
            found, _ = await schema_status(address)
        except StoreUnavailable:
            continue
        if found is None or not (found.fits or found.is_newer):
            return False
    return True
