"""Federations: which tokens of another issuer are taken in place of a key, and what they get.

    token of a pipeline ──issuer, audience──► conditions ──all hold──► the permissions of the federation
                                                 └─ one does not ────► nothing

A condition names a claim and a pattern: the exact value, or a text in which each `*` stands for any characters, also
none. A claim of an object is named by a path, `kubernetes.io/namespace`; a claim whose name is the whole text comes
first. Of a list, one member has to match. Numbers and booleans are compared as JSON writes them.

Invariant: no federation takes every token of an issuer. At an issuer that serves everybody, such as GitHub, a condition
names the owner whose tokens are taken.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

ANY: Final = "*"
MAX_CONDITIONS: Final = 20
MAX_ANY: Final = 5
"""The most `*` of one pattern."""
MAX_SUBJECT: Final = 200
"""Characters of a token's subject that are kept for the record."""

GITHUB: Final = "https://token.actions.githubusercontent.com"
GITLAB: Final = "https://gitlab.com"
_OWNED_BY_PATH: Final = ("repository", "job_workflow_ref", "workflow_ref", "project_path", "sub")
"""Claims that begin with the owner and a slash: a pattern that ends within the owner's name also takes the tokens of
others, `acme*` those of `acme-evil/app`."""
_OWNERS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        GITHUB: frozenset(
            {
                "sub", "repository", "repository_id", "repository_owner", "repository_owner_id", "job_workflow_ref",
                "workflow_ref", "enterprise_id",
            }
        ),
        GITLAB: frozenset({"sub", "project_path", "project_id", "namespace_path", "namespace_id"}),
    }
)  # fmt: skip
"""Of issuers that serve everybody: the claims that name the owner of a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Federation:
    """Trust in the tokens of an issuer. It is a key whose secret nobody has: the key says what such a token gets."""

    key_id: UUID
    issuer: str
    """The `iss` of the tokens, an address."""
    audience: str
    """The text that their `aud` is, or has."""
    conditions: Mapping[str, str]
    """Patterns by claim. All of them must hold."""
    key_set: str | None
    """The public keys of the issuer as a JWKS; None: those that its discovery names."""
    lifetime_seconds: float
    """The time for which an access token works that such a token gets."""
    single_use: bool
    """A token with an id (`jti`) is taken once."""

    def unmet(self, claims: Mapping[str, Any]) -> str | None:
        """The first claim that does not meet its condition; None: all do."""
        return next((name for name, pattern in self.conditions.items() if not _holds(claims, name, pattern)), None)


def matches_pattern(pattern: str, text: str) -> bool:
    """Check whether a text is as the pattern says. The time is linear in the text for each `*`."""
    first, *rest = pattern.split(ANY)
    if not rest:
        return pattern == text
    last = rest.pop()
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    place, end = len(first), len(text) - len(last)
    for part in rest:
        found = text.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True


def subject_of(claims: Mapping[str, Any]) -> str:
    """The subject of a token for the record, in printable characters."""
    subject = claims.get("sub")
    text = subject if isinstance(subject, str) else ""
    return "".join(each if each.isprintable() else "?" for each in text[:MAX_SUBJECT])


def conditions_fault(issuer: str, conditions: Mapping[str, str]) -> tuple[str, str] | None:
    """The name of the condition at fault (empty: of all together) and what is wrong; None: they bound who is
    trusted."""
    if not conditions:
        return (
            "",
            "name at least one claim that the tokens must have, such as sub: else every token of the issuer is taken",
        )
    for name, pattern in conditions.items():
        if pattern.count(ANY) > MAX_ANY:
            return name, f"a pattern has {MAX_ANY} * at most"
    if all(not _beginning(pattern) for pattern in conditions.values()):
        return "", "at least one condition must begin with a text of its own, and not with *"
    owners = _OWNERS.get(issuer.rstrip("/"))
    if owners is None:
        return None
    if any(_names_owner(name, pattern) for name, pattern in conditions.items() if name in owners):
        return None
    return "", (
        f"{issuer} issues tokens to everybody: one condition must name the owner, by {', '.join(sorted(owners))}; a "
        "pattern with * goes on after the owner and a slash, such as acme/*"
    )


def _beginning(pattern: str) -> str:
    """The text before the first `*`."""
    return pattern.partition(ANY)[0]


def _names_owner(name: str, pattern: str) -> bool:
    if ANY not in pattern:
        return True
    owner, slash, _ = _beginning(pattern).partition("/")
    # `repo:acme/…` of GitHub, `project_path:acme/…` of GitLab
    return name in _OWNED_BY_PATH and bool(slash) and bool(owner.rpartition(":")[2])


def _holds(claims: Mapping[str, Any], name: str, pattern: str) -> bool:
    value = _claim(claims, name)
    values = value if isinstance(value, list) else [value]
    return any(matches_pattern(pattern, text) for each in values if (text := _text(each)) is not None)


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("/"):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, bool | int) else None
