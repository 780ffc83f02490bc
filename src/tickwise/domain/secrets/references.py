"""References to secrets: the texts in a task that a value takes the place of, when the task starts.

    {"TOKEN": "secret:NAME"}              the value itself, in the environment
    {"TOKEN_FILE": "secret-file:NAME"}    the path of a file that holds the value
    {"TOKEN": "secret:vault:app/db#key"}  from another provider than our own store

A reference is the whole text. Invariant: definitions, answers, logs and arguments hold references and never values.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, NamedTuple

from tickwise.domain.errors import Invalid

_REFERENCE: Final = re.compile(r"(secret|secret-file):(?:([a-z][a-z0-9-]{0,31}):)?(.{1,500})", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")
OWN_PROVIDER: Final = ""
"""The provider of secrets that Tickwise keeps itself."""
PROVIDERS: Final = ("environment", "files", "kubernetes", "vault")
"""The other providers that executors may have."""


class Injection(StrEnum):
    """The way by which a task gets the value. The values are the prefixes of references."""

    VALUE = "secret"
    FILE = "secret-file"


class SecretReference(NamedTuple):
    """A text that stands for a secret."""

    injection: Injection
    provider: str
    """`vault`, `env`, …; `OWN_PROVIDER` for our own store."""
    name: str
    """As the provider takes it."""


def read_reference(text: str) -> SecretReference | None:
    """The reference that a text is; None: it is a plain text. Raises `Invalid` for a name that our own store cannot
    have."""
    found = _REFERENCE.fullmatch(text)
    if found is None:
        return None
    injection, provider, name = found.groups()
    if provider is None:
        return SecretReference(Injection(injection), OWN_PROVIDER, clean_secret_name(name))
    return SecretReference(Injection(injection), provider, name)


def clean_secret_name(text: str, pointer: str = "") -> str:
    """The name of a secret of our own store. Raises `Invalid`."""
    if _NAME.fullmatch(text) is None:
        raise Invalid(
            "a secret's name has 1 to 128 letters, digits, dots, hyphens and underscores, and begins and ends with a "
            "letter or a digit",
            pointer=pointer,
        )
    return text
