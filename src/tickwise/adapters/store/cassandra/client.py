"""`CassandraStore`: the store of a role on Cassandra. It asks the keeper of the shard, and Cassandra who that is.

    the row of the shard ──► endpoint of its owner ──► calls (`keeper.wire`)

The role itself reads and writes nothing of the log.
"""

from __future__ import annotations

from tickwise.adapters.store.cassandra.address import CassandraAddress
from tickwise.adapters.store.cassandra.link import CassandraLink
from tickwise.adapters.store.cassandra.ownership import OwnershipRow
from tickwise.adapters.store.cassandra.schema import opened_keyspace
from tickwise.adapters.store.keeper.wire.remote import PATIENCE_SECONDS, RemoteStore
from tickwise.domain.errors import StoreUnavailable
from tickwise.ports.clock import Clock

FIRST_SHARD = 0
"""The shard of an installation that has one."""


class CassandraStore(RemoteStore):
    """The port `Store`, of one shard of a keyspace."""

    def __init__(
        self,
        address: CassandraAddress,
        clock: Clock,
        *,
        shard: int = FIRST_SHARD,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        super().__init__(
            self._owner, key=lambda: self._keeper_key, shard=shard, clock=clock, patience_seconds=patience_seconds
        )
        self._address = address
        self._keeper_key = ""
        self._cassandra: CassandraLink | None = None

    async def open(self) -> None:
        """See the port."""
        if self._cassandra is None:
            self._cassandra, state = await opened_keyspace(self._address, self.clock)
            self._keeper_key = state.keeper_key
        await super().open()

    async def close(self) -> None:
        """See the port."""
        await super().close()
        link, self._cassandra = self._cassandra, None
        if link is not None:
            await link.close()

    async def _owner(self) -> str:
        if self._cassandra is None:
            raise StoreUnavailable("the store is closed")
        row = await OwnershipRow(self._cassandra, self.shard).look()
        return row.endpoint if row is not None and row.owner else ""
