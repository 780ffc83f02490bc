"""Jobs that name channels of notices: their namespaces note events from then on."""

from __future__ import annotations

from collections.abc import Iterable

import asyncpg

from tickwise.adapters.store.postgres.statements import statement


async def watch_notify(connection: asyncpg.Connection, namespaces: Iterable[str]) -> None:
    """Note the events of these namespaces from now on."""
    for namespace in sorted(namespaces):
        await connection.execute(statement("notify_watch"), namespace)
