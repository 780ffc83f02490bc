"""A table of bounded size, which forgets the lightest entries first.

Counts by client name what anybody can make up: names, addresses. A table that forgets the oldest entry lets a flood of
made-up names push out the count of a client that must wait, and free it. Here an entry weighs as much as would be
forgiven with it: a flood of new entries, which weigh little, pushes out others like them.

Invariant: at most `most` entries; an entry is forgotten only while no other weighs less, an eighth of them at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

SHARE: Final = 8
"""One in so many is forgotten when the table is full, so that the search for the lightest is seldom."""


class Bounded(Generic[K, V]):
    """The table."""

    def __init__(self, most: int, weight: Callable[[V], float]) -> None:
        self._most = most
        self._weight = weight
        self._entries: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """The entry of this key."""
        return self._entries.get(key)

    def put(self, key: K, entry: V) -> None:
        """Keep it, in place of the one before."""
        self._entries[key] = entry
        if len(self._entries) > self._most:
            weights = sorted(((self._weight(each), place) for place, each in enumerate(self._entries.values())))
            dropped = {place for _, place in weights[: max(1, self._most // SHARE)]}
            kept = [item for place, item in enumerate(self._entries.items()) if place not in dropped]
            self._entries = dict(kept)

    def pop(self, key: K) -> None:
        """Forget it."""
        self._entries.pop(key, None)
