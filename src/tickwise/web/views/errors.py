"""Errors: failures grouped by cause; one group with its hours, jobs and dead letters, and what is decided about it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from starlette.responses import RedirectResponse, Response

from tickwise.control.bodies import ErrorIgnoreBody, ErrorResolveBody
from tickwise.control.bulk.operations import Accepted, Matches, OperationService
from tickwise.control.filters import LettersFilter, LettersRedriveBody
from tickwise.control.runs.error_groups import ErrorGroupService
from tickwise.control.runs.letters import LetterService
from tickwise.control.times import instant
from tickwise.domain.error_groups import ErrorStatus
from tickwise.domain.errors import Forbidden, Invalid, NotFound, Refused
from tickwise.domain.model import LATEST_INSTANT
from tickwise.ports.store import ErrorGroupQuery, ErrorHour, ErrorPlace, LetterStatus, OperationRow
from tickwise.web import forms
from tickwise.web.page import WebPage
from tickwise.web.views.jobs import filters_of
from tickwise.web.views.rows import job_names
from tickwise.web.visit import Visit

PAGE_SIZE: Final = 25
TEXT_MAX: Final = 200
NOTE_MAX: Final = 1_000
CURSOR_MAX: Final = 100
HOUR: Final = 3_600.0
SPARK_HOURS: Final = 24
CHART_HOURS: Final = 168
LETTERS_SHOWN: Final = 5
JOBS_SHOWN: Final = 10
FAILURES_MAX: Final = 1_000_000_000
SEE_OTHER: Final = 303
FILTERS: Final = ("status", "text", "reason", "task_kind", "job_id", "first_seen_after")
PERIODS: Final = {"hour": 1, "day": 24, "week": 168, "month": 720}
"""The times for which a group is ignored, in hours."""


class HourColumn(NamedTuple):
    """One hour of a chart whose highest reaches 100."""

    hour: float
    failures: int
    y: float
    height: float


def columns(hours: Sequence[ErrorHour], now: float, count: int) -> list[HourColumn]:
    """The last hours, the oldest first."""
    last = now // HOUR * HOUR
    found = {each.hour: each.failures for each in hours}
    most = max(found.values(), default=0) or 1
    wanted = [last - HOUR * back for back in reversed(range(count))]
    sizes = [(hour, failures, max(100.0 * failures / most, 4.0) if failures else 0.0)
             for hour in wanted for failures in [found.get(hour, 0)]]  # fmt: skip
    return [HourColumn(hour, failures, round(100.0 - size, 2), round(size, 2)) for hour, failures, size in sizes]


async def errors_page(visit: Visit) -> Response:
    """A page of groups; the open ones, if no status is asked for."""
    said = visit.query
    asked = [each for each in visit.request.query_params.getlist("status") if each]
    since = forms.moment(said, "first_seen_after", "UTC")
    query = ErrorGroupQuery(
        namespace=visit.who.namespace,
        statuses=[forms.choice(ErrorStatus, each, "status") for each in asked] or [ErrorStatus.OPEN],
        text=forms.text(said, "text", TEXT_MAX),
        reason=forms.text(said, "reason", TEXT_MAX),
        task_kind=forms.text(said, "task_kind", TEXT_MAX),
        job_id=forms.identifier(said.get("job_id"), "job_id"),
        first_seen_after=None if since is None else instant(since),
        beyond=_place(said.get("cursor", "")),
        limit=PAGE_SIZE + 1,
    )
    rows = await visit.control.errors.search(visit.who, query)
    shown, more = rows[:PAGE_SIZE], rows.is_full(PAGE_SIZE + 1)
    filters = filters_of(visit, FILTERS)
    by_group = defaultdict[UUID, list[ErrorHour]](list)
    begin = visit.now // HOUR * HOUR - HOUR * (SPARK_HOURS - 1)
    for each in await visit.control.errors.hours(visit.who, [row.group_id for row in shown], begin):
        by_group[each.group_id].append(each)
    day_ago = datetime.fromtimestamp(visit.now // HOUR * HOUR, UTC) - timedelta(days=1)
    values = {
        "groups": [(row, columns(by_group[row.group_id], visit.now, SPARK_HOURS)) for row in shown],
        "asked": said,
        "filters": filters,
        "statuses": [each.value for each in ErrorStatus],
        "chosen": asked,
        "new": visit.url("/errors", first_seen_after=day_ago.isoformat()),
        "next": visit.url("/errors", **filters, cursor=_cursor(shown[-1].last_seen, shown[-1].group_id))
        if more
        else None,
        "first": visit.url("/errors", **filters) if query.beyond else None,
    }
    return visit.page("errors.html", values)


async def error_page(visit: Visit) -> Response:
    """One group."""
    return await show_error(visit)


async def show_error(visit: Visit, *, fault: Refused | None = None, status: int = 200) -> Response:
    """The page of a group; after a form that was refused, with what was typed and the fault."""
    group = visit.uuid("error_id", "group of errors")
    details = await visit.control.errors.get(visit.who, group)
    wanted = LettersFilter(error_id=group, status=[LetterStatus.OPEN])
    letters = await visit.control.letters.search(visit.who, wanted, before=None, limit=LETTERS_SHOWN)
    jobs = details.jobs[:JOBS_SHOWN]
    bars = columns(details.hours, visit.now, CHART_HOURS)
    values = {
        "group": details.row,
        "bars": bars,
        "of_day": sum(bar.failures for bar in bars[-SPARK_HOURS:]),
        "jobs": jobs,
        "names": await job_names(visit, [each.job_id for each in jobs]),
        "letters": letters,
        "redriving": await _operation(visit),
        "matches": await _matches(visit, group) if letters else None,
        "periods": list(PERIODS),
        "typed": visit.form,
        "fault": fault,
    }
    return visit.page("error.html", values, status)


async def resolve(visit: Visit) -> Response:
    """It is resolved until it fails again."""
    group = visit.uuid("error_id", "group of errors")
    body = ErrorResolveBody(note=forms.text(visit.form, "note", NOTE_MAX))
    await visit.control.errors.resolve(visit.who, group, body)
    return _back(visit, group)


async def ignore(visit: Visit) -> Response:
    """It is ignored for a while."""
    group = visit.uuid("error_id", "group of errors")
    try:
        period = visit.form.get("period", "")
        if period and period not in PERIODS:
            raise Invalid(f"write one of {', '.join(PERIODS)}", pointer="/period")
        failures = forms.whole(visit.form.get("failures", "").strip(), "failures", 1, FAILURES_MAX)
        until = datetime.fromtimestamp(visit.now, UTC) + timedelta(hours=PERIODS[period]) if period else None
        body = ErrorIgnoreBody(until=until, failures=failures, note=forms.text(visit.form, "note", NOTE_MAX))
        await visit.control.errors.ignore(visit.who, group, body)
    except Invalid as refusal:
        if not visit.may(ErrorGroupService.get):
            raise
        return await show_error(visit, fault=refusal, status=422)
    return _back(visit, group)


async def reopen(visit: Visit) -> Response:
    """Take back the decision."""
    group = visit.uuid("error_id", "group of errors")
    await visit.control.errors.reopen(visit.who, group)
    return _back(visit, group)


async def redrive(visit: Visit) -> Response:
    """Run its open dead letters again, as an operation."""
    group = visit.uuid("error_id", "group of errors")
    body = LettersRedriveBody(filter=LettersFilter(error_id=group), note=forms.text(visit.form, "note", NOTE_MAX))
    done = await visit.control.bulk.letters(visit.who, body)
    operation = done.operation_id if isinstance(done, Accepted) else None
    return RedirectResponse(visit.url(f"/errors/{group}", operation=operation), SEE_OTHER)


async def _matches(visit: Visit, group: UUID) -> Matches | None:
    """The dead letters that a redrive would be about; None: the visitor may not ask for one."""
    if not visit.may(OperationService.letters):
        return None
    body = LettersRedriveBody(filter=LettersFilter(error_id=group), dry_run=True)
    done = await visit.control.bulk.letters(visit.who, body)
    return done if isinstance(done, Matches) else None


async def _operation(visit: Visit) -> OperationRow | None:
    """The redrive that the address names, as far as the visitor may look at it."""
    operation = forms.identifier(visit.query.get("operation"), "operation")
    if operation is None:
        return None
    try:
        return await visit.control.bulk.get(visit.who, operation)
    except (NotFound, Forbidden):
        return None


def _cursor(last_seen: float, group_id: UUID) -> str:
    return f"{last_seen!r}_{group_id}"


def _place(cursor: str) -> ErrorPlace | None:
    """The place that an address names. Raises `Invalid`."""
    if not cursor:
        return None
    seen, _, group_id = cursor.partition("_")
    identifier = forms.identifier(group_id or "none", "cursor")
    try:
        at = float(seen) if len(cursor) <= CURSOR_MAX else -1.0
    except ValueError:
        at = -1.0
    if identifier is None or not 0.0 <= at < LATEST_INSTANT:  # no number, too
        raise Invalid("this is no place in the list; begin without it", pointer="/cursor")
    return ErrorPlace(at, identifier)


def _back(visit: Visit, group: UUID) -> Response:
    if visit.may(ErrorGroupService.get):
        return RedirectResponse(visit.url(f"/errors/{group}"), SEE_OTHER)
    return RedirectResponse(visit.url("/"), SEE_OTHER)


def _action(name: str, handler: Callable[[Visit], Awaitable[Response]], control: Callable[..., object]) -> WebPage:
    path = f"/errors/{{error_id}}/{name}"
    return WebPage(method="POST", path=path, name=f"error_{name}", handler=handler, control=(control,))


ERRORS: Final[tuple[WebPage, ...]] = (
    WebPage(
        method="GET",
        path="/errors",
        name="errors",
        query=(*FILTERS, "cursor"),
        handler=errors_page,
        control=(ErrorGroupService.search,),
    ),
    WebPage(
        method="GET",
        path="/errors/{error_id}",
        name="error",
        query=("operation",),
        handler=error_page,
        control=(ErrorGroupService.get, LetterService.search),
    ),
    _action("resolve", resolve, ErrorGroupService.resolve),
    _action("ignore", ignore, ErrorGroupService.ignore),
    _action("reopen", reopen, ErrorGroupService.reopen),
    _action("redrive", redrive, OperationService.letters),
)
