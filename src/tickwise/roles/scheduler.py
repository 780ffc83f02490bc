"""Due schedules become runs, and what got stuck is healed. Any number at once; none leads.

    fire      one-time timers within the horizon become runs in one statement; recurring ones are decided here
    heal      executors whose lease ran out are buried, what they held goes on
    maintain  partitions are made ahead, and dropped when they are past their time
    forget    outputs older than their retention go, a whole day of runs at a time

Invariant: whatever this role does may be done twice, or by two schedulers at once, and is then done once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import structlog

from tickwise.domain.model import Trigger, run_id
from tickwise.domain.retry import CRASHES_MAX
from tickwise.domain.schedule import Schedule, decide
from tickwise.ports.blobs import LOGS, Blobs, log_day
from tickwise.ports.clock import Clock
from tickwise.ports.signals import Signals, Topic
from tickwise.ports.store import Fire, NewRun, Retention, Store, Timer
from tickwise.roles.definition import decode_plan
from tickwise.roles.service import Loop, Service, Telemetry

DECISION_LIMIT: Final = 100
"""Fires of one job decided at once: 100 fires of a one-second job are more than any horizon."""
PARKED_SECONDS: Final = 60.0
"""A timer that cannot be decided (a defect of ours) is looked at again after this, so that it blocks no other."""
FIRE_GAP_SECONDS: Final = 0.02
"""Between two looks for timers that did not fill."""
MAINTAIN_SECONDS: Final = 600.0
DAY_SECONDS: Final = 86_400.0
CACHED_LENGTH: Final = 4096
"""Longer definitions are decoded anew: a cache of large payloads would cost more than it saves."""

logger = structlog.get_logger("tickwise.scheduler")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """What wiring hands over from the settings."""

    horizon_seconds: float = 2.0
    batch: int = 1000
    heal_seconds: float = 1.0
    lease_seconds: float = 10.0
    retention: Retention
    logs_seconds: float = 7 * DAY_SECONDS


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
    ) -> None:
        super().__init__()
        self._blobs = blobs
        self._store = store
        self._signals = signals
        self._clock = clock
        self._settings = settings
        self._telemetry = telemetry
        self._healed_at: float | None = None
        self._grace_until = 0.0

    async def start(self) -> None:
        """Begin to fire, heal and maintain."""
        clock = self._clock
        self.spawn(
            Loop("fire", self._fire, clock, self._signals.listen(Topic.TIMERS)),
            Loop("heal", self._heal, clock),
            Loop("maintain", self._maintain, clock),
            Loop("forget", self._forget_logs, clock),
        )

    async def tick(self) -> None:
        """One round of each duty."""
        while await self._fire() == 0:
            pass
        await self._heal()
        await self._maintain()
        await self._forget_logs()

    async def _fire(self) -> float:
        settings = self._settings
        once = await self._store.timers_fire(settings.horizon_seconds, settings.batch)
        async with self._store.fires(settings.horizon_seconds, settings.batch) as taken:
            timers = taken.timers
            made = await taken.commit([self._decide(timer, taken.now) for timer in timers]) if timers else 0
        if once or made:
            self._telemetry.fired(once + made)
            self._signals.send(Topic.RUNS)
        if once >= settings.batch or len(timers) >= settings.batch:
            return 0.0
        # So that a ring for each submit does not become a look for each submit.
        await self._clock.sleep(FIRE_GAP_SECONDS)
        # Four looks in a horizon: each timer is seen well before it is due, even if one look is late.
        return settings.horizon_seconds / 4

    def _decide(self, timer: Timer, now: float) -> Fire:
        try:
            text = timer.definition
            schedule = _schedule(text) if len(text) <= CACHED_LENGTH else decode_plan(text).schedule()
            decision = decide(schedule, timer.due, now, now + self._settings.horizon_seconds, DECISION_LIMIT)
        except Exception:
            logger.exception("schedule_undecidable", job_id=str(timer.job_id), due=timer.due)
            return Fire(timer.job_id, timer.due, now + PARKED_SECONDS, ())
        if decision.coalesced:
            logger.info("fires_coalesced", job_id=str(timer.job_id), count=decision.coalesced, since=timer.due)
        runs = [NewRun(run_id(timer.job_id, due), due, Trigger.SCHEDULE) for due in decision.fires]
        return Fire(timer.job_id, timer.due, decision.next_due, runs)

    async def _heal(self) -> float:
        """Bury the dead. After the store, or our link to it, was away, executors first get one lease to be heard."""
        clock, settings = self._clock, self._settings
        before = clock.monotonic()
        last = self._healed_at
        await self._store.now()
        if last is not None and before - last > max(settings.lease_seconds / 2, 3 * settings.heal_seconds):
            self._grace_until = before + settings.lease_seconds
        self._healed_at = clock.monotonic()
        if self._healed_at < self._grace_until:
            return settings.heal_seconds
        expired = await self._store.leases_expire(CRASHES_MAX)
        if expired.executors or expired.freed or expired.quarantined:
            logger.warning(
                "leases_expired",
                executors=list(expired.executors),
                freed=expired.freed,
                quarantined=[str(run) for run in expired.quarantined],
            )
            self._telemetry.healed(
                executors=len(expired.executors), freed=expired.freed, quarantined=len(expired.quarantined)
            )
            self._signals.send(Topic.RUNS)
        return settings.heal_seconds

    async def _maintain(self) -> float:
        done = await self._store.maintain(self._settings.retention)
        if done.made or done.dropped:
            logger.info("partitions_kept", made=list(done.made), dropped=list(done.dropped))
        return MAINTAIN_SECONDS

    async def _forget_logs(self) -> float:
        """Remove the outputs of runs whose day is over its retention. Twice is once, so any scheduler may."""
        oldest = await self._store.now() - self._settings.logs_seconds
        for day in await self._blobs.folders(LOGS):
            # A run that was made up for lately bears an old day in its id; what counts is when it wrote.
            if day < log_day(oldest):
                old = [blob.key for blob in await self._blobs.list(f"{LOGS}{day}/") if blob.written_at < oldest]
                await self._blobs.delete(old)
                if old:
                    logger.info("outputs_expired", day=day, count=len(old))
        return MAINTAIN_SECONDS


@lru_cache(maxsize=50_000)
def _schedule(definition: str) -> Schedule:
    """The schedule inside a definition. Cached by its text: a job's definition is the same at every fire."""
    return decode_plan(definition).schedule()
