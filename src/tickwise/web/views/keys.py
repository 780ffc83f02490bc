"""Keys: the list, and the forms that make, rotate and revoke one.

The secret of a key is on one page, once: the answer to the form that made it. Nothing that is kept has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import UNSET
from starlette.responses import RedirectResponse, Response

from tickwise.control.access import holds_everywhere
from tickwise.control.keys.composer import KeyBody
from tickwise.control.keys.service import OVERLAP_SECONDS, KeyRotateBody, KeyService, MadeKey
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Conflict, Forbidden, Invalid, TickwiseError
from tickwise.domain.permissions import ROLES, Permission, Role, contains
from tickwise.ports.identity.keys import KEPT_ELSEWHERE, MAX_OVERLAP_SECONDS, KeyRow
from tickwise.web import forms
from tickwise.web.page import WebPage
from tickwise.web.views.jobs import labels_of
from tickwise.web.visit import Visit

PAGE_SIZE: Final = 50
TEXT_MAX: Final = 200
HOUR_SECONDS: Final = 3_600.0
SEE_OTHER: Final = 303
DONE: Final = {"revoked": "The key is revoked: it is refused from now on."}


async def keys_page(visit: Visit) -> Response:
    """A page of keys."""
    return await _list(visit)


def _line(visit: Visit, row: KeyRow) -> Mapping[str, Any]:
    """A key, the built-in role that has just its permissions, and what the visitor may do with it. Control judges
    again."""
    who = visit.who
    weaker = all(contains(who.permissions_in(place, row.labels), row.scopes) for place in row.namespaces)
    person = who.user_id or who.owner_id
    outlives = who.expires_at is not None and (row.expires_at is None or row.expires_at > who.expires_at)
    shows = person in (None, row.owner_id) and not outlives and row.origin not in KEPT_ELSEWHERE
    return {
        "row": row,
        "role": next((name for name, permissions in ROLES.items() if permissions == row.scopes), None),
        "may_rotate": weaker and shows,
        "may_revoke": weaker,
    }


async def _list(
    visit: Visit, *, fault: TickwiseError | None = None, form: str = "", made: MadeKey | None = None
) -> Response:
    before = forms.identifier(visit.query.get("cursor"), "cursor")
    rows = await visit.control.keys.page(visit.who, before, PAGE_SIZE + 1)
    shown = rows[:PAGE_SIZE]
    everywhere = holds_everywhere(visit.who, Permission.KEYS_ADMIN)
    pointer = getattr(fault, "pointer", None) or ""
    values = {
        "keys": [_line(visit, row) for row in shown],
        "made": made,
        "roles": list(Role),
        "permissions": [each.value for each in Permission],
        "places": [*visit.spaces, INSTALLATION] if everywhere else [visit.who.namespace],
        "overlap_hours": OVERLAP_SECONDS / HOUR_SECONDS,
        "overlap_hours_most": MAX_OVERLAP_SECONDS / HOUR_SECONDS,
        "typed": visit.form if fault is not None else {},
        "fault": fault,
        "fault_form": form,
        "fault_field": pointer.strip("/").split("/")[0],
        "done": DONE.get(visit.query.get("done", "")),
        "next": visit.url("/keys", cursor=shown[-1].key_id) if len(rows) > PAGE_SIZE else None,
        "first": visit.url("/keys") if before else None,
    }
    status = 200 if fault is None else 403 if isinstance(fault, Forbidden) else 422
    return visit.page("keys.html", values, 409 if isinstance(fault, Conflict) else status)


async def make(visit: Visit) -> Response:
    """A new key; its secret is shown on the page that answers."""
    form = visit.form
    try:
        name = forms.text(form, "name", TEXT_MAX)
        if name is None:
            raise Invalid("give the key a name: the program that uses it", pointer="/name")
        permissions = (forms.text(form, "permissions") or "").replace(",", " ").split()
        place = forms.text(form, "namespace", TEXT_MAX)
        labels = dict(labels_of((forms.text(form, "labels") or "").split(",")))
        body = KeyBody(
            name=name,
            role=UNSET if permissions else (forms.text(form, "role", TEXT_MAX) or UNSET),
            permissions=permissions or UNSET,
            namespaces=UNSET if place is None else [place],
            labels=labels or UNSET,
            expires_at=forms.moment(form, "expires_at", "UTC"),
        )
        if visit.who.expires_at is not None and body.expires_at is None:
            body.expires_at = UNSET
        made = await visit.control.keys.make(visit.who, body)
    except (Invalid, Conflict) as refusal:
        return await _list(visit, fault=refusal, form="make")
    return await _list(visit, made=made)


async def rotate(visit: Visit) -> Response:
    """Another secret for a key, shown on the page that answers; the present one works until the overlap ends."""
    key_id = visit.uuid("key_id", "key")
    try:
        most = int(MAX_OVERLAP_SECONDS / HOUR_SECONDS)
        hours = forms.whole(visit.form.get("overlap_hours", "").strip(), "overlap_hours", 0, most)
        seconds = OVERLAP_SECONDS if hours is None else hours * HOUR_SECONDS
        made = await visit.control.keys.rotate(visit.who, key_id, KeyRotateBody(overlap_seconds=seconds))
    except (Invalid, Conflict) as refusal:
        return await _list(visit, fault=refusal, form=str(key_id))
    return await _list(visit, made=made)


async def revoke(visit: Visit) -> Response:
    """End a key for ever."""
    key_id = visit.uuid("key_id", "key")
    try:
        if visit.form.get("confirm") != "yes":
            raise Invalid("tick the box: what uses the key is refused at once", pointer="/confirm")
        await visit.control.keys.revoke(visit.who, key_id)
    except (Invalid, Conflict) as refusal:
        return await _list(visit, fault=refusal, form=str(key_id))
    return RedirectResponse(visit.url("/keys", done="revoked"), SEE_OTHER)


KEYS: Final = (
    WebPage(
        method="GET", path="/keys", name="keys", query=("cursor", "done"), handler=keys_page, control=(KeyService.page,)
    ),
    WebPage(method="POST", path="/keys", name="key_make", handler=make, control=(KeyService.make,)),
    # `KeyService.rotate` needs no permission of a key that rotates itself; here it is another one's.
    WebPage(method="POST", path="/keys/{key_id}/rotate", name="key_rotate", handler=rotate, control=(KeyService.page,)),
    WebPage(
        method="POST", path="/keys/{key_id}/revoke", name="key_revoke", handler=revoke, control=(KeyService.revoke,)
    ),
)
