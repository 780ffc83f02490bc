"""The permissions of a principal, and the roles that stand for sets of them.

    Role ──► permissions ◄── a key's own list
                  │  IMPLIED: a wider permission contains a narrower one
                  ▼
             closed set, asked by `Principal.may`

`*` allows everything, also what later versions add.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

EVERYTHING: Final = "*"


class Permission(StrEnum):
    """One thing that a principal may be allowed to do. The values are stored with keys and roles: never rename one."""

    AUDIT_READ = "audit:read"
    CALENDARS_READ = "calendars:read"
    CALENDARS_WRITE = "calendars:write"
    CHANNELS_ADMIN = "channels:admin"
    """Make, change and remove channels of notices: where the names of jobs and their errors are sent to."""
    DOCS_READ = "docs:read"
    EXECUTORS_READ = "executors:read"
    JOBS_CREATE = "jobs:create"
    """Submit new jobs, and change or end none: for programs that only hand in work, such as a pipeline."""
    JOBS_OPERATE = "jobs:operate"
    """Pause, resume, skip, snooze and stop: what people do with a schedule that others wrote."""
    JOBS_READ = "jobs:read"
    JOBS_WRITE = "jobs:write"
    KEYS_ADMIN = "keys:admin"
    METRICS_READ = "metrics:read"
    NAMESPACES_ADMIN = "namespaces:admin"
    NAMESPACES_READ = "namespaces:read"
    NOTICES_OPERATE = "notices:operate"
    """Acknowledge, snooze and close alerts, and send notices again: what people on call do."""
    NOTICES_READ = "notices:read"
    NOTICES_WRITE = "notices:write"
    """Write notification rules, and test them."""
    QUEUES_READ = "queues:read"
    QUEUES_WRITE = "queues:write"
    RUNS_READ = "runs:read"
    RUNS_WRITE = "runs:write"
    SECRETS_READ = "secrets:read"
    """See which secrets there are: names, versions and times, never values."""
    SECRETS_WRITE = "secrets:write"
    """Set, replace and remove secrets, and see none."""
    STATUS_ADMIN = "status:admin"
    """Make, change and remove status pages: what people without an account see of chosen jobs."""
    TASKS_READ = "tasks:read"
    TASKS_WRITE = "tasks:write"
    USERS_ADMIN = "users:admin"
    USERS_READ = "users:read"
    WINDOWS_READ = "windows:read"
    WINDOWS_WRITE = "windows:write"


IMPLIED: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        Permission.JOBS_WRITE: frozenset({Permission.JOBS_CREATE, Permission.JOBS_OPERATE}),
        Permission.NAMESPACES_ADMIN: frozenset({Permission.NAMESPACES_READ}),
        Permission.NOTICES_WRITE: frozenset({Permission.NOTICES_OPERATE}),
        Permission.USERS_ADMIN: frozenset({Permission.USERS_READ}),
    }
)
"""The narrower permissions that a wider one contains. A permission to write never contains the one to read: a program
that submits jobs need not see them."""


class Role(StrEnum):
    """The roles that every installation has. Each contains the one before it."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    DEVELOPER = "developer"
    ADMIN = "admin"


_VIEWER: Final = frozenset(
    {
        Permission.CALENDARS_READ,
        Permission.DOCS_READ,
        Permission.EXECUTORS_READ,
        Permission.JOBS_READ,
        Permission.METRICS_READ,
        Permission.NAMESPACES_READ,
        Permission.NOTICES_READ,
        Permission.QUEUES_READ,
        Permission.RUNS_READ,
        Permission.SECRETS_READ,
        Permission.TASKS_READ,
        Permission.WINDOWS_READ,
    }
)
_OPERATOR: Final = _VIEWER | {
    Permission.JOBS_OPERATE,
    Permission.NOTICES_OPERATE,
    Permission.QUEUES_WRITE,
    Permission.RUNS_WRITE,
}
_DEVELOPER: Final = _OPERATOR | {
    Permission.CALENDARS_WRITE,
    Permission.JOBS_WRITE,
    Permission.NOTICES_WRITE,
    Permission.SECRETS_WRITE,
    Permission.TASKS_WRITE,
    Permission.WINDOWS_WRITE,
}

ROLES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        Role.VIEWER: frozenset(_VIEWER),
        Role.OPERATOR: frozenset(_OPERATOR),
        Role.DEVELOPER: frozenset(_DEVELOPER),
        Role.ADMIN: frozenset({EVERYTHING}),
    }
)
"""The permissions of each built-in role, in a namespace or in the whole installation."""


def closed(permissions: Iterable[str]) -> frozenset[str]:
    """The permissions, and those that they imply."""
    found = frozenset(permissions)
    return found.union(*(IMPLIED.get(each, frozenset()) for each in found))


def contains(wide: frozenset[str], narrow: Iterable[str]) -> bool:
    """Check whether a principal with `wide` may grant `narrow`: no principal grants a permission that it lacks."""
    return EVERYTHING in wide or closed(narrow) <= closed(wide)


def narrowed(permissions: frozenset[str], bound: frozenset[str]) -> frozenset[str]:
    """The permissions of both. `*` is bounded by the other."""
    if EVERYTHING in permissions:
        return closed(bound)
    return closed(permissions) if EVERYTHING in bound else closed(permissions) & closed(bound)
