"""`tickwise keeper`: a process that owns shards of a keyspace, its share of them, and serves them to all roles.

keyspace ──► certificate, port, endpoint ──► for each shard of its share: wait, own, serve, give back
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.cassandra.address import CassandraAddress
from tickwise.adapters.store.cassandra.link import CassandraLink
from tickwise.adapters.store.cassandra.log import CassandraLog, endpoint_is_gone
from tickwise.adapters.store.cassandra.readable.writing import CassandraTables
from tickwise.adapters.store.cassandra.registry import CassandraRegistry
from tickwise.adapters.store.cassandra.schema import KeyspaceState, opened_keyspace
from tickwise.adapters.store.cassandra.time import ClusterClock, ClusterTime
from tickwise.adapters.store.keeper.balancer import ShardBalancer
from tickwise.adapters.store.keeper.owner import ShardOwner
from tickwise.adapters.store.keeper.readable.budget import BacklogBudget
from tickwise.adapters.store.keeper.readable.projector import TableProjector
from tickwise.adapters.store.keeper.spilled import SpilledRuns
from tickwise.adapters.store.keeper.wire.pinning import Endpoint, make_certificate
from tickwise.adapters.store.keeper.wire.server import KeeperServer
from tickwise.adapters.store.keeper.wire.standby import StandbyLink
from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured, Unavailable
from tickwise.observability.keepers import KeeperMetrics
from tickwise.observability.tasks import end_tasks
from tickwise.roles.shared.service import Loop
from tickwise.wiring.cassandra.circles import freeze_loop
from tickwise.wiring.cassandra.keyspace import keyspace_of
from tickwise.wiring.startup_wait import StartupWait

MEASURE_SECONDS: Final = 30.0
"""Between two looks at the clocks of the nodes: those of machines drift apart by some 3 ms in that time at most."""

logger = structlog.get_logger("tickwise.wiring")


@contextlib.asynccontextmanager
async def keeping(
    settings: Settings, startup_wait: StartupWait, metrics: KeeperMetrics
) -> AsyncIterator[ShardBalancer]:
    """Shards are owned and served while the block lasts: this keeper's share."""
    address, clock = keyspace_of(settings), SystemClock()
    link, state = await startup_wait.until("store", lambda: opened_keyspace(address, clock))
    stop = asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(link.close)
        host = settings.keeper_host
        if host is None:
            host = await asyncio.to_thread(_address_towards, address)
        server = KeeperServer(make_certificate(clock.now()), state.keeper_key, clock, metrics)
        try:
            endpoint = await server.start(host, settings.keeper_port)
        except OSError as failure:
            raise Misconfigured(
                f"a keeper cannot listen at {host}:{settings.keeper_port}: {failure.strerror}. Set "
                "TICKWISE_KEEPER_HOST to an address of this machine that all roles reach, and TICKWISE_KEEPER_PORT to "
                "a port that is free"
            ) from failure
        stack.push_async_callback(server.stop)
        registry = CassandraRegistry(link, state.numbers)
        shards = _KeyspaceShards(settings, link, state, server, endpoint, metrics, clock, registry)
        owners = [shards.owner(shard) for shard in state.numbers]
        stack.push_async_callback(registry.close)
        balancer = ShardBalancer(owners, registry, clock, str(endpoint))
        task = asyncio.create_task(balancer.run(stop))
        task.add_done_callback(lambda _: startup_wait.stop.set())
        measuring_loop = Loop("cluster time", shards.measure, clock, after=MEASURE_SECONDS)
        loops = measuring_loop.run(), metrics.watch_loop(clock), freeze_loop(clock)
        measuring = [asyncio.create_task(each) for each in loops]
        logger.info("keeper_listens", endpoint=endpoint.address)
        try:
            yield balancer
        finally:
            stop.set()
            await end_tasks(measuring)
            await task


@dataclass(frozen=True, slots=True)
class _KeyspaceShards:
    """The parts that the owners of all shards of a keyspace share in this process."""

    settings: Settings
    link: CassandraLink
    state: KeyspaceState
    server: KeeperServer
    endpoint: Endpoint
    metrics: KeeperMetrics
    clock: SystemClock
    registry: CassandraRegistry
    logs: dict[int, CassandraLog] = field(default_factory=dict)
    """The newest log of each shard that was opened here."""
    backlog: BacklogBudget = field(default_factory=BacklogBudget)

    def owner(self, shard: int) -> ShardOwner:
        """Make the owner of one shard."""

        async def make_log() -> tuple[CassandraLog, ClusterClock]:
            log = CassandraLog(self.link, shard, is_gone=_is_gone)
            await log.time.measure()
            self.logs[shard] = log
            return log, ClusterClock(log.time, self.clock)

        settings, clock = self.settings, self.clock
        has_tables = settings.keeper_tables != "off"
        return ShardOwner(
            shard,
            make_log,
            clock,
            self.server,
            self.endpoint,
            near_seconds=settings.horizon_seconds,
            metrics=self.metrics.shard(shard, clock),
            standby=StandbyLink(
                partial(self.registry.owner, shard), key=self.state.keeper_key, shard=shard, clock=clock
            ),
            make_ended=lambda: SpilledRuns(settings.data_dir / "keeper", settings.ended_runs_in_memory),
            projection=self._projector(shard) if has_tables else None,
            identity=self.state.identity(shard),
        )

    def _projector(self, shard: int) -> TableProjector:
        return TableProjector(CassandraTables(self.link, shard), self.clock, shard=shard, budget=self.backlog)

    async def measure(self) -> float:
        """Measure the cluster's time for each open log; for how many seconds that is enough."""
        times: list[ClusterTime] = [log.time for log in self.logs.values()]
        for time in times:
            with contextlib.suppress(Unavailable):
                await time.measure()
        return MEASURE_SECONDS


async def _is_gone(endpoint: str) -> bool:
    """Check whether no process listens at the endpoint of an owner."""
    return await endpoint_is_gone(endpoint.partition("/")[0])


def _address_towards(address: CassandraAddress) -> str:
    """The address of this machine from which it reaches the first node: roles that reach Cassandra reach it, too."""
    host, port = address.hosts[0]
    try:
        family, kind, proto, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, proto) as sock:
            sock.connect(place)  # sends nothing
            return str(sock.getsockname()[0])
    except OSError as failure:
        raise Misconfigured(
            f"no way leads to {host}: {failure.strerror or failure}; set TICKWISE_KEEPER_HOST"
        ) from None
