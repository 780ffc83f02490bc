"""Sign-in: a password, a refresh token or a key becomes a short access token.

    password ──verify, second step──► session: access (10 min) + refresh ──rotate──► access + refresh ──► …
    terminal that a person approved (`devices`) ──► the same
    key ─────────────► access, bounded by the key: for programs that must not hand the key itself around
    token of another issuer ──federation──► access, bounded by the federation: for programs without a key

How a password is checked, and at which pace: `password_check`. Keys and refresh tokens are asked for no second factor:
a key is a secret of its own, and a refresh token is of a sign-in that had its second step.

Invariant: a refresh token works once; shown again it ends its session, because one of two has a stolen one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Final, Literal, NamedTuple
from uuid import UUID

import msgspec
import structlog
from msgspec import UNSET, Meta, UnsetType

from tickwise.control.access import requires_none
from tickwise.control.audit.denials import Denials
from tickwise.control.callers import Callers
from tickwise.control.context import ControlContext
from tickwise.control.federations.exchange import ASSERTION_CHARACTERS_MAX, FederationExchange
from tickwise.control.keys.forms import SecretForms, SecretKind, new_secret
from tickwise.control.keys.secrets import secret_digest
from tickwise.control.namespaces.directory import NamespaceDirectory
from tickwise.control.people.bearers import TokenBearers, external_name
from tickwise.control.people.pace import SignInPace
from tickwise.control.people.password_check import PasswordCheck
from tickwise.control.people.scopes import namespace_of, scope_of
from tickwise.control.people.second_step import PASSWORD, SecondStep
from tickwise.control.people.tokens import ACCESS_SECONDS, AccessTokens, jwks
from tickwise.control.texts import clean_text
from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source, document
from tickwise.domain.callers import INSTALLATION, Caller
from tickwise.domain.errors import Forbidden, Invalid, NotFound, NoTokenGiven, TokensUnavailable, Unauthenticated
from tickwise.domain.model import Origin, Principal, time_id
from tickwise.ports.identity.browser_sessions import BrowserSessionStore
from tickwise.ports.identity.device_sign_ins import Poll
from tickwise.ports.identity.sessions import NewSession, Rotation, SessionStore
from tickwise.ports.identity.users import UserRow, UserStore
from tickwise.ports.signals import Topic

REFRESH_SECONDS: Final = 7 * 86_400.0
"""A session that is not used for so long ends."""
SESSION_SECONDS: Final = 30 * 86_400.0
"""A session ends after this long in any case."""

logger = structlog.get_logger("tickwise.people")

DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
ASSERTION_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
EXCHANGE_GRANT: Final = "urn:ietf:params:oauth:grant-type:token-exchange"

Text = Annotated[str, Meta(min_length=1, max_length=1_024)]
Assertion = Annotated[str, Meta(min_length=1, max_length=ASSERTION_CHARACTERS_MAX)]


class TokenBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A request for an access token (its fields are those of RFC 6749)."""

    grant_type: Literal[
        "password",
        "second_factor",
        "refresh_token",
        "api_key",
        "urn:ietf:params:oauth:grant-type:device_code",
        "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "urn:ietf:params:oauth:grant-type:token-exchange",
    ]
    username: Text | UnsetType = UNSET
    """The name or the e-mail."""
    password: Text | UnsetType = UNSET
    challenge: Text | UnsetType = UNSET
    """Of the problem `second_factor_required`, which answers a right password."""
    code: Text | UnsetType = UNSET
    """Of an app, or a recovery code."""
    refresh_token: Text | UnsetType = UNSET
    api_key: Text | UnsetType = UNSET
    device_code: Text | UnsetType = UNSET
    """The secret of a terminal (RFC 8628)."""
    assertion: Assertion | UnsetType = UNSET
    """The token of another issuer (RFC 7523)."""
    subject_token: Assertion | UnsetType = UNSET
    """The token of another issuer in a token exchange (RFC 8693)."""
    subject_token_type: (
        Literal["urn:ietf:params:oauth:token-type:jwt", "urn:ietf:params:oauth:token-type:id_token"] | UnsetType
    ) = UNSET
    federation: Annotated[str, Meta(min_length=1, max_length=200)] | UnsetType = UNSET
    """The id or the name of the federation that takes the token; left out: the oldest that does."""
    client_id: Annotated[str, Meta(max_length=200)] | UnsetType = UNSET
    """Taken, because clients of OAuth send it, and not looked at."""
    scope: Text | UnsetType = UNSET
    """Permissions that the token is bounded by, with spaces between."""
    namespace: Annotated[str, Meta(min_length=1, max_length=63)] | UnsetType = UNSET
    """The only namespace in which the token works."""


class Tokens(NamedTuple):
    """The tokens of a sign-in."""

    access: str
    refresh: str | None
    """None: made from a key, which asks again."""
    expires_in: int
    user: UserRow | None


class AuthService:
    """Makes, renews and revokes tokens."""

    def __init__(
        self,
        context: ControlContext,
        *,
        users: UserStore,
        sessions: SessionStore,
        browsers: BrowserSessionStore,
        check: PasswordCheck,
        second_step: SecondStep,
        tokens: AccessTokens,
        callers: Callers,
        bearers: TokenBearers,
        directory: NamespaceDirectory,
        pace: SignInPace,
        forms: SecretForms,
        denials: Denials,
        exchange: FederationExchange,
    ) -> None:
        """`denials` counts failed sign-ins for the audit log."""
        self._exchange = exchange
        self._context = context
        self._users = users
        self._sessions = sessions
        self._browsers = browsers
        self._check = check
        self._second_step = second_step
        self._tokens = tokens
        self._callers = callers
        self._bearers = bearers
        self._directory = directory
        self._pace = pace
        self._forms = forms
        self._denials = denials
        self._audit = context.store.audit

    @requires_none("it is the way in: the body holds the credential")
    async def token(self, body: TokenBody, origin: Origin) -> Tokens:
        """Tokens for a credential. Raises `Unauthenticated`, `SecondFactorRequired` (the password is right, and a step
        is left), `SecondFactorMissing`, `NoTokenGiven` (to a terminal that waits), `Invalid`, `SignInPaced`, `Busy`,
        `Unavailable` while the keys of an issuer cannot be had, and `TokensUnavailable` if this process has no key to
        sign with."""
        if not self._tokens.can_sign:
            raise TokensUnavailable("this process has no key to sign tokens with: set TICKWISE_TOKEN_KEY_FILE")
        if body.grant_type == "password":
            return await self._by_password(body, origin)
        if body.grant_type == "second_factor":
            return await self._by_second_factor(body, origin)
        # Each costs a query, and every client may cause one.
        await self._pace.begin("", origin.address)
        if body.grant_type == "refresh_token":
            return await self._by_refresh(body, origin)
        if body.grant_type == DEVICE_GRANT:
            return await self._by_device(body, origin)
        if body.grant_type in (ASSERTION_GRANT, EXCHANGE_GRANT):
            return await self._by_assertion(body, origin)
        return await self._by_key(body, origin)

    @requires_none("public keys are for anybody")
    async def key_set(self) -> Mapping[str, Sequence[Mapping[str, str]]]:
        """The key set that tokens are checked with (RFC 7517). Raises `StoreUnavailable`."""
        return jwks({each.key_id: each.public for each in await self._bearers.public_keys()})

    @requires_none("it takes a right away, and the body holds the credential")
    async def revoke(self, token: str, origin: Origin) -> None:
        """End the session of a refresh token. An unknown one is no error (RFC 7009, section 2.2)."""
        audit = _entry(AuditAction.SIGNED_OUT, _stranger(origin), "session")
        families = await self._sessions.revoke(digest=_digest(token), audit=audit)
        self._context.signals.send(Topic.KEYS, tuple(families))

    @requires_none("it ends the sessions of the caller")
    async def revoke_all(self, who: Principal) -> None:
        """End all sessions of the person who asks. A key has none."""
        if who.user_id is not None:
            audit = _entry(AuditAction.SIGNED_OUT, Source.of(who), "session")
            families = await self._sessions.revoke(user_id=who.user_id, audit=audit)
            browsers = await self._browsers.end(user_id=who.user_id, audit=audit)
            self._context.signals.send(Topic.KEYS, (*families, *browsers))

    async def _by_password(self, body: TokenBody, origin: Origin) -> Tokens:
        username = clean_text(_field(body.username, "username"), "/username")
        password = _field(body.password, "password")
        scope, namespace = scope_of(body.scope), namespace_of(body.namespace)
        signed = await self._check.person(username, password, origin)
        await self._check_namespace(signed.caller, namespace)
        step = await self._second_step.after_password(signed.row)
        if step is not None:
            raise step.refusal()
        return await self._begin(signed.row, scope, namespace, origin, self._family(), how=PASSWORD)

    async def _by_second_factor(self, body: TokenBody, origin: Origin) -> Tokens:
        challenge, code = _field(body.challenge, "challenge"), _field(body.code, "code")
        scope, namespace = scope_of(body.scope), namespace_of(body.namespace)
        passed = await self._second_step.by_code(challenge, code, origin)
        await self._check_namespace(await self._callers.of_person(passed.row), namespace)
        return await self._begin(passed.row, scope, namespace, origin, self._family(), how=passed.how)

    def _family(self) -> UUID:
        """The name of a new session."""
        clock = self._context.clock
        return time_id(int(clock.now() * 1000), clock.random_bytes(10))

    async def _begin(
        self,
        row: UserRow,
        scope: frozenset[str] | None,
        namespace: str | None,
        origin: Origin,
        family: UUID,
        *,
        how: str,
    ) -> Tokens:
        await self._users.signed_in(row.user_id)
        refresh = new_secret(self._context.clock, SecretKind.REFRESH)
        session = NewSession(
            family=family,
            digest=_digest(refresh),
            user_id=row.user_id,
            generation=row.generation,
            scope=scope,
            namespace=namespace,
            address=origin.address,
            seconds=REFRESH_SECONDS,
            most_seconds=SESSION_SECONDS,
        )
        source = Source(CallerKind.PERSON, row.user_id, row.name, *origin[:2])
        audit = _entry(AuditAction.SIGNED_IN, source, "user", str(row.user_id))._replace(detail=document({"how": how}))
        await self._context.surely(lambda: self._sessions.begin(session, audit=audit))
        logger.info("signed_in", user_id=str(row.user_id), name=row.name, address=origin.address)
        return self._tokens_of(session, refresh, row)

    async def _by_refresh(self, body: TokenBody, origin: Origin) -> Tokens:
        try:
            shown = self._secret(body.refresh_token, "refresh_token", SecretKind.REFRESH)
        except Unauthenticated:
            self._denials.sign_in_failed("", origin)
            raise
        refresh = new_secret(self._context.clock, SecretKind.REFRESH)
        audit = _entry(AuditAction.TOKEN_REUSED, _stranger(origin), "user")
        rotated = await self._context.surely(
            lambda: self._sessions.rotate(_digest(shown), _digest(refresh), audit=audit)
        )
        session = rotated.session
        if rotated.rotation is Rotation.REUSED and session is not None:
            self._context.signals.send(Topic.KEYS, (session.family,))
            logger.warning("refresh_token_reused", user_id=str(session.user_id), address=session.address)
        if rotated.rotation is not Rotation.ROTATED or session is None:
            if rotated.rotation is Rotation.UNKNOWN:  # one that was used before has an entry of its own
                self._denials.sign_in_failed("", origin)
            raise Unauthenticated(
                "this refresh token does not work: it was used or revoked, or is too old; sign in again"
            )
        return self._tokens_of(session, refresh, await self._users.get(session.user_id))

    async def _by_key(self, body: TokenBody, origin: Origin) -> Tokens:
        try:
            shown = self._secret(body.api_key, "api_key", SecretKind.KEY)
        except Unauthenticated:
            self._denials.sign_in_failed("", origin)
            raise
        found = await self._callers.of_digest(secret_digest(shown.encode()))
        if found is None or found.caller.key_id is None:
            self._denials.sign_in_failed("", origin)
            raise Unauthenticated(
                "this key is not known here; it may belong to another installation, be revoked, or its owner "
                "deactivated"
            )
        key_id = found.caller.key_id
        scope, namespace = scope_of(body.scope), namespace_of(body.namespace)
        await self._check_namespace(found.caller, namespace)
        source = Source(CallerKind.KEY, key_id, found.caller.name, *origin[:2])
        audit = _entry(AuditAction.TOKEN_MADE, source, "key", str(key_id))
        await self._audit.add([audit._replace(namespace=found.caller.home)])
        access = self._tokens.make(
            key_id,
            key_id,
            found.caller.secret,
            kind="key",
            scope=_text(scope),
            namespace=namespace or found.caller.home,
        )
        return Tokens(access, None, int(ACCESS_SECONDS), None)

    async def _by_device(self, body: TokenBody, origin: Origin) -> Tokens:
        """Tokens of the person who has approved a terminal, once."""
        try:
            shown = self._secret(body.device_code, "device_code", SecretKind.DEVICE)
        except Unauthenticated:
            self._denials.sign_in_failed("", origin)
            raise
        family = self._family()
        store = self._context.store.device_sign_ins
        polled = await self._context.surely(lambda: store.poll(_digest(shown), family=family))
        if polled.poll in NO_TOKEN:
            raise NO_TOKEN[polled.poll]()
        row = None if polled.user_id is None else await self._users.get(polled.user_id)
        if row is None or not row.active or row.generation != polled.generation:
            self._denials.sign_in_failed("", origin)
            raise Unauthenticated(
                "this device code does not work: it is not known, or was used, or the roles or the password of the "
                "person changed since they approved it; start again"
            )
        await self._check_namespace(await self._callers.of_person(row), polled.namespace)
        return await self._begin(row, polled.scope, polled.namespace, origin, family, how="device")

    async def _by_assertion(self, body: TokenBody, origin: Origin) -> Tokens:
        """An access token for the token of another issuer, bounded by its federation."""
        named = None if body.federation is UNSET else body.federation
        field = "assertion" if body.grant_type == ASSERTION_GRANT else "subject_token"
        scope, namespace = scope_of(body.scope), namespace_of(body.namespace)
        try:
            taken = await self._exchange.take(_field(getattr(body, field), field), named)
        except Unauthenticated:
            self._denials.sign_in_failed("", origin)
            raise
        federation, caller = taken.federation, taken.caller
        await self._check_namespace(caller, namespace)
        source = Source(
            CallerKind.KEY, federation.key_id, external_name(caller.name, taken.subject), *origin[:2]
        )  # fmt: skip
        audit = _entry(AuditAction.TOKEN_MADE, source, "federation", str(federation.key_id))
        await self._audit.add([audit._replace(namespace=caller.home, detail=document(taken.facts))])
        access = self._tokens.make(
            federation.key_id,
            federation.key_id,
            caller.secret,
            kind="key",
            scope=_text(scope),
            namespace=namespace,
            external=taken.subject,
            seconds=federation.lifetime_seconds,
        )
        return Tokens(access, None, int(federation.lifetime_seconds), None)

    def _secret(self, value: str | UnsetType, name: str, kind: SecretKind) -> str:
        """The secret in a field. Raises `Invalid` if there is none, `Unauthenticated` if it cannot be of this kind."""
        shown = _field(value, name)
        fault = self._forms.fault(shown, kind)
        if fault is not None:
            raise Unauthenticated(fault)
        return shown

    async def _check_namespace(self, caller: Caller, namespace: str | None) -> None:
        """Raises `Invalid` unless the caller has a permission in the namespace and there is one of this name; one
        answer for both. Only for a caller whose credential was verified."""
        if namespace is None:
            return
        try:
            await self._directory.principal(caller, namespace)
        except (Forbidden, NotFound) as error:
            raise Invalid(
                f"there is no namespace {namespace!r} in which {caller.name} has a permission", pointer="/namespace"
            ) from error

    def _tokens_of(self, session: NewSession, refresh: str, row: UserRow | None) -> Tokens:
        access = self._tokens.make(
            session.user_id,
            session.family,
            session.generation,
            kind="user",
            scope=_text(session.scope),
            namespace=session.namespace,
        )
        return Tokens(access, refresh, int(ACCESS_SECONDS), row)


NO_TOKEN: Final[Mapping[Poll, Callable[[], NoTokenGiven]]] = MappingProxyType(
    {
        Poll.PENDING: lambda: NoTokenGiven(
            "nobody has approved this terminal yet; ask again after the interval", code="authorization_pending"
        ),
        Poll.SLOW_DOWN: lambda: NoTokenGiven(
            "this came too early; from now on wait 5 s longer between two requests", code="slow_down"
        ),
        Poll.DENIED: lambda: NoTokenGiven("the person denied the request of this terminal", code="access_denied"),
        Poll.EXPIRED: lambda: NoTokenGiven(
            "nobody approved this terminal in time; start the sign-in again", code="expired_token"
        ),
    }
)  # fmt: skip
"""The errors of RFC 8628, section 3.5."""


def _entry(action: AuditAction, source: Source, kind: str, target: str | None = None) -> AuditEntry:
    return AuditEntry(INSTALLATION, action, source, kind, target=target)


def _stranger(origin: Origin) -> Source:
    return Source(CallerKind.STRANGER, None, "", *origin[:2])


def _digest(token: str) -> bytes:
    return secret_digest(token.encode("utf-8", "surrogatepass"))


def _field(value: str | UnsetType, name: str) -> str:
    if value is UNSET:
        raise Invalid(f"this grant_type needs {name}", pointer=f"/{name}")
    return value


def _text(scope: frozenset[str] | None) -> str | None:
    return None if scope is None else " ".join(sorted(scope))
