"""Connections that have not shown the key: how many there may be, and which one gives way to a new one.

    accepted ──► `add` ──► TLS, hello ──► the key ──► `drop`: it counts no more, and is never ended for another
                   └─ too many ──► the oldest of the network that has the most of them ends

An attacker with one address displaces connections of that address. One with many displaces the oldest, so a client
that shows the key at once is let in all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tickwise.domain.networks import network_of

MOST: Final = 256
MOST_OF_NETWORK: Final = 64
"""A pool of roles behind one address starts with fewer at a time."""


class Stranger:
    """A connection that has not shown the key."""

    __slots__ = ("end", "network")

    def __init__(self, address: str, end: Callable[[], None]) -> None:
        """`end` ends the connection, whether it has spoken TLS yet or not."""
        self.network = network_of(address)
        self.end = end


class Strangers:
    """All of one keeper, in the order in which they came."""

    def __init__(self, most: int = MOST, most_of_network: int = MOST_OF_NETWORK) -> None:
        self._most, self._most_of_network = most, most_of_network
        self._all: dict[Stranger, None] = {}
        self._of_network: dict[str, dict[Stranger, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, stranger: Stranger) -> Stranger | None:
        """Count one more; the one that has to end for it. That one is dropped already."""
        self._all[stranger] = None
        mine = self._of_network.setdefault(stranger.network, {})
        mine[stranger] = None
        if len(mine) > self._most_of_network:
            crowded = mine
        elif len(self._all) > self._most:
            most = max(map(len, self._of_network.values()))
            crowded = next(found for each in self._all if len(found := self._of_network[each.network]) == most)
        else:
            return None
        oldest = next(iter(crowded))
        self.drop(oldest)
        return oldest

    def drop(self, stranger: Stranger) -> bool:
        """Count a connection no more; False: it was not counted."""
        if stranger not in self._all:
            return False
        del self._all[stranger]
        mine = self._of_network[stranger.network]
        del mine[stranger]
        if not mine:
            del self._of_network[stranger.network]
        return True

    def all(self) -> list[Stranger]:
        """Those that are counted now."""
        return [*self._all]
