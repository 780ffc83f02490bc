"""A session of the mover in one of the two databases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import asyncpg

from tickwise.adapters.store.postgres.connection.dialer import Dialer
from tickwise.adapters.store.postgres.connection.link import translated

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
