"""Stops: which there are, what one would hold back, the stop itself, its end.

        /stops ── form ──► /stops/new?what=…: what it would hold back, nothing is changed ── confirmed ──► POST /stops

The address of the middle page has all that was chosen, so a colleague can look at it before it is confirmed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType
from starlette.responses import RedirectResponse, Response

from tickwise.control.jobs.service import JobService
from tickwise.control.runs.service import RunService
from tickwise.control.stops.service import MAX_COUNTED, StopBody, StopService
from tickwise.control.times import EPOCH, instant_within
from tickwise.domain.errors import Conflict, Forbidden, Invalid, JobNotFound, NotFound, Refused
from tickwise.domain.stops import Meanwhile, StopScope
from tickwise.web import forms
from tickwise.web.page import WebPage
from tickwise.web.views.rows import job_names
from tickwise.web.visit import Visit

SEE_OTHER: Final = 303
PAGE_SIZE: Final = 50
STANDING_MOST: Final = 101
"""A namespace has at most a hundred stops that stand."""
LENGTHS: Final = {"15": "15 minutes", "60": "1 hour", "240": "4 hours", "1440": "1 day", "lifted": "until it is lifted"}
"""In minutes."""
LIFTED: Final = "lifted"
MINUTES_MOST: Final = 366 * 1_440
WHICH_MAX: Final = 2_000
_STATUSES: Final[Mapping[type[Refused], int]] = {Forbidden: 403, NotFound: 404, JobNotFound: 404, Conflict: 409}
FIELDS: Final = ("what", "which", "reason", "for", "from", "until", "meanwhile", "cancel_running")


class Scope(StrEnum):
    """The kinds of scopes."""

    LABELS = "labels"
    QUEUE = "queue"
    JOB = "job"
    ALL = "all"


async def stops_page(visit: Visit) -> Response:
    """The stops of the namespace, and the form of a new one."""
    return await _stops(visit, typed={name: visit.query[name] for name in FIELDS if name in visit.query})


async def preview(visit: Visit) -> Response:
    """The work that a stop would hold back, before it is confirmed."""
    said = visit.query
    try:
        impact = await visit.control.stops.preview(visit.who, _body(visit, said))
    except (Invalid, NotFound) as refusal:
        return await _stops(visit, typed=said, fault=refusal)
    values = {
        "impact": impact,
        "counted_most": MAX_COUNTED,
        "stop": impact.stop,
        "sent": {name: said[name] for name in FIELDS if said.get(name)},
        "cancels": said.get("cancel_running") == "yes",
        "may_cancel": visit.may(RunService.cancel),
        "may_read": visit.may(RunService.search),
        "scope_runs": _runs_of(impact.stop.scope),
        "listed": _jobs_of(visit, impact.stop.scope),
        "names": await job_names(visit, [run.job_id for run in impact.going]),
    }
    return visit.page("stop_new.html", values)


def _runs_of(scope: StopScope) -> dict[str, object]:
    """The filter of the page of runs for the runs of a scope."""
    return {"label": _label_filters(scope), "queue": scope.queue, "job_id": scope.job_id}


def _jobs_of(visit: Visit, scope: StopScope) -> dict[str, object] | None:
    """The filter of the page of jobs for the jobs of a scope; None: it has no such filter, or the visitor no right to
    see it."""
    if scope.queue is not None or scope.job_id is not None or not visit.may(JobService.search):
        return None
    return {"label": _label_filters(scope)}


def _label_filters(scope: StopScope) -> list[str]:
    return [f"{name}={value}" for name, value in scope.labels.items()]


async def add(visit: Visit) -> Response:
    """Stop it."""
    try:
        made = await visit.control.stops.add(visit.who, _body(visit, visit.form))
    except (Invalid, NotFound, Conflict, Forbidden) as refusal:
        if not visit.may(StopService.page) or (isinstance(refusal, Forbidden) and not visit.may(StopService.add)):
            raise
        return await _stops(visit, typed=visit.form, fault=refusal)
    return RedirectResponse(visit.url("/stops", done=str(made.stop.stop_id)), SEE_OTHER)


async def lift(visit: Visit) -> Response:
    """End it now."""
    await visit.control.stops.lift(visit.who, visit.uuid("stop_id", "stop"))
    return RedirectResponse(visit.url("/stops"), SEE_OTHER)


async def _stops(visit: Visit, *, typed: Mapping[str, str], fault: Refused | None = None) -> Response:
    standing = await visit.control.stops.page(visit.who, standing=True, before=None, limit=STANDING_MOST)
    cursor = forms.identifier(visit.query.get("cursor"), "cursor")
    rows = await visit.control.stops.page(visit.who, standing=False, before=cursor, limit=PAGE_SIZE + 1)
    past = [stop for stop in rows[:PAGE_SIZE] if stop.is_over(visit.now)]
    more = len(rows) > PAGE_SIZE
    values = {
        "standing": standing,
        "past": past,
        "first": visit.url("/stops") if cursor is not None else None,
        "next": visit.url("/stops", cursor=str(rows[PAGE_SIZE - 1].stop_id)) if more else None,
        "typed": typed,
        "lengths": LENGTHS,
        "may_cancel": visit.may(RunService.cancel),
        "fault": fault,
        "fault_field": (getattr(fault, "pointer", None) or "").lstrip("/"),
    }
    status = (
        200 if fault is None else 404 if isinstance(fault, NotFound) else 409 if isinstance(fault, Conflict) else 422
    )
    return visit.page("stops.html", values, status)


def _body(visit: Visit, said: Mapping[str, str]) -> StopBody:
    """The body of a stop from the fields of the form. Raises `Invalid`."""
    what = forms.choice(Scope, said.get("what", ""), "what")
    which = forms.text(said, "which", WHICH_MAX)
    if what is not Scope.ALL and which is None:
        raise Invalid("say which: labels as name=value, the name of a queue, or the id of a job", pointer="/which")
    begin = forms.moment(said, "from", "UTC")
    fields: dict[str, object] = {
        "reason": forms.text(said, "reason") or "",
        "begin": begin,
        "until": _until(visit, said, begin),
        "meanwhile": forms.choice(Meanwhile, said.get("meanwhile") or Meanwhile.HOLD, "meanwhile"),
        "cancel_running": said.get("cancel_running") == "yes",
    }
    if what is Scope.ALL:
        fields["all"] = True
    elif what is Scope.LABELS:
        fields["labels"] = _labels(which or "")
    elif what is Scope.QUEUE:
        fields["queue"] = which
    else:
        fields["job_id"] = forms.identifier(which, "which")
    try:
        return msgspec.convert(msgspec.to_builtins(StopBody(**fields)), StopBody, strict=False)  # type: ignore[arg-type]  # checked by convert
    except msgspec.ValidationError as wrong:
        raise Invalid(str(wrong), pointer="/which") from None


def _until(visit: Visit, said: Mapping[str, str], begin: datetime | None) -> datetime | UnsetType | None:
    """The end: a time, or so many minutes after the begin. None: when it is lifted."""
    until = forms.moment(said, "until", "UTC")
    if until is not None:
        return until
    length = said.get("for") or ""
    if length == LIFTED:
        return None
    minutes = forms.whole(length, "for", 1, MINUTES_MOST)
    if minutes is None:
        return UNSET
    start = visit.now if begin is None else instant_within(begin, "/from")
    return EPOCH + timedelta(seconds=start, minutes=minutes)


def _labels(text: str) -> dict[str, str]:
    """Labels as `name=value`, with commas between. Raises `Invalid`."""
    found: dict[str, str] = {}
    for part in text.split(","):
        name, sign, value = part.strip().partition("=")
        if not sign or not name:
            raise Invalid("write labels as name=value, with a comma between two", pointer="/which")
        found[name] = value
    return found


STOPS: Final = (
    WebPage(
        method="GET",
        path="/stops",
        name="stops",
        query=(*FIELDS, "cursor", "done"),
        handler=stops_page,
        control=(StopService.page,),
    ),
    WebPage(
        method="GET",
        path="/stops/new",
        name="stop_preview",
        query=FIELDS,
        handler=preview,
        control=(StopService.preview, StopService.page),
    ),
    WebPage(method="POST", path="/stops", name="stop_add", handler=add, control=(StopService.add,)),
    WebPage(method="POST", path="/stops/{stop_id}/lift", name="stop_lift", handler=lift, control=(StopService.lift,)),
)
