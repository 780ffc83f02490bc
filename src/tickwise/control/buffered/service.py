"""Buffered requests, as callers reach them. This is the one place that knows whether requests are buffered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar
from uuid import UUID

from tickwise.control.buffered.ingest import BufferedIngest
from tickwise.control.buffered.pending import PendingRequest
from tickwise.control.buffered.reads import PendingReads
from tickwise.control.bulk.operations import OperationService
from tickwise.domain.model import Principal
from tickwise.observability.buffers import Buffer
from tickwise.ports.store import JobRow, OperationRow

T = TypeVar("T")


class BufferedService:
    """Requests that are answered before the store has them, where an installation says so."""

    def __init__(
        self, operations: OperationService, ingest: BufferedIngest | None = None, reads: PendingReads | None = None
    ) -> None:
        """Without `ingest`, each request waits for the store and nothing is pending."""
        self._operations = operations
        self._ingest = ingest
        self._reads = reads

    async def start(self) -> None:
        """Begin to take requests in."""
        if self._ingest is not None:
            await self._ingest.start()

    async def stop(self) -> None:
        """Send what waits, take nothing more."""
        if self._ingest is not None:
            await self._ingest.stop()

    def buffers(self) -> Mapping[str, Buffer]:
        """What waits to be sent."""
        return {} if self._ingest is None else self._ingest.buffers()

    async def attempt(self, take: Callable[[BufferedIngest], Awaitable[T | None]]) -> T | None:
        """What `take` answers for a request that it hands to the broker. None: the request goes to the store, because
        requests are not buffered, or because `take` cannot buffer this one."""
        return None if self._ingest is None else await take(self._ingest)

    async def job(self, who: Principal, job_id: UUID) -> PendingRequest | None:
        """The request that will make this job, which the store does not have or cannot be asked for. Raises `NotFound`
        if it was refused."""
        return None if self._reads is None else await self._reads.job(who, job_id)

    async def is_change_pending(self, row: JobRow) -> bool:
        """Whether a change or a cancel of this job was accepted and is not applied, as far as that is known."""
        return self._reads is not None and await self._reads.is_change_pending(row)

    async def operation(self, who: Principal, operation: UUID) -> OperationRow | PendingRequest:
        """One operation, or the request that will be on record as one. Raises `NotFound`, `Forbidden`."""
        if self._reads is None:
            return await self._operations.get(who, operation)
        return await self._reads.operation(who, operation)
