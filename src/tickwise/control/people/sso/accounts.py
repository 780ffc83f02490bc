"""The account of a person that a provider vouches for: found by the identity, added, and given the roles that follow.

    (issuer, subject) known ──► active? ──► roles as the mapping says now ──► the person
                      unknown ──► people are added here? a role follows? name and e-mail free? ──► added, tied to it

Invariant: a name or an e-mail never leads to an account. One that is taken refuses the sign-in, with what to do: an
administrator ties the account to the identity.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import structlog

from tickwise.control.context import ControlContext
from tickwise.control.known_roles import KnownRoles
from tickwise.control.names import NAME_CHARACTERS_MAX, clean_email, clean_name, complete_looks, looks
from tickwise.control.namespaces.directory import NamespaceDirectory
from tickwise.control.people.sso.rules import ProviderRules
from tickwise.domain.audit import PROGRAM, AuditAction, AuditEntry, CallerKind, Source
from tickwise.domain.audit_masking import shown
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Conflict, Invalid, NotFound, Unauthenticated, VersionConflict
from tickwise.domain.model import Origin, time_id
from tickwise.domain.names import email_key, name_key
from tickwise.ports.identity.identities import Identity, IdentityStore
from tickwise.ports.identity.oidc import ProviderClaims
from tickwise.ports.identity.users import Member, NewUser, RoleStore, UserChange, UserRow, UserStore
from tickwise.ports.signals import Topic

ATTEMPTS: Final = 3
"""Of a change that others change meanwhile: two tabs of one person sign in at once."""
_UNFIT: Final = re.compile(r"[^\w.\- ]+")

logger = structlog.get_logger("tickwise.people")


class ProviderAccounts:
    """Finds the people of identities, and adds them."""

    def __init__(
        self,
        context: ControlContext,
        rules: ProviderRules,
        *,
        users: UserStore,
        identities: IdentityStore,
        roles: RoleStore,
        directory: NamespaceDirectory,
    ) -> None:
        self._context = context
        self._rules = rules
        self._users = users
        self._identities = identities
        self._custom = roles
        self._directory = directory

    async def person(self, claims: ProviderClaims, origin: Origin) -> UserRow:
        """The person, with the roles that follow now. Raises `Unauthenticated` with the reason."""
        identity = Identity(claims.issuer, claims.subject)
        email = self._email(claims.claims)
        self._check_domain(email)
        for _ in range(ATTEMPTS):
            try:
                user_id = await self._identities.find(identity)
                row = None if user_id is None else await self._users.get(user_id)
                if row is None:
                    return await self._added(identity, claims.claims, email, origin)
                return await self._renewed(row, identity, claims.claims, origin)
            except VersionConflict:
                continue
            except Conflict as error:
                if error.code == "identity_taken":  # by another tab, a moment ago
                    continue
                raise self._refused(error) from error
        raise Unauthenticated("your account was changed meanwhile; sign in again")

    async def _added(self, identity: Identity, claims: Mapping[str, Any], email: str | None, origin: Origin) -> UserRow:
        if not self._rules.adds_people:
            issuer = "" if "://" in identity.issuer else f" --issuer {identity.issuer}"
            raise Unauthenticated(
                "nobody here is tied to your account at the provider: ask an administrator to do it "
                f"(tickwise users link NAME {identity.subject[:100]}{issuer})"
            )
        known = await self._known_roles()
        roles = await self._roles(claims, known)
        if not roles:
            raise _without_roles()
        name, clock = _name(claims, self._rules.name_claim, email), self._context.clock
        user = NewUser(
            user_id=time_id(int(clock.now() * 1000), clock.random_bytes(10)), name=name, name_key=name_key(name),
            email=email, email_key=None if email is None else email_key(email), password=None, roles=roles,
            created_by=PROGRAM, looks=looks(name), known_roles=known.custom_of(roles), identity=identity,
        )  # fmt: skip
        audit = AuditEntry(
            INSTALLATION, AuditAction.USER_ADDED, _program(origin), "user", target=str(user.user_id),
            after=shown({"name": name, "email": email, "roles": _texts(roles), "active": True}),
            detail=shown(identity_fields(identity)),
        )  # fmt: skip
        await complete_looks(self._users)
        row = await self._context.surely(lambda: self._users.add(user, audit=audit))
        logger.info("user_added_by_provider", user_id=str(row.user_id), name=name, issuer=identity.issuer)
        return row

    async def _renewed(self, row: UserRow, identity: Identity, claims: Mapping[str, Any], origin: Origin) -> UserRow:
        if not row.active:
            raise Unauthenticated("your account here is deactivated: ask an administrator")
        if not self._rules.roles_follow:
            return row
        known = await self._known_roles()
        roles = await self._roles(claims, known)
        if roles != row.roles:
            row = await self._changed(row, roles, known, identity, origin)
        if not roles:
            raise _without_roles()
        return row

    async def _changed(
        self, row: UserRow, roles: tuple[Member, ...], known: KnownRoles, identity: Identity, origin: Origin
    ) -> UserRow:
        change = UserChange(
            row=replace(row, roles=roles), name_key=name_key(row.name),
            email_key=None if row.email is None else email_key(row.email), looks=looks(row.name),
            known_roles=known.custom_of(roles),
        )  # fmt: skip
        audit = AuditEntry(
            INSTALLATION, AuditAction.USER_CHANGED, _program(origin), "user", target=str(row.user_id),
            before=shown({"roles": _texts(row.roles)}), after=shown({"roles": _texts(roles)}),
            detail=shown(identity_fields(identity)),
        )  # fmt: skip
        changed = await self._context.surely(lambda: self._users.change(change, audit=audit))
        self._context.signals.send(Topic.KEYS, (row.user_id,))
        logger.info("user_roles_followed_provider", user_id=str(row.user_id), name=row.name, roles=_texts(roles))
        return changed

    async def _roles(self, claims: Mapping[str, Any], known: KnownRoles) -> tuple[Member, ...]:
        """The roles that follow. One that is not there, or in a namespace that is not there, gives nothing."""
        found = set()
        for each in self._rules.roles.roles(claims, self._rules.groups_claim):
            member = Member(each.namespace, each.role)
            if known.grant(member) is None or not await self._is_there(each.namespace):
                logger.warning("oidc_role_unknown", role=each.role, namespace=each.namespace)
                continue
            found.add(member)
        return tuple(sorted(found))

    async def _is_there(self, namespace: str) -> bool:
        if namespace == INSTALLATION:
            return True
        try:
            await self._directory.check(namespace)
        except NotFound:
            return False
        return True

    async def _known_roles(self) -> KnownRoles:
        return KnownRoles(await self._custom.all(None))

    def _email(self, claims: Mapping[str, Any]) -> str | None:
        """The e-mail, if the provider has seen that it is the person's."""
        said = claims.get(self._rules.email_claim)
        # Some providers write booleans as texts.
        if not isinstance(said, str) or claims.get("email_verified") not in (True, "true"):
            return None
        try:
            return clean_email(said, "")
        except Invalid:
            return None

    def _check_domain(self, email: str | None) -> None:
        domains = self._rules.email_domains
        if domains and (email is None or email.rpartition("@")[2].lower() not in domains):
            raise Unauthenticated("your verified e-mail is of no domain that may sign in here")

    def _refused(self, error: Conflict) -> Unauthenticated:
        if error.code == "last_administrator":
            return Unauthenticated(
                "the provider takes the role of the last administrator away: give that role to another person first, "
                "or mend the mapping of groups to roles"
            )
        if error.code == "user_exists":
            return Unauthenticated(
                "there is an account here with your name or e-mail, or with a name that looks like it, and it is not "
                "tied to the provider. If it is yours, ask an administrator to tie it (tickwise users link)"
            )
        return Unauthenticated(error.detail)


def identity_fields(identity: Identity) -> Mapping[str, str]:
    """An identity in the audit log."""
    return {"issuer": identity.issuer, "subject": identity.subject}


def _name(claims: Mapping[str, Any], claim: str, email: str | None) -> str:
    """The name of a new person. Raises `Unauthenticated` if no claim gives one that can be."""
    for said in (claims.get(claim), claims.get("preferred_username"), email, claims.get("name")):
        if not isinstance(said, str):
            continue
        text = _UNFIT.sub(" ", said.partition("@")[0]).strip()[:NAME_CHARACTERS_MAX]
        try:
            return clean_name(text, "")
        except Invalid:
            continue
    raise Unauthenticated(f"the provider gives no name that can be one here; oidc_name_claim is {claim!r}")


def _without_roles() -> Unauthenticated:
    return Unauthenticated(
        "the provider knows you, and none of your groups there gives a role here: ask an administrator"
    )


def _program(origin: Origin) -> Source:
    return Source(CallerKind.PROGRAM, None, PROGRAM, *origin[:2])


def _texts(roles: Sequence[Member]) -> list[str]:
    return sorted(
        f"{each.role} in {each.namespace}" + "".join(f" {name}={value}" for name, value in each.labels)
        for each in roles
    )
