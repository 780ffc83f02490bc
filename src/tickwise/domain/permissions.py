"""The permissions of a principal. `*` allows everything, also what later versions add."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

EVERYTHING: Final = "*"


class Permission(StrEnum):
    """One thing that a principal may be allowed to do. The values are stored with keys: never rename one.

    A key's scopes are values of this enum. A role will be a set of them.
    """

    CALENDARS_READ = "calendars:read"
    CALENDARS_WRITE = "calendars:write"
    DOCS_READ = "docs:read"
    EXECUTORS_READ = "executors:read"
    JOBS_READ = "jobs:read"
    JOBS_WRITE = "jobs:write"
    KEYS_ADMIN = "keys:admin"
    METRICS_READ = "metrics:read"
    QUEUES_READ = "queues:read"
    QUEUES_WRITE = "queues:write"
    RUNS_READ = "runs:read"
    RUNS_WRITE = "runs:write"
    TASKS_READ = "tasks:read"
    TASKS_WRITE = "tasks:write"
    WINDOWS_READ = "windows:read"
    WINDOWS_WRITE = "windows:write"
