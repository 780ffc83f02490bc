"""What roles that run apart keep in the store. Only adds: programs of 0001 go on with it."""

from __future__ import annotations

from tickwise.adapters.store.postgres.migrations import run_file

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add it."""
    run_file("0002_apart.sql")
    run_file("0002_board.sql")
