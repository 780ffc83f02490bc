"""Applies the requests that an API answered with 202, in the order of each job.

    batch ──► creates ──────────gathered──► jobs.add            CREATED, REPEATED: the job says it
          ├─► change, cancel ──one by one─► the parts of jobs    as of when it was accepted
          │      (creates before it that it could meet are stored first)
          ├─► not allowed any more ───────► operations.record   FAILED, `no_longer_allowed`
          └─► what is refused ────────────► operations.record   FAILED, with its problem; never silence

Invariants: a request that comes again changes nothing. One that was accepted for a namespace that is gone is refused,
also if there is another one of its name. A create is named by its job's id. A change and its operation
are one transaction, and it is made of a version of the job that was read before that operation was looked for: so it is
made once, and never over what came after it. A refusal is on record before anything that could make it another answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
import structlog

from tickwise.control.askers import Askers
from tickwise.control.audit.entries import entry
from tickwise.control.bodies import JobBody
from tickwise.control.bulk.pages import BulkProblem, OperationKind
from tickwise.control.context import ControlContext
from tickwise.control.jobs.changes import AcceptedChange, JobChanges
from tickwise.control.jobs.composer import JobComposer
from tickwise.control.jobs.moves import JobMoves
from tickwise.control.jobs.submission import Counters, Submissions, refusal_of
from tickwise.control.tasks import TaskCheck
from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind
from tickwise.domain.callers import Asker
from tickwise.domain.errors import (
    Bug,
    Busy,
    Invalid,
    NoLongerAllowed,
    Refused,
    TickwiseError,
    Unavailable,
    VersionConflict,
)
from tickwise.domain.model import DEFAULT_NAMESPACE, Origin, Principal
from tickwise.domain.permissions import Permission
from tickwise.ports.identity.namespaces import namespace_closing
from tickwise.ports.store import EndedOperation, NewJob, OperationStatus
from tickwise.roles.shared.messages import Request

MAX_RACES: Final = 10
MAX_LOGGED: Final = 20
"""Refusals of one batch that are logged one by one."""
_KINDS: Final = {
    "create": OperationKind.JOB_CREATE,
    "change": OperationKind.JOB_CHANGE,
    "cancel": OperationKind.JOB_CANCEL,
}
_SCOPES: Final = frozenset({"jobs:read", "jobs:write"})
"""The permissions of a request that was allowed; none needs more than these."""
_TO_CREATE: Final = (Permission.JOBS_CREATE, Permission.JOBS_WRITE)
_TO_CHANGE: Final = (Permission.JOBS_WRITE,)
"""Of these permissions the asker must still have one when the request is applied."""

logger = structlog.get_logger("tickwise.recorder")

_body: Final = msgspec.json.Decoder(JobBody)
_encode: Final = msgspec.json.Encoder().encode


class AppliedCount(NamedTuple):
    """The result of a batch, as the recorder of requests counts it."""

    done: int
    failed: int
    """Refused, and on record as such."""


@dataclass(slots=True)
class _Turn:
    """A batch in hand."""

    creates: list[tuple[Request, NewJob]] = field(default_factory=list)
    """Not stored yet."""
    ids: set[UUID] = field(default_factory=set)
    keyed: bool = False
    """One of them has a key, which another request may take or free."""
    ended: list[EndedOperation] = field(default_factory=list)
    """Not on record yet."""
    ended_jobs: set[UUID] = field(default_factory=set)
    refused: bool = False
    """One of them was refused."""
    removed: Mapping[str, float] = field(default_factory=dict)
    """The times at which namespaces of the names of the batch went."""
    denials: dict[tuple[Asker, str, bool], NoLongerAllowed | None] = field(default_factory=dict)
    """The answers about those who asked, in each namespace: each is looked up once for a batch."""
    done: int = 0
    failed: int = 0

    def is_for_former(self, namespace: str, accepted: float) -> bool:
        """Check whether what was accepted at this time was for a namespace that is gone."""
        return accepted <= self.removed.get(namespace, -math.inf)

    def add(self, request: Request, job: NewJob) -> None:
        """A create, and the job that it comes to."""
        self.creates.append((request, job))
        self.ids.add(job.job_id)
        self.keyed = self.keyed or job.key is not None

    def end(self, request: Request, refusal: TickwiseError | None) -> None:
        """Record the end of a request: applied, or refused."""
        self.ended.append(_ended(request, refusal))
        self.ended_jobs.add(request.job_id)
        if refusal is None:
            self.done += 1
            return
        self.failed += 1
        self.refused = True
        if self.failed <= MAX_LOGGED:
            logger.warning(
                "request_refused",
                kind=request.kind,
                job_id=str(request.job_id),
                operation_id=str(request.operation_id),
                code=refusal.code,
                detail=refusal.detail,
            )


_REFERENCES: Final = ('"calendars"', '"then"', '"on_failure"', '"task_id"', '"notify"')
"""Members of a definition that name stored objects. One without them is judged by itself."""


class RequestApplier:
    """Applies accepted requests to the store."""

    def __init__(self, context: ControlContext, check: TaskCheck, *, counters: Counters | None = None) -> None:
        """`counters` is told of jobs that were stored."""
        self._store = context.store
        self._context = context
        self.composer = JobComposer(context, check)
        self.submissions = Submissions(context, self.composer, counters=counters)
        self.changes = JobChanges(context, self.composer, self.submissions)
        self.moves = JobMoves(context)
        self._askers = Askers(context)

    async def apply(self, requests: Sequence[Request]) -> AppliedCount:
        """Apply these, in their order. Applying one again changes nothing.

        Raises `Unavailable`: later. Any other error: one of them cannot be applied, and if it is alone, that is on
        record."""
        turn = _Turn(removed=await self._removed(requests))
        try:
            for request in requests:
                if turn.is_for_former(request.namespace, request.accepted):
                    turn.end(request, namespace_closing(request.namespace))
                else:
                    await self._take(turn, request)
            await self._store_creates(turn)
        except Unavailable:
            raise
        except Exception as unforeseen:
            if len(requests) > 1:
                raise  # one by one
            turn.end(requests[0], _unforeseen(unforeseen))
            await self._record(turn)
            raise
        await self._record(turn)
        return AppliedCount(turn.done, turn.failed)

    async def _removed(self, requests: Sequence[Request]) -> Mapping[str, float]:
        """The times at which namespaces of these names went."""
        names = {request.namespace for request in requests} - {DEFAULT_NAMESPACE}
        return await self._store.namespaces.removed(names) if names else {}

    async def _take(self, turn: _Turn, request: Request) -> None:
        denial = await self._denial(turn, request)
        if denial is not None and not await self._is_done(turn, request):
            turn.end(request, denial)
            return
        if request.kind == "create":
            # A key may have become free since this create was refused for it, and what it names may be there by now.
            if not _may_be_accepted_later(request) or not await self._is_over(turn, request):
                await self._take_create(turn, request)
            return
        if turn.keyed or request.job_id in turn.ids:
            await self._store_creates(turn)
        if turn.refused or request.job_id in turn.ended_jobs:
            await self._record(turn)
        try:
            if request.kind == "change":
                await self._change(turn, request)
            else:
                await self._cancel(turn, request)
        except Refused as refusal:
            turn.end(request, refusal)

    async def _denial(self, turn: _Turn, request: Request) -> NoLongerAllowed | None:
        """The reason for which the asker may not do this any more; None: they may, or nobody knows who asked. Raises
        `Unavailable`."""
        asker = request.asker
        if asker is None:
            return None
        creates = request.kind == "create"
        place = asker, request.namespace, creates
        if place not in turn.denials:
            turn.denials[place] = None
            try:
                await self._askers.allow(asker, request.namespace, _TO_CREATE if creates else _TO_CHANGE)
            except NoLongerAllowed as denial:
                turn.denials[place] = denial
            except Unavailable:
                del turn.denials[place]
                raise
        return turn.denials[place]

    async def _is_done(self, turn: _Turn, request: Request) -> bool:
        """Check whether a request that comes again was applied while its asker was allowed: it changes nothing now."""
        if request.kind == "create":
            return await self._store.jobs.get(request.namespace, request.job_id) is not None
        return await self._is_over(turn, request)

    async def _take_create(self, turn: _Turn, request: Request) -> None:
        job = request.new_job()
        try:
            job = await self.composer.recheck(job, request.accepted)
        except Refused as refusal:
            turn.end(request, refusal)
        else:
            turn.add(request, job)

    async def _store_creates(self, turn: _Turn) -> None:
        """Store the creates that were gathered; if one of them keeps all others from it, each by itself."""
        creates, turn.creates, turn.ids, turn.keyed = turn.creates, [], set(), False
        if not creates:
            return
        if turn.refused:
            await self._record(turn)
        try:
            added = await self.submissions.store_accepted([job for _, job in creates])
        except Refused as refusal:
            if len(creates) == 1:
                turn.end(creates[0][0], refusal)
                return
            for create in creates:
                turn.creates = [create]
                await self._store_creates(turn)
            return
        for (request, job), result in zip(creates, added, strict=True):
            refused = refusal_of(result, job)
            if refused is None:
                turn.done += 1
            else:
                turn.end(request, refused)

    async def _cancel(self, turn: _Turn, request: Request) -> None:
        # One that was refused, since the job was not there, must not end the job that came after it.
        if not await self._is_over(turn, request):
            await self.moves.cancel(_asker(request), request.job_id)
            turn.end(request, None)

    async def _change(self, turn: _Turn, request: Request) -> None:
        try:
            body = _body.decode(request.body)
        except (msgspec.MsgspecError, ValueError) as wrong:
            raise Invalid(f"the body cannot be read by this version: {wrong}", pointer="") from wrong
        who, accepted = _asker(request), AcceptedChange(request.accepted, _ended(request, None))
        for _ in range(MAX_RACES):
            row = await self._context.job(who, request.job_id)
            if await self._is_over(turn, request):
                return
            try:
                await self.changes.change(who, request.job_id, body, if_version=row.version, accepted=accepted)
            except VersionConflict:
                continue
            turn.done += 1
            return
        raise Busy("too many concurrent changes to the job; it is tried again")

    async def _is_over(self, turn: _Turn, request: Request) -> bool:
        """Check whether the request was applied, or refused, before."""
        for ended in turn.ended:
            # The same request for a former namespace of the name has the same id, and says nothing of this one.
            if ended.operation_id == request.operation_id and not turn.is_for_former(ended.namespace, ended.created_at):
                return True
        return await self._store.operations.get(request.namespace, request.operation_id) is not None

    async def _record(self, turn: _Turn) -> None:
        ended, turn.ended, turn.ended_jobs, turn.refused = turn.ended, [], set(), False
        if ended:
            await self._store.operations.record(ended)


def _may_be_accepted_later(request: Request) -> bool:
    """Check whether a refused create could be accepted when its message comes again: by then its key may be free, or
    the calendar, the task or the successor that it names may exist."""
    job = request.job
    return job is not None and (job.key is not None or any(name in job.definition for name in _REFERENCES))


def _asker(request: Request) -> Principal:
    """The principal of an accepted request, with the place from which it came."""
    source = request.source
    return Principal(
        source.name,
        request.namespace,
        _SCOPES,
        key_id=source.caller_id if source.kind is CallerKind.KEY else None,
        user_id=source.caller_id if source.kind is CallerKind.PERSON else None,
        owner_id=request.owner_id,
        origin=Origin(source.address, source.request_id),
    )


def _unforeseen(failure: Exception) -> Bug:
    return Bug(f"it could not be applied, and was put aside for a person: {type(failure).__name__}")


def _ended(request: Request, refusal: TickwiseError | None) -> EndedOperation:
    problems = []
    if refusal is not None:
        pointer = refusal.pointer if isinstance(refusal, Refused) else None
        code = "internal" if isinstance(refusal, Bug) else refusal.code
        problems = [BulkProblem(id=request.job_id, code=code, detail=refusal.detail, pointer=pointer)]
    return EndedOperation(
        operation_id=request.operation_id,
        namespace=request.namespace,
        kind=_KINDS[request.kind],
        request=_encode({"job_id": request.job_id}).decode(),
        created_by=request.principal,
        created_at=request.accepted,
        status=OperationStatus.DONE if refusal is None else OperationStatus.FAILED,
        problems=_encode(problems).decode(),
        audit=None if refusal is None else _refused(request, refusal),
    )


def _refused(request: Request, refusal: TickwiseError) -> AuditEntry:
    detail = {"kind": request.kind, "code": refusal.code, "accepted_at": request.accepted}
    return entry(_asker(request), AuditAction.REQUEST_REFUSED, "job", request.job_id, detail=detail)
