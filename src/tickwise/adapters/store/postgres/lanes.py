"""Lanes by number: the hot index holds four bytes for queue, priority and labels together."""

from __future__ import annotations

import json
from collections.abc import Iterable

from tickwise.adapters.store.postgres.link import Links
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import Conflict
from tickwise.domain.model import Lane
from tickwise.ports.store import LANES_MOST


class Lanes:
    """Every lane that this process has met. Lanes are never renumbered, so what is known stays true."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self._numbers: dict[Lane, int] = {}
        self._lanes: dict[int, Lane] = {}

    async def numbers(self, lanes: Iterable[Lane]) -> dict[Lane, int]:
        """The numbers of all these lanes, given now to those that have none. They may outlive an effect that fails.

        Raises `Conflict` if that would be more than `LANES_MOST`.
        """
        wanted = set(lanes)
        known = self._numbers
        if not wanted <= known.keys():
            new = [[lane.queue, lane.priority, lane.requires] for lane in wanted - known.keys()]
            async with self._links.pooled(writes=True) as connection:
                await connection.execute(statement("lanes_add"), json.dumps(new), LANES_MOST)
            await self._load()
            if not wanted <= known.keys():
                raise Conflict(
                    f"there are {LANES_MOST} different combinations of queue, priority and requirements already: "
                    "use one of those",
                    code="lanes_exhausted",
                )
        return known

    async def lane(self, number: int) -> Lane:
        """The lane of a number that the store gave."""
        if number not in self._lanes:
            await self._load()
        return self._lanes[number]

    async def _load(self) -> None:
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("lanes"))
        for number, queue, priority, requires in rows:
            lane = Lane(queue, priority, tuple(requires))
            self._numbers[lane] = number
            self._lanes[number] = lane
