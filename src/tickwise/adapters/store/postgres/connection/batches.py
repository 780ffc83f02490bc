"""Batches of timers that are taken and not yet committed: each is a transaction on a connection of its own.

    timers.take ──► kept ──(the caller decides)──► timers.commit or timers.release: the connection is given back
                      └── neither came within `BATCH_SECONDS`, or the store is closed: the connection is closed

Invariant: a batch ends once, gives its connection back then, and needs nothing from a caller that is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from itertools import count
from typing import Final

import asyncpg

from tickwise.adapters.store.postgres.connection.link import Line, Links, translated
from tickwise.domain.errors import InDoubt, StoreUnavailable
from tickwise.ports.store import BATCH_SECONDS

# The driver's own transaction objects cannot end one from within the block that began it.
COMMIT: Final = "COMMIT"
ROLLBACK: Final = "ROLLBACK"

log = logging.getLogger(__name__)


class OpenBatch:
    """One batch, and the connection whose transaction holds its timers."""

    def __init__(self, batch_id: int, line: Line, connection: asyncpg.Connection) -> None:
        self.batch_id = batch_id
        self.connection = connection
        self.kept_until: asyncio.TimerHandle | None = None
        """Set while no call uses the batch: the moment at which it is abandoned."""
        self._line = line

    @contextlib.asynccontextmanager
    async def use(self) -> AsyncIterator[None]:
        """One call of the batch. Afterwards the batch is over, unless it was kept: what was not committed is rolled
        back, and the connection is given back."""
        try:
            try:
                with translated(writes=False):
                    yield
            finally:
                if self.kept_until is None and not self.connection.is_closed() and self.connection.is_in_transaction():
                    with translated(writes=False):
                        await self.connection.execute(ROLLBACK)
        except (InDoubt, StoreUnavailable, asyncio.CancelledError):
            self.connection.terminate()
            raise
        finally:
            if self.kept_until is None:
                self._line.release()

    def abandon(self) -> None:
        """End the batch at once. The server rolls back what loses its connection."""
        self.connection.terminate()
        self._line.release()


class Batches:
    """The batches that this client has taken, by number."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self._numbers = count(1)
        self._kept: dict[int, OpenBatch] = {}

    async def begin(self) -> OpenBatch:
        """A new batch with a connection of its own, for `OpenBatch.use`."""
        line = self._links.idle_line("fires")
        return OpenBatch(next(self._numbers), line, await line.acquire())

    def keep(self, batch: OpenBatch) -> None:
        """Leave the batch open after the call that uses it, for `BATCH_SECONDS` at most."""
        self._kept[batch.batch_id] = batch
        batch.kept_until = asyncio.get_running_loop().call_later(BATCH_SECONDS, self._expire, batch.batch_id)

    def pop(self, batch_id: int) -> OpenBatch | None:
        """The batch for its last call; None: it is over."""
        batch = self._kept.pop(batch_id, None)
        if batch is not None and batch.kept_until is not None:
            batch.kept_until.cancel()
            batch.kept_until = None
        return batch

    def close(self) -> None:
        """Abandon the batches that no call uses."""
        for batch_id in [*self._kept]:
            self._abandon(batch_id)

    def _expire(self, batch_id: int) -> None:
        log.warning("a batch of timers was neither committed nor released in time: it is rolled back")
        self._abandon(batch_id)

    def _abandon(self, batch_id: int) -> None:
        batch = self.pop(batch_id)
        if batch is not None:
            batch.abandon()
