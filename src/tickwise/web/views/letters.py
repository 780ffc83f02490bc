"""Dead letters: runs that failed for good and wait for a person; redrive them, discard them, decide them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final
from uuid import UUID

from starlette.responses import RedirectResponse, Response

from tickwise.control.bodies import DecideBody, DiscardBody, RedriveBody
from tickwise.control.filters import LettersFilter
from tickwise.control.runs.letters import LetterService
from tickwise.control.runs.payloads import is_task_changed
from tickwise.ports.paging import place_after
from tickwise.ports.store import LetterResolution, LetterRow, LetterStatus
from tickwise.web import forms
from tickwise.web.page import WebPage
from tickwise.web.views.jobs import filters_of
from tickwise.web.views.rows import error_groups, jobs_of, next_page
from tickwise.web.visit import Visit

PAGE_SIZE: Final = 25
TEXT_MAX: Final = 200
SEE_OTHER: Final = 303
FILTERS: Final = ("status", "reason", "task_kind", "error_id")
WAITING: Final = [LetterStatus.OPEN, LetterStatus.HELD]
UNSETTLED: Final = frozenset({*WAITING, LetterStatus.EXPIRED})
"""Nobody has decided about it yet."""


async def letters_page(visit: Visit) -> Response:
    """A page of dead letters; those that wait for a person, if no status is asked for."""
    said = visit.query
    asked = [each for each in visit.request.query_params.getlist("status") if each]
    statuses = [forms.choice(LetterStatus, each, "status") for each in asked] or WAITING
    body = LettersFilter(status=statuses)
    if reason := forms.text(said, "reason", TEXT_MAX):
        body.reason = reason
    if task_kind := forms.text(said, "task_kind", TEXT_MAX):
        body.task_kind = task_kind
    if error_id := forms.identifier(said.get("error_id"), "error_id"):
        body.error_id = error_id
    before = forms.identifier(said.get("cursor"), "cursor")
    rows = await visit.control.letters.search(visit.who, body, before=before, limit=PAGE_SIZE + 1)
    shown = rows[:PAGE_SIZE]
    goes_on = place_after(rows, PAGE_SIZE, lambda row: row.run.run_id, is_rest=False)
    filters = filters_of(visit, FILTERS)
    values = {
        "letters": shown,
        "changed": await _changed(visit, shown),
        "errors": await error_groups(visit, [letter.run.run_id for letter in shown]),
        "asked": said,
        "filters": filters,
        "statuses": [each.value for each in LetterStatus],
        "chosen": asked,
        "unsettled": UNSETTLED,
        "next": next_page(visit, "/dead-letters", filters, goes_on),
        "looks_further": rows.paused_at is not None and rows.paused_at == goes_on,
        "first": visit.url("/dead-letters", **filters) if before else None,
    }
    return visit.page("letters.html", values)


async def _changed(visit: Visit, letters: Sequence[LetterRow]) -> Mapping[UUID, float]:
    """By run, of letters that wait: when the task or the payload of the job was changed after the run began."""
    waiting = [letter.run for letter in letters if letter.settled_by is None]
    jobs = await jobs_of(visit, [run.job_id for run in waiting]) if waiting else {}
    return {
        run.run_id: job.task_changed_at
        for run in waiting
        if (job := jobs.get(run.job_id)) is not None and is_task_changed(run, job)
    }


async def redrive(visit: Visit) -> Response:
    """A new run in its place."""
    await visit.control.letters.redrive(
        visit.who, visit.uuid("run_id", "dead letter"), RedriveBody(note=forms.text(visit.form, "note"))
    )
    return _back(visit)


async def discard(visit: Visit) -> Response:
    """Nothing more is done about it."""
    await visit.control.letters.discard(
        visit.who, visit.uuid("run_id", "dead letter"), DiscardBody(note=forms.text(visit.form, "note"))
    )
    return _back(visit)


async def decide(visit: Visit) -> Response:
    """Record the truth about an unknown outcome."""
    outcome = forms.choice(LetterResolution, visit.form.get("outcome", ""), "outcome")
    await visit.control.letters.decide(
        visit.who,
        visit.uuid("run_id", "dead letter"),
        DecideBody(outcome=outcome, note=forms.text(visit.form, "note")),
    )
    return _back(visit)


def _back(visit: Visit) -> Response:
    """To the list, or to the page of the run from which it was done."""
    is_of_run = visit.query.get("back") == "run"
    path = f"/runs/{visit.uuid('run_id', 'dead letter')}" if is_of_run else "/dead-letters"
    return RedirectResponse(visit.url(path), SEE_OTHER)


def _action(name: str, handler: Callable[[Visit], Awaitable[Response]], control: Callable[..., object]) -> WebPage:
    path = f"/dead-letters/{{run_id}}/{name}"
    return WebPage(
        method="POST", path=path, name=f"letter_{name}", query=("back",), handler=handler, control=(control,)
    )


LETTERS: Final[tuple[WebPage, ...]] = (
    WebPage(
        method="GET",
        path="/dead-letters",
        name="letters",
        query=(*FILTERS, "cursor"),
        handler=letters_page,
        control=(LetterService.search,),
    ),
    _action("redrive", redrive, LetterService.redrive),
    _action("discard", discard, LetterService.discard),
    _action("decide", decide, LetterService.decide),
)
