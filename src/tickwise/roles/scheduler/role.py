"""Due schedules become runs, and what got stuck is healed. Any number at once; none leads.

    fire          timers within the horizon become runs (`fire_loop.py`)
    rezone        timers that were computed with other zone data are computed anew (`zone_update.py`)
    heal          executors whose lease is over are expired, and their runs go on (`lease_expiry.py`)
    follow        runs that start when another run ends are made (`sequences.py`)
    group errors  failures are counted in groups of one cause (`error_folding.py`)
    alerting      events are judged by notification rules (`alerting.py`)
    delays        late and long runs, overdue timers and lost executors are noted for such rules (`alerting.py`)
    send          notices are delivered to their channels (`notice_delivery.py`)
    operate       operations over many things are carried out page by page (`operations.py`)
    look          every invariant is checked, and violations are put right (`invariant_repair.py`)
    objectives    budgets of late starts that burn too fast are told of (`observing/objective_watch.py`)
    anomalies     runs unlike earlier ones of their job are told of, where a rule asks (`observing/anomaly_watch.py`)
    expiring      keys that end soon are noted for notification rules (`roles/shared/expiries.py`)
    status        the jobs of status pages are looked at (`observing/status_looks.py`)
    seal          entries of the audit log are sealed, and the heads noted outside (`audit_sealing.py`)
    maintain      partitions are made ahead, and dropped after their retention (`upkeep.py`)
    forget        outputs are removed after their retention, a whole day of runs at a time (`upkeep.py`)
    move scripts  scripts of jobs are moved into the blob store (`script_mover.py`)
    count         the runs of the fullest queues are counted for the metrics (`queue_counts.py`)
    ping          if there is an address for it: a receiver elsewhere hears that all is well (`heartbeat.py`)
    sweep         with a broker: hints are published again for runs that stay queued (`hint_sweep.py`)

This module only composes the parts and runs their loops (README.md in this folder).

Invariants: each step may run twice, or in two schedulers at once, and takes effect once; a job that cannot be decided
or recorded holds up no other job.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tickwise.documents.rulebook import Rulebook
from tickwise.observability.tracing import Tracer
from tickwise.ports.blobs import Blobs
from tickwise.ports.clock import Clock
from tickwise.ports.heartbeat import Pinger
from tickwise.ports.shared_state import SharedState
from tickwise.ports.signals import Signals, Topic
from tickwise.ports.store import Retention, Store
from tickwise.roles.scheduler.alerting import Alerting, DelayLooks
from tickwise.roles.scheduler.audit_sealing import AuditSealing, KeepAnchors
from tickwise.roles.scheduler.error_folding import ErrorFolding
from tickwise.roles.scheduler.fire_loop import LOOKS_PER_HORIZON, FireLoop
from tickwise.roles.scheduler.heartbeat import HeartbeatSettings, OutboundHeartbeat
from tickwise.roles.scheduler.hint_sweep import HintSweep
from tickwise.roles.scheduler.invariant_repair import Healing
from tickwise.roles.scheduler.lease_expiry import LeaseExpiry
from tickwise.roles.scheduler.notice_delivery import NoticeDelivery
from tickwise.roles.scheduler.observing.anomaly_watch import AnomalyWatch
from tickwise.roles.scheduler.observing.objective_watch import ObjectiveNotes, ObjectiveWatch
from tickwise.roles.scheduler.observing.status_looks import StatusLooks
from tickwise.roles.scheduler.operations import CarryOut, Operations
from tickwise.roles.scheduler.outage_record import Presence
from tickwise.roles.scheduler.queue_counts import QueueCounts
from tickwise.roles.scheduler.removals import CarryOutRemoval, Removals
from tickwise.roles.scheduler.script_mover import ScriptMover
from tickwise.roles.scheduler.sequences import Sequences
from tickwise.roles.scheduler.upkeep import USUAL_ARTEFACTS, ArtefactRetention, Upkeep
from tickwise.roles.scheduler.zone_update import ZoneUpdate
from tickwise.roles.shared.expiries import KeyExpiryWatch
from tickwise.roles.shared.hint_publisher import HintPublisher
from tickwise.roles.shared.service import Loop, Service, Telemetry

DAY_SECONDS: Final = 86_400.0
AFTER_START_SECONDS: Final = 5.0
"""The pause before the first look for metrics and objectives: runs are due right after a start, and nobody waits for
them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """The settings of a scheduler."""

    name: str = "scheduler"
    """Its name in records of outages."""
    horizon_seconds: float = 2.0
    batch: int = 1000
    heal_seconds: float = 1.0
    lease_seconds: float = 10.0
    retention: Retention
    logs_seconds: float = 7 * DAY_SECONDS
    artefacts: ArtefactRetention = USUAL_ARTEFACTS
    fires_per_minute_most: int = 0
    """Of a namespace, by schedule; 0: as many as it likes."""
    invariants_seconds: float = 60.0
    """Between two looks at all invariants, at least."""
    heartbeat_seconds: float = 60.0
    """Between two pings to the receiver of heartbeats."""


class Receiver(NamedTuple):
    """The receiver of heartbeats, and where schedulers note that it was told."""

    pinger: Pinger
    shared_state: SharedState


class Scheduler(Service):
    """One scheduler. `tick` does one round of everything, for tests; `start` runs the loops."""

    name = "scheduler"

    def __init__(
        self,
        *,
        store: Store,
        blobs: Blobs,
        signals: Signals,
        clock: Clock,
        settings: SchedulerSettings,
        telemetry: Telemetry,
        carry_out: CarryOut | None = None,
        carry_out_removal: CarryOutRemoval | None = None,
        hint_publisher: HintPublisher | None = None,
        keep_anchors: KeepAnchors | None = None,
        receiver: Receiver | None = None,
        tracer: Tracer | None = None,
        notice_delivery: NoticeDelivery | None = None,
    ) -> None:
        """`carry_out` does the work of operations over many things, `carry_out_removal` that of removals of namespaces;
        without them they are left to other schedulers, as notices are without `notice_delivery`. `hint_publisher`
        publishes claim hints through the broker. `keep_anchors` keeps the heads of the audit log's chains outside the
        database; None: they are in the log of the process alone. `receiver` hears that all is well. `tracer` says
        which runs are recorded."""
        super().__init__()
        self._signals = signals
        self._clock = clock
        rulebook, batches = Rulebook(store.rules, store.stops), asyncio.Lock()
        horizon, batch = settings.horizon_seconds, settings.batch
        presence = Presence(store, clock, who=settings.name, look_seconds=horizon / LOOKS_PER_HORIZON)
        self._fire_loop = FireLoop(
            store=store, signals=signals, clock=clock, telemetry=telemetry, rulebook=rulebook, presence=presence,
            batches=batches, horizon_seconds=horizon, batch=batch, hint_publisher=hint_publisher, tracer=tracer,
            fires_per_minute_most=settings.fires_per_minute_most,
        )  # fmt: skip
        self._zone_update = ZoneUpdate(
            store=store, rulebook=rulebook, batches=batches, horizon_seconds=horizon, batch=batch
        )
        self._lease_expiry = LeaseExpiry(
            store=store, signals=signals, clock=clock, telemetry=telemetry, presence=presence,
            lease_seconds=settings.lease_seconds, pause_seconds=settings.heal_seconds,
        )  # fmt: skip
        self._sequences = Sequences(
            store, signals=signals, clock=clock, telemetry=telemetry, hint_publisher=hint_publisher, tracer=tracer
        )
        self._error_folding = ErrorFolding(store.error_groups)
        notes = ObjectiveNotes(store.alerts, clock)
        self._objective_watch = ObjectiveWatch(store.searches, store.objectives, notes.tell)
        self._key_expiry = KeyExpiryWatch(store)
        self._status_looks = StatusLooks(store)
        wake = (lambda: None) if notice_delivery is None else notice_delivery.wake.set
        self._alerting = Alerting(store, clock, is_due=wake)
        self._anomaly_watch = AnomalyWatch(self._alerting, store, clock)
        self._delay_looks = DelayLooks(self._alerting, store)
        self._operations = carry_out and Operations(store.operations, carry_out, clock=clock, telemetry=telemetry)
        self._removals = Removals(store.removals, carry_out_removal) if carry_out_removal else None
        self._healing = self._healing_of(store, settings, telemetry)
        self._upkeep = self._upkeep_of(store, blobs, settings)
        self._sealing = AuditSealing(store.audit, clock, keep_anchors)
        self._scripts = ScriptMover(store.tasks, blobs, clock)
        self._notice_delivery = notice_delivery
        self._hint_sweep = None if hint_publisher is None else HintSweep(store, hint_publisher)
        self._turns = asyncio.Lock()  # held by the looks that nothing waits for: they go one after the other
        self._queue_counts = QueueCounts(store.upkeep, store.notices, telemetry)
        self._heartbeat = self._heartbeat_of(receiver, store, settings, telemetry)

    def _upkeep_of(self, store: Store, blobs: Blobs, settings: SchedulerSettings) -> Upkeep:
        return Upkeep(
            store, blobs, retention=settings.retention, logs_seconds=settings.logs_seconds, artefacts=settings.artefacts
        )

    def _healing_of(self, store: Store, settings: SchedulerSettings, telemetry: Telemetry) -> Healing:
        return Healing(
            store,
            signals=self._signals,
            clock=self._clock,
            telemetry=telemetry,
            pause_seconds=settings.invariants_seconds,
            kept_seconds=settings.retention.runs_seconds,
        )

    def _heartbeat_of(
        self, receiver: Receiver | None, store: Store, settings: SchedulerSettings, telemetry: Telemetry
    ) -> OutboundHeartbeat | None:
        if receiver is None:
            return None
        return OutboundHeartbeat(
            store.upkeep,
            receiver.shared_state,
            self._clock,
            receiver.pinger,
            last_pass=lambda: self._healing.last_pass,
            telemetry=telemetry,
            settings=HeartbeatSettings(settings.name, settings.heartbeat_seconds),
        )

    def _in_turn(self, step: Callable[[], Awaitable[float]]) -> Callable[[], Awaitable[float]]:
        async def step_in_turn() -> float:
            async with self._turns:
                return await step()

        return step_in_turn

    async def start(self) -> None:
        """Begin to fire, heal and maintain."""
        clock = self._clock
        self.spawn(
            Loop("rezone", self._zone_update.step, clock),
            Loop("fire", self._fire_loop.step, clock, self._signals.listen(Topic.TIMERS)),
            Loop("heal", self._lease_expiry.step, clock),
            Loop("follow", self._sequences.step, clock, self._signals.listen(Topic.COMPLETIONS)),
            Loop("group errors", self._error_folding.step, clock),
            Loop("alerting", self._alerting.step, clock),
            Loop("delays", self._delay_looks.step, clock),
            Loop("anomalies", self._in_turn(self._anomaly_watch.step), clock, after=AFTER_START_SECONDS),
            Loop("objectives", self._in_turn(self._objective_watch.step), clock, after=AFTER_START_SECONDS),
            Loop("expiring", self._in_turn(self._key_expiry.step), clock, after=AFTER_START_SECONDS),
            Loop("status", self._in_turn(self._status_looks.step), clock, after=AFTER_START_SECONDS),
            Loop("look", self._healing.step, clock),
            Loop("seal", self._sealing.step, clock),
            Loop("maintain", self._upkeep.keep_partitions, clock),
            Loop("forget", self._upkeep.expire_outputs, clock),
            Loop("move scripts", self._scripts.step, clock),
            Loop("count", self._in_turn(self._queue_counts.step), clock, after=AFTER_START_SECONDS),
        )
        if self._heartbeat is not None:
            self.spawn(Loop("ping", self._heartbeat.step, clock))
        if self._hint_sweep is not None:
            self.spawn(Loop("sweep", self._hint_sweep.step, clock))
        if (delivery := self._notice_delivery) is not None:
            self.spawn(Loop("send", delivery.step, clock, delivery.wake))
        if self._operations is not None:
            self.spawn(Loop("operate", self._operations.step, clock, self._signals.listen(Topic.OPERATIONS)))
        if self._removals is not None:
            self.spawn(Loop("remove", self._removals.step, clock, self._signals.listen(Topic.OPERATIONS)))

    async def drain(self) -> None:
        """Let notices that are under way arrive."""
        if self._notice_delivery is not None:
            await self._notice_delivery.finish()

    async def stop(self) -> None:
        """End every loop, and the connections of senders."""
        await super().stop()
        if self._notice_delivery is not None:
            await self._notice_delivery.close()

    async def tick(self) -> None:
        """One round of each duty."""
        await self._zone_update.step()
        while await self._fire_loop.step() == 0:
            pass
        await self._lease_expiry.step()
        while await self._sequences.step() == 0:
            pass
        while await self._error_folding.step() == 0:
            pass
        await self._delay_looks.step()
        await self._anomaly_watch.step()
        while await self._alerting.step() == 0:
            pass
        while self._operations is not None and await self._operations.step() == 0:
            pass
        while self._removals is not None and await self._removals.step() == 0:
            pass
        while await self._objective_watch.step() == 0:
            pass
        await self._key_expiry.step()
        while await self._status_looks.step() == 0:
            pass
        await self._healing.look()
        if self._hint_sweep is not None:
            await self._hint_sweep.step()
        if self._notice_delivery is not None:
            await self._notice_delivery.step()
            await self._notice_delivery.finish()
        await self._sealing.step()
        await self._upkeep.keep_partitions()
        await self._upkeep.expire_outputs()
        await self._scripts.step()
        await self._queue_counts.step()
        if self._heartbeat is not None:
            await self._heartbeat.step()

    def facts(self) -> Mapping[str, Any]:
        """The time of its last look for due timers, and the result of its last pass over the invariants."""
        last = self._healing.last_pass
        found = {} if last is None else {f"invariants_{name}": value for name, value in last._asdict().items()}
        return {"last_scan_at": self._fire_loop.looked_at, **found}

    async def fire_due(self) -> int:
        """One look for timers within the horizon. Returns the number of timers that it decided."""
        return await self._fire_loop.fire_due()
