"""Each role as a process, until it is told to end; or all of them in one.

up         embedded PostgreSQL ─► store ─► scheduler + executor + API, in one process
api …      one role each, on a store that is given
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

import structlog

from tickwise.api.app import create_app
from tickwise.api.role_health import create_health_app
from tickwise.config import Settings
from tickwise.domain.errors import Unavailable
from tickwise.observability import logs
from tickwise.observability.metrics import CONTENT_TYPE
from tickwise.ports.store import Store, StoreStats
from tickwise.roles.control.control import Control
from tickwise.roles.control.secrets import ensure_keys
from tickwise.roles.service import Service
from tickwise.wiring.house import (
    House,
    StoppedEarly,
    given_database,
    make_executor,
    make_scheduler,
    open_database,
    open_house,
    running,
    start_control,
)
from tickwise.wiring.serving import address_of, banner, client_file, listen, local_key, serving

GC_THRESHOLDS: Final = (100_000, 50, 100)
"""What a busy role allocates dies young by reference counting; with Python's defaults a tenth of its time is lost to
collections that find nothing."""

logger = structlog.get_logger("tickwise.wiring")


def run_up(settings: Settings) -> int:
    """Everything on this machine, until SIGTERM or Ctrl-C. Raises `Misconfigured`."""
    return _run(settings, _up)


def run_api(settings: Settings) -> int:
    """The API alone, until SIGTERM or Ctrl-C. Raises `Misconfigured`."""
    return _run(settings, _api)


def run_scheduler(settings: Settings) -> int:
    """A scheduler alone, until SIGTERM or Ctrl-C. Raises `Misconfigured`."""
    return _run(settings, _scheduler)


def run_executor(settings: Settings) -> int:
    """An executor alone, until SIGTERM or Ctrl-C. Raises `Misconfigured`."""
    return _run(settings, _executor)


def db_upgrade(settings: Settings) -> str:
    """Bring the schema of the given database to what this program needs; the version that it has then."""
    from tickwise.adapters.store.postgres import upgrade

    return asyncio.run(upgrade(given_database(settings)))


def db_status(settings: Settings) -> tuple[str, str]:
    """The version of the given database's schema (`none` for an empty one), and the one that this program needs."""
    from tickwise.adapters.store.postgres import schema_status

    found, wanted = asyncio.run(schema_status(given_database(settings)))
    return "none" if found is None else found.version, wanted


def _run(settings: Settings, main: Callable[[Settings, asyncio.Event], Coroutine[Any, Any, None]]) -> int:
    log_file = settings.log_dir / "tickwise.log" if settings.log_dir else None
    logs.configure(settings.log_level, settings.log_format, log_file)
    for warning in settings.warnings:
        logger.warning("setting", detail=warning)

    async def life() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _stopper(stop))
        with contextlib.suppress(StoppedEarly):
            await main(settings, stop)

    if sys.platform == "win32":
        asyncio.run(life())
    else:
        import uvloop

        uvloop.run(life())
    return 0


def _stopper(stop: asyncio.Event) -> Callable[[], None]:
    """The first signal asks for an orderly end, the third ends at once."""
    heard = 0

    def hear() -> None:
        nonlocal heard
        heard += 1
        if heard == 1:
            logger.info("stopping", detail="running tasks are waited for; press Ctrl-C twice more to end at once")
        stop.set()
        if heard >= 3:
            os._exit(130)

    return hear


async def _up(settings: Settings, stop: asyncio.Event) -> None:
    async with contextlib.AsyncExitStack() as stack:
        sock = stack.enter_context(listen(settings.host, settings.port))
        url = await stack.enter_async_context(open_database(settings, stop))
        house = await stack.enter_async_context(open_house(settings, url, stop))
        control = await stack.enter_async_context(start_control(house))
        made = await ensure_keys(house.keys, house.clock, settings.bootstrap_key)
        key = await local_key(house, made)
        await stack.enter_async_context(running(make_scheduler(house)))
        await stack.enter_async_context(running(make_executor(house)))
        await stack.enter_async_context(serving(_app(house, control), [sock]))
        stack.enter_context(client_file(settings.data_dir, address_of(sock), key, url))
        banner(address_of(sock), settings, made)
        await _work(stop, address_of(sock), "api", "scheduler", "executor")


async def _api(settings: Settings, stop: asyncio.Event) -> None:
    async with contextlib.AsyncExitStack() as stack:
        sock = stack.enter_context(listen(settings.host, settings.port))
        house = await stack.enter_async_context(open_house(settings, given_database(settings), stop))
        control = await stack.enter_async_context(start_control(house))
        made = await ensure_keys(house.keys, house.clock, settings.bootstrap_key)
        await stack.enter_async_context(serving(_app(house, control), [sock]))
        banner(address_of(sock), settings, made)
        await _work(stop, address_of(sock), "api")


async def _scheduler(settings: Settings, stop: asyncio.Event) -> None:
    await _alone(settings, stop, make_scheduler)


async def _executor(settings: Settings, stop: asyncio.Event) -> None:
    await _alone(settings, stop, make_executor)


async def _alone(settings: Settings, stop: asyncio.Event, make: Callable[[House], Service]) -> None:
    async with contextlib.AsyncExitStack() as stack:
        port = settings.health_port
        sock = None if port is None else stack.enter_context(listen(settings.host, port))
        house = await stack.enter_async_context(open_house(settings, given_database(settings), stop))
        role = await stack.enter_async_context(running(make(house)))
        if sock is not None:
            app = create_health_app(partial(_reachable, house.store), partial(_render, house), CONTENT_TYPE)
            await stack.enter_async_context(serving(app, [sock]))
        await _work(stop, None if sock is None else address_of(sock), role.name)


def _app(house: House, control: Control) -> Any:
    """The API as it is shipped."""
    metrics, settings = house.metrics, house.settings

    def render(stats: StoreStats | None) -> bytes:
        metrics.observe_stats(stats)
        return metrics.render()

    return create_app(
        control,
        clock=house.clock,
        metrics=metrics,
        render_metrics=render,
        metrics_media=CONTENT_TYPE,
        body_limit_bytes=settings.body_limit_bytes,
        batch_body_limit_bytes=settings.batch_body_limit_bytes,
    )


async def _reachable(store: Store) -> None:
    await store.now()


async def _render(house: House) -> bytes:
    """The metrics of a role alone, with what the store says of itself if it can be asked."""
    try:
        house.metrics.observe_stats(await house.store.stats())
    except Unavailable:
        house.metrics.observe_stats(None)
    return house.metrics.render()


async def _work(stop: asyncio.Event, url: str | None, *roles: str) -> None:
    """All is ready: say so, and let the roles work until somebody ends it."""
    logger.info("up", url=url, roles=list(roles))
    _settle_memory()
    await stop.wait()


def _settle_memory() -> None:
    """What the start made stays for ever: collections need not look at it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
