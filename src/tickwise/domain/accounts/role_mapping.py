"""The roles that follow from groups and claims of a provider: `ops=admin@*; dev=developer@team-a; *=viewer`.

    entry      [GROUP | claim:NAME:VALUE | *] = ROLE[@NAMESPACE]
    *          everybody whom the provider signs in
    NAMESPACE  `default` if none is named; `*` is the whole installation

A group may hold "=", as names of LDAP do: the last one of an entry counts. Entries are separated by ";".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from tickwise.domain.errors import Invalid
from tickwise.domain.model import DEFAULT_NAMESPACE

EVERYBODY: Final = "*"
CLAIM: Final = "claim:"
MAX_ENTRIES: Final = 500
MAX_VALUES: Final = 5_000
"""Of one claim: those beyond it are not looked at."""

_ROLE: Final = re.compile(r"([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)(?:@([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?|\*))?")


class MappedRole(NamedTuple):
    """A role in a namespace."""

    namespace: str
    role: str


class RoleEntry(NamedTuple):
    """One entry of a mapping."""

    claim: str | None
    """The name of the claim that is looked at; None: the claim with the groups."""
    value: str
    """The value that gives the role; `EVERYBODY` with no claim: anybody."""
    given: MappedRole


class RoleMapping(NamedTuple):
    """All entries."""

    entries: tuple[RoleEntry, ...] = ()

    def roles(self, claims: Mapping[str, Any], groups_claim: str) -> frozenset[MappedRole]:
        """The roles of a person with these claims."""
        seen: dict[str, frozenset[str]] = {}
        found = set()
        for entry in self.entries:
            name = groups_claim if entry.claim is None else entry.claim
            if name not in seen:
                seen[name] = values_of(claims.get(name))
            if (entry.claim is None and entry.value == EVERYBODY) or entry.value in seen[name]:
                found.add(entry.given)
        return frozenset(found)

    def claims(self, groups_claim: str) -> frozenset[str]:
        """The claims that it looks at."""
        looked = (each for each in self.entries if each.claim is not None or each.value != EVERYBODY)
        return frozenset(groups_claim if each.claim is None else each.claim for each in looked)


def read_role_mapping(text: str | None) -> RoleMapping:
    """Read a mapping. Raises `Invalid` for an entry that cannot be read, which it quotes."""
    entries = tuple(_entry(part.strip()) for part in (text or "").split(";") if part.strip())
    if len(entries) > MAX_ENTRIES:
        raise Invalid(f"a mapping has {MAX_ENTRIES} entries at most")
    return RoleMapping(entries)


def values_of(value: Any) -> frozenset[str]:
    """The texts of a claim: one, or those of a list. Numbers and booleans as JSON writes them."""
    many: Iterable[Any] = value if isinstance(value, list) else (value,)
    texts = (_text(each) for _, each in zip(range(MAX_VALUES), many, strict=False))
    return frozenset(text for text in texts if text is not None)


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None


def _entry(text: str) -> RoleEntry:
    left, _, right = text.rpartition("=")
    name, role = left.strip(), _ROLE.fullmatch(right.strip())
    if not name or role is None:
        raise Invalid(f"{text[:100]!r} is no entry: write GROUP=ROLE@NAMESPACE, such as dev=developer@team-a")
    given = MappedRole(role[2] or DEFAULT_NAMESPACE, role[1])
    if not name.startswith(CLAIM):
        return RoleEntry(None, name, given)
    claim, _, value = name.removeprefix(CLAIM).partition(":")
    if not claim or not value:
        raise Invalid(f"{text[:100]!r} is no entry: write claim:NAME:VALUE=ROLE@NAMESPACE")
    return RoleEntry(claim, value, given)
