"""The time line: what ran and what will run, on one axis, by hour, day or week.

Bounded: at most `RUNS_MAX` runs and the starts of one look (`schedules.plans`) are read, and the page says from when to
when it knows all. Counts of each hour stand in for runs that were not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from starlette.responses import Response

from tickwise.control.runs.service import RunService
from tickwise.control.schedules.plans import NamespacePlan, PlanWindow
from tickwise.control.schedules.stored_rules import Range
from tickwise.domain.errors import Busy, Forbidden, Invalid
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import id_instant, name_before, name_from
from tickwise.domain.zones import LAST_INSTANT
from tickwise.ports.paging import SearchPlace
from tickwise.ports.store import RunQuery, RunRow, Tally
from tickwise.web import forms, timeline
from tickwise.web.page import WebPage
from tickwise.web.texts import utc
from tickwise.web.timeline import Axis, Band
from tickwise.web.views.jobs import labels_of
from tickwise.web.views.rows import job_names
from tickwise.web.visit import Visit

T = TypeVar("T")
U = TypeVar("U")

RUNS_MAX: Final = 1_000
"""The runs that one page reads: some 30 µs each."""
LOOKS_MAX: Final = 2
"""The looks of a search that pauses. Before the place of the last one the runs
are not known, and the page says so."""
CLOSURES_MAX: Final = 12
"""Windows, and calendars, that are drawn; those with the first names."""
CROWDS_LISTED: Final = 10
STRETCHES_MAX: Final = 200
TEXT_MAX: Final = 200
FILTERS: Final = ("name", "job_id", "label", "queue")
USUAL: Final = "day"
REFRESH_SECONDS: Final = {"hour": 10, "day": 20, "week": 60}


class Closure(NamedTuple):
    """A maintenance window or a calendar on the axis."""

    name: str
    kind: str
    """`window`, `calendar`."""
    about: str
    bands: Sequence[Band]


class _Filter(NamedTuple):
    job_id: UUID | None
    name: str | None
    labels: dict[str, str]
    queue: str | None

    @property
    def is_set(self) -> bool:
        return any(self)


async def timeline_page(visit: Visit) -> Response:
    """The page. Raises `Invalid` for an address that is none."""
    said, now = visit.query, visit.now
    scale = timeline.SCALES.get(said.get("view") or USUAL)
    if scale is None:
        raise Invalid(f"write one of {', '.join(timeline.SCALES)}", pointer="/view")
    at = forms.moment(said, "at", "UTC")
    middle = now if at is None else min(max(at.timestamp(), 0.0), LAST_INSTANT - 2 * scale.span)
    axis = Axis.around(scale, middle)
    asked = _filter(visit)
    runs, plan, tallies, closures, slots = await asyncio.gather(
        _runs(visit, axis, asked),
        _plan(visit, axis, asked, now),
        _tallies(visit, axis, asked, now),
        _closures(visit, axis),
        _slots(visit),
    )
    marks = timeline.marks_of(runs.rows, () if plan is None else plan.starts, now)
    rows, without_row = timeline.lanes(axis, marks)
    crowds, crowded, crowd_least = timeline.crowds(axis, marks, now, slots)
    found = timeline.load(axis, marks, now, slots)
    drawn = timeline.bars(axis, marks, tallies, runs.known_from)
    wanted = [row.job_id for row in rows] + [job for crowd in crowds[:CROWDS_LISTED] for job in crowd.jobs]
    values: dict[str, Any] = {
        "axis": axis,
        "scales": list(timeline.SCALES),
        "asked": said,
        "filters": _kept(visit),
        "is_filtered": asked.is_set,
        "bars": drawn,
        "totals": {kind: timeline.total((bar.counts for bar in drawn), (kind,)) for kind in timeline.KINDS},
        "load": found,
        "load_of": lambda bar: timeline.load_of(axis, found, bar),
        "slots": slots,
        "lanes": rows,
        "without_row": without_row,
        "names": await _names(visit, wanted, plan),
        "crowds": crowds,
        "listed": crowds[:CROWDS_LISTED],
        "crowded": crowded,
        "crowd_least": crowd_least,
        "closures": closures,
        "known_from": runs.known_from if runs.known_from > axis.start else None,
        "runs_most": RUNS_MAX,
        "runs_fault": runs.fault,
        "has_tallies": bool(tallies),
        "plan": plan,
        "known_until": None if plan is None or plan.known_until is None else max(now, plan.known_until),
        "links": _links(visit, axis, at is not None),
        "refresh": REFRESH_SECONDS[scale.name] if axis.start <= now < axis.end else None,
    }
    return visit.page("timeline.html", values)


class _Past(NamedTuple):
    rows: Sequence[RunRow]
    known_from: float
    """Before this moment runs are missing."""
    fault: str | None = None
    """The search would have taken too long; this narrows it."""


async def _runs(visit: Visit, axis: Axis, asked: _Filter) -> _Past:
    """The newest runs of the axis. All states are named, so that planned skips are among them."""
    query = RunQuery(
        namespace=visit.who.namespace,
        job_id=asked.job_id,
        job_name=asked.name,
        labels=asked.labels,
        queue=asked.queue,
        states=tuple(RunState),
        after=name_before(axis.start),
        before=name_from(axis.end),
        limit=RUNS_MAX + 1,
        may_pause=True,
        brief=True,
    )
    rows: list[RunRow] = []
    paused_at: SearchPlace | None = None
    try:
        for _ in range(LOOKS_MAX):
            page = await visit.control.runs.search(visit.who, query)
            rows, paused_at, is_cut = [*rows, *page], page.paused_at, page.is_full(query.limit)
            if paused_at is None:
                break
            below, most = min(paused_at.before, name_from(axis.end)), RUNS_MAX + 1 - len(rows)
            query = replace(query, before=below, is_rest=paused_at.is_rest, limit=most)
    except Invalid as refusal:
        return _Past((), axis.end, refusal.detail)
    if paused_at is not None:
        return _Past(rows, min(axis.end, max(axis.start, id_instant(paused_at.before))))
    if not is_cut:
        return _Past(rows, axis.start)
    rows.sort(key=lambda run: run.run_id, reverse=True)
    kept = rows[:RUNS_MAX]
    return _Past(kept, kept[-1].nominal_at)


async def _plan(visit: Visit, axis: Axis, asked: _Filter, now: float) -> NamespacePlan | None:
    """The starts to come; None: the axis ends before now, or the visitor may not see jobs."""
    if axis.end <= now or not visit.may(type(visit.control.schedules).plan):
        return None
    window = PlanWindow(
        start=axis.start, end=axis.end, job_id=asked.job_id, name=asked.name, labels=asked.labels, queue=asked.queue
    )
    return await _shown(lambda: visit.control.schedules.plan(visit.who, window), None)


async def _tallies(visit: Visit, axis: Axis, asked: _Filter, now: float) -> Sequence[Tally]:
    """The counts of the hours of the axis: none where it is finer than they are, nor with a filter."""
    if asked.is_set or axis.scale.bucket < 3_600.0 or axis.start > now or not visit.may(type(visit.control.runs).tally):
        return ()
    return await _shown(lambda: visit.control.runs.tally(visit.who, axis.start, min(axis.end, now + 1.0)), ())


async def _slots(visit: Visit) -> int | None:
    """The slots of the active executors that may claim runs of the namespace; None: the visitor may not see them."""
    if not visit.may(type(visit.control.cluster).executors):
        return None
    rows = await _shown(lambda: visit.control.cluster.executors(visit.who), None)
    if rows is None:
        return None
    return sum(row.slots for row in rows if row.gone_at is None and row.takes(visit.who.namespace))


async def _closures(visit: Visit, axis: Axis) -> Sequence[Closure]:
    """Maintenance windows and calendars that cover a part of the axis."""
    within = Range(start=axis.start, end=axis.end, limit=STRETCHES_MAX)
    windows, calendars = visit.control.windows, visit.control.calendars
    found: list[Closure] = []
    if visit.may(type(windows).covering):
        for entry, covers in await _shown(lambda: windows.covering(visit.who, within, CLOSURES_MAX), ()):
            window = entry.stored.window
            whom = ", ".join(f"{name}={value}" for name, value in window.labels.items()) or "every job"
            about = f"{window.action.value}s {whom}{': ' if window.reason else ''}{window.reason}"
            found.append(Closure(entry.row.name, "window", about, timeline.bands(axis, covers.stretches)))
    if visit.may(type(calendars).covering):
        for named, covers in await _shown(lambda: calendars.covering(visit.who, within, CLOSURES_MAX), ()):
            found.append(Closure(named.row.name, "calendar", "", timeline.bands(axis, covers.stretches)))
    return [each for each in found if each.bands]


async def _names(visit: Visit, wanted: Sequence[UUID], plan: NamespacePlan | None) -> dict[UUID, str]:
    known = {} if plan is None else {job_id: row.name for job_id, row in plan.jobs.items()}
    return {**known, **await job_names(visit, [job_id for job_id in wanted if job_id not in known])}


async def _shown(ask: Callable[[], Awaitable[T]], otherwise: U) -> T | U:
    """The answer of control; `otherwise` where it refuses, or would take too long."""
    try:
        return await ask()
    except (Forbidden, Invalid, Busy):
        return otherwise


def _filter(visit: Visit) -> _Filter:
    said = visit.query
    return _Filter(
        job_id=forms.identifier(said.get("job_id"), "job_id"),
        name=forms.text(said, "name", TEXT_MAX),
        labels=dict(labels_of(visit.request.query_params.getlist("label"))),
        queue=forms.text(said, "queue", TEXT_MAX),
    )


def _kept(visit: Visit) -> dict[str, Any]:
    """The filters, for the links of the page."""
    asked = visit.request.query_params
    return {name: found for name in FILTERS if (found := [each for each in asked.getlist(name) if each])}


def _links(visit: Visit, axis: Axis, is_moved: bool) -> dict[str, str | None]:
    """The addresses of other parts of the line."""
    kept = _kept(visit)
    middle = axis.start + axis.scale.span / 2 - axis.scale.tick / 2

    def at(scale: str, moment: float | None) -> str:
        text = None if moment is None else f"{utc(moment):%Y-%m-%dT%H:%M}"
        return visit.url("/timeline", **kept, view=None if scale == USUAL else scale, at=text)

    return {
        "earlier": at(axis.scale.name, max(0.0, middle - axis.scale.span / 2)),
        "later": at(axis.scale.name, min(LAST_INSTANT - 2 * axis.scale.span, middle + axis.scale.span / 2)),
        "now": at(axis.scale.name, None) if is_moved else None,
        **{f"view_{name}": at(name, middle if is_moved else None) for name in timeline.SCALES},
        "clear": visit.url("/timeline", view=None if axis.scale.name == USUAL else axis.scale.name),
    }


TIMELINE: Final = (
    WebPage(
        method="GET",
        path="/timeline",
        name="timeline",
        query=(*FILTERS, "view", "at"),
        handler=timeline_page,
        control=(RunService.search,),
    ),
)
