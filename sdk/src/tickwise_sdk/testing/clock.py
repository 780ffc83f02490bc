"""A clock that stands still until a test moves it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Final

BEGIN: Final = datetime(2026, 1, 1, tzinfo=timezone.utc)


class VirtualClock:
    """Time of one test."""

    def __init__(self, now: datetime = BEGIN) -> None:
        """`now` has a zone. Raises `ValueError` for one without."""
        if now.tzinfo is None:
            raise ValueError(f"{now.isoformat()} has no zone")
        self._now = now

    def now(self) -> datetime:
        """The time, with the zone of the clock's begin."""
        return self._now

    def advance(self, amount: timedelta | None = None, **parts: float) -> datetime:
        """Move on by an amount, or by `hours=3`, as `timedelta` takes it. Raises `ValueError` for a step back."""
        step = (amount or timedelta()) + timedelta(**parts)
        if step < timedelta():
            raise ValueError("time does not go back")
        self._now += step
        return self._now

    def move_to(self, now: datetime) -> None:
        """Move on to a time. Raises `ValueError` for one that has passed."""
        self.advance(now - self._now)
