"""Sign-in by a proxy before the pages: it has signed the person in, and says in headers who it is.

    browser ──► proxy: who? ──► headers ──► here: a connection of that proxy? ──► account ──► session
                                                                                      └─ each request: still the same?

Invariant: a session that came of a proxy is good on its connections alone, and only while its headers say what they
said when it began. So a person who signs out at the proxy, or changes groups there, does so here at the next page.
"""

from __future__ import annotations

import hashlib
import json
from typing import Final, NamedTuple

import structlog

from tickwise.control.access import requires_none
from tickwise.control.audit.denials import Denials
from tickwise.control.people.session_opening import OpenedSession, SessionOpening
from tickwise.control.people.sso.accounts import ProviderAccounts
from tickwise.control.people.sso.rules import ProviderRules
from tickwise.domain.audit import CallerKind, Source
from tickwise.domain.errors import NotFound, TickwiseError
from tickwise.domain.model import Origin
from tickwise.ports.identity.browser_sessions import SessionSubject
from tickwise.ports.identity.identities import Identity, ProviderSession
from tickwise.ports.identity.oidc import ProviderClaims
from tickwise.ports.identity.users import UserStore

PROXY_ISSUER: Final = "proxy"
"""The issuer of people that a proxy vouches for, where an identity is tied by hand (`tickwise users link --issuer`)."""
NAME_CLAIM: Final = "name"
EMAIL_CLAIM: Final = "email"
GROUPS_CLAIM: Final = "groups"

logger = structlog.get_logger("tickwise.people")


class ProxyConfig(NamedTuple):
    """The way in which a proxy signs people in."""

    rules: ProviderRules
    sign_out_url: str | None
    """The address at which a person signs out at the proxy, too."""


class ProxyPerson(NamedTuple):
    """A person as the headers of a proxy say."""

    name: str
    email: str | None = None
    groups: tuple[str, ...] = ()

    @property
    def session(self) -> ProviderSession:
        """The name and a digest of the rest: a session of this person is tied to them."""
        said = json.dumps([self.name, self.email, sorted(self.groups)]).encode()
        return ProviderSession(Identity(PROXY_ISSUER, self.name), hashlib.sha256(said).hexdigest())


class ProxySignInService:
    """Signs people in whom a proxy vouches for. Without one, it refuses."""

    def __init__(
        self,
        config: ProxyConfig | None,
        *,
        accounts: ProviderAccounts | None,
        users: UserStore,
        opening: SessionOpening,
        denials: Denials,
    ) -> None:
        self._config = config
        self._accounts = accounts
        self._users = users
        self._opening = opening
        self._denials = denials

    @requires_none("it is an address of the settings, which a page shows to everybody")
    def sign_out_url(self) -> str | None:
        """The address at which a person signs out at the proxy; None: there is none."""
        return None if self._config is None else self._config.sign_out_url

    @requires_none(
        "it is the way in: the headers of the proxy are the credential, and the caller has checked its address"
    )
    async def sign_in(self, person: ProxyPerson, origin: Origin, *, earlier: str | None = None) -> OpenedSession:
        """Begin a session. The session of the cookie `earlier` ends. Raises `Unauthenticated` with the reason, and
        `NotFound` if no proxy signs people in."""
        if self._accounts is None:
            raise NotFound("no proxy signs people in here: set TICKWISE_PROXY_SIGN_IN_FROM")
        session = person.session
        claims = {NAME_CLAIM: person.name, GROUPS_CLAIM: list(person.groups)}
        if person.email is not None:
            claims |= {EMAIL_CLAIM: person.email, "email_verified": "true"}
        row = await self._accounts.person(ProviderClaims(*session.identity, session.session, claims), origin)
        await self._users.signed_in(row.user_id)
        source = Source(CallerKind.PERSON, row.user_id, row.name, *origin[:2])
        subject = SessionSubject(row.user_id, None, row.generation)
        return await self._opening.begin(subject, source, origin, how="proxy", earlier=earlier, provider=session)

    @requires_none("it only notes a refusal")
    def refused(self, refusal: TickwiseError, origin: Origin) -> None:
        """Note a sign-in by headers that do not count."""
        logger.warning("proxy_sign_in_refused", reason=refusal.detail, address=origin.address)
        self._denials.sign_in_failed("", origin)
