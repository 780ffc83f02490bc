"""A bound on the lines that a process logs of one kind of event: each while there are few, a count when there are many.

    room()  ──► how many may be logged now             a caller gathers no more than that
    take(n) ──► how many of n may be logged one by one     within this second
    left_out() ──► how many could not, once a second       for a line that says so

Invariant: at a rate above the bound, a line costs nothing but a count. A second that went over the bound is followed by
one without any lines, unless the rate has fallen.
"""

from __future__ import annotations

from collections.abc import Callable


class LogBudget:
    """One kind of line."""

    def __init__(self, per_second: int, monotonic: Callable[[], float]) -> None:
        self._per_second = per_second
        self._monotonic = monotonic
        self._second = int(monotonic())
        self._asked = 0
        """In this second."""
        self._room = per_second
        self._left_out = 0

    def room(self) -> int:
        """The number of lines that may be written now. A look takes none."""
        second = int(self._monotonic())
        if second != self._second:
            was_over = self._asked > self._per_second and second == self._second + 1
            self._second, self._asked = second, 0
            self._room = 0 if was_over else self._per_second
        return self._room

    def take(self, count: int = 1, at_most: int | None = None) -> int:
        """Take up to `count` lines of the budget, `at_most` at a time, and return their number; the others are
        counted."""
        self.room()
        self._asked += count
        granted = min(count, self._room if at_most is None else min(self._room, at_most))
        self._room -= granted
        self._left_out += count - granted
        return granted

    def left_out(self) -> int:
        """The number of lines that were not written since the last call; 0 while their second has not passed."""
        if not self._left_out or int(self._monotonic()) == self._second:
            return 0
        count, self._left_out = self._left_out, 0
        return count
