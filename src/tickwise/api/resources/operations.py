"""Bulk requests by filter (`/runs:cancel` and its like), and `/operations`: how far they have come."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from tickwise.api.endpoint import Call, Endpoint, Reply, answer, cursor_id, page_links, page_of, replayed
from tickwise.api.pending import PendingView, awaited
from tickwise.api.problems import Headers
from tickwise.api.reading import decode, field_names
from tickwise.api.resources.letters import LetterView, letter_view
from tickwise.api.resources.runs import Cursor, Limit
from tickwise.api.resources.written import sees_request
from tickwise.api.wire import API, Instant, JobView, RunView, job_view, run_view, time_of, time_or_none
from tickwise.control.buffered.pending import PendingRequest
from tickwise.control.buffered.service import BufferedService
from tickwise.control.bulk.operations import Accepted, Done, OperationService
from tickwise.control.bulk.pages import BulkProblem
from tickwise.control.filters import (
    JobsCancelBody,
    JobsPauseBody,
    JobsResumeBody,
    LettersDiscardBody,
    LettersRedriveBody,
    RunsCancelBody,
    RunsRetryBody,
)
from tickwise.domain.model import Principal
from tickwise.ports.store import JobRow, LetterRow, OperationRow, OperationStatus, Replay, RunRow

_runs_cancel: Final = msgspec.json.Decoder(RunsCancelBody)
_runs_retry: Final = msgspec.json.Decoder(RunsRetryBody)
_jobs_pause: Final = msgspec.json.Decoder(JobsPauseBody)
_jobs_resume: Final = msgspec.json.Decoder(JobsResumeBody)
_jobs_cancel: Final = msgspec.json.Decoder(JobsCancelBody)
_letters_redrive: Final = msgspec.json.Decoder(LettersRedriveBody)
_letters_discard: Final = msgspec.json.Decoder(LettersDiscardBody)
_problems: Final = msgspec.json.Decoder(list[BulkProblem])


class OperationsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The page of the list."""

    limit: Limit = 50
    cursor: Cursor | UnsetType = UNSET


class OperationAccepted(msgspec.Struct, kw_only=True):
    """An operation that is stored, and is carried out from now on."""

    operation_id: UUID
    matched: int | None
    """The number of targets at the moment; null: there are more than are counted, or may be."""


class RunsMatched(msgspec.Struct, kw_only=True):
    """The result of a dry run."""

    matches: int
    more: bool
    """There are more than 10,000; or there may be more, because a count looks at a bounded number of runs."""
    sample: list[RunView]


class JobsMatched(msgspec.Struct, kw_only=True):
    """The result of a dry run."""

    matches: int
    more: bool
    sample: list[JobView]


class LettersMatched(msgspec.Struct, kw_only=True):
    """The result of a dry run."""

    matches: int
    more: bool
    sample: list[LetterView]


class OperationView(msgspec.Struct, kw_only=True):
    """An operation, and how far it has come."""

    operation_id: UUID
    kind: str
    """The route that asked for it, such as `runs:cancel`."""
    status: OperationStatus
    matched: int | None
    """The number of targets at the time of the request; null: there were more than were counted, or may have been."""
    done: int
    refused: int
    problems: list[BulkProblem]
    """The first refusals."""
    request: msgspec.Raw
    """The filter and the other fields. Empty for a caller that neither asked for it nor may read what it is about."""
    created_by: str
    created_at: Instant
    updated_at: Instant
    ended_at: Instant | None


def operation_view(who: Principal, row: OperationRow) -> OperationView:
    """An operation as this caller is answered."""
    return OperationView(
        operation_id=row.operation_id,
        kind=row.kind,
        status=row.status,
        matched=row.matched,
        done=row.done,
        refused=row.refused,
        problems=_problems.decode(row.problems),
        request=msgspec.Raw(row.request.encode() if sees_request(who, row) else b"{}"),
        created_by=row.created_by,
        created_at=time_of(row.created_at),
        updated_at=time_of(row.updated_at),
        ended_at=time_or_none(row.ended_at),
    )


# ------------------------------------------------------------------------------------------ asked for


async def runs_cancel(call: Call) -> Reply:
    """Cancel runs."""
    body = decode(_runs_cancel, call.body, field_names(RunsCancelBody))
    return _answered(call, await call.control.bulk.runs(call.principal, body, _receipt(call)))


async def runs_retry(call: Call) -> Reply:
    """Retry runs."""
    body = decode(_runs_retry, call.body, field_names(RunsRetryBody))
    return _answered(call, await call.control.bulk.runs(call.principal, body, _receipt(call)))


async def jobs_pause(call: Call) -> Reply:
    """Pause jobs."""
    body = decode(_jobs_pause, call.body, field_names(JobsPauseBody))
    return _answered(call, await call.control.bulk.pause_jobs(call.principal, body, _receipt(call)))


async def jobs_resume(call: Call) -> Reply:
    """Resume jobs."""
    body = decode(_jobs_resume, call.body, field_names(JobsResumeBody))
    return _answered(call, await call.control.bulk.resume_jobs(call.principal, body, _receipt(call)))


async def jobs_cancel(call: Call) -> Reply:
    """Cancel jobs."""
    body = decode(_jobs_cancel, call.body, field_names(JobsCancelBody))
    return _answered(call, await call.control.bulk.cancel_jobs(call.principal, body, _receipt(call)))


async def letters_redrive(call: Call) -> Reply:
    """Redrive dead letters."""
    body = decode(_letters_redrive, call.body, field_names(LettersRedriveBody))
    return _answered(call, await call.control.bulk.letters(call.principal, body, _receipt(call)))


async def letters_discard(call: Call) -> Reply:
    """Discard dead letters."""
    body = decode(_letters_discard, call.body, field_names(LettersDiscardBody))
    return _answered(call, await call.control.bulk.letters(call.principal, body, _receipt(call)))


def _receipt(call: Call) -> Any:
    """Makes the receipt of an Idempotency-Key, if there is one."""
    claim = call.claim
    return None if claim is None else lambda accepted: claim.receipt(_accepted(accepted))


def _answered(call: Call, done: Done) -> Reply:
    if isinstance(done, Replay):
        return replayed(call, done)
    if isinstance(done, Accepted):
        return _accepted(done)
    return answer(200, {"matches": done.number, "more": done.more, "sample": [_shown(row) for row in done.sample]})


def _shown(row: RunRow | JobRow | LetterRow) -> RunView | JobView | LetterView:
    if isinstance(row, JobRow):
        return job_view(row, ())
    return letter_view(row) if isinstance(row, LetterRow) else run_view(row)


def _accepted(accepted: Accepted) -> Reply:
    view = OperationAccepted(operation_id=accepted.operation_id, matched=accepted.matched)
    return answer(202, view, headers=_location(accepted.operation_id))


def _location(operation: UUID) -> Headers:
    return [(b"location", f"{API}/operations/{operation}".encode())]


def _location_of(body: bytes) -> Headers:
    """The header that belongs to a stored answer; a dry run has none."""
    told = msgspec.json.decode(body)
    return _location(told["operation_id"]) if "operation_id" in told else []


# ------------------------------------------------------------------------------------------ looked at


async def operations_list(call: Call) -> Reply:
    """A page of operations."""
    said: OperationsQuery = call.query
    rows = await call.control.bulk.page(call.principal, cursor_id(said.cursor), said.limit + 1)
    page, more = page_of(rows, said.limit)
    last = str(page[-1].operation_id) if more else None
    return answer(200, [operation_view(call.principal, row) for row in page], headers=page_links(call, last))


async def operation_get(call: Call) -> Reply:
    """One operation."""
    found = await call.control.buffered.operation(call.principal, call.uuid("operation_id", "operation"))
    return awaited(found) if isinstance(found, PendingRequest) else answer(200, operation_view(call.principal, found))


async def operation_cancel(call: Call) -> Reply:
    """Cancel an operation."""
    found = await call.control.bulk.cancel(call.principal, call.uuid("operation_id", "operation"))
    return answer(200, operation_view(call.principal, found))


_WHAT: Final = (
    "Answers 202 with an operation, which is carried out in the background and survives restarts; one that matches "
    "nothing is done at once. With `dry_run` it answers 200 with the number of targets and the first ten of them (none "
    "without the permission to read them), and nothing is changed."
)


def _bulk(path: str, name: str, summary: str, **more: Any) -> Endpoint:
    return Endpoint(
        method="POST", path=API + path, name=name, summary=summary, description=_WHAT, status=202,
        foretold=True, headers_of=_location_of, answer_headers=("Location",), **more,
    )  # fmt: skip


OPERATIONS: Final = (
    _bulk(
        "/runs:cancel", "cancelRuns", "Cancel the runs that a filter matches, of those that have not ended.",
        control=OperationService.runs, tag="runs", handler=runs_cancel, body=RunsCancelBody,
        answers=(OperationAccepted,), also={200: (RunsMatched,)},
    ),
    _bulk(
        "/runs:retry", "retryRuns", "Retry the runs that a filter matches: failed ones, unless it names other states.",
        control=OperationService.runs, tag="runs", handler=runs_retry, body=RunsRetryBody,
        answers=(OperationAccepted,), also={200: (RunsMatched,)},
    ),
    _bulk(
        "/jobs:pause", "pauseJobs", "Pause the jobs that a filter matches.",
        control=OperationService.pause_jobs, tag="jobs", handler=jobs_pause, body=JobsPauseBody,
        answers=(OperationAccepted,), also={200: (JobsMatched,)},
    ),
    _bulk(
        "/jobs:resume", "resumeJobs", "Resume the paused jobs that a filter matches.",
        control=OperationService.resume_jobs, tag="jobs", handler=jobs_resume, body=JobsResumeBody,
        answers=(OperationAccepted,), also={200: (JobsMatched,)},
    ),
    _bulk(
        "/jobs:cancel", "cancelJobs", "Cancel the jobs that a filter matches, for good.",
        control=OperationService.cancel_jobs, tag="jobs", handler=jobs_cancel, body=JobsCancelBody,
        answers=(OperationAccepted,), also={200: (JobsMatched,)},
    ),
    _bulk(
        "/dead-letters:redrive", "redriveDeadLetters", "Redrive the dead letters that a filter matches.",
        control=OperationService.letters, tag="dead letters", handler=letters_redrive, body=LettersRedriveBody,
        answers=(OperationAccepted,), also={200: (LettersMatched,)}, refuses=(404,),
    ),
    _bulk(
        "/dead-letters:discard", "discardDeadLetters", "Discard the dead letters that a filter matches.",
        control=OperationService.letters, tag="dead letters", handler=letters_discard, body=LettersDiscardBody,
        answers=(OperationAccepted,), also={200: (LettersMatched,)}, refuses=(404,),
    ),
    Endpoint(
        method="GET", path=f"{API}/operations", control=OperationService.page, name="listOperations", tag="operations",
        summary="List operations over many things at once, newest first.",
        description="Those that the key may look at: operations of jobs with `jobs:read` or `jobs:write`, of runs and "
        "of dead letters with `runs:read` or `runs:write`.",
        handler=operations_list, answers=(list[OperationView],), query=OperationsQuery,
    ),
    Endpoint(
        method="GET", path=f"{API}/operations/{{operation_id}}", control=BufferedService.operation, name="getOperation",
        tag="operations", summary="One operation and its progress.",
        description="Needs `jobs:read` or `jobs:write` for an operation of jobs, `runs:read` or `runs:write` for one "
        "of runs or dead letters.",
        handler=operation_get, answers=(OperationView,), refuses=(404,), pending=(PendingView,),
    ),
    Endpoint(
        method="POST", path=f"{API}/operations/{{operation_id}}/cancel", control=OperationService.cancel,
        name="cancelOperation",
        tag="operations", summary="Stop an operation; finished items stay done.",
        description="Needs the scope with which it was asked for: `jobs:write` for an operation of jobs, `runs:write` "
        "for one of runs or dead letters.",
        handler=operation_cancel, answers=(OperationView,), refuses=(404,),
    ),
)  # fmt: skip
