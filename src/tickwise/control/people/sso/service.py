"""Sign-in by a provider: begun, completed once by the same browser, and ended when the provider says so.

    begin ──► state in the store, secret in the browser ──► provider ──► complete: state once, same browser, same issuer
                                                                             └─ code ──► claims ──► account ──► session
    logout token ──checked, once──► sessions of browsers, refresh tokens

Invariant: an answer of the provider counts in the browser that asked, once, and within `SIGN_IN_SECONDS`.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final, NamedTuple

import structlog

from tickwise.control.access import requires_none
from tickwise.control.audit.denials import Denials
from tickwise.control.context import ControlContext
from tickwise.control.keys.secrets import secret_digest
from tickwise.control.people.pace import SignInPace
from tickwise.control.people.password_check import PasswordSignIn
from tickwise.control.people.session_opening import OpenedSession, SessionOpening
from tickwise.control.people.sso.accounts import ProviderAccounts
from tickwise.control.people.sso.rules import SsoConfig
from tickwise.control.people.sso.secrets import is_secret, new_text, sign_in_request
from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Busy, NotFound, ProviderUnavailable, Unauthenticated
from tickwise.domain.model import Origin
from tickwise.ports.identity.browser_sessions import SessionSubject
from tickwise.ports.identity.identities import (
    Identity,
    IdentityStore,
    ProviderSession,
    SessionLogout,
    SignInTransaction,
)
from tickwise.ports.identity.oidc import ProviderClaims
from tickwise.ports.identity.users import UserStore
from tickwise.ports.signals import Topic

SIGN_IN_SECONDS: Final = 600.0
"""The time for a password, a second factor and a consent at the provider."""
CODE_CHARACTERS_MAX: Final = 4_096
SAID_CHARACTERS_MAX: Final = 200
CALLBACK: Final = "/login/provider/callback"
"""The path, among the pages, that providers send browsers back to."""

logger = structlog.get_logger("tickwise.people")


class BegunSignIn(NamedTuple):
    """A sign-in that a browser began."""

    url: str
    """The provider's, for the browser."""
    secret: str
    """For the browser to keep."""
    seconds: float


class CompletedSignIn(NamedTuple):
    """A sign-in that the provider vouched for."""

    opened: OpenedSession
    back: str
    """The address of ours that the browser asked for."""


class ProviderFacts(NamedTuple):
    """The provider, for people who have not signed in."""

    button: str
    issuer: str
    away: str | None
    """The reason for which it gave no answer lately."""


class SsoService:
    """Signs people in by the provider. Without one, `provider` gives None and the rest refuses."""

    def __init__(
        self,
        context: ControlContext,
        config: SsoConfig | None,
        *,
        accounts: ProviderAccounts | None,
        identities: IdentityStore,
        users: UserStore,
        opening: SessionOpening,
        pace: SignInPace,
        denials: Denials,
        passwords: PasswordSignIn,
    ) -> None:
        self._context = context
        self._config = config
        self._accounts = accounts
        self._identities = identities
        self._users = users
        self._opening = opening
        self._pace = pace
        self._denials = denials
        self.passwords = passwords
        """The people that sign in with a password."""

    @requires_none("the page of the sign-in shows it to strangers")
    def provider(self) -> ProviderFacts | None:
        """The provider; None: there is none."""
        if self._config is None:
            return None
        provider, rules = self._config
        return ProviderFacts(rules.button, provider.issuer, provider.away)

    @requires_none("it is the way in: nothing is granted yet")
    async def begin(self, back: str, secret: str | None, origin: Origin) -> BegunSignIn:
        """Begin a sign-in. `back`: an address of ours. `secret`: that of the browser, if it has one. Raises
        `SignInPaced`, `Busy`, `ProviderUnavailable`, and `NotFound` without a provider."""
        config = self._needed()
        await self._pace.begin("", origin.address)
        kept, state = secret if secret is not None and is_secret(secret) else "", new_text(self._context.clock)
        kept = kept or new_text(self._context.clock)
        url = await config.provider.authorization_url(sign_in_request(kept, state))
        transaction = SignInTransaction(
            digest=_digest(state), browser=_digest(kept), back=back, seconds=SIGN_IN_SECONDS
        )
        if not await self._context.surely(lambda: self._identities.begin(transaction)):
            raise Busy("too many sign-ins are under way; try again in a minute", retry_after_seconds=60.0)
        return BegunSignIn(url, kept, SIGN_IN_SECONDS)

    @requires_none("it is the way in: the code of the provider is the credential")
    async def complete(
        self, answer: Mapping[str, str], secret: str | None, origin: Origin, *, earlier: str | None = None
    ) -> CompletedSignIn:
        """Complete a sign-in by the parameters with which the provider sent the browser back. The session of the cookie
        `earlier` ends. Raises `Unauthenticated` with the reason, `SignInPaced`, `ProviderUnavailable`, and `NotFound`
        without a provider."""
        self._needed()
        await self._pace.begin("", origin.address)
        try:
            return await self._completed(answer, secret, origin, earlier)
        except Unauthenticated as refusal:
            logger.info("provider_sign_in_refused", reason=refusal.detail, address=origin.address)
            self._denials.sign_in_failed("", origin)
            raise

    @requires_none("the signature of the provider is the permission")
    async def log_out(self, token: str, origin: Origin) -> None:
        """End the sessions that a logout token names. Raises `Unauthenticated` for one that does not count,
        `SignInPaced`, `ProviderUnavailable`, and `NotFound` without a provider."""
        config = self._needed()
        try:
            told = await config.provider.logout(token)
        except Unauthenticated:
            await self._pace.begin("", origin.address)
            self._denials.stranger(origin, 401)
            raise
        source = Source(CallerKind.STRANGER, None, "", *origin[:2])
        audit = AuditEntry(INSTALLATION, AuditAction.SIGNED_OUT, source, "session")
        logout = SessionLogout(
            issuer=told.issuer, subject=told.subject, session=told.session,
            digest=_digest(f"{told.issuer}\0{told.token_id}"), seconds=told.seconds,
        )  # fmt: skip
        ended = await self._identities.log_out(logout, audit=audit)
        if ended is None:
            self._denials.stranger(origin, 401)
            raise Unauthenticated("this logout token was used before")
        self._context.signals.send(Topic.KEYS, (*ended.sessions, *(() if ended.user_id is None else (ended.user_id,))))
        logger.info("provider_signed_out", user_id=str(ended.user_id), sessions=len(ended.sessions))

    @requires_none("the address is the provider's own")
    async def sign_out_url(self) -> str | None:
        """The address at which a person signs out at the provider, too; None: there is none. Raises
        `ProviderUnavailable`, and `NotFound` without a provider."""
        config = self._needed()
        return await config.provider.end_session_url(f"{config.rules.public_url}/login")

    async def _completed(
        self, answer: Mapping[str, str], secret: str | None, origin: Origin, earlier: str | None
    ) -> CompletedSignIn:
        config, state = self._needed(), answer.get("state")
        taken = await self._identities.take(_digest(state)) if state is not None and is_secret(state) else None
        if state is None or taken is None:
            raise Unauthenticated("this sign-in was completed, or took too long: begin again")
        if secret is None or not hmac.compare_digest(_digest(secret), taken.browser):
            raise Unauthenticated("this sign-in was begun in another browser: begin again here")
        await config.provider.check_issuer(answer.get("iss"))
        if "error" in answer:
            raise Unauthenticated(f"the provider refused the sign-in: {_said(answer)}")
        code = answer.get("code", "")
        if not 0 < len(code) <= CODE_CHARACTERS_MAX:
            raise Unauthenticated("the answer of the provider has no code")
        claims = await config.provider.redeem(code, sign_in_request(secret, state), config.rules.wanted)
        return CompletedSignIn(await self._opened(claims, origin, earlier), taken.back)

    async def _opened(self, claims: ProviderClaims, origin: Origin, earlier: str | None) -> OpenedSession:
        if self._accounts is None:
            raise ProviderUnavailable("no provider signs people in here")
        row = await self._accounts.person(claims, origin)
        await self._users.signed_in(row.user_id)
        provider = ProviderSession(Identity(claims.issuer, claims.subject), claims.session)
        subject = SessionSubject(row.user_id, None, row.generation)
        source = Source(CallerKind.PERSON, row.user_id, row.name, *origin[:2])
        return await self._opening.begin(subject, source, origin, how="provider", earlier=earlier, provider=provider)

    def _needed(self) -> SsoConfig:
        if self._config is None:
            raise NotFound("no provider signs people in here: set TICKWISE_OIDC_ISSUER")
        return self._config


def _digest(text: str) -> bytes:
    return secret_digest(text.encode("utf-8", "surrogatepass"))


def _said(answer: Mapping[str, str]) -> str:
    text = ": ".join(answer[name] for name in ("error", "error_description") if answer.get(name))
    return "".join(each if each.isprintable() else "?" for each in text[:SAID_CHARACTERS_MAX])
