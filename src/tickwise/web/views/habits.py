"""For every page: the palette, which finds a page, a job or an id by a text; the form for zone, times and colours."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, parse_qsl, urlencode
from uuid import UUID

from starlette.responses import RedirectResponse, Response

from tickwise.control.jobs.saved_views import FILTERS_MAX, LISTS, QUERY_CHARACTERS, SavedViewService
from tickwise.control.jobs.service import JobService
from tickwise.control.runs.service import RunService
from tickwise.control.stops.service import StopService
from tickwise.domain.errors import Forbidden, Invalid, NotFound, Unavailable
from tickwise.ports.store import SHARED, JobQuery, SavedView
from tickwise.web import forms
from tickwise.web.display import chosen
from tickwise.web.navigation import DOORS, Door
from tickwise.web.page import WebPage
from tickwise.web.transport import own_address
from tickwise.web.visit import Visit

FOUND_MAX: Final = 8
TEXT_MAX: Final = 200
SEE_OTHER: Final = 303
OF_LISTS: Final = frozenset({"namespace", "cursor", "rest", "of", "job_id", "run_id"})
"""Parameters of lists that are no filters: the place, and the rows that are selected."""
STOP_TITLE: Final = "Stop for a time"


@dataclass(frozen=True, slots=True)
class Goal:
    """A place to go to."""

    title: str
    kind: str
    path: str


async def palette(visit: Visit) -> Response:
    """The goals of a text. A script shows them in a dialog; without one this is a page."""
    wanted = forms.text(visit.query, "q", TEXT_MAX) or ""
    goals = [Goal(door.title, "page", door.path) for door in _doors(visit) if wanted.lower() in door.title.lower()]
    if visit.may(StopService.add) and visit.may(StopService.page) and wanted and wanted.lower() in STOP_TITLE.lower():
        goals.append(Goal(STOP_TITLE, "action", "/stops#new-stop"))
    goals += await _views(visit, wanted)
    goals += await _by_id(visit, wanted) or await _jobs(visit, wanted)
    return visit.page("palette.html", {"wanted": wanted, "goals": goals})


async def alive(visit: Visit) -> Response:
    """That the server and its database answer, and know the visitor: a page asks before it sends a form."""
    await visit.control.context.store.now()
    return Response(status_code=204)


async def show_so(visit: Visit) -> Response:
    """Keep how the visitor wants the pages, and go back."""
    response = RedirectResponse(own_address(visit.form.get("back", "/")), SEE_OTHER)
    chosen(visit.form, visit.display).keep(response)
    return response


def _doors(visit: Visit) -> list[Door]:
    return [door for door in DOORS if door.control is None or visit.may(door.control)]


async def _by_id(visit: Visit, wanted: str) -> list[Goal]:
    """The run or the job of an id."""
    try:
        found = UUID(wanted)
    except ValueError:
        return []
    goals = []
    if visit.may(RunService.get):
        with suppress(NotFound):
            goals.append(
                Goal(str((await visit.control.runs.get(visit.who, found)).row.run_id), "run", f"/runs/{found}")
            )
    if visit.may(JobService.get):
        with suppress(NotFound):
            goals.append(Goal((await visit.control.jobs.get(visit.who, found)).name, "job", f"/jobs/{found}"))
    return goals


async def _jobs(visit: Visit, wanted: str) -> list[Goal]:
    """Jobs with the text in their name."""
    if not wanted or not visit.may(JobService.search):
        return []
    query = JobQuery(namespace=visit.who.namespace, name=wanted, may_pause=True, limit=FOUND_MAX)
    rows = await visit.control.jobs.search(visit.who, query)
    return [Goal(row.name, "job", f"/jobs/{row.job_id}") for row in rows]


async def save_view(visit: Visit) -> Response:
    """Save the filters of a list under a name, and show them."""
    path, query = _filters_of(visit.form.get("path", ""), visit.form.get("query", ""))
    owner = SHARED if visit.form.get("shared") == "yes" else visit.who.credential_name
    name = forms.text(visit.form, "name", TEXT_MAX) or ""
    view = SavedView(
        namespace=visit.who.namespace, owner=owner, path=path, name=name, query=query, by=visit.who.name
    )  # fmt: skip
    await visit.control.saved_views.save(visit.who, view)
    return RedirectResponse(visit.url(path, **parse_qs(query)), SEE_OTHER)


async def remove_view(visit: Visit) -> Response:
    """Remove a saved view, and go back."""
    shared = visit.form.get("shared") == "yes"
    path, name = visit.form.get("path", ""), visit.form.get("name", "")
    with suppress(NotFound):  # it was removed a moment ago
        await visit.control.saved_views.remove(visit.who, path, name, shared=shared)
    return RedirectResponse(own_address(visit.form.get("back", "/")), SEE_OTHER)


def _filters_of(path: str, query: str) -> tuple[str, str]:
    """A list, and its filters as an address. Raises `Invalid` for a list or a filter that is not there."""
    if path not in LISTS:
        raise Invalid(f"views are of {' and '.join(LISTS)}", pointer="/path")
    try:
        pairs = parse_qsl(query[:QUERY_CHARACTERS], max_num_fields=FILTERS_MAX)
    except ValueError:
        raise Invalid(f"the filters are at most {FILTERS_MAX}", pointer="/query") from None
    kept = [(name, value) for name, value in pairs if name not in OF_LISTS or name in LISTS[path]]
    forms.check_names(dict(kept), LISTS[path])
    if not kept:
        raise Invalid("there is no filter to save: search first", pointer="/query")
    return path, urlencode(kept)


async def _views(visit: Visit, wanted: str) -> list[Goal]:
    """The saved views with the text in their name."""
    if not visit.may(SavedViewService.page):
        return []
    try:
        found = await visit.control.saved_views.page(visit.who)
    except (Forbidden, Unavailable):
        return []
    named = [view for view in found if wanted.lower() in view.name.lower()][:FOUND_MAX]
    return [Goal(view.name, f"view of {view.path[1:]}", f"{view.path}?{view.query}") for view in named]


HABITS: Final = (
    WebPage(method="GET", path="/find", name="find", query=("q",), handler=palette),
    WebPage(method="GET", path="/alive", name="alive", handler=alive, is_stream=True),
    WebPage(method="POST", path="/views", name="view_save", handler=save_view, control=(SavedViewService.save,)),
    WebPage(
        method="POST", path="/views/remove", name="view_remove", handler=remove_view, control=(SavedViewService.remove,)
    ),
    WebPage(method="POST", path="/display", name="display", handler=show_so, is_open=True),
)
