"""Sessions of browsers, and the links that open one.

    password ──────────────► session (cookie) ──each use──► its idle time begins anew ──► end: idle, absolute, revoked
    link, for minutes ─once─► session

A session belongs to a person, or to a key: then it is good while that secret of the key is. A cookie is never stored,
only its SHA-256.

Invariant: a link opens one session.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from tickwise.domain.audit import AuditEntry
from tickwise.ports.identity.identities import ProviderSession

MAX_BROWSER_SESSIONS: Final = 100
"""Of one person or key."""
USE_NOTED_SECONDS: Final = 60.0
"""The use of a session is written so often at most: a page costs no write."""


class SessionSubject(NamedTuple):
    """The person or the key that a session stands for: one of the two."""

    user_id: UUID | None
    key_id: UUID | None
    generation: int
    """Of the person, or the number of the key's secret, when the session began: another one ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBrowserSession:
    """The beginning of a session."""

    session_id: UUID
    digest: bytes
    """The SHA-256 of its cookie."""
    subject: SessionSubject
    address: str
    idle_seconds: float
    """It ends when it was not used for this time …"""
    most_seconds: float
    """… and after this time in any case."""
    provider: ProviderSession | None = None
    """The session at a provider that it came from."""


class BrowserSession(NamedTuple):
    """A session that is good."""

    session_id: UUID
    subject: SessionSubject
    seconds_left: float
    """Until it ends if it is not used, by the store's clock."""
    provider: ProviderSession | None = None
    """The session at a provider that it came from."""


class NewSessionLink(NamedTuple):
    """A link to make."""

    digest: bytes
    """The SHA-256 of its secret."""
    subject: SessionSubject
    seconds: float
    """It works for so long."""


class BrowserSessionStore(Protocol):
    """Sessions of browsers. All methods may be called again after an `InDoubt`."""

    async def begin(
        self,
        session: NewBrowserSession,
        *,
        link: bytes | None = None,
        replaces: bytes | None = None,
        audit: AuditEntry | None = None,
    ) -> bool:
        """Keep it. With `link`, the digest of one: only if that works and opened no other session; else False, and
        nothing changes. The session with the digest `replaces` ends. A person or key has `MAX_BROWSER_SESSIONS` at
        most: those that were used longest ago end. Sessions and links that are over are forgotten."""
        ...

    async def find(self, digest: bytes, *, used: bool) -> BrowserSession | None:
        """The good session with this digest. With `used`, its idle time begins anew, noted each `USE_NOTED_SECONDS` at
        most. One that began in an earlier epoch is over. Whether its subject is still good is not looked at."""
        ...

    async def end(
        self, *, digest: bytes | None = None, user_id: UUID | None = None, audit: AuditEntry | None = None
    ) -> Sequence[UUID]:
        """End the session with this digest, or all of a person: which these were. They are the targets of `audit`."""
        ...

    async def end_all(self, *, audit: AuditEntry | None = None) -> int:
        """End every session and forget every link. The number of the sessions; `audit` is written if there were any."""
        ...

    async def add_link(self, link: NewSessionLink, *, audit: AuditEntry | None = None) -> None:
        """Keep a link. Sent again, it changes nothing."""
        ...

    async def link(self, digest: bytes) -> SessionSubject | None:
        """The subject of a link that has not expired and was not used."""
        ...
