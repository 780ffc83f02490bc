"""The pace of log lines about events that anybody can cause: a flood of them costs a bounded number of lines.

    event ──► the first of its kind, or the first after `SECONDS` ──► a line with the number since the last one
                └─ any other ──► counted

A metric counts all of them: the events after the last line of a flood are in no line.
"""

from __future__ import annotations

from typing import Final

from tickwise.ports.clock import Clock

SECONDS: Final = 10.0


class EventPace:
    """The events of one process, by kind. The caller bounds the number of kinds."""

    def __init__(self, clock: Clock, seconds: float = SECONDS) -> None:
        self._clock, self._seconds = clock, seconds
        self._logged_at: dict[str, float] = {}
        self._counts: dict[str, int] = {}

    def due(self, kind: str) -> int:
        """Count one event; the number of this kind since the last line if a line is due now, else 0."""
        count = self._counts.get(kind, 0) + 1
        now, before = self._clock.monotonic(), self._logged_at.get(kind)
        if before is not None and now - before < self._seconds:
            self._counts[kind] = count
            return 0
        self._logged_at[kind] = now
        self._counts[kind] = 0
        return count
