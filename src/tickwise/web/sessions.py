"""The callers of cookies, remembered for two seconds.

    sign-out, another password, a role taken away ──► counts here at once or after `KNOWN_SECONDS`, in every process

A page asks for several things, and renews itself: one look-up serves them. Only the SHA-256 of a cookie is kept.
"""

from __future__ import annotations

from collections.abc import Awaitable
from hashlib import sha256
from typing import Final, NamedTuple, Protocol

from tickwise.control.people.browsers import FoundBrowser
from tickwise.domain.callers import Caller
from tickwise.ports.clock import Clock

KNOWN_SECONDS: Final = 2.0
NOTED_SECONDS: Final = 30.0
"""A use by a person is told to the store when the last one that was told is so long ago: the end of an idle session is
counted from it."""
REMEMBERED_MAX: Final = 10_000


class Find(Protocol):
    """Looks a cookie up in the store."""

    def __call__(self, cookie: str, *, used: bool) -> Awaitable[FoundBrowser | None]:
        """The caller; None: the session has ended."""
        ...


class _Known(NamedTuple):
    """The session of a cookie."""

    until: float
    noted_at: float
    """The last use that the store was told of."""
    found: FoundBrowser


class Sessions:
    """Finds callers by their cookies."""

    def __init__(self, find: Find, clock: Clock) -> None:
        self._find = find
        self._monotonic = clock.monotonic
        self._known: dict[bytes, _Known] = {}

    async def caller(self, cookie: str, *, used: bool) -> Caller | None:
        """As `find`, the caller alone."""
        found = await self.find(cookie, used=used)
        return None if found is None else found.caller

    async def find(self, cookie: str, *, used: bool) -> FoundBrowser | None:
        """The session of a cookie; None: it has ended. `used`: by a person. Raises `StoreUnavailable`."""
        digest, now = sha256(cookie.encode("utf-8", "surrogatepass")).digest(), self._monotonic()
        known = self._known.get(digest)
        noted_at = float("-inf") if known is None else known.noted_at
        is_noted = not used or now - noted_at < NOTED_SECONDS
        if known is not None and known.until > now and is_noted:
            return known.found
        found = await self._find(cookie, used=used)
        if found is None:
            self._known.pop(digest, None)
            return None
        if len(self._known) >= REMEMBERED_MAX:
            self._known.clear()
        until = min(now + KNOWN_SECONDS, now + found.seconds_left)
        self._known[digest] = _Known(until, now if used else noted_at, found)
        return found

    def forget(self, cookie: str) -> None:
        """Look this cookie up at its next request."""
        self._known.pop(sha256(cookie.encode("utf-8", "surrogatepass")).digest(), None)
