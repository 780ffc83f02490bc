"""Requests to create, change and cancel jobs: buffered, or stored at once. This is the one place that decides which.

    body ──► buffered? ── yes ──► broker ──► PendingRequest        a recorder applies it later
                  └── no ──► Idempotency-Key known? ── yes ──► Replay
                                      └── no ──► store ──► the result, its receipt in the same transaction

A request goes to the store if nothing is buffered here, if the store has to judge it (all or none, a version, a dry
run, a permission that goes by the labels of the job as it is), or if a message cannot hold it. The body is read once on
each way, and after the look-up of its key where that is asked of the store: a replay needs no body. A buffered request
needs no receipt, because its ids follow from its key.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from uuid import UUID

from tickwise.control.access import admitted, requires
from tickwise.control.bodies import JobBody
from tickwise.control.buffered.ingest import BufferedIngest
from tickwise.control.buffered.pending import PendingBatch, PendingRequest
from tickwise.control.context import ControlContext, ReceiptFor
from tickwise.control.jobs.changes import ChangeResult, JobChanges
from tickwise.control.jobs.moves import JobMoves
from tickwise.control.jobs.submission import Submissions, Submitted, Verdict
from tickwise.control.receipts import Once
from tickwise.domain.errors import Refused
from tickwise.domain.masking import MASK
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.ports.store import JobRow, Replay
from tickwise.ports.tracing import SpanKind

ReadJobs = Callable[[], Awaitable[Sequence[JobBody | Refused]]]
"""Reads the jobs of a batch. A job that cannot be read is its refusal, so that the answer keeps the places."""

_MASK: Final = MASK.encode()


class RequestService:
    """The requests that may be buffered."""

    def __init__(
        self,
        context: ControlContext,
        submissions: Submissions,
        changes: JobChanges,
        ingest: BufferedIngest | None = None,
    ) -> None:
        """Without `ingest`, each request waits for the store."""
        self._context = context
        self._submissions = submissions
        self._changes = changes
        self._moves = JobMoves(context)
        self._ingest = ingest

    @requires(Permission.JOBS_CREATE, Permission.JOBS_WRITE, by_labels=True)
    async def create(
        self,
        who: Principal,
        read: Callable[[], JobBody],
        *,
        once: Once | None = None,
        receipt_for: ReceiptFor[Submitted] | None = None,
    ) -> Submitted | PendingRequest | Replay:
        """Create one job; returns when it is durable, in the store or with the broker.

        Raises `Refused` kinds, `Busy`, `BrokerUnavailable`, `StoreUnavailable`, `InDoubt`.
        """
        tracer = self._context.tracer
        if tracer is None or (span := tracer.part("submit", SpanKind.PRODUCER)) is None:
            return await self._create(who, read, once, receipt_for)
        with tracer.within(span):
            return await self._create(who.in_trace(span.context), read, once, receipt_for)

    async def _create(
        self,
        who: Principal,
        read: Callable[[], JobBody],
        once: Once | None,
        receipt_for: ReceiptFor[Submitted] | None,
    ) -> Submitted | PendingRequest | Replay:
        body = None
        if self._ingest is not None and who.within is None:
            body = read()
            accepted = await self._ingest.accept(who, body, once)
            if accepted is not None:
                return accepted
        if once is not None:
            replay = await self._answered(who, once)
            if replay is not None:
                return replay
        return await self._submissions.submit(who, read() if body is None else body, receipt_for)

    @requires(Permission.JOBS_CREATE, Permission.JOBS_WRITE, by_labels=True)
    async def create_many(
        self,
        who: Principal,
        read: ReadJobs,
        *,
        atomic: bool = False,
        once: Once | None = None,
        receipt_for: ReceiptFor[Sequence[Verdict]] | None = None,
    ) -> Sequence[Verdict] | PendingBatch | Replay:
        """Create all jobs that can be created, in one transaction where they are stored; with `atomic`, all or none.

        The verdict on each job is in its place. Raises as `create`, if no job was accepted, or if this is unknown.
        """
        tracer = self._context.tracer
        if tracer is None or (span := tracer.part("submit", SpanKind.PRODUCER)) is None:
            return await self._create_many(who, read, atomic, once, receipt_for)
        with tracer.within(span):
            return await self._create_many(who.in_trace(span.context), read, atomic, once, receipt_for)

    async def _create_many(
        self,
        who: Principal,
        read: ReadJobs,
        atomic: bool,
        once: Once | None,
        receipt_for: ReceiptFor[Sequence[Verdict]] | None,
    ) -> Sequence[Verdict] | PendingBatch | Replay:
        bodies = None
        if self._ingest is not None and not atomic and who.within is None:
            bodies = await read()
            verdicts = await self._ingest.accept_many(who, bodies, once)
            if verdicts is not None:
                return PendingBatch(verdicts)
        if once is not None:
            replay = await self._answered(who, once)
            if replay is not None:
                return replay
        bodies = await read() if bodies is None else bodies
        return await self._submissions.submit_many(who, bodies, atomic=atomic, receipt_for=receipt_for)

    @requires(Permission.JOBS_WRITE, by_labels=True)
    async def change(
        self,
        who: Principal,
        job_id: UUID,
        body: JobBody,
        *,
        text: bytes,
        if_version: int | None = None,
        dry_run: bool = False,
    ) -> ChangeResult | PendingRequest:
        """Change the fields that were sent; `text` is the body as it was sent. Raises `NotFound`, `Conflict`,
        `Invalid`; `VersionConflict` if the job is not at `if_version`; `Forbidden` for a dry run by a principal that
        may not read jobs: it shows the present schedule."""
        if dry_run and not who.may_within(Permission.JOBS_READ):
            admitted(who, Permission.JOBS_READ)
        # Only the store has the secrets that stand behind a mask.
        is_plain = if_version is None and not dry_run and who.within is None
        if self._ingest is not None and is_plain and _MASK not in text:
            accepted = await self._ingest.accept_change(who, job_id, body, text)
            if accepted is not None:
                return accepted
        return await self._changes.change(who, job_id, body, if_version=if_version, dry_run=dry_run)

    @requires(Permission.JOBS_WRITE, by_labels=True)
    async def cancel(self, who: Principal, job_id: UUID, *, if_version: int | None = None) -> JobRow | PendingRequest:
        """End a job for good. Twice is once. Raises `NotFound`, `VersionConflict`."""
        if self._ingest is not None and if_version is None and who.within is None:
            accepted = await self._ingest.accept_cancel(who, job_id)
            if accepted is not None:
                return accepted
        return await self._moves.cancel(who, job_id, if_version=if_version)

    async def _answered(self, who: Principal, once: Once) -> Replay | None:
        return await self._context.store.receipts.find(who.answers_name, once.route, once.key)
