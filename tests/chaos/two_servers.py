"""Two databases behind one router: people, keys and the map in the first, all jobs in the second, which is harmed."""

from __future__ import annotations

import asyncio
from typing import Final

import asyncpg

from tests.chaos.server import SQL, Server
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.wiring.storage.databases import upgrade_all

SECOND: Final = 2


class TwoServers(Server):
    """What is inherited is the second. The first lives through all that is done to it."""

    def __init__(self) -> None:
        super().__init__()
        self._first = Server()

    @property
    def roles_url(self) -> str:
        """Both, the first one first."""
        return f"{self._first.url} {self.url}"

    async def prepare(self) -> None:
        """Both, as one installation, and the namespace of all jobs in the second."""
        await self._first.start()
        await self.start()
        await upgrade_all(self.roles_url)
        async with asyncio.timeout(30):
            await self._place()
            async with self.session() as connection:
                await connection.execute(SQL["journal"])

    async def _place(self) -> None:
        connection = await asyncpg.connect(self._first.url)
        await connection.execute(SQL["placed"], DEFAULT_NAMESPACE, SECOND)
        await connection.close()

    async def stop(self) -> None:
        """Both."""
        try:
            await super().stop()
        finally:
            await self._first.stop()
