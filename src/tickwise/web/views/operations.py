"""Operations over many things: the list, and one with its progress, its refusals, a stop and the way back.

What an operation was carried out on is found by how it is now: the store keeps counts and the first refusals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

import msgspec
from msgspec import UNSET
from starlette.responses import RedirectResponse, Response

from tickwise.control.bulk.operations import OperationService
from tickwise.control.bulk.pages import BulkProblem, OperationKind, StoredRequest
from tickwise.control.filters import JobsFilter, RunsFilter, jobs_queries, runs_query
from tickwise.control.jobs.service import JobService
from tickwise.control.runs.service import RunService
from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.domain.model import Trigger, id_instant, time_id
from tickwise.domain.permissions import Permission
from tickwise.ports.store import JobRow, OperationRow, OperationStatus, RunQuery, RunRow
from tickwise.web import forms
from tickwise.web.page import WebPage
from tickwise.web.views.bulk import BY_KIND, ROUTE, ROWS, SEE_OTHER, Deed, Filter, filter_words
from tickwise.web.views.rows import job_names
from tickwise.web.visit import Visit

PAGE_SIZE: Final = 25
AFFECTED: Final = 10
"""Rows that an operation was carried out on, as its page shows them, …"""
LOOKED_AT: Final = 25
"""… of so many that are looked at."""
OTHER_TITLES: Final = {
    OperationKind.LETTERS_REDRIVE: "Redrive dead letters",
    OperationKind.LETTERS_DISCARD: "Discard dead letters",
    OperationKind.JOB_CREATE: "Create a job",
    OperationKind.JOB_CHANGE: "Change a job",
    OperationKind.JOB_CANCEL: "Cancel a job",
}

_requests: Final = msgspec.json.Decoder(StoredRequest)
_problems: Final = msgspec.json.Decoder(list[BulkProblem])
_jobs: Final = msgspec.json.Decoder(JobsFilter)
_runs: Final = msgspec.json.Decoder(RunsFilter)


def title_of(kind: str) -> str:
    """The kind of an operation in words."""
    return BY_KIND[kind].title if kind in BY_KIND else OTHER_TITLES.get(kind, kind)


async def operations_page(visit: Visit) -> Response:
    """Operations, the newest first."""
    before = forms.identifier(visit.query.get("cursor"), "cursor")
    rows = await visit.control.bulk.page(visit.who, before, PAGE_SIZE + 1)
    shown, more = rows[:PAGE_SIZE], rows.is_full(PAGE_SIZE + 1)
    values = {
        "operations": shown,
        "title_of": title_of,
        "next": visit.url(ROUTE, cursor=shown[-1].operation_id) if more else None,
        "first": visit.url(ROUTE) if before else None,
    }
    return visit.page("bulk_list.html", values)


async def operation_page(visit: Visit) -> Response:
    """One operation, and how far it has come."""
    row = await visit.control.bulk.get(visit.who, visit.uuid("operation_id", "operation"))
    deed = BY_KIND.get(row.kind)
    request = _requests.decode(row.request) if deed is not None and _sees_request(visit, row, deed) else None
    said = None
    if request is not None and deed is not None:
        said = (_jobs if deed.thing == "jobs" else _runs).decode(request.filter)
    jobs, runs = await _affected(visit, row, deed, said)
    problems = _problems.decode(row.problems)
    total = row.matched
    values = {
        "row": row,
        "deed": deed,
        "title": title_of(row.kind),
        "running": row.status is OperationStatus.RUNNING,
        "may_stop": visit.may(OperationService.cancel),
        "request": request,
        "words": [] if said is None else filter_words(said),
        "everything": said is not None and said.all,
        "problems": problems,
        "share": _share(row.done, total),
        "refused_share": _share(row.refused, total),
        "seconds_left": _seconds_left(row),
        "reached": _reached(row, deed),
        "jobs": jobs,
        "runs": runs,
        "names": await job_names(visit, [run.job_id for run in runs]),
        "by_rows": isinstance(said, JobsFilter) and bool(said.job_ids),
        "undo": _undo(visit, deed, said),
        "ended": row.ended_at or row.updated_at,
    }
    return visit.page("bulk.html", values)


def _share(part: int, whole: int | None) -> float:
    """Of a bar of 100."""
    return 0.0 if not whole else min(100.0, 100.0 * part / whole)


def _seconds_left(row: OperationRow) -> float | None:
    """By its pace so far; None: nobody knows."""
    over = row.done + row.refused
    if row.status is not OperationStatus.RUNNING or row.matched is None or not over or row.matched <= over:
        return None
    return (row.updated_at - row.created_at) * (row.matched - over) / over


def _reached(row: OperationRow, deed: Deed | None) -> float | None:
    """The time of the job or run at which it goes on, by its id. None: it has not begun, or is over."""
    if deed is None or row.status is not OperationStatus.RUNNING or row.cursor is None:
        return None
    instant = id_instant(UUID(row.cursor))
    return instant if instant <= row.created_at else None  # an id that somebody chose says nothing


def _sees_request(visit: Visit, row: OperationRow, deed: Deed) -> bool:
    """Check whether the visitor sees what was asked for: those who may read all such things, and the one who asked."""
    who, asker = visit.who, row.asker
    is_own = asker is not None and (
        asker.user_id == who.user_id if asker.user_id or who.user_id else asker.key_id == who.key_id
    )
    # A permission for certain labels is not enough: a filter may name anything.
    return is_own or who.may(Permission.JOBS_READ if deed.thing == "jobs" else Permission.RUNS_READ)


async def _affected(
    visit: Visit, row: OperationRow, deed: Deed | None, said: Filter | None
) -> tuple[Sequence[JobRow], Sequence[RunRow]]:
    """Some of what the operation was carried out on, as far as that can be told from how it is now."""
    if deed is None or said is None:
        return (), ()
    if isinstance(said, JobsFilter):
        return (await _affected_jobs(visit, row, said) if visit.may(JobService.search) else ()), ()
    return (), (await _affected_runs(visit, row, said) if visit.may(RunService.search) else ())


async def _affected_jobs(visit: Visit, row: OperationRow, said: JobsFilter) -> Sequence[JobRow]:
    status = {
        OperationKind.JOBS_PAUSE: JobStatus.PAUSED,
        OperationKind.JOBS_RESUME: JobStatus.SCHEDULED,
        OperationKind.JOBS_CANCEL: JobStatus.CANCELLED,
    }[row.kind]
    query, _ = jobs_queries(row.namespace, said, statuses=(), limit=LOOKED_AT, within=None)
    found = await visit.control.jobs.search(visit.who, replace(query, statuses=(status,)))
    return [job for job in found if job.updated_at >= row.created_at][:AFFECTED]


async def _affected_runs(visit: Visit, row: OperationRow, said: RunsFilter) -> Sequence[RunRow]:
    if row.kind == OperationKind.RUNS_RETRY:
        # A new run is named by the time at which it was asked for.
        millis = int(row.created_at * 1000)
        query = RunQuery(
            namespace=row.namespace, triggers=(int(Trigger.RETRY),), after=time_id(millis, bytes(10)),
            before=time_id(millis + 1, bytes(10)), limit=AFFECTED,
        )  # fmt: skip
        return await visit.control.runs.search(visit.who, query)
    query = runs_query(row.namespace, said, states=(), limit=LOOKED_AT, within=None)
    found = await visit.control.runs.search(visit.who, replace(query, states=(RunState.CANCELLED,)))
    return [run for run in found if (run.ended_at or 0.0) >= row.created_at][:AFFECTED]


def _undo(visit: Visit, deed: Deed | None, said: Filter | None) -> str | None:
    """The address that takes it back; None: it cannot be, or not by this visitor."""
    other = BY_KIND.get(deed.undo or "") if deed is not None else None
    if other is None or not isinstance(said, JobsFilter) or not visit.may(other.control):
        return None
    if said.job_ids:
        return visit.url(f"{ROUTE}/jobs/{other.verb}", of=ROWS, job_id=said.job_ids)
    given = {
        name: getattr(said, name)
        for name in ("name", "key", "schedule_type", "task_kind", "owner")
        if getattr(said, name) is not UNSET
    }
    return visit.url(
        f"{ROUTE}/jobs/{other.verb}", **given, label=[f"{name}={value}" for name, value in said.labels.items()]
    )


async def stop(visit: Visit) -> Response:
    """It does not go on; what is done stays done."""
    operation = visit.uuid("operation_id", "operation")
    await visit.control.bulk.cancel(visit.who, operation)
    return RedirectResponse(visit.url(f"{ROUTE}/{operation}"), SEE_OTHER)


OPERATIONS: Final = (
    WebPage(
        method="GET",
        path=ROUTE,
        name="bulk",
        query=("cursor",),
        handler=operations_page,
        control=(OperationService.page,),
    ),
    WebPage(
        method="GET",
        path=f"{ROUTE}/{{operation_id}}",
        name="bulk_operation",
        handler=operation_page,
        control=(OperationService.get,),
    ),
    WebPage(
        method="POST",
        path=f"{ROUTE}/{{operation_id}}/stop",
        name="bulk_stop",
        handler=stop,
        control=(OperationService.cancel,),
    ),
)
