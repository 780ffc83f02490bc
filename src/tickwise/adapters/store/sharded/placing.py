"""The shard of a namespace, and the choice of one for a new namespace.

    namespace ──► the map, as last read ──► shard        a name without a place ──► the open shard of the highest weight

Invariant: the map decides. What this process knows of it may be a second old: a database that a namespace has left
refuses what is written for it (`NamespaceMoved`), and the map is read again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final

from tickwise.domain.errors import Unavailable
from tickwise.observability.tasks import end_tasks
from tickwise.ports.clock import Clock
from tickwise.ports.shards import Placement, ShardMap, ShardState

MAP_SECONDS: Final = 1.0
"""The map is read again, beside the work, when what is known of it is older."""
FIRST: Final = 1
"""The shard that holds people, keys and the map."""


def rendezvous(namespace: str, shards: Iterable[int]) -> int:
    """The shard of the highest weight for this name: when a shard is added, only names that get it change theirs
    (Thaler and Ravishankar, 1998)."""

    def weight(shard: int) -> bytes:
        return blake2b(f"{shard}/{namespace}".encode(), digest_size=8).digest()

    return max(shards, key=lambda shard: (weight(shard), -shard))


class KnownPlaces:
    """The map of shards, as this process knows it."""

    def __init__(self, shard_map: ShardMap, clock: Clock) -> None:
        self._map = shard_map
        self._clock = clock
        self._known = Placement(0, {}, {})
        self._read_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    @property
    def known(self) -> Placement:
        """The map as it was last read."""
        return self._known

    async def read(self) -> Placement:
        """Read the map. What is older than what is known, because two readings overlapped, is passed over."""
        asked = self._clock.monotonic()
        found = await self._map.read()
        if found.version >= self._known.version:
            self._known = found
        self._read_at = max(self._read_at, asked)
        return self._known

    async def close(self) -> None:
        """End the reading under way."""
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=MAP_SECONDS)
            await end_tasks([self._reading])

    def of(self, namespace: str) -> int:
        """The shard of a namespace; of one without a place the shard that it would get, where nothing of it is yet."""
        self._keep_fresh()
        place = self._known.places.get(namespace)
        return self._wanted(namespace) if place is None else place.shard

    async def settle(self, namespace: str) -> int:
        """The shard of a namespace, which is placed if it has no place yet: by the map as it is now. A shard whose
        draining was answered gets no new one, and a process that had nothing to do may know an old map."""
        if namespace not in self._known.places and namespace not in (await self.read()).places:
            await self.put(namespace, self._wanted(namespace))
        return self.of(namespace)

    async def put(self, namespace: str, shard: int) -> None:
        """Place a namespace that has no place, and read the map."""
        await self._map.place(namespace, shard)
        await self.read()

    def _wanted(self, namespace: str) -> int:
        return rendezvous(namespace, _open(self._known) or (FIRST,))

    def _keep_fresh(self) -> None:
        if self._clock.monotonic() - self._read_at < MAP_SECONDS:
            return
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read_again())

    async def _read_again(self) -> None:
        with contextlib.suppress(Unavailable):  # while the first database is away, what is known stays in force
            await self.read()


def _open(placement: Placement) -> list[int]:
    shards: Mapping[int, object] = placement.shards
    return [number for number in shards if placement.shards[number].state is ShardState.OPEN]
