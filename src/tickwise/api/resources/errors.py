"""`/errors`: failures grouped by cause, and what is decided about a group."""

from __future__ import annotations

from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.api.endpoint import Call, Endpoint, Reply, answer, cursor_text, foreign_cursor, page_links, page_of
from tickwise.api.reading import decode, field_names
from tickwise.api.resources.runs import Cursor, Limit
from tickwise.api.resources.written import ErrorDecidedView, reads_runs
from tickwise.api.wire import API, Instant, time_of, time_or_none
from tickwise.control.bodies import ErrorIgnoreBody, ErrorResolveBody
from tickwise.control.filters import Text, Time
from tickwise.control.runs.error_groups import ErrorGroupService
from tickwise.control.times import instant
from tickwise.domain.error_groups import ErrorDecision, ErrorStatus
from tickwise.domain.model import LATEST_INSTANT
from tickwise.ports.store import ErrorGroupQuery, ErrorGroupRow, ErrorPlace

Statuses = Annotated[list[ErrorStatus], Meta(max_length=3, description="May be given several times. Default: all.")]

_resolve: Final = msgspec.json.Decoder(ErrorResolveBody)
_ignore: Final = msgspec.json.Decoder(ErrorIgnoreBody)


class ErrorsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A search for groups of errors; everything given must match."""

    status: Statuses = []
    reason: Text | UnsetType = UNSET
    task_kind: Text | UnsetType = UNSET
    text: Annotated[Text, Meta(description="A part of the kind, the message or the task, in any case.")] | UnsetType = (
        UNSET
    )
    job_id: Annotated[UUID, Meta(description="Of this job, perhaps among others.")] | UnsetType = UNSET
    seen_after: Annotated[Time, Meta(description="It failed at this time or later.")] | UnsetType = UNSET
    first_seen_after: (
        Annotated[Time, Meta(description="It failed for the first time at this time or later.")] | UnsetType
    ) = UNSET
    limit: Limit = 50
    cursor: Cursor | UnsetType = UNSET


class ErrorView(msgspec.Struct, kw_only=True):
    """Failures of one cause."""

    error_id: UUID
    status: ErrorStatus
    reason: str
    """As runs have it: `error`, `exit_code`, `timeout`, …"""
    kind: str
    """The exit status, the signal, the status of HTTP or the exception; empty if the text names none."""
    message: str
    """The text of the error, with `<n>`, `<id>`, `<time>`, `<path>` and `<hex>` in place of what changes."""
    task_kind: str
    task: str
    """The name of the function, the method and host, or else the job: of those two, many jobs may share a group."""
    failures: int
    """Attempts that failed so."""
    jobs: int
    """Jobs that failed so, counted to about 1,000."""
    first_seen: Instant
    last_seen: Instant
    run_id: UUID
    """The run of the newest failure."""
    attempt_number: int
    error_message: str | None
    """The text of the newest failure."""
    decision: ErrorDecision | None
    """The latest decision. The status says whether it still holds."""
    decided_at: Instant | None
    decided_by: str | None
    note: str | None
    ignored_until: Instant | None
    ignored_until_failures: int | None
    """It is open again when `failures` has reached this."""


class ErrorJobView(msgspec.Struct, kw_only=True):
    """A job of a group."""

    job_id: UUID
    failures: int
    last_seen: Instant


class ErrorHourView(msgspec.Struct, kw_only=True):
    """An hour in which something failed."""

    hour: Instant
    failures: int


class ErrorDetailView(ErrorView, kw_only=True):
    """A group with what is counted in it."""

    top_jobs: list[ErrorJobView]
    """Up to 50, those with most failures first."""
    hours: list[ErrorHourView]
    """Of the last 7 days, oldest first."""


def _fields(row: ErrorGroupRow) -> dict[str, Any]:
    return {
        "error_id": row.group_id,
        "status": row.status,
        "reason": row.reason,
        "kind": row.kind,
        "message": row.message,
        "task_kind": row.task_kind,
        "task": row.task,
        "failures": row.failures,
        "jobs": row.jobs,
        "first_seen": time_of(row.first_seen),
        "last_seen": time_of(row.last_seen),
        "run_id": row.sample_run,
        "attempt_number": row.sample_attempt,
        "error_message": row.sample_error,
        "decision": row.decision,
        "decided_at": time_or_none(row.decided_at),
        "decided_by": row.decided_by,
        "note": row.note,
        "ignored_until": time_or_none(row.ignored_until),
        "ignored_until_failures": row.ignored_count,
    }


def _place(cursor: str | UnsetType) -> ErrorPlace | None:
    """The place in a cursor."""
    if cursor is UNSET:
        return None
    seen, _, group_id = cursor_text(cursor).partition(" ")
    try:
        place = ErrorPlace(float.fromhex(seen), UUID(group_id))
    except (ValueError, OverflowError):
        raise foreign_cursor() from None
    if not 0.0 <= place.last_seen < LATEST_INSTANT:  # no number, too
        raise foreign_cursor()
    return place


async def errors_list(call: Call) -> Reply:
    """A page of groups, the one that failed last first."""
    said: ErrorsQuery = call.query
    query = ErrorGroupQuery(
        namespace=call.principal.namespace,
        statuses=said.status,
        reason=None if said.reason is UNSET else said.reason,
        task_kind=None if said.task_kind is UNSET else said.task_kind,
        text=None if said.text is UNSET else said.text,
        job_id=None if said.job_id is UNSET else said.job_id,
        seen_after=None if said.seen_after is UNSET else instant(said.seen_after),
        first_seen_after=None if said.first_seen_after is UNSET else instant(said.first_seen_after),
        beyond=_place(said.cursor),
        limit=said.limit + 1,
    )
    page, more = page_of(await call.control.errors.search(call.principal, query), said.limit)
    last = f"{page[-1].last_seen.hex()} {page[-1].group_id}" if more else None
    return answer(200, [ErrorView(**_fields(row)) for row in page], headers=page_links(call, last))


async def error_get(call: Call) -> Reply:
    """One, with its jobs and hours."""
    found = await call.control.errors.get(call.principal, call.uuid("error_id", "group of errors"))
    jobs = [
        ErrorJobView(job_id=each.job_id, failures=each.failures, last_seen=time_of(each.last_seen))
        for each in found.jobs
    ]
    hours = [ErrorHourView(hour=time_of(each.hour), failures=each.failures) for each in found.hours]
    return answer(200, ErrorDetailView(**_fields(found.row), top_jobs=jobs, hours=hours))


async def error_resolve(call: Call) -> Reply:
    """Resolve a group."""
    body = decode(_resolve, call.body or b"{}", field_names(ErrorResolveBody))
    row = await call.control.errors.resolve(call.principal, call.uuid("error_id", "group of errors"), body)
    return _decided(call, row)


async def error_ignore(call: Call) -> Reply:
    """Ignore a group for a while."""
    body = decode(_ignore, call.body, field_names(ErrorIgnoreBody))
    row = await call.control.errors.ignore(call.principal, call.uuid("error_id", "group of errors"), body)
    return _decided(call, row)


async def error_reopen(call: Call) -> Reply:
    """Take back what was decided."""
    row = await call.control.errors.reopen(call.principal, call.uuid("error_id", "group of errors"))
    return _decided(call, row)


def _decided(call: Call, row: ErrorGroupRow) -> Reply:
    if reads_runs(call.principal):
        return answer(200, ErrorView(**_fields(row)))
    return answer(200, ErrorDecidedView(error_id=row.group_id, status=row.status))


ERRORS: Final = (
    Endpoint(
        method="GET", path=f"{API}/errors", control=ErrorGroupService.search, name="listErrors", tag="errors",
        summary="Search groups of errors: failures of one cause, the group that failed last first.",
        description="Attempts that are tried again count, and runs that failed for good. A failure is in its group "
        "about a second after it. A group that fails while you page moves to the front of the list.",
        handler=errors_list, answers=(list[ErrorView],), query=ErrorsQuery,
    ),
    Endpoint(
        method="GET", path=f"{API}/errors/{{error_id}}", control=ErrorGroupService.get, name="getError", tag="errors",
        summary="One group, with its jobs and its failures by the hour.",
        handler=error_get, answers=(ErrorDetailView,), refuses=(404,),
    ),
    Endpoint(
        method="POST", path=f"{API}/errors/{{error_id}}/resolve", control=ErrorGroupService.resolve,
        name="resolveError", tag="errors",
        summary="Resolve a group; it is open again when it fails again.",
        description="A failure from before the decision that is counted after it does not open the group. To run its "
        "dead letters again, redrive dead letters with the filter `error_id`.",
        handler=error_resolve, body=ErrorResolveBody, optional_body=True, answers=(ErrorView, ErrorDecidedView),
        refuses=(404, 409),
    ),
    Endpoint(
        method="POST", path=f"{API}/errors/{{error_id}}/ignore", control=ErrorGroupService.ignore, name="ignoreError",
        tag="errors", summary="Ignore a group until a time, or for a number of failures.",
        handler=error_ignore, body=ErrorIgnoreBody, answers=(ErrorView, ErrorDecidedView), refuses=(404, 409),
    ),
    Endpoint(
        method="POST", path=f"{API}/errors/{{error_id}}/reopen", control=ErrorGroupService.reopen, name="reopenError",
        tag="errors", summary="Open a group again: what was decided about it is taken back.",
        handler=error_reopen, answers=(ErrorView, ErrorDecidedView), refuses=(404, 409),
    ),
)  # fmt: skip
