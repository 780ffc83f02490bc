"""The circuit breaker between a buffering API and the store: while the store is away, calls fail quickly, and the
store's last answers count.

    ask(call) ──┬─ the store answered a moment ago ──► call, for at most `ASK_SECONDS`
                └─ it did not ──────────────────────► StoreUnavailable at once; every `AWAY_SECONDS` one caller tries

Invariants: no request waits longer than `ASK_SECONDS` for a store that is away. The memory is bounded by number and by
bytes, and an answer counts for `STALE_SECONDS`.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from tickwise.domain.errors import StoreUnavailable
from tickwise.ports.clock import Clock

ASK_SECONDS: Final = 5.0
"""A healthy store answers in a thousandth of this time."""
AWAY_SECONDS: Final = 1.0
STALE_SECONDS: Final = 900.0
"""The store's last answers on keys, tasks, calendars and successors count for this time while the store is away: a key
that is revoked meanwhile works until then."""
MAX_REMEMBERED: Final = 10_000
MAX_REMEMBERED_BYTES: Final = 16 << 20

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class StoreCircuitBreaker:
    """The circuit breaker of the store: after an unanswered call, calls fail at once for a while."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._away_until = float("-inf")

    async def ask(self, call: Callable[[], Awaitable[T]], *, probes: bool = True) -> T:
        """The answer of the call. Raises `StoreUnavailable`, also if the call takes longer than `ASK_SECONDS`.
        `probes`: a call that takes too long opens the circuit, because the store and not the call is slow."""
        if self._clock.monotonic() < self._away_until:
            raise StoreUnavailable("the store did not answer a moment ago")
        try:
            async with asyncio.timeout(ASK_SECONDS):
                return await call()
        except StoreUnavailable:
            self._away_until = self._clock.monotonic() + AWAY_SECONDS
            raise
        except TimeoutError as late:
            if probes:
                self._away_until = self._clock.monotonic() + AWAY_SECONDS
            raise StoreUnavailable(f"the store did not answer within {ASK_SECONDS:.0f} s") from late


class Recent(Generic[K, T]):
    """The newest values, at least `most` of them and at most twice as many: the older half goes at once, so keeping one
    costs no more than a dictionary does."""

    def __init__(self, clock: Clock, *, most: int) -> None:
        self._monotonic = clock.monotonic
        self._most = most
        self._new: dict[K, tuple[float, T]] = {}
        self._old: dict[K, tuple[float, T]] = {}

    def keep(self, key: K, value: T) -> None:
        """Store the value as the current one."""
        self._new[key] = (self._monotonic(), value)
        if len(self._new) >= self._most:
            self._old, self._new = self._new, {}

    def drop(self, key: K) -> None:
        """Remove the entry."""
        self._new.pop(key, None)
        self._old.pop(key, None)

    def find(self, key: K, seconds: float = STALE_SECONDS) -> T | None:
        """The value, if it was kept within this time."""
        found = self._new.get(key) or self._old.get(key)
        return None if found is None or self._monotonic() - found[0] > seconds else found[1]


class Remembered(Generic[K, T]):
    """The last values that the store gave; those that were given longest ago make room."""

    def __init__(self, clock: Clock, *, most: int = MAX_REMEMBERED, bytes_most: int = MAX_REMEMBERED_BYTES) -> None:
        self._monotonic = clock.monotonic
        self._most = most
        self._bytes_most = bytes_most
        self._bytes = 0
        self._kept: OrderedDict[K, tuple[float, int, T]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, key: K, value: T, size: int = 0) -> None:
        """Store the value as the current one; `size` is about its bytes in memory."""
        self.drop(key)
        if size > self._bytes_most:
            return
        self._kept[key] = (self._monotonic(), size, value)
        self._bytes += size
        while len(self._kept) > self._most or self._bytes > self._bytes_most:
            self._bytes -= self._kept.popitem(last=False)[1][1]

    def drop(self, key: K) -> None:
        """Remove the entry."""
        gone = self._kept.pop(key, None)
        if gone is not None:
            self._bytes -= gone[1]

    def find(self, key: K, seconds: float = STALE_SECONDS) -> T | None:
        """The value, if it was given within this time."""
        found = self._kept.get(key)
        return None if found is None or self._monotonic() - found[0] > seconds else found[2]
