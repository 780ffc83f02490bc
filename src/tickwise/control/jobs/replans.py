"""The new plan of a job: after its schedule was changed, or after it was paused and resumed.

        the timer as it stands ──┬─ what it owes: occurrences that passed and are on no record ──► skips, or runs
                                 └─ what comes now: the first occurrence after now ──────────────► the next timer

Pure. Invariants: no change makes a run of the past; an occurrence that passed and has no record yet gets one, with the
reason; a paused job stays paused at each change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.control.bodies import OCCURRENCES_MAX, MissedMode, PauseBody, ResumeBody
from tickwise.control.jobs.planning import RECURRING, Replanned, is_decided, zone_data
from tickwise.control.times import instant_within, written
from tickwise.documents.definition import Plan
from tickwise.domain import schedule as schedules
from tickwise.domain.calendar.rules import Closed, ScheduleRules
from tickwise.domain.decision import NEVER, PAUSED_SENTENCE, Hold, SkipReason, TimerState
from tickwise.domain.errors import Conflict, Invalid
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.model import Trigger, run_id
from tickwise.domain.pauses import pause_in_words
from tickwise.domain.schedule import Schedule, ScheduleType
from tickwise.ports.store import JobAction, JobMove, JobRow, NewRun, NewSkip, Replan

KEPT_AHEAD_SECONDS: Final = 30.0
"""Runs that are made already, for fires of the old plan that the new one has too, are looked for this far ahead:
well beyond any horizon of a scheduler."""
KEPT_MAX: Final = 64
MAX_CLOSED: Final = 64
"""The most closed occurrences that are passed over in search of those of a pause that may run."""
CHANGED: Final = "the schedule was changed before they could run"


class Ahead(NamedTuple):
    """Coming times with a record. A new schedule that also names such a time leaves the record as it is, and its timer
    begins after these times: a timer before one could make a record whose name is in use."""

    skipped: Collection[tuple[float, float]] = ()
    """The first and the last of each record."""
    made: Collection[float] = ()
    """The times that are runs already: a scheduler makes a run a moment before its time."""


def silence() -> Replan:
    """No plan: for a move that needs none."""
    return Replan(recurring=True, timer=None)


# ------------------------------------------------------------------------------------------ a change


def replan_changed(row: JobRow, before: Plan, changed: Replanned | None, now: float, ahead: Ahead) -> Replan | None:
    """The change of a job's timer and runs; None if there is none. Raises `Conflict`."""
    if changed is None:
        return None
    plan = changed.timing.plan
    schedule = plan.schedule(row.job_id)
    if not changed.times_changed:
        return _redecided(row, before, plan, schedule, now)
    old = before.schedule(row.job_id)
    owed = tuple(_owed(old, row, now))
    if plan.schedule_type is ScheduleType.ON_DEMAND:
        return Replan(recurring=True, timer=None, skips=owed)
    if not schedule.recurs:
        if row.status is JobStatus.PAUSED:
            raise Conflict("the job is paused; resume it before you make it run once", code="job_paused")
        return _once(plan, row.job_id, round(now, 6) if schedule.at is None else schedule.at, owed)
    kept = schedules.fires_between(schedule, now, now + KEPT_AHEAD_SECONDS, KEPT_MAX)
    timer, due, passed = None, changed.timing.due, 0
    while due is not None:
        ends = [last for first, last in ahead.skipped if first <= round(due, 6) <= last]
        if not ends and round(due, 6) not in ahead.made:
            break
        passed += not ends
        due = schedules.next_fire(schedule, max(ends, default=due))
    fired = passed + (0 if changed.anew else _fired(row, old, now))
    if due is not None and (schedule.max_runs is None or fired < schedule.max_runs):
        timer = TimerState(due, fired=fired)
        if row.status is JobStatus.PAUSED:
            until = NEVER if row.pause_until is None else row.pause_until
            timer = timer._replace(due=until, since=timer.due, hold=Hold.PAUSED)
    return Replan(recurring=True, timer=timer, keep_dues=kept, skips=owed, zone_data=zone_data(plan))


def _once(plan: Plan, job_id: UUID, nominal: float, owed: Sequence[NewSkip] = ()) -> Replan:
    named = None if is_decided(plan) else run_id(job_id, nominal)
    return Replan(recurring=False, timer=TimerState(nominal), run_id=named, keep_dues=(nominal,), skips=owed)


def _redecided(row: JobRow, before: Plan, plan: Plan, schedule: Schedule, now: float) -> Replan | None:
    """The times are the same, and so is the timer, but for one that was decided by a policy that is another now."""
    timer = row.timer
    if timer is None:
        return None
    if not schedule.recurs:
        if is_decided(plan) == is_decided(before) and plan.calendars == before.calendars:
            return None
        return _once(plan, row.job_id, _nominal(schedule, timer))
    if timer.hold in (None, Hold.PAUSED) or plan.calendars == before.calendars:
        return None
    kept = schedules.fires_between(schedule, now, now + KEPT_AHEAD_SECONDS, KEPT_MAX)
    looked_at = timer._replace(due=min(timer.due, now))
    return Replan(recurring=True, timer=looked_at, keep_dues=kept, zone_data=zone_data(plan))


def _fired(row: JobRow, old: Schedule, now: float) -> int:
    """The number of runs that the schedule has made, without those made ahead, which the new plan decides anew."""
    if row.timer is None:
        # It is over. If not by its end, then by the number of its runs.
        return (old.max_runs or 0) if schedules.next_fire(old, now) is not None else 0
    ahead = row.timer.due if row.timer.since is None else row.timer.since
    return max(0, row.timer.fired - schedules.count_between(old, schedules.just_after(now), ahead)) if old.recurs else 0


def _owed(old: Schedule, row: JobRow, now: float) -> list[NewSkip]:
    """The times that passed under the earlier schedule and have neither run nor record."""
    timer = row.timer
    if timer is None:
        return []
    job_id = row.job_id
    if not old.recurs:
        nominal = _nominal(old, timer)
        reason = SkipReason.MISFIRE if timer.hold is None else SkipReason(timer.hold)
        return [] if nominal > now else skipped(old, job_id, nominal, nominal, reason, CHANGED)
    if timer.hold is None:
        return skipped(old, job_id, timer.due, now, SkipReason.MISFIRE, CHANGED)
    since = timer.due if timer.since is None else timer.since
    if timer.hold is not Hold.PAUSED:
        return skipped(old, job_id, since, now, SkipReason(timer.hold), f"held back; {CHANGED}")
    if timer.due > now:
        return skipped(old, job_id, since, now, SkipReason.PAUSED, was_paused(row))
    found = skipped(old, job_id, since, schedules.just_before(timer.due), SkipReason.PAUSED, was_paused(row))
    again = schedules.first_fire(old, max(since, timer.due))
    return found if again is None else [*found, *skipped(old, job_id, again, now, SkipReason.MISFIRE, CHANGED)]


def skipped(
    schedule: Schedule, job_id: UUID, first: float, last: float, reason: SkipReason, error: str
) -> list[NewSkip]:
    """One record for the occurrences from `first`, which counts as one, up to and including `last`; none if that is
    earlier."""
    if first > last:
        return []
    count, until = 1, first
    if schedule.recurs:
        count += schedules.count_between(schedule, schedules.just_after(first), schedules.just_after(last))
        until = max(first, schedules.latest_fire(schedule, last) or first)
    return [NewSkip(run_id(job_id, first), first, until, count, reason, error)]


def was_paused(row: JobRow) -> str:
    """The person who paused it and the reason, which the job itself forgets when it is resumed."""
    who = f" by {row.paused_by}" if row.paused_by else ""
    return f"{PAUSED_SENTENCE}{who}" + (f": {row.pause_reason}" if row.pause_reason else "")


def paused_note(row: JobRow) -> str:
    """The note on a pause that goes on, with its begin and end."""
    return f"the job is {pause_words(row, written)}"


def pause_words(row: JobRow, said: Callable[[float], str]) -> str:
    """A pause that goes on, with its instants as they are `said`."""
    until = None if row.pause_until is None or row.pause_until == NEVER else said(row.pause_until)
    since = None if row.paused_at is None else said(row.paused_at)
    return pause_in_words(by=row.paused_by, since=since, until=until, reason=row.pause_reason)


def _nominal(schedule: Schedule, timer: TimerState) -> float:
    """The time of the only occurrence of a one-time job."""
    if schedule.at is not None:
        return schedule.at
    return timer.due if timer.since is None else timer.since


# ------------------------------------------------------------------------------------------ pause and resume


def pause(row: JobRow, plan: Plan, body: PauseBody, by: str, now: float) -> JobMove:
    """The move of a pause. Raises `Conflict`, `Invalid`."""
    check_lasting(row, plan, "paused")
    until = None if body.until is None else instant_within(body.until, "/until")
    if until is not None and until <= now:
        raise Invalid("until is in the past; give a later time, or leave it out", pointer="/until")
    return JobMove(
        namespace=row.namespace,
        job_id=row.job_id,
        action=JobAction.PAUSE,
        replan=silence(),
        expected_version=row.version,
        reason=body.reason,
        until=until,
        by=by,
        postponed_after_seconds=greatest_spread(plan),
    )


def resume(row: JobRow, plan: Plan, body: ResumeBody, rules: ScheduleRules | None, now: float) -> JobMove | None:
    """The move of a resume; None: it is not paused, so there is nothing to do. Raises `Conflict`."""
    check_lasting(row, plan, "resumed")
    if row.status is not JobStatus.PAUSED:
        return None
    schedule = plan.schedule(row.job_id)
    timer, missed = None, _Missed((), ())
    if row.timer is not None:
        # Counted from the first occurrence without a record, also after another edit or pause meanwhile.
        since = row.timer.due if row.timer.since is None else row.timer.since
        missed = _missed(row, plan, since, body, rules, now)
        due = schedules.first_fire(schedule, max(since, schedules.just_after(now)))
        timer = None if due is None else TimerState(due, fired=row.timer.fired)
    return JobMove(
        namespace=row.namespace,
        job_id=row.job_id,
        action=JobAction.RESUME,
        replan=Replan(
            recurring=True,
            timer=timer,
            keep_dues=schedules.fires_between(schedule, now, now + KEPT_AHEAD_SECONDS, KEPT_MAX),
            missed=missed.runs,
            skips=missed.skips,
            zone_data=zone_data(plan),
        ),
        expected_version=row.version,
        postponed_after_seconds=greatest_spread(plan),
    )


def greatest_spread(plan: Plan) -> float:
    """The greatest delay of a run after its nominal time by the schedule itself, in seconds."""
    return plan.jitter_seconds or plan.window_seconds or 0.0


def check_lasting(row: JobRow, plan: Plan, done: str) -> None:
    """As `check_recurring`; a job that runs on demand will do."""
    if plan.schedule_type is not ScheduleType.ON_DEMAND or row.status is JobStatus.CANCELLED:
        check_recurring(row, plan, done)


def check_recurring(row: JobRow, plan: Plan, done: str) -> None:
    """Raises `Conflict` for a job without a schedule that goes on, and for one that is cancelled."""
    if row.status is JobStatus.CANCELLED:
        raise Conflict(f"the job is cancelled, so it cannot be {done}", code="job_cancelled")
    if plan.schedule_type is ScheduleType.ON_DEMAND:
        raise Conflict(f"the job has no schedule (ON_DEMAND), so nothing of it can be {done}", code="job_not_recurring")
    if plan.schedule_type not in RECURRING:
        raise Conflict(
            f"the job runs once ({row.schedule_type}), only recurring jobs are {done}; change its schedule_time, "
            "or cancel it",
            code="job_not_recurring",
        )


class _Missed(NamedTuple):
    """The handling of the occurrences of a pause."""

    runs: tuple[NewRun, ...]
    skips: tuple[NewSkip, ...]


def _missed(
    row: JobRow, plan: Plan, since: float, body: ResumeBody, rules: ScheduleRules | None, now: float
) -> _Missed:
    """The occurrences from `since` up to now: those that are made up for, and records of all others."""
    schedule, job_id = plan.schedule(row.job_id), row.job_id
    if since > now:
        return _Missed((), ())
    chosen: list[float] = []
    shut: list[tuple[float, Closed]] = []
    oldest = schedules.just_after(now)
    most = _wanted(schedule, since, body, now)
    while len(chosen) < most and len(shut) < MAX_CLOSED and oldest > since:
        # The timer's own counts, though the schedule may not name it now.
        oldest = max(since, schedules.latest_fire(schedule, schedules.just_before(oldest)) or since)
        verdict = None if rules is None else rules.verdict(oldest)
        if isinstance(verdict, Closed):
            shut.append((oldest, verdict))
        else:
            chosen.append(oldest)
    skips = skipped(schedule, job_id, since, schedules.just_before(oldest), SkipReason.PAUSED, was_paused(row))
    for nominal, closed in shut:
        skips += skipped(schedule, job_id, nominal, nominal, SkipReason(closed.reason), closed.sentence)
    # They were all asked for at once: each waits for the one before it, unless the job's runs need not wait at all.
    runs = tuple(
        NewRun(
            run_id=run_id(job_id, nominal, Trigger.MISSED),
            due=now,
            trigger=Trigger.MISSED,
            nominal=nominal,
            overlap=plan.overlap_of_asked(),
        )
        for nominal in reversed(chosen)
    )
    return _Missed(runs, tuple(skips))


def _wanted(schedule: Schedule, since: float, body: ResumeBody, now: float) -> int:
    """The greatest number of occurrences of a pause that are made up for."""
    if body.missed is not MissedMode.RUN_ALL:
        return 1 if body.missed is MissedMode.RUN_LATEST else 0
    if body.limit is not None:
        return body.limit
    count = 1 + schedules.count_between(schedule, schedules.just_after(since), schedules.just_after(now))
    if count > OCCURRENCES_MAX:
        raise Conflict(
            f"{count} occurrences were missed, and one request runs at most {OCCURRENCES_MAX}; send limit with "
            "run_all, or resume with run_latest or skip",
            pointer="/missed",
        )
    return count
