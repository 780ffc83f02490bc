"""Answers about requests that are accepted and not applied yet: 202, with ids by which to ask again.

buffered request ──► 202 {"job_id", "operation_id", "status": "pending"}
read of what is not there yet ──► the same, and when to ask again
another write to it ──► 503 `job_pending`, and when to send it again
"""

from __future__ import annotations

from typing import Final, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from tickwise.api.endpoint import Call, Reply, answer
from tickwise.api.problems import Headers, JobPending, ResultView, problem_of
from tickwise.api.wire import API
from tickwise.control.buffered.pending import PendingBatch, PendingRequest
from tickwise.domain.errors import JobNotFound, NeverAccepted, NotFound, Refused, StoreUnavailable

RETRY_AFTER: Final = (b"retry-after", b"1")
_JOBS: Final = f"{API}/jobs/".encode()
_OPERATIONS: Final = f"{API}/operations/".encode()


class PendingView(msgspec.Struct, kw_only=True):
    """A request that is accepted, and not applied yet. Its end will be at `/operations/{operation_id}`."""

    job_id: UUID | UnsetType = UNSET
    operation_id: UUID
    status: Literal["pending"] = "pending"
    warnings: tuple[str, ...] | UnsetType = UNSET


class PendingBatchView(msgspec.Struct, kw_only=True):
    """A batch of which each job is accepted, and not stored yet, or refused; in its order."""

    accepted: int
    refused: int
    status: Literal["pending"] = "pending"
    results: list[ResultView]


def accepted(request: PendingRequest) -> Reply:
    """The answer to what was accepted, with the place where to look for what becomes of it."""
    job_id = str(request.job_id).encode()
    # Of most creates they are one: writing an id costs as much as all the rest of this.
    operation = job_id if request.operation_id is request.job_id else str(request.operation_id).encode()
    headers = [(b"location", _JOBS + job_id if request.kind == "create" else _OPERATIONS + operation)]
    if request.warnings:
        return answer(202, _view(request), headers=headers)
    return Reply(202, b'{"job_id":"%b","operation_id":"%b","status":"pending"}' % (job_id, operation), headers)


def accepted_many(batch: PendingBatch) -> Reply:
    """Answer an accepted batch."""
    results = [_result(verdict) for verdict in batch.verdicts]
    count = sum(result.problem is None for result in results)
    return answer(202, PendingBatchView(accepted=count, refused=len(results) - count, results=results))


def awaited(request: PendingRequest) -> Reply:
    """The answer to a read of what is not there yet."""
    headers: Headers = [RETRY_AFTER]
    return answer(202, _view(request), headers=headers)


async def unless_awaited(call: Call, method: str, failure: NotFound | StoreUnavailable) -> Reply:
    """Answer about the job of the path that is not there, or cannot be looked for. Raises the failure if it is not one
    that was accepted, or if another thing is not there; `JobPending` if it was accepted, and this is no read."""
    if isinstance(failure, NeverAccepted):
        raise failure
    try:
        job_id = UUID(call.path_values["job_id"])
    except (KeyError, ValueError):
        raise failure from None
    if isinstance(failure, NotFound) and not (isinstance(failure, JobNotFound) and failure.job_id == job_id):
        raise failure
    request = await call.control.buffered.job(call.principal, job_id)
    if request is None:
        raise failure
    if method == "GET":
        return awaited(request)
    raise JobPending(f"the job {job_id} is accepted and not stored yet; send the same again a little later")


def _view(request: PendingRequest) -> PendingView:
    return PendingView(
        job_id=UNSET if request.job_id is None else request.job_id,
        operation_id=request.operation_id,
        warnings=request.warnings or UNSET,
    )


def _result(verdict: PendingRequest | Refused) -> ResultView:
    if isinstance(verdict, Refused):
        problem, _ = problem_of(verdict)
        return ResultView(status=problem.status, problem=problem)
    return ResultView(status=202, job_id=verdict.job_id, operation_id=verdict.operation_id, warnings=verdict.warnings)
