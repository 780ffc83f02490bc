"""The Cassandra of a scene, one node or three, and the Redis that roles on it need."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.server import Backing
from tests.chaos.shim import ShiftedClock
from tests.services.cassandra import Cassandra, cluster
from tests.services.redis import Redis
from tests.support.cassandras import CLOCK
from tickwise.adapters.store.cassandra.address import read_address
from tickwise.adapters.store.cassandra.schema import upgrade

KEYSPACE = "chaos"


class KeeperCluster(Backing):
    """Each node can be killed, frozen and started again; its clock can be shifted."""

    def __init__(self, count: int = 1) -> None:
        self.nodes: list[Cassandra] = []
        self.clocks: list[ShiftedClock] = []
        self.redis = Redis()
        self._count = count
        self._stack = contextlib.AsyncExitStack()

    @property
    def roles_url(self) -> str:
        return f"cassandra://{','.join(node.address for node in self.nodes)}/{KEYSPACE}"

    async def prepare(self) -> None:
        self._stack.push_async_callback(self.redis.remove)
        await self.redis.start()
        folder = Path(self.redis.folder)
        self.clocks = [await asyncio.to_thread(ShiftedClock, folder, f"node{n}") for n in range(self._count)]
        environments = [clock.environment for clock in self.clocks]
        self.nodes = await self._stack.enter_async_context(cluster(self._count, shifted=environments))
        await self.upgrade()

    async def upgrade(self) -> None:
        """As `tickwise db upgrade` does: the keyspace, and each table that is missing."""
        await upgrade(read_address(self.roles_url), CLOCK)

    async def stop(self) -> None:
        self.thaw()
        await self._stack.aclose()

    def thaw(self) -> None:
        for node in self.nodes:
            node.thaw()

    async def kill_for(self, node: Cassandra, seconds: float) -> None:
        """`kill -9`, and a start after so many seconds; return when it answers again."""
        node.kill()
        await CLOCK.sleep(seconds)
        await node.start()

    async def freeze_for(self, nodes: Sequence[Cassandra], seconds: float) -> None:
        """They neither answer nor hang up for so long."""
        for node in nodes:
            node.freeze()
        try:
            await CLOCK.sleep(seconds)
        finally:
            for node in nodes:
                node.thaw()
