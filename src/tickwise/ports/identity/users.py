"""People: their names, passwords, roles in namespaces, and the links that admit them once.

    add ──► invited ──link──► active ◄──► deactivated
             (no password)      │ password, roles: `generation` grows, and tokens of before are refused

Invariants: an installation that ever had an administrator has one. A password is kept as its argon2id hash alone. A
link works once, and not after its time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol
from uuid import UUID

from tickwise.domain.audit import AuditEntry
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Conflict, VersionConflict
from tickwise.domain.permissions import ROLES
from tickwise.domain.selectors import Labels
from tickwise.ports.identity.identities import Identity


class Member(NamedTuple):
    """A role of a person in a namespace."""

    namespace: str
    """`*`: in each one, and for the installation itself."""
    role: str
    """A built-in role (`domain.permissions.Role`), or a custom one of that namespace."""
    labels: Labels = ()
    """The role holds for jobs that have all of these; none: for all jobs."""


class PasswordLimit(NamedTuple):
    """A bound of a password that somebody else chose, or could have chosen by a link: it opens what they could open."""

    namespace: str
    """`*`: each one."""
    permissions: frozenset[str]
    """Those that they had there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRow:
    """A person. `name` and `email` are as they were written; no two people have the same under `same_as`."""

    user_id: UUID
    name: str
    email: str | None
    roles: tuple[Member, ...]
    has_password: bool
    active: bool
    generation: int
    """Grows when the password, the roles or `active` change: a token names the one that it was made for."""
    created_at: float
    created_by: str
    signed_in_at: float | None
    version: int
    password_limit: PasswordLimit | None = None
    """None: the password opens all that the person may do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewUser:
    """A person to add."""

    user_id: UUID
    name: str
    name_key: str
    """The name as it is compared: folded, so that names that look alike are one."""
    email: str | None
    email_key: str | None
    password: str | None
    """The hash, as argon2 encodes it; None: the person has to use a link first."""
    roles: tuple[Member, ...]
    created_by: str
    looks: tuple[str, ...] = ()
    """Names with one of these in common look alike."""
    password_limit: PasswordLimit | None = None
    """Of the password."""
    known_roles: frozenset[RoleRow] | None = None
    """The custom roles that `roles` were judged by; None: they were not judged."""
    identity: Identity | None = None
    """The identity at a provider that the person is added with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserChange:
    """A change of a person."""

    row: UserRow
    """With the version that it was made from."""
    name_key: str
    email_key: str | None
    password: str | None = None
    """Another hash; None: the one that is there."""
    looks: tuple[str, ...] = ()
    known_roles: frozenset[RoleRow] | None = None
    """The custom roles that the row's roles were judged by; None: they were not judged."""

    def ends_tokens(self, before: UserRow) -> bool:
        """Check whether tokens that were made before the change are refused after it."""
        return self.password is not None or (before.roles, before.active) != (self.row.roles, self.row.active)

    def ends_links(self, before: UserRow) -> bool:
        """Check whether links that were made before the change work no more after it: its maker had the right to give
        access to the person as they were, and told the secret to the e-mail of then."""
        return self.ends_tokens(before) or before.email != self.row.email

    def is_done(self, found: SignIn) -> bool:
        """Check whether this change was carried out before: its answer was lost. Two changes of a password differ in
        the hash, whose salt is random."""
        row = found.row
        return (
            row.version == self.row.version + 1
            and (row.name, row.email, row.roles, row.active)
            == (self.row.name, self.row.email, self.row.roles, self.row.active)
            and self.password in (None, found.password)
        )


class LinkKind(StrEnum):
    """The purpose of a link."""

    INVITATION = "invitation"
    """To choose the first password."""
    RESET = "reset"
    """To choose another password."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLink:
    """A link that works once. Its secret is with the person; the store keeps the SHA-256."""

    digest: bytes
    kind: LinkKind
    user_id: UUID
    generation: int
    """Of the person for whom its maker had the right to make it."""
    seconds: float
    """The time for which it works."""
    created_by: str
    password_limit: PasswordLimit | None = None
    """Of a password that is chosen by it: its maker knows the secret."""


class SignIn(NamedTuple):
    """The person of a name, and the hash of the password."""

    row: UserRow
    password: str | None
    """The hash."""


class RoleRow(NamedTuple):
    """A custom role."""

    namespace: str
    name: str
    permissions: frozenset[str]
    labels: Labels
    """It holds for jobs that have all of these."""


def user_exists(name: str) -> Conflict:
    """The error that a user has this name or e-mail, or one that looks like it."""
    return Conflict(f"there is a user with the name or the e-mail of {name[:100]!r}", code="user_exists")


def user_changed() -> VersionConflict:
    """The error that a person was changed before a link for them was kept."""
    return VersionConflict("the user was changed meanwhile: look again, then make the link")


def role_unknown(member: Member) -> Conflict:
    """No role has this name in the namespace."""
    return Conflict(
        f"there is no role {member.role[:100]!r} in {member.namespace[:100]!r}: take viewer, operator, developer or "
        "admin, or make the role first",
        code="role_unknown",
    )


def role_changed(name: str) -> VersionConflict:
    """The error that a custom role is not what it was when it was judged."""
    return VersionConflict(f"the role {name[:100]!r} was changed meanwhile: look again")


def check_roles(
    roles: Sequence[Member], custom: Mapping[tuple[str, str], RoleRow], known: frozenset[RoleRow] | None
) -> None:
    """Check roles that are to be given, among the custom roles by namespace and name. Raises `Conflict`, code
    `role_unknown`; `VersionConflict` if one is not as it was judged."""
    for each in roles:
        if each.role in ROLES:
            continue
        row = custom.get((each.namespace, each.role)) or custom.get((INSTALLATION, each.role))
        if row is None:
            raise role_unknown(each)
        if known is not None and row not in known:
            raise role_changed(each.role)


def check_judged(
    namespace: str, name: str, custom: Mapping[tuple[str, str], RoleRow], judged: frozenset[RoleRow] | None
) -> None:
    """Raises `VersionConflict` if the roles of a name in a namespace and in `*` are others than those judged."""
    found = (custom.get((place, name)) for place in (namespace, INSTALLATION))
    if judged is not None and {row for row in found if row is not None} != judged:
        raise role_changed(name)


def check_administrator(before: int, after: int) -> None:
    """Raises `Conflict` if a change would leave an installation without the administrator that it had."""
    if before and not after:
        raise Conflict(
            "this is the last administrator of the installation: make another one first", code="last_administrator"
        )


class UserStore(Protocol):
    """People. All methods may be called again after an `InDoubt`."""

    async def add(self, user: NewUser, *, audit: AuditEntry | None = None) -> UserRow:
        """Keep it. The same id again is the same person. Raises `Conflict`: `user_exists` (name or e-mail, or a name
        with a look in common), `identity_taken`, `role_unknown`; `VersionConflict` if a custom role is none of
        `known_roles` by now."""
        ...

    async def get(self, user_id: UUID) -> UserRow | None:
        """One person."""
        ...

    async def sign_in(self, key: str) -> SignIn | None:
        """The person whose folded name or e-mail this is."""
        ...

    async def page(self, namespace: str | None, *, after: UUID | None, limit: int) -> Sequence[UserRow]:
        """People, the newest first: those with a role in a namespace of this name; None: all."""
        ...

    async def change(self, change: UserChange, *, audit: AuditEntry | None = None) -> UserRow:
        """Replace name, e-mail, roles, `active`, and the hash if one is given, of the version that the row says. The
        version grows by one, and the generation if tokens end. The person's open links work no more if `ends_links`.
        A name that stays may look like another one. Raises `VersionConflict`, also if a custom role is none of
        `known_roles` by now, `NotFound`, and `Conflict`: `user_exists`, `role_unknown`, `last_administrator`."""
        ...

    async def link(self, link: NewLink, *, audit: AuditEntry | None = None) -> None:
        """Keep it; links of this kind for this person that were made before work no more. Raises `VersionConflict` if
        the person's generation is another by now."""
        ...

    async def link_holder(self, digest: bytes) -> UserRow | None:
        """The person of a link that works. None: there is no link with this digest that works."""
        ...

    async def use_link(self, digest: bytes, password: str, *, audit: AuditEntry | None = None) -> UserRow | None:
        """Use a link: the person has this hash from now on, with the limit of the link, its generation grows, and its
        other links work no more; one transaction. None: there is no link with this digest that works. The same call
        again, after its commit, is None. The person is caller and target of `audit`."""
        ...

    async def complete_looks(self, looks: Mapping[UUID, Sequence[str]], limit: int) -> Mapping[UUID, str]:
        """Give these people the looks of their names; who has some keeps them, and two may look alike. The names of at
        most `limit` people who have none then: an earlier release added them."""
        ...

    async def signed_in(self, user_id: UUID) -> None:
        """Note that a person signed in just now."""
        ...


class RoleStore(Protocol):
    """Custom roles. All methods may be called again after an `InDoubt`."""

    async def all(self, namespace: str | None) -> Sequence[RoleRow]:
        """Custom roles of a namespace; None: all."""
        ...

    async def put(
        self, role: RoleRow, *, judged: frozenset[RoleRow] | None = None, audit: AuditEntry | None = None
    ) -> Sequence[UUID]:
        """Keep a role, or replace it. The generation of the people who have it grows, and their open links work no
        more: their ids. `judged`: the roles of its name in its namespace and in `*` that the right to do it was judged
        by; None: it was not judged. Raises `VersionConflict` if they are others by now."""
        ...

    async def drop(
        self,
        namespace: str,
        name: str,
        *,
        judged: frozenset[RoleRow] | None = None,
        audit: AuditEntry | None = None,
    ) -> bool:
        """Remove a role; False if it is gone already. `judged`: as in `put`. Raises `Conflict`, code `role_in_use`, if
        a person has it; `VersionConflict`."""
        ...
