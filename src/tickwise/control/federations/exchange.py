"""The exchange of another issuer's token for one of ours.

    token ──iss, unverified──► federations of that issuer ──► signature, audience, times ──► conditions ──► once ──► key
                                  └─ none: refused, and nothing is fetched

The unverified issuer only chooses the federations to look at: what a token says counts after its signature was checked
with the keys of that federation. Of several federations that take a token, the oldest counts, or the one that the
request names: one that is added later changes nothing for the programs of others.

Invariant: a token gets what its federation's key gives now, at most.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from tickwise.control.callers import Callers
from tickwise.control.context import ControlContext
from tickwise.domain.accounts.federations import Federation, subject_of
from tickwise.domain.callers import Caller
from tickwise.domain.errors import Unauthenticated
from tickwise.domain.model import time_id
from tickwise.ports.identity.federations import AssertionVerifier, TrustedIssuer

ASSERTION_CHARACTERS_MAX: Final = 16_384
"""A token of Kubernetes has about 1,200 characters, one of GitHub about 2,000."""
USED_SECONDS_MOST: Final = 86_400.0
"""A token that works once is remembered until its end, and taken only if that is not further away."""
SKEW_SECONDS: Final = 60.0
JTI_CHARACTERS_MAX: Final = 1_000

_UNKNOWN: Final = (
    "no federation takes this token: its issuer, its audience or its claims fit none; `tickwise federations list` "
    "shows what is taken"
)


class _IssuerClaim(msgspec.Struct, frozen=True):
    """The part of a token that is read before its signature is checked."""

    iss: str


_issuer_claim: Final = msgspec.json.Decoder(_IssuerClaim)


class Exchanged(NamedTuple):
    """A token that was taken."""

    federation: Federation
    caller: Caller
    """The federation's key, as it is now."""
    subject: str
    """The subject of the token, for the record."""
    facts: Mapping[str, str]
    """For the audit log."""


class FederationExchange:
    """Takes tokens of other issuers."""

    def __init__(self, context: ControlContext, callers: Callers, verifier: AssertionVerifier | None) -> None:
        """`verifier` None: this process takes no tokens of other issuers."""
        self._context = context
        self._callers = callers
        self._verifier = verifier

    async def take(self, assertion: str, named: str | None) -> Exchanged:
        """Take a token. `named`: the id or the name of the federation; None: the oldest that fits. Raises
        `Unauthenticated`, and `Unavailable` while the keys of the issuer cannot be had."""
        verifier = self._verifier
        if verifier is None:
            raise Unauthenticated("this server takes no tokens of other issuers")
        candidates = [
            each
            for each in await self._context.store.federations.of_issuer(unverified_issuer(assertion))
            if named is None or await self._is_named(each, named)
        ]
        federation, claims = await self._fitting(verifier, assertion, candidates)
        found = await self._callers.of_key(federation.key_id)
        if found is None:
            raise Unauthenticated(_UNKNOWN)
        await self._use(federation, claims)
        facts = {
            name: str(claims[name])[:JTI_CHARACTERS_MAX]
            for name in ("iss", "sub", "jti")
            if isinstance(claims.get(name), str)
        }
        return Exchanged(federation, found.caller, subject_of(claims), facts)

    async def _is_named(self, federation: Federation, named: str) -> bool:
        if str(federation.key_id) == named:
            return True
        row = await self._context.store.federations.get(federation.key_id)
        return row is not None and row.key.name == named

    async def _fitting(
        self, verifier: AssertionVerifier, assertion: str, candidates: Sequence[Federation]
    ) -> tuple[Federation, Mapping[str, Any]]:
        """The first federation that takes the token, with its claims. Raises `Unauthenticated` with the reason of the
        last one that did not."""
        refusal = Unauthenticated(_UNKNOWN)
        checked: dict[TrustedIssuer, Mapping[str, Any] | Unauthenticated] = {}
        for each in candidates:
            trusted = TrustedIssuer(each.issuer, each.audience, each.key_set)
            if trusted not in checked:
                try:
                    checked[trusted] = await verifier.claims(assertion, trusted)
                except Unauthenticated as wrong:
                    checked[trusted] = wrong
            claims = checked[trusted]
            if isinstance(claims, Unauthenticated):
                refusal = claims
                continue
            unmet = each.unmet(claims)
            if unmet is None:
                return each, claims
            refusal = Unauthenticated(
                f"no federation takes this token: its claim {unmet!r} does not meet the condition of the nearest one"
            )
        raise refusal

    async def _use(self, federation: Federation, claims: Mapping[str, Any]) -> None:
        """Note the use of a token that works once. Raises `Unauthenticated` for one that was used."""
        jti = claims.get("jti")
        if not federation.single_use or jti is None:
            return
        if not isinstance(jti, str) or len(jti) > JTI_CHARACTERS_MAX:
            raise Unauthenticated("this token does not work: its jti is no text of a usual length")
        clock = self._context.clock
        # By federation: another one of this issuer, with keys of its own, cannot use the ids of this one up.
        digest = sha256(federation.key_id.bytes + jti.encode("utf-8", "surrogatepass")).digest()
        exchange_id: UUID = time_id(int(clock.now() * 1000), clock.random_bytes(10))
        expires = claims.get("exp")
        left = float(expires) - clock.now() if isinstance(expires, int | float) else 0.0
        if left > USED_SECONDS_MOST:
            raise Unauthenticated(
                "this token works for more than a day, and its federation takes tokens that work once: ask its "
                "issuer for a "
                "shorter one"
            )
        # Until no check of its times takes it any more.
        seconds = max(left, 0.0) + 2 * SKEW_SECONDS
        store = self._context.store.federations
        if not await self._context.surely(lambda: store.use(digest, exchange_id=exchange_id, seconds=seconds)):
            raise Unauthenticated("this token was used before, and works once: ask its issuer for another one")


def unverified_issuer(assertion: str) -> str:
    """The `iss` of a token whose signature was not checked. Raises `Unauthenticated` for a text that is no JWS."""
    if len(assertion) > ASSERTION_CHARACTERS_MAX:
        raise Unauthenticated(f"this token is too long: {ASSERTION_CHARACTERS_MAX} characters at most")
    parts = assertion.split(".")
    if len(parts) != 3 or not assertion.isascii():
        raise Unauthenticated("this is no token: send the JWT of your issuer, three parts with dots between")
    try:
        return _issuer_claim.decode(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))).iss
    except (msgspec.DecodeError, binascii.Error, ValueError, RecursionError):
        raise Unauthenticated("this token cannot be read, or does not name its issuer (iss)") from None
