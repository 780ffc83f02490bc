"""Runs: the list with its search, one run with its stages and its output, cancel and retry."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from jinja2.filters import do_filesizeformat
from starlette.responses import RedirectResponse, Response

from tickwise.control.bodies import NOTE_MAX, RunRetryBody
from tickwise.control.bulk.operations import OperationService
from tickwise.control.explain.explanations import Because, Explanation
from tickwise.control.jobs.saved_views import LISTS
from tickwise.control.runs.letters import LetterService
from tickwise.control.runs.payloads import is_task_changed, received_payload
from tickwise.control.runs.service import LISTED_TEXTS, RunDetails, RunService
from tickwise.documents.definition import decode_definition
from tickwise.domain.errors import Conflict, Invalid, Refused
from tickwise.domain.lifecycle import FINAL, RunState
from tickwise.domain.model import Trigger
from tickwise.ports.paging import place_after
from tickwise.ports.store import EVERY_TEXT, AttemptRow, Replay, RunQuery
from tickwise.web import forms, once
from tickwise.web.columns import Column, Values, columns_of
from tickwise.web.json_text import pretty
from tickwise.web.page import WebPage
from tickwise.web.texts import duration
from tickwise.web.views.jobs import filters_of, labels_of
from tickwise.web.views.letters import UNSETTLED
from tickwise.web.views.output import Output, artefacts_of_run, output_of
from tickwise.web.views.rows import (
    error_groups,
    job_names,
    jobs_of,
    lateness_of,
    lateness_with_retries,
    next_page,
    took,
    views_of_list,
)
from tickwise.web.visit import Visit
from tickwise.web.waterfall import waterfall

PAGE_SIZE: Final = 50
TEXT_MAX: Final = 200
SEE_OTHER: Final = 303
FILTERS: Final = tuple(LISTS["/runs"])
TRIGGERS: Final = {
    Trigger.SCHEDULE: "by schedule",
    Trigger.RUN_NOW: "asked for",
    Trigger.RETRY: "retry of another run",
    Trigger.MISSED: "made up for",
    Trigger.BACKFILL: "backfill",
    Trigger.SEQUENCE: "started by another job",
}
PLACES: Final = frozenset({"at", "until", "find"})
"""The parameters by which a page shows another part of the output than its end, or marks it: that part stays."""
FROM_A_RUN: Final = frozenset({Trigger.RETRY, Trigger.SEQUENCE})
"""The triggers whose `origin` is a run; of a backfill it is the backfill."""


def runs_asked(visit: Visit) -> RunQuery:
    """The search of an address. Raises `Invalid`."""
    said = visit.query
    states = [forms.choice(RunState, each, "status") for each in visit.request.query_params.getlist("status") if each]
    return RunQuery(
        namespace=visit.who.namespace,
        job_id=forms.identifier(said.get("job_id"), "job_id"),
        states=states,
        reason=forms.text(said, "reason", TEXT_MAX),
        due_after=forms.instant(said, "due_after"),
        due_before=forms.instant(said, "due_before"),
        labels=labels_of(visit.request.query_params.getlist("label")),
        executor=forms.whole(said.get("executor_id"), "executor_id", 0, 10**18),
        job_name=forms.text(said, "job_name", TEXT_MAX),
        queue=forms.text(said, "queue", TEXT_MAX),
        before=forms.identifier(said.get("cursor"), "cursor"),
        may_pause=True,
        is_rest=said.get("rest") == "1",
        limit=PAGE_SIZE + 1,
    )


async def runs_page(visit: Visit) -> Response:
    """A page of runs."""
    query = runs_asked(visit)
    columns = columns_of(visit.query.get("col", ""))
    texts = EVERY_TEXT if columns else LISTED_TEXTS
    rows = await visit.control.runs.search(visit.who, query, texts=texts)
    shown = rows[:PAGE_SIZE]
    goes_on = place_after(rows, PAGE_SIZE, lambda row: row.run_id, is_rest=query.is_rest)
    # Definitions are read for columns alone: 50 looks.
    jobs = [run.job_id for run in shown]
    cells = Values(await jobs_of(visit, jobs) if columns else {})
    filters = filters_of(visit, FILTERS)
    values = {
        "runs": shown,
        "names": await job_names(visit, jobs),
        "columns": columns,
        "cells": cells,
        "suggested": cells.suggested(shown),
        "without": {each: _without(visit, filters, columns, each) for each in columns},
        "filters": filters,
        "saved": await views_of_list(visit, "/runs", filters),
        "asked": visit.query,
        "pick": "run_id" if visit.may(OperationService.runs) else "",
        "states": [each.value for each in RunState],
        "chosen": [each.value for each in query.states],
        "next": next_page(visit, "/runs", filters, goes_on),
        "looks_further": rows.paused_at is not None and rows.paused_at == goes_on,
        "first": visit.url("/runs", **filters) if query.before else None,
        "lateness_of": await lateness_with_retries(visit, shown),
        "took": took,
    }
    return visit.page("runs.html", values)


def _without(visit: Visit, filters: Mapping[str, Any], columns: Sequence[Column], left_out: Column) -> str:
    """The address of the list without one column."""
    rest = ",".join(each.title for each in columns if each != left_out)
    return visit.url("/runs", **{**filters, "col": rest or None})


async def run_page(visit: Visit) -> Response:
    """One run."""
    return await show_run(visit)


async def show_run(visit: Visit, *, fault: Refused | None = None, status: int = 200) -> Response:
    """The page of a run; after a form that was refused, with what was typed and the fault."""
    run_id = visit.uuid("run_id", "run")
    details = await visit.control.runs.get(visit.who, run_id)
    row = details.row
    explanation, output, jobs = await asyncio.gather(
        visit.control.explain.run(visit.who, run_id), output_of(visit, details), jobs_of(visit, [row.job_id])
    )
    job = jobs.get(row.job_id)
    visit.job_zone = None if job is None else decode_definition(job.definition).timezone
    payload, payload_bytes, payload_from = received_payload(details)
    failed = [run_id] if row.state is RunState.FAILED else []
    values = {
        "run": row,
        "error_id": (await error_groups(visit, failed)).get(run_id),
        "details": details,
        "name": None if job is None else job.name,
        "is_final": row.state in FINAL,
        "trigger": TRIGGERS.get(Trigger(row.trigger), "by schedule"),
        "origin": row.origin if Trigger(row.trigger) in FROM_A_RUN else None,
        "successors": await _successors(visit, explanation),
        "explanation": explanation,
        "decides": details.letter in UNSETTLED and visit.may(LetterService.discard),
        "note_max": NOTE_MAX,
        "spans": waterfall(row, details.attempts, explanation, visit.now),
        "usage": {each.attempt: used for each in details.attempts if (used := _usage(each))},
        "images": {each.attempt: each.image for each in details.attempts if each.image},
        "lateness": _first_lateness(details),
        "took": took(row),
        "anomalies": await visit.control.anomalies.of_run(visit.who, details),
        "output": output,
        "left": await artefacts_of_run(visit, details, output),
        "follow": _follow(visit, details, output),
        "payload": None if payload is None else pretty(bytes(payload)),
        "payload_bytes": payload_bytes,
        "payload_from": payload_from,
        "task_changed": job.task_changed_at if job is not None and is_task_changed(row, job) else None,
        "result": None if row.result is None else pretty(row.result.encode()),
        "typed": visit.form,
        "once": visit.form.get(once.FIELD) or once.new_name(visit),
        "fault": fault,
    }
    return visit.page("run.html", values, status)


async def cancel(visit: Visit) -> Response:
    """End it, or ask its executor to."""
    run_id = visit.uuid("run_id", "run")
    try:
        await visit.control.runs.cancel(visit.who, run_id)
    except Conflict as refusal:
        return await _refused(visit, refusal)
    return RedirectResponse(visit.url(f"/runs/{run_id}"), SEE_OTHER)


async def retry(visit: Visit) -> Response:
    """A new run like it, with another payload if one was typed; its page follows."""
    run_id = visit.uuid("run_id", "run")
    try:
        payload = forms.json_text(visit.form, "payload")
        body = RunRetryBody() if payload is None else RunRetryBody(payload=payload)
        receipt_for = once.receipt_for(visit, f"/runs/{run_id}/retry", lambda run: run)
        made = await visit.control.runs.retry(visit.who, run_id, body, receipt_for)
    except (Invalid, Conflict) as refusal:
        return await _refused(visit, refusal)
    return RedirectResponse(
        visit.url(f"/runs/{once.made_before(made) if isinstance(made, Replay) else made}"), SEE_OTHER
    )


async def _refused(visit: Visit, refusal: Refused) -> Response:
    if not visit.may(RunService.get):
        raise refusal
    return await show_run(visit, fault=refusal, status=422 if isinstance(refusal, Invalid) else 409)


async def _successors(visit: Visit, explanation: Explanation) -> list[tuple[str, str]]:
    """The runs that its end started, each with the name of its job."""
    found = [each.data for each in explanation.causes if each.code is Because.SUCCESSOR_STARTED]
    names = await job_names(visit, [UUID(each["job_id"]) for each in found])
    return [(each["run_id"], names.get(UUID(each["job_id"]), each["job_id"])) for each in found]


def _follow(visit: Visit, details: RunDetails, output: Output | None) -> str | None:
    """The address of the stream that goes on after the shown output. None: its end is not shown, or nothing follows."""
    row = details.row
    is_newest = output is None or output.attempt == row.attempt
    if row.state in FINAL or not is_newest or PLACES & visit.query.keys() or not visit.may(visit.control.live.log):
        return None
    place = {} if output is None else {"attempt": output.attempt, "at": output.end}
    return visit.url(f"/runs/{row.run_id}/follow", **place)


def _first_lateness(details: RunDetails) -> float | None:
    """The seconds from its due time to the start of its first attempt."""
    starts = [each.started_at for each in details.attempts if each.started_at is not None]
    return max(0.0, min(starts) - details.row.due_at) if starts else lateness_of(details.row)


def _usage(attempt: AttemptRow) -> str:
    """The measured usage of an attempt in one line: `1.2 s CPU, 48.0 MB, 2.1 MB written`; empty: none was measured.
    Disk and network are named where something went there."""
    cpu, memory = attempt.cpu_seconds, attempt.memory_bytes
    parts = ["" if cpu is None else f"{duration(cpu)} CPU", "" if memory is None else do_filesizeformat(memory)]
    moved = (
        (attempt.read_bytes, "read"),
        (attempt.written_bytes, "written"),
        (attempt.network_bytes, "network"),
        (attempt.work_bytes, "work folder"),
    )
    parts += [f"{do_filesizeformat(size)} {what}" for size, what in moved if size]
    return ", ".join(part for part in parts if part)


RUNS: Final[tuple[WebPage, ...]] = (
    WebPage(
        method="GET",
        path="/runs",
        name="runs",
        query=(*FILTERS, "cursor", "rest", "run_id"),
        handler=runs_page,
        control=(RunService.search,),
    ),
    WebPage(
        method="GET",
        path="/runs/{run_id}",
        name="run",
        query=(*PLACES, "attempt", "searched", "back"),
        handler=run_page,
        control=(RunService.get,),
    ),
    WebPage(
        method="POST", path="/runs/{run_id}/cancel", name="run_cancel", handler=cancel, control=(RunService.cancel,)
    ),
    WebPage(method="POST", path="/runs/{run_id}/retry", name="run_retry", handler=retry, control=(RunService.retry,)),
)
