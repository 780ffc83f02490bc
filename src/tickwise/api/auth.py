"""Who asks: a bearer key, looked up by its SHA-256, remembered for a few seconds.

Remembered, because a look-up in the store costs more than a submit; for seconds only, because a key that was
taken away must stop working soon. The store is asked for a digest, so the secret never leaves this module.

Where requests are taken in without the store (`ingest=buffered`), a key that the store knew lately counts while it is
away, for `stale_seconds` after it last said so. So long works a key that was taken away just before. What is remembered
of wrong keys has a place of its own: whoever tries many makes nobody else's be forgotten.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Final, NamedTuple

from tickwise.domain.errors import Forbidden, StoreUnavailable, Unauthenticated
from tickwise.domain.model import Principal
from tickwise.ports.clock import Clock

KNOWN_SECONDS: Final = 4.0
"""A key that was revoked is refused after this long."""
UNKNOWN_SECONDS: Final = 1.0
"""A key that was just made is taken after this long, even if it was tried before."""
REMEMBERED_MAX: Final = 10_000
"""Keys that are known; and as many that are not."""
KEY_BYTES_MAX: Final = 1_024

Find = Callable[[bytes], Awaitable[Principal | None]]


class _Known(NamedTuple):
    """What is remembered of a key."""

    until: float
    """It is looked up again after this."""
    principal: Principal | None
    said_at: float
    """When the store said so."""


class Authenticator:
    """Turns an Authorization header into a principal."""

    def __init__(self, find: Find, clock: Clock, *, stale_seconds: float = 0.0) -> None:
        """`find` looks a digest up in the store; what it said counts for `stale_seconds` while the store is away."""
        self._find = find
        self._monotonic = clock.monotonic
        self._stale_seconds = stale_seconds
        self._remembered: dict[bytes, _Known] = {}
        self._strange: dict[bytes, _Known] = {}

    def remembered(self, authorization: bytes | None) -> Principal | None:
        """Who it is, if that was looked up a moment ago; None sends the caller to `principal`."""
        digest = None if authorization is None else _digest(authorization)
        known = None if digest is None else self._known(digest)
        return None if known is None else known.principal

    async def principal(self, authorization: bytes | None) -> Principal:
        """Who it is. Raises `Unauthenticated`, and `StoreUnavailable` if that cannot be told."""
        if authorization is None:
            raise Unauthenticated("send a key: Authorization: Bearer KEY")
        digest = _digest(authorization)
        if digest is None:
            raise Unauthenticated("write the header as Authorization: Bearer KEY")
        known = self._known(digest) or await self._look_up(digest)
        if known.principal is None:
            raise Unauthenticated("this key is not known here; it may belong to another installation, or be revoked")
        return known.principal

    def _known(self, digest: bytes) -> _Known | None:
        known = self._remembered.get(digest) or self._strange.get(digest)
        return known if known is not None and known.until > self._monotonic() else None

    async def _look_up(self, digest: bytes) -> _Known:
        try:
            principal = await self._find(digest)
        except StoreUnavailable as away:
            return self._stale(digest, away)
        now = self._monotonic()
        if principal is None:
            self._remembered.pop(digest, None)
            return _keep(self._strange, digest, _Known(now + UNKNOWN_SECONDS, None, now))
        self._strange.pop(digest, None)
        return _keep(self._remembered, digest, _Known(now + KNOWN_SECONDS, principal, now))

    def _stale(self, digest: bytes, away: StoreUnavailable) -> _Known:
        """What the store said before it went away, if that still counts; else raises `away`."""
        known, now = self._remembered.get(digest), self._monotonic()
        if known is None or now > known.said_at + self._stale_seconds:
            raise away
        known = self._remembered[digest] = known._replace(until=now + KNOWN_SECONDS)
        return known


def _keep(place: dict[bytes, _Known], digest: bytes, known: _Known) -> _Known:
    """Remember it as the newest; the one that was said longest ago makes room."""
    place.pop(digest, None)
    if len(place) >= REMEMBERED_MAX:
        del place[next(iter(place))]
    place[digest] = known
    return known


def _digest(authorization: bytes) -> bytes | None:
    """Of the key in a header; None if it is not written as it should be."""
    if authorization[:7].lower() != b"bearer " or not 7 < len(authorization) <= 7 + KEY_BYTES_MAX:
        return None
    return sha256(authorization[7:].strip()).digest()


def require(principal: Principal, *scopes: str) -> None:
    """Raises `Forbidden` unless one of the scopes is granted."""
    if not any(principal.may(scope) for scope in scopes):
        raise Forbidden(f"this key lacks the scope {' or '.join(scopes)}")
