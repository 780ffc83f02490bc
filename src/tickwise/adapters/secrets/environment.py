"""Secrets from the environment of the executor: the variables that begin with the prefix of the namespace.

    secrets_environment = billing=BILLING_     `secret:environment:DB` of billing ──► the variable BILLING_DB

Invariant: no namespace reads a variable of another one, nor a setting of Tickwise.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Final

from tickwise.adapters.secrets.bindings import EACH, check_apart, read_bindings
from tickwise.domain.errors import Misconfigured
from tickwise.ports.secrets import SecretFault, WantedSecret

SETTING: Final = "secrets_environment"
_PREFIX: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z0-9_]{1,200}", re.ASCII)
_OURS: Final = "TICKWISE_"


class EnvironmentSecrets:
    """`SecretProvider` of the port."""

    name = "environment"

    def __init__(self, entries: Sequence[str]) -> None:
        """`entries` of the setting. Raises `Misconfigured`."""
        self._prefixes = read_bindings(entries, SETTING, "NAMESPACE=PREFIX, such as billing=BILLING_")
        for namespace, prefix in self._prefixes.items():
            if namespace == EACH:
                raise Misconfigured(f"{SETTING} binds each namespace by its name; {EACH} would give all to everybody")
            if _PREFIX.fullmatch(prefix) is None or prefix.startswith(_OURS) or _OURS.startswith(prefix):
                raise Misconfigured(
                    f"{SETTING} holds the prefix {prefix!r}; a prefix has letters, digits and underscores, such as "
                    f"BILLING_, and no variable of Tickwise ({_OURS}…) begins with it"
                )
        check_apart(self._prefixes, SETTING)

    async def values(self, wanted: Sequence[WantedSecret]) -> Mapping[WantedSecret, bytes | SecretFault]:
        """See the port."""
        return {each: self._value(each) for each in wanted}

    def _value(self, wanted: WantedSecret) -> bytes | SecretFault:
        prefix = self._prefixes.get(wanted.namespace)
        if prefix is None:
            return SecretFault(
                f"the namespace {wanted.namespace!r} has no variables of this executor: {SETTING} binds a prefix to it",
                is_passing=False,
            )
        if _NAME.fullmatch(wanted.name) is None:
            return SecretFault(
                "the name of a secret in the environment has letters, digits and underscores", is_passing=False
            )
        value = os.environb.get(f"{prefix}{wanted.name}".encode())
        if not value:
            return SecretFault(
                f"the executor has no variable {prefix}{wanted.name}; set it and start the executor again",
                is_passing=False,
            )
        return value

    async def close(self) -> None:
        """Do nothing: it holds nothing."""
