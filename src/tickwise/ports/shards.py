"""`ShardMap`: which database holds which namespace, when one installation has several.

    namespace ──► place of the map ──► shard ──► the database of that number

Invariant: a namespace has one place at a time. What its map says may be old news to a process; the database that a
namespace has left refuses what is written for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol


class ShardState(StrEnum):
    """The use of a shard."""

    OPEN = "open"
    """New namespaces may be placed here."""
    DRAINING = "draining"
    """It takes none, and is to be emptied."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A database of the installation."""

    number: int
    """From 1, in the order of their adding: 1 holds users, keys, roles and this map. A number never comes back."""
    cluster_id: str
    """The identity that the database itself holds: an address may change, this does not."""
    state: ShardState = ShardState.OPEN


class NamespacePlace(NamedTuple):
    """The place of a namespace."""

    shard: int
    moving_to: int | None = None
    """The shard that it is being moved to."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The map as it was at one instant."""

    version: int
    """Above that of each earlier state of the map."""
    shards: Mapping[int, Shard]
    places: Mapping[str, NamespacePlace]
    """Every namespace that has been placed."""


class ShardMap(Protocol):
    """The map, as the first database keeps it. Each method may raise `StoreUnavailable`."""

    async def read(self) -> Placement:
        """The map as it is now."""
        ...

    async def add(self, cluster_id: str) -> Shard:
        """The shard of that database: it gets a number if it has none yet."""
        ...

    async def set_state(self, number: int, state: ShardState) -> None:
        """Open or drain a shard. Raises `NotFound`."""
        ...

    async def remove(self, number: int) -> None:
        """Forget an empty shard. Raises `Conflict` while a namespace has its place there or is on its way."""
        ...

    async def place(self, namespace: str, shard: int) -> NamespacePlace:
        """Place a namespace that has none yet; return the place that it has: another process may have been first."""
        ...

    async def begin_move(self, namespace: str, goal: int) -> NamespacePlace:
        """Mark it as on its way. Raises `NotFound`, or `Conflict` if it is on its way to another shard."""
        ...

    async def end_move(self, namespace: str, *, arrived: bool) -> NamespacePlace:
        """Place it at its goal, or leave it where it was. Raises `NotFound`."""
        ...
