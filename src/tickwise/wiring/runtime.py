"""The runtime of a role, made from the settings: store, broker, signals, blobs, runners, and the roles themselves.

Order of life: the store first, then the roles. At the end in reverse; an executor drains before anything that it
needs goes away.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from tickwise.adapters.blobs import OutputBlobs
from tickwise.adapters.blobs.spool.delivery import SpooledBlobs
from tickwise.adapters.calendars.files import CalendarFiles
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.environments.environments import UvEnvironments
from tickwise.adapters.runner.builtin import RUNNERS
from tickwise.adapters.runner.function.runner import FunctionRunner
from tickwise.adapters.runner.plugins import load_plugins
from tickwise.adapters.runner.process.host_usage import HostMeter
from tickwise.adapters.runner.process.lease_beacon import LeaseBeacon
from tickwise.adapters.runner.scripts.checker import ScriptChecker
from tickwise.adapters.runner.settings import ArtefactLimits, RunnerSettings
from tickwise.adapters.store.cassandra.address import is_cassandra
from tickwise.config import SETTINGS, Settings
from tickwise.config.values import unit_of
from tickwise.control.buffered.application import RequestApplier
from tickwise.control.bulk.authorized import AuthorizedPages
from tickwise.control.bulk.removal import NamespaceRemoval
from tickwise.control.cluster import SettingInForce
from tickwise.control.context import ControlContext
from tickwise.control.control import Control
from tickwise.control.jobs.submission import GroupCommit
from tickwise.control.live.service import LiveOptions
from tickwise.control.people.password_check import PasswordSignIn
from tickwise.control.people.session_opening import BrowserLimits
from tickwise.control.people.sso.rules import SsoConfig
from tickwise.control.people.users import SelfRegistration
from tickwise.control.tasks import TaskCheck
from tickwise.domain.accounts.run_as import read_run_as_users
from tickwise.domain.accounts.second_factor import read_second_factor
from tickwise.domain.errors import Misconfigured, StoreUnavailable, TickwiseError, Unavailable
from tickwise.domain.rules.capacities import read_resources, read_size
from tickwise.domain.rules.confinement import Isolation
from tickwise.observability import logs
from tickwise.observability.blob_watch import watched_blobs
from tickwise.observability.metrics import Metrics
from tickwise.observability.tasks import end_tasks
from tickwise.observability.timing import timed
from tickwise.observability.tracing import Tracer, traced
from tickwise.ports.blobs import Blobs, SignedDownloads
from tickwise.ports.broker import Broker
from tickwise.ports.identity import Keys
from tickwise.ports.identity.federations import AssertionVerifier
from tickwise.ports.identity.tokens import TokenIssuer
from tickwise.ports.runner import TaskKind
from tickwise.ports.sealing import EnvelopeSealer
from tickwise.ports.signals import Signals
from tickwise.ports.store import Retention, Store
from tickwise.ports.store.searches import Searches
from tickwise.roles.executor.capacity import RunnerConfig
from tickwise.roles.executor.role import Executor
from tickwise.roles.executor.settings import ExecutorSettings
from tickwise.roles.recorder.requests import RequestsRecorder
from tickwise.roles.recorder.role import ResultsRecorder
from tickwise.roles.scheduler.role import Receiver, Scheduler, SchedulerSettings
from tickwise.roles.scheduler.upkeep import ArtefactRetention
from tickwise.roles.shared.handovers import handover_bell
from tickwise.roles.shared.hint_publisher import HintPublisher
from tickwise.roles.shared.search_replica import Replica
from tickwise.roles.shared.service import Service
from tickwise.wiring.audit import AnchorFile
from tickwise.wiring.containers.policy import container_policy
from tickwise.wiring.coordination import Coordination, open_coordination
from tickwise.wiring.environments import environment_settings
from tickwise.wiring.link import named_broker, open_broker
from tickwise.wiring.outgoing.federations import federated_tokens
from tickwise.wiring.outgoing.identity_issuer import make_issuer
from tickwise.wiring.outgoing.notices import make_notice_delivery
from tickwise.wiring.outgoing.provider import open_provider
from tickwise.wiring.outgoing.proxy_sign_in import proxy_config
from tickwise.wiring.outgoing.secret_providers import further_providers
from tickwise.wiring.outgoing.secrets import secret_providers
from tickwise.wiring.outgoing.tracing import open_tracing
from tickwise.wiring.secret_keys.secrets_key import make_sealer
from tickwise.wiring.signing import request_check, requests_signer, result_check, results_signing
from tickwise.wiring.startup_wait import StartupWait
from tickwise.wiring.storage.databases import (
    addresses,
    check_alone,
    has_schemas,
    make_replica,
    make_store,
    upgrade_all,
)
from tickwise.wiring.storage.file_store import is_in_process
from tickwise.wiring.storage.opening import open_spool, open_storage, outputs_kept_seconds, signed_downloads

DAY_SECONDS: Final = 86_400.0

logger = structlog.get_logger("tickwise.wiring")


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The parts that every role is made of."""

    settings: Settings
    clock: SystemClock
    store: Store
    searches: Searches
    """The store that searches read: a replica, if the settings name one."""
    broker: Broker | None
    cluster: str
    """The name of the store, with which what goes through the broker is signed; empty without a broker."""
    signals: Signals
    coordination: Coordination
    """The coordination with the other processes; the signals are part of it."""
    blobs: Blobs
    metrics: Metrics
    sealer: EnvelopeSealer
    """Encrypts secrets by the keys of the settings; there may be none."""
    issuer: TokenIssuer
    """Signs identity tokens, if the settings name an address."""
    tracer: Tracer | None = None
    """Records traces; None: there is no address for them."""
    spool: SpooledBlobs | None = None
    """The blobs of an executor that go on while the object store is away; None: a folder has them, or no task runs."""
    signed_downloads: SignedDownloads | None = None

    @property
    def keys(self) -> Keys:
        """The store keeps the keys too."""
        return self.store.keys

    @property
    def hint_publisher(self) -> HintPublisher | None:
        """Publishes claim hints to executors through the broker."""
        return None if self.broker is None else HintPublisher(self.broker)


def given_database(settings: Settings) -> str:
    """The address of the store. Raises `Misconfigured` if there is none."""
    if settings.database_url is None:
        raise Misconfigured(
            "no database is given: set TICKWISE_DATABASE_URL, or use `tickwise up`, which brings and upgrades its own"
        )
    if settings.database_url.startswith("file:"):
        raise Misconfigured(
            "a file store has one process, `tickwise up --store file`, and no schema: for roles apart use a PostgreSQL"
        )
    return settings.database_url


@contextlib.asynccontextmanager
async def open_database(settings: Settings, startup_wait: StartupWait) -> AsyncIterator[str]:
    """The given database, or the embedded one, brought to this program's schema."""
    if settings.database_url is not None:
        if is_cassandra(settings.database_url):
            raise Misconfigured(
                "`tickwise up` does not run on Cassandra: start `tickwise keeper`, and the roles apart "
                "(docs/how-to/cassandra.md)"
            )
        if not is_in_process(settings.database_url):
            await startup_wait.until("store", lambda: upgrade_all(given_database(settings)))
        yield settings.database_url
        return
    from tickwise.adapters.embedded import EmbeddedPostgres
    from tickwise.adapters.store.postgres import upgrade

    server = EmbeddedPostgres(settings.data_dir, clock=SystemClock(), api_port=settings.port)
    url = await server.start()
    watch = asyncio.create_task(_keep_alive(server, url, startup_wait.stop))
    try:
        await upgrade(url)
        yield url
    finally:
        await end_tasks([watch])
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
async def open_runtime(
    settings: Settings, url: str, startup_wait: StartupWait, *, needs_broker: bool = False, role: str = ""
) -> AsyncIterator[Runtime]:
    """Everything connected, as soon as the store is there; with `needs_broker` also the broker, which is opened beside
    the work otherwise. `role` names the process in traces; empty: it is all of them.

    Raises `Misconfigured` if something is not ours, or was not there in time.
    """
    async with contextlib.AsyncExitStack() as stack:
        clock, metrics = SystemClock(), Metrics()
        sealer = make_sealer(settings, clock)
        metrics.watch_log_lines_lost(logs.losses.lost)
        tracer = await stack.enter_async_context(open_tracing(settings, metrics, clock, role))
        broker = named_broker(settings, metrics)
        opened = make_store(settings, url, clock, lost=startup_wait.stop.set)
        stack.push_async_callback(opened.close)
        await startup_wait.until("store", lambda: _opened(opened, url))
        store = timed(opened, metrics.stored, clock.monotonic)
        if tracer is not None:
            store = traced(store, tracer, "postgresql" if _is_postgres(url) else url.partition(":")[0])
        searches = await stack.enter_async_context(_open_searches(settings, store, clock))
        cluster = "" if broker is None else store.upkeep.cluster_id
        await stack.enter_async_context(
            open_broker(broker, cluster=cluster, startup_wait=startup_wait, needed=needs_broker)
        )
        stored = await open_storage(settings)
        blobs = watched_blobs(stored, clock.monotonic)
        runs_tasks = role in ("", "executor")
        spool = await stack.enter_async_context(open_spool(settings, stored, blobs)) if runs_tasks else None
        coordination = await stack.enter_async_context(
            open_coordination(settings, addresses(url)[0], store=store, clock=clock)
        )
        runtime = Runtime(
            settings=settings,
            clock=clock,
            store=store,
            searches=searches,
            broker=broker,
            cluster=cluster,
            signals=coordination.signals,
            coordination=coordination,
            blobs=blobs,
            metrics=metrics,
            sealer=sealer,
            issuer=make_issuer(settings, store.identity_keys, sealer, clock),
            tracer=tracer,
            spool=spool,
            signed_downloads=signed_downloads(settings, stored),
        )
        store.on_handover(handover_bell(runtime.signals, runtime.hint_publisher))
        yield runtime


async def _opened(store: Store, url: str) -> None:
    """Open the store. Wait for a schema that is not yet made or upgraded, as for a store that is away."""
    try:
        await store.open()
    except Misconfigured as wrong:
        if not _is_postgres(url):
            raise
        from tickwise.adapters.store.postgres import SharedSessions

        if isinstance(wrong, SharedSessions):
            raise
        if not await has_schemas(url):
            raise StoreUnavailable(wrong.detail) from wrong
        raise
    if _is_postgres(url) and len(addresses(url)) == 1:
        await check_alone(store)


def _is_postgres(url: str) -> bool:
    return not (is_in_process(url) or is_cassandra(url))


@contextlib.asynccontextmanager
async def _open_searches(settings: Settings, store: Store, clock: SystemClock) -> AsyncIterator[Searches]:
    """The replica for searches; without one, or while it is away, the store itself."""
    if settings.search_database_url is None:
        yield store.searches
        return
    replica = make_replica(settings, settings.search_database_url, clock)
    searches = Replica(replica.searches, store.searches, clock, opens=replica.open)
    try:
        yield searches
    finally:
        await replica.close()


@contextlib.asynccontextmanager
async def start_control(runtime: Runtime) -> AsyncIterator[Control]:
    """Control, with the task kinds that this program knows."""
    verifier = federated_tokens(runtime.settings, runtime.clock)
    async with open_provider(runtime.settings, runtime.clock) as sso:
        control = _control(runtime, sso, verifier)
        runtime.metrics.watch_buffers(control.buffers)
        await control.start()
        try:
            yield control
        finally:
            await control.stop()
            await verifier.close()


def _kinds(runtime: Runtime) -> Mapping[str, TaskKind]:
    """The kinds of tasks that this program knows, by name."""
    return {kind.name: kind for runner, _ in _runner_configs(runtime) for kind in runner.kinds}


def _control_context(runtime: Runtime) -> ControlContext:
    """The context of all services of control in this process."""
    return ControlContext(
        store=runtime.store,
        blobs=runtime.blobs,
        signals=runtime.signals,
        clock=runtime.clock,
        searches=runtime.searches,
        hint_publisher=runtime.hint_publisher,
        near_seconds=runtime.settings.horizon_seconds,
        runs_kept_seconds=runtime.settings.retention_runs_days * DAY_SECONDS,
        dead_letter_seconds=runtime.settings.dead_letter_days * DAY_SECONDS,
        tracer=runtime.tracer,
        sandboxes=runtime.settings.isolation != Isolation.PROCESS,
        sealer=runtime.sealer,
        signed_downloads=runtime.signed_downloads,
        outputs_kept_seconds=outputs_kept_seconds(runtime.settings),
    )


def _control(runtime: Runtime, sso: SsoConfig | None, verifier: AssertionVerifier) -> Control:
    """Control for the API. With `ingest=buffered`, their requests go through the broker, and are answered once that has
    them."""
    settings = runtime.settings
    buffered = settings.ingest == "buffered"
    return Control(
        _control_context(runtime),
        keys=runtime.keys,
        kinds=_kinds(runtime),
        calendars=CalendarFiles(),
        counters=runtime.metrics,
        broker=runtime.broker if buffered else None,
        signer=requests_signer(settings) if buffered and runtime.broker is not None else None,
        # Through the database a note for each request would cost as much as the job, and be away when it is wanted.
        shared_state=runtime.coordination.shared_state if runtime.coordination.are_apart else None,
        membership=runtime.coordination.shared_state,
        group_commit=GroupCommit(seconds=settings.group_commit_seconds, limit=settings.group_commit_limit),
        scripts=ScriptChecker(),
        limits=runtime.coordination.limits,
        registration=SelfRegistration(is_open=settings.registration == "open", role=settings.registration_role),
        source_bytes_most=settings.source_limit_bytes,
        run_as_users=read_run_as_users(settings.run_as_users),
        bootstrap_key=settings.bootstrap_key,
        live=LiveOptions(settings.streams_limit, settings.caller_streams_limit, runtime.metrics),
        browser_limits=BrowserLimits(
            idle_seconds=settings.browser_idle_seconds, most_seconds=settings.browser_session_seconds
        ),
        second_factor=read_second_factor(settings.second_factor),
        settings=settings_in_force(settings),
        issuer=runtime.issuer,
        verifier=verifier,
        sso=sso,
        proxy=proxy_config(settings),
        password_sign_in=PasswordSignIn(settings.password_sign_in),
    )


def settings_in_force(settings: Settings) -> Sequence[SettingInForce]:
    """The settings of this process, as `tickwise config` shows them."""
    return [
        SettingInForce(
            name=each.name,
            value=each.value,
            origin=each.origin,
            unit=unit_of(each.name),
            meaning=each.meaning,
            secret=SETTINGS[each.name].facts.secret,
        )
        for each in settings.describe()
    ]


@contextlib.asynccontextmanager
async def running(runtime: Runtime, role: Service) -> AsyncIterator[Service]:
    """A role at work, its buffers in the metrics; drained and stopped at the end, as far as the store lets it."""
    runtime.metrics.watch_buffers(role.buffers)
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


def make_scheduler(runtime: Runtime) -> Service:
    """A scheduler with the settings of this runtime."""
    settings = runtime.settings
    return Scheduler(
        store=runtime.store,
        blobs=runtime.blobs,
        signals=runtime.signals,
        clock=runtime.clock,
        telemetry=runtime.metrics,
        settings=SchedulerSettings(
            name=f"{socket.gethostname()}:{os.getpid()}",
            horizon_seconds=settings.horizon_seconds,
            lease_seconds=settings.lease_seconds,
            retention=Retention(
                runs_seconds=settings.retention_runs_days * DAY_SECONDS,
                failed_seconds=settings.retention_failed_days * DAY_SECONDS,
                audit_seconds=settings.audit_days * DAY_SECONDS,
            ),
            logs_seconds=settings.retention_logs_days * DAY_SECONDS,
            artefacts=ArtefactRetention(
                min(settings.retention_artefacts_days, settings.retention_runs_days) * DAY_SECONDS,
                settings.artefacts_limit_bytes,
            ),
            fires_per_minute_most=settings.fires_per_minute_most,
            invariants_seconds=settings.invariants_seconds,
            heartbeat_seconds=settings.heartbeat_url_seconds,
        ),
        carry_out=AuthorizedPages(_control_context(runtime)).page,
        carry_out_removal=NamespaceRemoval(_control_context(runtime)).page,
        hint_publisher=runtime.hint_publisher,
        tracer=runtime.tracer,
        keep_anchors=None if settings.audit_anchor_file is None else AnchorFile(settings.audit_anchor_file),
        receiver=_receiver(runtime),
        notice_delivery=make_notice_delivery(
            settings, runtime.store, runtime.clock, runtime.sealer, runtime.metrics.notice_tried
        ),
    )


def _receiver(runtime: Runtime) -> Receiver | None:
    """The receiver of heartbeats that the settings name."""
    settings = runtime.settings
    if settings.heartbeat_url is None:
        return None
    from tickwise.adapters.heartbeat import HttpPinger  # loads aiohttp: only where there is a receiver

    pinger = HttpPinger(settings.heartbeat_url, settings.heartbeat_fail_url)
    return Receiver(pinger, runtime.coordination.shared_state)


def make_executor(runtime: Runtime) -> Service:
    """An executor with the settings of this runtime."""
    settings = runtime.settings
    beacon = LeaseBeacon()
    executor = Executor(
        store=runtime.store,
        runner_configs=_runner_configs(runtime, lease_file=beacon.descriptor),
        watchers=beacon,
        signals=runtime.signals,
        clock=runtime.clock,
        telemetry=runtime.metrics,
        broker=runtime.broker,
        incidents=runtime.store.incidents,
        signing=None if runtime.broker is None else results_signing(runtime.cluster),
        issuer=runtime.issuer,
        tracer=runtime.tracer,
        secrets=secret_providers(
            runtime.store.secrets, runtime.sealer, further_providers(settings, runtime.clock, runtime.issuer)
        ),
        settings=ExecutorSettings(
            name=f"{socket.gethostname()}:{os.getpid()}",
            queues=settings.queues,
            labels=settings.labels,
            resources=read_resources(settings.resources),
            memory_bytes=_memory_bytes(settings.memory),
            namespaces=settings.executor_namespaces,
            slots=settings.slots,
            lease_seconds=settings.lease_seconds,
            heartbeat_seconds=settings.heartbeat_seconds,
            ahead_seconds=min(settings.claim_ahead_seconds, settings.horizon_seconds),
            poll_seconds=settings.poll_seconds,
            claim_batch=settings.claim_batch,
            held_max=settings.held_limit,
            finish_batch=settings.finish_batch,
            log_runs_per_second=settings.log_runs_per_second,
            finish_flush_seconds=settings.finish_flush_seconds,
            drain_seconds=settings.drain_seconds,
            kill_grace_seconds=settings.kill_grace_seconds,
            results=settings.results,
            environments_ahead=settings.environments_ahead,
        ),
    )
    runtime.metrics.watch_slots(executor.slots)
    runtime.metrics.watch_host(HostMeter().read)
    return executor


def _memory_bytes(said: str | None) -> int | None:
    """The memory that runs may reserve: as the settings say, or as much as this process may use; None: unknown."""
    if said is not None:
        return read_size(said)
    try:
        return HostMeter().read().memory_limit_bytes
    except OSError:
        return None


def make_recorders(runtime: Runtime) -> list[Service]:
    """The recorders that the settings ask for; none without a broker."""
    broker, serve = runtime.broker, runtime.settings.recorder_serve
    if broker is None:
        return []
    recorders: list[Service] = []
    if "requests" in serve:
        recorders.append(
            RequestsRecorder(
                applier=_request_applier(runtime),
                store=runtime.store,
                broker=broker,
                clock=runtime.clock,
                telemetry=runtime.metrics,
                check=request_check(runtime.settings, runtime.cluster),
            )
        )
    if "results" in serve:
        recorders.append(
            ResultsRecorder(
                store=runtime.store,
                broker=broker,
                signals=runtime.signals,
                clock=runtime.clock,
                telemetry=runtime.metrics,
                check=result_check(runtime.settings, runtime.store, runtime.cluster),
                tracer=runtime.tracer,
            )
        )
    return recorders


def _request_applier(runtime: Runtime) -> RequestApplier:
    """Applies buffered requests to the store."""
    settings = runtime.settings
    check = TaskCheck(
        _kinds(runtime),
        source_bytes_most=settings.source_limit_bytes,
        run_as_users=read_run_as_users(settings.run_as_users),
        issuer=runtime.issuer,
    )
    return RequestApplier(_control_context(runtime), check, counters=runtime.metrics)


def _runner_configs(runtime: Runtime, *, lease_file: int | None = None) -> list[RunnerConfig]:
    """The runners of this process. Control asks them only for their kinds; the executor starts them."""
    settings = runtime.settings
    runner_settings = RunnerSettings(
        blobs=OutputBlobs(runtime.spool or runtime.blobs),
        clock=runtime.clock,
        work_root=settings.data_dir / "work",
        slots=settings.slots,
        result_limit_bytes=settings.result_limit_bytes,
        kill_grace_seconds=settings.kill_grace_seconds,
        pass_environment=settings.pass_environment,
        run_tasks_as=settings.run_tasks_as,
        run_as_users=read_run_as_users(settings.run_as_users),
        task_disk_bytes=settings.task_disk_bytes,
        isolation=settings.isolation,
        private_folders=(settings.data_dir,),
        lease_file=lease_file,
        http_allow=settings.http_allow,
        http_per_host=settings.http_per_host,
        http_tls_folder=settings.http_tls_folder,
        artefacts=ArtefactLimits(
            count=settings.artefacts_limit,
            file_bytes=settings.artefact_limit_bytes,
            attempt_bytes=settings.artefacts_attempt_bytes,
        ),
        environments=UvEnvironments(environment_settings(settings), runtime.clock, runtime.metrics),
        containers=container_policy(settings, runtime.store, runtime.metrics.containers),
    )
    function = FunctionRunner(runner_settings, workers=settings.function_workers, modules=settings.function_modules)
    own = [make(runner_settings) for make in RUNNERS]
    taken = [kind for runner in (function, *own) for kind in runner.kinds]
    others = [*own, *load_plugins(runner_settings, taken=taken)]
    return [RunnerConfig(function, spare=function.spare), *(RunnerConfig(runner) for runner in others)]
