"""The count of requests of one process, where there are no others."""

from __future__ import annotations

from tickwise.adapters.signals.pacing import OwnCount
from tickwise.ports.clock import Clock
from tickwise.ports.limits import Pace, Passed


class LocalLimits:
    """`ports.limits.Limits` of one process."""

    def __init__(self, clock: Clock) -> None:
        self._own = OwnCount(clock)

    async def start(self) -> None:
        """There is nothing to begin."""

    async def stop(self) -> None:
        """There is nothing to free."""

    async def hit(self, who: str, pace: Pace) -> Passed:
        """See the port."""
        return self._own.count(pace, who, 1).passed(pace, 0)
