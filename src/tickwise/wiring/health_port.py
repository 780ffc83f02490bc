"""The health port of a process: open from its first moment, so that its supervisor sees what it waits for."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from tickwise.adapters.blobs import folder_of
from tickwise.adapters.store.keeper.balancer import ShardBalancer
from tickwise.api.problems import NotReady
from tickwise.config import Settings
from tickwise.domain.errors import BrokerUnavailable, Unavailable
from tickwise.observability.freshness import METRICS_FRESH_SECONDS, Fresh
from tickwise.observability.metrics import CONTENT_TYPE, Metrics
from tickwise.observability.waits import answered
from tickwise.ports.broker import Broker
from tickwise.ports.clock import Clock
from tickwise.roles.shared.health import (
    LOOK_SECONDS,
    DiskSpace,
    HealthCheck,
    HealthReport,
    HealthSources,
    PartHealth,
    PartStatus,
)
from tickwise.roles.shared.membership import active_roles
from tickwise.wiring.listening import address_of, listen
from tickwise.wiring.runtime import Runtime
from tickwise.wiring.startup_wait import StartupWait
from tickwise.wiring.storage.opening import blobs_url
from tickwise.wiring.tls.certificates import Certificates, tls_of

HEALTH_CONNECTIONS: Final = 64
"""A supervisor and a few collectors of metrics come here."""

STORE_SECONDS: Final = 2.0
"""A probe gives up soon. Calls of a role wait longer: for a keeper that takes over, or for a database."""

BLOBS_SECONDS: Final = 5.0
"""A write that fails for longer than this is no hiccup."""

Check = Callable[[], Awaitable[None]]


class HealthPort:
    """The answers of the health port; nothing is served without a port."""

    def __init__(self, startup_wait: StartupWait, certificates: Certificates | None = None) -> None:
        self.url: str | None = None
        self._startup_wait = startup_wait
        self._certificates = certificates
        self._check: Check | None = None
        self._health: HealthCheck | KeeperHealth | None = None
        self._text: Fresh[bytes] | None = None

    def at_work(self, runtime: Runtime, check: Check, health: HealthCheck | None = None) -> None:
        """From now on `check` says whether it can work: it raises if not. `health` knows how the parts are, if another
        port of the process asks it, too."""
        self._check = check
        self._health = health or health_check(runtime)
        self._text = Fresh(partial(_rendered, runtime), runtime.clock, METRICS_FRESH_SECONDS)
        if self._certificates is not None:
            self._certificates.observe(runtime.metrics.certificate_ends)

    def keeps(self, keeper: ShardBalancer, metrics: Metrics, clock: Clock) -> None:
        """From now on this is a keeper, which works on no store of others: one that waits for its shard is well."""

        # It knows nothing of the whole installation, and must not be taken for one that does.
        metrics.observe_stats(None)

        async def rendered() -> bytes:
            keeper.observe()
            return metrics.render()

        self._check = partial(answered, keeper.check, STORE_SECONDS)
        self._health = KeeperHealth(keeper)
        self._text = Fresh(rendered, clock, METRICS_FRESH_SECONDS)
        if self._certificates is not None:
            self._certificates.observe(metrics.certificate_ends)

    async def check(self) -> None:
        """Raises `Unavailable` with what is missing."""
        if self._check is None:
            raise NotReady(self._startup_wait.awaited)
        await self._check()

    async def report(self) -> HealthReport:
        """The report on each part. Before this process is at work: the service that it waits for."""
        if self._health is None:
            waits = PartHealth(PartStatus.FAILING, f"This process is not at work: {self._startup_wait.awaited}.")
            return HealthReport(PartStatus.FAILING, {"process": waits})
        return await self._health.report()

    async def render(self) -> bytes:
        """The metrics, with what the store says of itself if it can be asked: once a second at most."""
        if self._text is not None:
            return await self._text.get()
        waiting = Metrics()
        waiting.observe_stats(None)  # it has not asked the store yet: 0 would say that there is no executor
        return waiting.render()


class KeeperHealth:
    """The parts of a keeper."""

    def __init__(self, keeper: ShardBalancer) -> None:
        self._keeper = keeper

    async def report(self) -> HealthReport:
        """The shard: owned, or waited for."""
        try:
            await answered(self._keeper.check, STORE_SECONDS)
        except Unavailable as failure:
            part = PartHealth(PartStatus.FAILING, failure.detail)
            return HealthReport(PartStatus.FAILING, {"shard": part})
        return HealthReport(PartStatus.OK, {"shard": PartHealth(PartStatus.OK, f"{self._keeper.state}.")})


async def _rendered(runtime: Runtime) -> bytes:
    try:
        runtime.metrics.observe_stats(await answered(runtime.store.upkeep.stats, LOOK_SECONDS))
    except Unavailable:
        runtime.metrics.observe_stats(None)
    return runtime.metrics.render()


@contextlib.asynccontextmanager
async def health_port(
    settings: Settings, startup_wait: StartupWait, certificates: Certificates | None = None
) -> AsyncIterator[HealthPort]:
    """Served while the block lasts, if the settings name a port."""
    health = HealthPort(startup_wait, certificates)
    if settings.health_port is None:
        yield health
        return
    # The web server: a process without a health port, which serves nothing, does not load it.
    from tickwise.api.role_health import create_health_app
    from tickwise.wiring.serving import limits_of, serving

    with listen(settings.host, settings.health_port, option="--health-port") as sock:
        tls = tls_of(settings, certificates, "health")
        health.url = address_of(sock, tls=tls is not None)
        limits = replace(limits_of(settings), connections=HEALTH_CONNECTIONS)
        app = create_health_app(health.check, health.report, health.render, CONTENT_TYPE)
        async with serving(app, [sock], limits, tls=tls):
            yield health


def check_of(runtime: Runtime, *, store: bool = True, broker: bool = False, blobs: bool = False) -> Check:
    """The check of the services that a role depends on. `blobs`: the role stores the output of tasks."""
    return partial(_check, runtime, store=store, broker=broker, blobs=blobs)


async def _check(runtime: Runtime, *, store: bool, broker: bool, blobs: bool) -> None:
    spool = None if runtime.spool is None else runtime.spool.state
    if blobs and spool is not None and spool.is_full:
        raise NotReady(f"{spool.waiting_bytes} bytes of output wait on the disk, and more is lost: {spool.detail}")
    if blobs and spool is None and (failing := getattr(runtime.blobs, "failing_seconds", 0.0)) > BLOBS_SECONDS:
        raise NotReady(
            f"no output could be stored for {failing:.0f} s, so runs wait at their end; is the disk of the blobs full?"
        )
    if broker and runtime.broker is not None:
        reachable(runtime.broker)
    if store:
        await answered(runtime.store.now, STORE_SECONDS)


def reachable(broker: Broker) -> None:
    """Raises `BrokerUnavailable` if it is not, as of the last look."""
    state = broker.state()
    if not state.reachable:
        raise BrokerUnavailable(state.detail or "the broker does not answer")


class BlobDisk:
    """The disk of a folder of blobs. Invariant: a disk that does not answer holds one thread, however often it is
    asked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._asked: asyncio.Future[tuple[int, int]] | None = None

    async def space(self) -> tuple[int, int]:
        """Free bytes and all bytes. Raises `OSError`; waits for as long as the disk does."""
        if self._asked is None or self._asked.done():
            self._asked = asyncio.get_running_loop().run_in_executor(None, self._look)
        return await asyncio.shield(self._asked)

    def _look(self) -> tuple[int, int]:
        usage = shutil.disk_usage(self._folder)
        return usage.free, usage.total


def health_check(runtime: Runtime, *, broker_is_needed: bool = False) -> HealthCheck:
    """The health of the installation, as this process sees it. `broker_is_needed`: it can take nothing without it."""
    folder = folder_of(blobs_url(runtime.settings))
    clock: Clock = runtime.clock
    sources = HealthSources(
        stats=runtime.store.upkeep.stats,
        notices=runtime.store.notices.backlog,
        roles=partial(active_roles, runtime.coordination.shared_state),
        broker=None if runtime.broker is None else runtime.broker.state,
        broker_is_needed=broker_is_needed,
        blobs=None if folder is None else partial(_space, runtime, BlobDisk(folder)),
    )
    return HealthCheck(sources, clock)


async def _space(runtime: Runtime, disk: BlobDisk) -> DiskSpace:
    free, size = await disk.space()
    return DiskSpace(free, size, getattr(runtime.blobs, "failing_seconds", 0.0))
