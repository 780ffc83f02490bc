"""The beginning of a session of a browser, for each way to sign in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import structlog

from tickwise.control.context import ControlContext
from tickwise.control.keys.forms import SecretKind, new_secret
from tickwise.control.keys.secrets import secret_digest
from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source, document
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Unauthenticated
from tickwise.domain.model import Origin, time_id
from tickwise.ports.identity.browser_sessions import BrowserSessionStore, NewBrowserSession, SessionSubject
from tickwise.ports.identity.identities import ProviderSession
from tickwise.ports.identity.users import UserRow, UserStore

logger = structlog.get_logger("tickwise.people")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserLimits:
    """The ends of sessions."""

    idle_seconds: float = 12 * 3_600.0
    """Unused so long: a night at home ends a session, a lunch does not."""
    most_seconds: float = 7 * 86_400.0
    """In any case."""


class OpenedSession(NamedTuple):
    """A session that has begun."""

    cookie: str
    """The secret that the browser shows."""
    seconds: float
    """The time for which it is good at most."""


class SessionOpening:
    """Begins sessions for callers whose credentials were checked."""

    def __init__(
        self, context: ControlContext, sessions: BrowserSessionStore, users: UserStore, limits: BrowserLimits
    ) -> None:
        self._context = context
        self._sessions = sessions
        self._users = users
        self._limits = limits

    async def of_person(self, row: UserRow, origin: Origin, *, how: str, earlier: str | None = None) -> OpenedSession:
        """Begin a session of a person who signed in in this way. The one of the cookie `earlier` ends."""
        await self._users.signed_in(row.user_id)
        subject = SessionSubject(row.user_id, None, row.generation)
        source = Source(CallerKind.PERSON, row.user_id, row.name, *origin[:2])
        return await self.begin(subject, source, origin, how=how, earlier=earlier)

    async def begin(
        self,
        subject: SessionSubject,
        source: Source,
        origin: Origin,
        *,
        how: str,
        link: bytes | None = None,
        earlier: str | None = None,
        provider: ProviderSession | None = None,
    ) -> OpenedSession:
        """Begin a session; with `link`, the digest of one, only if that opened no other. `provider`: the session at
        the provider that vouches for the person. Raises `Unauthenticated`."""
        clock = self._context.clock
        cookie = new_secret(clock, SecretKind.COOKIE)
        session = NewBrowserSession(
            session_id=time_id(int(clock.now() * 1000), clock.random_bytes(10)),
            digest=cookie_digest(cookie),
            subject=subject,
            address=origin.address,
            idle_seconds=self._limits.idle_seconds,
            most_seconds=self._limits.most_seconds,
            provider=provider,
        )
        kind = "user" if subject.user_id is not None else "key"
        target = str(subject.user_id or subject.key_id)
        said = {"how": how} if provider is None else {"how": how, "issuer": provider.identity.issuer}
        audit = AuditEntry(INSTALLATION, AuditAction.SIGNED_IN, source, kind, target=target, detail=document(said))
        replaces = None if earlier is None else cookie_digest(earlier)
        begun = await self._context.surely(
            lambda: self._sessions.begin(session, link=link, replaces=replaces, audit=audit)
        )
        if not begun:
            raise Unauthenticated("this link was used by another browser; ask for another one: tickwise open")
        logger.info("browser_signed_in", name=source.name, kind=kind, address=origin.address)
        return OpenedSession(cookie, self._limits.most_seconds)


def cookie_digest(secret: str) -> bytes:
    """The digest of a cookie, or of the secret of a link."""
    return secret_digest(secret.encode("utf-8", "surrogatepass"))
