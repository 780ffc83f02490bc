"""The first schema."""

from __future__ import annotations

from tickwise.adapters.store.postgres.migrations import run_file

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make everything."""
    run_file("0001_tables.sql")
    run_file("0001_moves.sql")
    run_file("0001_views.sql")
    run_file("0001_free.sql")
    run_file("0001_upkeep.sql")
