"""How much of a scheduler's time the calendars and windows of one namespace may take.

    a decision ──► looks that it took ──► the namespace's time moves on by looks / LOOKS_PER_SECOND
                                             └── further ahead of now than BURST_SECONDS: its timers wait for that

Invariant: whatever a namespace's calendars cost, other namespaces' schedules are held up by no more than its burst and
its share. What waits is decided later, with all of its occurrences.
"""

from __future__ import annotations

from typing import Final

LOOKS_PER_SECOND: Final = 200_000
"""A look takes about a microsecond: a fifth of a scheduler."""
BURST_SECONDS: Final = 1.0
KEPT_MOST: Final = 1_000


class RuleShare:
    """Of one scheduler. Instants are on the caller's monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._ahead_to: dict[str, float] = {}

    def wait_seconds(self, namespace: str, now: float) -> float:
        """For how long its timers that have calendars or windows must wait; 0: they are decided now."""
        wait = self._ahead_to.get(namespace, now) - now - BURST_SECONDS
        return max(0.0, wait)

    def spend(self, namespace: str, looks: int, now: float) -> None:
        """A decision of this namespace took so many."""
        if len(self._ahead_to) >= KEPT_MOST:
            self._ahead_to = {name: at for name, at in self._ahead_to.items() if at > now}
        self._ahead_to[namespace] = max(self._ahead_to.get(namespace, now), now) + looks / LOOKS_PER_SECOND
