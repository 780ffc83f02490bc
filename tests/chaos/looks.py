"""Looks at the database of a scene, many a second, past the product.

One session serves all looks: a session for each look costs 9 ms of a core (the check of the password, a process of the
server and its catalogues), the look itself 0.15 ms. Faults end sessions; the next look opens another.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import asyncpg

from tests.chaos.server import Server

LOOK_SECONDS: Final = 20.0
"""As long as the opening of a session may take: a server may be stopped without a word."""
LOST: Final = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError)
"""Errors that say that the server could not be asked."""


class Looks:
    """One value each. A look that fails leaves no session."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._session: asyncpg.Connection | None = None
        self._url = ""
        self._turn = asyncio.Lock()

    async def value(self, statement: str, *arguments: Any) -> Any:
        """The statement's value. Raises one of `LOST`."""
        async with self._turn:
            session = await self._open()
            try:
                return await session.fetchval(statement, *arguments, timeout=LOOK_SECONDS)
            except BaseException:
                self._leave()
                raise

    async def close(self) -> None:
        """End the session."""
        async with self._turn:
            self._leave()

    async def _open(self) -> asyncpg.Connection:
        if self._session is None or self._session.is_closed() or self._url != self._server.url:
            self._leave()
            self._url = self._server.url
            self._session = await self._server.connect()
        return self._session

    def _leave(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.terminate()
