"""`BacklogBudget`: the memory of one process for what its readable tables are behind by.

    entry ──► tail 1/8 ──► window 3/8 ──► rows 2 × 1/4: those that come to be, and those that are being written
                 └── beyond it the log itself is read                      └── beyond it nothing becomes a row

All shards of a process share it: one that has few of them gives each more. Sizes are estimates, made where something
comes in, since Python tells of no object what it costs with all that it holds.
"""

from __future__ import annotations

from typing import Final

BACKLOG_BYTES: Final = 64 << 20
"""Of 10,000 runs that are held back until they end, with their jobs, the window has some 11 MB. A keeper with 200,000
timers has some 400 MB beside this."""
LEAST_BYTES: Final = 8 << 20
"""The least of one shard, with any number of them: a smaller one would make writes of few rows each."""


class BacklogBudget:
    """The bytes that all projectors of a process share while they hold something."""

    def __init__(self, most: int = BACKLOG_BYTES) -> None:
        self._most = most
        self._holders = 0

    def join(self) -> None:
        """One more projector holds something."""
        self._holders += 1

    def leave(self) -> None:
        """A projector that joined holds nothing any more."""
        self._holders -= 1

    @property
    def share(self) -> int:
        """The bytes of one projector."""
        return max(min(self._most, LEAST_BYTES), self._most // max(1, self._holders))

    @property
    def tail(self) -> int:
        """Of entries that are not read yet."""
        return self.share // 8

    @property
    def window(self) -> int:
        """Of changes that are not rows yet: beyond it no further entry is read."""
        return self.share * 3 // 8

    @property
    def held(self) -> int:
        """Of changes that wait for the end of a run: beyond it nothing is held back."""
        return self.window * 3 // 4

    @property
    def rows(self) -> int:
        """Of rows that are written together, while as many come to be."""
        return self.share // 4
