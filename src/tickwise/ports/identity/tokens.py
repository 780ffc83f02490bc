"""The port of identity tokens: who signs them, and the public keys that others check them with.

job with identity_token ──► TokenIssuer.make_ready   a key is there, or the job is refused     (API)
attempt that begins     ──► TokenIssuer.sign         a signed token                       (executor)
anybody                 ──► TokenIssuer.documents    issuer, public keys                       (API)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from tickwise.domain.accounts.identity_tokens import TokenAlgorithm, TokenFacts
from tickwise.domain.audit import AuditEntry


class SignedToken(NamedTuple):
    """An identity token."""

    text: str
    """A JWT, in its compact form."""
    ends_at: float
    """Unix seconds."""


class TokenFault(NamedTuple):
    """The reason why there is no token."""

    detail: str
    """For people: what is missing and what to do."""
    is_passing: bool
    """True if the same question may be answered later: the store is away."""


class IdentityKey(NamedTuple):
    """A signing key, as the store keeps it."""

    key_id: str
    """The JWK thumbprint of its public half (RFC 7638)."""
    algorithm: str
    public: bytes
    """DER, SubjectPublicKeyInfo."""
    sealed: bytes
    """The private half, PKCS #8 in DER, sealed by `ports.sealing.Sealer`."""
    created_at: float = 0.0
    """By the store."""
    signs_at: float = 0.0
    """It signs from then on, until the next key of its algorithm does. Published since it was made."""


class IdentityKeyStore(Protocol):
    """Signing keys of identity tokens. Of each algorithm, the one with the latest `signs_at` that has passed signs."""

    async def find(self) -> Sequence[IdentityKey]:
        """All keys that are published, by algorithm, the oldest first."""
        ...

    async def add(
        self,
        key: IdentityKey,
        *,
        newest: str | None,
        signs_in_seconds: float,
        published_seconds: float,
        audit: AuditEntry | None = None,
    ) -> bool:
        """Add a key, if the newest of its algorithm is still `newest` (None: there is none); whether it was added, or
        is there already. Its `created_at` and `signs_at` are set by the store.

        Keys of its algorithm go that have not signed for `published_seconds`. With 0, all others of its algorithm go
        at once.
        """
        ...


class TokenIssuer(Protocol):
    """Makes identity tokens."""

    @property
    def issuer(self) -> str | None:
        """The address that tokens name as theirs; None: none is set."""
        ...

    def refusal(self, namespace: str) -> str | None:
        """The reason for which jobs of this namespace have no token; None: they may have."""
        ...

    async def make_ready(self, algorithm: TokenAlgorithm) -> None:
        """Make the first key, or the next one if the newest is old. Raises `Misconfigured` if this process cannot seal
        a key, `StoreUnavailable`."""
        ...

    async def sign(self, facts: TokenFacts) -> SignedToken | TokenFault:
        """The token of an attempt. It never raises."""
        ...

    async def sign_for_namespace(self, namespace: str, audience: str) -> SignedToken | TokenFault:
        """A token for an executor that asks another server on behalf of a namespace, with RS256 and the subject
        `executor:ns:NAME`. It never raises."""
        ...

    async def rotate(self, algorithm: TokenAlgorithm, *, at_once: bool, audit: AuditEntry | None = None) -> IdentityKey:
        """Make another key. It is published now, and signs a while later, when those who check tokens have read it;
        the one before stays published for as long as its tokens live. `at_once`: it signs now, and all others of its
        algorithm are published no more. Raises as `make_ready`."""
        ...

    async def keys(self) -> Sequence[IdentityKey]:
        """The published keys, by algorithm, the oldest first. Raises `StoreUnavailable`."""
        ...

    async def key_set(self) -> Mapping[str, Any]:
        """The published keys as a JWK set (RFC 7517). Raises `StoreUnavailable`."""
        ...
