"""The system users that jobs may name, by namespace: the setting `run_as_users`.

    backup,www-data              each namespace may run tasks as these
    billing=ledger|reports       the namespace billing may run tasks as these, and as no others

A namespace that the setting names is bound to its users, and no other namespace gets one of them. `root` is a user like
any other: it is allowed only where it is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from tickwise.domain.errors import Invalid, Misconfigured
from tickwise.domain.rules.confinement import check_user

SETTING: Final = "TICKWISE_RUN_AS_USERS"
LOGIN_SHELL: Final = "/bin/sh"
LOGIN_PATH: Final = "/usr/bin:/bin"
"""The shell and the search path of programs that Debian's cron gives to a command."""


class RunAsUsers(NamedTuple):
    """The users that the tasks of each namespace may name."""

    everywhere: frozenset[str] = frozenset()
    """Those of the namespaces that are bound to no users."""
    bound: Mapping[str, frozenset[str]] = MappingProxyType({})
    """By namespace."""

    def of(self, namespace: str) -> frozenset[str]:
        """The users of this namespace."""
        return self.bound.get(namespace, self.everywhere)

    @property
    def names(self) -> tuple[str, ...]:
        """All users of all namespaces, sorted."""
        return tuple(sorted(self.everywhere.union(*self.bound.values())))


NO_USERS: Final = RunAsUsers()


def read_run_as_users(entries: Iterable[str]) -> RunAsUsers:
    """Read the setting. Raises `Misconfigured`."""
    everywhere: set[str] = set()
    bound: dict[str, frozenset[str]] = {}
    for entry in entries:
        namespace, equals, names = entry.rpartition("=")
        users = frozenset(_user(name, entry) for name in names.split("|"))
        if not equals:
            everywhere |= users
        elif not namespace:
            raise Misconfigured(f"run_as_users holds {entry!r}, which names no namespace; write NAMESPACE=user|user")
        else:
            bound[namespace] = bound.get(namespace, frozenset()) | users
    shared = sorted(everywhere.intersection(frozenset[str]().union(*bound.values())))
    if shared:
        raise Misconfigured(
            f"run_as_users names {', '.join(shared)} for each namespace and for one of its own; write each user in one "
            "of the two ways"
        )
    return RunAsUsers(frozenset(everywhere), bound)


def refusal(allowed: RunAsUsers, namespace: str, name: str) -> str | None:
    """The reason for which a task of this namespace does not run as this user; None: it may."""
    mine = allowed.of(namespace)
    if name in mine:
        return None
    may = f"it may run them as {', '.join(sorted(mine))}" if mine else "it may run them as no named user"
    written = f"{namespace}={name}" if namespace in allowed.bound else name
    return (
        f"the namespace {namespace!r} may not run tasks as the user {name!r}: {may}. The setting {SETTING} of the "
        f"executors allows a user: {written}"
    )


def _user(name: str, entry: str) -> str:
    try:
        check_user(name)
    except Invalid as wrong:
        raise Misconfigured(f"run_as_users holds {entry!r}: {wrong.detail}") from None
    return name
