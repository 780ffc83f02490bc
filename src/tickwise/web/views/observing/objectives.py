"""Objectives for starts: each with its budget and its burn, and the form of one by priority or labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from starlette.responses import RedirectResponse, Response

from tickwise.control.observing.objectives import ObjectiveBody, ObjectiveService
from tickwise.domain.errors import Conflict, Invalid, Refused
from tickwise.domain.job_fields import OBJECTIVE_RATIO
from tickwise.web import forms
from tickwise.web.page import WebPage
from tickwise.web.visit import Visit

SEE_OTHER: Final = 303
PAGE_SIZE: Final = 50
TEXT_MAX: Final = 2_000
DONE: Final = {"made": "The objective is made. It counts the runs that end from now on.", "removed": "It is removed."}
FIELDS: Final = {"start_within_seconds": "within", "ratio": "share"}
"""Fields of the body by another name in the form."""


async def objectives_page(visit: Visit) -> Response:
    """The objectives of the namespace."""
    return await _objectives(visit, typed={})


async def add(visit: Visit) -> Response:
    """Make one by priority or labels."""
    try:
        await visit.control.objectives.add(visit.who, _body(visit.form))
    except (Invalid, Conflict) as refusal:
        if not visit.may(ObjectiveService.page):
            raise
        return await _objectives(visit, typed=visit.form, fault=refusal)
    return RedirectResponse(visit.url("/objectives", done="made"), SEE_OTHER)


async def remove(visit: Visit) -> Response:
    """Remove one by priority or labels, once that is confirmed."""
    if visit.form.get("confirm") != "yes":
        fault = Invalid("tick the box to remove the objective with its counts", pointer="/confirm")
        return await _objectives(visit, typed={}, fault=fault)
    await visit.control.objectives.remove(visit.who, visit.uuid("objective_id", "objective"))
    return RedirectResponse(visit.url("/objectives", done="removed"), SEE_OTHER)


async def _objectives(visit: Visit, *, typed: Mapping[str, str], fault: Refused | None = None) -> Response:
    cursor = forms.identifier(visit.query.get("cursor"), "cursor")
    page = await visit.control.objectives.page(visit.who, after=cursor, limit=PAGE_SIZE)
    field = (getattr(fault, "pointer", None) or "").lstrip("/").partition("/")[0]
    values = {
        "objectives": page.objectives,
        "first": visit.url("/objectives") if cursor is not None else None,
        "next": None if page.next is None else visit.url("/objectives", cursor=str(page.next)),
        "typed": typed,
        "share": OBJECTIVE_RATIO * 100,
        "done": DONE.get(visit.query.get("done", "")),
        "fault": fault,
        "fault_field": FIELDS.get(field, field),
    }
    return visit.page("objectives.html", values, 200 if fault is None else 409 if isinstance(fault, Conflict) else 422)


def _body(said: Mapping[str, str]) -> ObjectiveBody:
    """The body from the fields of the form. Raises `Invalid`."""
    fields: dict[str, Any] = {
        "name": (forms.text(said, "name", TEXT_MAX) or "").strip(),
        "start_within_seconds": _number(said, "within"),
        "ratio": _number(said, "share") / 100.0,
        "priority": forms.whole(said.get("priority"), "priority", 0, 9),
        "labels": _labels(forms.text(said, "labels", TEXT_MAX) or ""),
    }
    try:
        return msgspec.convert(fields, ObjectiveBody)
    except msgspec.ValidationError as wrong:
        words, _, path = str(wrong).partition(" - at `$.")
        raise Invalid(words, pointer=f"/{path.rstrip('`') or 'name'}") from None


def _labels(text: str) -> dict[str, str]:
    """Labels as `name=value`, with commas between. Raises `Invalid`."""
    found: dict[str, str] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, sign, value = part.partition("=")
        if not sign or not name:
            raise Invalid("write labels as name=value, with a comma between two", pointer="/labels")
        found[name] = value
    return found


def _number(said: Mapping[str, str], name: str) -> float:
    """Raises `Invalid`."""
    try:
        return float(said.get(name) or "")
    except ValueError:
        raise Invalid("a number is needed here, such as 30 or 99.5", pointer=f"/{name}") from None


OBJECTIVES: Final[tuple[WebPage, ...]] = (
    WebPage(
        method="GET",
        path="/objectives",
        name="objectives",
        query=("cursor", "done"),
        handler=objectives_page,
        control=(ObjectiveService.page,),
    ),
    WebPage(
        method="POST", path="/objectives", name="objective_add", handler=add, control=(ObjectiveService.add,)
    ),
    WebPage(
        method="POST",
        path="/objectives/{objective_id}/remove",
        name="objective_remove",
        handler=remove,
        control=(ObjectiveService.remove,),
    ),
)  # fmt: skip
