"""Operations over many things at once: asked for here, carried out page by page by schedulers (`bulk`).

Invariant: what is accepted is stored, so it goes on after a restart; and what would be refused of every single subject
is refused here, before anything is done.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

import msgspec
from msgspec import UNSET

from tickwise.control.access import requires
from tickwise.control.audit.entries import entry
from tickwise.control.bulk.access import LOOK, find_operation, may
from tickwise.control.bulk.pages import KINDS, RETRIED, STATES, STATUSES, OperationKind, StoredRequest
from tickwise.control.context import ControlContext, ReceiptFor
from tickwise.control.filters import (
    UNFINISHED,
    Filter,
    JobsCancelBody,
    JobsFilter,
    JobsPauseBody,
    JobsResumeBody,
    LettersDiscardBody,
    LettersFilter,
    LettersRedriveBody,
    RunsCancelBody,
    RunsFilter,
    RunsRetryBody,
    check,
    check_states,
    check_unsettled,
    jobs_queries,
    letters_query,
    runs_query,
)
from tickwise.control.jobs.policies import payload_of
from tickwise.control.texts import clean_reason
from tickwise.control.times import instant_within
from tickwise.domain.audit import AuditAction
from tickwise.domain.callers import Asker
from tickwise.domain.errors import Invalid, NotFound
from tickwise.domain.model import Principal, time_id
from tickwise.domain.permissions import Permission
from tickwise.ports.paging import SearchPlace
from tickwise.ports.signals import Topic
from tickwise.ports.store import (
    PAGE_BYTES,
    JobQuery,
    JobRow,
    LetterQuery,
    LetterRow,
    LetterStatus,
    NewOperation,
    OperationRow,
    Page,
    Receipt,
    Replay,
    RunQuery,
    RunRow,
)
from tickwise.ports.store.searches import COUNT_LOOKS

Q = TypeVar("Q", JobQuery, RunQuery, LetterQuery)

MAX_COUNTED: Final = 10_000
"""The most targets that are counted before an operation begins: a figure to compare its progress with."""
SAMPLE: Final = 10

_encode: Final = msgspec.json.Encoder().encode


class Matches(NamedTuple):
    """The result of a filter."""

    number: int
    more: bool
    """There are more than `MAX_COUNTED`; or so many were found in the looks of one count, and there may be more."""
    sample: Sequence[RunRow] | Sequence[JobRow] | Sequence[LetterRow]
    """The first of them. Empty for a principal that may change them and not read them."""


class Accepted(NamedTuple):
    """An operation that is stored."""

    operation_id: UUID
    matched: int | None
    """The number of targets; None: there are more than were counted, or may be."""


class OperationRequest(NamedTuple):
    """A request that is to become an operation."""

    matches: Matches
    request: StoredRequest
    receipt_for: ReceiptFor[Accepted] | None


Done = Matches | Accepted | Replay
"""The result of a bulk request: tried, carried out, or repeated from before."""


class OperationService:
    """Bulk requests, and what becomes of them."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    @requires(Permission.RUNS_WRITE, by_labels=True)
    async def runs(
        self, who: Principal, body: RunsCancelBody | RunsRetryBody, receipt_for: ReceiptFor[Accepted] | None = None
    ) -> Done:
        """Cancel or retry runs. Raises `Invalid`."""
        said = body.filter
        check(said)
        kind = OperationKind.RUNS_CANCEL if isinstance(body, RunsCancelBody) else OperationKind.RUNS_RETRY
        cancels = kind == OperationKind.RUNS_CANCEL
        check_states(said.status, UNFINISHED if cancels else RETRIED, "cancelled" if cancels else "retried")
        payload = payload_of(body.payload, body.params) if isinstance(body, RunsRetryBody) else None
        matches = await self._runs_matched(who, said, kind)
        if body.dry_run:
            return matches
        request = StoredRequest(filter=_raw(said), payload=UNSET if payload is None else payload)
        return await self._asked(who, kind, OperationRequest(matches, request, receipt_for))

    @requires(Permission.JOBS_WRITE, by_labels=True)
    async def cancel_jobs(
        self, who: Principal, body: JobsCancelBody, receipt_for: ReceiptFor[Accepted] | None = None
    ) -> Done:
        """Cancel jobs. Raises `Invalid`."""
        check(body.filter)
        request = StoredRequest(filter=_raw(body.filter))
        return await self._jobs(who, OperationKind.JOBS_CANCEL, body, request, receipt_for)

    @requires(Permission.JOBS_OPERATE, Permission.JOBS_WRITE, by_labels=True)
    async def pause_jobs(
        self, who: Principal, body: JobsPauseBody, receipt_for: ReceiptFor[Accepted] | None = None
    ) -> Done:
        """Pause jobs. Raises `Invalid`."""
        check(body.filter)
        reason = clean_reason(body.reason, "/reason")
        if body.until is not None and instant_within(body.until, "/until") <= await self._context.time.now():
            raise Invalid("until is in the past; give a later time, or leave it out", pointer="/until")
        request = StoredRequest(filter=_raw(body.filter), reason=reason, until=body.until)
        return await self._jobs(who, OperationKind.JOBS_PAUSE, body, request, receipt_for)

    @requires(Permission.JOBS_OPERATE, Permission.JOBS_WRITE, by_labels=True)
    async def resume_jobs(
        self, who: Principal, body: JobsResumeBody, receipt_for: ReceiptFor[Accepted] | None = None
    ) -> Done:
        """Resume jobs. Raises `Invalid`."""
        check(body.filter)
        request = StoredRequest(filter=_raw(body.filter), missed=body.missed)
        return await self._jobs(who, OperationKind.JOBS_RESUME, body, request, receipt_for)

    @requires(Permission.RUNS_WRITE, by_labels=True)
    async def letters(
        self, who: Principal, body: LettersDiscardBody, receipt_for: ReceiptFor[Accepted] | None = None
    ) -> Done:
        """Redrive or discard dead letters. Raises `Invalid`; `NotFound` for a group of errors that is not there."""
        said, kind = body.filter, OperationKind.LETTERS_DISCARD
        check(said)
        check_unsettled(said.status)
        note = clean_reason(body.note, "/note")
        payload = None
        if isinstance(body, LettersRedriveBody):
            kind, payload = OperationKind.LETTERS_REDRIVE, payload_of(body.payload, body.params)
        request = StoredRequest(filter=_raw(said), reason=note, payload=UNSET if payload is None else payload)
        matches = await self._letters_matched(who, said)
        if isinstance(said.error_id, UUID) and not matches.number:
            await self._check_group(who, said.error_id)
        return (
            matches if body.dry_run else await self._asked(who, kind, OperationRequest(matches, request, receipt_for))
        )

    @requires(*LOOK, by_labels=True)
    async def get(self, who: Principal, operation: UUID) -> OperationRow:
        """One operation. Raises `NotFound`, `Forbidden`."""
        return await find_operation(self._context, who, operation, "read", "write")

    @requires(*LOOK)
    async def page(self, who: Principal, before: UUID | None, limit: int) -> Page[OperationRow]:
        """Newest first, of those that this key may look at. A page is bounded in bytes."""
        kinds = [kind for kind in KINDS if may(who, kind, "read", "write")]
        return await self._context.searches.operations(who.namespace, before, limit, kinds=kinds, bytes_most=PAGE_BYTES)

    @requires(Permission.RUNS_WRITE, Permission.JOBS_WRITE, Permission.JOBS_OPERATE, by_labels=True)
    async def cancel(self, who: Principal, operation: UUID) -> OperationRow:
        """Cancel an operation: it does not go on; finished pages stay done. An ended operation stays as it is. Raises
        `NotFound`, `Forbidden`."""
        await find_operation(self._context, who, operation, "write")
        audit = entry(who, AuditAction.OPERATION_CANCELLED, "operation", operation)
        return await self._context.surely(
            lambda: self._context.store.operations.cancel(who.namespace, operation, audit=audit)
        )

    # ------------------------------------------------------------------------------------------ what it is about

    async def _runs_matched(self, who: Principal, said: RunsFilter, kind: str) -> Matches:
        query = runs_query(who.namespace, said, states=STATES[kind], limit=MAX_COUNTED + 1, within=who.within)
        query, searches = replace(query, may_pause=True), self._context.store.searches
        return await self._matched(query, searches.runs, is_shown=who.may_within(Permission.RUNS_READ))

    async def _jobs_matched(self, who: Principal, said: JobsFilter, kind: str) -> Matches:
        query, statuses = jobs_queries(
            who.namespace, said, statuses=STATUSES[kind], limit=MAX_COUNTED + 1, within=who.within
        )
        query, searches = replace(query, statuses=statuses, may_pause=True), self._context.store.searches
        return await self._matched(query, searches.jobs, is_shown=who.may_within(Permission.JOBS_READ))

    async def _check_group(self, who: Principal, group: UUID) -> None:
        """Raises `NotFound` for a group of errors that is not there. A principal for jobs with certain labels is not
        told whether others fail by this cause."""
        if who.within is None and await self._context.store.error_groups.get(who.namespace, group) is not None:
            return
        raise NotFound(f"there is no group of errors {group} in the namespace {who.namespace}")

    async def _letters_matched(self, who: Principal, said: LettersFilter) -> Matches:
        query = letters_query(
            who.namespace,
            said,
            expire_seconds=self._context.dead_letter_seconds,
            statuses=(LetterStatus.OPEN,),
            limit=MAX_COUNTED + 1,
            within=who.within,
        )
        query, searches = replace(query, may_pause=True), self._context.store.searches
        return await self._matched(query, searches.letters, is_shown=who.may_within(Permission.RUNS_READ))

    async def _matched(self, query: Q, find: Callable[[Q], Awaitable[Page[Any]]], *, is_shown: bool) -> Matches:
        """The number of hits, and the first of them, in a bounded number of looks."""
        sample: list[Any] = []
        further = query
        for _ in range(COUNT_LOOKS):
            left = SAMPLE - len(sample)
            page = await find(replace(further, limit=left))
            sample += page
            if page.is_full(left):
                break
            if page.paused_at is None:
                return Matches(len(sample), False, sample if is_shown else ())
            further = _beyond(further, page.paused_at)
        count = await self._context.store.searches.count(query)
        number = min(max(int(count), len(sample)), MAX_COUNTED)
        return Matches(number, not count.is_whole, sample if is_shown else ())

    async def _jobs(
        self,
        who: Principal,
        kind: str,
        body: JobsCancelBody,
        request: StoredRequest,
        receipt_for: ReceiptFor[Accepted] | None,
    ) -> Done:
        """The matches of a dry run, or the stored operation."""
        matches = await self._jobs_matched(who, body.filter, kind)
        if body.dry_run:
            return matches
        return await self._asked(who, kind, OperationRequest(matches, request, receipt_for))

    async def _asked(self, who: Principal, kind: str, asked: OperationRequest) -> Accepted | Replay:
        """A stored operation."""
        now = await self._context.time.now()
        accepted = Accepted(
            time_id(int(now * 1000), self._context.clock.random_bytes(10)),
            None if asked.matches.more else asked.matches.number,
        )
        operation = NewOperation(
            operation_id=accepted.operation_id,
            namespace=who.namespace,
            kind=kind,
            request=_encode(asked.request.within(who.within)).decode(),
            created_by=who.name,
            matched=accepted.matched,
            asker=Asker.of(who),
        )
        receipt: Receipt | None = None if asked.receipt_for is None else asked.receipt_for(accepted)
        audit = entry(
            who,
            AuditAction.OPERATION_REQUESTED,
            "operation",
            operation.operation_id,
            detail={"kind": kind, "matched": accepted.matched, "filter": msgspec.json.decode(asked.request.filter)},
        )
        stored = await self._context.surely(
            lambda: self._context.store.operations.add(operation, receipt=receipt, audit=audit)
        )
        if isinstance(stored, Replay):
            return stored
        self._context.signals.send(Topic.OPERATIONS)
        return accepted


def _raw(said: Filter) -> msgspec.Raw:
    return msgspec.Raw(_encode(said))


def _beyond(query: Q, place: SearchPlace) -> Q:
    """The search from a place on."""
    if isinstance(query, JobQuery):
        return replace(query, before=place.before, is_rest=place.is_rest, rest_from=place.rest_from)
    if isinstance(query, RunQuery):
        return replace(query, before=place.before, is_rest=place.is_rest)
    return replace(query, before=place.before)
