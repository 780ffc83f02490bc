"""What every role stands on, made from the settings: store, signals, blobs, runners, and the roles themselves.

Order of life: the store first, then the roles. At the end in reverse; an executor drains before anything that it
needs goes away.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import structlog

from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.calendars.files import CalendarFiles
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.function import FunctionRunner
from tickwise.adapters.runner.http import HttpRunner
from tickwise.adapters.runner.plugins import load_plugins
from tickwise.adapters.runner.process import ProcessRunner
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured, TickwiseError, Unavailable
from tickwise.observability.metrics import Metrics
from tickwise.observability.timing import timed
from tickwise.ports.blobs import Blobs
from tickwise.ports.identity import Keys
from tickwise.ports.runner import Runner, TaskKind
from tickwise.ports.signals import Signals
from tickwise.ports.store import Retention, Store
from tickwise.roles.control.bulk import page
from tickwise.roles.control.control import Control
from tickwise.roles.executor import Executor, ExecutorSettings, Seat
from tickwise.roles.scheduler import Scheduler, SchedulerSettings
from tickwise.roles.service import Service, wait_for

DAY_SECONDS: Final = 86_400.0
STORE_WAIT_SECONDS: Final = 60.0
"""How long a role waits at its start for a store that is not there yet: machines come up in any order."""
STORE_TELL_SECONDS: Final = 10.0
"""How often it says that it still waits."""

logger = structlog.get_logger("tickwise.wiring")


class StoppedEarly(Exception):
    """Somebody asked for an end before all was ready. No error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """What every role stands on."""

    settings: Settings
    clock: SystemClock
    store: Store
    signals: Signals
    blobs: Blobs
    metrics: Metrics

    @property
    def keys(self) -> Keys:
        """The store keeps the keys too."""
        return cast("Keys", self.store)


def given_database(settings: Settings) -> str:
    """The address of the store. Raises `Misconfigured` if there is none."""
    if settings.database_url is None:
        raise Misconfigured(
            "no database is given: set TICKWISE_DATABASE_URL, or use `tickwise up`, which brings and upgrades its own"
        )
    return settings.database_url


@contextlib.asynccontextmanager
async def open_database(settings: Settings, stop: asyncio.Event) -> AsyncIterator[str]:
    """The given database, or the embedded one, brought to this program's schema."""
    if settings.database_url is not None:
        if not settings.database_url.startswith("memory:"):
            from tickwise.adapters.store.postgres import upgrade

            await _patiently(lambda: upgrade(given_database(settings)), stop)
        yield settings.database_url
        return
    from tickwise.adapters.embedded import EmbeddedPostgres
    from tickwise.adapters.store.postgres import upgrade

    server = EmbeddedPostgres(settings.data_dir, clock=SystemClock(), api_port=settings.port)
    url = await server.start()
    watch = asyncio.create_task(_keep_alive(server, url, stop))
    try:
        await upgrade(url)
        yield url
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        await server.stop()


async def _keep_alive(server: Any, url: str, stop: asyncio.Event) -> None:
    """A server that died is started again: roles reconnect and go on."""
    while True:
        status = await server.wait()
        logger.error("database_died", status=status)
        try:
            again = await server.start()
        except TickwiseError as failure:
            logger.critical("database_lost", detail=failure.detail)
            stop.set()
            return
        if again != url:
            logger.critical("database_moved", detail="it came back at another address; start again")
            stop.set()
            return
        logger.info("database_back")


@contextlib.asynccontextmanager
async def open_house(settings: Settings, url: str, stop: asyncio.Event) -> AsyncIterator[House]:
    """Everything connected. Raises `Misconfigured` if the store is not there in time, or is not ours."""
    clock, metrics = SystemClock(), Metrics()
    store, signals = _open(settings, url, clock)
    await _patiently(store.open, stop)
    try:
        blobs = open_blobs(settings.blobs_url or _local_blobs(settings))
        await signals.start()
        try:
            yield House(
                settings=settings,
                clock=clock,
                store=timed(store, metrics.stored, clock.monotonic),
                signals=signals,
                blobs=blobs,
                metrics=metrics,
            )
        finally:
            await signals.stop()
    finally:
        await store.close()


def _open(settings: Settings, url: str, clock: SystemClock) -> tuple[Store, Signals]:
    if url.startswith("memory:"):
        from tickwise.adapters.signals.local import LocalSignals
        from tickwise.adapters.store.memory import MemoryStore

        return MemoryStore(clock, near_seconds=settings.horizon_seconds), LocalSignals()
    from tickwise.adapters.signals.postgres import PostgresSignals
    from tickwise.adapters.store.postgres import PostgresStore

    store = PostgresStore(url, clock=clock, near_seconds=settings.horizon_seconds)
    return store, PostgresSignals(settings.signals_url or url, clock)


def _local_blobs(settings: Settings) -> str:
    folder = settings.data_dir / "blobs"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as failure:
        raise Misconfigured(
            f"the folder {folder} for scripts and outputs cannot be made: {failure.strerror}; "
            "set TICKWISE_BLOBS_URL to one that can be written"
        ) from failure
    return folder.resolve().as_uri()


async def _patiently(call: Callable[[], Coroutine[Any, Any, Any]], stop: asyncio.Event) -> None:
    """Machines come up in any order: a store that is not there yet is waited for, and that is said.

    Raises `StoppedEarly` if somebody wants an end meanwhile."""
    clock = SystemClock()
    until = clock.monotonic() + STORE_WAIT_SECONDS
    told_at = float("-inf")
    while True:
        try:
            await call()
            return
        except Unavailable as away:
            now = clock.monotonic()
            if now >= until:
                raise Misconfigured(
                    f"{away.detail}. It was tried for {STORE_WAIT_SECONDS:.0f} s; check the address, and that it runs."
                ) from away
            if now - told_at >= STORE_TELL_SECONDS:
                told_at = now
                logger.warning("store_awaited", detail=away.detail, at_most_seconds=round(until - now))
        await wait_for(stop, 1.0)
        if stop.is_set():
            raise StoppedEarly


@contextlib.asynccontextmanager
async def start_control(house: House) -> AsyncIterator[Control]:
    """What people ask, with the kinds of tasks that this program knows."""
    control = _control(house, {kind.name: kind for runner, _ in _seats(house) for kind in runner.kinds})
    await control.start()
    try:
        yield control
    finally:
        await control.stop()


def _control(house: House, kinds: Mapping[str, TaskKind]) -> Control:
    return Control(
        store=house.store,
        keys=house.keys,
        blobs=house.blobs,
        signals=house.signals,
        clock=house.clock,
        kinds=kinds,
        calendars=CalendarFiles(),
        counters=house.metrics,
        near_seconds=house.settings.horizon_seconds,
        runs_kept_seconds=house.settings.retention_runs_days * DAY_SECONDS,
        dead_letter_seconds=house.settings.dead_letter_days * DAY_SECONDS,
        group_commit_seconds=house.settings.group_commit_seconds,
        group_commit_limit=house.settings.group_commit_limit,
    )


@contextlib.asynccontextmanager
async def running(role: Service) -> AsyncIterator[Service]:
    """A role at work; drained and stopped at the end, as far as the store lets it."""
    await role.start()
    try:
        yield role
    finally:
        try:
            with contextlib.suppress(Unavailable):
                await role.drain()
        finally:
            with contextlib.suppress(Unavailable):
                await role.stop()


def make_scheduler(house: House) -> Service:
    """A scheduler with the settings of this house."""
    settings = house.settings
    return Scheduler(
        store=house.store,
        blobs=house.blobs,
        signals=house.signals,
        clock=house.clock,
        telemetry=house.metrics,
        settings=SchedulerSettings(
            name=f"{socket.gethostname()}:{os.getpid()}",
            horizon_seconds=settings.horizon_seconds,
            lease_seconds=settings.lease_seconds,
            retention=Retention(
                runs_seconds=settings.retention_runs_days * DAY_SECONDS,
                failed_seconds=settings.retention_failed_days * DAY_SECONDS,
            ),
            logs_seconds=settings.retention_logs_days * DAY_SECONDS,
            fires_per_minute_most=settings.fires_per_minute_most,
            invariants_seconds=settings.invariants_seconds,
        ),
        # Operations are carried out by a control that nobody submits to: what tasks may say was checked before.
        carry_out=partial(page, _control(house, {})),
    )


def make_executor(house: House) -> Service:
    """An executor with the settings of this house."""
    settings = house.settings
    return Executor(
        runs=house.store,
        seats=_seats(house),
        signals=house.signals,
        clock=house.clock,
        telemetry=house.metrics,
        settings=ExecutorSettings(
            name=f"{socket.gethostname()}:{os.getpid()}",
            queues=settings.queues,
            labels=settings.labels,
            slots=settings.slots,
            lease_seconds=settings.lease_seconds,
            heartbeat_seconds=settings.heartbeat_seconds,
            ahead_seconds=min(settings.claim_ahead_seconds, settings.horizon_seconds),
            poll_seconds=settings.poll_seconds,
            claim_batch=settings.claim_batch,
            held_max=settings.held_limit,
            finish_batch=settings.finish_batch,
            finish_flush_seconds=settings.finish_flush_seconds,
            drain_seconds=settings.drain_seconds,
            kill_grace_seconds=settings.kill_grace_seconds,
        ),
    )


def _seats(house: House) -> list[Seat]:
    """The runners of this process. Control asks them only for their kinds; the executor starts them."""
    settings = house.settings
    runner_settings = RunnerSettings(
        blobs=house.blobs,
        clock=house.clock,
        work_root=settings.data_dir / "work",
        slots=settings.slots,
        result_limit_bytes=settings.result_limit_bytes,
        kill_grace_seconds=settings.kill_grace_seconds,
        pass_environment=settings.pass_environment,
    )
    function = FunctionRunner(runner_settings, workers=settings.function_workers, modules=settings.function_modules)
    own: list[Runner] = [ProcessRunner(runner_settings), HttpRunner(runner_settings)]
    taken = [kind for runner in (function, *own) for kind in runner.kinds]
    others = [*own, *load_plugins(runner_settings, taken=taken)]
    return [Seat(function, spare=function.spare), *(Seat(runner) for runner in others)]
