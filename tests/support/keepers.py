"""A keeper of tests in this process: the real server on a real port, and clients of it."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.keeper.file_log import FileLog
from tickwise.adapters.store.keeper.log import EffectLog
from tickwise.adapters.store.keeper.shards import FIRST, ShardIdentity, shard_numbers
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.adapters.store.keeper.wire.pinning import KeeperCertificate, make_certificate
from tickwise.adapters.store.keeper.wire.remote import RemoteStore
from tickwise.adapters.store.keeper.wire.server import KeeperServer
from tickwise.adapters.store.memory.ended import EndedRuns
from tickwise.adapters.store.sharded import ShardedStore
from tickwise.domain.errors import TickwiseError
from tickwise.ports.clock import Clock

CLOCK = SystemClock()
KEY = "of tests"
SHARD = 1


class GatedLog(FileLog):
    """A log whose appends wait for a test, or fail as it says."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, sync=lambda _file: None)
        self.gate = asyncio.Event()
        self.gate.set()
        self.appends = 0
        self.waiting = False
        """An append waits at the gate."""
        self.fails: TickwiseError | None = None

    async def append(self, body: bytes) -> int:
        self.waiting = not self.gate.is_set()
        await self.gate.wait()
        self.waiting = False
        if self.fails is not None:
            raise self.fails
        self.appends += 1
        return await super().append(body)


@cache
def certificate() -> KeeperCertificate:
    """The certificate of all keepers of this process."""
    return make_certificate(CLOCK.now())


@dataclass
class ServedStore:
    """A store, its server, and the clients that were made."""

    store: KeeperStore
    server: KeeperServer
    endpoint: str
    """As an owner publishes it; a test may change it."""
    clients: list[RemoteStore] = field(default_factory=list)

    async def client(self, *, key: str = KEY, patience_seconds: float = 10.0, clock: Clock = CLOCK) -> RemoteStore:
        """One more client, open."""

        async def find() -> str:
            return self.endpoint

        made = RemoteStore(find, key=lambda: key, shard=SHARD, clock=clock, patience_seconds=patience_seconds)
        self.clients.append(made)
        await made.open()
        return made


@dataclass
class GatedServedStore(ServedStore):
    """One whose log waits for a test."""

    log: GatedLog = field(kw_only=True)


@contextlib.asynccontextmanager
async def served(folder: Path, clock: Clock) -> AsyncIterator[GatedServedStore]:
    """A store over a log in that folder, served on loopback."""
    log = GatedLog(folder)
    async with served_by(log, clock) as made:
        try:
            yield GatedServedStore(made.store, made.server, made.endpoint, made.clients, log=log)
        finally:
            log.gate.set()


@contextlib.asynccontextmanager
async def served_by(
    log: EffectLog, clock: Clock, make_ended: Callable[[], EndedRuns] = EndedRuns
) -> AsyncIterator[ServedStore]:
    """A store over that log, served on loopback."""
    store = KeeperStore(log, clock, make_ended=make_ended)
    await store.open()
    server = KeeperServer(certificate(), KEY, CLOCK)
    endpoint = await server.start("127.0.0.1")
    server.serve(SHARD, store)
    made = ServedStore(store, server, str(endpoint))
    try:
        yield made
    finally:
        for client in made.clients:
            await client.close()
        await server.stop()
        await store.close()


@dataclass
class OpenShards:
    """Several shards of one installation, and the routers over them that were made."""

    stores: list[KeeperStore]
    clock: Clock
    server: KeeperServer | None = None
    endpoint: str = ""
    routers: list[ShardedStore] = field(default_factory=list)

    async def router(self) -> ShardedStore:
        """One more router, open; with a server it has connections of its own."""
        made = self.unopened()
        self.routers.append(made)
        await made.open()
        return made

    def unopened(self) -> ShardedStore:
        """One more router, for somebody who opens and closes it."""
        parts: list[Any] = [*self.stores] if self.server is None else self._clients()
        return ShardedStore(parts, parts[0].shard_map, clock=self.clock)

    async def serve(self, stack: contextlib.AsyncExitStack) -> None:
        """From now on routers ask them through the wire."""
        self.server = KeeperServer(certificate(), KEY, CLOCK)
        self.endpoint = str(await self.server.start("127.0.0.1"))
        stack.push_async_callback(self.server.stop)
        for number, store in enumerate(self.stores, FIRST):
            self.server.serve(number, store)

    def _clients(self) -> list[RemoteStore]:
        async def find() -> str:
            return self.endpoint

        numbers = shard_numbers(len(self.stores))
        return [RemoteStore(find, key=lambda: KEY, shard=number, clock=CLOCK) for number in numbers]


@contextlib.asynccontextmanager
async def open_shards(logs: Sequence[EffectLog], clock: Clock, *, by_wire: bool) -> AsyncIterator[OpenShards]:
    """Shards over these logs, of a new installation."""
    installation, count = str(uuid.uuid4()), len(logs)
    stores = [
        KeeperStore(log, clock, identity=ShardIdentity.of(number, installation, count))
        for number, log in zip(shard_numbers(count), logs, strict=True)
    ]
    made = OpenShards(stores, clock)
    async with contextlib.AsyncExitStack() as stack:
        for store in stores:
            await store.open()
            stack.push_async_callback(store.close)
        if by_wire:
            await made.serve(stack)
        try:
            yield made
        finally:
            for router in made.routers:
                await router.close()
