"""`StandbyLink`: a keeper that waits for a shard tells its owner how far it has read the log.

    look at the log, twice a second ──► position ──► the owner, which ends or hands over once somebody is ready

Invariant: nothing depends on it. An owner that hears nothing waits for some seconds, and gives the shard back.
"""

from __future__ import annotations

import asyncio
import contextlib

from tickwise.adapters.store.keeper.wire.forms import encoded
from tickwise.adapters.store.keeper.wire.greeting import STANDBY
from tickwise.adapters.store.keeper.wire.link import KeeperLink
from tickwise.adapters.store.keeper.wire.pinning import Endpoint
from tickwise.adapters.store.keeper.wire.remote import FindOwner
from tickwise.domain.errors import TickwiseError
from tickwise.ports.clock import Clock


class StandbyLink:
    """Run it as a task while the shard is waited for."""

    def __init__(self, find: FindOwner, *, key: str, shard: int, clock: Clock) -> None:
        """`key`: the secret of the keyspace."""
        self._find, self._key, self._shard, self._clock = find, key, shard, clock
        self._position = 0
        self._news = asyncio.Event()

    def begin(self) -> None:
        """Nothing is read yet: a wait for the shard begins."""
        self._news.clear()

    def caught_up(self, position: int) -> None:
        """All up to this position is read, as of just now."""
        self._position = position
        self._news.set()

    async def run(self) -> None:
        """Tell it, until cancelled."""
        link: KeeperLink | None = None
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                # An owner that is gone, that is frozen, or of a release that knows no such message: told again later.
                with contextlib.suppress(TickwiseError):
                    if link is None or not link.is_open:
                        link = await self._connected()
                    if link is not None:
                        await link.ask(STANDBY, encoded(self._position))
        finally:
            if link is not None:
                await link.close()

    async def _connected(self) -> KeeperLink | None:
        published = await self._find()
        if not published:
            return None
        return await KeeperLink.connect(
            Endpoint.read(published), key=self._key, shard=self._shard, clock=self._clock, tell=lambda _: None
        )
