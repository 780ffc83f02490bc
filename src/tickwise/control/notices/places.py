"""The namespace of a channel, a rule, an alert or a notice: the caller's, or the installation itself (`*`).

    installation: true in a body or a query ──► `*`, for callers whose permission holds everywhere
    an id in a path ──► the caller's namespace, then `*` if the caller may

Invariant: an id of another namespace, and one of the installation for all other callers, names nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from tickwise.control.access import holds_everywhere
from tickwise.domain.errors import Forbidden
from tickwise.domain.model import Principal
from tickwise.domain.notices.rules import INSTALLATION
from tickwise.domain.permissions import Permission


def place_for(who: Principal, permission: Permission, *, installation: bool) -> str:
    """The namespace that a new thing or a list is for. Raises `Forbidden`."""
    if not installation:
        return who.namespace
    if not holds_everywhere(who, permission):
        raise Forbidden(
            f"channels and rules of the installation need the permission {permission.value} in the whole installation; "
            "leave installation out for those of the namespace",
            pointer="/installation",
        )
    return INSTALLATION


def places_for(who: Principal, permission: Permission) -> Sequence[str]:
    """The namespaces in which an id is looked up."""
    return (who.namespace, INSTALLATION) if holds_everywhere(who, permission) else (who.namespace,)
