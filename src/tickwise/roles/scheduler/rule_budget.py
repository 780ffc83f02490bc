"""The share of a scheduler's time that the calendars and windows of one namespace may take.

    a decision ──► looks that it took ──► the namespace's time moves on by looks / LOOKS_PER_SECOND
                                             └── further ahead of now than BURST_SECONDS: its timers wait

A timer that waits stays unchanged in the store. This scheduler leaves it out when it takes timers, so it takes no place
in a batch. Another scheduler, or this one after a restart, may decide it sooner.

Invariant: the calendars of one namespace delay the schedules of others by its burst and its share at most. A timer that
waited is decided with all of its occurrences, each as if it had not waited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

LOOKS_PER_SECOND: Final = 200_000
"""A look takes about a microsecond: a fifth of a scheduler."""
BURST_SECONDS: Final = 1.0
MAX_KEPT: Final = 1_000
MAX_WAITING: Final = 20_000
"""Jobs that may wait at once: the store passes over so many in some milliseconds. Further jobs do not wait."""


class RuleShare:
    """The time that each namespace has used, in one scheduler. Instants are seconds on the caller's monotonic clock."""

    def __init__(self) -> None:
        self._ahead_to: dict[str, float] = {}
        self._waiting: dict[UUID, float] = {}
        """Jobs, and until when."""

    def wait_seconds(self, namespace: str, now: float) -> float:
        """The time that the namespace's timers with calendars or windows must wait; 0: they are decided now."""
        wait = self._ahead_to.get(namespace, now) - now - BURST_SECONDS
        return max(0.0, wait)

    def must_wait(self, job_id: UUID, namespace: str, now: float) -> bool:
        """Check whether a timer with calendars or windows must wait. If so, `waiting` lists its job."""
        wait = self.wait_seconds(namespace, now)
        if wait <= 0.0 or len(self._waiting) >= MAX_WAITING:
            return False
        self._waiting[job_id] = now + wait
        return True

    def waiting(self, now: float) -> Sequence[UUID]:
        """Jobs whose timers are left out for now."""
        if self._waiting:
            self._waiting = {job_id: until for job_id, until in self._waiting.items() if until > now}
        return list(self._waiting)

    def spend(self, namespace: str, looks: int, now: float) -> None:
        """Count the looks that a decision of this namespace took."""
        if len(self._ahead_to) >= MAX_KEPT:
            self._ahead_to = {name: at for name, at in self._ahead_to.items() if at > now}
        self._ahead_to[namespace] = max(self._ahead_to.get(namespace, now), now) + looks / LOOKS_PER_SECOND
