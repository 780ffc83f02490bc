"""One time line of a job's occurrences: what became of the past ones, what is held back, what becomes of those to come.

        runs and SKIPPED records ──┐
        the timer's open ones ─────┼──► by name (run id) ──► a page, the earliest first
        the schedule's next ones ──┘

Names begin with the nominal time and are the same before and after an occurrence is on record. So one key orders all
three, a page goes on where the last one ended though time has passed, and what is on record hides what was computed.
A run that people request beside the schedule (run now, retry) is no occurrence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.control.context import ControlContext
from tickwise.control.jobs.replans import paused_note
from tickwise.control.rules import ruled, rules_for
from tickwise.control.schedules.previews import OccurrenceFate
from tickwise.control.times import written
from tickwise.documents.definition import decode_definition
from tickwise.domain import schedule as schedules
from tickwise.domain.calendar.rules import Closed, Otherwise, ScheduleRules
from tickwise.domain.cron import expression as cron
from tickwise.domain.decision import Hold, SkipReason, TimerState, decide, spread
from tickwise.domain.errors import Invalid
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import BELOW_MILLIS, Principal, Trigger, id_instant, name_before, name_from, run_id
from tickwise.domain.schedule import Schedule, ScheduleType
from tickwise.domain.zones import LAST_INSTANT, zone_named
from tickwise.ports.store import NO_TEXT, JobRow, RunQuery, RunRow

MAX_PAGE: Final = 1_000
USUAL_SECONDS: Final = 86_400.0
"""The range before and after now if the request names none."""
OF_SCHEDULE: Final = (Trigger.SCHEDULE, Trigger.MISSED, Trigger.BACKFILL)
MAX_RANGES: Final = 10
"""The most records before the range that are looked at for one that reaches into it."""
MAX_COUNTED: Final = 10_000
"""Occurrences to come that are counted one by one until a schedule with `max_runs` has made all its runs."""
TOLD_UNTIL: Final = LAST_INSTANT - 6 * 366 * 86_400.0
"""Later occurrences are not told of: a calendar may move one by years, beyond what can be written as a date."""
GAPS_AHEAD_SECONDS: Final = 366 * 86_400.0
MAX_DECISIONS: Final = 10
"""Of what is overdue, each of up to `MAX_PAGE` occurrences; the work of a scheduler's next looks."""
_WIDENED: Final = 2


class OccurrenceKind(StrEnum):
    """The relation of an occurrence to now."""

    PAST = "past"
    """Its time has come, and it is on record."""
    PENDING = "pending"
    """Its time has come, and nothing is on record yet: it is held back, or a scheduler is about to decide it."""
    FUTURE = "future"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The part of the time line."""

    start: float | None = None
    """None: a day ago."""
    end: float | None = None
    """None: a day ahead. Included, as `start` is."""
    after: UUID | None = None
    """Those behind this name only: the last one of the page before."""
    limit: int = 100


class Occurrence(NamedTuple):
    """One occurrence, or several that are told of together."""

    name: UUID
    """The id of its run, or of its record."""
    nominal: float
    due: float | None
    """The due time of its run; None: it does not run."""
    kind: OccurrenceKind
    outcome: RunState | OccurrenceFate
    """Its record, or else its fate as far as it is known."""
    trigger: int = Trigger.SCHEDULE
    reason: str | None = None
    occurrences: int = 1
    until: float | None = None
    """Of several: the nominal time of the last."""
    note: str | None = None
    recorded: bool = False


class TimeLine(NamedTuple):
    """A page."""

    occurrences: tuple[Occurrence, ...]
    more: bool


class TimeLines:
    """Reads the time lines of jobs."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    async def occurrences(self, who: Principal, job_id: UUID, section: Section) -> TimeLine:
        """A page of a job's time line. Raises `NotFound`, `Invalid`."""
        row = await self._context.job(who, job_id)
        now = await self._context.time.now()
        start = now - USUAL_SECONDS if section.start is None else section.start
        end = now + USUAL_SECONDS if section.end is None else section.end
        if end < start:
            raise Invalid(f"to must not come before from, {written(start)}; give a later time", pointer="/to")
        limit = min(section.limit, MAX_PAGE)
        plan = decode_definition(row.definition)
        rules = await rules_for(self._context, ruled(row), plan.calendars)
        outlook = Outlook(row, plan.schedule(job_id), rules, now)
        records = await self._records(row, start, end, section.after, limit + 1)
        found = {each.run_id: outlook.recorded(each) for each in records}
        # Behind the cursor, no earlier than the range; names say milliseconds.
        first = start if section.after is None else max(start, id_instant(section.after) - 0.001)
        # One more than for the records: the one at the cursor itself is among them.
        for each in outlook.computed(first, end, limit + 2):
            if each.nominal > end or (section.after is not None and each.name <= section.after):
                continue
            if (each.until or each.nominal) >= start:
                found.setdefault(each.name, each)
        page = sorted(found.values(), key=lambda each: each.name)
        return TimeLine(tuple(page[:limit]), len(page) > limit)

    async def _records(self, row: JobRow, start: float, end: float, after: UUID | None, limit: int) -> list[RunRow]:
        """The records of occurrences of this period, the earliest `limit`."""
        found: list[RunRow] = []
        first = name_before(start)
        if after is None:
            earlier = await self._context.store.searches.runs(
                RunQuery(
                    namespace=row.namespace,
                    job_id=row.job_id,
                    states=(RunState.SKIPPED,),
                    triggers=(Trigger.SCHEDULE,),
                    before=name_from(start),
                    limit=MAX_RANGES,
                    texts=NO_TEXT,
                )
            )
            found = [each for each in earlier if each.until is not None and each.until >= start]
        elif first is None or after > first:
            first = after
        found += await self._earliest(row, first, name_from(end + 0.001), limit)
        return [each for each in found if (each.until or each.nominal_at) >= start and each.nominal_at <= end]

    async def _earliest(self, row: JobRow, after: UUID | None, before: UUID, limit: int) -> list[RunRow]:
        """The earliest `limit` records between two names. A store lists the newest first, so a time that holds more is
        made shorter, by how close those were that it told of."""
        found: list[RunRow] = []
        low = 0 if after is None else after.int
        high = before.int
        width = high - low
        while len(found) < limit and low < high - 1:
            top = min(low + width, high)
            rows = await self._listed(row, low, top, limit)
            if len(rows) >= limit and top - low > 1 << BELOW_MILLIS:
                close = top - rows[-1].run_id.int
                width = max(min(close * 9 // 10, (top - low) // 2), 1 << BELOW_MILLIS)
                continue
            while len(rows) >= limit and (rest := await self._listed(row, low, rows[-1].run_id.int, limit)):
                rows += rest  # all of one millisecond
            found += reversed(rows)
            low, width = top - 1, width * _WIDENED
        return found[:limit]

    async def _listed(self, row: JobRow, low: int, top: int, limit: int) -> list[RunRow]:
        query = RunQuery(
            namespace=row.namespace,
            job_id=row.job_id,
            triggers=OF_SCHEDULE,
            after=UUID(int=low) if low else None,
            before=UUID(int=top),
            limit=limit,
            texts=NO_TEXT,
        )
        return list(await self._context.store.searches.runs(query))


# ------------------------------------------------------------------------------------------ what is not on record


@dataclass(frozen=True, slots=True)
class Outlook:
    """A job's schedule as it stands, with all that decides what becomes of its occurrences."""

    row: JobRow
    schedule: Schedule
    rules: ScheduleRules | None
    now: float

    def recorded(self, run: RunRow) -> Occurrence:
        """The recorded occurrences."""
        skipped = run.state is RunState.SKIPPED
        note = run.error if skipped else self._clock_note(run.nominal_at)
        return Occurrence(
            name=run.run_id,
            nominal=run.nominal_at,
            due=None if skipped else run.due_at,
            kind=OccurrenceKind.PAST if run.nominal_at <= self.now else OccurrenceKind.FUTURE,
            outcome=run.state,
            trigger=run.trigger,
            reason=run.reason,
            occurrences=run.occurrences,
            until=run.until if run.occurrences > 1 else None,
            note=note,
            recorded=True,
        )

    def computed(self, start: float, end: float, limit: int) -> list[Occurrence]:
        """Pending occurrences, and those to come from `start` to `end`, the earliest first, at most about `limit`."""
        pending, timer = self._overdue()
        if timer is None:
            return pending
        if timer.hold is not None and timer.first_open <= self.now:
            pending.append(self._held(timer))
        found: list[Occurrence] = []
        for each in takewhile(lambda each: each.nominal <= end, self._coming(timer, start)):
            if each.nominal >= start:
                found.append(each)
            if len(found) >= limit:
                break
        return [*pending, *found, *self._lost(start, end, found[-1].nominal if len(found) >= limit else None)]

    def next_after(self, instant: float) -> Iterator[Occurrence]:
        """The coming occurrences, strictly after `instant`."""
        _, timer = self._overdue()
        if timer is None:
            return iter(())
        return (each for each in self._coming(timer, schedules.just_after(instant)) if each.nominal > instant)

    def _overdue(self) -> tuple[list[Occurrence], TimerState | None]:
        """The decision of the next look of a scheduler, and the timer after it."""
        found: list[Occurrence] = []
        timer = self.row.timer
        for _ in range(MAX_DECISIONS):
            if timer is None or timer.due > self.now:
                break
            decision = decide(self.schedule, timer, now=self.now, until=self.now, rules=self.rules, limit=MAX_PAGE)
            found += [self._pending(fire.nominal, OccurrenceFate.FIRE, due=fire.due) for fire in decision.fires]
            for skip in decision.skips:
                several = skip.until if skip.occurrences > 1 else None
                each = self._pending(skip.nominal, OccurrenceFate.SKIP, reason=skip.reason, note=skip.sentence)
                found.append(each._replace(occurrences=skip.occurrences, until=several))
            timer = decision.next
        return found, timer

    def _pending(
        self,
        nominal: float,
        fate: OccurrenceFate,
        *,
        due: float | None = None,
        reason: SkipReason | Hold | None = None,
        note: str | None = None,
    ) -> Occurrence:
        request = SkipReason.DST.value.encode() if reason is SkipReason.DST else b""
        return Occurrence(
            name=run_id(self.row.job_id, nominal, request=request),
            nominal=nominal,
            due=due,
            kind=OccurrenceKind.PENDING,
            outcome=fate,
            reason=None if reason is None else reason.value,
            note=note,
        )

    def _held(self, timer: TimerState) -> Occurrence:
        """All that is held back until now, as one."""
        since, hold = timer.first_open, timer.hold
        if hold is Hold.PAUSED:
            found = self._pending(since, OccurrenceFate.SKIP, reason=hold, note=paused_note(self.row))
        else:
            found = self._future(since)._replace(kind=OccurrenceKind.PENDING)
            if found.outcome is OccurrenceFate.FIRE:  # no rule closes it any more, so the next look lets it run
                found = found._replace(reason=None if hold is None else hold.value)
        if not self.schedule.recurs:
            return found
        count = 1 + schedules.count_between(self.schedule, schedules.just_after(since), schedules.just_after(self.now))
        last = schedules.latest_fire(self.schedule, self.now)
        return found._replace(occurrences=count, until=None if count == 1 or last is None else max(last, since))

    def _coming(self, timer: TimerState, start: float) -> Iterator[Occurrence]:
        """The occurrences after now, from about `start` on. A job with `max_runs` is counted from the first one on."""
        schedule, most = self.schedule, self.schedule.max_runs
        left = math.inf if most is None else most - timer.fired
        at = timer.first_open if timer.first_open > self.now else self._after(self.now)
        if most is None and schedule.recurs and at is not None and at < start:
            at = schedules.first_fire(schedule, start)
        counted = 0
        while at is not None and at <= TOLD_UNTIL and left > 0:
            found = self._future(at, timer)
            yield found
            left -= found.outcome is not OccurrenceFate.SKIP
            counted += 1
            if most is not None and counted > MAX_COUNTED:
                raise Invalid(
                    f"its runs are limited by max_runs, and more than {MAX_COUNTED} occurrences lie before the end of "
                    "this range; ask for an earlier time",
                    pointer="/to",
                )
            at = self._after(at)

    def _after(self, instant: float) -> float | None:
        return schedules.next_fire(self.schedule, instant) if self.schedule.recurs else None

    def _future(self, nominal: float, timer: TimerState | None = None) -> Occurrence:
        """The fate of one occurrence to come, by the present rules."""
        found = self._pending(nominal, OccurrenceFate.FIRE)._replace(kind=OccurrenceKind.FUTURE)
        note = self._clock_note(nominal)
        if timer is not None and timer.hold is Hold.PAUSED and nominal < timer.due:
            return found._replace(
                outcome=OccurrenceFate.SKIP, reason=SkipReason.PAUSED.value, note=paused_note(self.row)
            )
        opens = nominal
        verdict = self._closed(nominal)
        if verdict is not None:
            note = "; ".join(part for part in (note, verdict.sentence) if part)
            found = found._replace(reason=verdict.reason.value)
            if verdict.otherwise is Otherwise.SKIP or verdict.opens is None:
                return found._replace(outcome=OccurrenceFate.SKIP, note=note)
            opens = verdict.opens
            found = found._replace(outcome=OccurrenceFate.DEFER)
            note += f"; deferred to {written(opens)}; occurrences deferred to one time become one run"
        return found._replace(due=self._started(opens, opens + spread(self.schedule, nominal)), note=note)

    def _started(self, earliest: float, due: float) -> float:
        """No run starts in a closed time, though its spread leads there."""
        if self._closed(due) is None:
            return due
        closed = self._closed(earliest)
        return earliest if closed is None or closed.opens is None else closed.opens

    def _lost(self, start: float, end: float, last: float | None) -> Iterable[Occurrence]:
        """Times to come that the clock skips, and the schedule with it."""
        schedule = self.schedule
        first = max(self.now, start)
        until = min(end, first + GAPS_AHEAD_SECONDS) if last is None else last
        if schedule.end_at is not None:
            until = min(until, schedule.end_at)
        if schedule.timezone == "UTC" or until <= first or schedule.max_runs is not None:
            return
        for gap in schedules.gap_skips(schedule, first, until):
            found = self._pending(float(gap.instant), OccurrenceFate.SKIP, reason=SkipReason.DST, note=gap.sentence())
            yield found._replace(kind=OccurrenceKind.FUTURE, occurrences=gap.count)

    def _closed(self, instant: float) -> Closed | None:
        verdict = None if self.rules is None else self.rules.verdict(instant)
        return verdict if isinstance(verdict, Closed) else None

    def _clock_note(self, nominal: float) -> str | None:
        schedule = self.schedule
        if schedule.type is not ScheduleType.CRON or schedule.timezone == "UTC":
            return None
        if schedule.planned_at is not None and nominal < schedule.planned_at:
            return None  # another schedule named it
        line = cron.parse(schedule.cron_expression or "", schedule.seed)
        return line.note_at(int(nominal), zone_named(schedule.timezone), schedule.dst)
