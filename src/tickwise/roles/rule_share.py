"""How much of a scheduler's time the calendars and windows of one namespace may take.

    a decision ──► looks that it took ──► the namespace's time moves on by looks / LOOKS_PER_SECOND
                                             └── further ahead of now than BURST_SECONDS: its timers wait for that

What waits is on nobody's record: its timer stays in the store as it stands, and this scheduler leaves it out when it
takes timers. So it takes no place in a batch, and another scheduler, or this one after a start, may decide it sooner.

Invariant: whatever a namespace's calendars cost, other namespaces' schedules are held up by no more than its burst and
its share. What waits is decided later, with all of its occurrences, each as if it had not waited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

LOOKS_PER_SECOND: Final = 200_000
"""A look takes about a microsecond: a fifth of a scheduler."""
BURST_SECONDS: Final = 1.0
KEPT_MOST: Final = 1_000
WAITING_MOST: Final = 20_000
"""Jobs. The store passes over so many in some milliseconds; what comes on top does not wait."""


class RuleShare:
    """Of one scheduler. Instants are on the caller's monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._ahead_to: dict[str, float] = {}
        self._waiting: dict[UUID, float] = {}
        """Jobs, and until when."""

    def wait_seconds(self, namespace: str, now: float) -> float:
        """For how long its timers that have calendars or windows must wait; 0: they are decided now."""
        wait = self._ahead_to.get(namespace, now) - now - BURST_SECONDS
        return max(0.0, wait)

    def must_wait(self, job_id: UUID, namespace: str, now: float) -> bool:
        """Whether a timer that has calendars or windows waits; it is then among those that are left out."""
        wait = self.wait_seconds(namespace, now)
        if wait <= 0.0 or len(self._waiting) >= WAITING_MOST:
            return False
        self._waiting[job_id] = now + wait
        return True

    def waiting(self, now: float) -> Sequence[UUID]:
        """Jobs whose timers are left out for now."""
        if self._waiting:
            self._waiting = {job_id: until for job_id, until in self._waiting.items() if until > now}
        return list(self._waiting)

    def spend(self, namespace: str, looks: int, now: float) -> None:
        """A decision of this namespace took so many."""
        if len(self._ahead_to) >= KEPT_MOST:
            self._ahead_to = {name: at for name, at in self._ahead_to.items() if at > now}
        self._ahead_to[namespace] = max(self._ahead_to.get(namespace, now), now) + looks / LOOKS_PER_SECOND
