"""A decision becomes what the store is told: runs and skips with their names, the timer, and jobs that are parked.

        text of a job ──► read_plan ──► Reading ──► decision.decide ──► fire_of ──► Fire
                                                                          └── NamespaceFuse: too many in a minute?

Invariant: names follow from job and nominal time alone, so deciding twice is recording once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.documents.definition import Plan, decode_plan
from tickwise.domain import zones
from tickwise.domain.decision import NEVER, Decision, Firing, Hold, Overlap, Skip, SkipReason
from tickwise.domain.model import Trigger, run_id
from tickwise.domain.schedule import Schedule, ScheduleType, count_between
from tickwise.ports.identity.quotas import QuotaStore
from tickwise.ports.store import Fire, FireBatch, FireRequest, NewRun, NewSkip, Timer, TimerStore

CACHED_LENGTH: Final = 4096
"""Longer definitions are decoded anew: a cache of large payloads would cost more than it saves."""
MINUTE_SECONDS: Final = 60.0
OVER_QUOTA: Final = "the namespace has used up its runs of this day (UTC), the quota runs_per_day"
HELD_SECONDS: Final = 0.1
"""A namespace whose runs were just being counted is tried again after this. Additions hold the count for milliseconds,
the largest batch for a second."""
MAX_PUT_OFF: Final = 20_000
"""Jobs that may be left out of batches at once: the store passes over so many in some milliseconds."""
_QUEUES: Final = {Overlap.SKIP: Overlap.QUEUE_ALL, Overlap.QUEUE_ONE: Overlap.QUEUE_ALL}
"""Caught-up occurrences run one after the other, or the first would keep the others from running."""


class Reading(NamedTuple):
    """The part of a job that a scheduler reads."""

    plan: Plan
    schedule: Schedule


@dataclass(slots=True)
class Decided:
    """A timer and what it came to."""

    timer: Timer
    schedule: Schedule | None
    """None: it could not be read."""
    fire: Fire


def read_plan(definition: str, job_id: UUID) -> Reading:
    """The plan inside a definition. Cached by its text: a job's definition is the same at every fire."""
    return _kept(definition, job_id) if len(definition) <= CACHED_LENGTH else _read(definition, job_id)


def _read(definition: str, job_id: UUID) -> Reading:
    plan = decode_plan(definition)
    return Reading(plan, plan.schedule(job_id))


_kept = lru_cache(maxsize=50_000)(_read)


class TakenTimers:
    """Timers taken for a decision. Those that the block does not commit are released when it is left."""

    def __init__(self, timers: TimerStore, request: FireRequest) -> None:
        self._timers = timers
        self._request = request
        self._batch_id = 0

    async def __aenter__(self) -> FireBatch:
        batch = await self._timers.take(self._request)
        self._batch_id = batch.batch_id
        return batch

    async def __aexit__(self, *_: object) -> None:
        await self._timers.release(self._batch_id)


def fire_of(timer: Timer, reading: Reading, decision: Decision) -> Fire:
    """The records that the store makes of a decision."""
    overlap = reading.plan.overlap if reading.schedule.recurs else Overlap.ALLOW
    zone_data = None
    if reading.schedule.type is ScheduleType.CRON and reading.schedule.timezone != "UTC":
        zone_data = zones.data_version()
    return Fire(
        timer.job_id,
        timer.pending.due,
        decision.next,
        [_run(timer, firing, overlap) for firing in decision.fires],
        [_skip(timer, skip) for skip in decision.skips],
        decision.park,
        zone_data,
    )


def _run(timer: Timer, firing: Firing, overlap: Overlap) -> NewRun:
    nominal, due, catchup = firing
    name = run_id(timer.job_id, nominal) if timer.run_id is None else timer.run_id
    # By their places, which is quicker: one is made for every fire there is.
    return NewRun(
        name, due, Trigger.SCHEDULE, None, None, nominal, _QUEUES.get(overlap, overlap) if catchup else overlap
    )


def _skip(timer: Timer, skip: Skip) -> NewSkip:
    if skip.reason is SkipReason.DST:
        # Another occurrence may be at this very instant, with a name of its own.
        name = run_id(timer.job_id, skip.nominal, request=SkipReason.DST.value.encode())
    else:
        name = run_id(timer.job_id, skip.nominal) if timer.run_id is None else timer.run_id
    # One text that the store refuses would hold up the whole batch, and with it every schedule.
    sentence = skip.sentence.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return NewSkip(name, skip.nominal, skip.until, skip.occurrences, skip.reason, sentence, Trigger.SCHEDULE)


class NamespaceFuse:
    """Keeps a namespace's fires by schedule below a number a minute, all schedulers together."""

    def __init__(self, timers: TimerStore, most: int) -> None:
        """`most` 0: without limit, and without asking."""
        self._timers = timers
        self._most = most

    async def hold_down(self, decided: Sequence[Decided], now: float) -> None:
        """Count the decided fires. Of a namespace that is over the limit, the jobs that fire most often are parked
        until the others fit; what they would have run now is skipped. Jobs that fire once are never parked."""
        if not self._most:
            return
        counts = Counter(each.timer.namespace for each in decided for _ in each.fire.runs)
        if not counts:
            return
        freed: dict[str, int] = {}
        for namespace, total in (await self._timers.count(counts)).items():
            if total > self._most:
                jobs = [each for each in decided if each.timer.namespace == namespace]
                freed[namespace] = -self._pause_busiest(jobs, total - self._most, now)
        if any(freed.values()):
            await self._timers.count(freed)

    async def forget(self, decided: Sequence[Decided]) -> None:
        """Take counted fires back, because the store refused to record them."""
        counts = Counter(each.timer.namespace for each in decided for _ in each.fire.runs)
        if self._most and counts:
            await self._timers.count({namespace: -count for namespace, count in counts.items()})

    def _pause_busiest(self, decided: Sequence[Decided], excess: int, now: float) -> int:
        """The number of runs of this minute that held-back jobs leave to others: those not made, and those made
        before."""
        rated = [
            (count_between(each.schedule, now, now + MINUTE_SECONDS), len(each.fire.runs), number)
            for number, each in enumerate(decided)
            if each.schedule is not None and each.schedule.recurs and each.fire.runs and each.fire.timer is not None
        ]
        freed = 0
        for rate, count, number in sorted(rated, key=lambda job: (-job[0], -job[1], job[2])):
            if freed >= excess:
                break
            each = decided[number]
            freed += count + _made_before(each, now)
            each.fire = _parked(
                each.fire,
                f"its namespace made more than {self._most} runs by schedule in one minute (fires_per_minute_most), "
                f"and it is among those that fire most often, {rate} times a minute",
            )
        return freed


class RunQuota:
    """Keeps the fires of schedules within the quotas of runs a day, all schedulers together.

    A namespace whose runs somebody else is just counting has its timers left as they are, and left out of the next
    batches for `HELD_SECONDS`: timers of other namespaces take their places.
    """

    def __init__(self, quotas: QuotaStore) -> None:
        self._quotas = quotas
        self._waiting: dict[UUID, float] = {}
        """Jobs, and until when on the caller's monotonic clock."""

    def waiting(self, now: float) -> Sequence[UUID]:
        """Jobs whose timers are left out for now."""
        if self._waiting:
            self._waiting = {job_id: until for job_id, until in self._waiting.items() if until > now}
        return list(self._waiting)

    async def hold_down(self, batch_id: int, decided: Sequence[Decided], now: float) -> Sequence[Decided]:
        """Count the decided fires of jobs that recur; those for which a namespace has no room are skipped, the latest
        first. A job that runs once was counted when it was taken in. Returns those that are not put off."""
        counts = Counter(each.timer.namespace for each in decided if _recurs(each) for _ in each.fire.runs)
        if not counts:
            return decided
        held: set[str] = set()
        for namespace, lacking in (await self._quotas.take_runs(batch_id, counts)).items():
            if lacking is None:
                held.add(namespace)
                continue
            jobs = [each for each in decided if each.timer.namespace == namespace and _recurs(each)]
            fires = sorted((run.due, number) for number, each in enumerate(jobs) for run in each.fire.runs)
            for number, count in Counter(number for _, number in fires[len(fires) - lacking :]).items():
                jobs[number].fire = _over_quota(jobs[number].fire, count)
        if not held:
            return decided
        put_off = {each.timer.job_id for each in decided if _is_counted(each) and each.timer.namespace in held}
        if len(self._waiting) < MAX_PUT_OFF:
            self._waiting |= dict.fromkeys(put_off, now + HELD_SECONDS)
        return [each for each in decided if each.timer.job_id not in put_off]


def _is_counted(decided: Decided) -> bool:
    return _recurs(decided) and bool(decided.fire.runs)


def _recurs(decided: Decided) -> bool:
    return decided.schedule is not None and decided.schedule.recurs


def _over_quota(fire: Fire, count: int) -> Fire:
    """This fire with its latest runs, so many, as skips."""
    runs = sorted(fire.runs, key=lambda run: run.due)
    timer = fire.timer
    return fire._replace(
        timer=None if timer is None else timer._replace(fired=timer.fired - count),
        runs=runs[: len(runs) - count],
        skips=[*fire.skips, *_skips(runs[len(runs) - count :], SkipReason.QUOTA, OVER_QUOTA)],
    )


def _skips(runs: Sequence[NewRun], reason: SkipReason, error: str) -> list[NewSkip]:
    """Runs as skips, by the same names."""
    nominals = [(run, run.due if run.nominal is None else run.nominal) for run in runs]
    return [NewSkip(run.run_id, at, at, 1, reason, error, run.trigger) for run, at in nominals]


def _made_before(decided: Decided, now: float) -> int:
    """The number of runs that a job has made in this minute. Without it, one runaway job would use up the minute of
    all."""
    first = decided.fire.runs[0].nominal
    if decided.schedule is None or first is None:
        return 0
    return count_between(decided.schedule, now // MINUTE_SECONDS * MINUTE_SECONDS, first)


def _parked(fire: Fire, reason: str) -> Fire:
    """This fire without its runs, and with the job held back."""
    skips = _skips(fire.runs, SkipReason.FUSE, reason)
    timer = fire.timer
    if timer is not None:
        fired = timer.fired - len(fire.runs)
        timer = timer._replace(due=NEVER, since=timer.first_open, hold=Hold.PAUSED, fired=fired)
    return fire._replace(timer=timer, runs=[], skips=[*fire.skips, *skips], park=fire.park or reason)
