"""The settings that bind namespaces to a part of a provider: `NAMESPACE=PART`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tickwise.domain.errors import Misconfigured

EACH: Final = "*"
"""In place of a namespace: each one that is not named."""


def read_bindings(entries: Sequence[str], setting: str, form: str) -> Mapping[str, str]:
    """By namespace. `form` says how an entry is written. Raises `Misconfigured`."""
    found: dict[str, str] = {}
    for entry in entries:
        namespace, equals, part = (text.strip() for text in entry.partition("="))
        if not namespace or not equals or not part:
            raise Misconfigured(f"{setting} holds {entry!r}; write {form}")
        if namespace in found:
            raise Misconfigured(f"{setting} names {namespace!r} twice")
        found[namespace] = part
    return found


def check_apart(found: Mapping[str, str], setting: str, separator: str = "") -> None:
    """Raises `Misconfigured` if the part of one namespace lies within that of another: one would read the other's."""
    names = sorted(found)
    for place, one in enumerate(names):
        for other in names[place + 1 :]:
            first, second = found[one] + separator, found[other] + separator
            if first.startswith(second) or second.startswith(first):
                raise Misconfigured(
                    f"{setting} gives {found[one]!r} to {one!r} and {found[other]!r} to {other!r}, and one begins with "
                    "the other: one namespace would read the secrets of the other"
                )
