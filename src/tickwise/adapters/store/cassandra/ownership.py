"""The row of a shard: who owns it, since which epoch, and how far its log goes.

Every change is one conditional update of that row, so an acquisition raises the epoch and learns the last position in
one step: no append of an earlier owner can come between.

    an update ──► applied
        └─ refused, or no answer ──► read SERIAL, which settles it ──► still possible: the same update once more
                                                                  └──► not: the row says whose change it is

An update is repeated with the same values alone. Applied twice it leaves what it leaves applied once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tickwise.adapters.store.cassandra.link import CassandraLink
from tickwise.domain.errors import CassandraAway, InDoubt, StoreUnavailable
from tickwise.observability.waits import note_wait

PAUSE_SECONDS: Final = 0.02
PAUSE_MAX_SECONDS: Final = 0.5
"""Between two tries: from the first to the second, doubled each time."""
PATIENCE_SECONDS: Final = 15.0
"""For how long an update without an answer is resolved and repeated: three nodes notice a frozen one in 4 s."""


class ShardRow(NamedTuple):
    """The row, as `shard_read` gives it."""

    shard: int
    owner: str
    endpoint: str
    epoch: int
    nonce: str
    renewed: int
    lease_ms: int
    last: int
    told_at: int
    checkpoint: int
    checkpoint_epoch: int | None
    checkpoint_number: int | None
    checkpoint_parts: int | None
    first: int
    swept: int

    @property
    def lives(self) -> tuple[int, int, int]:
        """It differs whenever the owner has done something since."""
        return self.epoch, self.renewed, self.last


class OwnershipRow:
    """Reads and conditional updates of the row of one shard. Each may raise `StoreUnavailable`."""

    def __init__(self, link: CassandraLink, shard: int) -> None:
        self._link = link
        self.shard = shard

    async def read(self) -> ShardRow:
        """Read the row at SERIAL, which settles an update under way; make the row if it is not there."""
        end = self._link.clock.monotonic() + PATIENCE_SECONDS
        row = await self._read(end)
        if row is None:
            await self._made()
            row = await self._read(end)
        if row is None:
            raise StoreUnavailable(f"the row of shard {self.shard} is not there yet")
        return row

    async def look(self) -> ShardRow | None:
        """The row as a majority has it, if it is there. It may lack an update that is under way."""
        rows = await self._link.ask("shard_look", self.shard)
        return _row(rows[0]) if rows else None

    async def change(
        self, name: str, values: tuple[Any, ...], may_go_on: Callable[[ShardRow], bool]
    ) -> ShardRow | None:
        """Carry out a conditional update until its outcome is certain. None: it was applied just now. Else the row that
        leaves no room for it: an earlier try of this call was applied, or somebody else was first. `may_go_on` tells a
        row on which the update is still possible. Raises `StoreUnavailable` if the outcome stays open."""
        end = self._link.clock.monotonic() + PATIENCE_SECONDS
        pause = PAUSE_SECONDS
        while True:
            try:
                answer = await self._link.ask(name, *values)
                if answer[0][0]:
                    return None
            except (InDoubt, StoreUnavailable) as failure:
                note_wait(CassandraAway(failure.detail))  # what became of it, the row says
            row = await self._read(end)
            if row is None or not may_go_on(row):
                return row or _nobody(self.shard)
            if self._link.clock.monotonic() > end:
                raise CassandraAway(f"Cassandra does not carry out {name} of shard {self.shard}")
            await self._link.clock.sleep(pause * (0.5 + self._link.clock.chance()))
            pause = min(2 * pause, PAUSE_MAX_SECONDS)

    async def _made(self) -> None:
        with contextlib.suppress(InDoubt):  # the next read says
            await self._link.ask("shard_make", self.shard)

    async def _read(self, end: float) -> ShardRow | None:
        pause = PAUSE_SECONDS
        while True:
            try:
                rows = await self._link.ask("shard_read", self.shard)
                return _row(rows[0]) if rows else None
            except StoreUnavailable as failure:
                if self._link.clock.monotonic() > end:
                    raise
                note_wait(failure)
            await self._link.clock.sleep(pause * (0.5 + self._link.clock.chance()))
            pause = min(2 * pause, PAUSE_MAX_SECONDS)


def _row(values: tuple[Any, ...]) -> ShardRow:
    return ShardRow(*values)


def _nobody(shard: int) -> ShardRow:
    """The row in place of one that somebody has deleted: epoch 0, which no owner has."""
    return ShardRow(shard, "", "", 0, "", 0, 0, 0, 0, 0, None, None, None, 1, 0)
