"""The grants of roles: a role, a namespace and labels become permissions for jobs.

Member(namespace, role, labels) ──► built-in or custom? ──► permissions, the labels of both ──► Grant
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tickwise.domain.callers import INSTALLATION, Grant
from tickwise.domain.model import Principal
from tickwise.domain.permissions import ROLES, contains
from tickwise.domain.selectors import combined
from tickwise.ports.identity.users import Member, RoleRow


class KnownRoles:
    """All roles that there are."""

    def __init__(self, custom: Sequence[RoleRow]) -> None:
        self._custom = {(role.namespace, role.name): role for role in custom}

    def grant(self, member: Member) -> Grant | None:
        """The grant of a person with this role. None: there is no such role, or no job can have the labels of both the
        role and the person."""
        built_in, role = ROLES.get(member.role), self._role(member)
        if built_in is not None:
            return Grant(member.namespace, built_in, member.labels)
        labels = None if role is None else combined(role.labels, member.labels)
        return None if role is None or labels is None else Grant(member.namespace, role.permissions, labels)

    def permissions(self, member: Member) -> frozenset[str] | None:
        """The permissions of a role; None: there is no such role."""
        role = self._role(member)
        return ROLES.get(member.role) or (None if role is None else role.permissions)

    def custom_of(self, members: Iterable[Member]) -> frozenset[RoleRow]:
        """The custom roles among those of members."""
        found = (self._role(each) for each in members if each.role not in ROLES)
        return frozenset(row for row in found if row is not None)

    def grants(self, members: Iterable[Member]) -> tuple[Grant, ...]:
        """The grants of members."""
        found = (self.grant(each) for each in members)
        return tuple(grant for grant in found if grant is not None)

    def is_more(self, member: Member, who: Principal) -> bool:
        """Check whether the role gives a permission that the caller lacks there."""
        grant = self.grant(member)
        if grant is None:
            return False
        return not contains(who.permissions_in(grant.namespace, grant.labels), grant.permissions)

    def _role(self, member: Member) -> RoleRow | None:
        return self._custom.get((member.namespace, member.role)) or self._custom.get((INSTALLATION, member.role))
