"""Operations over many jobs or runs are asked for: what is meant is tried first.

    rows, or all that match ──GET──► how many, which ──POST──► operation ──► its page (`operations`)

A selection is an address, as each filter is: the page that asks can be opened again. What is carried out is a filter of
the API's bulk requests, so a list shows what its operation finds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET
from starlette.responses import RedirectResponse, Response

from tickwise.control.bodies import MissedMode
from tickwise.control.bulk.operations import MAX_COUNTED, Accepted, Done, Matches, OperationService
from tickwise.control.bulk.pages import OperationKind
from tickwise.control.filters import (
    JobsCancelBody,
    JobsFilter,
    JobsPauseBody,
    JobsResumeBody,
    RunsCancelBody,
    RunsFilter,
    RunsRetryBody,
)
from tickwise.domain.errors import Bug, Invalid, Refused
from tickwise.ports.store import Replay, RunRow
from tickwise.web import forms, once
from tickwise.web.page import Handler, WebPage
from tickwise.web.texts import number, utc
from tickwise.web.views.jobs import FILTERS as JOB_FILTERS
from tickwise.web.views.jobs import filters_of, jobs_query
from tickwise.web.views.rows import job_names
from tickwise.web.views.runs import FILTERS as RUN_FILTERS
from tickwise.web.views.runs import runs_asked
from tickwise.web.visit import Visit

ROWS: Final = "rows"
SEE_OTHER: Final = 303
ROUTE: Final = "/bulk"

Filter = JobsFilter | RunsFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """An action on many jobs or runs."""

    kind: str
    thing: str
    """`jobs` or `runs`: the list and the fields of the filter."""
    verb: str
    title: str
    button: str
    told: str
    """The effect on each."""
    done: str
    control: Callable[..., Awaitable[Done]]
    undo: str | None = None
    """The kind that takes it back."""
    is_final: bool = False


DEEDS: Final = (
    Deed(
        kind=OperationKind.JOBS_PAUSE, thing="jobs", verb="pause", title="Pause jobs", button="Pause", done="paused",
        told="Their schedules stop. Runs that have begun go on.", control=OperationService.pause_jobs,
        undo=OperationKind.JOBS_RESUME,
    ),
    Deed(
        kind=OperationKind.JOBS_RESUME, thing="jobs", verb="resume", title="Resume jobs", button="Resume",
        done="resumed", told="Their schedules go on.", control=OperationService.resume_jobs,
        undo=OperationKind.JOBS_PAUSE,
    ),
    Deed(
        kind=OperationKind.JOBS_CANCEL, thing="jobs", verb="cancel", title="Cancel jobs for good", button="Cancel",
        done="cancelled", told="They never run again, and runs that have begun are asked to stop.",
        control=OperationService.cancel_jobs, is_final=True,
    ),
    Deed(
        kind=OperationKind.RUNS_CANCEL, thing="runs", verb="cancel", title="Cancel runs", button="Cancel",
        done="cancelled", told="Those that wait never begin, and those that run are asked to stop.",
        control=OperationService.runs, is_final=True,
    ),
    Deed(
        kind=OperationKind.RUNS_RETRY, thing="runs", verb="retry", title="Run again", button="Run again",
        done="run again", told="Each gets a new run of the same job, linked to it.", control=OperationService.runs,
    ),
)  # fmt: skip
BY_KIND: Final[Mapping[str, Deed]] = {deed.kind: deed for deed in DEEDS}


# ------------------------------------------------------------------------------------------ asked for


def _chosen(visit: Visit, name: str) -> list[UUID]:
    """The rows that were selected. Raises `Invalid`."""
    said = visit.request.query_params.getlist(name)
    found = [each for text in said if (each := forms.identifier(text, name)) is not None]
    if not found:
        raise Invalid("no row is selected; go back and select some, or choose all that match", pointer=f"/{name}")
    return found


def _filter(visit: Visit, thing: str) -> Filter:
    """The selection: the rows, or all that the filter of the list finds. Raises `Invalid`."""
    of_rows = visit.query.get("of") == ROWS
    if thing == "jobs":
        if of_rows:
            return JobsFilter(job_ids=_chosen(visit, "job_id"))
        return _some(jobs_filter(visit))
    if of_rows:
        return RunsFilter(run_ids=_chosen(visit, "run_id"))
    return _some(runs_filter(visit))


def jobs_filter(visit: Visit) -> JobsFilter:
    """The filter of the list of jobs."""
    asked = jobs_query(visit)
    said: dict[str, Any] = {
        "name": asked.name, "key": asked.key, "schedule_type": asked.schedule_type, "task_kind": asked.task_kind,
        "owner": asked.owner,
    }  # fmt: skip
    given = {name: value for name, value in said.items() if value is not None}
    return JobsFilter(labels=dict(asked.labels), status=list(asked.statuses), **given)


def runs_filter(visit: Visit) -> RunsFilter:
    """The filter of the list of runs."""
    asked = runs_asked(visit)
    said: dict[str, Any] = {
        "job_id": asked.job_id, "job_name": asked.job_name, "reason": asked.reason, "queue": asked.queue,
        "executor_id": None if asked.executor is None else str(asked.executor),
        "due_after": None if asked.due_after is None else utc(asked.due_after),
        "due_before": None if asked.due_before is None else utc(asked.due_before),
    }  # fmt: skip
    given = {name: value for name, value in said.items() if value is not None}
    return RunsFilter(status=list(asked.states), labels=dict(asked.labels), **given)


def _some(said: Filter) -> Filter:
    """A filter that says nothing means everything, and says so."""
    return msgspec.structs.replace(said, all=said == type(said)())


def _body(form: Mapping[str, str], deed: Deed, said: Any, *, dry_run: bool) -> Any:
    """The request. Raises `Invalid`."""
    match deed.kind:
        case OperationKind.JOBS_PAUSE:
            reason, until = forms.text(form, "reason"), forms.moment(form, "until", "UTC")
            if not dry_run and reason is None:
                raise Invalid("say why: others will read it", pointer="/reason")
            return JobsPauseBody(filter=said, dry_run=dry_run, reason=reason, until=until)
        case OperationKind.JOBS_RESUME:
            missed = forms.choice(MissedMode, form.get("missed") or MissedMode.SKIP, "missed")
            return JobsResumeBody(filter=said, dry_run=dry_run, missed=missed)
        case OperationKind.JOBS_CANCEL:
            return JobsCancelBody(filter=said, dry_run=dry_run)
        case OperationKind.RUNS_CANCEL:
            return RunsCancelBody(filter=said, dry_run=dry_run)
    payload = forms.json_text(form, "payload")
    return RunsRetryBody(filter=said, dry_run=dry_run, payload=UNSET if payload is None else payload)


async def _asked(visit: Visit, deed: Deed, fault: Invalid | None = None) -> Response:
    """The page that asks: the number of subjects, the first of them, and the form that does it."""
    said = _filter(visit, deed.thing)
    status = 200 if fault is None else 422
    matches: Done = Matches(0, False, ())
    refused: Refused | None = None
    try:
        # What was typed into the form has no part in the count.
        matches = await deed.control(visit.control.bulk, visit.who, _body({}, deed, said, dry_run=True))
    except Invalid as refusal:
        refused, status = refusal, 422
    if not isinstance(matches, Matches):
        raise Bug("a dry run answers what matches")
    names = await job_names(visit, [row.job_id for row in matches.sample if isinstance(row, RunRow)])
    values = {
        "deed": deed,
        "matches": matches,
        "meant": _meant(deed, matches),
        "refused": refused,
        "names": names,
        "of_rows": visit.query.get("of") == ROWS,
        "everything": said.all,
        "words": filter_words(said),
        "back": _list_address(visit, deed.thing),
        "typed": visit.form,
        "fault": fault,
        "fault_field": "" if fault is None or fault.pointer is None else fault.pointer.lstrip("/"),
        "once": visit.form.get(once.FIELD) or once.new_name(visit),
        "again": visit.request.url.path + (f"?{visit.request.url.query}" if visit.request.url.query else ""),
    }
    return visit.page("bulk_ask.html", values, status)


def _meant(deed: Deed, matches: Matches) -> str:
    """The number of subjects in words."""
    one = deed.thing.removesuffix("s")
    if not matches.more:
        return f"{number(matches.number)} {one if matches.number == 1 else deed.thing}"
    if not matches.number:
        return "all that match"
    least = "more than" if matches.number >= MAX_COUNTED else "at least"
    return f"{least} {number(matches.number)} {deed.thing}"


async def _do(visit: Visit, deed: Deed) -> Response:
    """Store the operation; its page follows."""
    try:
        if deed.is_final and visit.form.get("confirm") != "yes":
            raise Invalid("tick the box: this cannot be taken back", pointer="/confirm")
        body = _body(visit.form, deed, _filter(visit, deed.thing), dry_run=False)
        receipt_for = once.receipt_for(visit, ROUTE, _id_of)
        done = await deed.control(visit.control.bulk, visit.who, body, receipt_for)
    except Invalid as fault:
        return await _asked(visit, deed, fault)
    if isinstance(done, Replay):
        operation = once.made_before(done)
    elif isinstance(done, Accepted):
        operation = done.operation_id
    else:
        raise Bug("a request that is no dry run makes an operation")
    return RedirectResponse(visit.url(f"{ROUTE}/{operation}"), SEE_OTHER)


def _id_of(accepted: Accepted) -> UUID:
    return accepted.operation_id


def _list_address(visit: Visit, thing: str) -> str:
    """The list that the selection was made in."""
    filters = filters_of(visit, JOB_FILTERS if thing == "jobs" else RUN_FILTERS)
    if visit.query.get("of") == ROWS and thing == "jobs":
        filters.pop("job_id", None)
    return visit.url(f"/{thing}", **filters)


def filter_words(said: Filter) -> list[tuple[str, str]]:
    """The conditions of a filter, each with its name."""
    found: list[tuple[str, str]] = []
    for name in said.__struct_fields__:
        value = getattr(said, name)
        if name == "all" or value is UNSET or value == [] or value == {}:
            continue
        if name in ("job_ids", "run_ids"):
            found.append((name.removesuffix("_ids") + "s", f"{len(value)} chosen one by one"))
        elif isinstance(value, dict):
            found += [("label", f"{label}={text}") for label, text in value.items()]
        else:
            found.append(
                (name.replace("_", " "), ", ".join(map(str, value)) if isinstance(value, list) else str(value))
            )
    return found


def _handlers(deed: Deed) -> tuple[Handler, Handler]:
    async def ask(visit: Visit) -> Response:
        return await _asked(visit, deed)

    async def do(visit: Visit) -> Response:
        return await _do(visit, deed)

    return ask, do


def _pages() -> tuple[WebPage, ...]:
    found = []
    for deed in DEEDS:
        path, name = f"{ROUTE}/{deed.thing}/{deed.verb}", f"bulk_{deed.thing}_{deed.verb}"
        ask, do = _handlers(deed)
        query = (
            *dict.fromkeys(
                (*(JOB_FILTERS if deed.thing == "jobs" else RUN_FILTERS), "of", "job_id", "run_id", "cursor")
            ),
        )
        asked = WebPage(method="GET", path=path, name=f"{name}_ask", query=query, handler=ask, control=(deed.control,))
        found += [asked, replace(asked, method="POST", name=name, handler=do)]
    return tuple(found)


BULK: Final = _pages()
