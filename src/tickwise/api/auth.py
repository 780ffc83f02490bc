"""Who asks: a bearer key, looked up by its SHA-256, remembered for a few seconds.

Remembered, because a look-up in the store costs more than a submit; for seconds only, because a key that was
taken away must stop working soon. The store is asked for a digest, so the secret never leaves this module.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Final

from tickwise.domain.errors import Forbidden, Unauthenticated
from tickwise.domain.model import Principal
from tickwise.ports.clock import Clock

KNOWN_SECONDS: Final = 4.0
"""A key that was revoked is refused after this long."""
UNKNOWN_SECONDS: Final = 1.0
"""A key that was just made is taken after this long, even if it was tried before."""
REMEMBERED_MAX: Final = 10_000
KEY_BYTES_MAX: Final = 1_024

Find = Callable[[bytes], Awaitable[Principal | None]]


class Authenticator:
    """Turns an Authorization header into a principal."""

    def __init__(self, find: Find, clock: Clock) -> None:
        """`find` looks a digest up in the store."""
        self._find = find
        self._monotonic = clock.monotonic
        self._remembered: dict[bytes, tuple[float, Principal | None]] = {}

    def remembered(self, authorization: bytes | None) -> Principal | None:
        """Who it is, if that was looked up a moment ago; None sends the caller to `principal`."""
        digest = None if authorization is None else _digest(authorization)
        known = None if digest is None else self._known(digest)
        return None if known is None else known[1]

    async def principal(self, authorization: bytes | None) -> Principal:
        """Who it is. Raises `Unauthenticated`, and `StoreUnavailable` if that cannot be told."""
        if authorization is None:
            raise Unauthenticated("send a key: Authorization: Bearer KEY")
        digest = _digest(authorization)
        if digest is None:
            raise Unauthenticated("write the header as Authorization: Bearer KEY")
        known = self._known(digest) or await self._look_up(digest)
        if known[1] is None:
            raise Unauthenticated("this key is not known here; it may belong to another installation, or be revoked")
        return known[1]

    def _known(self, digest: bytes) -> tuple[float, Principal | None] | None:
        known = self._remembered.get(digest)
        return known if known is not None and known[0] > self._monotonic() else None

    async def _look_up(self, digest: bytes) -> tuple[float, Principal | None]:
        principal = await self._find(digest)
        if len(self._remembered) >= REMEMBERED_MAX:
            self._remembered.clear()
        seconds = UNKNOWN_SECONDS if principal is None else KNOWN_SECONDS
        known = self._remembered[digest] = (self._monotonic() + seconds, principal)
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
