"""Due schedules become runs, and what got stuck is healed. Any number at once; none leads.

    fire      one-time timers within the horizon become runs in one statement; what needs a decision is decided here
    rezone    timers that were computed with other zone data are computed anew
    heal      executors whose lease ran out are expired, what they held goes on; so does what waited for an ended run
    follow    what runs start when they end is made (`sequences.py`)
    operate   operations over many things are carried out page by page (`operations.py`)
    look      every invariant is looked at, and what is stuck is put right (`invariant_repair.py`)
    maintain  partitions are made ahead, and dropped when they are past their time
    forget    outputs older than their retention go, a whole day of runs at a time
    sweep     where a broker carries hints: executors are told again of what stayed queued

Invariants: whatever this role does may be done twice, or by two schedulers at once, and is then done once; what cannot
be decided or recorded of one job holds up no other.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

import structlog

from tickwise.domain import zones
from tickwise.domain.decision import Hold, decide
from tickwise.domain.errors import Bug, Invalid, Unavailable
from tickwise.domain.retry import CRASHES_MAX, EXECUTOR_LOST, UNKNOWN_OUTCOME
from tickwise.domain.schedule import moved
from tickwise.ports.blobs import LOGS, Blobs, log_day
from tickwise.ports.clock import Clock
from tickwise.ports.signals import Signals, Topic
from tickwise.ports.store import Fire, FireBatch, FireRequest, Ready, Retention, Store, Timer
from tickwise.roles.scheduler.fires import Decided, NamespaceFuse, fire_of, read_plan
from tickwise.roles.scheduler.invariant_repair import Healing
from tickwise.roles.scheduler.operations import CarryOut, Operations
from tickwise.roles.scheduler.outage_record import Presence
from tickwise.roles.scheduler.rule_budget import RuleShare
from tickwise.roles.scheduler.script_mover import ScriptMover
from tickwise.roles.scheduler.sequences import Sequences
from tickwise.roles.shared.hint_publisher import HintPublisher
from tickwise.roles.shared.rulebook import Rulebook
from tickwise.roles.shared.service import Loop, Service, Telemetry

DECISION_LIMIT: Final = 100
"""Fires of one job decided at once: 100 fires of a one-second job are more than any horizon."""
RUNS_AT_ONCE: Final = 10_000
"""After so many runs and skips of one batch the rest is decided in the next: after downtime each timer may come to a
thousand, and a thousand timers to more than one transaction should hold."""
DECIDING_SECONDS: Final = 0.25
"""And after so long, for nothing else of this process gets a turn meanwhile, not even a heartbeat."""
PARKED_SECONDS: Final = 60.0
"""A timer that cannot be decided or recorded (a defect of ours) is looked at again after this: it blocks no other."""
LOOKS_PER_HORIZON: Final = 3
"""Each timer is seen well before it is due, even if one look is late."""
AFTER_SECOND: Final = 0.25
"""So long after a whole second a look begins, or in the midst of a shorter time from one look to the next: cron lines
name whole seconds, and while executors begin what is due then, schedulers leave them the machine."""
AFTER_WINDOW_SECONDS: Final = 60.0
"""So long after the end of a maintenance window what it held back is still about."""
FIRE_GAP_SECONDS: Final = 0.02
"""Between two looks for timers that did not fill."""
UNBLOCK_SHARE: Final = 20.0
"""A look at all that waits is followed by a pause of so many times its length: 5 % of one core."""
MAX_UNBLOCK_SECONDS: Final = 10.0
"""But by no longer one: so long may a run wait whose wake-up was lost."""
SWEEP_SECONDS: Final = 0.5
"""How often executors are told again of what stayed queued, …"""
SWEPT_FIRST_SECONDS: Final = 0.25
"""… beginning so long after it was ready, then after 1, 2, 4 … seconds: whoever is at it twice tells it twice, and the
more there is of one age, the less often it is told. No scheduler need remember anything."""
SWEPT_LAST_SECONDS: Final = 128.0
"""What is older is found by executors that look themselves, as all do at least every second."""
MAX_SWEPT: Final = 1_000
"""In one sweep. More than this waits because executors are busy, or because many hints were lost at once; either way
executors find it when they look themselves, and hints for all of it would only be in their way."""
MAINTAIN_SECONDS: Final = 600.0
DAY_SECONDS: Final = 86_400.0

logger = structlog.get_logger("tickwise.scheduler")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """What wiring hands over from the settings."""

    name: str = "scheduler"
    """Who it is, in records of what was away."""
    horizon_seconds: float = 2.0
    batch: int = 1000
    heal_seconds: float = 1.0
    lease_seconds: float = 10.0
    retention: Retention
    logs_seconds: float = 7 * DAY_SECONDS
    fires_per_minute_most: int = 0
    """Of a namespace, by schedule; 0: as many as it likes."""
    invariants_seconds: float = 60.0
    """Between two looks at all invariants, at least."""


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
        announcer: HintPublisher | None = None,
    ) -> None:
        """`carry_out` does the work of operations over many things; without it they are left to other schedulers.
        `announcer` tells executors by a broker what they can claim."""
        super().__init__()
        self._blobs = blobs
        self._share = RuleShare()
        self._scripts = ScriptMover(store, blobs, clock)
        self._store = store
        self._signals = signals
        self._clock = clock
        self._settings = settings
        self._telemetry = telemetry
        self._announcer = announcer
        self._rulebook = Rulebook(store)
        self._presence = Presence(
            store, clock, who=settings.name, look_seconds=settings.horizon_seconds / LOOKS_PER_HORIZON
        )
        self._fuse = NamespaceFuse(store, settings.fires_per_minute_most)
        self._batches = asyncio.Lock()
        """A client has one batch of timers at a time."""
        self._singly = 0
        """So many timers are yet to be recorded one by one, since the store refused them together."""
        self._refused: set[tuple[UUID, float]] = set()
        """Jobs whose fires the store refused by themselves, and where their timers stood: they are put off."""
        self._looked_at: float | None = None
        """The store's time of the last look for timers."""
        self._healed_at: float | None = None
        self._grace_until = 0.0
        self._unblock_at = float("-inf")
        self._sequences = Sequences(store, signals=signals, clock=clock, telemetry=telemetry, announcer=announcer)
        self._operations = Operations(store, carry_out, clock=clock, telemetry=telemetry) if carry_out else None
        self._healing = Healing(
            store,
            signals=signals,
            clock=clock,
            telemetry=telemetry,
            pause_seconds=settings.invariants_seconds,
            kept_seconds=settings.retention.runs_seconds,
        )

    async def start(self) -> None:
        """Begin to fire, heal and maintain."""
        clock = self._clock
        self.spawn(
            Loop("rezone", self._rezone, clock),
            Loop("fire", self._fire, clock, self._signals.listen(Topic.TIMERS)),
            Loop("heal", self._heal, clock),
            Loop("follow", self._sequences.step, clock, self._signals.listen(Topic.FOLLOWS)),
            Loop("look", self._healing.step, clock),
            Loop("maintain", self._maintain, clock),
            Loop("forget", self._forget_logs, clock),
            Loop("move scripts", self._scripts.step, clock),
        )
        if self._announcer is not None:
            self.spawn(Loop("sweep", self._sweep, clock))
        if self._operations is not None:
            self.spawn(Loop("operate", self._operations.step, clock, self._signals.listen(Topic.OPERATIONS)))

    async def tick(self) -> None:
        """One round of each duty."""
        await self._rezone()
        while await self._fire() == 0:
            pass
        await self._heal()
        while await self._sequences.step() == 0:
            pass
        while self._operations is not None and await self._operations.step() == 0:
            pass
        await self._healing.look()
        await self._sweep()
        await self._maintain()
        await self._forget_logs()
        await self._scripts.step()

    def facts(self) -> Mapping[str, Any]:
        """When it last looked for what is due."""
        return {"last_scan_at": self._looked_at}

    async def _fire(self) -> float:
        settings = self._settings
        try:
            await self._presence.look()
            look = await self._look()
            self._looked_at = look.now
        except Unavailable:
            self._presence.looked_in_vain()
            raise
        if look.filled:
            return 0.0
        # So that a ring for each submit does not become a look for each submit.
        await self._clock.sleep(FIRE_GAP_SECONDS)
        return until_next_look(look.now + FIRE_GAP_SECONDS, settings.horizon_seconds / LOOKS_PER_HORIZON)

    async def fire_due(self) -> int:
        """One look for timers within the horizon; how many it decided."""
        return (await self._look()).timers

    async def _look(self) -> _Look:
        settings, book = self._settings, self._rulebook
        if book.version is None:
            await book.load()
        # While a window may concern them, one-time jobs need a decision too, and are not fired in one statement.
        once = False
        if book.has_windows():
            begin = await self._store.now() - AFTER_WINDOW_SECONDS
            once = book.near(begin, AFTER_WINDOW_SECONDS + settings.horizon_seconds)
        fired = 0 if once else await self._fire_once()
        made, look = await self._decide_batch(once=once)
        if fired or made:
            self._telemetry.fired(fired + made)
            self._signals.send(Topic.RUNS)
        return _Look(fired + look.timers, now=look.now, filled=look.filled or fired >= settings.batch)

    async def _fire_once(self) -> int:
        """One-time jobs that need no decision become runs; how many."""
        settings, announcer = self._settings, self._announcer
        if announcer is None:
            return await self._store.timers_fire(settings.horizon_seconds, settings.batch)
        made = await self._store.timers_fire_named(settings.horizon_seconds, settings.batch)
        announcer.announce(made)
        return len(made)

    async def _decide_batch(self, *, once: bool) -> tuple[int, _Look]:
        """Decide what is near; how many runs came of which look."""
        settings = self._settings
        most = 1 if self._singly else settings.batch
        request = FireRequest(
            horizon_seconds=settings.horizon_seconds,
            limit=most,
            once=once,
            without=self._share.waiting(self._clock.monotonic()),
        )
        while True:
            async with self._batches, self._store.fires(request) as taken:
                # Asked before anything else: whether one-time jobs need a decision follows from the rules too.
                if taken.rules_version == self._rulebook.version:
                    if not taken.timers:
                        self._singly = 0
                        return 0, _Look(0, now=taken.now, filled=False)
                    decided, seen = self._decide_some(taken)
                    try:
                        made = await self._record(taken, decided) if decided else 0
                    except (Invalid, Bug) as wrong:
                        self._is_refused(decided, wrong)
                        return 0, _Look(0, now=taken.now, filled=True)
                    filled = len(taken.timers) >= most or seen < len(taken.timers)
                    return made, _Look(len(decided), now=taken.now, filled=filled)
            # Somebody changed a calendar or a window: what was taken is decided by the rules that hold now.
            await self._rulebook.load()

    async def _record(self, taken: FireBatch, decided: Sequence[Decided]) -> int:
        """How many runs came of it."""
        await self._fuse.hold_down(decided, taken.now)
        try:
            made = await taken.commit([each.fire for each in decided])
        except (Invalid, Bug):
            await self._fuse.forget(decided)
            raise
        if self._refused:
            self._refused.difference_update(_stand(each.timer) for each in decided)
        self._singly = max(0, self._singly - len(decided))
        if self._announcer is not None:
            # Those of a timer that was changed meanwhile were not made. Who claims them finds nothing.
            self._announcer.announce(
                [Ready(run.run_id, run.due, each.timer.lane) for each in decided for run in each.fire.runs]
            )
        self._tell(decided)
        return made

    def _is_refused(self, decided: Sequence[Decided], wrong: Invalid | Bug) -> None:
        """The store takes none of them for the sake of one: find which, and put it off, so that the others go on."""
        if len(decided) > 1:
            self._singly = len(decided)
            logger.warning("fires_refused", count=len(decided), detail=str(wrong))
            return
        stand = job_id, due = _stand(decided[0].timer)
        if stand in self._refused:
            raise wrong  # it cannot even be put off
        self._refused.add(stand)
        logger.error("schedule_unrecordable", job_id=str(job_id), due=due, detail=str(wrong))

    def _decide_some(self, taken: FireBatch) -> tuple[list[Decided], int]:
        """The earliest of the batch: all of them, unless they come to very much; and how many were looked at. Those
        that wait stay as they are."""
        decided: list[Decided] = []
        records, seen, begun = 0, 0, self._clock.monotonic()
        for timer in taken.timers:
            each = self._decide(timer, taken.now)
            seen += 1
            if each is not None:
                decided.append(each)
                records += len(each.fire.runs) + len(each.fire.skips)
            if records >= RUNS_AT_ONCE or self._clock.monotonic() - begun >= DECIDING_SECONDS:
                break
        return decided, seen

    def _decide(self, timer: Timer, now: float) -> Decided | None:
        """None: it waits, since its namespace has used up its share."""
        if self._refused and _stand(timer) in self._refused:
            return _undecided(timer, now)
        try:
            reading = read_plan(timer.definition, timer.job_id)
            rules = self._rulebook.rules(timer.namespace, reading.plan.calendars, timer.labels)
            # A one-time job has one occurrence, which costs little, and needs a decision only while a window is near.
            may_wait = rules is not None and reading.schedule.recurs
            if may_wait and self._share.must_wait(timer.job_id, timer.namespace, self._clock.monotonic()):
                return None
            decision = decide(
                reading.schedule,
                timer.pending,
                now=now,
                until=now + self._settings.horizon_seconds,
                rules=rules,
                limit=DECISION_LIMIT,
            )
            if rules is not None:
                self._share.spend(timer.namespace, rules.take_spent(), self._clock.monotonic())
        except Exception:
            logger.exception("schedule_undecidable", job_id=str(timer.job_id), due=timer.pending.due)
            return _undecided(timer, now)
        return Decided(timer, reading.schedule, fire_of(timer, reading, decision))

    def _tell(self, decided: Sequence[Decided]) -> None:
        """Say what did not run."""
        skipped: Counter[str] = Counter()
        parked = 0
        for each in decided:
            for skip in each.fire.skips:
                skipped[skip.reason.value] += skip.occurrences
            if each.fire.park is not None:
                parked += 1
                logger.warning(
                    "job_parked",
                    job_id=str(each.timer.job_id),
                    namespace=each.timer.namespace,
                    reason=each.fire.park,
                )
        if skipped:
            self._telemetry.skipped(skipped)
        if parked:
            self._telemetry.parked(parked)

    async def _rezone(self) -> float:
        """Compute anew what was computed with other zone data than this process has now."""
        before = zones.data_version()
        zones.forget()
        version = zones.data_version()
        if version != before:
            logger.warning("zone_data_changed", before=before, now=version)
            self._rulebook.forget()
        settings = self._settings
        request = FireRequest(
            horizon_seconds=settings.horizon_seconds, limit=settings.batch, other_zone_data_than=version
        )
        filled, moved = True, 0
        while filled:
            async with self._batches, self._store.fires(request) as taken:
                fires = [_rezoned(timer, version) for timer in taken.timers]
                moved += sum(fire.timer is not None and fire.timer.due != fire.due for fire in fires)
                if fires:
                    await taken.commit(fires)
                filled = len(fires) >= settings.batch
        if moved:
            logger.warning("timers_rezoned", count=moved, zone_data=version)
        return MAINTAIN_SECONDS

    async def _heal(self) -> float:
        """Expire executors whose lease is over. After an outage of the store, or of our link to it, executors first get
        one lease period to be heard."""
        clock, settings = self._clock, self._settings
        before = clock.monotonic()
        # A store that was away when we began was away for others too.
        last = self._healed_at = before if self._healed_at is None else self._healed_at
        await self._presence.ask()
        at = clock.monotonic()
        if at - last > max(settings.lease_seconds / 2, 3 * settings.heal_seconds):
            self._grace_until = at + settings.lease_seconds
        self._healed_at = at
        trouble: Exception | None = None
        try:
            # Right after the look at the clock: a store that stands still during anything that lies in between would
            # find the leases of all of them over when it goes on.
            if at >= self._grace_until:
                await self._expire()
        except Exception as failure:  # noqa: BLE001  # whatever is wrong with the dead, what waits goes on
            trouble = failure
        await self._unblock()
        if trouble is not None:
            raise trouble
        return settings.heal_seconds

    async def _unblock(self) -> None:
        """Look whether something waits for what is over: a wake-up may have been lost. That is rare, and a look at very
        many takes its time; the longer it takes, the less often it is made."""
        begun = self._clock.monotonic()
        if begun < self._unblock_at:
            return
        if await self._store.runs_unblock():
            self._signals.send(Topic.RUNS)
        ended = self._clock.monotonic()
        self._unblock_at = ended + min(UNBLOCK_SHARE * (ended - begun), MAX_UNBLOCK_SECONDS)

    async def _expire(self) -> None:
        expired = await self._store.leases_expire(CRASHES_MAX)
        if not (expired.executors or expired.freed or expired.quarantined or expired.unknown):
            return
        logger.warning(
            "leases_expired",
            executors=list(expired.executors),
            freed=expired.freed,
            quarantined=[str(run) for run in expired.quarantined],
            unknown=[str(run) for run in expired.unknown],
        )
        self._telemetry.healed(
            executors=len(expired.executors),
            freed=expired.freed,
            quarantined=len(expired.quarantined),
            unknown=len(expired.unknown),
        )
        reasons = {
            "poison": len(expired.quarantined),
            EXECUTOR_LOST: len(expired.unknown) - len(expired.held),
            UNKNOWN_OUTCOME: len(expired.held),
        }
        self._telemetry.failed({reason: count for reason, count in reasons.items() if count})
        self._signals.send(Topic.RUNS)
        self._signals.send(Topic.FOLLOWS)

    async def _sweep(self) -> float:
        """Tell executors again of what has stayed queued for about one of some lengths of time."""
        if self._announcer is None:
            return MAINTAIN_SECONDS
        room, first = MAX_SWEPT, SWEPT_FIRST_SECONDS
        if not await self._store.runs_waiting(2 * SWEPT_LAST_SECONDS, first, 1):
            return SWEEP_SECONDS  # as nearly always: one look instead of one for each length of time
        while room > 0 and first <= SWEPT_LAST_SECONDS:
            waiting = await self._store.runs_waiting(first + SWEEP_SECONDS, first, room)
            if waiting:
                self._announcer.announce(waiting)
                room -= len(waiting)
            first = max(1.0, 2 * first)
        return SWEEP_SECONDS

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


def until_next_look(now: float, longest: float) -> float:
    """How long to wait, `longest` at most, at `now` of the store: for a time between whole seconds if there is one."""
    gap = 1.0 if longest >= 1.0 else 1.0 / math.ceil(1.0 / longest)
    phase = min(AFTER_SECOND, gap / 2)
    at = math.floor((now + longest - phase) / gap) * gap + phase
    return min(max(at - now, 0.0), longest)


class _Look(NamedTuple):
    """One look for timers."""

    timers: int
    now: float
    """The store's clock when it looked."""
    filled: bool
    """There may be more."""


def _stand(timer: Timer) -> tuple[UUID, float]:
    return timer.job_id, timer.pending.due


def _undecided(timer: Timer, now: float) -> Decided:
    """A timer that cannot be decided is looked at again later. It is held meanwhile, so that its time is not lost."""
    pending = timer.pending
    later = pending._replace(due=now + PARKED_SECONDS, since=pending.first_open, hold=pending.hold or Hold.CALENDAR)
    return Decided(timer, None, Fire(timer.job_id, pending.due, later, ()))


def _rezoned(timer: Timer, version: str) -> Fire:
    """Where a timer stands by the zone data of now."""
    pending = timer.pending
    try:
        pending = pending._replace(due=moved(read_plan(timer.definition, timer.job_id).schedule, pending.due))
    except Exception:
        logger.exception("timer_unmoved", job_id=str(timer.job_id), due=timer.pending.due)
    return Fire(timer.job_id, timer.pending.due, pending, (), zone_data=version)
