"""Previews of a schedule: its next fires on three clocks, the fate of each, and the schedule in English.

The same rules as a scheduler's decision: calendars skip or defer, jitter moves the start, the clock's changes are told.
Of a saved job, an occurrence that is on record shows its record: it was skipped, or snoozed, by a person.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from tickwise.control.access import check_labels
from tickwise.control.bodies import PreviewBody
from tickwise.control.context import ControlContext
from tickwise.control.jobs.planning import planned, upcoming
from tickwise.control.jobs.replans import paused_note
from tickwise.control.jobs.resolving import check_calendars
from tickwise.control.rules import calendars_known, ruled, rules_for
from tickwise.control.times import instant_within, written
from tickwise.documents.definition import decode_definition
from tickwise.documents.rulebook import RuledJob
from tickwise.domain import schedule as schedules
from tickwise.domain.calendar.rules import Closed, Otherwise, ScheduleRules
from tickwise.domain.cron import expression as cron
from tickwise.domain.decision import NEVER, spread
from tickwise.domain.errors import Invalid
from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.domain.model import Lane, Principal, Trigger, name_before, name_from
from tickwise.domain.schedule import Schedule, ScheduleType
from tickwise.domain.zones import zone_named
from tickwise.ports.store import NO_TEXT, JobRow, RunQuery, RunRow

GAPS_MAX: Final = 10
"""The most clock changes that are listed at which occurrences are left out, …"""
GAPS_SECONDS: Final = 5 * 366 * 86_400.0
"""… and so far ahead."""
SLICE: Final = 5
"""After so many fires others get a turn: asking calendars for one takes up to some 10 ms."""
SHUT_MAX: Final = 20
"""After so many fires in a row that nothing opens for, for years, the list ends."""
CLOSED_FOR_GOOD: Final = "calendars and windows open for no time in years, so the list ends here"
MAX_RECORDS: Final = 1_000
"""The most records that one preview looks at; it shows no more fires than that."""
NO_JOB: Final = UUID(int=0)
"""Stands for the job that an unsaved schedule has not got."""


class OccurrenceFate(StrEnum):
    """The fate of an occurrence, as far as it is known."""

    FIRE = "fire"
    SKIP = "skip"
    DEFER = "defer"


class PlannedFire(NamedTuple):
    """One occurrence to come."""

    instant: float
    local: datetime
    """On the job's clock."""
    viewer: datetime
    """On the viewer's."""
    clock_change: bool
    """The job's clock is changed on this day."""
    fate: OccurrenceFate
    due: float | None
    """The due time of its run; None if it is skipped."""
    note: str | None
    """Its marks: a change of the clock, a calendar, a window."""


class Preview(NamedTuple):
    """The preview of a schedule."""

    schedule: Schedule
    explanation: str
    viewer_timezone: str
    warnings: tuple[str, ...]
    fires: tuple[PlannedFire, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """From when on, how far, and for whom."""

    start: datetime | None = None
    """Fires strictly after this; None: now."""
    count: int = 20
    viewer_timezone: str | None = None


class Previews:
    """Previews saved and unsaved schedules."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    async def preview_job(self, who: Principal, job_id: UUID, look: Look) -> Preview:
        """Preview a job's schedule. While the job is paused or cancelled, each occurrence is skipped, and says why.
        Raises `NotFound`, `Invalid`."""
        row = await self._context.job(who, job_id)
        now = await self._context.time.now()
        plan = decode_definition(row.definition)
        rules = await rules_for(self._context, ruled(row), plan.calendars)
        fired = 0 if row.timer is None else row.timer.fired
        schedule = plan.schedule(job_id)
        recorded = await self._previewed_records(row, schedule, look, now)
        shown = _Shown(schedule, rules, fired, recorded, *_stopped(row))
        return await self._preview(shown, look, now)

    async def _previewed_records(self, row: JobRow, schedule: Schedule, look: Look, now: float) -> list[RunRow]:
        """The records of the occurrences that the preview shows, and of earlier ones that have yet to run."""
        after = now if look.start is None else instant_within(look.start, "/from")
        last = max(upcoming(schedule, after, look.count), default=after)
        mine = RunQuery(
            namespace=row.namespace, job_id=row.job_id, triggers=(Trigger.SCHEDULE,), limit=MAX_RECORDS, texts=NO_TEXT
        )
        ahead = await self._context.store.searches.runs(
            replace(mine, after=name_before(schedules.just_after(after)), before=name_from(last + 0.001))
        )
        moved = await self._context.store.searches.runs(
            replace(mine, states=(RunState.QUEUED, RunState.DISPATCHED), due_after=schedules.just_after(after))
        )
        found = {run.run_id: run for run in (*ahead, *moved) if run.nominal_at > after or look.start is None}
        return sorted(found.values(), key=lambda run: run.nominal_at)

    async def preview(self, who: Principal, body: PreviewBody) -> Preview:
        """Preview a schedule as if it were saved now. Raises `Invalid`, and `Forbidden` for labels that the caller may
        not give a job."""
        check_labels(who, body.labels or {})
        now = await self._context.time.now()
        timing = planned(body, NO_JOB, now)
        uses = timing.plan.calendars
        if uses:
            check_calendars(uses, await calendars_known(self._context, who.namespace, {use.name for use in uses}))
        job = RuledJob(NO_JOB, who.namespace, Lane().queue, body.labels or {})
        rules = await rules_for(self._context, job, uses)
        look = Look(
            start=body.start,
            count=body.count,
            viewer_timezone=body.viewer_timezone,
        )
        found = await self._preview(_Shown(timing.plan.schedule(NO_JOB), rules, 0), look, now)
        seedless = () if timing.plan.cron_expression is None else cron.parse(timing.plan.cron_expression).warnings()
        return found._replace(warnings=tuple(dict.fromkeys((*timing.warnings, *seedless, *found.warnings))))

    async def _preview(self, shown: _Shown, look: Look, now: float) -> Preview:
        schedule = shown.schedule
        try:
            viewer = zone_named(look.viewer_timezone or schedule.timezone)
        except Invalid as refusal:
            refusal.pointer = "/viewer_timezone"
            raise
        after = now if look.start is None else instant_within(look.start, "/from")
        # Runs that a person moved beyond their own time come first.
        fires = [
            _fire(schedule, run.nominal_at, viewer, None, run) for run in shown.recorded if run.nominal_at <= after
        ]
        fires = fires[: look.count]
        running = shut = 0
        left = None if schedule.max_runs is None else max(0, schedule.max_runs - shown.fired)
        for due in upcoming(schedule, after, look.count - len(fires)):
            record = shown.record_of(due)
            if record is not None:
                fires.append(_fire(schedule, due, viewer, None, record))
                continue
            if left is not None and running >= left:
                break
            if due < shown.stopped_until:
                stopped = _fire(schedule, due, viewer, None, None)
                notes = "; ".join(note for note in (stopped.note, shown.stopped_by) if note)
                fires.append(stopped._replace(fate=OccurrenceFate.SKIP, due=None, note=notes))
                continue
            verdict = None if shown.rules is None else shown.rules.verdict(due)
            closed = verdict if isinstance(verdict, Closed) else None
            fires.append(_fire(schedule, due, viewer, closed, None))
            running += fires[-1].fate is not OccurrenceFate.SKIP
            shut = shut + 1 if closed is not None and closed.opens is None else 0
            if shut == SHUT_MAX:
                break
            if len(fires) % SLICE == 0:
                await self._context.clock.sleep(0)
        return Preview(
            schedule,
            schedules.explain(schedule),
            look.viewer_timezone or schedule.timezone,
            (
                *schedules.warnings(schedule),
                *_left_out(schedule, after, fires),
                *((CLOSED_FOR_GOOD,) if shut == SHUT_MAX else ()),
            ),
            tuple(fires),
        )


class _Shown(NamedTuple):
    """A schedule with all that it goes by."""

    schedule: Schedule
    rules: ScheduleRules | None
    fired: int
    recorded: Sequence[RunRow] = ()
    """The earliest nominal time first."""
    stopped_until: float = 0.0
    stopped_by: str | None = None
    """The reason why nothing runs before that."""

    def record_of(self, nominal: float) -> RunRow | None:
        """The run, or the record, of an occurrence."""
        for run in self.recorded:
            last = run.nominal_at if run.until is None else run.until
            if round(run.nominal_at, 6) <= round(nominal, 6) <= round(last, 6):
                return run
        return None


def _stopped(row: JobRow) -> tuple[float, str | None]:
    """Until when no occurrence of the job runs, and why."""
    if row.status is JobStatus.CANCELLED:
        return NEVER, "the job is cancelled, for good"
    if row.status is JobStatus.PAUSED:
        return NEVER if row.pause_until is None else row.pause_until, paused_note(row)
    return 0.0, None


def _left_out(schedule: Schedule, after: float, fires: list[PlannedFire]) -> tuple[str, ...]:
    """The times that the clock skips meanwhile, where the job wants them skipped: no occurrence above stands for
    them."""
    if not fires or schedule.type is not ScheduleType.CRON:
        return ()
    gaps = schedules.gap_skips(schedule, after, min(fires[-1].instant, after + GAPS_SECONDS))
    return tuple(f"{written(gap.instant)}: {gap.sentence()}" for gap in gaps[:GAPS_MAX])


def _fire(
    schedule: Schedule, nominal: float, viewer: ZoneInfo, closed: Closed | None, record: RunRow | None
) -> PlannedFire:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=round(nominal * 1_000_000))
    zone = zone_named(schedule.timezone)
    local = moment.astimezone(zone)
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    # Wall-clock arithmetic: the next midnight on that clock, however long the day is.
    following = midnight + timedelta(days=1)
    notes = []
    if schedule.type is ScheduleType.CRON:
        line = cron.parse(schedule.cron_expression or "", schedule.seed)
        notes.append(line.note_at(int(nominal), zone, schedule.dst))
    fate, opens = OccurrenceFate.FIRE, nominal
    if closed is not None:
        notes.append(closed.sentence)
        fate = OccurrenceFate.SKIP
        if closed.otherwise is Otherwise.DEFER and closed.opens is not None:
            fate, opens = OccurrenceFate.DEFER, closed.opens
            notes.append(f"deferred to {written(opens)}; occurrences deferred to one time become one run")
    due = opens + spread(schedule, nominal)
    if record is not None:
        fate, due, note = _on_record(record, due)
        notes.append(note)
    return PlannedFire(
        instant=nominal,
        local=local,
        viewer=moment.astimezone(viewer),
        clock_change=midnight.utcoffset() != following.utcoffset(),
        fate=fate,
        due=None if fate is OccurrenceFate.SKIP else due,
        note="; ".join(note for note in notes if note) or None,
    )


def _on_record(record: RunRow, due: float) -> tuple[OccurrenceFate, float, str | None]:
    """The fate of an occurrence that is a run, or a record, already; it would be due at `due`."""
    if record.state is RunState.SKIPPED:
        return OccurrenceFate.SKIP, due, record.error
    if record.state is RunState.CANCELLED:
        return OccurrenceFate.SKIP, due, record.error or "its run was cancelled"
    if record.due_at > due + 0.001:
        return OccurrenceFate.DEFER, record.due_at, f"snoozed to {written(record.due_at)}"
    return OccurrenceFate.FIRE, record.due_at, None
