"""Analytics: ended runs by groups, as bars and a table, and as CSV. Each filter is in the address, with the names of
the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from tickwise.control.filters import TriggerName
from tickwise.control.observing.analytics import (
    DAY_SECONDS,
    TOP_MOST,
    AnalyticsAnswer,
    AnalyticsQuestion,
    AnalyticsService,
    grouping_of,
)
from tickwise.control.observing.analytics_csv import STATES, analytics_csv
from tickwise.control.times import written
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Trigger
from tickwise.domain.observing.analytics import HOUR_SECONDS, GroupBy, GroupKind, GroupSort, RunGroup
from tickwise.ports.store import RunQuery
from tickwise.web import forms
from tickwise.web.page import WebPage
from tickwise.web.views.jobs import filters_of, labels_of
from tickwise.web.visit import Visit

TEXT_MAX: Final = 200
TOP: Final = 20
PERIODS: Final = {"hour": HOUR_SECONDS, "day": DAY_SECONDS, "week": 7 * DAY_SECONDS, "30 days": 30 * DAY_SECONDS}
FILTERS: Final = (
    "group_by", "from", "until", "sort", "top", "status", "trigger", "reason", "executor_id", "job_id", "job_name",
    "label", "queue",
)  # fmt: skip
WIDTH: Final = 100.0


class BarPart(NamedTuple):
    """A part of a bar of `WIDTH`."""

    state: RunState
    x: float
    width: float


class AnalyticsLine(NamedTuple):
    """A row of the page."""

    row: RunGroup
    instant: float | None
    """The beginning of its hour."""
    link: str | None
    """The runs, or the job, that it counts."""
    parts: Sequence[BarPart]


def question_of(visit: Visit) -> AnalyticsQuestion:
    """The question of an address. Raises `Invalid`."""
    said, several = visit.query, visit.request.query_params.getlist
    states = [forms.choice(RunState, each, "status") for each in several("status") if each]
    triggers = [forms.choice(TriggerName, each, "trigger") for each in several("trigger") if each]
    query = RunQuery(
        namespace=visit.who.namespace,
        job_id=forms.identifier(said.get("job_id"), "job_id"),
        states=states,
        triggers=[Trigger[each.name] for each in triggers],
        reason=forms.text(said, "reason", TEXT_MAX),
        executor=forms.whole(said.get("executor_id"), "executor_id", 0, 10**18 - 1),
        job_name=forms.text(said, "job_name", TEXT_MAX),
        labels=labels_of(several("label")),
        queue=forms.text(said, "queue", TEXT_MAX),
        due_after=forms.instant(said, "from"),
        due_before=forms.instant(said, "until"),
    )
    return AnalyticsQuestion(
        filter=query,
        grouping=grouping_of(said.get("group_by") or GroupBy.JOB.value),
        sort=forms.choice(GroupSort, said.get("sort") or GroupSort.RUNS.value, "sort"),
        top=forms.whole(said.get("top"), "top", 1, TOP_MOST) or TOP,
    )


async def analytics_page(visit: Visit) -> Response:
    """Groups of ended runs."""
    question = question_of(visit)
    found = await visit.control.analytics.answer(visit.who, question)
    filters = filters_of(visit, FILTERS)
    rest = {name: value for name, value in filters.items() if name not in ("from", "until")}
    values = {
        "found": found,
        "analysis": found.analysis,
        "by_hour": question.grouping.by is GroupBy.HOUR,
        "lines": _lines(visit, found, filters),
        "asked": visit.query,
        "filters": filters,
        "sorts": [each.value for each in GroupSort],
        "states": [each.value for each in STATES],
        "chosen": [each.value for each in question.filter.states],
        "sort": question.sort.value,
        "top": question.top,
        "grouping": str(question.grouping),
        "groupings": [each.value if each is not GroupBy.LABEL else "label:" for each in GroupBy],
        "periods": {
            name: visit.url("/analytics", **rest, **{"from": _moment(visit.now - seconds)})
            for name, seconds in PERIODS.items()
        },
        "csv": visit.url("/analytics.csv", **filters),
        "moment": _moment,
    }
    return visit.page("analytics.html", values)


async def analytics_file(visit: Visit) -> Response:
    """Groups of ended runs as CSV."""
    found = await visit.control.analytics.answer(visit.who, question_of(visit))
    headers = {"content-disposition": 'attachment; filename="analytics.csv"'}
    return Response(analytics_csv(found), headers=headers, media_type="text/csv; charset=utf-8")


def _moment(instant: float) -> str:
    return f"{datetime.fromtimestamp(instant, UTC):%Y-%m-%dT%H:%M}"


def _lines(visit: Visit, found: AnalyticsAnswer, filters: Mapping[str, Any]) -> list[AnalyticsLine]:
    rows = found.analysis.groups
    most = max((row.runs for row in rows), default=0) or 1
    lines = []
    for row in rows:
        is_hour = found.grouping.by is GroupBy.HOUR and row.key is not None
        instant = float(row.key or 0) if is_hour else None
        lines.append(AnalyticsLine(row, instant, _link(visit, found, row, filters), _parts(row, most)))
    return lines


def _parts(row: RunGroup, most: int) -> list[BarPart]:
    parts, at = [], 0.0
    for state in STATES:
        width = WIDTH * row.states.get(state, 0) / most
        if width:
            width = max(width, 0.6)
            parts.append(BarPart(state, round(min(at, WIDTH - width), 2), round(width, 2)))
            at += width
    return parts


def _link(visit: Visit, found: AnalyticsAnswer, row: RunGroup, filters: Mapping[str, Any]) -> str | None:
    """The page with the runs of a row. None: no filter finds just these."""
    if row.kind is not GroupKind.GROUP or row.key is None:
        return None
    by = found.grouping.by
    if by is GroupBy.JOB:
        return visit.url(f"/jobs/{row.key}")
    if by is GroupBy.NAMESPACE:
        return visit.url("/analytics") if row.key == visit.who.namespace else f"/analytics?namespace={row.key}"
    shared = ("status", "reason", "executor_id", "job_id", "job_name", "label", "queue")
    asked: dict[str, Any] = {name: filters[name] for name in shared if name in filters}
    begin, end = found.begin, found.end
    if by is GroupBy.HOUR:
        begin = float(row.key)
        end = begin + HOUR_SECONDS
    elif by is GroupBy.LABEL:
        asked["label"] = [*asked.get("label", []), f"{found.grouping.label}={row.key}"]
    else:
        asked["reason" if by is GroupBy.REASON else "executor_id"] = row.key
    return visit.url("/runs", **asked, due_after=written(begin), due_before=written(end))


ANALYTICS: Final[tuple[WebPage, ...]] = (
    WebPage(
        method="GET",
        path="/analytics",
        name="analytics",
        query=FILTERS,
        handler=analytics_page,
        control=(AnalyticsService.answer,),
    ),
    WebPage(
        method="GET",
        path="/analytics.csv",
        name="analytics_csv",
        query=FILTERS,
        handler=analytics_file,
        control=(AnalyticsService.answer,),
    ),
)
