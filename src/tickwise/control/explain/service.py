"""Why a job did, or did not, run at a time; why it does not run now; and the same of one run.

        at ──► the occurrence that is meant ──┬─ on record ──────► its run, judged
                                              ├─ open ───────────► held back, overdue, or to come
                                              └─ neither ────────► never again, not yet, changed, forgotten

Read-only and bounded: a dozen look-ups, whatever the job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from tickwise.control.access import requires
from tickwise.control.context import ControlContext
from tickwise.control.explain.explanations import (
    ON_TIME_SECONDS,
    Because,
    Cause,
    Explanation,
    RunFacts,
    lasting,
    sentence,
)
from tickwise.control.explain.reasons import judged
from tickwise.control.explain.run_context import RunContext
from tickwise.control.rules import rules_for
from tickwise.control.schedules.occurrences import (
    OF_SCHEDULE,
    TOLD_UNTIL,
    Occurrence,
    OccurrenceKind,
    Outlook,
)
from tickwise.control.schedules.previews import OccurrenceFate
from tickwise.control.times import written
from tickwise.domain import schedule as schedules
from tickwise.domain.calendar.rules import ScheduleRules
from tickwise.domain.calendar.sentences import moment
from tickwise.domain.decision import Hold
from tickwise.domain.errors import Invalid
from tickwise.domain.hosts import host_of
from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.domain.model import Principal, Trigger, name_before, name_from
from tickwise.domain.permissions import Permission
from tickwise.domain.retry import CIRCUIT_OPEN
from tickwise.domain.schedule import Schedule, ScheduleType
from tickwise.domain.zones import zone_named
from tickwise.ports.store import ExecutorRow, Incident, JobRow, RunQuery, RunRow
from tickwise.roles.shared.definition import Definition, decode_definition

EXACT_SECONDS: Final = 1.0
"""People leave the fraction of a second out: the nearest occurrence within it is the one that they mean."""
RUNS_LOOKED_AT: Final = 50
MAX_FAVOURED_JOBS: Final = 10
MAX_PASSED_OVER: Final = 1_000
"""Occurrences to come that are skipped, in search of one that is not."""
UNFINISHED: Final = (RunState.QUEUED, RunState.DISPATCHED, RunState.RUNNING, RunState.RETRYING)
NOT_SKIPPED: Final = tuple(state for state in RunState if state is not RunState.SKIPPED)
ENDED: Final = (RunState.SUCCESS, RunState.FAILED, RunState.CANCELLED)
TAKEN: Final = (RunState.DISPATCHED, RunState.RUNNING, RunState.SUCCESS, RunState.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A job as it stands."""

    row: JobRow
    plan: Definition
    schedule: Schedule
    rules: ScheduleRules | None
    now: float
    zone: ZoneInfo

    @property
    def outlook(self) -> Outlook:
        """What becomes of its occurrences."""
        return Outlook(self.row, self.schedule, self.rules, self.now)

    def said(self, instant: float) -> str:
        """An instant on the clock of the job."""
        return f"{moment(instant, self.zone)} ({self.zone.key})"

    @property
    def counts_from(self) -> float:
        """What the schedule of now names up to this was named by another one, or by none."""
        return self.row.created_at if self.plan.planned_at is None else self.plan.planned_at


class ExplainService:
    """Explains jobs and runs."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context
        self._around = RunContext(context)

    @requires(Permission.RUNS_READ)
    async def run(self, who: Principal, run: UUID) -> Explanation:
        """Why a run is where it is. Raises `NotFound`."""
        row = await self._context.run(who, run)
        job = await self._context.store.job_get(who.namespace, row.job_id)
        standing = None if job is None else await self._standing(job)
        return await self._explained(row, standing)

    @requires(Permission.RUNS_READ)
    async def job(self, who: Principal, job_id: UUID, at: float | None = None) -> Explanation:
        """Why a job does at a time what it does, did or will do; at None: at the moment. Raises `NotFound`; `Invalid`
        for a time too far ahead."""
        standing = await self._standing(await self._context.job(who, job_id))
        if at is None:
            return await self._at_present(standing)
        if standing.schedule.type is ScheduleType.ON_DEMAND:
            return await self._demanded(standing, at)
        if at > TOLD_UNTIL:
            raise Invalid(f"at lies too far ahead; give a time before {written(TOLD_UNTIL)}", pointer="/at")
        if at < standing.row.created_at - EXACT_SECONDS and not await self._records_near(standing, at):
            created = standing.row.created_at
            return Explanation(
                code=Because.NOT_YET_CREATED,
                sentence=sentence(f"the job was not there yet: it was created at {standing.said(created)}"),
                data={"created_time": written(created), "created_by": standing.row.created_by},
            )
        nominal = await self._meant(standing, at)
        if nominal is not None:
            return await self._occurrence(standing, nominal)
        return await self._between(standing, at)

    # ------------------------------------------------------------------------------------------ what is looked up

    async def _standing(self, row: JobRow) -> Standing:
        plan = decode_definition(row.definition)
        return Standing(
            row=row,
            plan=plan,
            schedule=plan.schedule(row.job_id),
            rules=await rules_for(self._context, row.namespace, plan.calendars, row.labels),
            # Read, not carried on: a run that was made a moment ago must not seem to be due later.
            now=await self._context.store.now(),
            zone=zone_named(plan.timezone),
        )

    async def _explained(self, run: RunRow, standing: Standing | None) -> Explanation:
        """A run, judged by all that can be known of it."""
        now = await self._context.store.now()
        attempts = await self._context.store.run_attempts(run.run_id)
        facts = RunFacts(now=now, run=run, zone=zone_named("UTC"), attempts=attempts)
        flow = await self._around.facts(run, None if standing is None else (standing.row, standing.plan))
        until = now if facts.began is None and run.ended_at is None else facts.began or run.ended_at or now
        noticed = await self._context.store.incidents_list(min(run.nominal_at, run.due_at), max(until, run.due_at))
        incidents = [each for each in noticed if each.kind != CIRCUIT_OPEN]
        if standing is None:
            return judged(replace(facts, incidents=incidents, **flow))
        waits = run.state in UNFINISHED and facts.began is None
        late = waits or until - run.due_at > ON_TIME_SECONDS
        return judged(
            RunFacts(
                now=now,
                run=run,
                zone=standing.zone,
                attempts=attempts,
                job=standing.row,
                plan=standing.plan if run.definition is None else decode_definition(run.definition),
                schedule=standing.schedule,
                rules=standing.rules,
                function=_function(standing.row, standing.plan),
                incidents=incidents,
                circuits=_circuits(noticed, standing),
                executors=await self._context.store.executors_between(run.due_at, until) if late else (),
                active=await self._alive(now) if run.state in (RunState.QUEUED, RunState.RETRYING) else (),
                earlier=await self._others(run, until) if late or run.state is RunState.SKIPPED else (),
                favoured=await self._favoured(run, standing, until) if late else (),
                **flow,
            )
        )

    async def _alive(self, now: float) -> list[ExecutorRow]:
        rows = await self._context.store.executors_list()
        return [row for row in rows if row.gone_at is None and row.lease_until > now]

    async def _others(self, run: RunRow, until: float) -> list[RunRow]:
        """Runs of the job that this one may have had to do with."""
        rows = await self._context.store.runs_list(
            RunQuery(
                namespace=run.namespace,
                job_id=run.job_id,
                states=NOT_SKIPPED,
                before=name_from(until + 1.0),
                limit=RUNS_LOOKED_AT,
            )
        )
        return [row for row in rows if row.run_id != run.run_id]

    async def _favoured(self, run: RunRow, standing: Standing, until: float) -> list[tuple[RunRow, JobRow]]:
        """Runs of a higher priority that were taken from the same queue while this one waited."""
        rows = await self._context.store.runs_list(
            RunQuery(namespace=run.namespace, states=TAKEN, before=name_from(until + 1.0), limit=2 * RUNS_LOOKED_AT)
        )
        found: list[tuple[RunRow, JobRow]] = []
        jobs: dict[UUID, JobRow | None] = {run.job_id: None}
        for row in rows:
            if row.dispatched_at is None or not run.due_at <= row.dispatched_at <= until:
                continue
            if row.job_id not in jobs:
                if len(jobs) > MAX_FAVOURED_JOBS:
                    continue
                jobs[row.job_id] = await self._context.store.job_get(run.namespace, row.job_id)
            job, own = jobs[row.job_id], standing.row.lane
            if job is not None and job.lane.queue == own.queue and job.lane.priority > own.priority:
                found.append((row, job))
        return found

    async def _records_near(self, standing: Standing, at: float) -> list[RunRow]:
        """What is on record of occurrences of this time, within `EXACT_SECONDS`."""
        row = standing.row
        rows = await self._context.store.runs_list(
            RunQuery(
                namespace=row.namespace,
                job_id=row.job_id,
                triggers=OF_SCHEDULE,
                after=name_before(at - EXACT_SECONDS),
                before=name_from(at + EXACT_SECONDS + 0.001),
                limit=RUNS_LOOKED_AT,
            )
        )
        return [each for each in rows if abs(each.nominal_at - at) < EXACT_SECONDS]

    async def _meant(self, standing: Standing, at: float) -> float | None:
        """The nominal time of the occurrence that `at` names, up to a fraction of a second."""
        schedule, timer = standing.schedule, standing.row.timer
        near = [each.nominal_at for each in await self._records_near(standing, at)]
        if timer is not None:
            near.append(timer.first_open)
        if schedule.at is not None:
            near.append(schedule.at)
        if schedule.recurs:
            named = (schedules.latest_fire(schedule, at), schedules.first_fire(schedule, at))
            near += [each for each in named if each is not None and each > standing.counts_from]
        near = [each for each in near if abs(each - at) < EXACT_SECONDS]
        return min(near, key=lambda each: abs(each - at), default=None)

    # ------------------------------------------------------------------------------------------ one occurrence

    async def _occurrence(self, standing: Standing, nominal: float) -> Explanation:
        """What became, or becomes, of the occurrence of this very time."""
        recorded = await self._recorded(standing, nominal)
        if recorded:
            first, *others = recorded
            found = await self._explained(first, standing)
            if others:
                found.data["also"] = [str(each.run_id) for each in others]
            return found
        for each in standing.outlook.computed(nominal, nominal, 2):
            last = each.nominal if each.until is None else each.until
            if round(each.nominal, 6) <= round(nominal, 6) <= round(last, 6):
                return await self._open(standing, each)
        return _unrecorded(standing, nominal, self._context.runs_kept_seconds)

    async def _recorded(self, standing: Standing, nominal: float) -> list[RunRow]:
        """Its runs, that of the schedule first; else the record of several that it is one of."""
        row = standing.row
        here = [
            each for each in await self._records_near(standing, nominal) if round(each.nominal_at - nominal, 6) == 0
        ]
        if here:
            # What made up for it tells more than that it was skipped.
            return sorted(here, key=lambda each: (each.state is RunState.SKIPPED, each.trigger))
        earlier = await self._context.store.runs_list(
            RunQuery(
                namespace=row.namespace,
                job_id=row.job_id,
                states=(RunState.SKIPPED,),
                triggers=(Trigger.SCHEDULE,),
                before=name_from(nominal),
                limit=RUNS_LOOKED_AT,
            )
        )
        return [each for each in earlier if each.until is not None and each.until >= nominal][:1]

    async def _open(self, standing: Standing, each: Occurrence) -> Explanation:
        """One that is not on record yet."""
        if each.kind is OccurrenceKind.FUTURE:
            return _to_come(standing, each)
        timer = standing.row.timer
        if timer is not None and timer.due > standing.now and timer.hold is Hold.PAUSED:
            return _paused(standing)
        if timer is not None and timer.due > standing.now and timer.hold is not None:
            return _held(standing, each, timer.due)
        return await self._overdue(standing, each)

    async def _overdue(self, standing: Standing, each: Occurrence) -> Explanation:
        noticed = await self._context.store.incidents_list(each.nominal, standing.now)
        incidents = [found for found in noticed if found.kind != CIRCUIT_OPEN]
        late = standing.now - each.nominal
        words = (
            f"the occurrence of {standing.said(each.nominal)} was due {lasting(late)} ago, and no scheduler has "
            "looked at it yet; check that one is running and reaches the database"
        )
        absences = [{"kind": found.kind, "from": written(found.begin), "to": written(found.end)} for found in incidents]
        data = {"nominal_time": written(each.nominal), "overdue_seconds": round(late, 3), "absences": absences}
        return Explanation(code=Because.WAITING_SCHEDULER, sentence=sentence(words), data=data)

    # ------------------------------------------------------------------------------------------ now, and between

    async def _at_present(self, standing: Standing) -> Explanation:
        """What the job does at the moment, or waits for."""
        row, now = standing.row, standing.now
        query = RunQuery(namespace=row.namespace, job_id=row.job_id, states=UNFINISHED, limit=2 * RUNS_LOOKED_AT)
        runs = await self._context.store.runs_list(query)
        begun = [each for each in runs if each.state is not RunState.QUEUED and each.due_at <= now]
        overdue = [each for each in runs if each.due_at <= now]
        for some in ([each for each in begun if each.state is RunState.RUNNING], begun, overdue):
            if some:
                found = await self._explained(min(some, key=lambda each: (each.due_at, each.run_id)), standing)
                if row.status is JobStatus.PAUSED:
                    paused = _paused(standing)
                    return _with(found, Cause(paused.code, paused.sentence.rstrip("."), paused.data))
                return found
        if row.status is JobStatus.CANCELLED:
            return _over(standing)
        if row.status is JobStatus.PAUSED:
            return _paused(standing)
        pending = [each for each in standing.outlook.computed(now, now, 1) if each.kind is OccurrenceKind.PENDING]
        if pending:
            return await self._open(standing, pending[0])
        ahead = min(runs, key=lambda each: (each.due_at, each.run_id), default=None)
        if ahead is not None:
            return await self._explained(ahead, standing)
        if standing.schedule.type is ScheduleType.ON_DEMAND:
            return _on_demand(standing)
        if not standing.schedule.recurs and row.timer is None:
            return await self._once(standing)
        return await self._after_failure(_next(standing), standing)

    async def _after_failure(self, found: Explanation, standing: Standing) -> Explanation:
        """What comes next; and if the last run of the job failed, that and why."""
        row = standing.row
        query = RunQuery(namespace=row.namespace, job_id=row.job_id, states=ENDED, limit=1)
        last = next(iter(await self._context.store.runs_list(query)), None)
        if last is None or last.state is not RunState.FAILED:
            return found
        why = await self._explained(last, standing)
        data = {"run_id": str(last.run_id), "reason": last.reason, "failures": last.failures}
        cause = Cause(Because.LAST_RUN_FAILED, f"its last run failed: {why.sentence.rstrip('.')}", data)
        return _with(_with(found, cause), *(each for each in why.causes if each.code is Because.DEAD_LETTER))

    async def _once(self, standing: Standing) -> Explanation:
        """A job that runs once, at present or at another time than its own: what became, or becomes, of its run."""
        row = standing.row
        runs = await self._context.store.runs_list(
            RunQuery(namespace=row.namespace, job_id=row.job_id, triggers=OF_SCHEDULE, limit=RUNS_LOOKED_AT)
        )
        latest = max(runs, key=lambda each: each.queued_at, default=None)
        over = _over(standing)
        if row.status is JobStatus.CANCELLED:
            return over
        if row.timer is not None:
            first = row.timer.first_open
            words = f"the job runs once, for its time {standing.said(first)}, and at no other"
            data = {"before": None, "after": {"nominal_time": written(first)} if first > standing.now else None}
            return Explanation(code=Because.NOT_AN_OCCURRENCE, sentence=sentence(words), data=data)
        if latest is None:
            return over
        if latest.state in UNFINISHED:
            return await self._explained(latest, standing)
        if latest.state not in (RunState.SKIPPED, RunState.FAILED):
            ran = f"the job runs once, and its run of {standing.said(latest.nominal_at)} ended as {latest.state.value}"
            words = f"{ran}; for another run, run it now, or change its schedule_time"
            return Explanation(code=over.code, sentence=sentence(words), data=over.data, run=latest)
        cause = Cause(over.code, over.sentence.rstrip("."), over.data)
        return _with(await self._explained(latest, standing), cause)

    async def _demanded(self, standing: Standing, at: float) -> Explanation:
        """A job without a schedule: whatever ran then was asked for."""
        row = standing.row
        runs = await self._context.store.runs_list(
            RunQuery(
                namespace=row.namespace,
                job_id=row.job_id,
                after=name_before(at - EXACT_SECONDS),
                before=name_from(at + EXACT_SECONDS + 0.001),
                limit=RUNS_LOOKED_AT,
            )
        )
        near = min(runs, key=lambda each: abs(each.nominal_at - at), default=None)
        return _on_demand(standing) if near is None else await self._explained(near, standing)

    async def _between(self, standing: Standing, at: float) -> Explanation:
        """The schedule does not name this time: what came before it, and what after."""
        row, schedule = standing.row, standing.schedule
        rows = await self._context.store.runs_list(
            RunQuery(
                namespace=row.namespace,
                job_id=row.job_id,
                triggers=OF_SCHEDULE,
                before=name_from(at + 0.001),
                limit=1,
            )
        )
        earlier = [each.nominal_at for each in rows]
        if schedule.recurs:
            named = schedules.latest_fire(schedule, at)
            earlier += [] if named is None or named <= standing.counts_from else [named]
        if not earlier and at < standing.counts_from:
            return _changed(standing)
        later = _later(standing, at)
        if later is None and (at > standing.now or not earlier):
            return _over(standing) if schedule.recurs else await self._once(standing)
        words = f"the schedule ({schedules.explain(schedule)}) names no time at {standing.said(at)}"
        if later is not None:
            words += f"; the next one is {standing.said(later)}"
        data: dict[str, Any] = {"before": None, "after": None}
        if earlier:
            before = await self._occurrence(standing, max(earlier))
            words += f". The one before was {standing.said(max(earlier))}. {before.sentence}"
            data["before"] = {
                "nominal_time": written(max(earlier)),
                "code": before.code.value,
                "run_id": None if before.run is None else str(before.run.run_id),
            }
        if later is not None:
            data["after"] = {"nominal_time": written(later)}
        return Explanation(code=Because.NOT_AN_OCCURRENCE, sentence=sentence(words), data=data)


def _function(row: JobRow, plan: Definition) -> str | None:
    name = msgspec.json.decode(plan.task).get("name") if row.task_kind == "function" else None
    return name if isinstance(name, str) else None


def _circuits(noticed: Sequence[Incident], standing: Standing) -> list[Incident]:
    """The times in which the circuit of the host was open that an http task calls."""
    if standing.row.task_kind != "http":
        return []
    url = msgspec.json.decode(standing.plan.task).get("url")
    host = host_of(url) if isinstance(url, str) else None
    return [each for each in noticed if each.kind == CIRCUIT_OPEN and each.who == host]


def _with(found: Explanation, *causes: Cause) -> Explanation:
    return replace(found, causes=(*found.causes, *causes))


def _later(standing: Standing, at: float) -> float | None:
    """The next occurrence after `at` that comes, or came."""
    schedule = standing.schedule
    if at < standing.now and schedule.recurs:
        named = schedules.next_fire(schedule, max(at, schedules.just_before(standing.counts_from)))
        if named is not None and named <= standing.now:
            return named
    coming = next(standing.outlook.next_after(max(at, standing.now)), None)
    return None if coming is None else coming.nominal


# ------------------------------------------------------------------------------------------ in words


def _paused(standing: Standing) -> Explanation:
    row = standing.row
    fuse = row.paused_by == "fuse"
    words = "the job is paused by " + ("its fuse" if fuse else row.paused_by or "somebody")
    words += f", since {standing.said(row.paused_at)}" if row.paused_at is not None else ""
    words += f", until {standing.said(row.pause_until)}" if row.pause_until is not None else ", until it is resumed"
    words += f": {row.pause_reason}" if row.pause_reason else ""
    data = {
        "paused_by": row.paused_by,
        "paused_time": None if row.paused_at is None else written(row.paused_at),
        "paused_until": None if row.pause_until is None else written(row.pause_until),
        "reason": row.pause_reason,
    }
    return Explanation(code=Because.PAUSED_FUSE if fuse else Because.PAUSED, sentence=sentence(words), data=data)


def _held(standing: Standing, each: Occurrence, until: float) -> Explanation:
    code = Because.HELD_MAINTENANCE if each.reason == Hold.MAINTENANCE.value else Because.HELD_CALENDAR
    several = "" if each.occurrences == 1 else f" and {each.occurrences - 1} after it"
    words = f"the occurrence of {standing.said(each.nominal)}{several} is held back until {standing.said(until)}"
    if each.outcome is OccurrenceFate.SKIP:
        words += ", and will not run then"
    elif several:
        words += ", and will be one run then"
    words += _because(each)
    data = {
        "nominal_time": written(each.nominal),
        "occurrences": each.occurrences,
        "held_until": written(until),
        "outcome": each.outcome.value,
    }
    return Explanation(code=code, sentence=sentence(words), data=data)


def _to_come(standing: Standing, each: Occurrence) -> Explanation:
    """One whose time is yet to come."""
    codes = {
        OccurrenceFate.FIRE: Because.WILL_FIRE,
        OccurrenceFate.SKIP: Because.WILL_BE_SKIPPED,
        OccurrenceFate.DEFER: Because.WILL_BE_DEFERRED,
    }
    fate = OccurrenceFate(each.outcome)
    words = f"the occurrence of {standing.said(each.nominal)} will "
    if fate is OccurrenceFate.SKIP:
        words += "be skipped"
    elif each.due is not None:
        words += "run" if fate is OccurrenceFate.FIRE else "be deferred"
        words += f", and is due at {standing.said(each.due)}" if each.due != each.nominal else ""
    words += _because(each)
    data = {
        "nominal_time": written(each.nominal),
        "due_time": None if each.due is None else written(each.due),
        "reason": each.reason,
    }
    return Explanation(code=codes[fate], sentence=sentence(words), data=data)


def _next(standing: Standing) -> Explanation:
    """Nothing is due: what comes next."""
    passed: list[Occurrence] = []
    coming: Occurrence | None = None
    for each in islice(standing.outlook.next_after(standing.now), MAX_PASSED_OVER):
        if each.outcome is not OccurrenceFate.SKIP:
            coming = each
            break
        passed.append(each)
    if coming is None and not passed:
        return _over(standing)
    if coming is None:
        words = f"the next {len(passed)} occurrences are all skipped; the first is that of "
        words += standing.said(passed[0].nominal) + _because(passed[0])
    else:
        due = coming.nominal if coming.due is None else coming.due
        words = f"the job is not due until {standing.said(due)}"
        words += f", for its time {standing.said(coming.nominal)}" if due != coming.nominal else ""
        if passed:
            words += f"; before that {_several(passed)} skipped{_because(passed[0])}"
        elif coming.outcome is OccurrenceFate.DEFER:
            words += _because(coming)
    data = {
        "next_nominal_time": None if coming is None else written(coming.nominal),
        "next_due_time": None if coming is None or coming.due is None else written(coming.due),
        "skipped_before": len(passed),
        "skipped_reason": passed[0].reason if passed else None,
    }
    return Explanation(code=Because.NOT_DUE, sentence=sentence(words), data=data)


def _because(each: Occurrence) -> str:
    """Its note, without the end that says once more to when it is deferred."""
    note = each.note or ""
    if each.outcome is OccurrenceFate.DEFER:
        note = note.rpartition("; deferred to ")[0] or note
    return f": {note}" if note else ""


def _several(passed: Sequence[Occurrence]) -> str:
    return "one occurrence is" if len(passed) == 1 else f"{len(passed)} occurrences are"


def _on_demand(standing: Standing) -> Explanation:
    """It has no schedule."""
    if standing.row.status is JobStatus.CANCELLED:
        return _over(standing)
    words = f"the job has no schedule: it runs {schedules.explain(standing.schedule)}"
    return Explanation(code=Because.ON_DEMAND, sentence=sentence(words))


def _over(standing: Standing) -> Explanation:
    """It never fires again."""
    row, schedule = standing.row, standing.schedule
    if row.status is JobStatus.CANCELLED:
        words = f"the job was cancelled, for good, at {standing.said(row.updated_at)}"
        data: dict[str, Any] = {"cancelled_time": written(row.updated_at)}
        return Explanation(code=Because.JOB_CANCELLED, sentence=sentence(words), data=data)
    if not schedule.recurs:
        words = "the job runs once, and its time is over; run it now, or change its schedule_time"
        return Explanation(code=Because.OVER_ONE_TIME, sentence=sentence(words), data={"status": row.status.value})
    if schedule.end_at is not None and schedules.next_fire(schedule, standing.now) is None:
        words = f"the schedule ended at {standing.said(schedule.end_at)} (end_at)"
        return Explanation(
            code=Because.OVER_END_AT, sentence=sentence(words), data={"end_at": written(schedule.end_at)}
        )
    if schedule.max_runs is not None:
        runs = "its one run" if schedule.max_runs == 1 else f"all of its {schedule.max_runs} runs"
        words = f"the schedule has made {runs} (max_runs)"
        return Explanation(code=Because.OVER_MAX_RUNS, sentence=sentence(words), data={"max_runs": schedule.max_runs})
    words = f"the schedule ({schedules.explain(schedule)}) names no further time"
    return Explanation(code=Because.OVER_NO_TIME, sentence=sentence(words))


def _changed(standing: Standing) -> Explanation:
    since = standing.counts_from
    words = f"the schedule was changed at {standing.said(since)}; what is on record does not say what it was before"
    return Explanation(code=Because.SCHEDULE_CHANGED, sentence=sentence(words), data={"changed_time": written(since)})


def _unrecorded(standing: Standing, nominal: float, kept_seconds: float | None) -> Explanation:
    """Neither on record nor open."""
    row, now = standing.row, standing.now
    data = {"nominal_time": written(nominal)}
    if kept_seconds is not None and nominal < now - kept_seconds:
        words = (
            f"the occurrence of {standing.said(nominal)} is {lasting(now - nominal)} ago, and runs are kept for "
            f"{lasting(kept_seconds)}: what became of it is forgotten"
        )
        return Explanation(code=Because.FORGOTTEN, sentence=sentence(words), data=data)
    if row.status is JobStatus.CANCELLED and row.updated_at <= nominal:
        return _over(standing)
    if nominal < standing.counts_from - EXACT_SECONDS:
        return _changed(standing)
    if nominal > now or row.timer is None:
        return _over(standing)
    words = f"nothing is on record of the occurrence of {standing.said(nominal)}"
    return Explanation(code=Because.UNKNOWN, sentence=sentence(words), data=data)
