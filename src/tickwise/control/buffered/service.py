"""Buffered requests, as callers reach them. This is the one place that knows whether requests are buffered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import UUID

from tickwise.control.access import requires
from tickwise.control.buffered.ingest import BufferedIngest
from tickwise.control.buffered.pending import PendingRequest
from tickwise.control.buffered.reads import PendingReads
from tickwise.control.bulk.access import LOOK, find_operation
from tickwise.control.context import ControlContext
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.ports.store import JobRow, OperationRow

T = TypeVar("T")


class BufferedService:
    """Requests that are answered before the store has them, where an installation says so."""

    def __init__(
        self, context: ControlContext, ingest: BufferedIngest | None = None, reads: PendingReads | None = None
    ) -> None:
        """Without `ingest`, each request waits for the store and nothing is pending."""
        self._context = context
        self._ingest = ingest
        self._reads = reads

    @requires(Permission.JOBS_WRITE)
    async def attempt(self, _who: Principal, take: Callable[[BufferedIngest], Awaitable[T | None]]) -> T | None:
        """What `take` answers for a request that it hands to the broker. None: the request goes to the store, because
        requests are not buffered, or because `take` cannot buffer this one."""
        return None if self._ingest is None else await take(self._ingest)

    @requires(*LOOK)
    async def job(self, who: Principal, job_id: UUID) -> PendingRequest | None:
        """The request that will make this job, which the store does not have or cannot be asked for. Raises `NotFound`
        if it was refused."""
        return None if self._reads is None else await self._reads.job(who, job_id)

    @requires(Permission.JOBS_READ, Permission.JOBS_WRITE)
    async def is_change_pending(self, _who: Principal, row: JobRow) -> bool:
        """Whether a change or a cancel of this job was accepted and is not applied, as far as that is known."""
        return self._reads is not None and await self._reads.is_change_pending(row)

    @requires(*LOOK)
    async def operation(self, who: Principal, operation: UUID) -> OperationRow | PendingRequest:
        """One operation, or the request that will be on record as one. Raises `NotFound`, `Forbidden`."""
        if self._reads is None:
            return await find_operation(self._context, who, operation, "read", "write")
        return await self._reads.operation(who, operation)
