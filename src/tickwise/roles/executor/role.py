"""The executor: it claims runs, runs their tasks when they are due, and reports the outcomes.

    claim_loop ──► admission ──► run_starter ──► runner ──► run_reports ──► settlement ──► outbox ──► outcome writer
        ▲                                                                                    └──► broker, if set so
     claim_hints (with a broker)

    heartbeat ──► lease renewed; cancel requests carried out; under a new number if the store expired this one
    lease_watch ──► tasks stopped before a lease ends that cannot be renewed
    reconciliation ──► what is held here compared with what the store says

This module only composes the parts and runs their loops. Each part knows parts below it, never one above it
(README.md in this folder; the contract is in `pyproject.toml`).

Invariants: no run starts before its due time on the store's clock, nor while this executor's lease may be over; no task
goes on beyond the lease; each claimed run ends in exactly one outcome, which is sent until the store accepts or refuses
it; an executor that the store expired kills its tasks, reports nothing of them, and joins under a new number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from tickwise.observability.buffers import Buffer
from tickwise.observability.tracing import Tracer
from tickwise.ports.broker import Broker
from tickwise.ports.clock import Clock
from tickwise.ports.identity.tokens import TokenIssuer
from tickwise.ports.runner import WarmingRunner
from tickwise.ports.secrets import SecretProvider
from tickwise.ports.signals import Signals, Topic
from tickwise.ports.store import ExecutingStore, IncidentStore
from tickwise.roles.executor.admission import Admission
from tickwise.roles.executor.answered_claims import AnsweredClaims
from tickwise.roles.executor.cancel_requests import CancelRequests
from tickwise.roles.executor.capacity import RunnerCapacity, RunnerConfig
from tickwise.roles.executor.circuit_record import CircuitRecord
from tickwise.roles.executor.claim_hints import Hinting
from tickwise.roles.executor.claim_loop import ClaimLoop
from tickwise.roles.executor.departure import Departure
from tickwise.roles.executor.held_runs import HeldRuns
from tickwise.roles.executor.identity import AttemptTokens
from tickwise.roles.executor.lease import Lease, LeaseWatchers
from tickwise.roles.executor.lease_watch import LeaseWatch
from tickwise.roles.executor.ledger import CapacityLedger
from tickwise.roles.executor.outbox import Outbox
from tickwise.roles.executor.reconciliation import Reconciliation
from tickwise.roles.executor.registration import ExecutorRegistration, Heartbeat
from tickwise.roles.executor.result_publisher import MAX_KEPT, Publisher
from tickwise.roles.executor.run_log import RunLog
from tickwise.roles.executor.run_starter import RunStarter
from tickwise.roles.executor.run_traces import RunTraces
from tickwise.roles.executor.secret_values import SecretValues
from tickwise.roles.executor.settings import ExecutorSettings
from tickwise.roles.executor.settlement import RunReports, RunSettlement
from tickwise.roles.executor.start_records import StartRecords
from tickwise.roles.executor.store_clock import StoreClock
from tickwise.roles.executor.warming import EnvironmentWarming
from tickwise.roles.shared.dead_letter_writer import DeadLetterWriter
from tickwise.roles.shared.outcome_writer import OutcomeWriter
from tickwise.roles.shared.service import Loop, Service, Telemetry
from tickwise.roles.shared.signatures import ResultsSigning


class Executor(Service):
    """One executor. `start` runs the loops; `drain` ends them in peace."""

    name = "executor"

    def __init__(
        self,
        *,
        store: ExecutingStore,
        runner_configs: Sequence[RunnerConfig],
        signals: Signals,
        clock: Clock,
        settings: ExecutorSettings,
        telemetry: Telemetry,
        broker: Broker | None = None,
        incidents: IncidentStore | None = None,
        watchers: LeaseWatchers | None = None,
        signing: ResultsSigning | None = None,
        tracer: Tracer | None = None,
        issuer: TokenIssuer | None = None,
        secrets: Mapping[str, SecretProvider] | None = None,
    ) -> None:
        """`broker` brings hints. Without it, or while it is away, signals wake the executor, and it claims any run.
        `incidents` stores open circuits. `watchers` kill the tasks while this process stands still. `signing` signs the
        outcomes that go through the broker. `tracer` records the spans of attempts. `issuer` signs the identity tokens
        of runs. `secrets`: the providers of secrets, by name; the executor closes them."""
        super().__init__()
        self._store = store
        self._signals = signals
        self._clock = clock
        self._settings = settings
        self._telemetry = telemetry
        self._broker = broker
        self._rings = signals.listen(Topic.RUNS)
        self._claim_wake = self._rings if broker is None else asyncio.Event()
        self._ledger = CapacityLedger(settings.capacities, clock=clock, wake=self._claim_wake)
        self._held_runs = HeldRuns(self._ledger)
        self._tokens = AttemptTokens(issuer, clock=clock, held_runs=self._held_runs)
        self._beat_wake = signals.listen(Topic.CANCELS, concerns=self._held_runs.live.__contains__)
        self._time = StoreClock(clock)
        self._lease = Lease(clock, settings.lease_seconds, doubted=self._beat_wake, watchers=watchers)
        self._answered = AnsweredClaims()
        self._capacities = [self._make_capacity(config) for config in runner_configs]
        bound = settings.log_runs_per_second
        self._run_log = None if bound is None else RunLog(clock, self._lease, bound)
        self._tracer = tracer
        self._providers = secrets or {}
        self._traces = None if tracer is None else RunTraces(tracer, self._lease)
        self._circuits = None if incidents is None else CircuitRecord(incidents)
        # Each group needs the groups before it.
        self._compose_ends(signing)
        self._compose_starts()
        self._compose_membership()
        self._warming = self._make_warming()

    def _make_warming(self) -> EnvironmentWarming | None:
        """The builds ahead; None: no runner builds environments, or none is to be built ahead."""
        runners = [each.runner for each in self._capacities if isinstance(each.runner, WarmingRunner)]
        if not runners or not self._settings.environments_ahead:
            return None
        return EnvironmentWarming(
            self._store.environments,
            runners=runners,
            clock=self._clock,
            settings=self._settings,
            held_runs=self._held_runs,
            wake=self._signals.listen(Topic.ENVIRONMENTS),
        )

    def _make_capacity(self, config: RunnerConfig) -> RunnerCapacity:
        return RunnerCapacity(
            config.runner,
            clock=self._clock,
            wake=self._claim_wake,
            slots=self._settings.slots,
            spare=config.spare,
            held_max=self._settings.held_max,
        )

    def _compose_ends(self, signing: ResultsSigning | None) -> None:
        """The parts from the end of a task to the store, the last one first."""
        store, clock, lease, held_runs, settings = (
            self._store,
            self._clock,
            self._lease,
            self._held_runs,
            self._settings,
        )
        writer = OutcomeWriter(store.attempts, self._telemetry, self._signals, self._tracer)
        self._publisher: Publisher | None = None
        if self._broker is not None and settings.results == "broker":
            self._publisher = Publisher(self._broker, marks=store.marks, clock=clock, writer=writer, signing=signing)
        self._outbox = Outbox(
            lease=lease,
            capacities=self._capacities,
            telemetry=self._telemetry,
            batch=settings.finish_batch,
            flush_seconds=settings.finish_flush_seconds,
            emptied=held_runs.idle,
            writer=writer,
            publisher=self._publisher,
        )
        self._settlement = RunSettlement(
            clock=clock,
            time=self._time,
            held_runs=held_runs,
            outbox=self._outbox,
            circuits=self._circuits,
            run_log=self._run_log,
            traces=self._traces,
            telemetry=self._telemetry,
        )
        self._lease_watch = LeaseWatch(
            lease=lease, held_runs=held_runs, capacities=self._capacities, telemetry=self._telemetry
        )
        self._starts = StartRecords(attempts=store.attempts, clock=clock, lease=lease, held_runs=held_runs)
        self._reports = RunReports(
            lease=lease,
            lease_watch=self._lease_watch,
            held_runs=held_runs,
            starts=self._starts,
            settlement=self._settlement,
            outbox=self._outbox,
            run_log=self._run_log,
            traces=self._traces,
        )

    def _compose_starts(self) -> None:
        """The parts from the claim to the start of a task, the last one first."""
        clock, time, lease, held_runs, telemetry = (
            self._clock,
            self._time,
            self._lease,
            self._held_runs,
            self._telemetry,
        )
        self._starter = RunStarter(
            attempts=self._store.attempts,
            clock=clock,
            time=time,
            lease=lease,
            held_runs=held_runs,
            settlement=self._settlement,
            run_log=self._run_log,
            traces=self._traces,
            tokens=self._tokens,
        )
        self._secrets = SecretValues(
            self._providers,
            clock=clock,
            time=time,
            held_runs=held_runs,
            starter=self._starter,
            settlement=self._settlement,
        )
        self._admission = Admission(
            time=time,
            lease=lease,
            answered=self._answered,
            held_runs=held_runs,
            capacities=self._capacities,
            starter=self._starter,
            secrets=self._secrets,
            settlement=self._settlement,
            outbox=self._outbox,
            telemetry=telemetry,
        )
        self._hinting: Hinting | None = None
        if self._broker is not None:
            self._hinting = Hinting(
                self._broker,
                clock=clock,
                time=time,
                dead_letters=DeadLetterWriter(self._broker, role=self.name, clock=clock, telemetry=telemetry),
                settings=self._settings,
                capacities=self._capacities,
                held_runs=held_runs,
                wake=self._claim_wake,
            )
        self._claim_loop = ClaimLoop(
            attempts=self._store.attempts,
            executors=self._store.executors,
            clock=clock,
            time=time,
            lease=lease,
            settings=self._settings,
            capacities=self._capacities,
            held_runs=held_runs,
            admission=self._admission,
            telemetry=telemetry,
            wake=self._claim_wake,
            hinting=self._hinting,
        )

    def _compose_membership(self) -> None:
        """The parts that join the store, renew the lease, compare, and leave."""
        store, clock, time, lease, held_runs = self._store, self._clock, self._time, self._lease, self._held_runs
        settings = self._settings
        self._reconciliation = Reconciliation(
            store.held,
            clock=clock,
            time=time,
            lease=lease,
            answered=self._answered,
            held_runs=held_runs,
            outbox=self._outbox,
            telemetry=self._telemetry,
            pause_seconds=settings.heartbeat_seconds,
        )
        self._registration = ExecutorRegistration(
            executors=store.executors,
            clock=clock,
            time=time,
            lease=lease,
            capacities=self._capacities,
            settings=settings,
            ledger=self._ledger,
            publisher=self._publisher,
        )
        cancels = CancelRequests(
            time=time,
            held_runs=held_runs,
            settlement=self._settlement,
            outbox=self._outbox,
            reconciliation=self._reconciliation,
            grace_seconds=settings.kill_grace_seconds,
        )
        self._heartbeat = Heartbeat(
            registration=self._registration,
            lease=lease,
            held_runs=held_runs,
            reconciliation=self._reconciliation,
            cancels=cancels,
            bound_to_number=[self._starter, self._starts, self._outbox, self._reconciliation],
            seconds=settings.heartbeat_seconds,
            run_log=self._run_log,
        )
        self._departure = Departure(
            attempts=store.attempts,
            clock=clock,
            time=time,
            lease=lease,
            held_runs=held_runs,
            capacities=self._capacities,
            settlement=self._settlement,
            outbox=self._outbox,
            reconciliation=self._reconciliation,
            registration=self._registration,
        )

    async def start(self) -> None:
        """Join the store, make the runners ready, and begin."""
        await self.prepare()
        clock = self._clock
        self.spawn(
            Loop("beat", self._heartbeat.beat, clock, self._beat_wake),
            Loop("lease", self._lease_watch.watch, clock),
            Loop("compare", self._reconciliation.compare, clock, self._reconciliation.wake),
            Loop("hold", self._starter.launch_due, clock, self._starter.changed),
            Loop("identity", self._tokens.step, clock, self._tokens.changed),
            Loop("starts", self._starts.send, clock, self._starts.more),
            Loop("finish", self._outbox.send, clock, self._outbox.more),
            Loop("claim", self._claim_loop.step, clock, self._claim_wake),
            Loop("queues", self._claim_loop.look_afresh, clock, self._signals.listen(Topic.QUEUES)),
        )
        if self._publisher is not None:
            self.spawn(Loop("published", self._outbox.ask_published, clock, self._publisher.kept_more))
        if self._circuits is not None:
            self.spawn(Loop("circuits", self._circuits.record, clock, self._circuits.more))
        if (warming := self._warming) is not None:
            self.spawn(Loop("warm", warming.step, clock, warming.wake))
        hinting = self._hinting
        if hinting is not None:
            self.spawn(
                Loop("ring", hinting.heard, clock, self._rings),
                Loop("hints", hinting.gather, clock, hinting.room_more),
                Loop("hints done", hinting.confirm, clock, hinting.done_more),
            )

    async def prepare(self) -> None:
        """The first half of `start`, for a test that drives `tick` itself."""
        for capacity in self._capacities:
            await capacity.runner.start(self._reports, self._time.now)
        await self._registration.join_first()
        if self._hinting is not None:
            await self._hinting.start()

    async def tick(self) -> None:
        """One step of every loop."""
        await self._lease_watch.watch()
        await self._heartbeat.beat()
        await self._reconciliation.compare()
        if self._hinting is not None:
            await self._hinting.listen(0.0)
        await self._claim_loop.step()
        await self._starter.launch_due()
        if self._starts.more.is_set():
            await self._starts.send()
        await self._outbox.send()
        await self._outbox.ask_published()
        if self._hinting is not None and self._hinting.done_more.is_set():
            await self._hinting.confirm()

    async def drain(self) -> None:
        """Claim nothing more, give back the runs that have not begun, and let the others end, for `drain_seconds` at
        most. Heartbeats go on meanwhile."""
        self._held_runs.closed = True
        if self._hinting is not None:
            # Hints that are not claimed go to other executors now, not when the tasks have ended.
            await self._hinting.stop()
        await self._departure.drain(self._settings.drain_seconds)

    async def stop(self) -> None:
        """End at once: kill all tasks, report nothing of them, and give their runs back."""
        self._held_runs.closed = True
        self._departure.begin()
        try:
            for capacity in self._capacities:
                await capacity.runner.close()
        finally:
            # Heartbeats go on until here.
            self._starter.stop()
            await self._secrets.stop()
            if self._hinting is not None:
                await self._hinting.stop()
            await super().stop()
        if self._lease.number:
            await self._departure.leave()

    def slots(self) -> Mapping[str, Buffer]:
        """The number of busy slots, by the kinds of tasks that share them."""
        return {",".join(capacity.kinds): capacity.busy for capacity in self._capacities}

    def buffers(self) -> Mapping[str, Buffer]:
        """The number of runs, outcomes and hints that wait here, and the limit of each."""
        limit = self._settings.held_max + self._settings.slots * len(self._capacities)
        found = {
            "executor_held": Buffer(len(self._held_runs.live), limit),
            "executor_outcomes": Buffer(len(self._outbox), limit),
        }
        if self._hinting is not None:
            found["executor_hints"] = Buffer(self._hinting.size(), self._hinting.limit())
        if self._publisher is not None:
            found["executor_published"] = Buffer(self._publisher.count, MAX_KEPT)
        return found
