"""The feed over several shards: a place in each, and pages of all of them.

place of shard 1 + place of shard 2 ──► changes of each ──► tagged with the shard, for their numbers are its own
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import reduce
from operator import attrgetter, or_
from uuid import UUID

from tickwise.adapters.store.sharded.fleet import Fleet
from tickwise.domain.feed import FeedPlace, PlacesOfShards
from tickwise.domain.fencing import SHARD_BITS, shard_bits
from tickwise.ports.feed import FeedPage, RunChanges
from tickwise.ports.store import Store


class Feed:
    """`FeedStore` of the port. While a shard is away its changes stay out of the pages; its place waits for it."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def watch(self) -> FeedPlace:
        """See the port."""
        found = await self._fleet.each(lambda store: store.feed.watch(), lenient=True)
        return PlacesOfShards.of({shard_bits(number): place for number, place in found.items()})

    async def since(self, place: FeedPlace, *, limit: int = 500, namespaces: Collection[str] | None = None) -> FeedPage:
        """See the port. A shard that the place says nothing of, since it was away or is new, begins at the present."""
        parts = place.parts if isinstance(place, PlacesOfShards) else {}
        numbers = {number: parts.get(shard_bits(number)) for number in self._fleet.numbers()}
        known = {number: there for number, there in numbers.items() if there is not None}
        pages = await self._pages(known, limit, namespaces) if known else {}
        fresh = {number for number in numbers if number not in known}
        begun = await self._fleet.each(lambda store: store.feed.watch(), lenient=True, numbers=fresh) if fresh else {}
        new = {shard_bits(number): at for number, at in begun.items()}
        return FeedPage(
            changes=sorted(
                (_tagged(changes, number) for number, page in pages.items() for changes in page.changes),
                key=attrgetter("batch"),
            ),
            place=PlacesOfShards.of({**parts, **{shard_bits(n): page.place for n, page in pages.items()}, **new}),
            seen=PlacesOfShards.of({**parts, **{shard_bits(n): page.seen for n, page in pages.items()}, **new}),
            more=any(page.more for page in pages.values()),
            floor=_floor(pages),
            lost=not isinstance(place, PlacesOfShards) or any(page.lost for page in pages.values()),
        )

    async def _pages(
        self, places: Mapping[int, FeedPlace], limit: int, namespaces: Collection[str] | None
    ) -> Mapping[int, FeedPage]:
        numbers = {self._fleet.stores[number].feed: number for number in places if number in self._fleet.stores}

        async def page(store: Store) -> FeedPage:
            return await store.feed.since(places[numbers[store.feed]], limit=limit, namespaces=namespaces)

        return await self._fleet.each(page, lenient=True, numbers=places)

    async def labels(self, jobs: Collection[UUID]) -> Mapping[UUID, Mapping[str, str]]:
        """See the port."""
        found = await self._fleet.each(lambda store: store.feed.labels(jobs), lenient=True)
        return reduce(or_, (dict(each) for each in found.values()), {})


def _tagged(changes: RunChanges, number: int) -> RunChanges:
    bits = shard_bits(number)
    return replace(
        changes, transaction=changes.transaction << SHARD_BITS | bits, batch=changes.batch << SHARD_BITS | bits
    )


def _floor(pages: Mapping[int, FeedPage]) -> FeedPlace | None:
    floors = {shard_bits(number): page.floor for number, page in pages.items() if page.floor is not None}
    return PlacesOfShards.of(floors) if len(floors) == len(pages) and floors else None
