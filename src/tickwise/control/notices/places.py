"""The namespace of a channel, a rule, an alert or a notice: the caller's, or the installation itself (`*`).

    installation: true in a body or a query ──► `*`, for callers whose permission holds everywhere
    an id in a path ──► the caller's namespace, then `*` if the caller may

Invariant: an id of another namespace, and one of the installation for all other callers, names nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from tickwise.control.access import holds_everywhere
from tickwise.domain.errors import Forbidden, Invalid
from tickwise.domain.model import Principal
from tickwise.domain.notices.rules import INSTALLATION
from tickwise.domain.permissions import Permission

NAME_CHARACTERS_MAX = 100


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


def clean_line(text: str, pointer: str, most: int = NAME_CHARACTERS_MAX) -> str:
    """A text of one line, which may stand in the subject of a mail. Raises `Invalid`."""
    line = text.strip()
    if not line:
        raise Invalid("write at least one character", pointer=pointer)
    if len(line) > most:
        raise Invalid(f"write at most {most} characters, these are {len(line)}", pointer=pointer)
    if not line.isprintable():
        raise Invalid("line breaks and control characters are not allowed here; write one line", pointer=pointer)
    return line
