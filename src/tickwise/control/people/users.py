"""People: add, invite, change, deactivate, and give them roles.

Who may do it: an administrator of the installation everything; one of a namespace may add people who have roles in that
namespace alone, and give and take roles in it. Nobody gives a role that holds more than his own permissions. Passwords,
names and `active` of a person who belongs to several namespaces are for administrators of the installation: else the
administrator of one namespace would become a member of another by a new password.

Invariants: a password leaves this module as a hash alone. The secret of a link is told once, to the caller who made it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Final, NamedTuple
from uuid import UUID

import msgspec
import structlog
from msgspec import UNSET, Meta, UnsetType

from tickwise.control.access import check_namespace, holds_everywhere, requires, requires_none
from tickwise.control.audit.denials import Denials
from tickwise.control.audit.entries import entry
from tickwise.control.context import ControlContext
from tickwise.control.granted_labels import GrantedLabels, granted_labels
from tickwise.control.keys.forms import SecretForms, SecretKind, new_secret
from tickwise.control.keys.secrets import secret_digest
from tickwise.control.known_roles import KnownRoles
from tickwise.control.names import NAME_CHARACTERS_MAX, clean_email, clean_name, complete_looks, looks
from tickwise.control.namespaces.directory import NamespaceDirectory
from tickwise.control.people.pace import SignInPace
from tickwise.control.people.password_limits import is_beyond, limit_of
from tickwise.control.people.passwords import MAX_CHARACTERS, Passwords, check_password
from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Forbidden, Invalid, NotFound, SignInPaced, Unauthenticated, VersionConflict
from tickwise.domain.model import DEFAULT_NAMESPACE, Origin, Principal, time_id
from tickwise.domain.names import email_key, name_key
from tickwise.domain.permissions import Permission, Role
from tickwise.ports.identity.factors import Factor
from tickwise.ports.identity.users import LinkKind, Member, NewLink, NewUser, RoleStore, UserChange, UserRow, UserStore
from tickwise.ports.signals import Topic

INVITATION_SECONDS: Final = 7 * 86_400.0
RESET_SECONDS: Final = 86_400.0
ROLES_MAX: Final = 100
_OWN_PASSWORD: Final = "POST /api/v1/users/password"
"""The route of a refusal in the audit log."""

logger = structlog.get_logger("tickwise.people")

Password = Annotated[str, Meta(min_length=1, max_length=4 * MAX_CHARACTERS)]


class RoleBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A role in a namespace."""

    role: Annotated[str, Meta(min_length=1, max_length=100)]
    namespace: Annotated[str, Meta(min_length=1, max_length=63, description="`*`: each one, and the installation.")]
    labels: GrantedLabels | UnsetType | None = UNSET


Roles = Annotated[list[RoleBody], Meta(max_length=ROLES_MAX)]


class UserBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A person to add."""

    name: Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS_MAX)]
    email: str | None = None
    password: Password | None = None
    """None: the answer has a link, with which the person chooses one."""
    roles: Roles = []


class UserChangeBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The fields of a person to change."""

    name: Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS_MAX)] | UnsetType = UNSET
    email: str | UnsetType | None = UNSET
    roles: Roles | UnsetType = UNSET
    active: bool | UnsetType = UNSET
    expected_version: int | UnsetType = UNSET


class LinkUseBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The secret of a link, and the password that the person chooses."""

    secret: Annotated[str, Meta(min_length=1, max_length=200)]
    password: Password


class PasswordBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Another password for oneself."""

    current: Password
    password: Password


class RegisterBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A person who registers."""

    name: Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS_MAX)]
    email: str | None = None
    password: Password


class SelfRegistration(NamedTuple):
    """The rule for people who register themselves: allowed or not, and their role."""

    is_open: bool = False
    role: str = Role.VIEWER
    namespace: str = DEFAULT_NAMESPACE


class SeenUser(NamedTuple):
    """A person as a caller sees them."""

    row: UserRow
    needs_link: bool = False
    """The password was chosen, or could be, by somebody who holds less: it opens nothing until a link replaces it."""


class AddedUser(NamedTuple):
    """A person, and the secret of a link for them; None: they have a password."""

    user: SeenUser
    secret: str | None


class UserService:
    """Everything about people."""

    def __init__(
        self,
        context: ControlContext,
        users: UserStore,
        roles: RoleStore,
        passwords: Passwords,
        directory: NamespaceDirectory,
        registration: SelfRegistration,
        pace: SignInPace,
        denials: Denials,
    ) -> None:
        """`denials` counts refusals for the audit log."""
        self._context = context
        self._users = users
        self._custom = roles
        self._passwords = passwords
        self._directory = directory
        self._registration = registration
        self._denials = denials
        self._forms = SecretForms()
        self._pace = pace

    @requires(Permission.USERS_ADMIN)
    async def add(self, who: Principal, body: UserBody) -> AddedUser:
        """A new person. Raises `Forbidden` for a role that is more than the caller's own, `Invalid`, `Conflict`."""
        name = clean_name(body.name, "/name")
        email = None if body.email is None else clean_email(body.email, "/email")
        known = await self._known_roles()
        roles = await self._roles(who, body.roles, known)
        if not roles and not _is_everywhere(who):
            raise Invalid(f"give the person a role in the namespace {who.namespace}", pointer="/roles")
        hashed: str | None = None
        if body.password is not None:
            check_password(body.password, "/password", _about(name, email))
            hashed = await self._passwords.hash(body.password)
        user = replace(
            self._new(name, email, hashed, roles, by=who.name),
            password_limit=None if hashed is None else limit_of(who),
            known_roles=known.custom_of(roles),
        )
        audit = entry(
            who, AuditAction.USER_ADDED, "user", user.user_id, namespace=_place(who),
            after=_shown(_place(who), name, email, roles),
        )  # fmt: skip
        await complete_looks(self._users)
        row = await self._context.surely(lambda: self._users.add(user, audit=audit))
        secret = None if hashed is not None else await self._link(who, row, LinkKind.INVITATION, INVITATION_SECONDS)
        logger.info("user_added", user_id=str(row.user_id), name=row.name, by=who.name)
        return AddedUser(SeenUser(row), secret)

    @requires_none("anybody who reaches the server may register where a setting allows it")
    async def register(self, body: RegisterBody, origin: Origin) -> SeenUser:
        """A new person, with the role that the settings give. Raises `Forbidden` where registration is off, `Invalid`,
        `Conflict`, `SignInPaced`."""
        if not self._registration.is_open:
            self._denials.stranger(origin, 403)
            raise Forbidden("people do not register themselves here: ask an administrator for an invitation")
        await self._pace.begin("", origin.address)
        name = clean_name(body.name, "/name")
        email = None if body.email is None else clean_email(body.email, "/email")
        check_password(body.password, "/password", _about(name, email))
        user = self._new(
            name, email, await self._passwords.hash(body.password),
            (Member(self._registration.namespace, self._registration.role),), by=name,
        )  # fmt: skip
        audit = AuditEntry(
            INSTALLATION,
            AuditAction.USER_REGISTERED,
            Source(CallerKind.PERSON, user.user_id, name, *origin[:2]),
            "user",
            target=str(user.user_id),
        )
        await complete_looks(self._users)
        row = await self._context.surely(lambda: self._users.add(user, audit=audit))
        logger.info("user_registered", user_id=str(row.user_id), name=row.name, address=origin.address)
        return SeenUser(row)

    @requires(Permission.USERS_READ)
    async def page(
        self, who: Principal, after: UUID | None, limit: int, *, namespace: str | None = None
    ) -> Sequence[SeenUser]:
        """People of the caller's namespace, or of the installation; the newest first. With `namespace`, those with a
        role in it. Raises `Forbidden` for one that the caller does not see."""
        mine = None if _is_everywhere(who) else who.namespace
        if mine is not None and namespace is not None:
            check_namespace(who, namespace)
        rows = await self._users.page(mine or namespace, after=after, limit=limit)
        known = await self._known_roles()
        return [_visible(who, row, known) for row in rows]

    @requires(Permission.USERS_READ)
    async def get(self, who: Principal, user_id: UUID) -> SeenUser:
        """One person. Raises `NotFound`, also for a member of other namespaces alone."""
        return _visible(who, await self._row(who, user_id), await self._known_roles())

    @requires(Permission.USERS_ADMIN)
    async def change(self, who: Principal, user_id: UUID, body: UserChangeBody) -> SeenUser:
        """Change name, e-mail, roles or `active`. Raises `NotFound`, `Forbidden`, `Invalid`, `Conflict`,
        `VersionConflict`."""
        row = await self._row(who, user_id)
        if body.expected_version is not UNSET and body.expected_version != row.version:
            raise VersionConflict(f"the user is at version {row.version}, not {body.expected_version}: look again")
        if (body.name, body.email, body.active) != (UNSET, UNSET, UNSET):
            self._check_owned(who, row)
        known = await self._known_roles()
        _check_weaker(who, row, known)
        name = row.name if body.name is UNSET else clean_name(body.name, "/name")
        email = row.email
        if body.email is not UNSET:
            email = None if body.email is None else clean_email(body.email, "/email")
        roles = row.roles
        if body.roles is not UNSET:
            kept = () if _is_everywhere(who) else tuple(each for each in row.roles if each.namespace != who.namespace)
            roles = tuple(sorted({*kept, *await self._roles(who, body.roles, known)}))
        change = UserChange(
            row=replace(
                row, name=name, email=email, roles=roles, active=row.active if body.active is UNSET else body.active
            ),
            name_key=name_key(name),
            email_key=None if email is None else email_key(email),
            looks=looks(name),
            known_roles=known.custom_of(roles),
        )
        needs_link = _needs_link(change.row, known)
        audit = entry(
            who,
            AuditAction.USER_CHANGED,
            "user",
            user_id,
            namespace=_place(who),
            before=_shown(_place(who), row.name, row.email, row.roles, active=row.active),
            after=_shown(_place(who), name, email, roles, active=change.row.active),
            detail={"needs_link": True} if needs_link and not _needs_link(row, known) else None,
        )
        await complete_looks(self._users)
        changed = await self._context.surely(lambda: self._users.change(change, audit=audit))
        self._context.signals.send(Topic.KEYS, (user_id,))
        logger.info("user_changed", user_id=str(user_id), name=changed.name, by=who.name)
        return _visible(who, changed, known)

    @requires(Permission.USERS_ADMIN)
    async def reset(self, who: Principal, user_id: UUID) -> str:
        """The secret of a link with which the person chooses another password. Raises `NotFound`, `Forbidden`,
        `VersionConflict`."""
        row = await self._row(who, user_id)
        self._check_owned(who, row)
        _check_weaker(who, row, await self._known_roles())
        kind = LinkKind.RESET if row.has_password else LinkKind.INVITATION
        return await self._link(who, row, kind, RESET_SECONDS)

    @requires(Permission.USERS_ADMIN)
    async def factors(self, who: Principal, user_id: UUID) -> Sequence[Factor]:
        """The second factors of a person. Raises `NotFound`."""
        row = await self._row(who, user_id)
        return [each for each in await self._context.store.factors.of(row.user_id) if each.confirmed]

    @requires(Permission.USERS_ADMIN)
    async def reset_factors(self, who: Principal, user_id: UUID) -> int:
        """Forget all second factors of a person, with the recovery codes, and end all sessions. The person is told at
        the next sign-in to the pages. Raises `NotFound`, `Forbidden`."""
        row = await self._row(who, user_id)
        self._check_owned(who, row)
        _check_weaker(who, row, await self._known_roles())
        store = self._context.store
        audit = entry(who, AuditAction.FACTORS_RESET, "user", user_id, namespace=_place(who))
        gone = await self._context.surely(lambda: store.factors.reset(user_id, who.name, audit=audit))
        ended = AuditEntry(INSTALLATION, AuditAction.SIGNED_OUT, Source.of(who), "session")
        families = await store.sessions.revoke(user_id=user_id, audit=ended)
        browsers = await store.browser_sessions.end(user_id=user_id, audit=ended)
        self._context.signals.send(Topic.KEYS, (user_id, *families, *browsers))
        logger.info("second_factors_reset", user_id=str(user_id), name=row.name, by=who.name, count=gone)
        return gone

    @requires_none("the secret of the link is the credential")
    async def use_link(self, body: LinkUseBody, origin: Origin) -> SeenUser:
        """Choose a password by a link. Raises `Unauthenticated` for a link that works no more, `Invalid`,
        `SignInPaced`."""
        await self._pace.begin("", origin.address)
        fault = self._forms.fault(body.secret, SecretKind.LINK)
        if fault is not None:
            self._denials.stranger(origin, 401)
            raise Unauthenticated(fault)
        digest = secret_digest(body.secret.encode())
        # The name of the person is known here alone. A link that works no more is refused below, by its use.
        holder = await self._users.link_holder(digest)
        check_password(body.password, "/password", () if holder is None else _about(holder.name, holder.email))
        hashed = await self._passwords.hash(body.password)
        source = Source(CallerKind.STRANGER, None, "", *origin[:2])
        audit = AuditEntry(INSTALLATION, AuditAction.LINK_USED, source, "user")
        row = await self._users.use_link(digest, hashed, audit=audit)
        if row is None:
            self._denials.stranger(origin, 401)
            raise Unauthenticated(
                "this link does not work: it was used or is too old, another was made, or your roles or e-mail changed "
                "since; ask for a new one"
            )
        self._context.signals.send(Topic.KEYS, (row.user_id,))
        logger.info("user_chose_password", user_id=str(row.user_id), name=row.name)
        return SeenUser(row)

    @requires_none("the secret of the link is the permission")
    async def link_works(self, secret: str) -> bool:
        """Check whether a link leads to a password still. Nothing is used up."""
        if self._forms.fault(secret, SecretKind.LINK) is not None:
            return False
        return await self._users.link_holder(secret_digest(secret.encode())) is not None

    @requires_none("it is about the caller, and asks for the present password")
    async def change_password(self, who: Principal, body: PasswordBody) -> SeenUser:
        """Choose another password for oneself; all sessions end. Raises `Forbidden` for a key, `Invalid` for a wrong
        present password or a weak new one, `SignInPaced`, `VersionConflict`."""
        row = None if who.user_id is None else await self._users.get(who.user_id)
        if row is None:
            raise Forbidden("a key has no password: sign in as a person")
        account = name_key(row.name)
        # Not the address: a token that was stolen guesses no password from many. One for each person: nobody keeps
        # others waiting.
        place = f"own password of {row.user_id}"
        try:
            await self._pace.begin(account, place)
        except SignInPaced:
            self._denials.denied(who, _OWN_PASSWORD, 429)
            raise
        known = await self._users.sign_in(account)
        if known is None or not await self._passwords.verify(known.password, body.current):
            await self._pace.failed(account, place)
            self._denials.denied(who, _OWN_PASSWORD, 422)
            raise Invalid("this is not your present password", pointer="/current", code="password_wrong")
        check_password(body.password, "/password", _about(row.name, row.email))
        change = UserChange(
            row=row,
            name_key=name_key(row.name),
            email_key=None if row.email is None else email_key(row.email),
            password=await self._passwords.hash(body.password),
            looks=looks(row.name),
        )
        audit = entry(who, AuditAction.PASSWORD_CHANGED, "user", row.user_id, namespace=INSTALLATION)
        changed = await self._users.change(change, audit=audit)
        self._context.signals.send(Topic.KEYS, (row.user_id,))
        return SeenUser(changed)

    def _new(
        self, name: str, email: str | None, password: str | None, roles: tuple[Member, ...], *, by: str
    ) -> NewUser:
        clock = self._context.clock
        return NewUser(
            user_id=time_id(int(clock.now() * 1000), clock.random_bytes(10)),
            name=name,
            name_key=name_key(name),
            email=email,
            email_key=None if email is None else email_key(email),
            password=password,
            roles=roles,
            created_by=by,
            looks=looks(name),
        )

    async def _link(self, who: Principal, row: UserRow, kind: LinkKind, seconds: float) -> str:
        secret = new_secret(self._context.clock, SecretKind.LINK)
        link = NewLink(
            digest=secret_digest(secret.encode()),
            kind=kind,
            user_id=row.user_id,
            generation=row.generation,
            seconds=seconds,
            created_by=who.name,
            password_limit=limit_of(who),
        )
        audit = entry(
            who, AuditAction.LINK_MADE, "user", row.user_id, namespace=_place(who), detail={"kind": kind.value}
        )
        await self._context.surely(lambda: self._users.link(link, audit=audit))
        return secret

    async def _row(self, who: Principal, user_id: UUID) -> UserRow:
        row = await self._users.get(user_id)
        if row is None or not (_is_everywhere(who) or any(each.namespace == who.namespace for each in row.roles)):
            raise NotFound(f"there is no user {user_id} in the namespace {who.namespace}")
        return row

    async def _roles(self, who: Principal, wanted: Sequence[RoleBody], known: KnownRoles) -> tuple[Member, ...]:
        """The roles that are to be given, if the caller may give them."""
        found = set()
        for number, each in enumerate(wanted):
            pointer = f"/roles/{number}"
            if each.namespace != who.namespace and not _is_everywhere(who):
                raise Forbidden(
                    f"an administrator of {who.namespace} gives roles in that namespace alone", pointer=pointer
                )
            if each.namespace != INSTALLATION:
                await self._directory.check(each.namespace)
            member = Member(each.namespace, each.role, granted_labels(each.labels, f"{pointer}/labels"))
            if known.permissions(member) is None:
                raise Invalid(
                    f"there is no role {each.role!r}: take viewer, operator, developer, admin or one of the namespace",
                    pointer=f"{pointer}/role",
                )
            if known.grant(member) is None:
                raise Invalid(
                    f"the role {each.role} is for jobs with other values of these labels, so it would hold for none",
                    pointer=f"{pointer}/labels",
                )
            if known.is_more(member, who):
                raise Forbidden(f"the role {each.role} holds more than your own permissions", pointer=pointer)
            found.add(member)
        return tuple(sorted(found))

    async def _known_roles(self) -> KnownRoles:
        return KnownRoles(await self._custom.all(None))

    def _check_owned(self, who: Principal, row: UserRow) -> None:
        """Raises `Forbidden` if the person belongs to others, too."""
        if not _is_everywhere(who) and any(each.namespace != who.namespace for each in row.roles):
            raise Forbidden("this person has roles elsewhere: an administrator of the installation can do it")


def _check_weaker(who: Principal, row: UserRow, known: KnownRoles) -> None:
    """Raises `Forbidden` if the person may do more than the caller where the caller administers: no administrator
    changes a person with more permissions."""
    for each in row.roles:
        if (each.namespace == who.namespace or _is_everywhere(who)) and known.is_more(each, who):
            raise Forbidden(f"this person is {each.role} in {each.namespace}, and may do more than you")


def _needs_link(row: UserRow, known: KnownRoles) -> bool:
    return row.has_password and is_beyond(row.password_limit, known.grants(row.roles))


def _about(name: str, email: str | None) -> list[str]:
    return [name] if email is None else [name, email]


def _shown(
    place: str, name: str, email: str | None, roles: Sequence[Member], *, active: bool = True
) -> Mapping[str, object]:
    """The fields of a person in the audit log of a namespace, which names no roles elsewhere."""
    given = sorted(_role_text(each) for each in roles if place in (INSTALLATION, each.namespace))
    return {"name": name, "email": email, "roles": given, "active": active}


def _role_text(member: Member) -> str:
    labels = ", ".join(f"{name}={value}" for name, value in sorted(member.labels))
    return f"{member.role} in {member.namespace}{f' for jobs with {labels}' if labels else ''}"


def _place(who: Principal) -> str:
    """The namespace of an entry about a person."""
    return INSTALLATION if _is_everywhere(who) else who.namespace


def _is_everywhere(who: Principal) -> bool:
    return holds_everywhere(who, Permission.USERS_ADMIN)


def _visible(who: Principal, row: UserRow, known: KnownRoles) -> SeenUser:
    """The person as the caller may see it: without roles in other namespaces and what follows from them, and without
    the name of somebody else who added the person."""
    if not _is_everywhere(who):
        row = replace(
            row,
            roles=tuple(each for each in row.roles if each.namespace == who.namespace),
            created_by=row.created_by if row.created_by in (who.name, row.name) else "",
        )
    return SeenUser(row, _needs_link(row, known))
