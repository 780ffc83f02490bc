"""The history of the database's schema, for alembic. Each version runs plain SQL from `sql/`."""

from __future__ import annotations

from pathlib import Path

from alembic import op
from sqlalchemy.util import await_only

_FOLDER = Path(__file__).with_name("sql")


def run_file(name: str) -> None:
    """Run one file of statements inside the migration's transaction.

    SQLAlchemy prepares what it executes, and a prepared statement is a single one; so the file goes to the driver.
    """
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '30s'")  # also begins the driver's transaction
    driver = connection.connection.driver_connection
    assert driver is not None
    await_only(driver.execute((_FOLDER / name).read_text(encoding="utf-8")))
