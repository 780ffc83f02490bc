"""Refresh tokens, and the public keys that access tokens are checked with.

    sign in ──► family: refresh 1 ──rotate──► refresh 2 ──rotate──► …
                                       └─ refresh 1 again: it was stolen, here or there ──► the family is revoked

Invariants: of a family one refresh token works at a time. A private key is never in the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from tickwise.domain.audit import AuditEntry

MAX_SESSIONS: Final = 100
"""Families of one person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """The beginning of a family."""

    family: UUID
    digest: bytes
    """The SHA-256 of its first refresh token."""
    user_id: UUID
    generation: int
    """Of the person when it began."""
    scope: frozenset[str] | None
    """The permissions that it is bounded by; None: all of the person."""
    namespace: str | None
    address: str
    seconds: float
    """The time for which it works unused; each rotation begins that time anew, up to `most_seconds` in all."""
    most_seconds: float


class Rotation(StrEnum):
    """The result of showing a refresh token."""

    ROTATED = "rotated"
    UNKNOWN = "unknown"
    """It is unknown, expired, or its family was revoked."""
    REUSED = "reused"
    """It was rotated before: its family is revoked now."""


class Rotated(NamedTuple):
    """The answer to a rotation."""

    rotation: Rotation
    session: NewSession | None = None
    """The family as it was begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicKey:
    """A key that access tokens are checked with."""

    key_id: str
    public: bytes
    """Raw Ed25519, 32 bytes."""
    created_at: float
    retired_at: float | None
    """From when on nothing is signed with it: what was signed before is good until it expires."""


class SessionStore(Protocol):
    """Families of refresh tokens, and public keys. All methods may be called again after an `InDoubt`."""

    async def begin(self, session: NewSession, *, audit: AuditEntry | None = None) -> None:
        """Keep it. A person has `MAX_SESSIONS` families at most: those that were used longest ago end. Families that
        ended are forgotten."""
        ...

    async def rotate(self, digest: bytes, next_digest: bytes, *, audit: AuditEntry | None = None) -> Rotated:
        """The token of `digest` is used: the family goes on with `next_digest`. The same call again, with the same
        next one, is ROTATED: its answer was lost. A token of a person whose generation grew is UNKNOWN.
        `audit` is written for one that is REUSED; its target is the person."""
        ...

    async def revoke(
        self, *, digest: bytes | None = None, user_id: UUID | None = None, audit: AuditEntry | None = None
    ) -> Sequence[UUID]:
        """End the family of a token (also of one that was rotated), or all of a person: which these were. They are the
        targets of `audit`."""
        ...

    async def is_good(self, family: UUID) -> bool:
        """Check whether access tokens of this family are good: the family was not revoked and has not ended."""
        ...

    async def publish(self, key: PublicKey) -> Sequence[PublicKey]:
        """Keep a public key, unless it is there; all that are not long retired."""
        ...

    async def public_keys(self) -> Sequence[PublicKey]:
        """All that are not long retired."""
        ...

    async def retire(self, key_id: str) -> None:
        """Sign nothing with this key from now on."""
        ...
