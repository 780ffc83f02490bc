"""Explains jobs at a time: finds the occurrence of that time, and its fate.

        at ──► the occurrence that is meant ──┬─ on record ──────► its run, judged
                                              ├─ open ───────────► held back, overdue, or to come
                                              └─ neither ────────► never again, not yet, changed, forgotten

Read-only and bounded: a dozen look-ups for any job.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from tickwise.control.context import ControlContext
from tickwise.control.explain.conditions import job_conditions
from tickwise.control.explain.explanations import (
    Because,
    Cause,
    Explanation,
    lasting,
    sentence,
)
from tickwise.control.explain.job_reasons import (
    changed,
    coming_next,
    held_back,
    on_demand,
    over,
    paused,
    to_come,
    unrecorded,
)
from tickwise.control.explain.run_explanations import RUNS_LOOKED_AT, UNFINISHED, RunExplanations
from tickwise.control.explain.standing import EXACT_SECONDS, Standing
from tickwise.control.rules import ruled, rules_for
from tickwise.control.schedules.occurrences import (
    OF_SCHEDULE,
    TOLD_UNTIL,
    Occurrence,
    OccurrenceKind,
)
from tickwise.control.times import written
from tickwise.documents.definition import decode_definition
from tickwise.domain import schedule as schedules
from tickwise.domain.decision import Hold
from tickwise.domain.errors import Invalid
from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.domain.model import Trigger, name_before, name_from
from tickwise.domain.retry import CIRCUIT_OPEN, SECRETS_AWAY
from tickwise.domain.schedule import ScheduleType
from tickwise.domain.zones import zone_named
from tickwise.ports.store import NO_TEXT, QUEUE_HELD, JobRow, RunQuery, RunRow

ENDED: Final = (RunState.SUCCESS, RunState.FAILED, RunState.CANCELLED)


class JobExplanations:
    """Explains a job by its occurrences. It checks no permission."""

    def __init__(self, context: ControlContext, runs: RunExplanations) -> None:
        """`runs` explains the run of an occurrence."""
        self._context = context
        self._runs = runs

    async def explained(self, row: JobRow, at: float | None = None) -> Explanation:
        """Explain what a job does, did or will do at a time; None: now. Raises `Invalid` for a time too far ahead."""
        standing = await self.standing(row)
        if at is None:
            found = await self._at_present(standing)
            return found if found.conditions else replace(found, conditions=job_conditions(standing))
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

    async def standing(self, row: JobRow) -> Standing:
        """The job as it stands."""
        plan = decode_definition(row.definition)
        return Standing(
            row=row,
            plan=plan,
            schedule=plan.schedule(row.job_id),
            rules=await rules_for(self._context, ruled(row), plan.calendars),
            # Read, not carried on: a run that was made a moment ago must not seem to be due later.
            now=await self._context.store.now(),
            zone=zone_named(plan.timezone),
        )

    async def _run_explained(self, listed: RunRow, standing: Standing) -> Explanation:
        """Explain a run that a search without its texts found."""
        whole = await self._context.store.runs.get(listed.namespace, listed.run_id)
        return await self._runs.explained(listed if whole is None else whole, standing)

    async def _records_near(self, standing: Standing, at: float) -> list[RunRow]:
        """The records of occurrences of this time, within `EXACT_SECONDS`."""
        row = standing.row
        rows = await self._context.store.searches.runs(
            RunQuery(
                namespace=row.namespace,
                job_id=row.job_id,
                triggers=OF_SCHEDULE,
                after=name_before(at - EXACT_SECONDS),
                before=name_from(at + EXACT_SECONDS + 0.001),
                limit=RUNS_LOOKED_AT,
                texts=NO_TEXT,
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
        """The past or coming fate of the occurrence of this very time."""
        recorded = await self._recorded(standing, nominal)
        if recorded:
            first, *others = recorded
            found = await self._run_explained(first, standing)
            if others:
                found.data["also"] = [str(each.run_id) for each in others]
            return found
        for each in standing.outlook.computed(nominal, nominal, 2):
            last = each.nominal if each.until is None else each.until
            if round(each.nominal, 6) <= round(nominal, 6) <= round(last, 6):
                return await self._open(standing, each)
        return unrecorded(standing, nominal, self._context.runs_kept_seconds)

    async def _recorded(self, standing: Standing, nominal: float) -> list[RunRow]:
        """Its runs, that of the schedule first; else the record of several that it is one of."""
        row = standing.row
        here = [
            each for each in await self._records_near(standing, nominal) if round(each.nominal_at - nominal, 6) == 0
        ]
        if here:
            # A run that made up for the time explains more than the record of its skip.
            return sorted(here, key=lambda each: (each.state is RunState.SKIPPED, each.trigger))
        earlier = await self._context.store.searches.runs(
            RunQuery(
                namespace=row.namespace,
                job_id=row.job_id,
                states=(RunState.SKIPPED,),
                triggers=(Trigger.SCHEDULE,),
                before=name_from(nominal),
                limit=RUNS_LOOKED_AT,
                texts=NO_TEXT,
            )
        )
        return [each for each in earlier if each.until is not None and each.until >= nominal][:1]

    async def _open(self, standing: Standing, each: Occurrence) -> Explanation:
        """One that is not on record yet."""
        if each.kind is OccurrenceKind.FUTURE:
            return to_come(standing, each)
        timer = standing.row.timer
        if timer is not None and timer.due > standing.now and timer.hold is Hold.PAUSED:
            return paused(standing)
        if timer is not None and timer.due > standing.now and timer.hold is not None:
            return held_back(standing, each, timer.due)
        return await self._overdue(standing, each)

    async def _overdue(self, standing: Standing, each: Occurrence) -> Explanation:
        noticed = await self._context.store.incidents.between(each.nominal, standing.now)
        incidents = [found for found in noticed if found.kind not in (CIRCUIT_OPEN, SECRETS_AWAY, QUEUE_HELD)]
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
        """The present state of the job."""
        row, now = standing.row, standing.now
        query = RunQuery(
            namespace=row.namespace, job_id=row.job_id, states=UNFINISHED, limit=2 * RUNS_LOOKED_AT, texts=NO_TEXT
        )
        runs = await self._context.store.searches.runs(query)
        begun = [each for each in runs if each.state is not RunState.QUEUED and each.due_at <= now]
        overdue = [each for each in runs if each.due_at <= now]
        for some in ([each for each in begun if each.state is RunState.RUNNING], begun, overdue):
            if some:
                found = await self._run_explained(min(some, key=lambda each: (each.due_at, each.run_id)), standing)
                if row.status is JobStatus.PAUSED:
                    pause = paused(standing)
                    return _with(found, Cause(pause.code, pause.sentence.rstrip("."), pause.data))
                return found
        if row.status is JobStatus.CANCELLED:
            return over(standing)
        if row.status is JobStatus.PAUSED:
            return paused(standing)
        pending = [each for each in standing.outlook.computed(now, now, 1) if each.kind is OccurrenceKind.PENDING]
        if pending:
            return await self._open(standing, pending[0])
        ahead = min(runs, key=lambda each: (each.due_at, each.run_id), default=None)
        if ahead is not None:
            return await self._run_explained(ahead, standing)
        if standing.schedule.type is ScheduleType.ON_DEMAND:
            return on_demand(standing)
        if not standing.schedule.recurs and row.timer is None:
            return await self._once(standing)
        return await self._after_failure(coming_next(standing), standing)

    async def _after_failure(self, found: Explanation, standing: Standing) -> Explanation:
        """The next event; and if the last run of the job failed, that and why."""
        row = standing.row
        query = RunQuery(namespace=row.namespace, job_id=row.job_id, states=ENDED, limit=1)
        last = next(iter(await self._context.store.searches.runs(query)), None)
        if last is None or last.state is not RunState.FAILED:
            return found
        why = await self._run_explained(last, standing)
        data = {"run_id": str(last.run_id), "reason": last.reason, "failures": last.failures}
        cause = Cause(Because.LAST_RUN_FAILED, f"its last run failed: {why.sentence.rstrip('.')}", data)
        return _with(_with(found, cause), *(each for each in why.causes if each.code is Because.DEAD_LETTER))

    async def _once(self, standing: Standing) -> Explanation:
        """A job that runs once, at present or at another time than its own: what became, or becomes, of its run."""
        row = standing.row
        runs = await self._context.store.searches.runs(
            RunQuery(
                namespace=row.namespace, job_id=row.job_id, triggers=OF_SCHEDULE, limit=RUNS_LOOKED_AT, texts=NO_TEXT
            )
        )
        latest = max(runs, key=lambda each: each.queued_at, default=None)
        ended = over(standing)
        if row.status is JobStatus.CANCELLED:
            return ended
        if row.timer is not None:
            first = row.timer.first_open
            words = f"the job runs once, for its time {standing.said(first)}, and at no other"
            data = {"before": None, "after": {"nominal_time": written(first)} if first > standing.now else None}
            return Explanation(code=Because.NOT_AN_OCCURRENCE, sentence=sentence(words), data=data)
        if latest is None:
            return ended
        if latest.state in UNFINISHED:
            return await self._run_explained(latest, standing)
        if latest.state not in (RunState.SKIPPED, RunState.FAILED):
            ran = f"the job runs once, and its run of {standing.said(latest.nominal_at)} ended as {latest.state.value}"
            words = f"{ran}; for another run, run it now, or change its schedule_time"
            return Explanation(code=ended.code, sentence=sentence(words), data=ended.data, run=latest)
        cause = Cause(ended.code, ended.sentence.rstrip("."), ended.data)
        return _with(await self._run_explained(latest, standing), cause)

    async def _demanded(self, standing: Standing, at: float) -> Explanation:
        """A job without a schedule: each run of it was requested."""
        row = standing.row
        runs = await self._context.store.searches.runs(
            RunQuery(
                namespace=row.namespace,
                job_id=row.job_id,
                after=name_before(at - EXACT_SECONDS),
                before=name_from(at + EXACT_SECONDS + 0.001),
                limit=RUNS_LOOKED_AT,
                texts=NO_TEXT,
            )
        )
        near = min(runs, key=lambda each: abs(each.nominal_at - at), default=None)
        return on_demand(standing) if near is None else await self._run_explained(near, standing)

    async def _between(self, standing: Standing, at: float) -> Explanation:
        """The schedule does not name this time: what came before it, and what after."""
        row, schedule = standing.row, standing.schedule
        rows = await self._context.store.searches.runs(
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
            return changed(standing)
        later = _later(standing, at)
        if later is None and (at > standing.now or not earlier):
            return over(standing) if schedule.recurs else await self._once(standing)
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
