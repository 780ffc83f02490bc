"""Bounds of passwords that somebody else chose, or could have chosen.

    an administrator of a ── adds a person with a password, or makes a link ──► the password opens what they could open
                                                                                   │
    a role elsewhere, or a stronger one ──► beyond it: the password opens nothing, until a link by somebody who may give
                                            all of it

The one who makes a link knows its secret, and can choose the password by it. Nobody can tell who did; so a password is
bounded by its setter until a link of a stronger administrator replaces it. A change by the person does not lift the
bound: it asks for the present password, which the setter may know.

Invariant: a sign-in by password gives nothing that the setter of the password could not have given.
"""

from __future__ import annotations

from collections.abc import Iterable

from tickwise.control.access import holds_everywhere
from tickwise.domain.callers import INSTALLATION, Grant
from tickwise.domain.model import Principal
from tickwise.domain.permissions import EVERYTHING, Permission, contains
from tickwise.ports.identity.users import PasswordLimit


def limit_of(setter: Principal) -> PasswordLimit | None:
    """The bound of a password that this caller chooses for somebody else. None: they may do everything, everywhere."""
    if EVERYTHING in setter.everywhere:
        return None
    if holds_everywhere(setter, Permission.USERS_ADMIN):
        return PasswordLimit(INSTALLATION, setter.everywhere)
    return PasswordLimit(setter.namespace, setter.scopes)


def is_beyond(limit: PasswordLimit | None, grants: Iterable[Grant]) -> bool:
    """Check whether one of the grants is more than a password with this bound opens."""
    if limit is None:
        return False
    return any(
        limit.namespace not in (INSTALLATION, each.namespace) or not contains(limit.permissions, each.permissions)
        for each in grants
    )
