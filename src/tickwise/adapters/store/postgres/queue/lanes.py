"""Lanes by number: the hot index holds four bytes for namespace, queue, priority and labels together.

    wanted ──► known for `FRESH_SECONDS` ──► its number
           └─► lanes_add, as far as there is room ──► read all ──► its number, or none
    upkeep: no job and no run uses it ──► idle ──(`LANE_IDLE_SECONDS`, looked at again)──► freed

Invariant: a lane is freed only after every process has read that it is idle; one that wants it then says so
(`lanes_add`) before it uses it. A process that slept through that leaves a run in a freed lane, which the
upkeep puts right.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.adapters.store.postgres.connection.link import Links
from tickwise.adapters.store.postgres.queue.quota_cache import QuotaCache
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.model import Lane
from tickwise.domain.quotas import NO_QUOTAS
from tickwise.ports.clock import Clock
from tickwise.ports.store import LANES_RESERVED, MAX_LANES, MAX_LANES_OF_NAMESPACE, Ready, is_default_lane, no_lane

FRESH_SECONDS: Final = 60.0
"""A lane that is about to be freed is found out so soon."""
FULL_SECONDS: Final = 1.0
"""A namespace that had no room is not looked at again for so long: what it asks for costs others nothing."""
FREED_SECONDS: Final = 7 * 86_400.0
"""The time for which the lane of a freed number is remembered."""

Numbers = Mapping[tuple[str, Lane], int]


class NamespaceLane(NamedTuple):
    """A lane of one namespace."""

    namespace: str
    lane: Lane

    def ready_run(self, run_id: UUID, ready: float) -> Ready:
        """A run that waits here, as a hint names it."""
        return Ready(run_id, ready, self.lane, self.namespace)


class Lanes:
    """Every lane that this process has met in an epoch of the store. One that a failover lost gets another number."""

    def __init__(self, links: Links, clock: Clock, quotas: QuotaCache) -> None:
        self._links = links
        self._quotas = quotas
        self._monotonic = clock.monotonic
        self._numbers: dict[tuple[str, Lane], int] = {}
        """Those that are in use."""
        self._places: dict[int, NamespaceLane] = {}
        self._read_at = float("-inf")
        self._full: dict[str, float] = {}
        """Namespaces that have no room, and until when that is so."""

    async def find(self, wanted: AbstractSet[tuple[str, Lane]]) -> tuple[Numbers, AbstractSet[tuple[str, Lane]]]:
        """Numbers of lanes (namespace and lane), given now to those that have none, as far as there is room; and those
        that get none. They may outlive an effect that fails."""
        if self._monotonic() > self._read_at + FRESH_SECONDS:
            await self._load()
        if wanted <= self._numbers.keys():
            return self._numbers, frozenset()
        new = [place for place in wanted - self._numbers.keys() if not self._is_full(place)]
        if new:
            await self._add(new)
        return self._numbers, wanted - self._numbers.keys()

    async def number(self, namespace: str, lane: Lane) -> int:
        """The number of one. Raises `Conflict`, code `lanes_exhausted`."""
        numbers, refused = await self.find({(namespace, lane)})
        if refused:
            raise no_lane(namespace)
        return numbers[namespace, lane]

    async def place(self, number: int) -> NamespaceLane:
        """The lane of a number that the store gave."""
        return (await self.places([number]))[number]

    async def places(self, numbers: Collection[int]) -> Mapping[int, NamespaceLane]:
        """The lanes of numbers that the store gave, among all that are known."""
        if not self._places.keys() >= set(numbers):
            await self._load()
            lost = set(numbers) - self._places.keys()
            if lost:
                async with self._links.pooled(writes=False) as connection:
                    self._learn(await connection.fetch(statement("lanes_freed"), sorted(lost)))
        return self._places

    def _is_full(self, place: tuple[str, Lane]) -> bool:
        return not is_default_lane(place[1]) and self._full.get(place[0], 0.0) > self._monotonic()

    async def _add(self, places: Collection[tuple[str, Lane]]) -> None:
        quotas = await self._quotas.of({namespace for namespace, _ in places})
        said = [
            [
                namespace, lane.queue, lane.priority, lane.requires, is_default_lane(lane),
                quotas.get(namespace, NO_QUOTAS).lanes,
            ]
            for namespace, lane in places
        ]  # fmt: skip
        limits = (MAX_LANES, MAX_LANES_OF_NAMESPACE, LANES_RESERVED)
        async with self._links.pooled(writes=True) as connection:
            await connection.execute(statement("lanes_add"), json.dumps(said), *limits)
        await self._load()
        now = self._monotonic()
        self._full = {namespace: until for namespace, until in self._full.items() if until > now}
        self._full |= {place[0]: now + FULL_SECONDS for place in places if place not in self._numbers}

    def forget(self) -> None:
        """Ask the store anew."""
        self._numbers, self._places, self._full = {}, {}, {}
        self._read_at = float("-inf")

    async def _load(self) -> None:
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("lanes"))
        self._read_at = self._monotonic()
        self._numbers = {}  # another one: who has the one before goes on with it
        self._learn(rows)

    def _learn(self, rows: Iterable[tuple[int, str, str, int, list[str], bool]]) -> None:
        for number, namespace, queue, priority, requires, idle in rows:
            place = NamespaceLane(namespace, Lane(queue, priority, tuple(requires)))
            self._places[number] = place
            if not idle:
                self._numbers[place] = number
