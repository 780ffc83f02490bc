"""One process's way to the database for signals and notes: a connection that listens, and one for queries now and then.

Both are beside the pool of the store: a connection that hears must stay, and a note must not wait behind claims.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import asyncpg

from tickwise.adapters.signals.keeping import Keeper
from tickwise.adapters.statements import Statements
from tickwise.ports.clock import Clock

AWAY: Final = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""All that a call may raise, besides being cancelled. The last one: the server has ended an idle session and the driver
has read only its last message, or no server of the address takes writes."""
CONNECT_SECONDS: Final = 10.0
CHECK_SECONDS: Final = 30.0
"""The interval of checks of a quiet link, which may have broken without notice."""
ANSWER_SECONDS: Final = 2.0
"""The longest wait for an answer that nothing depends on."""


statement: Final = Statements(Path(__file__).parent)
"""The statements of this package."""


class PostgresLink:
    """The connection to the database, beside the store's, that all parts of one process share."""

    def __init__(self, dsn: str, clock: Clock, *, answer_seconds: float = ANSWER_SECONDS) -> None:
        """Touches no network."""
        self.clock = clock
        self._answer_seconds = answer_seconds
        self.keeper = Keeper(clock=clock, where="PostgreSQL", away=AWAY)
        self._dsn = dsn
        self._asking = asyncio.Lock()
        self._connection: asyncpg.Connection | None = None

    @contextlib.asynccontextmanager
    async def linked(self, lost: Callable[[], object]) -> AsyncIterator[asyncpg.Connection]:
        """A connection of its own; `lost` is called when it ends. Raises one of `AWAY`."""
        connection = await asyncpg.connect(
            self._dsn,
            timeout=CONNECT_SECONDS,
            command_timeout=CONNECT_SECONDS,
            server_settings={"application_name": "tickwise signals"},
        )
        try:
            connection.add_termination_listener(lambda _: lost())
            yield connection
        finally:
            connection.terminate()

    async def ask(self, sql: str, *arguments: object) -> list[Any]:
        """The rows. One question at a time, on a connection that the first one makes. Raises one of `AWAY`."""
        async with asyncio.timeout(self._answer_seconds), self._asking:
            connection = self._connection
            if connection is None or connection.is_closed():
                connection = self._connection = await asyncpg.connect(
                    self._dsn, timeout=self._answer_seconds, server_settings={"application_name": "tickwise board"}
                )
            try:
                rows: list[Any] = await connection.fetch(sql, *arguments)
            except BaseException:
                connection.terminate()
                self._connection = None
                raise
            return rows

    async def close(self) -> None:
        """Free everything."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
