"""Status pages as their administrators see them: what is public, how it is now, what is announced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET
from starlette.responses import RedirectResponse, Response

from tickwise.control.observing.status_page_bodies import (
    AnnouncementBody,
    AnnouncementUpdateBody,
    ComponentBody,
    StatusPageBody,
    StatusPageChangeBody,
)
from tickwise.control.observing.status_pages import StatusPageService
from tickwise.domain.errors import Conflict, Invalid, Refused
from tickwise.domain.observing.status_pages import (
    HISTORY_DAYS,
    MAX_COMPONENTS,
    STATES_OF,
    AnnouncementKind,
    AnnouncementState,
    StatusPage,
)
from tickwise.web import forms
from tickwise.web.page import WebPage
from tickwise.web.views.jobs import labels_of
from tickwise.web.visit import Visit

SEE_OTHER: Final = 303
EMPTY_ROWS: Final = 3
"""Rows for further components."""
TEXT_MAX: Final = 4_000
DONE: Final = {
    "made": "The page is made. It is hidden until you make it public.",
    "changed": "The page is changed. What people see follows within a minute.",
    "removed": "The page is removed.",
    "told": "It is announced.",
    "updated": "The announcement is updated.",
    "retracted": "The announcement is removed.",
}


async def pages_page(visit: Visit) -> Response:
    """The status pages of the namespace."""
    return await _list(visit)


async def _list(visit: Visit, fault: Refused | None = None) -> Response:
    values = {
        "pages": await visit.control.status_pages.all(visit.who),
        "typed": visit.form if fault is not None else {},
        "fault": fault,
        "fault_field": _field(fault),
        "done": DONE.get(visit.query.get("done", "")),
    }
    return visit.page("status_pages.html", values, _status(fault))


async def page_page(visit: Visit) -> Response:
    """One status page."""
    return await _one(visit)


async def _one(visit: Visit, fault: Refused | None = None, part: str = "page") -> Response:
    """`part`: the form that was refused."""
    page = await visit.control.status_pages.get(visit.who, _page_id(visit))
    rows = [
        {"name": each.name, "jobs": ", ".join(map(str, each.jobs)), "labels": labels_text(each.labels)}
        for each in page.components
    ]
    if fault is not None and part == "page":
        rows = _typed_rows(visit.form)
    blank = {"name": "", "jobs": "", "labels": ""}
    rows += [blank] * min(EMPTY_ROWS, MAX_COMPONENTS - len(rows))
    may_name = visit.may(StatusPageService.job_names)
    values: dict[str, Any] = {
        "page": page,
        "rows": rows,
        "names": await visit.control.status_pages.job_names(visit.who, page) if may_name else {},
        "announcements": await visit.control.status_pages.announcements(visit.who, page.page_id),
        "states": {kind: [each.value for each in states] for kind, states in STATES_OF.items()},
        "typed": visit.form if fault is not None else {},
        "fault": fault,
        "fault_field": _field(fault),
        "fault_part": part if fault is not None else "",
        "done": DONE.get(visit.query.get("done", "")),
    }
    return visit.page("status_page.html", values, _status(fault))


async def add(visit: Visit) -> Response:
    """Make a page, which is hidden."""
    form = visit.form
    try:
        body = StatusPageBody(slug=forms.text(form, "slug", 100) or "", title=forms.text(form, "title", 200) or "")
        made = await visit.control.status_pages.add(visit.who, body)
    except (Invalid, Conflict) as refusal:
        return await _list(visit, refusal)
    return _to(visit, made, "made")


async def change(visit: Visit) -> Response:
    """Change a page as a whole; one that was changed meanwhile is refused."""
    form = visit.form
    try:
        days = forms.whole(form.get("history_days"), "history_days", 0, HISTORY_DAYS)
        body = StatusPageChangeBody(
            slug=forms.text(form, "slug", 100) or "",
            title=forms.text(form, "title", 200) or "",
            intro=forms.text(form, "intro", TEXT_MAX) or "",
            enabled=form.get("enabled") == "yes",
            show_uptime=form.get("show_uptime") == "yes",
            show_punctuality=form.get("show_punctuality") == "yes",
            history_days=HISTORY_DAYS if days is None else days,
            components=[_component(row) for row in _typed_rows(form)],
        )
        version = forms.whole(form.get("version"), "version", 1, 1 << 31)
        changed = await visit.control.status_pages.change(visit.who, _page_id(visit), body, version=version)
    except (Invalid, Conflict) as refusal:
        return await _one(visit, refusal)
    return _to(visit, changed, "changed")


async def remove(visit: Visit) -> Response:
    """Remove a page."""
    if visit.form.get("confirm") != "yes":
        fault = Invalid("tick the box: its history and announcements go, too", pointer="/confirm")
        return await _one(visit, fault, "remove")
    await visit.control.status_pages.remove(visit.who, _page_id(visit))
    return RedirectResponse(visit.url("/status-pages", done="removed"), SEE_OTHER)


async def announce(visit: Visit) -> Response:
    """Announce something."""
    form, zone = visit.form, visit.display.zone_for(None)
    try:
        kind = forms.choice(AnnouncementKind, form.get("kind", ""), "kind")
        page = await visit.control.status_pages.get(visit.who, _page_id(visit))
        about = [each.name for place, each in enumerate(page.components) if form.get(f"about_{place}") == "yes"]
        body = AnnouncementBody(
            kind=kind,
            title=forms.text(form, "title", 200) or "",
            text=forms.text(form, "text", TEXT_MAX) or "",
            components=about,
            begin=forms.moment(form, "from", str(zone)) or UNSET,
            until=forms.moment(form, "until", str(zone)) or UNSET,
        )
        await visit.control.status_pages.announce(visit.who, page.page_id, body)
    except (Invalid, Conflict) as refusal:
        return await _one(visit, refusal, "announce")
    return _to(visit, page, "told")


async def update(visit: Visit) -> Response:
    """Add a text to an announcement."""
    form = visit.form
    try:
        body = AnnouncementUpdateBody(
            text=forms.text(form, "text", TEXT_MAX) or "",
            state=forms.choice(AnnouncementState, form.get("state", ""), "state"),
        )
        await visit.control.status_pages.update(visit.who, _page_id(visit), _announcement_id(visit), body)
    except (Invalid, Conflict) as refusal:
        return await _one(visit, refusal, str(_announcement_id(visit)))
    return RedirectResponse(visit.url(f"/status-pages/{_page_id(visit)}", done="updated"), SEE_OTHER)


async def retract(visit: Visit) -> Response:
    """Remove an announcement."""
    await visit.control.status_pages.retract(visit.who, _page_id(visit), _announcement_id(visit))
    return RedirectResponse(visit.url(f"/status-pages/{_page_id(visit)}", done="retracted"), SEE_OTHER)


def labels_text(labels: Mapping[str, str]) -> str:
    """Labels as `labels_of` reads them."""
    return ", ".join(f"{name}={value}" for name, value in labels.items())


def _typed_rows(form: Mapping[str, str]) -> list[dict[str, str]]:
    """The components of the form, without the empty rows."""
    rows = [
        {part: form.get(f"{part}_{place}", "").strip() for part in ("name", "jobs", "labels")}
        for place in range(MAX_COMPONENTS)
    ]
    return [row for row in rows if any(row.values())]


def _component(row: Mapping[str, str]) -> ComponentBody:
    """A component of the form. Raises `Invalid`."""
    jobs = [each.strip() for each in row["jobs"].split(",") if each.strip()]
    return ComponentBody(name=row["name"], jobs=jobs, labels=dict(labels_of(row["labels"].split(","))))


def _to(visit: Visit, page: StatusPage, done: str) -> Response:
    return RedirectResponse(visit.url(f"/status-pages/{page.page_id}", done=done), SEE_OTHER)


def _field(fault: Refused | None) -> str:
    return (getattr(fault, "pointer", None) or "").strip("/")


def _status(fault: Refused | None) -> int:
    if fault is None:
        return 200
    return 409 if isinstance(fault, Conflict) else 422


def _page_id(visit: Visit) -> UUID:
    return visit.uuid("page_id", "status page")


def _announcement_id(visit: Visit) -> UUID:
    return visit.uuid("announcement_id", "announcement")


_ONE: Final = "/status-pages/{page_id}"

STATUS_PAGES: Final[tuple[WebPage, ...]] = (
    WebPage(
        method="GET", path="/status-pages", name="status_pages", query=("done",), handler=pages_page,
        control=(StatusPageService.all,),
    ),
    WebPage(
        method="POST", path="/status-pages", name="status_page_add", handler=add,
        control=(StatusPageService.add,),
    ),
    WebPage(
        method="GET", path=_ONE, name="status_page", query=("done",), handler=page_page,
        control=(StatusPageService.get,),
    ),
    WebPage(
        method="POST", path=_ONE, name="status_page_change", handler=change, control=(StatusPageService.change,),
    ),
    WebPage(
        method="POST", path=f"{_ONE}/remove", name="status_page_remove", handler=remove,
        control=(StatusPageService.remove,),
    ),
    WebPage(
        method="POST", path=f"{_ONE}/announcements", name="status_announce", handler=announce,
        control=(StatusPageService.announce,),
    ),
    WebPage(
        method="POST", path=f"{_ONE}/announcements/{{announcement_id}}", name="status_update", handler=update,
        control=(StatusPageService.update,),
    ),
    WebPage(
        method="POST", path=f"{_ONE}/announcements/{{announcement_id}}/remove", name="status_retract",
        handler=retract, control=(StatusPageService.retract,),
    ),
)  # fmt: skip
