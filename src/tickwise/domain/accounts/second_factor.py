"""The people who need a second factor besides the password: the setting `second_factor`.

    off                          nobody is asked for one, and nobody can enrol one
    offered                      people who enrolled one are asked for it
    required                     … and every person with a password must enrol one
    required:admin,auditor       … and people with one of these roles, in any namespace, must enrol one

A built-in role stands for itself and for the built-in roles that contain it: `required:operator` is about developers
and administrators, too. The name of a custom role stands for that role.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from tickwise.domain.errors import Invalid
from tickwise.domain.permissions import Role

FORM: Final = "`off`, `offered`, `required` (of everybody), or `required:ROLE,…`"
_ROLE: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


class FactorPolicy(NamedTuple):
    """The rule of the installation for second factors."""

    offered: bool = True
    """False: nobody is asked for one, and nobody can enrol one."""
    of_everybody: bool = False
    """Every person with a password must have one."""
    roles: frozenset[str] = frozenset()
    """People with one of these roles must have one."""

    def requires(self, roles: Iterable[str]) -> bool:
        """Check whether a person with these roles, of any namespaces, must have a second factor."""
        return self.of_everybody or not self.roles.isdisjoint(roles)


def read_second_factor(text: str) -> FactorPolicy:
    """The rule that the text of the setting says. Raises `Invalid`."""
    word, colon, rest = text.strip().partition(":")
    if word in ("off", "offered") and not colon:
        return FactorPolicy(offered=word == "offered")
    if word != "required":
        raise Invalid(f"write {FORM}")
    if not colon:
        return FactorPolicy(of_everybody=True)
    names = [name.strip() for name in rest.split(",")]
    if not all(_ROLE.fullmatch(name) for name in names):
        raise Invalid(f"write {FORM}; a role is named as in `tickwise users roles list`")
    built_in = list(Role)
    wider = {each.value for name in names if name in built_in for each in built_in[built_in.index(Role(name)) :]}
    return FactorPolicy(roles=frozenset({*names, *wider}))
