"""Blocks in pieces: begun, written, and later named by a checkpoint, or deleted.

    draft row ──► pieces ──► (a checkpoint names it) ──► … none does any more ──► pieces go, then the draft row

A block is named by (epoch, number), as a checkpoint is. A crash at any moment leaves a draft row, by which the next
owner finds what no checkpoint names. A row of a deleted block cannot come back: deletes have the later timestamp.
"""

from __future__ import annotations

from collections.abc import Collection

from tickwise.adapters.store.cassandra.link import CassandraLink
from tickwise.adapters.store.cassandra.pieces import cut, read_value
from tickwise.adapters.store.keeper.log import BlockName
from tickwise.domain.errors import Misconfigured


class HistoryBlocks:
    """The blocks of one shard. Each method may raise `StoreUnavailable`."""

    def __init__(self, link: CassandraLink, shard: int) -> None:
        self._link = link
        self._shard = shard

    async def write(self, name: BlockName, body: bytes) -> None:
        """Store a block, which does not count by that."""
        await self._link.ask("block_begin", self._shard, *name)
        pieces = cut(body)
        for place, piece in enumerate(pieces):
            await self._link.ask("block_write", self._shard, *name, place, len(pieces), piece)

    async def read(self, name: BlockName) -> bytes:
        """The body of a block. Raises `Misconfigured` if it is not there."""
        body = await read_value(self._link, "block_read", self._shard, *name)
        if body is None:
            raise Misconfigured(
                f"block {name.number} of epoch {name.epoch} of shard {self._shard} is missing: restore the keyspace "
                "from a backup"
            )
        return body

    async def names(self) -> list[BlockName]:
        """All blocks that were begun and are not deleted."""
        found: list[BlockName] = []
        after: bytes | None = None
        while True:
            rows, after = await self._link.page("blocks_read", self._shard, after=after)
            found += [BlockName(*row) for row in rows]
            if after is None:
                return found

    async def delete(self, names: Collection[BlockName]) -> None:
        """Delete blocks."""
        for name in names:
            await self._link.ask("block_delete", self._shard, *name)
            await self._link.ask("block_forget", self._shard, *name)
