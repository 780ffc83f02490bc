"""The shards of one keyspace: their numbers, their names, and what a store knows of its place among them.

    one shard        number 0; the store itself, without a map and with tokens of its own
    several          numbers 1 to N; the first one holds people, keys and the map of namespaces, by which a router
                     spreads them (`adapters.store.sharded`)

Invariant: the names of all shards follow from that of the installation, so the first shard can write the whole map
before anybody has opened another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID, uuid5

from tickwise.ports.store.wrapping import PARTS

ALONE: Final = 0
"""The number of the shard of a keyspace that has one."""
FIRST: Final = 1
"""The shard of several that holds people, keys and the map."""
SHARD_MAP: Final = "shard_map"
"""A part of a keeper's store beside those of the port."""
SERVED_PARTS: Final = (*PARTS, SHARD_MAP)


def shard_numbers(count: int) -> tuple[int, ...]:
    """The numbers of the shards of a keyspace that has so many."""
    return (ALONE,) if count == 1 else tuple(range(FIRST, count + 1))


def shard_names(installation: str, count: int) -> tuple[str, ...]:
    """The cluster ids of several shards, by their numbers: that of the first is the name of the installation."""
    others = range(FIRST + 1, count + 1)
    return (installation, *(str(uuid5(UUID(installation), f"shard {number}")) for number in others))


@dataclass(frozen=True, slots=True)
class ShardIdentity:
    """The number of a shard among several, and the names of all."""

    number: int
    names: tuple[str, ...]
    """The cluster ids of all of them, by number."""

    @classmethod
    def of(cls, number: int, installation: str, count: int) -> ShardIdentity | None:
        """The place of a shard of a keyspace; None: it is the only one."""
        return None if count == 1 else cls(number, shard_names(installation, count))

    @property
    def name(self) -> str:
        """The cluster id of this shard."""
        return self.names[self.number - FIRST]
