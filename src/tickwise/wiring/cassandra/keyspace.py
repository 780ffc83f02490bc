"""`tickwise db upgrade`, `db status` and `doctor` for `cassandra://…`.

The roles do not run on Cassandra yet: they would need `tickwise keeper`, which owns shards. `refuse_cassandra` says so
in one sentence for all commands.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import ModuleType

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.cassandra.address import is_cassandra, read_address
from tickwise.domain.errors import Misconfigured, TickwiseError
from tickwise.wiring.findings import DoctorFinding


def refuse_cassandra(database_url: str | None) -> None:
    """Raises `Misconfigured` for the address of a Cassandra cluster, for all that needs a whole store."""
    if database_url is not None and is_cassandra(database_url):
        read_address(database_url)
        raise Misconfigured(
            "no role and no command but `tickwise db upgrade`, `tickwise db status` and `tickwise doctor` can use "
            "cassandra:// yet: the log of a shard is there, the keeper that serves it is not. Use a postgresql:// "
            "address (docs/how-to/cassandra.md)"
        )


def upgrade_keyspace(database_url: str, tell: Callable[[int, int], None]) -> str:
    """Make the keyspace of the address and its tables; the version. Raises `Misconfigured`, `StoreUnavailable`."""
    address = read_address(database_url)
    return str(asyncio.run(_schema().upgrade(address, SystemClock(), tell)))


def keyspace_status(database_url: str) -> tuple[str, str, bool]:
    """The version of the keyspace (`none`: there is no keyspace), the one that this program needs, and whether it
    fits."""
    address, schema = read_address(database_url), _schema()
    state = asyncio.run(schema.status(address, SystemClock()))
    return str(state.version or "none"), str(schema.VERSION), state.fits


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
        yield DoctorFinding(
            "schema", "error", f"the keyspace has {has}, this program needs {schema.VERSION}", "tickwise db upgrade"
        )
    for each in found:
        yield DoctorFinding(*each)
    yield DoctorFinding(
        "keepers", "warning", "no role can run on Cassandra yet", "use a postgresql:// address for all roles"
    )


def _schema() -> ModuleType:
    """The part that needs the driver."""
    try:
        from tickwise.adapters.store.cassandra import schema
    except ImportError as missing:
        raise Misconfigured(
            "database_url is cassandra://, and its driver is not installed: pip install 'tickwise[cassandra]'"
        ) from missing
    return schema
