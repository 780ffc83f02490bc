"""Buffered requests, as callers reach them. This is the one place that knows whether requests are buffered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from tickwise.control.access import requires
from tickwise.control.bodies import JobBody
from tickwise.control.buffered.ingest import BufferedIngest, Once
from tickwise.control.buffered.pending import PendingRequest
from tickwise.control.buffered.reads import PendingReads
from tickwise.control.bulk.access import LOOK, find_operation
from tickwise.control.context import ControlContext
from tickwise.domain.errors import Refused
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.ports.store import JobRow, OperationRow


class BufferedService:
    """Requests that are answered before the store has them, where an installation says so."""

    def __init__(
        self, context: ControlContext, ingest: BufferedIngest | None = None, reads: PendingReads | None = None
    ) -> None:
        """Without `ingest`, each request waits for the store and nothing is pending."""
        self._context = context
        self._ingest = ingest
        self._reads = reads

    # ------------------------------------------------------------------------------------------ taken in
    # Each reads the body only where requests are buffered. None: the request goes to the store, because requests are
    # not buffered, or because a message cannot hold this one.

    @requires(Permission.JOBS_WRITE)
    async def create(self, who: Principal, read: Callable[[], JobBody], once: Once | None) -> PendingRequest | None:
        """Take one job in. Raises `Refused` kinds, `Busy`, `BrokerUnavailable`, and `StoreUnavailable` if the store
        must be asked and is away."""
        return None if self._ingest is None else await self._ingest.accept(who, read(), once)

    @requires(Permission.JOBS_WRITE)
    async def create_many(
        self, who: Principal, read: Callable[[], Awaitable[Sequence[JobBody | Refused]]], once: Once | None
    ) -> Sequence[PendingRequest | Refused] | None:
        """Take the jobs of a batch in; the verdict on each. Raises as `create`, if nothing was taken in or nobody
        knows."""
        return None if self._ingest is None else await self._ingest.accept_many(who, await read(), once)

    @requires(Permission.JOBS_WRITE)
    async def change(
        self, who: Principal, job_id: UUID, read: Callable[[], JobBody], text: bytes
    ) -> PendingRequest | None:
        """Take a change in; `text` is the body as it was sent. Raises as `create`."""
        return None if self._ingest is None else await self._ingest.accept_change(who, job_id, read(), text)

    @requires(Permission.JOBS_WRITE)
    async def cancel(self, who: Principal, job_id: UUID) -> PendingRequest | None:
        """Take a cancel in. Raises as `create`."""
        return None if self._ingest is None else await self._ingest.accept_cancel(who, job_id)

    # ------------------------------------------------------------------------------------------ on their way

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
