"""A store's place among several shards, written into its state when its log is opened."""

from __future__ import annotations

from tickwise.adapters.store.keeper.shards import FIRST, ShardIdentity
from tickwise.adapters.store.memory.shards.shard_map import MemoryShardMap
from tickwise.adapters.store.memory.state import State
from tickwise.domain.errors import Misconfigured
from tickwise.ports.shards import ShardMap


async def begin_shard(identity: ShardIdentity, state: State) -> None:
    """Give a new state its name, and that of the first shard the map; a repetition changes nothing. Raises
    `Misconfigured` for the log of another shard."""
    if state.cluster_id not in (None, identity.name):
        raise Misconfigured(
            f"the log of shard {identity.number} is that of {state.cluster_id}, and this keyspace has {identity.name} "
            "there: restore all tables of the keyspace from one backup"
        )
    state.cluster_id = identity.name
    if identity.number == FIRST:
        shard_map: ShardMap = MemoryShardMap(state)
        for each in identity.names:
            await shard_map.add(each)
