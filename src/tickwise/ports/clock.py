"""Time, ids and chance, handed in everywhere so that a test can hold them."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """The only way to the time. Roles judge due-ness by the store's clock, never by this one."""

    def now(self) -> float:
        """Seconds since the Unix epoch on this machine's wall clock; may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary point; never goes back; the same for all processes of a machine."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return no earlier than `seconds` from now; at once, after other tasks had a turn, if it is not positive."""
        ...

    def random_bytes(self, count: int) -> bytes:
        """`count` unpredictable bytes, for ids and tokens."""
        ...

    def chance(self) -> float:
        """A number drawn uniformly from [0, 1), for jitter."""
        ...
