"""For every page: the palette, which finds a page, a job or an id by a text; the form for zone, times and colours."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from starlette.responses import RedirectResponse, Response

from tickwise.control.jobs.service import JobService
from tickwise.control.runs.service import RunService
from tickwise.domain.errors import NotFound
from tickwise.ports.store import JobQuery
from tickwise.web import forms
from tickwise.web.display import chosen
from tickwise.web.navigation import DOORS, Door
from tickwise.web.page import WebPage
from tickwise.web.transport import own_address
from tickwise.web.visit import Visit

FOUND_MAX: Final = 8
TEXT_MAX: Final = 200
SEE_OTHER: Final = 303


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
    goals += await _by_id(visit, wanted) or await _jobs(visit, wanted)
    return visit.page("palette.html", {"wanted": wanted, "goals": goals})


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
    query = JobQuery(namespace=visit.who.namespace, name=wanted, limit=FOUND_MAX)
    rows = await visit.control.jobs.search(visit.who, query)
    return [Goal(row.name, "job", f"/jobs/{row.job_id}") for row in rows]


HABITS: Final = (
    WebPage(method="GET", path="/find", name="find", query=("q",), handler=palette),
    WebPage(method="POST", path="/display", name="display", handler=show_so, is_open=True),
)
