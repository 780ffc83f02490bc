"""Checkpoints in parts: begun, written, and counted by one conditional update once all parts are there.

    draft row (at most so many parts) ──► parts, in pieces ──► shard.checkpoint = …  IF epoch = mine ──► others deleted

A checkpoint is named by (epoch, number): two owners, or two tries of one, never write the same part. A crash before the
update leaves a draft, which the next checkpoint of the shard deletes.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import Final

from tickwise.adapters.store.cassandra.link import CassandraLink
from tickwise.adapters.store.cassandra.ownership import ShardRow
from tickwise.adapters.store.cassandra.pieces import cut, read_value
from tickwise.domain.errors import Misconfigured

PARTS_AHEAD: Final = 64
"""The draft names this many more parts before the first of them is written."""


class Checkpoints:
    """The parts of the checkpoints of one shard. Each method may raise `StoreUnavailable`."""

    def __init__(self, link: CassandraLink, shard: int) -> None:
        self._link = link
        self._shard = shard

    async def write(self, epoch: int, number: int, parts: AsyncIterable[bytes]) -> int:
        """Write the parts of a checkpoint, which does not count by that; how many there are."""
        count = announced = 0
        async for part in parts:
            if count == announced:
                announced += PARTS_AHEAD
                await self._link.ask("draft_write", self._shard, epoch, number, announced)
            pieces = cut(part)
            for place, piece in enumerate(pieces):
                at = (self._shard, epoch, number, count, place)
                await self._link.ask("part_write", *at, len(pieces), piece)
            count += 1
        return count

    async def read(self, row: ShardRow) -> AsyncIterator[bytes]:
        """The parts of the checkpoint that the row names. Raises `Misconfigured` if one is not there."""
        for part in range(row.checkpoint_parts or 0):
            named = self._shard, row.checkpoint_epoch, row.checkpoint_number, part
            body = await read_value(self._link, "part_read", *named)
            if body is None:
                raise Misconfigured(
                    f"part {part} of the checkpoint of shard {self._shard} at position {row.checkpoint} is missing: "
                    "restore the keyspace from a backup"
                )
            yield body

    async def sweep(self, row: ShardRow, own: tuple[int, int]) -> None:
        """Delete all checkpoints but the one that counts and those that were begun after our own: an owner that lost
        the shard must not delete what its successor writes."""
        for epoch, number, parts in await self._link.ask("drafts_read", self._shard):
            if (epoch, number) == (row.checkpoint_epoch, row.checkpoint_number) or (epoch, number) > own:
                continue
            for part in range(parts):
                await self._link.ask("part_delete", self._shard, epoch, number, part)
            await self._link.ask("draft_delete", self._shard, epoch, number)
