"""A session of the mover in one of the two databases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import asyncpg

from tickwise.adapters.store.postgres.connection.dialer import Dialer
from tickwise.adapters.store.postgres.connection.link import translated
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import Conflict

SETTINGS: Final = {
    "tickwise.shard_mover": "on",
    "application_name": "tickwise shards move",
    "jit": "off",
    "DateStyle": "ISO",
    "TimeZone": "UTC",
}
"""The first one lets the mover itself pass the fence."""


@asynccontextmanager
async def mover_session(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection of its own, closed at the end; a lost one is given up."""
    with translated(writes=False):
        connection = await Dialer().dial(dsn, server_settings=SETTINGS)
    try:
        yield connection
    finally:
        connection.terminate()


@asynccontextmanager
async def sole_mover(map_dsn: str) -> AsyncIterator[None]:
    """One process at a time moves namespaces of an installation. Raises `Conflict` while another one does; one that
    died does not."""
    async with mover_session(map_dsn) as connection:
        with translated(writes=False):
            if not await connection.fetchval(statement("mover_lock")):
                raise Conflict("another `tickwise shards move` is under way: wait until it has ended")
        yield
