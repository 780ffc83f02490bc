"""`tickwise db upgrade`, `db status` and `doctor` for `cassandra://…`, and the store of a role there.

Some commands work on tables of PostgreSQL itself: `refuse_cassandra` says so in one sentence for all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.cassandra.address import CassandraAddress, is_cassandra, read_address
from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured, TickwiseError
from tickwise.ports.clock import Clock
from tickwise.ports.store import Store
from tickwise.wiring.findings import DoctorFinding, store_findings

if TYPE_CHECKING:
    from tickwise.adapters.store.cassandra.client import CassandraStore
    from tickwise.adapters.store.cassandra.holdings import ShardHolding

DOCTOR_SECONDS: Final = 3.0
"""For how long `doctor` and `shards` wait for a keeper."""
KEEPER_SECONDS: Final = 5.0
"""The longest time in which `doctor` connects to a keeper and has its answer."""


def refuse_cassandra(database_url: str | None) -> None:
    """Raises `Misconfigured` for the address of a Cassandra cluster, for what works on tables of PostgreSQL."""
    if database_url is not None and is_cassandra(database_url):
        read_address(database_url)
        raise Misconfigured(
            "this command works on a PostgreSQL, and database_url is cassandra:// (docs/how-to/cassandra.md)"
        )


def keyspace_of(settings: Settings) -> CassandraAddress:
    """The address of the keyspace. Raises `Misconfigured`."""
    if settings.database_url is None or not is_cassandra(settings.database_url):
        raise Misconfigured(
            "this is for Cassandra alone: set TICKWISE_DATABASE_URL=cassandra://host[,host]:port/keyspace, or pass "
            "--database; on PostgreSQL there are no keepers"
        )
    return keyspace_at(settings.database_url)


def keyspace_at(database_url: str) -> CassandraAddress:
    """The keyspace at an address. Raises `Misconfigured`, also where the driver is missing."""
    address = read_address(database_url)
    _schema()
    return address


def rebuild_tables(settings: Settings) -> int:
    """Make the readable tables anew, empty; their generation. Raises `Misconfigured`, `StoreUnavailable`."""
    address = keyspace_of(settings)
    from tickwise.adapters.store.cassandra.readable.tables import rebuild_readable

    return asyncio.run(rebuild_readable(address, SystemClock()))


def cassandra_store(database_url: str, clock: Clock) -> Store:
    """The store of a role, not yet open. Raises `Misconfigured`."""
    address = read_address(database_url)
    _schema()
    from tickwise.wiring.cassandra.stores import KeyspaceStore

    return cast("Store", KeyspaceStore(address, clock))


def upgrade_keyspace(
    database_url: str,
    tell: Callable[[int, int], None],
    shards: int | None = None,
    advise: Callable[[str], None] = lambda _: None,
) -> str:
    """Make the keyspace of the address and its tables; the version. `shards`: their number, when it is made. `advise`
    hears what the operator should change. Raises `Misconfigured`, `StoreUnavailable`."""
    address = read_address(database_url)
    return str(asyncio.run(_schema().upgrade(address, SystemClock(), tell, shards=shards, advise=advise)))


class SchemaStatus(NamedTuple):
    """The schema of a store, as `db status` tells it."""

    found: str
    """`none`: there is nothing."""
    needed: str
    fits: bool
    """True if this program works on the version that is there."""
    shards: list[dict[str, Any]] | None = None
    """Of a keyspace of Cassandra: who has each shard, as `told_holding` makes it."""
    state: str | None = None
    """Of a store without a schema: its kind and its state, in words."""


def keyspace_status(database_url: str) -> SchemaStatus:
    """The version of the keyspace, and who has its shards: read without a keeper."""
    address, schema = read_address(database_url), _schema()
    state, holdings = asyncio.run(schema.status_of_shards(address, SystemClock()))
    shards = [told_holding(each) for each in holdings]
    return SchemaStatus(str(state.version or "none"), str(schema.VERSION), state.fits, shards)


def told_holding(holding: ShardHolding) -> dict[str, Any]:
    """Return the holding of a shard for `--json`: the same words in `db status` and in `shards list`."""
    return {
        "shard": holding.shard,
        "address": holding.address,
        "process": holding.process,
        "epoch": holding.epoch,
        "lease": str(holding.lease),
        "lease_seconds": holding.lease_seconds,
        "lease_told": holding.told,
    }


async def cassandra_findings(database_url: str) -> AsyncIterator[DoctorFinding]:
    """The findings of `doctor` about a cluster and its keyspace."""
    try:
        address, schema = read_address(database_url), _schema()
        state, found = await schema.findings(address, SystemClock())
    except TickwiseError as failure:
        yield DoctorFinding("database", "error", failure.detail, "check the address, and that Cassandra runs")
        return
    if state.fits:
        yield DoctorFinding("schema", "ok", str(state.version))
    else:
        has = state.version or "none"
        cure = "install the newer Tickwise" if state.version > schema.VERSION else "tickwise db upgrade"
        yield DoctorFinding("schema", "error", f"the keyspace has {has}, this program needs {schema.VERSION}", cure)
    for each in found:
        yield DoctorFinding(*each)
    if state.fits:
        for finding in await _owner_findings(address):
            yield finding


async def _owner_findings(address: CassandraAddress) -> list[DoctorFinding]:
    """Check of each shard that somebody owns it, and answers; what it holds then."""
    from tickwise.adapters.store.cassandra.client import CassandraStore, KeyspaceSession

    session = KeyspaceSession(address, SystemClock())
    try:
        await session.open()
        stores = [
            (CassandraStore(session, shard=each.shard, patience_seconds=DOCTOR_SECONDS), each)
            for each in await session.holdings()
        ]
        found = await asyncio.gather(*(_shard_findings(store, holding) for store, holding in stores))
        return [finding for of_shard in found for finding in of_shard]
    except TickwiseError as failure:
        return [DoctorFinding("keepers", "error", failure.detail)]
    finally:
        await session.close()


async def _shard_findings(store: CassandraStore, holding: ShardHolding) -> list[DoctorFinding]:
    """`holding`: who has the shard, as Cassandra says."""
    found: list[DoctorFinding] = []
    advice = "start `tickwise keeper`, two of them for a takeover within seconds"
    last = f"; the lease of {holding.address}, epoch {holding.epoch}, {holding.told}" if holding.address else ""
    try:
        async with asyncio.timeout(KEEPER_SECONDS):
            await store.open()
            await store.now()
            # It may have got another owner since the row was read.
            epoch = f", epoch {holding.epoch}" if store.served_at == holding.address else ""
            found.append(DoctorFinding("keepers", "ok", f"shard {store.shard} is served at {store.served_at}{epoch}"))
            async for finding in store_findings(store, SystemClock()):
                found.append(finding._replace(detail=f"shard {store.shard}: {finding.detail}"))  # noqa: PERF401  # what came before a failure counts
    except TickwiseError as failure:
        found.append(DoctorFinding("keepers", "error", f"shard {store.shard}: {failure.detail}{last}", advice))
    except TimeoutError:
        text = f"shard {store.shard}: its keeper did not answer within {KEEPER_SECONDS:.0f} s{last}"
        found.append(DoctorFinding("keepers", "error", text, advice))
    finally:
        await store.close()
    return found


def _schema() -> ModuleType:
    """The part that needs the driver."""
    try:
        from tickwise.adapters.store.cassandra import schema
    except ImportError as missing:
        raise Misconfigured(
            "database_url is cassandra://, and its driver is not installed: pip install 'tickwise[cassandra]'"
        ) from missing
    return schema
