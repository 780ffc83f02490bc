"""`MemoryShardMap`: the map of shards in one process. Each method is one step, so nothing can come between."""

from __future__ import annotations

from types import MappingProxyType

from tickwise.domain.errors import Conflict, NotFound
from tickwise.ports.shards import NamespacePlace, Placement, Shard, ShardState


class MemoryShardMap:
    """`ports.shards.ShardMap`."""

    def __init__(self) -> None:
        self._version = 1
        self._next_number = 1
        self._shards: dict[int, Shard] = {}
        self._places: dict[str, NamespacePlace] = {}

    async def read(self) -> Placement:
        """See the port."""
        return Placement(self._version, MappingProxyType(dict(self._shards)), MappingProxyType(dict(self._places)))

    async def add(self, cluster_id: str) -> Shard:
        """See the port."""
        for shard in self._shards.values():
            if shard.cluster_id == cluster_id:
                return shard
        added = self._shards[self._next_number] = Shard(self._next_number, cluster_id)
        self._next_number += 1
        self._version += 1
        return added

    async def set_state(self, number: int, state: ShardState) -> None:
        """See the port."""
        self._shards[number] = Shard(number, self._shard(number).cluster_id, state)
        self._version += 1

    async def remove(self, number: int) -> None:
        """See the port."""
        used = [name for name, place in self._places.items() if number in place]
        if used:
            raise Conflict(f"shard {number} has the namespace {min(used)!r} ({len(used)} in all): move them first")
        if self._shards.pop(number, None) is not None:
            self._version += 1

    async def place(self, namespace: str, shard: int) -> NamespacePlace:
        """See the port."""
        if namespace not in self._places:
            self._put(namespace, NamespacePlace(self._shard(shard).number))
        return self._places[namespace]

    async def begin_move(self, namespace: str, goal: int) -> NamespacePlace:
        """See the port."""
        found = self._place(namespace)
        self._shard(goal)
        if found.moving_to not in (None, goal):
            raise Conflict(f"the namespace {namespace!r} is on its way to shard {found.moving_to}: end that move first")
        if goal not in found:
            self._put(namespace, NamespacePlace(found.shard, goal))
        return self._places[namespace]

    async def end_move(self, namespace: str, *, arrived: bool) -> NamespacePlace:
        """See the port."""
        found = self._place(namespace)
        if found.moving_to is not None:
            self._put(namespace, NamespacePlace(found.moving_to if arrived else found.shard))
        return self._places[namespace]

    def _put(self, namespace: str, place: NamespacePlace) -> None:
        self._places[namespace] = place
        self._version += 1

    def _place(self, namespace: str) -> NamespacePlace:
        try:
            return self._places[namespace]
        except KeyError:
            raise NotFound(f"the namespace {namespace!r} has no place in the map of shards") from None

    def _shard(self, number: int) -> Shard:
        try:
            return self._shards[number]
        except KeyError:
            raise NotFound(f"there is no shard {number}") from None
