"""`tickwise shards` for a keyspace: which shards there are, who serves them, and where new namespaces go.

The number of shards is chosen when a keyspace is made, and a namespace stays in its shard: what would change either is
refused with what to do instead.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.keeper.shards import FIRST
from tickwise.domain.errors import Misconfigured
from tickwise.ports.audit import AuditStore
from tickwise.ports.shards import ShardState
from tickwise.wiring.cassandra.keyspace import keyspace_at

REFUSED: Final = {
    "add": "the number of shards of a keyspace is chosen when it is made (`tickwise db upgrade --shards N`), and stays",
    "remove": "the number of shards of a keyspace stays: `tickwise shards drain` places no new namespace in one",
    "move": "a namespace of a keyspace stays in its shard; shards move between keepers by themselves",
}


def refuse_keyspace_change(what: str) -> None:
    """Raises `Misconfigured`, for what a keyspace cannot do."""
    raise Misconfigured(f"{REFUSED[what]} (docs/how-to/cassandra.md)")


async def list_keyspace_shards(url: str) -> list[dict[str, Any]]:
    """The shards, with the keeper and the number of namespaces of each. Nothing where there is one. Raises
    `StoreUnavailable` while the first one has no keeper."""
    async with _first_shard(url) as (session, first):
        if len(session.state.numbers) == 1:
            return []
        known = await first.shard_map.read()
        return [
            {
                "shard": shard.number,
                "state": str(shard.state),
                "cluster_id": shard.cluster_id,
                "address": (await session.owner(shard.number)).partition("/")[0],
                "namespaces": sum(place.shard == shard.number for place in known.places.values()),
                "arriving": 0,
            }
            for shard in known.shards.values()
        ]


async def set_keyspace_shard_state(
    url: str, number: int, state: ShardState, note: Callable[[AuditStore], Awaitable[None]]
) -> None:
    """Open or drain a shard. `note` writes the entry of the audit log. Raises `NotFound`."""
    async with _first_shard(url) as (_, first):
        await first.shard_map.set_state(number, state)
        await note(first.audit)


@asynccontextmanager
async def _first_shard(url: str) -> AsyncIterator[tuple[Any, Any]]:
    """A session with the keyspace, and the store of the shard that has the map."""
    address = keyspace_at(url)
    from tickwise.adapters.store.cassandra.client import CassandraStore, KeyspaceSession

    session = KeyspaceSession(address, SystemClock())
    try:
        await session.open()
        first = CassandraStore(session, shard=session.state.numbers[0])
        try:
            if first.shard == FIRST:
                await first.open()
            yield session, first
        finally:
            await first.close()
    finally:
        await session.close()
