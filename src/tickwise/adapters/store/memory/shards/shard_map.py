"""`MemoryShardMap`: the map of shards in the state of a memory store. Each method is one step, so nothing can come
between."""

from __future__ import annotations

from types import MappingProxyType

from tickwise.adapters.store.memory.state import State
from tickwise.domain.errors import Conflict, NotFound
from tickwise.ports.shards import NamespacePlace, Placement, Shard, ShardState


class MemoryShardMap:
    """`ports.shards.ShardMap`."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def read(self) -> Placement:
        """See the port."""
        state = self._state
        return Placement(
            state.shard_map_version, MappingProxyType(dict(state.shards)), MappingProxyType(dict(state.shard_places))
        )

    async def add(self, cluster_id: str) -> Shard:
        """See the port."""
        for shard in self._state.shards.values():
            if shard.cluster_id == cluster_id:
                return shard
        state = self._state
        state.shards_added += 1
        added = state.shards[state.shards_added] = Shard(state.shards_added, cluster_id)
        state.shard_map_version += 1
        return added

    async def set_state(self, number: int, state: ShardState) -> None:
        """See the port."""
        self._state.shards[number] = Shard(number, self._shard(number).cluster_id, state)
        self._state.shard_map_version += 1

    async def remove(self, number: int) -> None:
        """See the port."""
        used = [name for name, place in self._state.shard_places.items() if number in place]
        if used:
            raise Conflict(f"shard {number} has the namespace {min(used)!r} ({len(used)} in all): move them first")
        if self._state.shards.pop(number, None) is not None:
            self._state.shard_map_version += 1

    async def place(self, namespace: str, shard: int) -> NamespacePlace:
        """See the port."""
        if namespace not in self._state.shard_places:
            self._put(namespace, NamespacePlace(self._shard(shard).number))
        return self._state.shard_places[namespace]

    async def begin_move(self, namespace: str, goal: int) -> NamespacePlace:
        """See the port."""
        found = self._place(namespace)
        self._shard(goal)
        if found.moving_to not in (None, goal):
            raise Conflict(f"the namespace {namespace!r} is on its way to shard {found.moving_to}: end that move first")
        if goal not in found:
            self._put(namespace, NamespacePlace(found.shard, goal))
        return self._state.shard_places[namespace]

    async def end_move(self, namespace: str, *, arrived: bool) -> NamespacePlace:
        """See the port."""
        found = self._place(namespace)
        if found.moving_to is not None:
            self._put(namespace, NamespacePlace(found.moving_to if arrived else found.shard))
        return self._state.shard_places[namespace]

    def _put(self, namespace: str, place: NamespacePlace) -> None:
        self._state.shard_places[namespace] = place
        self._state.shard_map_version += 1

    def _place(self, namespace: str) -> NamespacePlace:
        try:
            return self._state.shard_places[namespace]
        except KeyError:
            raise NotFound(f"the namespace {namespace!r} has no place in the map of shards") from None

    def _shard(self, number: int) -> Shard:
        try:
            return self._state.shards[number]
        except KeyError:
            raise NotFound(f"there is no shard {number}") from None
