"""The coordination of the processes of one cluster: inside one process, through the database, or through Redis.

Chosen by address: `signals_url`, or else that of the store. None of it is needed for anything to be right.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from tickwise.adapters.store.cassandra.address import is_cassandra
from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured
from tickwise.ports.clock import Clock
from tickwise.ports.limits import RateLimits
from tickwise.ports.shared_state import SharedState
from tickwise.ports.signals import Signals
from tickwise.ports.store import Store
from tickwise.wiring.storage.file_store import is_in_process


class ApiProcessCount:
    """The number of API processes, as last heard."""

    def __init__(self) -> None:
        self.count = 1

    def __call__(self) -> int:
        return self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordination:
    """The ways there are."""

    signals: Signals
    shared_state: SharedState
    limits: RateLimits
    api_processes: ApiProcessCount
    """The processes of the API, which share a limit if they cannot count requests together."""
    are_apart: bool = False
    """True if they stay reachable while the store is away, and put no load on the store."""


@contextlib.asynccontextmanager
async def open_coordination(settings: Settings, url: str, *, store: Store, clock: Clock) -> AsyncIterator[Coordination]:
    """Open the parts of a cluster's coordination, and start them; `url` is that of the store, which is open. Raises
    `Misconfigured`."""
    address = settings.signals_url or url
    if address.startswith(("redis:", "rediss:")):
        opened = _through_redis(address, store.upkeep.cluster_id, clock)
    elif is_in_process(address):
        opened = _in_this_process(clock)
    elif is_cassandra(address):
        raise Misconfigured(
            "on Cassandra the processes call each other through Redis: set TICKWISE_SIGNALS_URL=redis://host:port/0 "
            "for all roles but keepers"
        )
    else:
        if settings.signals_url is not None:
            from tickwise.adapters.store.postgres import check_sessions

            await check_sessions(address)  # a session that listens must be one's own
        opened = _through_postgres(address, clock)
    async with opened as coordination:
        yield coordination


@contextlib.asynccontextmanager
async def _in_this_process(clock: Clock) -> AsyncIterator[Coordination]:
    from tickwise.adapters.signals.local import LocalLimits, LocalSharedState, LocalSignals

    coordination = Coordination(
        signals=LocalSignals(),
        shared_state=LocalSharedState(clock),
        limits=LocalLimits(clock),
        api_processes=ApiProcessCount(),
    )
    async with _started(coordination):
        yield coordination


@contextlib.asynccontextmanager
async def _through_postgres(address: str, clock: Clock) -> AsyncIterator[Coordination]:
    from tickwise.adapters.signals.postgres import (
        PostgresLink,
        PostgresSharedState,
        PostgresSignals,
        postgres_limits,
    )

    link, api_processes = PostgresLink(address, clock), ApiProcessCount()
    coordination = Coordination(
        signals=PostgresSignals(link),
        shared_state=PostgresSharedState(link),
        limits=postgres_limits(link, api_processes=api_processes),
        api_processes=api_processes,
    )
    try:
        async with _started(coordination):
            yield coordination
    finally:
        await link.close()


@contextlib.asynccontextmanager
async def _through_redis(address: str, cluster: str, clock: Clock) -> AsyncIterator[Coordination]:
    try:
        from tickwise.adapters.signals.redis import RedisLink, RedisSharedState, RedisSignals, redis_limits
    except ImportError as missing:
        raise Misconfigured(
            "signals_url names Redis, and its client is not there: install tickwise[redis]"
        ) from missing

    link, api_processes = RedisLink(address, cluster, clock), ApiProcessCount()
    coordination = Coordination(
        signals=RedisSignals(link),
        shared_state=RedisSharedState(link),
        limits=redis_limits(link, api_processes=api_processes),
        api_processes=api_processes,
        are_apart=True,
    )
    try:
        async with _started(coordination):
            yield coordination
    finally:
        await link.close()


@contextlib.asynccontextmanager
async def _started(coordination: Coordination) -> AsyncIterator[None]:
    async with contextlib.AsyncExitStack() as stack:
        for each in (coordination.signals, coordination.shared_state, coordination.limits):
            await each.start()
            stack.push_async_callback(each.stop)
        yield
