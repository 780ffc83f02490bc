"""Explanations of a job at a time at which it has no run: pure, from the job as it stands.

paused | held back | to come | coming next | on demand | over | changed | unrecorded
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from tickwise.control.explain.explanations import (
    Because,
    Explanation,
    last_stop,
    lasting,
    sentence,
    stop_data,
    stop_words,
)
from tickwise.control.explain.standing import EXACT_SECONDS, Standing
from tickwise.control.jobs.replans import pause_words
from tickwise.control.schedules.occurrences import (
    Occurrence,
)
from tickwise.control.schedules.previews import OccurrenceFate
from tickwise.control.times import written
from tickwise.domain import schedule as schedules
from tickwise.domain.decision import Hold, SkipReason
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.pauses import FUSE

MAX_PASSED_OVER: Final = 1_000
"""Occurrences to come that are skipped, in search of one that is not."""


def paused(standing: Standing) -> Explanation:
    row = standing.row
    words = f"the job is {pause_words(row, standing.said)}"
    data = {
        "paused_by": row.paused_by,
        "paused_time": None if row.paused_at is None else written(row.paused_at),
        "paused_until": None if row.pause_until is None else written(row.pause_until),
        "reason": row.pause_reason,
    }
    code = Because.PAUSED_FUSE if row.paused_by == FUSE else Because.PAUSED
    return Explanation(code=code, sentence=sentence(words), data=data)


def held_back(standing: Standing, each: Occurrence, until: float) -> Explanation:
    stop = None if standing.rules is None else last_stop(standing.rules.stops, standing.now)
    code = Because.HELD_MAINTENANCE if each.reason == Hold.MAINTENANCE.value else Because.HELD_CALENDAR
    if each.reason == SkipReason.STOPPED.value and stop is not None:
        code = Because.HELD_STOPPED
    several = "" if each.occurrences == 1 else f" and {each.occurrences - 1} after it"
    lifted = code is Because.HELD_STOPPED and stop is not None and stop.open_ended
    end = "the stop is lifted" if lifted else standing.said(until)
    words = f"the occurrence of {standing.said(each.nominal)}{several} is held back until {end}"
    if each.outcome is OccurrenceFate.SKIP:
        words += ", and will not run then"
    elif several:
        words += ", and will be one run then"
    words += _because(each)
    data = {
        "nominal_time": written(each.nominal),
        "occurrences": each.occurrences,
        "held_until": None if lifted else written(until),
        "outcome": each.outcome.value,
        **(stop_data(stop) if stop is not None and code is Because.HELD_STOPPED else {}),
    }
    return Explanation(code=code, sentence=sentence(words), data=data)


def to_come(standing: Standing, each: Occurrence) -> Explanation:
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


def coming_next(standing: Standing) -> Explanation:
    """Explain a job with nothing due, by its next occurrence."""
    passed: list[Occurrence] = []
    coming: Occurrence | None = None
    for each in islice(standing.outlook.next_after(standing.now), MAX_PASSED_OVER):
        if each.outcome is not OccurrenceFate.SKIP:
            coming = each
            break
        passed.append(each)
    if coming is None and not passed:
        return over(standing)
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


def on_demand(standing: Standing) -> Explanation:
    """Explain a job without a schedule."""
    if standing.row.status is JobStatus.CANCELLED:
        return over(standing)
    words = f"the job has no schedule: it runs {schedules.explain(standing.schedule)}"
    stop = None if standing.rules is None else last_stop(standing.rules.stops, standing.now)
    if stop is not None:
        words = f"{stop_words(stop, standing.said)}; runs of the job are asked for, and wait until then"
        return Explanation(code=Because.HELD_STOPPED, sentence=sentence(words), data=stop_data(stop))
    return Explanation(code=Because.ON_DEMAND, sentence=sentence(words))


def over(standing: Standing) -> Explanation:
    """Explain a job that never fires again."""
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


def changed(standing: Standing) -> Explanation:
    since = standing.counts_from
    words = f"the schedule was changed at {standing.said(since)}; the record does not hold the schedule before that"
    return Explanation(code=Because.SCHEDULE_CHANGED, sentence=sentence(words), data={"changed_time": written(since)})


def unrecorded(standing: Standing, nominal: float, kept_seconds: float | None) -> Explanation:
    """Neither on record nor open."""
    row, now = standing.row, standing.now
    data = {"nominal_time": written(nominal)}
    if kept_seconds is not None and nominal < now - kept_seconds:
        words = (
            f"the occurrence of {standing.said(nominal)} is {lasting(now - nominal)} ago, and runs are kept for "
            f"{lasting(kept_seconds)}: its record is deleted"
        )
        return Explanation(code=Because.FORGOTTEN, sentence=sentence(words), data=data)
    if row.status is JobStatus.CANCELLED and row.updated_at <= nominal:
        return over(standing)
    if nominal < standing.counts_from - EXACT_SECONDS:
        return changed(standing)
    if nominal > now or row.timer is None:
        return over(standing)
    words = f"nothing is on record of the occurrence of {standing.said(nominal)}"
    return Explanation(code=Because.UNKNOWN, sentence=sentence(words), data=data)
