"""`KeyspaceStore`: the store of a role on a keyspace, be it of one shard or of several.

    one shard ──► its store          several ──► a router over the stores of all (`adapters.store.sharded`)

How many there are is known once the keyspace is open, so the parts of the store are there from then on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, cast

from tickwise.adapters.store.cassandra.address import CassandraAddress
from tickwise.adapters.store.cassandra.client import CassandraStore, KeyspaceSession
from tickwise.adapters.store.keeper.wire.remote import PATIENCE_SECONDS
from tickwise.adapters.store.sharded import ShardedStore
from tickwise.domain.errors import Unavailable
from tickwise.ports.clock import Clock
from tickwise.ports.store import Handover, Store
from tickwise.ports.store.wrapping import PARTS


class KeyspaceStore:
    """The port `Store`."""

    def __init__(self, address: CassandraAddress, clock: Clock, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """`patience_seconds`: for how long a call waits for an owner."""
        self.session = KeyspaceSession(address, clock)
        self.shards: list[CassandraStore] = []
        """The stores of all shards, by number, once it is open."""
        self._clock, self._patience = clock, patience_seconds
        self._store: Store | None = None
        self._tell: Callable[[Handover], None] | None = None

    def __getattr__(self, name: str) -> Any:  # the parts, once it is open
        raise AttributeError(name)

    async def open(self) -> None:
        """See the port."""
        await self.session.open()
        if self._store is not None:
            return
        made, shards = self._made()
        try:
            await made.open()
        except BaseException:
            with contextlib.suppress(Unavailable):
                await made.close()
            raise
        self._store, self.shards = made, shards
        if self._tell is not None:
            made.on_handover(self._tell)
        for name in PARTS:
            setattr(self, name, getattr(made, name))

    async def close(self) -> None:
        """See the port."""
        if self._store is not None:
            await self._store.close()
        await self.session.close()

    async def now(self) -> float:
        """See the port."""
        assert self._store is not None, "it is open"
        return await self._store.now()

    def on_handover(self, tell: Callable[[Handover], None]) -> None:
        """See the port."""
        self._tell = tell
        if self._store is not None:
            self._store.on_handover(tell)

    def _made(self) -> tuple[Store, list[CassandraStore]]:
        shards = [
            CassandraStore(self.session, shard=number, patience_seconds=self._patience)
            for number in self.session.state.numbers
        ]
        if len(shards) == 1:
            return cast("Store", shards[0]), shards
        stores = cast("list[Store]", shards)
        router = ShardedStore(stores, shards[0].shard_map, clock=self._clock, can_move=False)
        return cast("Store", router), shards
