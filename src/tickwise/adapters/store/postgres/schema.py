"""The database's schema: which one is there, and bringing it to the one that this program needs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import asyncpg

from tickwise.adapters.store.postgres.link import translated
from tickwise.adapters.store.postgres.statements import statement

WANTED: Final = "0001"
"""The newest migration; a constant, because finding it out would load alembic at every start."""

MIGRATIONS: Final = Path(__file__).with_name("migrations")


async def upgrade(dsn: str) -> str:
    """Bring the schema to `WANTED` and return that. Any number of starters may call it: one works, the others wait."""
    with translated(writes=True):
        connection = await asyncpg.connect(dsn)
        try:
            await connection.execute(statement("upgrade_lock"))
            await connection.execute(statement("upgrade_schema"))
            await _migrate(dsn)
        finally:
            await connection.close()
    return WANTED


async def schema_status(dsn: str) -> tuple[str | None, str]:
    """(the migration that the database has, or None; the one that this program needs)."""
    with translated(writes=False):
        connection = await asyncpg.connect(dsn)
        try:
            return await current(connection), WANTED
        finally:
            await connection.close()


async def current(connection: asyncpg.Connection) -> str | None:
    """The migration that this database has, or None."""
    try:
        version: str | None = await connection.fetchval(statement("schema_version"))
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        return None
    return version


async def _migrate(dsn: str) -> None:
    # Loaded here: alembic and SQLAlchemy cost a quarter of a second and 30 MB that only an upgrade needs.
    from alembic import command
    from alembic.config import Config
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import create_async_engine
    from sqlalchemy.pool import NullPool

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))

    def run(connection: Connection) -> None:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")

    async def connect() -> asyncpg.Connection:
        return await asyncpg.connect(dsn)

    engine = create_async_engine("postgresql+asyncpg://", async_creator=connect, poolclass=NullPool)
    try:
        async with asyncio.timeout(600), engine.begin() as connection:
            await connection.run_sync(run)
    finally:
        await engine.dispose()
