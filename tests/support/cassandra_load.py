"""An owner under load while nodes are harmed, and what its log must hold afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.support.waiting import eventually
from tickwise.adapters.store.cassandra.log import CassandraLog
from tickwise.domain.errors import StoreUnavailable
from tickwise.testing.contracts.effect_log import own, read_all


@dataclass
class Load:
    """The appends of an owner, and their answers."""

    log: CassandraLog
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    doubted: set[bytes] = field(default_factory=set)
    """Bodies of appends that ended without an answer: each may be there once, or not."""
    ends: asyncio.Event = field(default_factory=asyncio.Event)
    longest_seconds: float = 0.0
    """The longest that one append took."""

    async def run(self) -> None:
        """Append numbered bodies until the end; acquire the log again after a doubt."""
        loop = asyncio.get_running_loop()
        number = 0
        while not self.ends.is_set():
            body = b"%d." % number + b"x" * (number * 7919 % 20_000)
            number += 1
            begun = loop.time()
            try:
                self.acknowledged[await self.log.append(body)] = body
            except StoreUnavailable:
                self.doubted.add(body)
                await self._again()
            self.longest_seconds = max(self.longest_seconds, loop.time() - begun)

    async def _again(self) -> None:
        async def acquired() -> bool:
            try:
                await own(self.log, "again")
            except StoreUnavailable:
                return False
            return True

        await eventually(acquired, within_seconds=90.0)

    async def goes_on(self, entries: int = 20) -> None:
        """Wait until so many more are acknowledged."""
        before = len(self.acknowledged)
        await eventually(
            lambda: len(self.acknowledged) >= before + entries, within_seconds=90.0, what="the owner appends again"
        )

    async def judge(self) -> None:
        """Nothing acknowledged is lost, nothing is there twice, and there are no gaps."""
        entries = await read_all(self.log)
        found = {entry.position: entry.body for entry in entries}
        assert [*range(1, len(entries) + 1)] == [entry.position for entry in entries]
        assert self.acknowledged == {position: found[position] for position in self.acknowledged}
        extra = [body for position, body in found.items() if position not in self.acknowledged]
        assert set(extra) <= self.doubted
        assert len(entries) == len(set(found.values())), "an entry is there twice"


@asynccontextmanager
async def under_load(log: CassandraLog) -> AsyncIterator[Load]:
    """An owner that appends all the time; at the end its log is judged."""
    await own(log, "owner")
    load = Load(log)
    running = asyncio.ensure_future(load.run())
    try:
        await load.goes_on()
        yield load
        await load.goes_on()
    finally:
        load.ends.set()
        await running
    await load.judge()
