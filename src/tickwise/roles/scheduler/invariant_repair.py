"""Walks of the named invariants, page by page, and repair of the violations that can be repaired.

    for each Check:  violations(after) ──► found? ──► heal · plan anew · ring ──► what is left: the metric, an alarm
                          ▲────── next page ──────┘

A slot that changes hands is free for a moment: what passes by itself is looked at twice. A run that no active executor
can take waits for one, and is told of once, not as a violation.

Any scheduler may do it, all of them at once. Invariants: what cannot be put right, or not even looked at, holds up
neither the next page nor the next invariant; and a pass never takes more than a hundredth of the time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from uuid import UUID

import structlog

from tickwise.domain import schedule as schedules
from tickwise.domain.decision import TimerState
from tickwise.domain.errors import Unavailable
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.model import Lane, Trigger
from tickwise.domain.rules.confinement import Isolation, is_below
from tickwise.domain.schedule import Schedule
from tickwise.ports.clock import Clock
from tickwise.ports.signals import Signals, Topic
from tickwise.ports.store import NO_TEXT, Check, ExecutorRow, JobRow, RunQuery, Store, Violation
from tickwise.roles.scheduler.fires import read_plan
from tickwise.roles.shared.health import InvariantPass
from tickwise.roles.shared.served_queues import unserved_lane, waits_for_capacity
from tickwise.roles.shared.service import Telemetry

PAGE: Final = 500
"""Subjects of an invariant looked at in one statement: some milliseconds of the store's time."""
SHARE: Final = 100.0
"""A pass is followed by a pause of so many times its length, so that it takes 1 % of one core at most."""
PAUSE_JITTER: Final = 0.2
"""Of the pause, drawn on top, so that many schedulers do not look at the same moments."""
MAX_LOGGED: Final = 1_000
"""Violations of one invariant that are told of in one pass, one by one; of the others only the number is."""
TOLD_AGAIN_SECONDS: Final = 3_600.0
"""A violation that stays is told of again after this."""
MAX_TOLD: Final = 100_000
PASSING: Final = frozenset({Check.WAITS_FOR_SOMETHING})
"""Checks that may fail for a moment, between the end of a run and the next sweep."""
PASSING_SECONDS: Final = 3.0
"""A violation that lasts longer does not pass by itself: some sweeps lie in between."""
OVER_SECONDS: Final = 86_400.0
"""A job whose schedule is over is looked at again after this. An edit that makes it go on gives it a timer itself."""
MAX_OVER: Final = 200_000
MAX_RANGES: Final = 20
"""The number of last records of a job that are searched for the one that reaches furthest."""

CURED_BY_STORE: Final = frozenset(
    (
        Check.ENDED_ONCE,
        Check.HELD_BY_ACTIVE,
        Check.WAITS_FOR_SOMETHING,
        Check.HEARD_IN_TIME,
        Check.HELD_AS_TOLD,
    )
)
BELLS: Final = MappingProxyType(
    {
        Check.CLAIMED_IN_TIME: Topic.RUNS,
        Check.WAITS_FOR_SOMETHING: Topic.RUNS,
        Check.HELD_BY_ACTIVE: Topic.RUNS,
        Check.FIRED_IN_TIME: Topic.TIMERS,
        Check.PLANNED: Topic.TIMERS,
        Check.FOLLOWED_IN_TIME: Topic.COMPLETIONS,
        Check.HEARD_IN_TIME: Topic.CANCELS,
        Check.HELD_AS_TOLD: Topic.CANCELS,
        Check.STEPPED_IN_TIME: Topic.OPERATIONS,
    }
)
"""The roles that could act on it are woken: perhaps the signal was lost."""

logger = structlog.get_logger("tickwise.scheduler")


@dataclass(slots=True)
class WalkTally:
    """The result of one walk."""

    found: int = 0
    mended: int = 0
    told: int = 0


class Healing:
    """One scheduler's part in it."""

    def __init__(
        self,
        store: Store,
        *,
        signals: Signals,
        clock: Clock,
        telemetry: Telemetry,
        pause_seconds: float = 60.0,
        kept_seconds: float = 30 * 86_400.0,
    ) -> None:
        """At least `pause_seconds` lie between two passes. Records of runs are kept for `kept_seconds`: what an older
        occurrence came to cannot be known."""
        self._store = store
        self._signals = signals
        self._clock = clock
        self._telemetry = telemetry
        self._pause_seconds = pause_seconds
        self._kept_seconds = kept_seconds
        self._waited = False
        self.last_pass: InvariantPass | None = None
        """The last pass that came to its end."""
        self._over: dict[UUID, float] = {}
        """Jobs whose schedules are over, and until when that is believed."""
        self._told: dict[tuple[Check, UUID | str], float] = {}
        """The reported violations, and until when they need no new report."""

    async def step(self) -> float:
        """One pass, but for the first time, which only waits; how long to pause then."""
        if not self._waited:
            self._waited = True
            return self._pause_seconds * self._clock.chance()
        begun = self._clock.monotonic()
        await self.look()
        took = self._clock.monotonic() - begun
        pause = max(self._pause_seconds, SHARE * took)
        return pause * (1.0 + PAUSE_JITTER * self._clock.chance())

    async def look(self) -> None:
        """Walk every invariant, and put right what can be."""
        now = self._clock.monotonic()
        self._over = {job: until for job, until in self._over.items() if until > now}
        self._told = {name: until for name, until in self._told.items() if until > now}
        violated = unchecked = 0
        for check in Check:
            try:
                tally = await self._walk(check)
            except Unavailable:
                raise
            except Exception:
                logger.exception("invariant_unchecked", invariant=check.value)
                self._telemetry.violated(check.value, None)
                unchecked += 1
                continue
            if tally.mended:
                self._telemetry.mended(check.value, tally.mended)
            self._telemetry.violated(check.value, tally.found - tally.mended)
            violated += tally.found - tally.mended
            if tally.found > tally.told:
                logger.warning("invariant_violations_untold", invariant=check.value, count=tally.found - tally.told)
        self.last_pass = InvariantPass(await self._store.now(), violated, unchecked)

    async def _walk(self, check: Check) -> WalkTally:
        tally = WalkTally()
        lasting: frozenset[UUID] | None = None
        if check in PASSING:
            lasting = await self._found(check)
            if not lasting:
                return tally
            await self._clock.sleep(PASSING_SECONDS)

        async def heal(found: Sequence[Violation]) -> None:
            if lasting is not None:
                found = [each for each in found if each.subject in lasting]
            if found:
                await self._see_to(check, found, tally)

        await self._each_page(check, heal)
        return tally

    async def _found(self, check: Check) -> frozenset[UUID]:
        """The subjects of all violations of an invariant."""
        subjects: set[UUID] = set()

        async def add(found: Sequence[Violation]) -> None:
            subjects.update(violation.subject for violation in found)

        await self._each_page(check, add)
        return frozenset(subjects)

    async def _each_page(self, check: Check, visit: Callable[[Sequence[Violation]], Awaitable[None]]) -> None:
        """Call `visit` with the violations of each page of an invariant."""
        after: UUID | None = None
        while True:
            page = await self._store.checks.violations(check, after=after, limit=PAGE)
            await visit(page.found)
            after = page.last
            if after is None:
                return

    async def _see_to(self, check: Check, found: Sequence[Violation], tally: WalkTally) -> None:
        if check is Check.PLANNED:
            found = [violation for violation in found if violation.subject not in self._over]
        elif check is Check.CLAIMED_IN_TIME:
            found = await self._claimable(found)
        mended: int = 0
        wrong = found
        try:
            if check is Check.PLANNED:
                wrong, mended = await self._plan_anew(found)
            elif check in CURED_BY_STORE:
                mended = await self._store.checks.heal(check, found)
        except Unavailable:
            raise
        except Exception:
            logger.exception("invariant_unhealed", invariant=check.value, count=len(found))
        if not wrong:
            return
        tally.found += len(wrong)
        tally.mended += mended
        self._log_violations(check, wrong, mended, tally)
        if check in BELLS:
            self._signals.send(BELLS[check])

    def _log_violations(self, check: Check, found: Sequence[Violation], mended: int, tally: WalkTally) -> None:
        new = [violation for violation in found if self._is_news(check, violation.subject)]
        tally.told += len(found) - len(new)
        told = new[: max(0, MAX_LOGGED - tally.told)]
        if told:
            tally.told += len(told)
            logger.error(
                "invariant_violated",
                invariant=check.value,
                count=len(found),
                healed=mended,
                subjects=[str(violation.subject) for violation in told],
                detail=told[0].detail,
            )

    def _is_news(self, check: Check, subject: UUID | str) -> bool:
        """Check whether the violation was not reported lately, and note it as reported."""
        if (check, subject) in self._told:
            return False
        if len(self._told) < MAX_TOLD:
            self._told[check, subject] = self._clock.monotonic() + TOLD_AGAIN_SECONDS
        return True

    # ------------------------------------------------------------------------------------------ runs nobody takes

    async def _claimable(self, found: Sequence[Violation]) -> Sequence[Violation]:
        """The runs that an active executor could take; the others wait for such an executor, and are reported once. All
        runs if no executor is active."""
        now = await self._store.now()
        rows = await self._store.executors.all()
        active = [row for row in rows if row.gone_at is None and row.lease_until > now]
        if not active:
            return found
        claimable: list[Violation] = []
        missing: dict[tuple[Lane | None, str], str | None] = {}
        for violation in found:
            lane, namespace = violation.lane, violation.namespace or ""
            place = lane, namespace
            if place not in missing:
                missing[place] = None if lane is None else unserved_lane(lane, active, namespace)
            why = missing[place]
            if why is None and lane is not None and await self._waits(lane, active, namespace):
                continue
            if why is None:
                claimable.append(violation)
            elif self._is_news(Check.CLAIMED_IN_TIME, f"{violation.namespace} {why}"):
                run_id = str(violation.subject)
                logger.warning("runs_unserved", namespace=violation.namespace, detail=why, run_id=run_id)
        return claimable

    async def _waits(self, lane: Lane, active: Sequence[ExecutorRow], namespace: str) -> bool:
        """Check whether runs of a lane wait for a counted capacity, or are below the least isolation of their
        namespace."""
        if waits_for_capacity(lane, active, namespace):
            return True
        if not is_below(lane.requires, Isolation.CONTAINER):
            return False
        row = await self._store.namespaces.get(namespace)
        return row is not None and is_below(lane.requires, row.quotas.least_isolation)

    # ------------------------------------------------------------------------------------------ jobs without a timer

    async def _plan_anew(self, found: Sequence[Violation]) -> tuple[Sequence[Violation], int]:
        """The jobs among these that should have a timer, and how many have one now."""
        wrong: list[Violation] = []
        mended = 0
        for violation in found:
            try:
                planned = await self._plan_one(violation)
            except Unavailable:
                raise
            except Exception:
                logger.exception("job_unplannable", job_id=str(violation.subject))
                planned = False
            if planned is not None:
                wrong.append(violation)
                mended += planned
        return wrong, mended

    async def _plan_one(self, violation: Violation) -> bool | None:
        """Give a job without a timer its timer; True if it has one now, None if it needs none."""
        assert violation.namespace is not None  # the port says so
        job = await self._store.jobs.get(violation.namespace, violation.subject)
        if job is None or job.timer is not None or job.status in (JobStatus.PAUSED, JobStatus.CANCELLED):
            return None
        timer = await self._timer_of(job)
        if timer is None:
            if len(self._over) < MAX_OVER:
                self._over[job.job_id] = self._clock.monotonic() + OVER_SECONDS
            return None
        return await self._store.timers.restore(job.namespace, job.job_id, timer, expected_version=job.version)

    async def _timer_of(self, job: JobRow) -> TimerState | None:
        """The position of a job's schedule by its record; None: it is over."""
        reading = read_plan(job.definition, job.job_id)
        # Runs that were made up for after a pause are on record too, with their own trigger.
        by_schedule = (Trigger.SCHEDULE, Trigger.MISSED)
        # One record of many that were skipped may reach further than a later one that a schedule before it left.
        query = RunQuery(
            namespace=job.namespace, job_id=job.job_id, triggers=by_schedule, limit=MAX_RANGES, texts=NO_TEXT
        )
        newest = await self._store.searches.runs(query)
        last = max((row.nominal_at if row.until is None else row.until for row in newest), default=None)
        planned_at = job.created_at if reading.plan.planned_at is None else reading.plan.planned_at
        since = max(planned_at, await self._store.now() - self._kept_seconds)
        return timer_after(reading.schedule, last, since)


def timer_after(schedule: Schedule, last: float | None, since: float) -> TimerState | None:
    """The timer of a schedule of which everything up to `last` (None: nothing) is on record, and nothing before `since`
    is owed. Times that have passed meanwhile are decided when it fires, as after any downtime.

    A schedule that counts its runs and has no timer has come to their end: the count went with the timer, and one run
    too many would be worse than none.
    """
    if not schedule.recurs or schedule.max_runs is not None:
        return None
    # The time of planning is no occurrence, here as at the planning: an interval would begin with one run too many.
    start = schedules.just_after(since if last is None else max(since, last))
    due = schedules.first_fire(schedule, start)
    return None if due is None else TimerState(due)
