"""The first page: is it well, what does it do, what failed last, what is overdue, what comes next."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from starlette.responses import Response

from tickwise.control.observing.objectives import ObjectiveService
from tickwise.domain.decision import Hold
from tickwise.domain.errors import Forbidden, Invalid
from tickwise.domain.lifecycle import RunState
from tickwise.domain.notices.rules import Alert, AlertState, Severity
from tickwise.domain.stops import Stop
from tickwise.ports.store import JobRow, RunQuery, RunRow, Tally
from tickwise.ports.store.notices import AlertQuery
from tickwise.web import charts, texts
from tickwise.web.page import WebPage
from tickwise.web.views.observing.missed import missed_times
from tickwise.web.views.observing.verdict import HealthFacts, verdict
from tickwise.web.views.rows import job_line, job_names, lateness_of
from tickwise.web.visit import Visit

T = TypeVar("T")

OVERDUE_SECONDS: Final = 5.0
MEASURED_RUNS: Final = 200
LISTED: Final = 8
ALERTS_LOOKED_AT: Final = 50
LATE_LOOKED_AT: Final = 40
"""Jobs past their time that are looked at, to tell the overdue ones from those that are held back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The last 24 hours, and the latest runs."""

    ended: int
    succeeded: int
    failed: int
    last_hour: int
    failed_last_hour: int
    measured: int
    late_half: float | None
    late_most: float | None
    bars: Sequence[charts.Bar]


async def overview(visit: Visit) -> Response:
    """The page. What the visitor may not see is left out."""
    control, who, now = visit.control, visit.who, visit.now
    runs, jobs = control.runs, control.jobs
    namespace = who.namespace
    failed = RunQuery(namespace=namespace, states=(RunState.FAILED,), limit=LISTED)
    latest = RunQuery(namespace=namespace, limit=MEASURED_RUNS)
    standing = AlertQuery(
        namespace=namespace, states=(AlertState.OPEN, AlertState.ACKNOWLEDGED), limit=ALERTS_LOOKED_AT + 1
    )
    alerts = await _shown(visit, type(control.alerts).page, lambda: control.alerts.page(who, standing)) or ()
    stats, tallies, measured, failures, late, following, executors, queues = await asyncio.gather(
        control.cluster.stats(),
        _shown(visit, type(runs).tally, lambda: runs.tally(who, None, None)),
        _shown(visit, type(runs).search, lambda: runs.search(who, latest)),
        _shown(visit, type(runs).search, lambda: runs.search(who, failed)),
        _shown(visit, type(jobs).coming, lambda: jobs.coming(who, before=now - OVERDUE_SECONDS, limit=LATE_LOOKED_AT)),
        _shown(visit, type(jobs).coming, lambda: jobs.coming(who, after=now, limit=LISTED)),
        _shown(visit, type(control.cluster).executors, lambda: control.cluster.executors(who)),
        _shown(visit, type(control.queues).overview, lambda: control.queues.overview(who)),
    )
    objectives = await _shown(
        visit, ObjectiveService.page, lambda: control.objectives.page(who, after=None, limit=LISTED)
    )
    names = await job_names(visit, [run.job_id for run in failures or ()])
    missed = await missed_times(visit, tallies)
    unserved = await control.queues.unserved(who, queues) if queues else ()
    held_back = [(row, why) for row in late or () if (why := _held_back(row, visit.stops)) is not None]
    overdue = [row for row in late or () if row not in [each for each, _ in held_back]]
    live = None if executors is None else [row for row in executors if row.gone_at is None]
    figures = None if tallies is None else _figures(tallies, measured or (), now)
    hour_began = now // charts.HOUR * charts.HOUR
    # Counts are of all jobs of the namespace. Who sees some of them is told of those that are listed.
    seen = sum(run.due_at >= hour_began for run in failures or ())
    facts = HealthFacts(
        now=now,
        stats=stats,
        alerts=alerts[:ALERTS_LOOKED_AT],
        is_cut=len(alerts) > ALERTS_LOOKED_AT,
        objectives=() if objectives is None else objectives.objectives,
        stops=visit.stops,
        executors=executors or (),
        queues=queues or (),
        unserved=unserved,
        overdue=len(overdue),
        failed=seen if figures is None else figures.failed_last_hour,
        is_failed_cut=figures is None and seen == LISTED,
        missed=missed,
        hour={"status": RunState.FAILED.value, "due_after": texts.iso(hour_began)},
    )
    values: dict[str, Any] = {
        "verdict": verdict(facts),
        "figures": figures,
        "failures": failures,
        "names": names,
        "overdue": [job_line(row) for row in overdue[:LISTED]],
        "held_back": [(job_line(row), why) for row, why in held_back[:LISTED]],
        "following": None if following is None else [job_line(row) for row in following],
        "executors": live,
        "queues": queues,
        "objectives": None if objectives is None else objectives.objectives,
        "alerts": by_subject([each for each in alerts if each.state is AlertState.OPEN]),
        "alerts_shown": LISTED,
    }
    return visit.page("overview.html", values)


def _figures(tallies: Sequence[Tally], measured: Sequence[RunRow], now: float) -> Figures:
    counts = {state: sum(tally.runs for tally in tallies if tally.state is state) for state in charts.DRAWN}
    bars = charts.hours(tallies, now)
    late = [seconds for run in measured if run.attempt == 1 and (seconds := lateness_of(run)) is not None]
    return Figures(
        ended=counts[RunState.SUCCESS] + counts[RunState.FAILED],
        succeeded=counts[RunState.SUCCESS],
        failed=counts[RunState.FAILED],
        last_hour=sum(bars[-1].counts.values()),
        failed_last_hour=bars[-1].counts.get(RunState.FAILED, 0),
        measured=len(late),
        late_half=charts.quantile(late, 0.5),
        late_most=charts.quantile(late, 0.99),
        bars=bars,
    )


def _held_back(row: JobRow, stops: Sequence[Stop]) -> str | None:
    """The reason why a job whose time has passed is held back on purpose; None: it is overdue."""
    stop = next((each for each in stops if each.concerns(row.job_id, row.labels, row.lane.queue)), None)
    if stop is not None:
        return f"stopped by {stop.by}: {stop.reason}"
    hold = None if row.timer is None else row.timer.hold
    if hold is None:
        return None
    return {Hold.PAUSED: "paused", Hold.CALENDAR: "its calendar is closed"}.get(hold, "a maintenance window")


def by_severity(alerts: Sequence[Alert]) -> list[Alert]:
    """The gravest first; of equal ones in the order in which they are given."""
    gravest = list(reversed(Severity))
    return sorted(alerts, key=lambda each: gravest.index(each.severity))


def by_subject(alerts: Sequence[Alert]) -> list[tuple[Alert, int]]:
    """Each job or other subject once, with its gravest alert and the number of its alerts; the gravest first."""
    counts = Counter(each.subject for each in alerts)
    gravest = {each.subject: each for each in reversed(by_severity(alerts))}
    return [(each, counts[each.subject]) for each in by_severity(alerts) if gravest[each.subject] is each]


async def _shown(visit: Visit, method: Any, ask: Any) -> Any:
    """The answer of control; None if the visitor may not ask, or the search would take too long."""
    if not visit.may(method):
        return None
    try:
        asked: Awaitable[Any] = ask()
        return await asked
    except (Forbidden, Invalid):
        return None


OVERVIEW: Final = (WebPage(method="GET", path="/", name="overview", handler=overview),)
