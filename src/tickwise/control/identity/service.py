"""The public documents of identity tokens, and the rotation of the keys that sign them.

    cloud, Vault ──► discovery (OpenID Connect Discovery 1.0) ──► jwks_uri ──► key set (RFC 7517)
    administrator ──► keys, rotate

These keys are apart from those of access tokens: nothing that one of them signs is taken for the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import structlog

from tickwise.control.access import holds_everywhere, requires, requires_none
from tickwise.control.audit.entries import entry
from tickwise.domain.accounts.identity_tokens import TokenAlgorithm
from tickwise.domain.audit import AuditAction
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Conflict, Forbidden, NotFound
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.ports.identity.tokens import IdentityKey, TokenIssuer

KEY_SET_PATH: Final = "/.well-known/identity-keys.json"
CLAIMS: Final = (
    "iss", "sub", "aud", "iat", "nbf", "exp", "jti", "namespace", "job_id", "job_key", "run_id", "attempt",
)  # fmt: skip

logger = structlog.get_logger("tickwise.identity")


class IdentityKeyService:
    """Tells who signs, and makes other keys."""

    def __init__(self, issuer: TokenIssuer | None) -> None:
        """None: this installation signs no identity tokens."""
        self._issuer = issuer

    @requires_none("those who are to trust a token ask without one")
    async def discovery(self) -> Mapping[str, Any]:
        """The document that tells how tokens of this issuer are checked. Raises `NotFound` without an issuer."""
        address = self._ready().issuer
        return {
            "issuer": address,
            "jwks_uri": f"{address}{KEY_SET_PATH}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [each.value for each in TokenAlgorithm],
            "scopes_supported": ["openid"],
            "claims_supported": list(CLAIMS),
        }

    @requires_none("public keys are for anybody")
    async def key_set(self) -> Mapping[str, Any]:
        """The keys that tokens are checked with. Raises `NotFound` without an issuer, `StoreUnavailable`."""
        return await self._ready().key_set()

    @requires(Permission.NAMESPACES_ADMIN)
    async def keys(self, who: Principal) -> Sequence[IdentityKey]:
        """The published keys. Raises `Forbidden` for all but administrators of the installation."""
        self._check(who)
        return [] if self._issuer is None else await self._issuer.keys()

    @requires(Permission.NAMESPACES_ADMIN)
    async def rotate(self, who: Principal, algorithm: TokenAlgorithm, *, at_once: bool) -> IdentityKey:
        """Make another key (`TokenIssuer.rotate`). Raises `Forbidden`, `Conflict` without an issuer,
        `SealingUnavailable`, `StoreUnavailable`."""
        self._check(who)
        if self._issuer is None or self._issuer.issuer is None:
            raise Conflict(NO_ISSUER, code="identity_issuer_missing")
        audit = entry(
            who,
            AuditAction.IDENTITY_KEY_ROTATED,
            "identity_key",
            namespace=INSTALLATION,
            detail={"algorithm": algorithm.value, "at_once": at_once},
        )
        made = await self._issuer.rotate(algorithm, at_once=at_once, audit=audit)
        logger.info("identity_key_rotated", key_id=made.key_id, algorithm=algorithm.value, at_once=at_once)
        return made

    def _ready(self) -> TokenIssuer:
        if self._issuer is None or self._issuer.issuer is None:
            raise NotFound(NO_ISSUER)
        return self._issuer

    def _check(self, who: Principal) -> None:
        if not holds_everywhere(who, Permission.NAMESPACES_ADMIN):
            raise Forbidden("an administrator of the installation sees and rotates the keys of identity tokens")


NO_ISSUER: Final = (
    "this installation signs no identity tokens: TICKWISE_IDENTITY_ISSUER (or TICKWISE_PUBLIC_URL) names no address"
)
