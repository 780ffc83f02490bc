"""A map of shards in memory, for routers of tests."""

from __future__ import annotations

from dataclasses import replace

from tickwise.domain.errors import Conflict, NotFound
from tickwise.ports.shards import NamespacePlace, Placement, Shard, ShardState


class MemoryShardMap:
    """`ShardMap`. Any number of routers may share it."""

    def __init__(self) -> None:
        self._version = 1
        self._shards: dict[int, Shard] = {}
        self._places: dict[str, NamespacePlace] = {}
        self._last = 0

    async def read(self) -> Placement:
        return Placement(self._version, dict(self._shards), dict(self._places))

    async def add(self, cluster_id: str) -> Shard:
        known = next((each for each in self._shards.values() if each.cluster_id == cluster_id), None)
        if known is None:
            self._last += 1
            self._version += 1
            known = self._shards[self._last] = Shard(self._last, cluster_id)
        return known

    async def set_state(self, number: int, state: ShardState) -> None:
        if number not in self._shards:
            raise NotFound(f"there is no shard {number}")
        self._shards[number] = replace(self._shards[number], state=state)
        self._version += 1

    async def remove(self, number: int) -> None:
        if any(number in (place.shard, place.moving_to) for place in self._places.values()):
            raise Conflict(f"shard {number} is not empty")
        del self._shards[number]
        self._version += 1

    async def place(self, namespace: str, shard: int) -> NamespacePlace:
        if namespace not in self._places:
            self._places[namespace] = NamespacePlace(shard)
            self._version += 1
        return self._places[namespace]

    async def begin_move(self, namespace: str, goal: int) -> NamespacePlace:
        place = self._places[namespace] = NamespacePlace(self._places[namespace].shard, goal)
        self._version += 1
        return place

    async def end_move(self, namespace: str, *, arrived: bool) -> NamespacePlace:
        shard, goal = self._places[namespace]
        place = self._places[namespace] = NamespacePlace(goal if arrived and goal is not None else shard)
        self._version += 1
        return place
