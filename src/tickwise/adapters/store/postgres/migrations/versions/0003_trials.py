"""The changes after the first independent trials of the product. Only adds: programs of 0002 continue to work."""

from __future__ import annotations

from typing import Final

from tickwise.adapters.store.postgres.migrations import run_file

revision = "0003"
down_revision = "0002"

FILES: Final[tuple[str, ...]] = (
    "0003_keys.sql",
    "0003_paused.sql",
    "0003_signatures.sql",
    "0003_lanes.sql",
    "0003_continuity.sql",
    "0003_lists.sql",
    "0003_roles.sql",
    "0003_wakes.sql",
)
"""One file per subject, in this order."""


def upgrade() -> None:
    """Run each file."""
    for name in FILES:
        run_file(name)
