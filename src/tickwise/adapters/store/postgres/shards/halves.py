"""The moves that a database tells of: those that are half done, and traces of a database that was set back.

Invariant: only looks. What is to be done about it is a sentence of the one who asks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.statements import statement


class DepartureRow(NamedTuple):
    """A namespace that is leaving a database, or has left it."""

    namespace: str
    state: str
    """copying, fenced, left."""
    goal: str
    """The identity of the database that it goes to."""
    cleaned: bool
    """None of its rows is left."""
    begun: float
    """Time of that database, in seconds."""
    changes: int
    """Rows that changed since they were copied; at most 100,001."""

    @property
    def is_half_done(self) -> bool:
        """True until nothing of it is left."""
        return not self.cleaned


class ArrivalRow(NamedTuple):
    """A namespace that comes to a database, or has come."""

    namespace: str
    state: str
    """copying, staged, arrived."""
    source: str
    """The identity of the database that it comes from."""


class MoveTraces(Part):
    """The moves that one database knows of."""

    async def departures(self) -> Sequence[DepartureRow]:
        """By name."""
        async with self._links.pooled(writes=False) as connection:
            return [DepartureRow(*row) for row in await connection.fetch(statement("departures_seen"))]

    async def arrivals(self) -> Sequence[ArrivalRow]:
        """By name."""
        async with self._links.pooled(writes=False) as connection:
            return [ArrivalRow(*row) for row in await connection.fetch(statement("arrivals_seen"))]

    async def foreign(self, elsewhere: Collection[str]) -> Sequence[str]:
        """The namespaces that have jobs or active runs here, of those that are placed elsewhere."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("namespaces_foreign"), sorted(elsewhere))
        return [row[0] for row in rows]

    async def names(self) -> Sequence[str]:
        """The namespaces of this database."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("namespaces_here"))
        return [row[0] for row in rows]
