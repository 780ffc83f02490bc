"""Secrets: the list and the page of one, without values, and the forms that set, replace and remove one.

A value goes in and never comes out: no page has it, neither after a fault nor after a sign-in in between
(`forms.kept_fields`).
"""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import RedirectResponse, Response

from tickwise.control.secrets.service import SecretBody, SecretService
from tickwise.domain.errors import Conflict, Invalid, Refused, VersionConflict
from tickwise.domain.secrets.references import clean_secret_name
from tickwise.web import forms
from tickwise.web.page import WebPage
from tickwise.web.visit import Visit

PAGE_SIZE: Final = 50
USES_SHOWN: Final = 100
"""Jobs, and stored tasks, that the page of a secret names."""
NAME_CHARACTERS_MOST: Final = 200
SEE_OTHER: Final = 303
VALUE: Final = "secret"
"""The field of the value: `forms.kept_fields` knows it."""
NEW: Final = "new"
DONE: Final = {
    "set": "The secret is set. Tasks that start from now on get it.",
    "removed": "The secret is removed. Tasks that name it fail at their next start.",
}


async def secrets_page(visit: Visit) -> Response:
    """A page of secrets."""
    return await _list(visit)


async def add(visit: Visit) -> Response:
    """Set a new one."""
    try:
        name = clean_secret_name(forms.text(visit.form, "name", NAME_CHARACTERS_MOST) or "", "/name")
        await visit.control.secrets.set(visit.who, name, _body(visit), only=True)
    except VersionConflict:
        there = Conflict("there is a secret of this name already: replace it in the list", pointer="/name")
        return await _list(visit, fault=there, form=NEW)
    except (Invalid, Conflict) as refusal:
        return await _list(visit, fault=refusal, form=NEW)
    return RedirectResponse(visit.url("/secrets", done="set"), SEE_OTHER)


async def replace(visit: Visit) -> Response:
    """Set one anew, if it is as the visitor saw it."""
    name = visit.request.path_params["name"]
    try:
        found = await visit.control.secrets.to_change(visit.who, name)
        if found is None or str(found.row.version) != visit.form.get("version"):
            raise Conflict("it was set or removed by somebody else meanwhile: look at the list, then decide")
        await visit.control.secrets.set(visit.who, name, _body(visit), found=found, only=True)
    except (Invalid, Conflict, VersionConflict) as refusal:
        return await _list(visit, fault=refusal, form=name)
    return RedirectResponse(visit.url("/secrets", done="set"), SEE_OTHER)


async def secret_page(visit: Visit) -> Response:
    """The page of one: its versions, and the jobs and stored tasks that name it."""
    return await _one(visit)


async def remove(visit: Visit) -> Response:
    """Remove one, once that is confirmed; one that is used, once that is confirmed as well, beside the names of its
    users."""
    name = visit.request.path_params["name"]
    if visit.form.get("confirm") != "yes":
        fault = Invalid("tick the box: tasks that name it fail at their next start", pointer="/confirm")
        return await _list(visit, fault=fault, form=name)
    try:
        await visit.control.secrets.remove(visit.who, name, force=visit.form.get("force") == "yes")
    except Conflict as refusal:
        if refusal.code != "secret_in_use":
            raise
        if not visit.may(SecretService.uses):
            return await _list(visit, fault=refusal, form=name)
        return await _one(visit, fault=Conflict("it is in use: look below, then decide", code="secret_in_use"))
    return RedirectResponse(visit.url("/secrets", done="removed"), SEE_OTHER)


async def _one(visit: Visit, *, fault: Refused | None = None) -> Response:
    name = visit.request.path_params["name"]
    found = await visit.control.secrets.get(visit.who, name)
    values: dict[str, Any] = {
        "row": found.row,
        "readable": visit.control.secrets.has_key(found.row),
        "versions": found.versions,
        "uses": await visit.control.secrets.uses(visit.who, name),
        "shown": USES_SHOWN,
        "fault": fault,
    }
    return visit.page("secret.html", values, 200 if fault is None else 409)


async def _list(visit: Visit, *, fault: Refused | None = None, form: str = "") -> Response:
    after = visit.query.get("after") or None
    rows = await visit.control.secrets.page(visit.who, after, PAGE_SIZE + 1) if visit.may(SecretService.page) else []
    shown = rows[:PAGE_SIZE]
    values: dict[str, Any] = {
        "secrets": [(row, visit.control.secrets.has_key(row)) for row in shown],
        "done": DONE.get(visit.query.get("done", "")),
        "typed": forms.kept_fields(visit.form) if fault is not None else {},
        "fault": fault,
        "fault_form": form,
        "fault_field": (getattr(fault, "pointer", None) or "").strip("/"),
        "first": visit.url("/secrets") if after else None,
        "next": visit.url("/secrets", after=shown[-1].name) if len(rows) > PAGE_SIZE else None,
    }
    return visit.page("secrets.html", values, 200 if fault is None else 422 if isinstance(fault, Invalid) else 409)


def _body(visit: Visit) -> SecretBody:
    """The value as it was typed: forms send each line end as two characters, and programs expect one. Raises
    `Invalid`."""
    value = visit.form.get(VALUE, "").replace("\r\n", "\n")
    if not value:
        raise Invalid("type or paste the value", pointer="/value")
    return SecretBody(value=value)


SECRETS: Final[tuple[WebPage, ...]] = (
    WebPage(
        method="GET",
        path="/secrets",
        name="secrets",
        query=("after", "done"),
        handler=secrets_page,
        control=(SecretService.page,),
    ),
    WebPage(
        method="GET",
        path="/secrets/{name}",
        name="secret",
        handler=secret_page,
        control=(SecretService.get, SecretService.uses),
    ),
    WebPage(method="POST", path="/secrets", name="secret_add", handler=add, control=(SecretService.set,)),
    WebPage(
        method="POST",
        path="/secrets/{name}/replace",
        name="secret_replace",
        handler=replace,
        control=(SecretService.set,),
    ),
    WebPage(
        method="POST",
        path="/secrets/{name}/remove",
        name="secret_remove",
        handler=remove,
        control=(SecretService.remove,),
    ),
)
