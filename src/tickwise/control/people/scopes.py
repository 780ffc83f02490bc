"""The bounds that a request for tokens asks for: permissions, and one namespace."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, UnsetType

from tickwise.domain.errors import Invalid
from tickwise.domain.permissions import EVERYTHING, Permission

_KNOWN: Final = frozenset({*Permission, EVERYTHING})


def scope_of(text: str | UnsetType) -> frozenset[str] | None:
    """The permissions of a text with blanks between them; None: no bound. Raises `Invalid`."""
    if text is UNSET:
        return None
    scope = frozenset(text.split())
    for each in sorted(scope - _KNOWN):
        raise Invalid(f"there is no permission {each[:50]!r}; there are {', '.join(Permission)}", pointer="/scope")
    return scope


def namespace_of(text: str | UnsetType) -> str | None:
    """The namespace that is asked for; None: no bound."""
    return None if text is UNSET else text
