"""Jobs: the list with its search, and one job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec
from starlette.responses import Response

from tickwise.control.bulk.operations import OperationService
from tickwise.control.jobs.presence import Doing
from tickwise.control.jobs.saved_views import LISTS
from tickwise.control.jobs.service import JobService
from tickwise.control.notices.rules import NotificationRuleService
from tickwise.control.observing.objectives import ObjectiveService, StandingObjective
from tickwise.control.runs.payloads import PAYLOAD_BYTES_SHOWN, run_payload
from tickwise.control.schedules.previews import Look
from tickwise.domain.errors import Invalid, NotFound, Refused
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.masking import masked
from tickwise.domain.model import Trigger
from tickwise.domain.notices.rules import NotificationRule
from tickwise.domain.schedule import ScheduleType
from tickwise.ports.paging import place_after
from tickwise.ports.store import JobQuery, JobRow, RunQuery, RunRow
from tickwise.web import charts, forms, once
from tickwise.web.editing.summary import policy_texts
from tickwise.web.editing.travelling import travelling_files
from tickwise.web.json_text import pretty_value
from tickwise.web.page import WebPage
from tickwise.web.views.rows import (
    job_line,
    lateness_of,
    lateness_with_retries,
    next_page,
    others_at,
    took,
    views_of_list,
    with_strips,
)
from tickwise.web.visit import Visit

PAGE_SIZE: Final = 25
FIRES: Final = 12
RUNS: Final = 12
CHARTED: Final = 60
TEXT_MAX: Final = 200
SOURCE: Final = "source"
"""The field of a task with the text of its script, which is shown as lines."""
FILES: Final = "files"
"""That with the files that travel with it."""
FILTERS: Final = tuple(LISTS["/jobs"])
"""Parameters of the address, named as those of the API."""


def jobs_query(visit: Visit) -> JobQuery:
    """The search of an address. Raises `Invalid`."""
    said = visit.query
    statuses = [
        forms.choice(JobStatus, each, "status") for each in visit.request.query_params.getlist("status") if each
    ]
    kind = said.get("schedule_type") or None
    return JobQuery(
        namespace=visit.who.namespace,
        name=forms.text(said, "name", TEXT_MAX),
        key=forms.text(said, "key", TEXT_MAX),
        labels=labels_of(visit.request.query_params.getlist("label")),
        statuses=statuses,
        schedule_type=None if kind is None else forms.choice(ScheduleType, kind, "schedule_type"),
        task_kind=forms.text(said, "task_kind", TEXT_MAX),
        owner=forms.text(said, "owner", TEXT_MAX),
        before=forms.identifier(said.get("cursor"), "cursor"),
        may_pause=True,
        is_rest=said.get("rest") == "1",
        rest_from=None if said.get("rest") == "1" else forms.identifier(said.get("rest"), "rest"),
        limit=PAGE_SIZE + 1,
    )


def labels_of(said: list[str]) -> Mapping[str, str]:
    """Labels of an address. Raises `Invalid`."""
    labels = {}
    for label in said:
        name, sign, value = label.strip().partition("=")
        if label.strip() and (not sign or not name):
            raise Invalid("write a label as name=value", pointer="/label")
        if name:
            labels[name] = value
    return labels


def filters_of(visit: Visit, names: tuple[str, ...]) -> dict[str, Any]:
    """The parameters of the search, for the links of its pages."""
    asked = visit.request.query_params
    return {name: found for name in names if (found := [each for each in asked.getlist(name) if each])}


async def jobs_page(visit: Visit) -> Response:
    """A page of jobs."""
    query = jobs_query(visit)
    rows = await visit.control.jobs.search(visit.who, query)
    shown = rows[:PAGE_SIZE]
    goes_on = place_after(rows, PAGE_SIZE, lambda row: row.listed, is_rest=query.is_rest)
    filters = filters_of(visit, FILTERS)
    values = {
        "lines": await with_strips(visit, shown),
        "filters": filters,
        "saved": await views_of_list(visit, "/jobs", filters),
        "asked": visit.query,
        "pick": _verbs(visit),
        "statuses": [each.value for each in JobStatus],
        "chosen": [status.value for status in query.statuses],
        "schedule_types": [each.value for each in ScheduleType],
        "next": next_page(visit, "/jobs", filters, goes_on),
        "looks_further": rows.paused_at is not None and rows.paused_at == goes_on,
        "first": visit.url("/jobs", **filters) if query.before else None,
    }
    return visit.page("jobs.html", values)


def _verbs(visit: Visit) -> list[str]:
    """The bulk actions that the visitor may ask for."""
    bulk = OperationService
    offered: dict[str, Callable[..., Any]] = {
        "pause": bulk.pause_jobs,
        "resume": bulk.resume_jobs,
        "cancel": bulk.cancel_jobs,
    }
    return [verb for verb, method in offered.items() if visit.may(method)]


async def job_page(visit: Visit) -> Response:
    """One job."""
    return await show_job(visit)


async def show_job(
    visit: Visit, *, typed: Mapping[str, str] | None = None, fault: Refused | None = None, status: int = 200
) -> Response:
    """The page of a job; after a form that was refused, with what was typed and the fault."""
    job_id = visit.uuid("job_id", "job")
    row = await visit.control.jobs.get(visit.who, job_id)
    [warnings], preview, explanation, (runs, late, last), objective, rules, others = await asyncio.gather(
        visit.control.jobs.warnings(visit.who, [row]),
        _preview(visit, row),
        _explained(visit, row),
        _runs_with_starts(visit, job_id),
        _objective(visit, row),
        _rules(visit, row),
        others_at(visit, row, Doing.LOOKS),
    )
    line = job_line(row, runs or ())
    visit.job_zone = line.definition.timezone
    task = dict(_task(line.definition.task))
    values = {
        "line": line,
        "row": row,
        "definition": line.definition,
        "script": task.pop(SOURCE, None),
        "files": travelling_files(task.pop(FILES, None)),
        "task": pretty_value(task),
        "payload": pretty_value(line.definition.payload),
        "others": others,
        "policies": policy_texts(row, line.definition),
        "last_payload": None if last is None else pretty_value(last),
        "once": (typed or {}).get(once.FIELD) or once.new_name(visit),
        "warnings": warnings,
        "preview": preview,
        "explanation": explanation,
        "objective": objective,
        "rules": rules,
        "rule_names": {} if rules is None else await visit.control.notification_rules.names(visit.who, rules),
        "runs": None if runs is None else runs[:RUNS],
        "durations": charts.columns(runs or (), [took(run) for run in runs or ()]),
        "latenesses": charts.columns(runs or (), [late(run) for run in runs or ()]),
        "lateness_of": late,
        "took": took,
        "typed": typed or {},
        "fault": fault,
        "fault_field": "" if fault is None or fault.pointer is None else fault.pointer.lstrip("/"),
        "fault_form": visit.request.url.path.rpartition("/")[2] if fault is not None else "",
        "done": DONE.get(visit.query.get("done", "")),
    }
    return visit.page("job.html", values, status)


async def _objective(visit: Visit, row: JobRow) -> StandingObjective | None:
    """The objective of the job, as far as the visitor may look at its runs."""
    if not visit.may(ObjectiveService.of_job):
        return None
    return await visit.control.objectives.of_job(visit.who, row.job_id)


DONE: Final = {
    "created": "The job is stored.",
    "changed": "The change is stored.",
    "paused": "The job is paused. Resume takes it back.",
    "resumed": "The job goes on by its schedule.",
    "skipped": "The next occurrence is skipped. Run now makes up for it.",
    "snoozed": "The next occurrence comes later. Snooze it again to move it.",
    "cancelled": "The job is cancelled.",
}
"""The sentence about a form that was carried out."""


async def _preview(visit: Visit, row: JobRow) -> Any:
    if row.status is JobStatus.CANCELLED:
        return None
    try:
        return await visit.control.schedules.preview_job(visit.who, row.job_id, Look(count=FIRES))
    except Invalid:
        return None


async def _rules(visit: Visit, row: JobRow) -> Sequence[NotificationRule] | None:
    """The notification rules that concern it; None: the visitor may not see rules."""
    if not visit.may(NotificationRuleService.concerning):
        return None
    return await visit.control.notification_rules.concerning(visit.who, row)


async def _explained(visit: Visit, row: JobRow) -> Any:
    if not visit.may(type(visit.control.explain).job):
        return None
    return await visit.control.explain.job(visit.who, row.job_id)


async def _runs(visit: Visit, job_id: UUID) -> Any:
    if not visit.may(type(visit.control.runs).search):
        return None
    query = RunQuery(namespace=visit.who.namespace, job_id=job_id, limit=CHARTED)
    return await visit.control.runs.search(visit.who, query)


async def _runs_with_starts(visit: Visit, job_id: UUID) -> tuple[Any, Callable[[RunRow], float | None], Any]:
    """The latest runs, how late each began, and the payload of the last one that a person asked for."""
    runs = await _runs(visit, job_id)
    if not runs:
        return runs, lateness_of, None
    return runs, *await asyncio.gather(lateness_with_retries(visit, runs), _last_asked(visit, runs))


async def _last_asked(visit: Visit, runs: Sequence[RunRow]) -> msgspec.Raw | None:
    """The payload of the last run that a person asked for, if it had its own and is among the latest runs: the next one
    often differs a little."""
    if not visit.may(type(visit.control.jobs).run_now):
        return None
    asked = next((run.run_id for run in runs if run.trigger == Trigger.RUN_NOW), None)
    if asked is None:
        return None
    try:
        payload = run_payload((await visit.control.runs.get(visit.who, asked)).row)
    except NotFound:
        return None
    return None if payload is None or len(bytes(payload)) > PAYLOAD_BYTES_SHOWN else payload


def _task(task: msgspec.Raw) -> Mapping[str, Any]:
    """A task without its secrets."""
    return masked(msgspec.json.decode(bytes(task)))


JOBS: Final = (
    WebPage(
        method="GET",
        path="/jobs",
        name="jobs",
        query=(*FILTERS, "cursor", "rest", "job_id", "of"),
        handler=jobs_page,
        control=(JobService.search,),
    ),
    WebPage(
        method="GET", path="/jobs/{job_id}", name="job", query=("done",), handler=job_page, control=(JobService.get,)
    ),
)
