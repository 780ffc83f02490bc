"""One page of an operation over many subjects: each is carried out, or listed with its refusal.

    OperationRow(kind, request, cursor) ──page──► Page(cursor, done, refused, problems)
                                                    └─► the caller puts it on record (`operations.step`), or does not

Invariants. A page that is carried out twice is carried out once: ids of new runs follow from the operation's and the
subject's, all else is idempotent by itself. The filter is a snapshot: what came to match after the operation was asked
for is left alone, so no operation meets what it made itself. A page looks at a bounded number of rows, in the order of
the list: one that is not full then ends where its look did.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from tickwise.control.bodies import MissedMode, PauseBody, ResumeBody
from tickwise.control.context import ControlContext
from tickwise.control.demand import make_runs
from tickwise.control.filters import (
    UNFINISHED,
    JobsFilter,
    LettersFilter,
    RunsFilter,
    jobs_queries,
    letters_query,
    runs_query,
)
from tickwise.control.jobs.moves import JobMoves
from tickwise.control.runs.cancels import cancel_run
from tickwise.control.runs.settlements import Settlements, new_run, new_run_id, refusal
from tickwise.documents.definition import decode_plan, with_payload
from tickwise.domain.callers import Asker
from tickwise.domain.errors import Bug, Conflict, Invalid, NotFound, Refused
from tickwise.domain.lifecycle import FINAL, JobStatus, RunState
from tickwise.domain.model import Origin, Principal, time_id
from tickwise.domain.selectors import Selector, labels_from
from tickwise.ports.store import (
    NO_TEXT,
    PAGE_BYTES,
    JobQuery,
    JobRow,
    LetterRow,
    LetterStatus,
    NewRun,
    OperationRow,
    Page,
    RunRow,
    RunText,
    Settled,
    Settlement,
)

T = TypeVar("T")

REPEATED_PAGES: Final = 4
"""The effects of so many unrecorded pages are found again, and counted as done."""
MAX_PROBLEMS: Final = 20
"""The most refusals of an operation that are listed; the others are only counted."""


AT_ONCE: Final = 16
"""The most effects of a page that are under way at the same time."""
CHANGED_SINCE: Final = (
    "the job was changed after the operation was asked for, so it is left alone; ask again to have it done"
)


class OperationKind:
    """The action of an operation. Stored: never renamed. Those of one job were accepted to be done later, and are on
    record when they are over."""

    RUNS_CANCEL: Final = "runs:cancel"
    RUNS_RETRY: Final = "runs:retry"
    JOBS_PAUSE: Final = "jobs:pause"
    JOBS_RESUME: Final = "jobs:resume"
    JOBS_CANCEL: Final = "jobs:cancel"
    LETTERS_REDRIVE: Final = "dead-letters:redrive"
    LETTERS_DISCARD: Final = "dead-letters:discard"
    JOB_CREATE: Final = "job:create"
    JOB_CHANGE: Final = "job:change"
    JOB_CANCEL: Final = "job:cancel"


class StoredRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The stored request of an operation."""

    filter: msgspec.Raw
    payload: msgspec.Raw | UnsetType = UNSET
    reason: str | None = None
    """Of a pause; of dead letters their note."""
    until: datetime | None = None
    missed: MissedMode = MissedMode.SKIP
    only: list[dict[str, str]] | None = None
    """The operation is about jobs that have all labels of one of these, also with a wider filter: those for which the
    caller had the permission. A program of the release before reads no request with this, so it does not carry out
    more than was allowed."""

    def within(self, selector: Selector | None) -> StoredRequest:
        """The request of a caller that may do this for the jobs of the selector."""
        return self if selector is None else msgspec.structs.replace(self, only=[dict(each) for each in selector])

    @property
    def selector(self) -> Selector | None:
        """The jobs that the operation is about at most; None: any."""
        return None if self.only is None else tuple(labels_from(each) for each in self.only)


class BulkProblem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A subject that an operation could not be carried out on; the operation itself, if it could not go on."""

    id: UUID
    code: str
    detail: str
    pointer: str | None = None
    """Into the body of a request that could not be applied."""


class OperationPage(NamedTuple):
    """The result of one page."""

    cursor: str | None
    """The cursor of the next page; None: this was the last."""
    done: int
    refused: int
    problems: str
    """JSON text, in place of those that the operation had."""
    failed: bool = False
    """The operation cannot go on: the last of its problems says why."""


STATUSES: Final[dict[str, Sequence[JobStatus]]] = {
    OperationKind.JOBS_PAUSE: (JobStatus.SCHEDULED,),
    OperationKind.JOBS_RESUME: (JobStatus.PAUSED,),
    OperationKind.JOBS_CANCEL: (JobStatus.SCHEDULED, JobStatus.PAUSED, JobStatus.COMPLETED, JobStatus.FAILED),
}
"""The jobs of a filter that names no status."""
STATES: Final[dict[str, Sequence[RunState]]] = {
    OperationKind.RUNS_CANCEL: UNFINISHED,
    OperationKind.RUNS_RETRY: (RunState.FAILED,),
}
KINDS: Final = (
    OperationKind.RUNS_CANCEL,
    OperationKind.RUNS_RETRY,
    OperationKind.JOBS_PAUSE,
    OperationKind.JOBS_RESUME,
    OperationKind.JOBS_CANCEL,
    OperationKind.LETTERS_REDRIVE,
    OperationKind.LETTERS_DISCARD,
    OperationKind.JOB_CREATE,
    OperationKind.JOB_CHANGE,
    OperationKind.JOB_CANCEL,
)
NEEDED_ANEW: Final = frozenset({RunText.DEFINITION})
"""Of the runs that are made anew."""
RETRIED: Final = tuple(state for state in RunState if state in FINAL)

_runs: Final = msgspec.json.Decoder(RunsFilter)
_jobs: Final = msgspec.json.Decoder(JobsFilter)
_letters: Final = msgspec.json.Decoder(LettersFilter)
_requests: Final = msgspec.json.Decoder(StoredRequest)
_problems: Final = msgspec.json.Decoder(list[BulkProblem])
_encode: Final = msgspec.json.Encoder().encode


class PageTally:
    """A page in hand."""

    def __init__(self, operation: OperationRow, size: int) -> None:
        self.operation = operation
        self.size = size
        self.recalled = size * REPEATED_PAGES
        self.request = _requests.decode(operation.request)
        # The request of the operation is in the audit log under its id; what it does names that.
        origin, asker = Origin(request_id=str(operation.operation_id)), operation.asker or Asker()
        self.who = Principal(
            operation.created_by,
            operation.namespace,
            frozenset(),
            within=self.request.selector,
            origin=origin,
            **asker._asdict(),
        )
        self.before = None if operation.cursor is None else UUID(operation.cursor)
        self.cursor: str | None = None
        self.done = 0
        self.problems: list[BulkProblem] = []

    @property
    def was_there(self) -> UUID:
        """Runs with a smaller id were named by times before the operation was asked for; what it makes itself is named
        by that very time."""
        bound = time_id(int(self.operation.created_at * 1000), bytes(10))
        return bound if self.before is None else min(bound, self.before)

    def turn(self, found: Page[T], place: Callable[[T], UUID]) -> UUID | None:
        """Note the found subjects: the next page begins after the last, or where the search paused. Answers the
        smallest place that this page is about, None if it goes to the end."""
        if found.is_full(self.size):
            last = place(found[-1])
        elif found.paused_at is not None:
            last = found.paused_at.before
        else:
            return None
        self.cursor = str(last)
        return last

    def refuse(self, subject: UUID, failure: Refused) -> None:
        """Note the refusal of one subject."""
        self.problems.append(BulkProblem(id=subject, code=failure.code, detail=failure.detail))


class OperationPages:
    """Carries operations out, page by page. It only writes to the store, so it needs no control that takes jobs."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context
        self._settlements = Settlements(context)
        self._moves = JobMoves(context)
        self._works: dict[str, Callable[[PageTally], Awaitable[None]]] = {
            OperationKind.RUNS_CANCEL: self._runs_cancel,
            OperationKind.RUNS_RETRY: self._runs_retry,
            OperationKind.JOBS_PAUSE: self._jobs_pause,
            OperationKind.JOBS_RESUME: self._jobs_resume,
            OperationKind.JOBS_CANCEL: self._jobs_cancel,
            OperationKind.LETTERS_REDRIVE: self._letters_redrive,
            OperationKind.LETTERS_DISCARD: self._letters_discard,
        }

    async def page(self, operation: OperationRow, size: int) -> OperationPage:
        """Carry out the next page of up to `size` subjects. Raises `Unavailable`: carry it out again later."""
        work = self._works.get(operation.kind)
        if work is None:
            raise Bug(f"there is no operation of the kind {operation.kind!r}")
        tally = PageTally(operation, size)
        try:
            await work(tally)
        except Invalid as failure:
            # Its search takes too long, and would again: that is told in place of what was not found.
            tally.cursor = None
            tally.refuse(operation.operation_id, failure)
        kept = [*_problems.decode(operation.problems), *tally.problems][:MAX_PROBLEMS]
        return OperationPage(tally.cursor, tally.done, len(tally.problems), _encode(kept).decode())

    def stopped(self, operation: OperationRow, refusal: Refused) -> OperationPage:
        """The last page of an operation that must not go on. The reason is listed in any case."""
        reason = BulkProblem(id=operation.operation_id, code=refusal.code, detail=refusal.detail)
        kept = [*_problems.decode(operation.problems)[: MAX_PROBLEMS - 1], reason]
        return OperationPage(None, 0, 0, _encode(kept).decode(), failed=True)

    # ------------------------------------------------------------------------------------------ runs

    async def _runs_cancel(self, tally: PageTally) -> None:
        said = _runs.decode(tally.request.filter)
        query = runs_query(
            tally.who.namespace,
            said,
            states=STATES[OperationKind.RUNS_CANCEL],
            limit=tally.size,
            within=tally.who.within,
        )
        query = replace(query, before=tally.before, texts=NO_TEXT, may_pause=True, keeps_order=True)
        rows = await self._context.store.searches.runs(query)
        last = tally.turn(rows, lambda row: row.run_id)
        # A run that an earlier try of this page ended is not found again, and counts as done.
        ended = replace(query, states=(RunState.CANCELLED,), after=last, limit=tally.recalled)
        since = tally.operation.created_at
        tally.done += sum((row.ended_at or 0.0) >= since for row in await self._context.store.searches.runs(ended))
        meant = [row.run_id for row in rows if _was_so(row, said.status, since)]
        await _each(tally, meant, lambda run: cancel_run(self._context, tally.who, run))

    async def _runs_retry(self, tally: PageTally) -> None:
        said = _runs.decode(tally.request.filter)
        query = runs_query(
            tally.who.namespace,
            said,
            states=STATES[OperationKind.RUNS_RETRY],
            limit=tally.size,
            within=tally.who.within,
        )
        rows = await self._context.store.searches.runs(
            replace(
                query,
                before=tally.was_there,
                texts=NEEDED_ANEW,
                bytes_most=PAGE_BYTES,
                may_pause=True,
                keeps_order=True,
            )
        )
        tally.turn(rows, lambda row: row.run_id)
        # A run that goes on, or ended after the operation was asked for, is not in the snapshot.
        meant = [row for row in rows if row.ended_at is not None and row.ended_at <= tally.operation.created_at]
        await self._redrive(tally, [row for row in meant if row.state is RunState.FAILED])
        by_job: dict[UUID, list[RunRow]] = {}
        for row in meant:
            if row.state is not RunState.FAILED:
                by_job.setdefault(row.job_id, []).append(row)
        for job_id, some in by_job.items():
            try:
                await make_runs(self._context, tally.who, job_id, await self._anew(tally, some, {}))
            except Refused as failure:  # its job is cancelled, or gone
                for row in some:
                    tally.refuse(row.run_id, failure)
            else:
                tally.done += len(some)

    async def _anew(self, tally: PageTally, rows: Sequence[RunRow], jobs: dict[UUID, str]) -> list[NewRun]:
        """A new run for each, named by the operation. They all bear the time at which it was asked for. `jobs`: the
        definitions that were read so far."""
        operation, payload = tally.operation, tally.request.payload
        found: list[NewRun] = []
        for row in rows:
            if row.job_id not in jobs:
                jobs[row.job_id] = (await self._context.job(tally.who, row.job_id)).definition
            definition = row.definition
            if payload is not UNSET:
                definition = with_payload(definition or jobs[row.job_id], payload)
            overlap = decode_plan(jobs[row.job_id]).overlap_of_asked()
            request = operation.operation_id.bytes
            found.append(new_run(row, operation.created_at, definition=definition, overlap=overlap, request=request))
        return found

    # ------------------------------------------------------------------------------------------ dead letters

    async def _letters_redrive(self, tally: PageTally) -> None:
        rows = await self._letters_meant(tally, LetterStatus.REDRIVEN)
        await self._redrive(tally, [row.run for row in rows])

    async def _redrive(self, tally: PageTally, rows: Sequence[RunRow]) -> None:
        """Each becomes a new run, all of them in one transaction."""
        kept: list[RunRow] = []
        runs: list[NewRun] = []
        jobs: dict[UUID, str] = {}
        for row in rows:
            try:
                runs += await self._anew(tally, (row,), jobs)
            except NotFound as failure:  # its job is gone
                tally.refuse(row.run_id, failure)
            else:
                kept.append(row)
        note = tally.request.reason
        found = [Settlement(row.run_id, LetterStatus.REDRIVEN, note, run) for row, run in zip(kept, runs, strict=True)]
        await self._settle(tally, found)

    async def _letters_discard(self, tally: PageTally) -> None:
        rows = await self._letters_meant(tally, LetterStatus.DISCARDED)
        note = tally.request.reason
        await self._settle(tally, [Settlement(row.run.run_id, LetterStatus.DISCARDED, note) for row in rows])

    async def _letters_meant(self, tally: PageTally, settled: LetterStatus) -> Sequence[LetterRow]:
        """The letters of this page; those that it settled before it was cut off count as done."""
        operation = tally.operation
        said = _letters.decode(tally.request.filter)
        query = letters_query(
            tally.who.namespace,
            said,
            expire_seconds=self._context.dead_letter_seconds,
            statuses=(LetterStatus.OPEN,),
            limit=tally.size,
            within=tally.who.within,
        )
        texts = NEEDED_ANEW if settled is LetterStatus.REDRIVEN else NO_TEXT
        query = replace(query, before=tally.was_there, may_pause=True)
        rows = await self._context.store.searches.letters(replace(query, texts=texts, bytes_most=PAGE_BYTES))
        last = tally.turn(rows, lambda row: row.run.run_id)
        for row in await self._context.store.searches.letters(
            replace(query, statuses=(settled,), limit=tally.recalled, texts=NO_TEXT)
        ):
            own = row.settled_by == operation.created_by and (row.settled_at or 0.0) >= operation.created_at
            if settled is LetterStatus.REDRIVEN:
                own = row.redriven_as == new_run_id(row.run, operation.created_at, operation.operation_id.bytes)
            tally.done += own and (last is None or row.run.run_id > last)
        return [row for row in rows if (row.run.ended_at or 0.0) <= operation.created_at]

    async def _settle(self, tally: PageTally, settlements: Sequence[Settlement]) -> None:
        if not settlements:
            return
        try:
            answers = await self._settlements.settle_many(tally.who, settlements)
        except Refused as failure:  # the namespace takes no new run
            for settlement in settlements:
                tally.refuse(settlement.run_id, failure)
            return
        for settlement, settled in zip(settlements, answers, strict=True):
            if settled in (Settled.SETTLED, Settled.REPEATED):
                tally.done += 1
            else:
                letter = (
                    await self._settlements.find(tally.who, settlement.run_id) if settled is Settled.TAKEN else None
                )
                tally.refuse(settlement.run_id, refusal(settled, settlement.run_id, letter))

    # ------------------------------------------------------------------------------------------ jobs

    async def _jobs_pause(self, tally: PageTally) -> None:
        body = PauseBody(reason=tally.request.reason, until=tally.request.until)
        meant = await self._jobs_meant(tally, JobStatus.PAUSED, lambda row: row.paused_at)
        await _each(tally, meant, lambda job: self._moves.pause(tally.who, job, body))

    async def _jobs_resume(self, tally: PageTally) -> None:
        body = ResumeBody(missed=tally.request.missed)
        await _each(tally, await self._jobs_meant(tally), lambda job: self._moves.resume(tally.who, job, body))

    async def _jobs_cancel(self, tally: PageTally) -> None:
        meant = await self._jobs_meant(tally, JobStatus.CANCELLED, lambda row: row.updated_at)
        await _each(tally, meant, lambda job: self._moves.cancel(tally.who, job))

    async def _jobs_meant(
        self,
        tally: PageTally,
        moved: JobStatus | None = None,
        since: Callable[[JobRow], float | None] = lambda _row: None,
    ) -> Sequence[UUID]:
        """The jobs of this page; those that it moved before it was cut off count as done. One that was changed since
        the operation was asked for may have come to match by that, and is refused."""
        said = _jobs.decode(tally.request.filter)
        created = tally.operation.created_at
        usual = STATUSES[tally.operation.kind]
        query, statuses = jobs_queries(
            tally.who.namespace, said, statuses=usual, limit=tally.size, within=tally.who.within
        )
        query = replace(query, before=tally.before, bytes_most=PAGE_BYTES, may_pause=True, keeps_order=True)
        rows = await self._context.store.searches.jobs(query)
        last = tally.turn(rows, lambda row: row.listed)
        if moved is not None and moved not in statuses:
            if query.statuses:
                before = self._jobs_until(replace(query, statuses=(moved,), limit=tally.recalled), last)
                tally.done += sum([_is_own(row, moved, since, created) async for row in before])
            else:
                tally.done += sum(_is_own(row, moved, since, created) for row in rows)
        found = [row for row in rows if row.status in statuses and row.created_at <= created]
        for row in found:
            if row.updated_at > created:
                tally.refuse(row.job_id, Conflict(CHANGED_SINCE, code="changed_since"))
        return [row.job_id for row in found if row.updated_at <= created]

    async def _jobs_until(self, query: JobQuery, last: UUID | None) -> AsyncIterator[JobRow]:
        """Up to `limit` jobs of a search, those before the place `last`. Only one of its pages is held at a time."""
        while True:
            page = await self._context.store.searches.jobs(query)
            for row in page:
                if last is not None and row.listed <= last:
                    return
                yield row
            if page.cut:
                before = page[-1].listed
            elif page.paused_at is not None and (last is None or page.paused_at.before > last):
                before = page.paused_at.before
            else:
                return
            query = replace(query, before=before, limit=query.limit - len(page))


def _is_own(row: JobRow, moved: JobStatus, since: Callable[[JobRow], float | None], created: float) -> bool:
    """Check whether an operation that was asked for at `created` has moved the job."""
    return row.status is moved and (since(row) or 0.0) >= created and row.created_at <= created


def _was_so(row: RunRow, states: Sequence[RunState], asked_at: float) -> bool:
    """Check whether an unfinished run existed when the operation was asked for, and in its present state if the filter
    names states. For a run that retries, only its existence is on record."""
    if row.queued_at > asked_at:
        return False
    since = {RunState.DISPATCHED: row.dispatched_at, RunState.RUNNING: row.started_at}.get(row.state)
    return not states or since is None or since <= asked_at


async def _each(tally: PageTally, subjects: Sequence[UUID], effect: Callable[[UUID], Awaitable[Any]]) -> None:
    """Carry it out on each, some at a time: most of an effect is waiting for a commit. Raises `Unavailable` when all
    that had begun have ended."""
    for first in range(0, len(subjects), AT_ONCE):
        some = subjects[first : first + AT_ONCE]
        ends = await asyncio.gather(*(effect(subject) for subject in some), return_exceptions=True)
        for subject, end in zip(some, ends, strict=True):
            if isinstance(end, Refused):
                tally.refuse(subject, end)
            elif isinstance(end, BaseException):
                raise end
            else:
                tally.done += 1
