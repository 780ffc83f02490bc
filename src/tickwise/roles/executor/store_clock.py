"""The store's clock, as this process can know it: never ahead of the truth.

Each answer of the store carries its time, read before the answer arrived here. So (its time − our monotonic time
at arrival) is a lower bound of the offset; the largest bound seen is the best, and what `now` says is at most
the store's time. A run that is started when `now` reaches its due time is therefore never early.
"""

from __future__ import annotations

from typing import Final

from tickwise.ports.clock import Clock

RENEW_SECONDS: Final = 60.0
"""A bound is forgotten after this long, so that a store whose clock was set back is followed."""


class StoreClock:
    """Fed by every claim and heartbeat."""

    def __init__(self, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        self._offset: float | None = None
        self._renewed = 0.0

    def saw(self, store_now: float, asked: float | None = None) -> None:
        """The store said `store_now`, and the answer has just arrived; `asked` is our monotonic time when we asked.

        What we hold cannot be above (its time − our time when we asked); if it is, the store's clock was set back, or
        another machine answers now, and the new word counts at once.
        """
        at = self._monotonic()
        bound = store_now - at
        set_back = asked is not None and self._offset is not None and self._offset > store_now - asked
        if self._offset is None or bound > self._offset or set_back or at - self._renewed > RENEW_SECONDS:
            self._offset, self._renewed = bound, at

    def now(self) -> float:
        """Seconds since the Unix epoch. Only after the first `saw`."""
        if self._offset is None:
            raise RuntimeError("the store's clock was asked before the store was")
        return self._offset + self._monotonic()
