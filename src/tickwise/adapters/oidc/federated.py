"""Checks of the tokens of many issuers, which callers named: pipelines, clusters, providers of service accounts.

    federation with a key set of its own ──► that set, nothing is fetched
    federation without ──► the issuer's documents, asked for within the guard of outgoing requests, kept as `issuer`
    says

Administrators of a namespace name issuers here, and no operator. So their addresses pass the guard of
`adapters.outgoing`: public ones, and what the setting `federation_allow` names. A key set that one federation brings
counts for it alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jwt

from tickwise.adapters.oidc.issuer import Issuer, PublishedKey
from tickwise.adapters.oidc.requests import IssuerRequests, OutgoingWay
from tickwise.adapters.oidc.tokens import IssuerTokenCheck, refused
from tickwise.adapters.outgoing.access import HttpAccess
from tickwise.ports.clock import Clock
from tickwise.ports.identity.federations import TrustedIssuer
from tickwise.ports.identity.oidc import TokenRules

MAX_ISSUERS: Final = 200
"""Issuers whose documents are kept; the one that was used longest ago goes first."""
ADVICE: Final = (
    "tokens of an issuer there are taken only if the setting federation_allow names it: "
    "TICKWISE_FEDERATION_ALLOW={entry}; "
    "or give the federation the issuer's key set"
)
TYPES: Final = frozenset({"", "jwt", "at+jwt", "application/at+jwt"})
"""ID tokens, and access tokens of service accounts (RFC 9068). Logout tokens and others that are signed with the same
keys have a type of their own."""
REQUIRED: Final = frozenset({"sub", "exp", "iat"})


class GuardedRequests(IssuerRequests):
    """Requests to issuers that callers named: their addresses must be public, or allowed."""

    def __init__(self, way: OutgoingWay | None, access: HttpAccess) -> None:
        super().__init__(way)
        self._access = access


class GivenKeys(Issuer):
    """An issuer whose key set a federation brings: nothing is fetched."""

    def __init__(self, name: str, key_set: str, requests: IssuerRequests, clock: Clock) -> None:
        """`key_set`: a JWKS as JSON text."""
        super().__init__(name, requests, clock)
        self._given = [
            PublishedKey(each.get("kid"), each)
            for each in json.loads(key_set)["keys"]
            if each.get("use", "sig") == "sig"
        ]

    async def keys(self, key_id: str | None, algorithm: str) -> Sequence[jwt.PyJWK]:
        """The keys with which a token could be signed that names this one."""
        fitting = [each for each in self._given if key_id in (None, each.key_id) and each.fits(algorithm)]
        found = (each.usable(algorithm) for each in fitting)
        return [key for key in found if key is not None]


class FederatedTokens:
    """`AssertionVerifier` of the port."""

    def __init__(self, clock: Clock, *, allow: Sequence[str] = (), way: OutgoingWay | None = None) -> None:
        """`allow`: addresses of issuers beside the public internet, as `http_allow` names them. Raises
        `Misconfigured`."""
        access = HttpAccess.of(allow)
        self._clock = clock
        self._requests = GuardedRequests(way, HttpAccess(access.networks, access.hosts, ADVICE))
        self._issuers: dict[str, IssuerTokenCheck] = {}
        """Those that are asked for their keys, the one that was used last at the end."""

    async def close(self) -> None:
        """End every connection."""
        await self._requests.close()

    async def claims(self, assertion: str, trusted: TrustedIssuer) -> Mapping[str, Any]:
        """See the port."""
        check = self._check(trusted)
        claims = await check.verify(
            assertion, TokenRules(audiences=frozenset({trusted.audience}), required=REQUIRED, types=TYPES)
        )
        if not isinstance(claims.get("sub"), str) or not claims["sub"]:
            raise refused("its sub is no text")
        return claims

    def _check(self, trusted: TrustedIssuer) -> IssuerTokenCheck:
        if trusted.key_set is not None:
            return IssuerTokenCheck(GivenKeys(trusted.issuer, trusted.key_set, self._requests, self._clock))
        check = self._issuers.pop(trusted.issuer, None)
        if check is None:
            check = IssuerTokenCheck(Issuer(trusted.issuer, self._requests, self._clock))
            while len(self._issuers) >= MAX_ISSUERS:
                del self._issuers[next(iter(self._issuers))]
        self._issuers[trusted.issuer] = check
        return check
