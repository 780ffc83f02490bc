"""Rows of jobs and runs as several pages show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from tickwise.control.jobs.next_run import next_run_of
from tickwise.control.jobs.presence import Doing, PersonAtJob
from tickwise.control.jobs.saved_views import may_share_views
from tickwise.documents.definition import Definition, decode_definition
from tickwise.domain import schedule as schedules
from tickwise.domain.errors import Forbidden, Invalid, Unavailable
from tickwise.domain.lifecycle import RunState
from tickwise.ports.paging import SearchPlace
from tickwise.ports.store import JobRow, RunRow
from tickwise.web.charts import quantile
from tickwise.web.texts import STRIP
from tickwise.web.visit import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLine:
    """A job in a list."""

    row: JobRow
    definition: Definition
    schedule: str
    """In English."""
    next_run: float | None
    runs: Sequence[RunRow] = ()
    """The latest, newest first."""

    @property
    def ended(self) -> Sequence[RunRow]:
        """Of these, those that came to an end of their own."""
        return [run for run in self.runs if run.state in (RunState.SUCCESS, RunState.FAILED)]

    @property
    def succeeded(self) -> int:
        """Of these, the ones that succeeded."""
        return sum(run.state is RunState.SUCCESS for run in self.ended)

    @property
    def lateness(self) -> float | None:
        """The median of how late the latest runs began."""
        return quantile([late for run in self.runs if (late := lateness_of(run)) is not None], 0.5)


def lateness_of(run: RunRow, firsts: Mapping[UUID, float] | None = None) -> float | None:
    """The seconds from its due time to the start of its first attempt, of which `firsts` tells if there was another
    one; None: it has not begun, or it is not known."""
    began = (firsts or {}).get(run.run_id) if run.attempt > 1 else run.started_at
    return None if began is None else max(0.0, began - run.due_at)


async def lateness_with_retries(visit: Visit, rows: Sequence[RunRow]) -> Callable[[RunRow], float | None]:
    """`lateness_of` for these runs, also for those that were tried again."""
    firsts = await visit.control.runs.first_starts(visit.who, rows)
    return lambda run: lateness_of(run, firsts)


def took(run: RunRow) -> float | None:
    """The seconds that its last attempt took; None: it has not ended, or never began."""
    if run.started_at is None or run.ended_at is None:
        return None
    return max(0.0, run.ended_at - run.started_at)


def job_line(row: JobRow, runs: Sequence[RunRow] = ()) -> JobLine:
    """A job as a list shows it."""
    definition = decode_definition(row.definition)
    try:
        said = schedules.explain(definition.schedule(row.job_id))
    except Invalid as fault:
        said = f"cannot be read by this version: {fault.detail}"
    return JobLine(row=row, definition=definition, schedule=said, next_run=next_run_of(row, definition), runs=runs)


async def with_strips(visit: Visit, rows: Sequence[JobRow]) -> list[JobLine]:
    """Jobs with their latest runs, if the visitor may see these."""
    runs = visit.control.runs
    found: Mapping[UUID, Sequence[RunRow]] = {}
    if visit.may(type(runs).latest):
        found = await runs.latest(visit.who, [row.job_id for row in rows], STRIP)
    return [job_line(row, found.get(row.job_id, ())) for row in rows]


async def views_of_list(visit: Visit, path: str, filters: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The saved views of a list, and what its form saves. None: they cannot be read, or the list alone is renewed."""
    service = visit.control.saved_views
    if visit.part == "live" or not visit.may(type(service).page):
        return None
    try:
        found = await service.page(visit.who)
    except (Forbidden, Unavailable):
        return None
    return {
        "path": path,
        "query": urlencode(filters, doseq=True),
        "views": [view for view in found if view.path == path],
        "may_share": may_share_views(visit.who),
    }


def next_page(visit: Visit, path: str, filters: Mapping[str, Any], place: SearchPlace | None) -> str | None:
    """The address of the page of a list that begins at this place."""
    if place is None:
        return None
    return visit.url(path, **filters, cursor=place.before, rest="1" if place.is_rest else place.rest_from)


async def others_at(visit: Visit, job: JobRow, doing: Doing) -> Sequence[PersonAtJob]:
    """The other people who have the job open, if the visitor may change it."""
    presence = visit.control.presence
    return await presence.meet(visit.who, job, doing) if visit.may(type(presence).meet) else ()


async def error_groups(visit: Visit, run_ids: Sequence[UUID]) -> Mapping[UUID, UUID]:
    """The groups of errors of runs that failed for good; none if the visitor may not see them."""
    errors = visit.control.errors
    return await errors.of_runs(visit.who, run_ids) if run_ids and visit.may(type(errors).of_runs) else {}


async def job_names(visit: Visit, job_ids: Iterable[UUID]) -> Mapping[UUID, str]:
    """The names of jobs; nothing of those that are gone, or that the visitor may not see."""
    jobs = visit.control.jobs
    return await jobs.names(visit.who, list(dict.fromkeys(job_ids))) if visit.may(type(jobs).names) else {}


async def jobs_of(visit: Visit, job_ids: Iterable[UUID]) -> Mapping[UUID, JobRow]:
    """Jobs with their definitions; nothing of those that are gone, or that the visitor may not see."""
    jobs = visit.control.jobs
    return await jobs.several(visit.who, list(dict.fromkeys(job_ids))) if visit.may(type(jobs).several) else {}
