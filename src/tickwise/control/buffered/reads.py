"""Reads of accepted requests that are not applied yet: distinct from missing jobs, and from refused requests.

    absent from the store ──┬─ its operation is on record as failed ──────────────► NotFound, and why
                            ├─ this process took it in, or another one said so ───► pending
                            ├─ its id was made after what recorders have applied ─► pending
                            └─ else ──────────────────────────────────────────────► NotFound

The last way needs no memory, so that a server which only searches can tell as well. It tells nothing of an id that a
client chose, or that follows from an Idempotency-Key: no time is in it.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec

from tickwise.control.buffered.ingest import CLOCKS_SECONDS, BufferedIngest
from tickwise.control.buffered.pending import PendingRequest
from tickwise.control.bulk.access import check_kind, find_operation, may
from tickwise.control.bulk.pages import BulkProblem, OperationKind
from tickwise.control.circuit_breaker import StoreCircuitBreaker
from tickwise.control.context import ControlContext
from tickwise.domain.errors import NotFound, StoreUnavailable
from tickwise.domain.model import Principal, id_instant
from tickwise.ports.store import JobRow, OperationRow, OperationStatus

_problems: Final = msgspec.json.Decoder(list[BulkProblem])


class PendingReads:
    """Jobs and operations that may still be on their way."""

    def __init__(
        self,
        context: ControlContext,
        *,
        ingest: BufferedIngest,
        breaker: StoreCircuitBreaker,
    ) -> None:
        self._context = context
        self._ingest = ingest
        self._pendings = ingest.pendings
        self._breaker = breaker

    async def job(self, who: Principal, job_id: UUID) -> PendingRequest | None:
        """The request that will make this job, which the store does not have or cannot be asked for; None: there is
        none, as far as can be told. Raises `NotFound` if it was refused."""
        told = await self._ingest.pending_of_job(who.namespace, job_id, "create")
        operation = job_id if told is None else told.operation_id
        try:
            row = await self._breaker.ask(lambda: self._context.store.operations.get(who.namespace, operation))
            if row is not None and row.status is OperationStatus.FAILED:
                if not may(who, row.kind, "read", "write"):
                    return None
                raise NotFound(_why(row, job_id))
            if told is None and await self._may_come(job_id):
                return PendingRequest(job_id, job_id)
        except StoreUnavailable:
            pass
        return told

    async def is_change_pending(self, row: JobRow) -> bool:
        """Check whether a change or a cancel of this job was accepted and is not applied, as far as is known here."""
        told = await self._ingest.pending_of_job(row.namespace, row.job_id, "change")
        if told is None:
            return False
        if await self._context.store.operations.get(row.namespace, told.operation_id) is None:
            return True
        self._pendings.applied(told)
        return False

    async def operation(self, who: Principal, operation: UUID) -> OperationRow | PendingRequest:
        """One operation, or the request that will be on record as one. Raises `NotFound`, `Forbidden`."""
        try:
            return await find_operation(self._context, who, operation, "read", "write")
        except (NotFound, StoreUnavailable):
            told = await self._ingest.pending_operation(who.namespace, operation)
            found = await self._request_of(who, operation, told)
            if found is None:
                raise
        check_kind(who, OperationKind.JOB_CREATE, "read", "write")
        return found

    async def _request_of(
        self, who: Principal, operation: UUID, told: PendingRequest | None
    ) -> OperationRow | PendingRequest | None:
        """The state of a request under this name that did not fail; None: no such request is known."""
        try:
            if told is None or told.kind == "create":
                job_id = operation if told is None or told.job_id is None else told.job_id
                row = await self._breaker.ask(lambda: self._context.store.jobs.get(who.namespace, job_id))
                if row is not None:
                    return _created(row, operation)
            if told is None and await self._may_come(operation):
                return PendingRequest(operation)
        except StoreUnavailable:
            pass
        return told

    async def _may_come(self, identifier: UUID) -> bool:
        """Check whether an id that holds its time of making is newer than the applied requests."""
        made, now = id_instant(identifier), self._context.time.at_best()
        return made <= now + CLOCKS_SECONDS and not await self._ingest.is_past(identifier)


def _created(row: JobRow, operation: UUID) -> OperationRow:
    """A create that was applied: what is on record of it is the job."""
    return OperationRow(
        operation_id=operation,
        namespace=row.namespace,
        kind=OperationKind.JOB_CREATE,
        request=msgspec.json.encode({"job_id": row.job_id}).decode(),
        created_by=row.created_by,
        created_at=row.created_at,
        updated_at=row.created_at,
        ended_at=row.created_at,
        status=OperationStatus.DONE,
        matched=1,
        cursor=None,
        step=0,
        done=1,
        refused=0,
        problems="[]",
    )


def _why(row: OperationRow, job_id: UUID) -> str:
    problems = _problems.decode(row.problems)
    detail = problems[0].detail if problems else "its operation says no more"
    return f"the job {job_id} was accepted, and could not be stored: {detail} (operation {row.operation_id})"
