"""Sessions of browsers: a password, or a link that is used once, becomes a cookie.

    password, second step ────────► session ──cookie──► caller, as the person or the key is now
    key, on this machine ──► link ─once─┘      idle and absolute end; sign-out, another password, a revoked key end it

A session holds no permissions: its person or key is looked up again (`find`), and what they may not do any more counts
as soon as the answer of before is forgotten (`web.sessions`). A provider that signs people in begins a session, too
(`sso`).

Invariant: a link is made and used on one machine: its secret never travels over a network.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tickwise.control.access import requires_none
from tickwise.control.audit.denials import Denials
from tickwise.control.callers import Callers
from tickwise.control.context import ControlContext
from tickwise.control.keys.forms import SecretForms, SecretKind, new_secret
from tickwise.control.people.pace import SignInPace
from tickwise.control.people.password_check import PasswordCheck
from tickwise.control.people.second_step import PASSWORD, SecondStep, WaitingStep
from tickwise.control.people.session_opening import OpenedSession, SessionOpening
from tickwise.control.people.session_opening import cookie_digest as _digest
from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source
from tickwise.domain.callers import INSTALLATION, Caller
from tickwise.domain.errors import Forbidden, Unauthenticated
from tickwise.domain.model import Origin, Principal
from tickwise.domain.networks import is_loopback
from tickwise.ports.identity.browser_sessions import BrowserSessionStore, NewSessionLink, SessionSubject
from tickwise.ports.identity.identities import ProviderSession
from tickwise.ports.identity.users import UserStore
from tickwise.ports.signals import Topic

LINK_SECONDS: Final = 300.0
"""A link works for so long: time to look at a terminal and to click."""


class SessionLink(NamedTuple):
    """A link that opens one session."""

    secret: str
    seconds: float


class FoundBrowser(NamedTuple):
    """The caller of a session."""

    caller: Caller
    seconds_left: float
    """Until it ends if it is not used."""
    provider: ProviderSession | None = None
    """The session at a provider, or at a proxy, that it came from."""


class BrowserService:
    """Begins, finds and ends sessions of browsers."""

    def __init__(
        self,
        context: ControlContext,
        *,
        sessions: BrowserSessionStore,
        users: UserStore,
        callers: Callers,
        check: PasswordCheck,
        pace: SignInPace,
        forms: SecretForms,
        denials: Denials,
        opening: SessionOpening,
        second_step: SecondStep,
    ) -> None:
        self._context = context
        self._sessions = sessions
        self._users = users
        self._callers = callers
        self._check = check
        self._pace = pace
        self._forms = forms
        self._denials = denials
        self._opening = opening
        self._second_step = second_step

    @requires_none("it is the way in: the name and the password are the credential")
    async def sign_in(
        self, username: str, password: str, origin: Origin, *, earlier: str | None = None
    ) -> OpenedSession | WaitingStep:
        """Begin a session of a person, whose session of the cookie `earlier` ends; or the second step, where one is
        left. Raises `Unauthenticated`, `SignInPaced`, `Busy`."""
        row, _ = await self._check.person(username, password, origin)
        step = await self._second_step.after_password(row)
        return step or await self._opening.of_person(row, origin, how=PASSWORD, earlier=earlier)

    @requires_none("a link carries the permissions of the caller who asks for it, and no others")
    async def make_link(self, who: Principal) -> SessionLink:
        """A link that opens one session of the caller. Raises `Forbidden` for a caller on another machine, and for a
        token: what made it can ask itself."""
        _check_local(who.origin)
        if who.key_id is None or who.by_token:
            raise Forbidden("a link is made for a key, and not for a token: sign in at /login, or ask with a key")
        secret = new_secret(self._context.clock, SecretKind.LINK)
        subject = SessionSubject(None, who.key_id, who.secret)
        link = NewSessionLink(_digest(secret), subject, LINK_SECONDS)
        audit = AuditEntry(who.namespace, AuditAction.TOKEN_MADE, Source.of(who), "key", target=str(who.key_id))
        await self._context.surely(lambda: self._sessions.add_link(link, audit=audit))
        return SessionLink(secret, LINK_SECONDS)

    @requires_none("it is the way in: the link is the credential")
    async def open_link(self, secret: str, origin: Origin, *, earlier: str | None = None) -> OpenedSession:
        """Begin the session of a link. Raises `Forbidden` on another machine, `Unauthenticated` for a link that was
        used or has expired, `SignInPaced`."""
        _check_local(origin)
        await self._pace.begin("", origin.address)
        subject = None
        if self._forms.fault(secret, SecretKind.LINK) is None:
            subject = await self._sessions.link(_digest(secret))
        caller = None if subject is None else await self._caller(subject)
        if subject is None or caller is None:
            self._denials.sign_in_failed("", origin)
            raise Unauthenticated("this link was used, or is too old; ask for another one: tickwise open")
        kind = CallerKind.KEY if subject.user_id is None else CallerKind.PERSON
        source = Source(kind, subject.key_id or subject.user_id, caller.name, *origin[:2])
        return await self._opening.begin(subject, source, origin, how="link", link=_digest(secret), earlier=earlier)

    @requires_none("the cookie is the credential, and the answer is its own caller")
    async def find(self, cookie: str, *, used: bool) -> FoundBrowser | None:
        """The caller of a cookie as it is now; None: its session has ended. `used`: by a person, not by a page that
        renews itself. Raises `StoreUnavailable`."""
        if self._forms.fault(cookie, SecretKind.COOKIE) is not None:
            return None
        session = await self._sessions.find(_digest(cookie), used=used)
        caller = None if session is None else await self._caller(session.subject)
        if session is None or caller is None:
            return None
        return FoundBrowser(caller, session.seconds_left, session.provider)

    @requires_none("it takes a right away, and the cookie is the credential")
    async def sign_out(self, cookie: str, who: Principal | None, origin: Origin) -> None:
        """End the session of a cookie. One that has ended is no error."""
        source = Source(CallerKind.STRANGER, None, "", *origin[:2]) if who is None else Source.of(who)
        audit = AuditEntry(INSTALLATION, AuditAction.SIGNED_OUT, source, "session")
        ended = await self._context.surely(lambda: self._sessions.end(digest=_digest(cookie), audit=audit))
        self._context.signals.send(Topic.KEYS, tuple(ended))

    async def _caller(self, subject: SessionSubject) -> Caller | None:
        """The person or the key, if it is as it was when the session began."""
        if subject.key_id is not None:
            found = await self._callers.of_key(subject.key_id, subject.generation)
            return None if found is None else found.caller
        if subject.user_id is None:
            return None
        row = await self._users.get(subject.user_id)
        if row is None or not row.active or row.generation != subject.generation:
            return None
        return await self._callers.of_person(row)


def _check_local(origin: Origin) -> None:
    if not is_loopback(origin.address):
        raise Forbidden("a link signs in on the machine of the server alone: call `tickwise open` there, or use /login")
