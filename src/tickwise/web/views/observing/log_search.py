"""A search for a text in the outputs of runs: what it costs, the lines that were found, and where it goes on.

One page is one answer of the search, with its bounds. Nothing is searched before a text is sent, and not as it is
typed: each letter would cost a scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from tickwise.control.runs.log_search import (
    HITS_OF_RUN,
    LOG_BYTES_MOST,
    RUNS_MOST,
    OutputHit,
    OutputSearch,
    OutputSearched,
)
from tickwise.control.runs.service import RunService
from tickwise.domain.errors import StoreUnavailable, Unavailable
from tickwise.domain.lifecycle import RunState
from tickwise.ports.store import RunQuery, RunRow
from tickwise.web import forms
from tickwise.web.ansi import OutputLine, lines_of, marked
from tickwise.web.failures import failure_of
from tickwise.web.page import WebPage
from tickwise.web.views.jobs import filters_of
from tickwise.web.views.output import FIND_MAX
from tickwise.web.views.rows import job_names
from tickwise.web.visit import Visit

NAME_MAX: Final = 200
FILTERS: Final = ("find", "job_id", "job_name", "status", "due_after", "due_before")


class RunHits(NamedTuple):
    """The lines of one run that have the text."""

    run: RunRow
    lines: Sequence[OutputLine]


async def log_search_page(visit: Visit) -> Response:
    """The form, and one answer of the search if a text was sent."""
    said = visit.query
    find = forms.text(said, "find", FIND_MAX)
    query = RunQuery(
        namespace=visit.who.namespace,
        job_id=forms.identifier(said.get("job_id"), "job_id"),
        job_name=forms.text(said, "job_name", NAME_MAX),
        states=[forms.choice(RunState, each, "status") for each in _several(visit, "status")],
        due_after=forms.instant(said, "due_after"),
        due_before=forms.instant(said, "due_before"),
        before=forms.identifier(said.get("before"), "before"),
    )
    usual = OutputSearch("")
    filters = filters_of(visit, FILTERS)
    values: dict[str, Any] = {
        "asked": said,
        "filters": filters,
        "states": [each.value for each in RunState],
        "bounds": usual,
        "runs_most": RUNS_MOST,
        "of_one": {"bytes": LOG_BYTES_MOST, "hits": HITS_OF_RUN},
        "first": visit.url("/logs", **filters) if query.before else None,
        "found": None,
        "away": "",
        "next": None,
    }
    if find is None:
        return visit.page("log_search.html", values)
    try:
        found = await visit.control.runs.search_outputs(visit.who, query, usual._replace(text=find))
    except StoreUnavailable:
        raise
    except Unavailable as refusal:  # the store of outputs is away, or others search: what was typed stays
        failure = failure_of(refusal)
        return visit.page("log_search.html", {**values, "away": refusal.detail}, failure.status)
    values |= {
        "found": found,
        "groups": _by_run(found, find),
        "names": await job_names(visit, [hit.run.job_id for hit in found.hits]),
        "next": visit.url("/logs", **filters, before=found.before) if found.before else None,
    }
    return visit.page("log_search.html", values)


def _several(visit: Visit, name: str) -> list[str]:
    return [each for each in visit.request.query_params.getlist(name) if each]


def _by_run(found: OutputSearched, find: str) -> list[RunHits]:
    """The hits, those of one run together, in their order."""
    groups: list[RunHits] = []
    for hit in found.hits:
        if not groups or groups[-1].run.run_id != hit.run.run_id:
            groups.append(RunHits(hit.run, []))
        groups[-1] = RunHits(hit.run, [*groups[-1].lines, *marked(_line(hit), find)])
    return groups


def _line(hit: OutputHit) -> list[OutputLine]:
    lines = lines_of(hit.line.encode(), hit.offset)[:1] or [OutputLine(hit.offset, ())]
    return [lines[0]._replace(is_own=hit.is_own)]


LOG_SEARCH: Final = (
    WebPage(
        method="GET",
        path="/logs",
        name="log_search",
        query=(*FILTERS, "before"),
        handler=log_search_page,
        control=(RunService.search_outputs,),
    ),
)
