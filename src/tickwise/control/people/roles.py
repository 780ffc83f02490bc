"""Custom roles: sets of permissions with a name, in one namespace, or in all (`*`).

A role of a namespace hides the role of `*` with its name there.

Invariant: nobody makes, changes, hides or removes a role that holds more than their own permissions in its namespace.
So no caller makes a person stronger than itself, or takes from a stronger one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import structlog
from msgspec import UNSET, Meta, UnsetType

from tickwise.control.access import requires
from tickwise.control.audit.entries import entry
from tickwise.control.context import ControlContext
from tickwise.control.granted_labels import GrantedLabels, granted_labels
from tickwise.control.namespaces.directory import NamespaceDirectory
from tickwise.domain.audit import AuditAction
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Forbidden, Invalid, NotFound
from tickwise.domain.model import Principal
from tickwise.domain.permissions import EVERYTHING, ROLES, Permission, contains
from tickwise.domain.selectors import Labels
from tickwise.ports.identity.users import RoleRow, RoleStore
from tickwise.ports.signals import Topic

NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\Z")
PERMISSIONS_MAX: Final = 100

logger = structlog.get_logger("tickwise.api")


class RolePermissionsBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The permissions of a custom role."""

    permissions: Annotated[
        list[Annotated[str, Meta(max_length=100)]],
        Meta(min_length=1, max_length=PERMISSIONS_MAX, description="Such as `jobs:read`; `*` is everything."),
    ]
    labels: GrantedLabels | UnsetType | None = UNSET


class KnownRole(NamedTuple):
    """A role that can be given in a namespace."""

    name: str
    permissions: frozenset[str]
    is_built_in: bool
    labels: Labels = ()
    """It holds for jobs that have all of these; none: for all jobs."""
    is_new: bool = False
    """It was made just now."""


class RoleService:
    """The custom roles of namespaces."""

    def __init__(self, context: ControlContext, roles: RoleStore, directory: NamespaceDirectory) -> None:
        self._context = context
        self._roles = roles
        self._directory = directory

    @requires(Permission.USERS_READ)
    async def all(self, who: Principal, namespace: str) -> Sequence[KnownRole]:
        """The roles that can be given in the namespace: the built-in ones, then its own by name."""
        await self._check_place(who, namespace)
        # The role of the namespace comes last, and hides its namesake of the installation.
        rows = sorted(await self._roles.all(namespace), key=lambda role: role.namespace == namespace)
        own = sorted({role.name: role for role in rows}.values(), key=lambda role: role.name)
        built_in = [KnownRole(name, permissions, is_built_in=True) for name, permissions in ROLES.items()]
        return [*built_in, *(KnownRole(role.name, role.permissions, False, role.labels) for role in own)]

    @requires(Permission.USERS_ADMIN)
    async def put(self, who: Principal, namespace: str, name: str, body: RolePermissionsBody) -> KnownRole:
        """Make a role, or replace its permissions: the tokens of the people who have it end. Raises `Invalid`,
        `Forbidden`, and `VersionConflict` if the role was changed meanwhile."""
        await self._check_place(who, namespace)
        _check_name(name)
        permissions, labels = frozenset(body.permissions), granted_labels(body.labels, "/labels")
        for place, each in enumerate(body.permissions):
            if each != EVERYTHING and each not in set(Permission):
                raise Invalid(
                    f"there is no permission {each[:100]!r}; there are {', '.join(Permission)}, and {EVERYTHING} for "
                    "everything",
                    pointer=f"/permissions/{place}",
                )
        row = RoleRow(namespace, name, permissions, labels)
        _check_given(who, row, "/permissions")
        hidden, before = await self._find(namespace, name)
        if before is not None:
            _check_given(who, before, None)
        elif hidden is not None:
            _check_given(who, hidden._replace(namespace=namespace), None)
        was = None if before is None else _shown(before)
        audit = entry(who, AuditAction.ROLE_PUT, "role", name, namespace=namespace, before=was, after=_shown(row))
        people = await self._context.surely(lambda: self._roles.put(row, judged=_rows(hidden, before), audit=audit))
        self._context.signals.send(Topic.KEYS, tuple(people))
        logger.info("role_put", role=name, namespace=namespace, by=who.name)
        return KnownRole(name, permissions, is_built_in=False, labels=labels, is_new=before is None)

    @requires(Permission.USERS_ADMIN)
    async def drop(self, who: Principal, namespace: str, name: str) -> KnownRole:
        """Remove a role. Raises `NotFound`, `Forbidden`, and `Conflict`, code `role_in_use`, if a person has it;
        `VersionConflict` if it was changed meanwhile."""
        await self._check_place(who, namespace)
        hidden, before = await self._find(namespace, name)
        if before is None:
            raise NotFound(f"there is no custom role {name[:100]!r} in the namespace {namespace}")
        _check_given(who, before, None)
        audit = entry(who, AuditAction.ROLE_DROPPED, "role", name, namespace=namespace, before=_shown(before))
        await self._context.surely(lambda: self._roles.drop(namespace, name, judged=_rows(hidden, before), audit=audit))
        logger.info("role_dropped", role=name, namespace=namespace, by=who.name)
        return KnownRole(name, before.permissions, is_built_in=False, labels=before.labels)

    async def _check_place(self, who: Principal, namespace: str) -> None:
        """Raises `NotFound` for a namespace that is not there, or not the caller's."""
        if namespace == who.namespace:
            return
        if Permission.USERS_ADMIN not in who.everywhere and EVERYTHING not in who.everywhere:
            raise NotFound(f"there is no namespace {namespace[:100]!r}")
        if namespace != INSTALLATION:
            await self._directory.check(namespace)

    async def _find(self, namespace: str, name: str) -> tuple[RoleRow | None, RoleRow | None]:
        """The roles of this name: that of the installation, and the one of the namespace itself."""
        found = {role.namespace: role for role in await self._roles.all(namespace) if role.name == name}
        return found.get(INSTALLATION), found.get(namespace)


def _rows(*found: RoleRow | None) -> frozenset[RoleRow]:
    return frozenset(row for row in found if row is not None)


def _shown(role: RoleRow) -> Mapping[str, Any]:
    """The fields of a role in the audit log."""
    return {"permissions": sorted(role.permissions), "labels": dict(role.labels)}


def _check_name(name: str) -> None:
    if not NAME.match(name):
        raise Invalid("a role's name has 1 to 63 small letters, digits and hyphens", pointer="/name")
    if name in ROLES:
        raise Invalid(f"{name} is a built-in role; take another name", pointer="/name")


def _check_given(who: Principal, role: RoleRow, pointer: str | None) -> None:
    """Raises `Forbidden` for a role that holds more than the caller's permissions there."""
    if not contains(who.permissions_in(role.namespace, role.labels), role.permissions):
        raise Forbidden("the role holds more than your own permissions", pointer=pointer)
