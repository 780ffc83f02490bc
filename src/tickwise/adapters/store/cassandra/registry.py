"""`CassandraRegistry`: the keepers that live, and the owners of all shards, each by one read.

Invariant: nothing here decides who may append. The epoch of a shard's row does (`ownership`); what is read here says
who should try, and where a role has to ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from tickwise.adapters.store.cassandra.link import CassandraLink
from tickwise.adapters.store.keeper.balance import KeeperBeat
from tickwise.observability.tasks import end_tasks

ROW_SECONDS: Final = 30
"""The time to live of a beat, as `table_keeper` has it."""


class ShardOwners:
    """The endpoints of the owners. Looks at the same time are one read."""

    def __init__(self, link: CassandraLink, numbers: Sequence[int]) -> None:
        self._link = link
        self._numbers = list(numbers)
        self._looking: asyncio.Task[Mapping[int, str]] | None = None

    async def all(self) -> Mapping[int, str]:
        """The endpoint of each shard's owner; empty: it has none. Raises `StoreUnavailable`."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        return await asyncio.shield(self._looking)

    async def of(self, shard: int) -> str:
        """The endpoint of one shard's owner; empty: it has none. Raises `StoreUnavailable`."""
        return (await self.all()).get(shard, "")

    async def close(self) -> None:
        """End the look under way."""
        if self._looking is not None:
            await end_tasks([self._looking])

    async def _look(self) -> Mapping[int, str]:
        rows = await self._link.ask("owners_look", self._numbers)
        found: dict[int, str] = dict.fromkeys(self._numbers, "")
        return found | {shard: endpoint or "" for shard, endpoint in rows}


class CassandraRegistry:
    """`KeeperRegistry` of a keyspace."""

    def __init__(self, link: CassandraLink, numbers: Sequence[int]) -> None:
        self._link = link
        self._owners = ShardOwners(link, numbers)

    async def close(self) -> None:
        """End the look under way."""
        await self._owners.close()

    async def beat(self, keeper: str, number: int) -> None:
        """See the port."""
        await self._link.ask("keeper_beat", keeper, number)

    async def leave(self, keeper: str) -> None:
        """See the port."""
        await self._link.ask("keeper_leave", keeper)

    async def keepers(self) -> Mapping[str, KeeperBeat]:
        """See the port."""
        rows = await self._link.ask("keepers_look")
        return {keeper: KeeperBeat(beat, max(0, ROW_SECONDS - (left or ROW_SECONDS))) for keeper, beat, left in rows}

    async def owners(self) -> Mapping[int, str]:
        """See the port."""
        return await self._owners.all()

    async def owner(self, shard: int) -> str:
        """The endpoint of one shard's owner; empty: it has none. Raises `StoreUnavailable`."""
        return await self._owners.of(shard)
