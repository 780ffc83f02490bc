"""Tokens that an issuer elsewhere signs, and the provider that signs people in (OpenID Connect Core 1.0).

    browser ──► authorization_url ──► provider ──code, state, iss──► redeem ──► ProviderClaims
    a signed token of an issuer ──► IssuerTokens.verify ──► its claims
    provider ──logout token──► logout ──► ProviderLogout

Invariant: nothing of a token is believed before its signature, issuer, audience and times are checked. A token never
says how it is to be checked: algorithms and keys come from the issuer's own address and from a list of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

LEEWAY_SECONDS: Final = 60.0
"""The difference between the clocks of an issuer and of this process that is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """The rules by which one token is judged, beside its signature and its issuer."""

    audiences: frozenset[str]
    """The token must name one of these."""
    required: frozenset[str] = frozenset({"sub", "exp", "iat"})
    """Claims that must be there."""
    leeway_seconds: float = LEEWAY_SECONDS
    age_seconds_most: float | None = None
    """The time since it was issued; None: as long as it says."""
    types: frozenset[str] = frozenset({"", "jwt"})
    """The values of its header `typ` that are taken, in small letters; empty: it has none."""


class IssuerTokens(Protocol):
    """The tokens of one issuer."""

    @property
    def issuer(self) -> str:
        """The issuer's name, as tokens have it in `iss`."""
        ...

    async def verify(self, token: str, rules: TokenRules) -> Mapping[str, Any]:
        """The claims of a token. Raises `Unauthenticated` with the reason, `ProviderUnavailable` if the issuer's keys
        cannot be read."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInRequest:
    """The secrets of one sign-in."""

    state: str
    nonce: str
    verifier: str
    """Of PKCE (RFC 7636): 43 characters."""


class ProviderAnswer(NamedTuple):
    """The parameters with which a provider sends a browser back."""

    code: str
    issuer: str | None
    """RFC 9207; None: it named none."""


class ProviderClaims(NamedTuple):
    """A person as the provider describes them."""

    issuer: str
    subject: str
    """Names the person at this issuer for ever. Nothing else does."""
    session: str | None
    """The provider's own session (`sid`), which a logout token names."""
    claims: Mapping[str, Any]
    """Those of the ID token, and of userinfo where the ID token lacks one."""


class ProviderLogout(NamedTuple):
    """The content of a logout token (OpenID Connect Back-Channel Logout 1.0)."""

    issuer: str
    subject: str | None
    session: str | None
    token_id: str
    """`jti`: one that came before is a replay."""
    seconds: float
    """The time for which it could be replayed."""


class ProviderState(NamedTuple):
    """The provider as far as it can be seen from outside, for `doctor`."""

    metadata: Mapping[str, Any]
    signing_keys: int
    """Keys in its set that could sign."""
    clock_seconds: float | None
    """Its clock minus ours, to the second; None: it does not tell the time."""


class IdentityProvider(IssuerTokens, Protocol):
    """The provider that signs people in."""

    @property
    def away(self) -> str | None:
        """The reason for which it gave no answer lately; None: it answered, or was not asked."""
        ...

    async def authorization_url(self, request: SignInRequest) -> str:
        """The address to send a browser to. Raises `ProviderUnavailable`."""
        ...

    async def check_issuer(self, named: str | None) -> None:
        """Check the `iss` of an answer (RFC 9207). Raises `Unauthenticated` for the answer of another provider,
        `ProviderUnavailable`."""
        ...

    async def redeem(self, code: str, request: SignInRequest, wanted: frozenset[str]) -> ProviderClaims:
        """The person of a code. `wanted`: claims that userinfo is asked for if the ID token lacks one. Raises
        `Unauthenticated`, `ProviderUnavailable`."""
        ...

    async def logout(self, token: str) -> ProviderLogout:
        """The content of a logout token. Raises `Unauthenticated`, `ProviderUnavailable`."""
        ...

    async def end_session_url(self, back: str) -> str | None:
        """The address at which a person signs out there, and comes back to `back`; None: it has none. Raises
        `ProviderUnavailable`."""
        ...

    async def look(self) -> ProviderState:
        """Ask it anew for all that is public. Raises `ProviderUnavailable`."""
        ...

    async def knows_redirect(self) -> bool | None:
        """Check whether the provider sends browsers back to the address of this installation; None: that cannot be
        seen. Nobody is signed in by it. Raises `ProviderUnavailable`."""
        ...

    async def close(self) -> None:
        """End its connections."""
        ...
