"""The check of a signed token of an issuer.

    token ──► size, form ──► algorithm of the list ──► key of the issuer ──► signature ──► iss, aud, times, claims

Invariant: a claim is read after the signature is good. What a stranger can cause before that is one look at the key
set, which is bounded (`issuer`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import jwt
from jwt.exceptions import (
    DecodeError,
    InvalidAudienceError,
    InvalidIssuerError,
    MissingRequiredClaimError,
    PyJWTError,
)
from jwt.types import Options

from tickwise.adapters.oidc.issuer import ALGORITHMS, Issuer
from tickwise.domain.errors import Unauthenticated
from tickwise.ports.identity.oidc import TokenRules

TOKEN_CHARACTERS_MAX: Final = 64 << 10
"""Entra puts 200 groups into a token: some 10 KB."""


class IssuerTokenCheck:
    """`IssuerTokens` of the port."""

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer

    @property
    def issuer(self) -> str:
        """See the port."""
        return self._issuer.name

    async def verify(self, token: str, rules: TokenRules) -> Mapping[str, Any]:
        """See the port."""
        header = _header(token, rules)
        algorithm, key_id = header["alg"], header.get("kid")
        keys = await self._issuer.keys(key_id, algorithm)
        if not keys:
            named = "" if key_id is None else f" {str(key_id)[:100]!r}"
            raise refused(f"it is signed with a key{named} that {self.issuer} does not publish for {algorithm}")
        claims = self._read(token, keys, rules)
        self._check_times(claims, rules)
        return claims

    def _read(self, token: str, keys: Sequence[jwt.PyJWK], rules: TokenRules) -> dict[str, Any]:
        fault: PyJWTError | None = None
        # Times are judged below, by the clock that is handed in.
        options: Options = {
            "verify_exp": False, "verify_iat": False, "verify_nbf": False,
            "require": sorted(rules.required | {"iss", "aud"}),
        }  # fmt: skip
        for key in keys:
            try:
                claims: dict[str, Any] = jwt.decode(
                    token, key, algorithms=[key.algorithm_name], audience=sorted(rules.audiences), issuer=self.issuer,
                    options=options,
                )  # fmt: skip
                return claims
            except PyJWTError as error:
                fault = error
        if isinstance(fault, InvalidIssuerError):
            raise refused(f"it is of another issuer than {self.issuer}")
        if isinstance(fault, InvalidAudienceError):
            raise refused(f"it is for others than {', '.join(sorted(rules.audiences))}")
        if isinstance(fault, MissingRequiredClaimError):
            raise refused(f"it lacks the claim {fault.claim}")
        raise refused("its signature or its content is not as it must be")

    def _check_times(self, claims: Mapping[str, Any], rules: TokenRules) -> None:
        now, leeway = self._issuer.clock.now(), rules.leeway_seconds
        expires, issued = _time(claims, "exp"), _time(claims, "iat")
        begins = _time(claims, "nbf")
        clocks = "; are the clocks of both servers right?"
        if expires is not None and now >= expires + leeway:
            raise refused(f"it expired {now - expires:.0f} s ago{clocks}")
        if begins is not None and now < begins - leeway:
            raise refused(f"it begins in {begins - now:.0f} s{clocks}")
        if issued is not None and now < issued - leeway:
            raise refused(f"it was issued {issued - now:.0f} s from now{clocks}")
        most = rules.age_seconds_most
        if most is not None and issued is not None and now > issued + most + leeway:
            raise refused(f"it was issued {now - issued:.0f} s ago{clocks}")


def refused(why: str) -> Unauthenticated:
    """The error that a token does not work."""
    return Unauthenticated(f"the token does not work: {why}")


def _header(token: str, rules: TokenRules) -> Mapping[str, Any]:
    if len(token) > TOKEN_CHARACTERS_MAX:
        raise refused("it is too long")
    try:
        header: dict[str, Any] = jwt.get_unverified_header(token)
    except (DecodeError, PyJWTError, ValueError):
        raise refused("it cannot be read") from None
    if header.get("alg") not in ALGORITHMS:
        raise refused(f"its algorithm is {str(header.get('alg'))[:20]!r}; taken are {', '.join(ALGORITHMS)}")
    if str(header.get("typ") or "").lower() not in rules.types:
        raise refused(f"it is of the type {str(header.get('typ'))[:50]!r}")
    return header


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not -(2**53) < value < 2**53:
        raise refused(f"its {name} is no time")
    return float(value)
