"""`CassandraTables`: rows of readable tables as unlogged batches of one partition, with log positions as timestamps.

Of two writes of a cell Cassandra keeps the one with the higher timestamp, and of a row and its end at one timestamp the
end. So no order of writes matters, and no clock of a node or client.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tickwise.adapters.store.cassandra.link import CassandraLink
from tickwise.adapters.store.cassandra.readable.rows import RowForms
from tickwise.adapters.store.cassandra.readable.tables import read_generation
from tickwise.adapters.store.keeper.readable.tables import READABLE, PartitionDrop, RowWrite, TablesPlace
from tickwise.domain.errors import Misconfigured

TABLES_OF: Final = {
    group: tuple(each.name for each in READABLE if each.group == group) for group in {each.group for each in READABLE}
}


class CassandraTables:
    """The port `ReadableTables` for one shard."""

    def __init__(self, link: CassandraLink, shard: int) -> None:
        self._link, self._shard, self._forms = link, shard, RowForms(link)

    async def place(self) -> TablesPlace:
        """See the port."""
        generation = await read_generation(self._link)
        if generation is None:
            raise Misconfigured("the keyspace has no readable tables: run `tickwise db upgrade`")
        rows = await self._link.ask("place_read", self._shard, generation)
        return TablesPlace(generation, rows[0][0] if rows else None)

    async def write(self, rows: Sequence[RowWrite], drop: PartitionDrop | None) -> None:
        """See the port."""
        batch = await self._forms.batch(rows, drop, TABLES_OF[drop.group] if drop is not None else ())
        if len(batch):
            await self._link.send(batch)

    async def keep_place(self, place: TablesPlace) -> None:
        """See the port."""
        assert place.position is not None
        await self._link.ask("place_keep", self._shard, place.generation, place.position, place.position)
