"""`CassandraStore`: the store of a role on one shard of a keyspace. It asks the keeper, and Cassandra who that is.

    the rows of the shards ──► endpoint of the owner ──► calls (`keeper.wire`)

The role itself reads and writes nothing of the log. The stores of several shards share one session, and one look at the
owners.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tickwise.adapters.store.cassandra.address import CassandraAddress
from tickwise.adapters.store.cassandra.holdings import ShardHolding, shard_holdings
from tickwise.adapters.store.cassandra.link import CassandraLink
from tickwise.adapters.store.cassandra.registry import ShardOwners
from tickwise.adapters.store.cassandra.schema import KeyspaceState, opened_keyspace
from tickwise.adapters.store.keeper.wire.remote import PATIENCE_SECONDS, RemoteStore
from tickwise.domain.errors import StoreUnavailable
from tickwise.ports.clock import Clock


class KeyspaceSession:
    """A session with a keyspace that this program works on, and what it holds about itself."""

    def __init__(self, address: CassandraAddress, clock: Clock) -> None:
        self.address, self.clock = address, clock
        self.state = KeyspaceState(0, "")
        """Known once it is open."""
        self._link: CassandraLink | None = None
        self._owners: ShardOwners | None = None

    async def open(self) -> None:
        """Connect, unless it is open. Raises `StoreUnavailable`, `Misconfigured`."""
        if self._link is None:
            self._link, self.state = await opened_keyspace(self.address, self.clock)
            self._owners = ShardOwners(self._link, self.state.numbers)

    async def close(self) -> None:
        """End the session."""
        link, self._link = self._link, None
        owners, self._owners = self._owners, None
        if owners is not None:
            await owners.close()
        if link is not None:
            await link.close()

    async def owner(self, shard: int) -> str:
        """The endpoint of the owner of a shard; empty: it has none. Raises `StoreUnavailable`."""
        if self._owners is None:
            raise StoreUnavailable("the store is closed")
        return await self._owners.of(shard)

    async def holdings(self) -> Sequence[ShardHolding]:
        """Return the holding of each shard, in their order. Raises `StoreUnavailable`."""
        if self._link is None:
            raise StoreUnavailable("the store is closed")
        return await shard_holdings(self._link, self.state.numbers)


class CassandraStore(RemoteStore):
    """The port `Store`, of one shard of a keyspace."""

    def __init__(self, session: KeyspaceSession, *, shard: int, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """`session` may be shared, and is closed by who made it."""
        super().__init__(
            partial(session.owner, shard), key=lambda: session.state.keeper_key, shard=shard, clock=session.clock,
            patience_seconds=patience_seconds,
        )  # fmt: skip
        self._session = session

    async def open(self) -> None:
        """See the port."""
        await self._session.open()
        await super().open()
