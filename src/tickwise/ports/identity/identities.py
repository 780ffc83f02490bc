"""Identities of people at providers, sign-ins that are under way, and logout tokens that were used.

    begin ──► transaction (state, browser; minutes) ──take, once──► sign-in ──► session with the provider's session
    identity (issuer, subject) ──link──► person                      logout token ──once──► its sessions end

Invariants: an identity is of one person. A transaction is taken once. A logout token counts once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import Conflict

MAX_TRANSACTIONS: Final = 10_000
"""Sign-ins that are under way at once; each is some 200 bytes for ten minutes."""


class Identity(NamedTuple):
    """A person at a provider. Nothing else names one: an e-mail moves from one person to another."""

    issuer: str
    subject: str


class ProviderSession(NamedTuple):
    """The session at the provider that a session of ours came from."""

    identity: Identity
    session: str | None
    """`sid`; None: the provider tells none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInTransaction:
    """A sign-in that a browser began."""

    digest: bytes
    """The SHA-256 of its state."""
    browser: bytes
    """The SHA-256 of the secret that the browser keeps."""
    back: str
    """The address of ours to go on with."""
    seconds: float
    """The time for which it can be completed."""


class TakenTransaction(NamedTuple):
    """A transaction that is used up."""

    browser: bytes
    back: str


class EndedSessions(NamedTuple):
    """The sessions that a logout ended."""

    user_id: UUID | None
    """The person; None: nobody here has the identity or the session."""
    sessions: Sequence[UUID]
    """Of browsers, and families of refresh tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLogout:
    """A logout that a provider tells."""

    issuer: str
    subject: str | None
    session: str | None
    """With it, the browser sessions of this session of the provider; without, all of the person."""
    digest: bytes
    """The SHA-256 of issuer and id of the token."""
    seconds: float
    """The time for which the token must be known as used."""


def identity_taken() -> Conflict:
    """The error that an identity is of another person."""
    return Conflict("this identity belongs to another user: take it away there first", code="identity_taken")


class IdentityStore(Protocol):
    """Identities at providers. All methods may be called again after an `InDoubt`, but for `take` and `log_out`: these
    find nothing then, and the caller begins anew."""

    async def find(self, identity: Identity) -> UUID | None:
        """The person of an identity."""
        ...

    async def of_user(self, user_id: UUID) -> Sequence[Identity]:
        """The identities of a person, by issuer and subject."""
        ...

    async def link(self, identity: Identity, user_id: UUID, *, audit: AuditEntry | None = None) -> None:
        """Tie an identity to a person. Sent again, it changes nothing. Raises `Conflict`, code `identity_taken`, and
        `NotFound` if there is no such person."""
        ...

    async def unlink(self, user_id: UUID, *, audit: AuditEntry | None = None) -> Sequence[Identity]:
        """Take all identities of a person away: which these were. Browser sessions that began by them end."""
        ...

    async def begin(self, transaction: SignInTransaction) -> bool:
        """Keep a transaction. Those that are over are forgotten. False: `MAX_TRANSACTIONS` are under way, and this one
        is not kept."""
        ...

    async def take(self, digest: bytes) -> TakenTransaction | None:
        """Use a transaction up. None: there is none with this digest, or it was taken, or is too old."""
        ...

    async def log_out(self, logout: SessionLogout, *, audit: AuditEntry | None = None) -> EndedSessions | None:
        """End the browser sessions that it names, and all families of refresh tokens of their person; one transaction.
        They are the targets of `audit`, which is written if there were any. None: the token was used before."""
        ...
