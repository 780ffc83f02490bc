"""A keeper of tests in this process: the real server on a real port, and clients of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.keeper.file_log import FileLog
from tickwise.adapters.store.keeper.log import EffectLog
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.adapters.store.keeper.wire.pinning import KeeperCertificate, make_certificate
from tickwise.adapters.store.keeper.wire.remote import RemoteStore
from tickwise.adapters.store.keeper.wire.server import KeeperServer
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

    async def client(self, *, key: str = KEY, patience_seconds: float = 10.0) -> RemoteStore:
        """One more client, open."""

        async def find() -> str:
            return self.endpoint

        made = RemoteStore(find, key=lambda: key, shard=SHARD, clock=CLOCK, patience_seconds=patience_seconds)
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
async def served_by(log: EffectLog, clock: Clock) -> AsyncIterator[ServedStore]:
    """A store over that log, served on loopback."""
    store = KeeperStore(log, clock)
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
