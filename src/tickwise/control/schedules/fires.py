"""The next occurrence alone: skip it, or let it run later. The schedule stays as it is.

        next that has not begun ──┬─ a run already (a scheduler plans a little ahead) ──► runs.move
                                  └─ where the timer stands, or behind what is closed ──► jobs.move

What calendars, maintenance windows and stops skip anyway is passed over: the next occurrence is the one that lists and
previews name. Those before it go on record in the same transaction, with the reason that a scheduler would give.

Invariant: an occurrence keeps its name and its nominal time, so a late scheduler finds it decided.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.control.audit.entries import entry
from tickwise.control.bodies import SkipNextBody, SnoozeBody
from tickwise.control.context import ControlContext
from tickwise.control.jobs.links import RACES_MAX
from tickwise.control.jobs.moves import CHANGED_TOO_OFTEN
from tickwise.control.jobs.planning import zone_data
from tickwise.control.jobs.replans import check_recurring, skipped, was_paused
from tickwise.control.rules import ruled, rules_for
from tickwise.control.texts import clean_reason
from tickwise.control.times import instant, instant_within, written
from tickwise.control.wakeups import wake_all
from tickwise.documents.definition import Plan, decode_definition
from tickwise.domain import schedule as schedules
from tickwise.domain.audit import AuditAction, AuditEntry
from tickwise.domain.calendar.rules import Closed, Otherwise
from tickwise.domain.decision import Hold, SkipReason, TimerState, spread
from tickwise.domain.errors import Bug, Busy, Conflict, Invalid, VersionConflict
from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.domain.model import Principal, Trigger, run_id
from tickwise.domain.schedule import Schedule
from tickwise.ports.store import (
    NO_TEXT,
    JobRow,
    NewRun,
    NewSkip,
    OccurrenceMove,
    RunPostpone,
    RunQuery,
    RunRow,
    RunSkip,
)

SNOOZE_MAX_SECONDS: Final = 366 * 86_400.0
MAX_PASSED: Final = 100
"""Closed stretches that are passed over in search of the next occurrence, such as the days of a year's weekends."""
MAX_AHEAD: Final = 500
"""Runs that are made ahead of their time and looked through: a scheduler makes far fewer."""


class Moved(NamedTuple):
    """The result for one occurrence."""

    run_id: UUID
    nominal: float
    due: float | None
    """The time at which it runs; None: it does not."""
    state: RunState
    """SKIPPED or QUEUED; DISPATCHED: an executor holds it and was asked to give it up."""


class _Next(NamedTuple):
    """The next occurrence that has not begun: where the timer stands, or a run."""

    row: JobRow
    plan: Plan
    schedule: Schedule
    timer: TimerState
    """The position of the schedule, behind what is passed over."""
    nominal: float
    run: RunRow | None = None
    passed: tuple[NewSkip, ...] = ()
    """The records of closed occurrences before it."""


class NextOccurrence:
    """Skips the next occurrence of a job, or lets it run later."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    async def skip_next(self, who: Principal, job_id: UUID, body: SkipNextBody) -> Moved:
        """The next occurrence does not run. Raises `NotFound`; `Conflict` if there is none that can be skipped."""
        clean_reason(body.reason, "/reason")
        said = f"skipped by {who.name}" + (f": {body.reason}" if body.reason else "")
        for _ in range(RACES_MAX):
            found = await self._next(who, job_id, "skipped", body.occurrence)
            if found.run is not None:
                return await self._skip_run(who, found.run, said)
            move, moved = _skip(found, said)
            if await self._is_moved(move, _audited(who, job_id, moved)):
                return moved
        raise Busy(CHANGED_TOO_OFTEN)

    async def snooze(self, who: Principal, job_id: UUID, body: SnoozeBody) -> Moved:
        """The next occurrence runs at another time. Raises `NotFound`, `Invalid`; `Conflict` if there is none that can
        be moved."""
        until = instant_within(body.until, "/until")
        for _ in range(RACES_MAX):
            found = await self._next(who, job_id, "snoozed", body.occurrence)
            _check_until(until, found, await self._context.time.now())
            if found.run is not None:
                return await self._postpone_run(who, found.run, until)
            move, moved = _snooze(found, until)
            if await self._is_moved(move, _audited(who, job_id, moved)):
                return moved
        raise Busy(CHANGED_TOO_OFTEN)

    async def _next(self, who: Principal, job_id: UUID, done: str, expected: datetime | None) -> _Next:
        row = await self._awake(who, job_id, done)
        plan = decode_definition(row.definition)
        found = _timers_next(row, plan)
        run = await self._made_ahead(row)
        if run is not None and (found is None or run.due_at <= found.nominal + spread(found.schedule, found.nominal)):
            found = _Next(row, plan, plan.schedule(job_id), row.timer or TimerState(run.due_at), run.nominal_at, run)
        if found is None:
            raise Conflict("its schedule names no further time, so nothing comes next", code="no_occurrence")
        wanted = None if expected is None else round(instant(expected), 6)
        if found.run is None:
            found = await self._behind_closed(found, wanted)
        if wanted is not None and wanted != round(found.nominal, 6):
            raise Conflict(
                f"the next occurrence is that of {written(found.nominal)}; send that time, or leave occurrence out",
                pointer="/occurrence",
                code="occurrence_not_next",
            )
        return found

    async def _awake(self, who: Principal, job_id: UUID, done: str) -> JobRow:
        """The job, as a scheduler would have it by now: what fell into a pause that is over is on record."""
        for _ in range(RACES_MAX):
            row = await self._context.job(who, job_id)
            plan = decode_definition(row.definition)
            check_recurring(row, plan, done)
            if row.status is JobStatus.PAUSED:
                raise Conflict("the job is paused, so nothing comes next; resume it first", code="job_paused")
            if row.timer is None or row.timer.hold is not Hold.PAUSED:
                return row
            await self._is_moved(_wake(row, plan, row.timer))
        raise Busy(CHANGED_TOO_OFTEN)

    async def _made_ahead(self, row: JobRow) -> RunRow | None:
        """The earliest run by schedule that is yet to come; schedulers make them a moment before."""
        now = await self._context.time.now()
        runs = await self._context.store.searches.runs(
            RunQuery(
                namespace=row.namespace,
                job_id=row.job_id,
                states=(RunState.QUEUED, RunState.DISPATCHED),
                triggers=(Trigger.SCHEDULE,),
                due_after=schedules.just_after(now),
                limit=MAX_AHEAD,
                texts=NO_TEXT,
            )
        )
        unbegun = [run for run in runs if run.started_at is None and not run.blocked]
        return min(unbegun, key=lambda run: (run.due_at, run.run_id), default=None)

    async def _behind_closed(self, found: _Next, wanted: float | None) -> _Next:
        """The first occurrence that runs unless it is moved. Raises `Conflict` if none is found, and if the `wanted`
        one is closed."""
        rules = await rules_for(self._context, ruled(found.row), found.plan.calendars)
        if rules is None:
            return found
        refusal = None
        for _ in range(MAX_PASSED):
            closed = rules.verdict(found.nominal)
            if not isinstance(closed, Closed) or closed.otherwise is not Otherwise.SKIP:
                return found
            refusal = refusal or Conflict(
                f"the next occurrence, that of {written(found.nominal)}, will not run anyway: {closed.sentence}",
                code="occurrence_closed",
            )
            # What nothing opens for in years is as good as over.
            behind = None if closed.opens is None else _behind(found, closed)
            if behind is None:
                raise refusal
            if wanted is not None and round(found.nominal, 6) <= wanted < round(behind.nominal, 6):
                raise refusal
            found = behind
        raise refusal or Bug("no occurrence was judged")

    async def _skip_run(self, who: Principal, run: RunRow, said: str) -> Moved:
        audit = entry(who, AuditAction.RUN_SKIPPED, "run", run.run_id, detail={"job_id": str(run.job_id)})
        state = await self._context.surely(
            lambda: self._context.store.runs.move(RunSkip(run.namespace, run.run_id, said), audit=audit)
        )
        if state not in (RunState.SKIPPED, RunState.DISPATCHED):
            raise Conflict(f"its run has begun meanwhile, it is {state}; cancel that", code="occurrence_begun")
        wake_all(self._context)
        return Moved(run.run_id, run.nominal_at, None, state)

    async def _postpone_run(self, who: Principal, run: RunRow, until: float) -> Moved:
        move = RunPostpone(run.namespace, run.run_id, until)
        try:
            detail = {"job_id": str(run.job_id), "until": until}
            audit = entry(who, AuditAction.RUN_POSTPONED, "run", run.run_id, detail=detail)
            await self._context.surely(lambda: self._context.store.runs.move(move, audit=audit))
        except Conflict as refused:
            raise Conflict(
                f"the run of {written(run.nominal_at)} is in the hands of an executor already, or has begun; wait a "
                "moment and send the same again to snooze the next one",
                code="occurrence_begun",
            ) from refused
        wake_all(self._context)
        return Moved(run.run_id, run.nominal_at, until, RunState.QUEUED)

    async def _is_moved(self, move: OccurrenceMove, audit: AuditEntry | None = None) -> bool:
        """False: the timer is not where the move was made for."""
        try:
            await self._context.surely(lambda: self._context.store.jobs.move(move, audit=audit))
        except VersionConflict:
            # Or it was made, the answer was lost, and a scheduler moved the timer on since: another occurrence is not
            # meant.
            if not await self._is_on_record(move):
                return False
        wake_all(self._context)
        return True

    async def _is_on_record(self, move: OccurrenceMove) -> bool:
        made = move.skip if move.run is None else move.run
        row = None if made is None else await self._context.store.runs.get(move.namespace, made.run_id)
        if row is None:
            return False
        if move.run is not None:
            return round(row.due_at, 6) == round(move.run.due, 6)
        return move.skip is not None and (row.reason, row.error) == (move.skip.reason, move.skip.error)


def _audited(who: Principal, job_id: UUID, moved: Moved) -> AuditEntry:
    detail = {"run_id": str(moved.run_id), "nominal": moved.nominal, "due": moved.due}
    return entry(who, AuditAction.OCCURRENCE_MOVED, "job", job_id, detail=detail)


def _timers_next(row: JobRow, plan: Plan) -> _Next | None:
    timer = row.timer
    if timer is None:
        return None
    nominal = timer.due if timer.since is None else timer.since
    return _Next(row, plan, plan.schedule(row.job_id), timer, nominal)


def _behind(found: _Next, closed: Closed) -> _Next | None:
    """The first occurrence behind those that this closes, with their record; None: the schedule names no further."""
    following = schedules.first_fire(found.schedule, closed.until)
    if following is None:
        return None
    last = schedules.just_before(closed.until)
    job_id, reason = found.row.job_id, SkipReason(closed.reason)
    records = skipped(found.schedule, job_id, found.nominal, last, reason, closed.sentence)
    timer = found.timer._replace(due=following, since=None, hold=None)
    return found._replace(timer=timer, nominal=following, passed=(*found.passed, *records))


def _wake(row: JobRow, plan: Plan, timer: TimerState) -> OccurrenceMove:
    """The end of a pause by itself."""
    schedule = plan.schedule(row.job_id)
    since = timer.due if timer.since is None else timer.since
    fell = skipped(schedule, row.job_id, since, schedules.just_before(timer.due), SkipReason.PAUSED, was_paused(row))
    following = schedules.first_fire(schedule, max(since, timer.due))
    return OccurrenceMove(
        namespace=row.namespace,
        job_id=row.job_id,
        expected=timer,
        timer=None if following is None else timer._replace(due=following, since=None, hold=None),
        skip=fell[0] if fell else None,
        zone_data=zone_data(plan),
    )


def _check_until(until: float, found: _Next, now: float) -> None:
    held_until = found.timer.due if found.run is None and found.timer.hold is not None else found.nominal
    if until <= max(found.nominal, held_until, now):
        raise Invalid(
            f"until must come after now and after the time at which it would run, {written(held_until)}; give a later "
            "time",
            pointer="/until",
        )
    if until > found.nominal + SNOOZE_MAX_SECONDS:
        raise Invalid(
            f"until is more than 366 days after the occurrence, {written(found.nominal)}; give an earlier time",
            pointer="/until",
        )


def _skip(found: _Next, said: str) -> tuple[OccurrenceMove, Moved]:
    """With a hold, all that is held back would have become one run: it is skipped together."""
    timer, schedule, job_id = found.timer, found.schedule, found.row.job_id
    held = timer.hold is not None
    last = max(found.nominal, schedules.just_before(timer.due)) if held else found.nominal
    (skip,) = skipped(schedule, job_id, found.nominal, last, SkipReason.REQUESTED, said)
    following = schedules.first_fire(schedule, max(timer.due, schedules.just_after(last)))
    after = None if following is None else timer._replace(due=following, since=None, hold=None)
    move = OccurrenceMove(
        namespace=found.row.namespace,
        job_id=job_id,
        expected=found.row.timer or timer,
        timer=after,
        skip=skip,
        passed=found.passed,
        zone_data=zone_data(found.plan),
    )
    return move, Moved(skip.run_id, found.nominal, None, RunState.SKIPPED)


def _snooze(found: _Next, until: float) -> tuple[OccurrenceMove, Moved]:
    """Turn the occurrence into a run at `until`, which no change of a calendar moves to an earlier time. With a hold,
    the held occurrences would have become one run, and the snooze makes that run."""
    timer, schedule, row = found.timer, found.schedule, found.row
    name = run_id(row.job_id, found.nominal)
    following, merged = schedules.next_fire(schedule, found.nominal), list[NewSkip]()
    if timer.hold is not None and following is not None:
        last = schedules.just_before(timer.due)
        said = f"held back together with that of {written(found.nominal)}, which was snoozed and runs for all"
        merged = skipped(schedule, row.job_id, following, last, SkipReason(timer.hold), said)
        following = schedules.first_fire(schedule, max(timer.due, following))
    fired = timer.fired + 1
    is_over = following is None or (schedule.max_runs is not None and fired >= schedule.max_runs)
    after = None if is_over or following is None else timer._replace(due=following, since=None, hold=None, fired=fired)
    move = OccurrenceMove(
        namespace=row.namespace,
        job_id=row.job_id,
        expected=row.timer or timer,
        timer=after,
        run=NewRun(name, until, Trigger.SCHEDULE, nominal=found.nominal, overlap=found.plan.overlap),
        skip=merged[0] if merged else None,
        passed=found.passed,
        zone_data=zone_data(found.plan),
    )
    return move, Moved(name, found.nominal, until, RunState.QUEUED)
