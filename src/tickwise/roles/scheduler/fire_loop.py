"""Turns the timers that are due within the horizon into runs.

    look ──► one-time timers that need no decision: runs, in one statement
       └───► all other timers: taken (row locks) ──► decided ──► committed: runs, skips, and the timers moved on
                                                        └── refused together: one by one, and the culprit is put off

Invariants: two schedulers may decide the same timer, and it is recorded once; a job that cannot be decided or recorded
holds up no other job.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

import structlog

from tickwise.documents.rulebook import Rulebook, RuledJob
from tickwise.domain.decision import Hold, decide
from tickwise.domain.errors import Bug, Invalid, Unavailable
from tickwise.observability.tracing import Tracer
from tickwise.ports.clock import Clock
from tickwise.ports.signals import Signals, Topic
from tickwise.ports.store import Fire, FireBatch, FireRequest, Ready, Store, Timer
from tickwise.roles.scheduler.fire_spans import FireSpans
from tickwise.roles.scheduler.fires import (
    HELD_SECONDS,
    Decided,
    NamespaceFuse,
    RunQuota,
    TakenTimers,
    fire_of,
    read_plan,
)
from tickwise.roles.scheduler.outage_record import Presence
from tickwise.roles.scheduler.rule_budget import RuleShare
from tickwise.roles.shared.hint_publisher import HintPublisher
from tickwise.roles.shared.service import Telemetry

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
"""The time after a whole second at which a look begins, or in the midst of a shorter time from one look to the next:
cron lines name whole seconds, and while executors begin what is due then, schedulers leave them the machine."""
AFTER_WINDOW_SECONDS: Final = 60.0
"""The time after a maintenance window for which the occurrences that it held back are still decided."""
FIRE_GAP_SECONDS: Final = 0.02
"""Between two looks for timers that did not fill."""

logger = structlog.get_logger("tickwise.scheduler")


class FireLoop:
    """Fires the timers for one scheduler."""

    def __init__(
        self,
        *,
        store: Store,
        signals: Signals,
        clock: Clock,
        telemetry: Telemetry,
        rulebook: Rulebook,
        presence: Presence,
        batches: asyncio.Lock,
        horizon_seconds: float,
        batch: int,
        fires_per_minute_most: int,
        hint_publisher: HintPublisher | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        """`batches` is held while a batch of timers is taken: a client has one batch at a time. `tracer` says which
        runs are recorded."""
        self.looked_at: float | None = None
        """The store's time of the last look for timers."""
        self._store = store
        self._signals = signals
        self._clock = clock
        self._telemetry = telemetry
        self._rulebook = rulebook
        self._presence = presence
        self._batches = batches
        self._horizon_seconds = horizon_seconds
        self._batch = batch
        self._hint_publisher = hint_publisher
        self._spans = None if tracer is None else FireSpans(tracer)
        self._share = RuleShare()
        self._fuse = NamespaceFuse(store.timers, fires_per_minute_most)
        self._quota = RunQuota(store.quotas)
        self._singly = 0
        """The number of timers yet to be recorded one by one, since the store refused them together."""
        self._refused: set[tuple[UUID, float]] = set()
        """Jobs whose fires the store refused by themselves, and where their timers stood: they are put off."""

    async def step(self) -> float:
        """One look for timers. Returns the seconds until the next."""
        try:
            await self._presence.look()
            look = await self._look()
            self.looked_at = look.now
        except Unavailable:
            self._presence.looked_in_vain()
            raise
        if look.filled:
            return 0.0
        # A pause, so that a ring for each submit does not become a look for each submit.
        await self._clock.sleep(FIRE_GAP_SECONDS)
        if look.held:
            return HELD_SECONDS
        return until_next_look(look.now + FIRE_GAP_SECONDS, self._horizon_seconds / LOOKS_PER_HORIZON)

    async def fire_due(self) -> int:
        """One look for timers within the horizon; how many it decided."""
        return (await self._look()).timers

    async def _look(self) -> _Look:
        book = self._rulebook
        if book.version is None:
            await book.load()
        # While a window or a stop may concern them, one-time jobs need a decision too, and are not fired in one
        # statement.
        once = False
        if book.has_windows():
            begin = await self._store.now() - AFTER_WINDOW_SECONDS
            once = book.near(begin, AFTER_WINDOW_SECONDS + self._horizon_seconds)
        fired = 0 if once else await self._fire_once()
        made, look = await self._decide_batch(once=once)
        if fired or made:
            self._telemetry.fired(fired + made)
            self._signals.send(Topic.RUNS)
        return look._replace(timers=fired + look.timers, filled=look.filled or fired >= self._batch)

    async def _fire_once(self) -> int:
        """One-time jobs that need no decision become runs; how many."""
        spans = self._spans
        if spans is not None:
            spans.begin()
        is_named = self._hint_publisher is not None or spans is not None
        fired = await self._store.timers.fire(
            self._horizon_seconds, self._batch, named=is_named, traced=spans is not None
        )
        if spans is not None:
            spans.fired(fired)
        if self._hint_publisher is not None:
            self._hint_publisher.publish(fired.ready)
        return fired.timers

    async def _decide_batch(self, *, once: bool) -> tuple[int, _Look]:
        """Decide the near timers; the number of new runs, and the look."""
        most = 1 if self._singly else self._batch
        if self._spans is not None:
            self._spans.begin()
        began = self._clock.monotonic()
        request = FireRequest(
            horizon_seconds=self._horizon_seconds,
            limit=most,
            once=once,
            without=[*self._share.waiting(began), *self._quota.waiting(began)],
        )
        while True:
            async with self._batches, TakenTimers(self._store.timers, request) as taken:
                # Asked before anything else: whether one-time jobs need a decision follows from the rules too.
                if taken.rules_version == self._rulebook.version:
                    if not taken.timers:
                        self._singly = 0
                        return 0, _Look(0, now=taken.now, filled=False)
                    decided, seen = self._decide_some(taken)
                    try:
                        made, recorded = await self._record(taken, decided) if decided else (0, 0)
                    except (Invalid, Bug) as wrong:
                        self._is_refused(decided, wrong)
                        return 0, _Look(0, now=taken.now, filled=True)
                    filled = len(taken.timers) >= most or seen < len(taken.timers)
                    held = recorded < len(decided)
                    return made, _Look(recorded, now=taken.now, filled=filled, held=held)
            # A calendar or a window was changed: decide the taken timers by the present rules.
            await self._rulebook.load()

    async def _record(self, taken: FireBatch, found: Sequence[Decided]) -> tuple[int, int]:
        """Record the decisions, but for those that are put off. Returns the number of new runs, and of decisions
        recorded."""
        await self._fuse.hold_down(found, taken.now)
        decided = await self._quota.hold_down(taken.batch_id, found, self._clock.monotonic())
        if len(decided) < len(found):
            kept = {each.timer.job_id for each in decided}
            await self._fuse.forget([each for each in found if each.timer.job_id not in kept])
        try:
            made = await self._store.timers.commit(taken.batch_id, [each.fire for each in decided])
        except (Invalid, Bug):
            await self._fuse.forget(decided)
            raise
        if self._spans is not None:
            self._spans.decided(decided)
        if self._refused:
            self._refused.difference_update(_stand(each.timer) for each in decided)
        self._singly = max(0, self._singly - len(decided))
        if self._hint_publisher is not None:
            # Those of a timer that was changed meanwhile were not made. A claim of them finds nothing.
            self._hint_publisher.publish(
                [
                    Ready(run.run_id, run.due, each.timer.lane, each.timer.namespace)
                    for each in decided
                    for run in each.fire.runs
                ]
            )
        self._count_decided(decided)
        return made, len(decided)

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
            job = RuledJob(timer.job_id, timer.namespace, timer.lane.queue, timer.labels or {})
            rules = self._rulebook.rules(job, reading.plan.calendars)
            # A one-time job has one occurrence, which costs little, and needs a decision only while a window or a stop
            # is near.
            may_wait = rules is not None and reading.schedule.recurs
            if may_wait and self._share.must_wait(timer.job_id, timer.namespace, self._clock.monotonic()):
                return None
            decision = decide(
                reading.schedule,
                timer.pending,
                now=now,
                until=now + self._horizon_seconds,
                rules=rules,
                limit=DECISION_LIMIT,
            )
            if rules is not None:
                self._share.spend(timer.namespace, rules.take_spent(), self._clock.monotonic())
        except Exception:
            logger.exception("schedule_undecidable", job_id=str(timer.job_id), due=timer.pending.due)
            return _undecided(timer, now)
        return Decided(timer, reading.schedule, fire_of(timer, reading, decision))

    def _count_decided(self, decided: Sequence[Decided]) -> None:
        """Count the skips, and log the parked jobs."""
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


def until_next_look(now: float, longest: float) -> float:
    """The time to wait from `now` of the store, `longest` at most: for a time between whole seconds if there is one."""
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
    held: bool = False
    """Timers were put off, because the runs of their namespace were just being counted."""


def _stand(timer: Timer) -> tuple[UUID, float]:
    return timer.job_id, timer.pending.due


def _undecided(timer: Timer, now: float) -> Decided:
    """A timer that cannot be decided is looked at again later. It is held meanwhile, so that its time is not lost."""
    pending = timer.pending
    later = pending._replace(due=now + PARKED_SECONDS, since=pending.first_open, hold=pending.hold or Hold.CALENDAR)
    return Decided(timer, None, Fire(timer.job_id, pending.due, later, ()))
