"""The audit log: who did what."""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.responses import Response

from tickwise.control.access import holds_everywhere
from tickwise.control.audit.service import AuditService, place_of
from tickwise.domain.audit import AuditAction
from tickwise.domain.errors import Invalid
from tickwise.domain.permissions import Permission
from tickwise.ports.audit import AuditPlace, AuditQuery
from tickwise.web import forms
from tickwise.web.page import WebPage
from tickwise.web.views.jobs import filters_of
from tickwise.web.visit import NAMESPACE, Visit

PAGE_SIZE: Final = 50
TEXT_MAX: Final = 200
FILTERS: Final = ("actor", "action", "target")


async def audit_page(visit: Visit) -> Response:
    """A page of entries, the newest first. Callers of the whole installation see those of each namespace, unless the
    address names one."""
    said = visit.query
    sees_all = holds_everywhere(visit.who, Permission.AUDIT_READ) and not said.get(NAMESPACE)
    action = said.get("action") or None
    query = AuditQuery(
        namespace=None if sees_all else visit.who.namespace,
        actor=forms.text(said, "actor", TEXT_MAX),
        action=None if action is None else forms.choice(AuditAction, action, "action"),
        target=forms.text(said, "target", TEXT_MAX),
        beyond=_place(said.get("cursor")),
        limit=PAGE_SIZE + 1,
    )
    rows = await visit.control.audit.search(visit.who, query)
    shown, goes_on = rows[:PAGE_SIZE], rows.place_after(PAGE_SIZE)
    filters = filters_of(visit, FILTERS)
    values = {
        "entries": [(row, _facts(row.before), _facts(row.after), _facts(row.detail)) for row in shown],
        "asked": said,
        "filters": filters,
        "actions": [each.value for each in AuditAction],
        "sees_all": sees_all,
        "next": None if goes_on is None else visit.url("/audit", **filters, cursor=f"{goes_on.at!r}~{goes_on.entry}"),
        "looks_further": goes_on is not None and goes_on == rows.goes_on,
        "first": visit.url("/audit", **filters) if query.beyond else None,
    }
    return visit.page("audit.html", values)


def _place(cursor: str | None) -> AuditPlace | None:
    if not cursor:
        return None
    at, _, entry = cursor.partition("~")
    place = place_of(at, entry)
    if place is None:
        raise Invalid("this cursor is not from this server; begin without one", pointer="/cursor")
    return place


def _facts(text: str | None) -> str:
    """JSON of an entry on one line."""
    return "" if text is None else msgspec.json.format(text.encode(), indent=0).decode(errors="replace")


RECORDS: Final = (
    WebPage(
        method="GET",
        path="/audit",
        name="audit",
        query=(*FILTERS, "cursor"),
        handler=audit_page,
        control=(AuditService.search,),
    ),
)
