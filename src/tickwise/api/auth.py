"""Authenticates callers by a bearer key or an access token, looked up by its SHA-256, remembered for a few seconds.

    keys.revoke ──signal──► every process asks the store again at the next request
               ╌╌╌ lost ╌► each process asks again after `KNOWN_SECONDS`

Remembered, because a look-up in the store costs more than a submit; for seconds only, because the signal of a
revocation may be lost. The store is asked for a digest, so the secret never leaves this module.

Invariant: a key is refused at most `KNOWN_SECONDS` after it was revoked or has expired, where the store can be reached.

Where requests are taken in without the store (`ingest=buffered`), a key that the store knew lately counts while it is
away, for `stale_seconds` after it last said so. So long works a key that was taken away just before. Wrong keys are
remembered in a place of their own: a caller that tries many does not displace the keys of others.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from tickwise.api.key_lookups import Find, KeyLookups
from tickwise.domain.callers import Caller
from tickwise.domain.errors import StoreUnavailable, Unauthenticated
from tickwise.ports.clock import Clock
from tickwise.ports.identity import FoundKey

KNOWN_SECONDS: Final = 4.0
"""A key that was revoked is refused after this long."""
UNKNOWN_SECONDS: Final = 1.0
"""A key that was just made is taken after this long, even if it was tried before."""
REMEMBERED_MAX: Final = 10_000
"""Keys that are known; and as many that are not."""
KEY_BYTES_MAX: Final = 4_096

MISSES_PER_SECOND: Final = 200.0

Bearer = Callable[[str], Awaitable[FoundKey]]
"""Finds the caller of an access token. Raises `Unauthenticated`, `StoreUnavailable`."""
Fault = Callable[[str], str | None]
"""Says why a text cannot be a key, by its form alone; None: it has to be looked up."""
News = Callable[[Callable[[UUID], bool]], asyncio.Event]


CONNECTION: Final = "tickwise.connection"
"""The place where a request's scope holds its `Line`, if it has one."""


class Line(Protocol):
    """The connection of a caller."""

    async def while_open(self, lookup: Coroutine[Any, Any, FoundKey | None]) -> FoundKey | None:
        """Await the look-up of the caller's key. The end of the connection cancels it. Raises `ClientGone`."""
        ...

    async def answer(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        """Send the whole answer to the present request. `headers` have its length, with the names in lower case."""
        ...


class _KnownKey(NamedTuple):
    """The cached facts of a key."""

    until: float
    """It is looked up again after this."""
    caller: Caller | None
    asked_at: float
    """The time at which the store was asked; it may have changed since then."""
    expires: float = math.inf
    """The time at which the key expires, on the monotonic clock."""
    round: int = 0
    """The number of notices of revocations before the store was asked."""


class Authenticator:
    """Turns an Authorization header into a caller."""

    def __init__(
        self,
        find: Find,
        clock: Clock,
        *,
        stale_seconds: float = 0.0,
        news: News | None = None,
        bearer: Bearer | None = None,
        fault: Fault | None = None,
        misses_per_second: float = MISSES_PER_SECOND,
    ) -> None:
        """`find` looks a digest up in the store; what it said counts for `stale_seconds` while the store is away.
        `news` gives the event of revocations. `bearer` finds the caller of an access token; None: there are no tokens.
        `fault` tells mistyped keys, which cost no query; None: each key is looked up. `misses_per_second`: most queries
        for keys that turn out wrong."""
        self._find = find
        self._bearer = bearer
        self._fault = fault
        self._lookups = KeyLookups(find, clock, misses_per_second=misses_per_second)
        self._key_ids: set[UUID] = set()
        self._news = asyncio.Event() if news is None else news(self._key_ids.__contains__)
        self._round = 0
        self._monotonic = clock.monotonic
        self._stale_seconds = stale_seconds
        self._remembered: dict[bytes, _KnownKey] = {}
        self._strange: dict[bytes, _KnownKey] = {}

    def remembered(self, authorization: bytes | None) -> Caller | None:
        """The caller, if the key was looked up a moment ago; None: ask `caller`."""
        digest = None if authorization is None else _digest(authorization)
        known = None if digest is None else self._known(digest)
        return None if known is None else known.caller

    async def caller(self, authorization: bytes | None, address: str = "", line: Line | None = None) -> Caller:
        """The caller of this header. Raises `Unauthenticated`, `ClientGone`, and `KeysWaiting` or `StoreUnavailable`
        if the key cannot be looked up. `address` is the caller's: addresses take turns in look-ups of unknown keys."""
        if authorization is None:
            raise Unauthenticated("send a key: Authorization: Bearer KEY")
        digest = _digest(authorization)
        if digest is None:
            raise Unauthenticated("write the header as Authorization: Bearer KEY")
        known = self._known(digest)
        if known is None and self._bearer is not None and is_token(authorization):
            known = await self._read_token(digest, authorization, self._bearer)
        if known is None:
            self._check_form(authorization)
            known = await self._look_up(digest, address, line)
        if known.caller is None:
            raise Unauthenticated(
                "this key is not known here; it may belong to another installation, be revoked, or its "
                "owner deactivated"
            )
        return known.caller

    def _check_form(self, authorization: bytes) -> None:
        """Raises `Unauthenticated` for a text that cannot be a key."""
        fault = None if self._fault is None else self._fault(_shown(authorization).decode("latin-1"))
        if fault is not None:
            raise Unauthenticated(fault)

    def _known(self, digest: bytes) -> _KnownKey | None:
        if self._news.is_set():
            self._news.clear()
            self._round += 1
        known = self._remembered.get(digest)
        if known is None or known.round != self._round:
            known = self._strange.get(digest)
        return known if known is not None and known.until > self._monotonic() else None

    async def _look_up(self, digest: bytes, address: str, line: Line | None) -> _KnownKey:
        # Read before the query: a revocation that arrives meanwhile makes its answer old.
        asked_at, round_ = self._monotonic(), self._round
        try:
            if digest in self._remembered:
                found = await self._find(digest)
            else:
                lookup = self._lookups.find(digest, address)
                found = await (lookup if line is None else line.while_open(lookup))
        except StoreUnavailable as away:
            return self._stale(digest, away)
        now = self._monotonic()
        if found is None:
            self._remembered.pop(digest, None)
            return _keep(self._strange, digest, _KnownKey(now + UNKNOWN_SECONDS, None, asked_at))
        self._strange.pop(digest, None)
        return self._found(digest, found, asked_at, round_)

    async def _read_token(self, digest: bytes, authorization: bytes, bearer: Bearer) -> _KnownKey:
        """The caller of a token, as the store sees them now. A forged token costs its check, and no query."""
        asked_at, round_ = self._monotonic(), self._round
        try:
            found = await bearer(_shown(authorization).decode("ascii", "replace"))
        except StoreUnavailable as away:
            return self._stale(digest, away)
        except Unauthenticated:
            self._remembered.pop(digest, None)
            raise
        return self._found(digest, found, asked_at, round_)

    def _found(self, digest: bytes, found: FoundKey, asked_at: float, round_: int) -> _KnownKey:
        now = self._monotonic()
        caller, left = found
        for each in (caller.key_id, caller.owner_id, caller.user_id, caller.session_id):
            if each is not None:
                self._remember_id(each)
        expires = math.inf if left is None else asked_at + left
        known = _KnownKey(min(now + KNOWN_SECONDS, expires), caller, asked_at, expires, round_)
        return _keep(self._remembered, digest, known)

    def _remember_id(self, key_id: UUID) -> None:
        """Remember the id, so that the signal of its revocation is heeded."""
        if len(self._key_ids) >= 2 * REMEMBERED_MAX:
            self._key_ids.clear()
            self._round += 1
        self._key_ids.add(key_id)

    def _stale(self, digest: bytes, away: StoreUnavailable) -> _KnownKey:
        """The store's last answer before it went away, if that still counts; else raises `away`."""
        known, now = self._remembered.get(digest), self._monotonic()
        if known is None or now > min(known.asked_at + self._stale_seconds, known.expires):
            raise away
        known = self._remembered[digest] = known._replace(until=now + KNOWN_SECONDS, round=self._round)
        return known


def is_token(authorization: bytes) -> bool:
    """Check whether the header looks like a JWT: three parts, the first of which begins an object of JSON."""
    return authorization[7:].lstrip().startswith(b"eyJ") and authorization.count(b".") == 2


def _keep(place: dict[bytes, _KnownKey], digest: bytes, known: _KnownKey) -> _KnownKey:
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
    return sha256(_shown(authorization)).digest()


def _shown(authorization: bytes) -> bytes:
    return authorization[7:].strip()
