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
from tickwise.domain.errors import Misconfigured, NotFound, StoreUnavailable
from tickwise.ports.audit import AuditStore
from tickwise.ports.shards import NamespacePlace, Placement, Shard, ShardState
from tickwise.wiring.cassandra.keyspace import DOCTOR_SECONDS, keyspace_at, told_holding

PAGE: Final = 500
"""Namespaces that are asked for at once."""

REFUSED: Final = {
    "add": "the number of shards of a keyspace is chosen when it is made (`tickwise db upgrade --shards N`), and stays",
    "remove": "the number of shards of a keyspace stays: `tickwise shards drain` places no new namespace in one",
    "move": "a namespace of a keyspace stays in its shard; shards move between keepers by themselves",
}


def refuse_keyspace_change(what: str) -> None:
    """Raises `Misconfigured`, for what a keyspace cannot do."""
    raise Misconfigured(f"{REFUSED[what]} (docs/how-to/cassandra.md)")


async def list_keyspace_shards(url: str) -> list[dict[str, Any]]:
    """The shards, with the number of namespaces and the keeper of each. Raises `StoreUnavailable` while the first one
    has no keeper."""
    async with _first_shard(url) as (session, first):
        try:
            await first.open()
            known = await _known(first)
        except StoreUnavailable as failure:
            raise StoreUnavailable(
                f"{failure.detail}. The map of namespaces is there; `tickwise db status` needs no keeper, and says who "
                "has each shard"
            ) from failure
        return [
            {
                "state": str(shard.state),
                "cluster_id": shard.cluster_id,
                "namespaces": sum(place.shard == shard.number for place in known.places.values()),
                "arriving": 0,
                **told_holding(holding),
            }
            for holding in await session.holdings()
            for shard in [known.shards[holding.shard]]
        ]


async def _known(first: Any) -> Placement:
    """The map. A keyspace with one shard has none: there all namespaces are in it."""
    if first.shard == FIRST:
        known: Placement = await first.shard_map.read()
        return known
    names: list[str] = []
    while rows := await first.namespaces.page(after=names[-1] if names else None, limit=PAGE):
        names += [row.name for row in rows]
    only = Shard(first.shard, first.upkeep.cluster_id, ShardState.OPEN)
    return Placement(
        version=0, shards={first.shard: only}, places={name: NamespacePlace(first.shard) for name in names}
    )


async def set_keyspace_shard_state(
    url: str, number: int, state: ShardState, note: Callable[[AuditStore], Awaitable[None]]
) -> None:
    """Open or drain a shard. `note` writes the entry of the audit log. Raises `NotFound`."""
    async with _first_shard(url) as (session, first):
        if len(session.state.numbers) == 1:
            raise NotFound(f"there is no shard {number}: the keyspace has one, which takes all namespaces")
        await first.open()
        await first.shard_map.set_state(number, state)
        await note(first.audit)


@asynccontextmanager
async def _first_shard(url: str) -> AsyncIterator[tuple[Any, Any]]:
    """A session with the keyspace, and the store, not yet open, of the shard that has the map."""
    address = keyspace_at(url)
    from tickwise.adapters.store.cassandra.client import CassandraStore, KeyspaceSession

    session = KeyspaceSession(address, SystemClock())
    try:
        await session.open()
        first = CassandraStore(session, shard=session.state.numbers[0], patience_seconds=DOCTOR_SECONDS)
        try:
            yield session, first
        finally:
            await first.close()
    finally:
        await session.close()
