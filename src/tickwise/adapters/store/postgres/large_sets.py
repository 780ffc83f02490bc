"""Sets of jobs that were found too large to be taken one by one: a search does not count them again for some minutes.

To learn that more than 1,000 jobs have a label, the index gives all 25,000 that have it. Searches ask that at each
page, and the answer seldom changes. Invariant: only "too large" is remembered. A search that believes it goes along its
source instead, and finds the same jobs: an entry that is out of date costs time, and never a row.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from tickwise.ports.clock import Clock

KEPT_SECONDS: Final = 300.0
SETS_MAX: Final = 1_000
"""Entries of a process; the oldest goes first."""


class LargeSets:
    """The large sets that one process remembers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._found: dict[Hashable, tuple[int, float]] = {}
        """By set: it has more jobs than this, and until when that is believed. In the order of their times."""

    def has_more_than(self, most: int, of: Hashable) -> bool:
        """Check whether the set is known to have more jobs than `most`."""
        found = self._found.get(of)
        if found is None:
            return False
        if found[1] <= self._clock.monotonic():
            del self._found[of]
            return False
        return most <= found[0]

    def note(self, most: int, of: Hashable) -> None:
        """Remember that the set has more jobs than `most`."""
        self._found.pop(of, None)
        self._found[of] = (most, self._clock.monotonic() + KEPT_SECONDS)
        if len(self._found) > SETS_MAX:
            del self._found[next(iter(self._found))]

    def forget(self) -> None:
        """Forget all of them."""
        self._found.clear()
