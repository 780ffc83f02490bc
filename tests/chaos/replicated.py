"""A PostgreSQL with an asynchronous standby: what the primary acknowledged last is lost when the standby takes over."""

from __future__ import annotations

from tests.chaos.server import SQL, Server
from tests.support import standby
from tests.support.standby import Standby
from tickwise.adapters.store.postgres import upgrade


class Replicated(Server):
    """Its address names both servers; roles go to the one that takes writes."""

    def __init__(self) -> None:
        super().__init__()
        self._standby: Standby | None = None

    async def prepare(self) -> None:
        """The primary with the product's schema and the journal, and a standby that follows it."""
        await self.start()
        await upgrade(self.url)
        async with self.session() as connection:
            await connection.execute(SQL["journal"])
        self._standby = await standby.follow(self._postgres, self.url)
        self.url = standby.either(self.url, self._standby.url)

    async def cut(self) -> None:
        """The standby gets nothing more."""
        assert self._standby is not None
        await self._standby.cut()

    async def promote(self) -> None:
        """It takes writes from now on."""
        assert self._standby is not None
        await self._standby.promote()

    async def stop(self) -> None:
        """End both, and remove their data."""
        if self._standby is not None:
            await self._standby.end()
        await super().stop()
