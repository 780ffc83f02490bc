"""How the processes of one cluster hear of each other: inside one process, through the database, or through Redis.

Chosen by address: `signals_url`, or else that of the store. None of it is needed for anything to be right.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured
from tickwise.ports.clock import Clock
from tickwise.ports.signals import Signals
from tickwise.ports.store import Store
from tickwise.wiring.patience import Patience


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """The ways there are."""

    signals: Signals


@contextlib.asynccontextmanager
async def open_neighbours(
    settings: Settings, url: str, *, store: Store, clock: Clock, patience: Patience
) -> AsyncIterator[Neighbours]:
    """All of them, begun; `url` is that of the store, which is open. Raises `Misconfigured`."""
    address = settings.signals_url or url
    if address.startswith(("redis:", "rediss:")):
        opened = _through_redis(address, await patience.until("store", store.cluster_id), clock)
    elif address.startswith("memory:"):
        opened = _in_this_process()
    else:
        opened = _through_postgres(address, clock)
    async with opened as near:
        yield near


@contextlib.asynccontextmanager
async def _in_this_process() -> AsyncIterator[Neighbours]:
    from tickwise.adapters.signals.local import LocalSignals

    async with _started(Neighbours(signals=LocalSignals())) as near:
        yield near


@contextlib.asynccontextmanager
async def _through_postgres(address: str, clock: Clock) -> AsyncIterator[Neighbours]:
    from tickwise.adapters.signals.postgres import PostgresSignals

    async with _started(Neighbours(signals=PostgresSignals(address, clock))) as near:
        yield near


@contextlib.asynccontextmanager
async def _through_redis(address: str, cluster: str, clock: Clock) -> AsyncIterator[Neighbours]:
    try:
        from tickwise.adapters.signals.redis import RedisLink, RedisSignals
    except ImportError as missing:
        raise Misconfigured(
            "signals_url names Redis, and its client is not there: install tickwise[redis]"
        ) from missing

    link = RedisLink(address, cluster)
    try:
        async with _started(Neighbours(signals=RedisSignals(link, clock))) as near:
            yield near
    finally:
        await link.close()


@contextlib.asynccontextmanager
async def _started(near: Neighbours) -> AsyncIterator[Neighbours]:
    async with contextlib.AsyncExitStack() as stack:
        for each in (near.signals,):
            await each.start()
            stack.push_async_callback(each.stop)
        yield near
