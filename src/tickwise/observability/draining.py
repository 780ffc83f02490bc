"""The rate at which a bounded buffer empties, so that a caller that finds it full learns when there is room.

    waits ──► ▒▒▒▒▒▒▒▒ ──► leaves in lumps (a batch, a confirmation): the last few are remembered
                 full: Busy, `Retry-After` = when a lump will have left, behind all who were told before

Invariant: never too short for what the last lumps show. Each caller is given a place of its own in what will become
free, so a thousand who are refused in one moment do not all come back in another.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from tickwise.ports.clock import Clock

LUMPS_REMEMBERED: Final = 8
WAIT_SECONDS_LEAST: Final = 1.0
"""`Retry-After` is told in whole seconds."""
MAX_WAIT_SECONDS: Final = 30.0
"""Clients that are told more than this ask again sooner anyway."""


class _Lump(NamedTuple):
    seconds: float
    """The time that the buffer worked on it."""
    amount: int


class Drain:
    """One buffer's."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lumps: deque[_Lump] = deque(maxlen=LUMPS_REMEMBERED)
        self._began = clock.monotonic()
        self._told = float("-inf")

    def filled(self) -> None:
        """Note the first item in the empty buffer: the clock of its work starts."""
        self._began = self._clock.monotonic()

    def left(self, amount: int) -> None:
        """Note that this amount left the buffer."""
        now = self._clock.monotonic()
        self._lumps.append(_Lump(now - self._began, amount))
        self._began = now

    def wait_seconds(self, amount: int = 1) -> float:
        """The seconds until there is room for so much, if no other caller comes first; the next caller's room comes
        after that."""
        now = self._clock.monotonic()
        # The lump under way may be slower than all before it, and so may the next.
        seconds = max([now - self._began, *(lump.seconds for lump in self._lumps)])
        lump = sum(lump.amount for lump in self._lumps) / len(self._lumps) if self._lumps else amount
        self._told = min(max(now + seconds, self._told + seconds * amount / max(lump, 1.0)), now + MAX_WAIT_SECONDS)
        return max(self._told - now, WAIT_SECONDS_LEAST)
