"""Clocks for tests: `VirtualClock` stands until it is moved; `ShiftedClock` runs, and can be put forward."""

from __future__ import annotations

from tickwise.adapters.clock import SystemClock, VirtualClock

__all__ = ["ShiftedClock", "VirtualClock"]


class ShiftedClock(SystemClock):
    """The system's clock, ahead of it by what was shifted: for adapters whose other side has a clock of its own."""

    def __init__(self) -> None:
        self._ahead_seconds = 0.0

    def shift(self, seconds: float) -> None:
        """Put it forward."""
        self._ahead_seconds += seconds

    def now(self) -> float:
        return super().now() + self._ahead_seconds

    def monotonic(self) -> float:
        return super().monotonic() + self._ahead_seconds
