"""What a key can be allowed to do. `*` allows everything, also what later versions add."""

from __future__ import annotations

from typing import Final

EVERYTHING: Final = "*"

SCOPES: Final = (
    "calendars:read",
    "calendars:write",
    "docs:read",
    "executors:read",
    "jobs:read",
    "jobs:write",
    "keys:admin",
    "metrics:read",
    "queues:read",
    "queues:write",
    "runs:read",
    "runs:write",
    "tasks:read",
    "tasks:write",
    "windows:read",
    "windows:write",
)
"""Each route needs one of these."""
