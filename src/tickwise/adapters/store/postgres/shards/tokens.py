"""Tokens that name their database: set once, with the upgrade of the schema, where there are several databases."""

from __future__ import annotations

import asyncpg

from tickwise.adapters.store.postgres.connection.link import translated
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.fencing import shard_bits


async def draw_tokens(dsn: str, shard: int) -> None:
    """Let a database draw the tokens of this shard from now on. Its role must own the schema."""
    with translated(writes=True):
        connection = await asyncpg.connect(dsn)
        try:
            await connection.execute(statement("tokens_of_shard"), shard_bits(shard))
        finally:
            await connection.close()
