"""The circuit breaker between a buffering API and the store: while the store is away, calls fail quickly, and the
store's last answers count.

    ask(read) ──┬─ the store answered a moment ago ──► the read, for at most `ASK_SECONDS`
                └─ it did not ──────────────────────► StoreUnavailable at once; every `AWAY_SECONDS` one caller tries

Invariants: the caller that tries waits for at most `ASK_SECONDS`, all others not at all. What is asked changes nothing,
so a lost answer (`InDoubt`) is no doubt: the store is away. The memory is bounded by number and by bytes, and an answer
counts for `STALE_SECONDS`.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from tickwise.domain.errors import InDoubt, StoreUnavailable
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
        self._is_away = False
        """True from an unanswered call until one is answered."""

    async def ask(self, call: Callable[[], Awaitable[T]], *, probes: bool = True) -> T:
        """The answer of a call that changes nothing. Raises `StoreUnavailable`, also if the call takes longer than
        `ASK_SECONDS`, or its answer was lost. `probes`: a call that takes too long opens the circuit, because the store
        and not the call is slow."""
        now = self._clock.monotonic()
        if now < self._away_until:
            raise StoreUnavailable("the store did not answer a moment ago")
        if self._is_away:
            # The others do not wait while this caller tries.
            self._away_until = now + ASK_SECONDS
        try:
            async with asyncio.timeout(ASK_SECONDS):
                answer = await call()
        except (StoreUnavailable, InDoubt) as away:
            self._open()
            if isinstance(away, StoreUnavailable):
                raise
            raise StoreUnavailable(f"the store did not answer: {away.detail}") from away
        except TimeoutError as late:
            if probes or self._is_away:
                self._open()
            raise StoreUnavailable(f"the store did not answer within {ASK_SECONDS:.0f} s") from late
        except asyncio.CancelledError:
            if self._is_away:
                self._away_until = self._clock.monotonic()  # the next one tries
            raise
        except Exception:
            self._close()  # a refusal is an answer
            raise
        self._close()
        return answer

    def _open(self) -> None:
        self._is_away, self._away_until = True, self._clock.monotonic() + AWAY_SECONDS

    def _close(self) -> None:
        self._is_away, self._away_until = False, float("-inf")


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
