"""Runs: the list with its search, one run with its stages and its output, cancel and retry."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

import msgspec
from starlette.responses import RedirectResponse, Response, StreamingResponse

from tickwise.control.bodies import RunRetryBody
from tickwise.control.bulk.operations import OperationService
from tickwise.control.runs.payloads import received_payload
from tickwise.control.runs.service import RunDetails, RunService
from tickwise.domain.errors import Conflict, Invalid, Refused
from tickwise.domain.lifecycle import FINAL, RunState
from tickwise.domain.model import Trigger
from tickwise.ports.store import Replay, RunQuery
from tickwise.web import charts, forms, once
from tickwise.web.ansi import OutputLine, lines_of
from tickwise.web.page import WebPage
from tickwise.web.views.jobs import filters_of
from tickwise.web.views.rows import error_groups, job_names, lateness_of, took
from tickwise.web.visit import Visit

PAGE_SIZE: Final = 50
TEXT_MAX: Final = 200
LOG_BYTES: Final = 64 << 10
"""Of output on a page: some thousand lines. A page costs the same, however long the output is."""
DOWNLOAD_BYTES: Final = 1 << 20
OFFSET_MAX: Final = 1 << 40
ATTEMPTS_MAX: Final = 1_000_000
SEE_OTHER: Final = 303
FILTERS: Final = ("job_id", "job_name", "status", "reason", "queue", "executor_id")
TRIGGERS: Final = {
    Trigger.SCHEDULE: "by schedule",
    Trigger.RUN_NOW: "asked for",
    Trigger.RETRY: "retry of another run",
    Trigger.MISSED: "made up for",
    Trigger.BACKFILL: "backfill",
    Trigger.SEQUENCE: "started by another job",
}


class Output(NamedTuple):
    """A part of what an attempt wrote."""

    attempt: int
    lines: list[OutputLine]
    begin: int
    end: int
    size: int
    complete: bool


def runs_asked(visit: Visit) -> RunQuery:
    """The search of an address. Raises `Invalid`."""
    said = visit.query
    states = [forms.choice(RunState, each, "status") for each in visit.request.query_params.getlist("status") if each]
    return RunQuery(
        namespace=visit.who.namespace,
        job_id=forms.identifier(said.get("job_id"), "job_id"),
        states=states,
        reason=forms.text(said, "reason", TEXT_MAX),
        executor=forms.whole(said.get("executor_id"), "executor_id", 0, 10**18),
        job_name=forms.text(said, "job_name", TEXT_MAX),
        queue=forms.text(said, "queue", TEXT_MAX),
        before=forms.identifier(said.get("cursor"), "cursor"),
        limit=PAGE_SIZE + 1,
    )


async def runs_page(visit: Visit) -> Response:
    """A page of runs."""
    query = runs_asked(visit)
    rows = await visit.control.runs.search(visit.who, query)
    shown, more = rows[:PAGE_SIZE], rows.is_full(PAGE_SIZE + 1)
    filters = filters_of(visit, FILTERS)
    values = {
        "runs": shown,
        "names": await job_names(visit, [run.job_id for run in shown]),
        "filters": filters,
        "asked": visit.query,
        "pick": "run_id" if visit.may(OperationService.runs) else "",
        "states": [each.value for each in RunState],
        "chosen": [each.value for each in query.states],
        "next": visit.url("/runs", **filters, cursor=shown[-1].run_id) if more else None,
        "first": visit.url("/runs", **filters) if query.before else None,
        "lateness_of": lateness_of,
        "took": took,
    }
    return visit.page("runs.html", values)


async def run_page(visit: Visit) -> Response:
    """One run."""
    return await show_run(visit)


async def show_run(visit: Visit, *, fault: Refused | None = None, status: int = 200) -> Response:
    """The page of a run; after a form that was refused, with what was typed and the fault."""
    run_id = visit.uuid("run_id", "run")
    details = await visit.control.runs.get(visit.who, run_id)
    row = details.row
    explanation, output, names = await asyncio.gather(
        visit.control.explain.run(visit.who, run_id), _output(visit, details), job_names(visit, [row.job_id])
    )
    payload, payload_bytes, payload_from = received_payload(details)
    failed = [run_id] if row.state is RunState.FAILED else []
    values = {
        "run": row,
        "error_id": (await error_groups(visit, failed)).get(run_id),
        "details": details,
        "name": names.get(row.job_id),
        "is_final": row.state in FINAL,
        "trigger": TRIGGERS.get(Trigger(row.trigger), "by schedule"),
        "explanation": explanation,
        "spans": charts.waterfall(row, details.attempts, visit.now),
        "lateness": _first_lateness(details),
        "took": took(row),
        "output": output,
        "payload": None if payload is None else _pretty(bytes(payload)),
        "payload_bytes": payload_bytes,
        "payload_from": payload_from,
        "result": None if row.result is None else _pretty(row.result.encode()),
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


async def log_file(visit: Visit) -> Response:
    """The whole output of an attempt, as it was written. It is sent as it is read, a part at a time."""
    run_id = visit.uuid("run_id", "run")
    attempt = forms.whole(visit.query.get("attempt"), "attempt", 1, ATTEMPTS_MAX)
    runs, who = visit.control.runs, visit.who
    first = await runs.log(who, run_id, attempt=attempt, offset=0, limit=DOWNLOAD_BYTES)

    async def parts() -> AsyncIterator[bytes]:
        chunk = first
        while chunk.content:
            yield chunk.content
            chunk = await runs.log(who, run_id, attempt=chunk.attempt, offset=chunk.next_offset, limit=DOWNLOAD_BYTES)

    headers = {"content-disposition": f'attachment; filename="{run_id}-{first.attempt}.log"'}
    return StreamingResponse(parts(), headers=headers, media_type="text/plain; charset=utf-8")


async def _refused(visit: Visit, refusal: Refused) -> Response:
    if not visit.may(RunService.get):
        raise refusal
    return await show_run(visit, fault=refusal, status=422 if isinstance(refusal, Invalid) else 409)


async def _output(visit: Visit, details: RunDetails) -> Output | None:
    """A part of the output: from the place that is asked for, or the end. None: it was not tried yet."""
    run_id, newest = details.row.run_id, details.row.attempt
    if newest == 0:
        return None
    attempt = forms.whole(visit.query.get("attempt"), "attempt", 1, newest) or newest
    at = forms.whole(visit.query.get("at"), "at", 0, OFFSET_MAX)
    runs = visit.control.runs
    if at is None:
        size = (await runs.log(visit.who, run_id, attempt=attempt, offset=0, limit=0)).size
        at = max(0, size - LOG_BYTES)
    chunk = await runs.log(visit.who, run_id, attempt=attempt, offset=at, limit=LOG_BYTES)
    begin, content = at, chunk.content
    if at > 0 and visit.query.get("at") is None:
        # The end of the output begins within a line: that line is left out.
        cut = content.find(b"\n") + 1
        begin, content = at + cut, content[cut:]
    if not chunk.complete and b"\n" in content:
        content = content[: content.rfind(b"\n") + 1]
    return Output(
        chunk.attempt, lines_of(content, begin), begin, begin + len(content), max(chunk.size, begin), chunk.complete
    )


def _first_lateness(details: RunDetails) -> float | None:
    """The seconds from its due time to the start of its first attempt."""
    starts = [each.started_at for each in details.attempts if each.started_at is not None]
    return max(0.0, min(starts) - details.row.due_at) if starts else lateness_of(details.row)


def _pretty(text: bytes) -> str:
    """JSON for people; what is no JSON as it is."""
    try:
        return msgspec.json.format(text, indent=2).decode(errors="replace")
    except msgspec.DecodeError:
        return text.decode(errors="replace")


RUNS: Final[tuple[WebPage, ...]] = (
    WebPage(method="GET", path="/runs", name="runs", handler=runs_page, control=(RunService.search,)),
    WebPage(method="GET", path="/runs/{run_id}", name="run", handler=run_page, control=(RunService.get,)),
    WebPage(method="GET", path="/runs/{run_id}/log", name="run_log", handler=log_file, control=(RunService.log,)),
    WebPage(
        method="POST", path="/runs/{run_id}/cancel", name="run_cancel", handler=cancel, control=(RunService.cancel,)
    ),
    WebPage(method="POST", path="/runs/{run_id}/retry", name="run_retry", handler=retry, control=(RunService.retry,)),
)
