"""Requests that are accepted and perhaps not applied yet, as callers reach them."""

from __future__ import annotations

from uuid import UUID

from tickwise.control.access import requires
from tickwise.control.buffered.pending import PendingRequest
from tickwise.control.buffered.reads import PendingReads
from tickwise.control.bulk.access import LOOK, find_operation
from tickwise.control.context import ControlContext
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.ports.store import JobRow, OperationRow


class BufferedService:
    """Looks up requests that are on their way to the store."""

    def __init__(self, context: ControlContext, reads: PendingReads | None = None) -> None:
        """Without `reads`, each request waits for the store and nothing is pending."""
        self._context = context
        self._reads = reads

    @requires(*LOOK, by_labels=True)
    async def job(self, who: Principal, job_id: UUID) -> PendingRequest | None:
        """The request that will make this job, which the store does not have or cannot be asked for. Raises `NotFound`
        if it was refused. A caller whose permission goes by labels is told nothing: its own requests are not
        buffered."""
        return None if self._reads is None or who.within is not None else await self._reads.job(who, job_id)

    @requires(Permission.JOBS_READ, Permission.JOBS_WRITE, Permission.JOBS_OPERATE, by_labels=True)
    async def is_change_pending(self, _who: Principal, row: JobRow) -> bool:
        """Check whether a change or a cancel of this job was accepted and is not applied, as far as is known here."""
        return self._reads is not None and await self._reads.is_change_pending(row)

    @requires(*LOOK, by_labels=True)
    async def operation(self, who: Principal, operation: UUID) -> OperationRow | PendingRequest:
        """One operation, or the request that will be on record as one. Raises `NotFound`, `Forbidden`."""
        if self._reads is None or who.within is not None:
            return await find_operation(self._context, who, operation, "read", "write")
        return await self._reads.operation(who, operation)
