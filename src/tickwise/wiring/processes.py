"""Each role as a process, until it is told to end; or all of them in one.

up         embedded PostgreSQL ─► store ─► scheduler + executor + API (+ recorder), in one process
api …      one role each, on a store that is given; a recorder also on a broker

Start order does not matter: each waits for what it cannot do without, and its health port says for what.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.embedded import make_data_dir
from tickwise.adapters.seclusion import seclude, without_core_dumps
from tickwise.adapters.store.cassandra.address import is_cassandra
from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured
from tickwise.observability import logs
from tickwise.observability.metrics import Metrics
from tickwise.observability.output_file import LOOK_SECONDS, VARIABLE, OutputFile
from tickwise.roles.shared.service import Service
from tickwise.wiring.cassandra.keyspace import (
    SchemaStatus,
    keyspace_of,
    keyspace_status,
    rebuild_tables,
    refuse_cassandra,
    upgrade_keyspace,
)
from tickwise.wiring.continuity import Restored, restored
from tickwise.wiring.health_port import HealthPort, check_of, health_check, health_port
from tickwise.wiring.installation.build import build_of
from tickwise.wiring.installation.restore import check_whole
from tickwise.wiring.keys.first_keys import ClientFacts, banner, check_bootstrap_key, client_file, let_in_api, let_in_up
from tickwise.wiring.keys.page_link import link_to_pages
from tickwise.wiring.keys.token_key import sign_tokens
from tickwise.wiring.link import given_broker
from tickwise.wiring.listening import address_of, listen
from tickwise.wiring.membership import membership
from tickwise.wiring.overdue import bound_end
from tickwise.wiring.runtime import (
    Runtime,
    given_database,
    make_executor,
    make_recorders,
    make_scheduler,
    open_database,
    open_runtime,
    running,
    start_control,
)
from tickwise.wiring.secret_keys.secrets_check import check_sealing
from tickwise.wiring.secret_keys.secrets_key import make_key_of_up
from tickwise.wiring.startup_wait import PERSON_SECONDS, StartupWait, StoppedEarly
from tickwise.wiring.storage.databases import addresses, make_store, upgrade_all
from tickwise.wiring.storage.file_store import address_in, check_is_there, examine_file_store, is_used
from tickwise.wiring.tls.certificates import Certificates, open_certificates, tls_of
from tickwise.wiring.tls.clear_text import warn_of_clear_text
from tickwise.wiring.tls.expiry import certificate_expiry

FILE: Final = "file"
"""In place of the version of a schema: a file store has none."""
STOPPING_TOLD_SECONDS: Final = 5.0
GC_THRESHOLDS: Final = (100_000, 50, 100)
"""Objects of a busy role die young by reference counting; with Python's defaults a tenth of its time is lost to
collections that find nothing."""

logger = structlog.get_logger("tickwise.wiring")


def run_up(settings: Settings) -> int:
    """Everything on this machine, until SIGTERM or Ctrl-C. Raises `Misconfigured`."""
    check_whole(settings.data_dir)
    return _run(settings, _up, "tickwise")


def run_api(settings: Settings) -> int:
    """The API alone, until SIGTERM or Ctrl-C. Raises `Misconfigured`."""
    return _run(settings, _api, "tickwise-api")


def run_scheduler(settings: Settings) -> int:
    """A scheduler alone, until SIGTERM or Ctrl-C. Raises `Misconfigured`."""
    return _run(settings, _scheduler, "tickwise-scheduler")


def run_executor(settings: Settings) -> int:
    """An executor alone, until SIGTERM or Ctrl-C. Raises `Misconfigured`."""
    return _run(settings, _executor, "tickwise-executor")


def run_recorder(settings: Settings) -> int:
    """A recorder alone, until SIGTERM or Ctrl-C. Raises `Misconfigured`."""
    given_broker(settings)
    return _run(settings, _recorder, "tickwise-recorder")


def run_keeper(settings: Settings) -> int:
    """A keeper of a Cassandra keyspace, until SIGTERM or Ctrl-C. Raises `Misconfigured`."""
    keyspace_of(settings)
    return _run(settings, _keeper, "tickwise-keeper")


def db_upgrade(
    settings: Settings,
    executor_role: str | None = None,
    service_roles: Sequence[str] = (),
    tell: Callable[[int, int], None] = lambda _done, _of: None,
    *,
    shards: int | None = None,
    advise: Callable[[str], None] = lambda _: None,
) -> str:
    """Bring the schema of the given database to what this program needs; the version that it has then. The roles have
    their rights as soon as the schema is there: a process that waits for it starts at that moment. `tell`
    hears after each step how many of how many are done. `shards`: of a keyspace of Cassandra that is made. `advise`
    hears what the operator should change. Raises `Misconfigured`."""
    from tickwise.adapters.store.postgres import grant_all

    if is_cassandra(settings.database_url or ""):
        if executor_role is not None or service_roles:
            raise Misconfigured("--executor-role and --service-role are for PostgreSQL: Cassandra's GRANT serves there")
        return upgrade_keyspace(settings.database_url or "", tell, shards, advise)
    if shards is not None:
        raise Misconfigured(
            "--shards is for a keyspace of Cassandra: several databases are several addresses in TICKWISE_DATABASE_URL "
            "(docs/how-to/many-databases.md)"
        )
    grant = partial(grant_all, executor_role=executor_role, service_roles=service_roles)
    return asyncio.run(upgrade_all(given_database(settings), grant, tell))


def db_restored(settings: Settings, logs: Sequence[Path] = (), *, revoke: bool = False) -> Restored:
    """Begin a new epoch of the given database, which an operator has set back; what runs again, and which keys came
    back by the word of these logs."""
    url = _file_store_of(settings)
    if url is None:
        url = given_database(settings)
    else:
        check_is_there(url)  # opening it would make it
    return restored(lambda: make_store(settings, url, SystemClock(), lost=lambda: None), logs, revoke=revoke)


def db_rebuild_tables(settings: Settings) -> int:
    """Make the readable tables of a Cassandra keyspace anew, empty; their generation. Raises `Misconfigured`,
    `StoreUnavailable`."""
    return rebuild_tables(settings)


def db_grant_executor(settings: Settings, role: str) -> None:
    """Give a role of the given database what an executor needs, and no more. Raises `Misconfigured`."""
    from tickwise.adapters.store.postgres import grant_executor

    refuse_cassandra(settings.database_url)
    for address in addresses(given_database(settings)):
        asyncio.run(grant_executor(address, role))


def db_grant_service(settings: Settings, role: str) -> None:
    """Give a role of the given database what API, scheduler and recorder need. Raises `Misconfigured`."""
    from tickwise.adapters.store.postgres import grant_service

    refuse_cassandra(settings.database_url)
    for address in addresses(given_database(settings)):
        asyncio.run(grant_service(address, role))


def db_status(settings: Settings) -> SchemaStatus:
    """The version of the given database's schema, the one that this program was written for, and whether it works on
    what is there; of Cassandra, who has each shard, too; of a file store, which has no schema, its state."""
    from tickwise.adapters.store.postgres import schema_status

    if (url := _file_store_of(settings)) is not None:
        return _file_status(url)
    if is_cassandra(settings.database_url or ""):
        return keyspace_status(settings.database_url or "")
    status = [asyncio.run(schema_status(address)) for address in addresses(given_database(settings))]
    wanted = status[0][1]
    # Of several the one that is furthest behind.
    found = [each for each, _ in status if each is not None]
    if len(found) < len(status):
        return SchemaStatus("none", wanted, fits=False)
    oldest = min(found)
    return SchemaStatus(oldest.version, wanted, all(each.fits for each in found))


def _file_store_of(settings: Settings) -> str | None:
    """The address of the file store, if the settings name one, or name nothing and the data folder has one."""
    url = settings.database_url
    if url is None and is_used(settings.data_dir):
        return address_in(settings.data_dir)
    return url if url is not None and url.startswith("file:") else None


def _file_status(url: str) -> SchemaStatus:
    found = [*examine_file_store(url)]
    text = "; ".join(each.detail if each.level == "ok" else f"{each.detail}: {each.advice}" for each in found)
    return SchemaStatus(FILE, FILE, all(each.level != "error" for each in found), state=text)


def _run(settings: Settings, main: Callable[[Settings, asyncio.Event], Coroutine[Any, Any, None]], name: str) -> int:
    # Before anything else: tasks may run as the user of this process, whose environment and memory hold the keys.
    seclude()
    without_core_dumps()
    logs.configure(settings.log_level, settings.log_format, _log_files(settings, name))
    for warning in settings.warnings:
        logger.warning("setting", detail=warning)

    async def life() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _stopper(stop, settings.drain_seconds))
        if settings.log_dir is not None and sys.platform != "win32" and not _is_at_terminal():
            loop.add_signal_handler(signal.SIGHUP, logs.reopen)
        if (output := os.environ.pop(VARIABLE, None)) is not None:
            _bound_output(OutputFile(Path(output)), loop)
        with contextlib.suppress(StoppedEarly):
            await main(settings, stop)

    if sys.platform == "win32":
        asyncio.run(life())
    else:
        import uvloop

        uvloop.run(life())
    return 0


def _bound_output(output: OutputFile, loop: asyncio.AbstractEventLoop) -> None:
    """Look at the size of the output now and then, as long as the loop runs."""
    output.bound()
    loop.call_later(LOOK_SECONDS, _bound_output, output, loop)


def _log_files(settings: Settings, name: str) -> logs.LogFiles | None:
    if settings.log_dir is None:
        return None
    return logs.LogFiles(
        folder=settings.log_dir, name=name, bytes_most=settings.log_file_bytes, kept=settings.log_files_kept
    )


def _is_at_terminal() -> bool:
    """Check whether a terminal started the process: its SIGHUP says that the terminal is gone, and ends the process."""
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


def _stopper(stop: asyncio.Event, drain_seconds: float) -> Callable[[], None]:
    """The first signal asks for an orderly end, which has an end itself; the third ends at once."""
    heard = 0

    def hear() -> None:
        nonlocal heard
        heard += 1
        if heard == 1:
            logger.info("stopping", detail="running work ends first; press Ctrl-C twice more to end at once")
            bound_end(drain_seconds)
            if sys.stderr.isatty():
                _say_stopping(asyncio.get_running_loop(), drain_seconds)
        stop.set()
        if heard >= 3:
            os._exit(130)

    return hear


def _say_stopping(loop: asyncio.AbstractEventLoop, left: float) -> None:
    """Tell a person at a terminal what the end waits for, each `STOPPING_TOLD_SECONDS` until it comes."""
    sys.stderr.write(
        f"Stopping: tasks that run have {max(left, 0.0):.0f} s to end; then they are stopped, and run again at the "
        "next start. Press Ctrl-C twice more to end at once.\n"
    )
    if left > 0:
        pause = min(STOPPING_TOLD_SECONDS, left)
        loop.call_later(pause, _say_stopping, loop, left - pause)


async def _up(settings: Settings, stop: asyncio.Event) -> None:
    from tickwise.wiring.api_port import api_needs_broker, api_port  # the web server: only a process with the API

    check_bootstrap_key(settings)
    build = build_of()  # as of now: what is changed later, this process does not run
    startup_wait, buffered = StartupWait(stop, most_seconds=PERSON_SECONDS), api_needs_broker(settings)
    async with contextlib.AsyncExitStack() as stack:
        certificates = await stack.enter_async_context(open_certificates(settings))
        sock = stack.enter_context(listen(settings.host, settings.port))
        address = address_of(sock, tls=tls_of(settings, certificates, "api") is not None)
        warn_of_clear_text(settings)
        health = await stack.enter_async_context(health_port(settings, startup_wait, certificates))
        url = await stack.enter_async_context(open_database(settings, startup_wait))
        make_data_dir(settings.data_dir)
        make_key_of_up(settings)
        runtime = await stack.enter_async_context(open_runtime(settings, url, startup_wait, needs_broker=buffered))
        control = await stack.enter_async_context(start_control(runtime))
        key, admitted = await let_in_up(runtime)
        await sign_tokens(runtime.settings, control, makes=True)
        await check_sealing(runtime.store, runtime.sealer, runtime.clock)
        # Ended in reverse: an executor that leaves waits until recorders have applied what it told.
        roles = [make_scheduler(runtime), *make_recorders(runtime), make_executor(runtime)]
        for role in roles:
            await stack.enter_async_context(running(runtime, role))
        found = health_check(runtime, broker_is_needed=buffered)
        await stack.enter_async_context(api_port(runtime, control, sock, found, certificates))
        await stack.enter_async_context(certificate_expiry(runtime, certificates))
        stack.enter_context(client_file(settings, _client_facts(address, key, url, certificates, build)))
        banner(address, admitted, await link_to_pages(settings, control, address, key))
        health.at_work(runtime, check_of(runtime, blobs=True), found)
        await stack.enter_async_context(membership(runtime, roles, health.url, api=settings.api_serve))
        await _work(stop, address, health, "api", *(role.name for role in roles))


async def _api(settings: Settings, stop: asyncio.Event) -> None:
    from tickwise.wiring.api_port import api_needs_broker, api_port  # the web server: only a process with the API

    check_bootstrap_key(settings)
    startup_wait, buffered = StartupWait(stop), api_needs_broker(settings)
    async with contextlib.AsyncExitStack() as stack:
        certificates = await stack.enter_async_context(open_certificates(settings))
        sock = stack.enter_context(listen(settings.host, settings.port))
        address = address_of(sock, tls=tls_of(settings, certificates, "api") is not None)
        warn_of_clear_text(settings)
        health = await stack.enter_async_context(health_port(settings, startup_wait, certificates))
        runtime = await stack.enter_async_context(
            open_runtime(settings, given_database(settings), startup_wait, needs_broker=buffered, role="api")
        )
        control = await stack.enter_async_context(start_control(runtime))
        admitted = await startup_wait.until("store", partial(let_in_api, runtime))
        await startup_wait.until("store", partial(sign_tokens, runtime.settings, control))
        await startup_wait.until("store", partial(check_sealing, runtime.store, runtime.sealer, runtime.clock))
        found = health_check(runtime, broker_is_needed=buffered)
        await stack.enter_async_context(api_port(runtime, control, sock, found, certificates))
        await stack.enter_async_context(certificate_expiry(runtime, certificates))
        banner(address, admitted)
        health.at_work(runtime, check_of(runtime, store=not buffered, broker=buffered), found)
        await stack.enter_async_context(membership(runtime, [], health.url, api=settings.api_serve))
        await _work(stop, address, health, "api", serves=settings.api_serve)


async def _scheduler(settings: Settings, stop: asyncio.Event) -> None:
    await _alone(settings, stop, lambda runtime: [make_scheduler(runtime)], "scheduler")


async def _executor(settings: Settings, stop: asyncio.Event) -> None:
    through = settings.results == "broker"
    await _alone(
        settings, stop, lambda runtime: [make_executor(runtime)], "executor", needs_broker=through, stores_output=True
    )


async def _recorder(settings: Settings, stop: asyncio.Event) -> None:
    await _alone(settings, stop, make_recorders, "recorder", needs_broker=True, serves=settings.recorder_serve)


async def _keeper(settings: Settings, stop: asyncio.Event) -> None:
    from tickwise.wiring.cassandra.circles import THRESHOLDS
    from tickwise.wiring.cassandra.keeping import keeping  # the driver: only a process that needs it

    startup_wait = StartupWait(stop)
    async with contextlib.AsyncExitStack() as stack:
        certificates = None
        if settings.health_port is not None and "health" in settings.tls_ports:
            certificates = await stack.enter_async_context(open_certificates(settings))
        health = await stack.enter_async_context(health_port(settings, startup_wait, certificates))
        metrics = Metrics()
        keeper = await stack.enter_async_context(keeping(settings, startup_wait, metrics.keepers))
        health.keeps(keeper, metrics, SystemClock())
        await _work(stop, health.url, health, "keeper", thresholds=THRESHOLDS)


async def _alone(
    settings: Settings,
    stop: asyncio.Event,
    make: Callable[[Runtime], list[Service]],
    role_name: str,
    *,
    needs_broker: bool = False,
    stores_output: bool = False,
    serves: Sequence[str] = (),
) -> None:
    startup_wait = StartupWait(stop)
    async with contextlib.AsyncExitStack() as stack:
        certificates = None
        if settings.health_port is not None and "health" in settings.tls_ports:
            certificates = await stack.enter_async_context(open_certificates(settings))
        health = await stack.enter_async_context(health_port(settings, startup_wait, certificates))
        runtime = await stack.enter_async_context(
            open_runtime(settings, given_database(settings), startup_wait, needs_broker=needs_broker, role=role_name)
        )
        if role_name == "scheduler":  # the others have no right to the tables of notices
            await stack.enter_async_context(certificate_expiry(runtime, certificates))
        roles = make(runtime)
        for role in roles:
            await stack.enter_async_context(running(runtime, role))
        health.at_work(runtime, check_of(runtime, broker=needs_broker, blobs=stores_output))
        await stack.enter_async_context(membership(runtime, roles, health.url))
        await _work(stop, health.url, health, *(role.name for role in roles), serves=serves)


def _client_facts(
    address: str, key: str, database_url: str, certificates: Certificates | None, build: str
) -> ClientFacts:
    """The facts that the command line of this machine needs, and `doctor`."""
    if certificates is None or not address.startswith("https://"):
        return ClientFacts(address, key, database_url, build=build)
    # The command line trusts the very certificate that is served, also without its authority, by a name in it.
    return ClientFacts(address, key, database_url, str(certificates.certificate), certificates.loaded.name, build=build)


async def _work(
    stop: asyncio.Event,
    url: str | None,
    health: HealthPort,
    *roles: str,
    serves: Sequence[str] = (),
    thresholds: tuple[int, int, int] = GC_THRESHOLDS,
) -> None:
    """Report that the process is up, and let the roles work until the process is asked to end."""
    logger.info("up", url=url, health_url=health.url, roles=list(dict.fromkeys(roles)), serves=list(serves))
    _settle_memory(thresholds)
    await stop.wait()


def _settle_memory(thresholds: tuple[int, int, int]) -> None:
    """Freeze the objects of the start: collections need not scan them again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*thresholds)
