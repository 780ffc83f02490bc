"""The caller of an access token: the person or the key that it was made for, as they are now.

    token ──read──► who, session, generation ──store──► active? generation? session? ──► grants, bounded by the token

What the token says was true when it was made. What counts is what the store says now, so a role that is taken away, a
session that is ended and a person who is deactivated count as soon as the answer of before is forgotten (`api.auth`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tickwise.control.callers import Callers
from tickwise.control.people.tokens import SKEW_SECONDS, AccessTokens, Claims, SigningKey, raw
from tickwise.domain.callers import INSTALLATION, Caller, Grant
from tickwise.domain.errors import Unauthenticated
from tickwise.domain.permissions import EVERYTHING, narrowed
from tickwise.ports.clock import Clock
from tickwise.ports.identity import FoundKey, SessionStore, UserStore
from tickwise.ports.identity.sessions import PublicKey

NAME_CHARACTERS_MAX: Final = 200
"""Of a caller: owners of jobs are no longer."""
RELOAD_SECONDS: Final = 2.0
"""A token that names an unknown key has the keys read again, at most so often."""


class TokenBearers:
    """Finds the callers of access tokens, and knows the public keys."""

    def __init__(
        self,
        tokens: AccessTokens,
        callers: Callers,
        *,
        users: UserStore,
        sessions: SessionStore,
        clock: Clock,
    ) -> None:
        self._tokens = tokens
        self._callers = callers
        self._users = users
        self._sessions = sessions
        self._clock = clock
        self._signing: SigningKey | None = None
        self._published: tuple[PublicKey, ...] = ()
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()

    async def sign_with(self, signing: SigningKey) -> None:
        """Publish the public half of this key, then sign with it. A key that follows others signs once every process
        may read the keys again, `RELOAD_SECONDS` later: no process refuses its first tokens. Raises
        `StoreUnavailable`."""
        public = PublicKey(
            key_id=signing.key_id,
            public=raw(signing.private.public_key()),
            created_at=self._clock.now(),
            retired_at=None,
        )
        published = await self._sessions.publish(public)
        self._know(published)
        if len(published) > 1 and _is_new(published, signing.key_id, self._clock.now()):
            await self._clock.sleep(RELOAD_SECONDS)
        self._signing = signing
        self._know(await self._sessions.public_keys())

    async def public_keys(self) -> Sequence[PublicKey]:
        """The keys that tokens are checked with, for the key set. Raises `StoreUnavailable`."""
        await self._reload()
        return self._published

    async def find(self, token: str) -> FoundKey:
        """The caller, and the seconds that the token works. Raises `Unauthenticated`, `StoreUnavailable`."""
        if not self._tokens.knows(token):
            await self._reload()
        claims = self._tokens.read(token)
        caller = await (self._key(claims) if claims.kind == "key" else self._person(claims))
        return FoundKey(caller, claims.exp - self._clock.now())

    async def _person(self, claims: Claims) -> Caller:
        row = await self._users.get(claims.sub)
        if (
            row is None
            or not row.active
            or row.generation != claims.gen
            or not await self._sessions.is_good(claims.sid)
        ):
            raise Unauthenticated("this token does not work any more: its session has ended; sign in again")
        return _bounded(await self._callers.of_person(row), claims)

    async def _key(self, claims: Claims) -> Caller:
        found = await self._callers.of_key(claims.sub, claims.gen)
        if found is None:
            raise Unauthenticated(
                "this token does not work any more: its key was revoked, rotated or has expired, or its owner was "
                "deactivated"
            )
        return _bounded(found.caller, claims)

    async def _reload(self) -> None:
        async with self._reading:
            if self._clock.monotonic() - self._read_at >= RELOAD_SECONDS:
                self._know(await self._sessions.public_keys())

    def _know(self, published: Sequence[PublicKey]) -> None:
        self._read_at = self._clock.monotonic()
        self._published = tuple(published)
        publics = {each.key_id: Ed25519PublicKey.from_public_bytes(each.public) for each in published}
        self._tokens.use(publics, self._signing)


def _is_new(published: Sequence[PublicKey], key_id: str, now: float) -> bool:
    """Check whether a key may have been published so lately that another process has not read it. The store has noted
    the time, by a clock of its own."""
    since = now - RELOAD_SECONDS - SKEW_SECONDS
    return any(each.key_id == key_id and each.created_at > since for each in published)


def external_name(name: str, subject: str) -> str:
    """The name of a federation's caller in the audit log and elsewhere: with the subject of the issuer's token."""
    return f"{name} ({subject})"[:NAME_CHARACTERS_MAX]


def _bounded(caller: Caller, claims: Claims) -> Caller:
    """The caller with at most what the token says."""
    bound = frozenset({EVERYTHING}) if claims.scope is None else frozenset(claims.scope.split())
    grants = tuple(
        Grant(
            each.namespace if claims.ns is None else claims.ns,
            each.permissions if claims.scope is None else narrowed(each.permissions, bound),
            each.labels,
        )
        for each in caller.grants
        if claims.ns is None or each.namespace in (claims.ns, INSTALLATION)
    )
    return Caller(
        name=caller.name if claims.ext is None else external_name(caller.name, claims.ext),
        home=caller.home if claims.ns is None else claims.ns,
        grants=grants,
        key_id=caller.key_id,
        user_id=caller.user_id,
        owner_id=caller.owner_id,
        session_id=claims.sid if claims.kind == "user" else None,
        expires_at=caller.expires_at,
        secret=caller.secret,
        by_token=True,
    )
