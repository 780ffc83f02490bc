"""Lanes by number: the hot index holds four bytes for namespace, queue, priority and labels together."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from tickwise.adapters.store.postgres.link import Links
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import Conflict
from tickwise.domain.model import Lane
from tickwise.ports.store import LANES_MOST


class Place(NamedTuple):
    """Where runs of one namespace wait."""

    namespace: str
    lane: Lane


class Lanes:
    """Every lane that this process has met. Lanes are never renumbered, so what is known stays true."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self._numbers: dict[tuple[str, Lane], int] = {}
        self._places: dict[int, Place] = {}

    async def numbers(self, places: Iterable[tuple[str, Lane]]) -> dict[tuple[str, Lane], int]:
        """The numbers of all these lanes (namespace and lane), given now to those that have none. They may outlive an
        effect that fails.

        Raises `Conflict` if that would be more than `LANES_MOST`.
        """
        wanted = set(places)
        known = self._numbers
        if not wanted <= known.keys():
            new = [[namespace, lane.queue, lane.priority, lane.requires] for namespace, lane in wanted - known.keys()]
            async with self._links.pooled(writes=True) as connection:
                await connection.execute(statement("lanes_add"), json.dumps(new), LANES_MOST)
            await self._load()
            if not wanted <= known.keys():
                raise Conflict(
                    f"there are {LANES_MOST} different combinations of namespace, queue, priority and requirements "
                    "already: "
                    "use one of those",
                    code="lanes_exhausted",
                )
        return known

    async def place(self, number: int) -> Place:
        """What a number that the store gave stands for."""
        return (await self.places([number]))[number]

    async def places(self, numbers: Collection[int]) -> Mapping[int, Place]:
        """What numbers that the store gave stand for, among all that are known."""
        if not self._places.keys() >= set(numbers):
            await self._load()
        return self._places

    async def _load(self) -> None:
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("lanes"))
        for number, namespace, queue, priority, requires in rows:
            place = Place(namespace, Lane(queue, priority, tuple(requires)))
            self._numbers[place] = number
            self._places[number] = place
