"""Epochs, and the runs that an executor holds on the store's record. An epoch begins in
`migrations/sql/0003_continuity.sql`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.connection.link import BEAT
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.fencing import HeldDigest
from tickwise.domain.model import Claimed
from tickwise.ports.store import Epoch, EpochCause

MAX_EPOCHS: Final = 100


class Epochs(Part):
    """`EpochStore` of the port."""

    async def begin(self) -> int:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            epoch: int = await connection.fetchval(statement("epoch"), self._links.token, EpochCause.TOLD.value)
        self._links.heard_epoch(epoch)
        return epoch

    async def all(self) -> Sequence[Epoch]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("epochs_list"), MAX_EPOCHS)
        return [Epoch(**{**row, "cause": EpochCause(row["cause"])}) for row in rows]


class Held(Part):
    """`HeldRunStore` of the port."""

    async def digest(self, executor: int, token: int) -> HeldDigest:
        """See the port."""
        reached = self._shared.reached.get(executor, {})
        lanes, instants = list(reached.keys()), list(reached.values())
        async with self._links.line(BEAT).use(writes=False) as connection:
            runs, digest = await connection.fetchrow(statement("held_digest"), executor, token, lanes, instants)
        return HeldDigest(runs, digest)

    async def tokens(self, executor: int, token: int) -> Mapping[UUID, int]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            return dict(await connection.fetch(statement("held_list"), executor, token))

    async def take_again(self, executor: int, runs: Sequence[UUID]) -> Sequence[Claimed]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            return [Claimed(*row) for row in await connection.fetch(statement("held_again"), executor, runs)]

    async def differed(self, runs: int) -> None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            await connection.execute(statement("epoch_differed"), runs)
