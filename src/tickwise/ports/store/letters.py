"""Dead letters (runs that failed for good and wait for a person) and operations over many things at once.

A dead letter is not stored: it is a run on record as FAILED, and what was done about it. So nothing can be FAILED
without a letter, and no letter can tell of a run that did not fail.

    FAILED ──► OPEN, or HELD if its outcome is unknown ──redrive──► REDRIVEN (a new run, linked both ways)
                                 │                     ──discard──► DISCARDED
                                 │                     ──resolve──► RESOLVED (a HELD one: the true outcome)
                                 └── after its time ──► EXPIRED     (it waits no more; it may still be settled)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol
from uuid import UUID

from tickwise.domain.audit import AuditEntry
from tickwise.domain.callers import Asker
from tickwise.domain.selectors import Selector
from tickwise.ports.paging import utf8_bytes
from tickwise.ports.store.definitions import EndedOperation, NewRun, OperationStatus, Receipt, Replay
from tickwise.ports.store.records import EVERY_TEXT, RunRow, RunText


class LetterStatus(StrEnum):
    """The status of a dead letter."""

    OPEN = "open"
    HELD = "held"
    REDRIVEN = "redriven"
    DISCARDED = "discarded"
    RESOLVED = "decided"
    EXPIRED = "expired"


class LetterResolution(StrEnum):
    """A person's decision on a run whose outcome was unknown."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterRow:
    """A dead letter: the run, and what was done about it."""

    run: RunRow
    job_name: str
    task_kind: str
    status: LetterStatus
    settled_at: float | None = None
    settled_by: str | None = None
    note: str | None = None
    redriven_as: UUID | None = None
    resolution: LetterResolution | None = None

    @property
    def text_bytes(self) -> int:
        """See `PageRow`."""
        return self.run.text_bytes + utf8_bytes(self.note)


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterQuery:
    """A search. Newest first by run id; everything given must match."""

    namespace: str
    expire_seconds: float
    """An unsettled letter is EXPIRED this long after its run ended."""
    statuses: Sequence[LetterStatus] = ()
    job_id: UUID | None = None
    task_kind: str | None = None
    reason: str | None = None
    error_group: UUID | None = None
    """Of the runs that were counted in this group (`error_groups`)."""
    ended_after: float | None = None
    """From this instant on, and to before the next one."""
    ended_before: float | None = None
    within: Selector | None = None
    """Of the jobs of this selector alone, as they are now; None: of all. A letter whose job is gone is of none."""
    before: UUID | None = None
    may_pause: bool = False
    """As in `JobQuery`. A search by `error_group` does not pause."""
    limit: int = 50
    bytes_most: int | None = None
    """The page is cut before its notes and the texts of its runs hold more (`paging`); None: never."""
    texts: frozenset[RunText] = EVERY_TEXT
    """The texts that the runs come with, as in a `RunQuery`."""


class Settlement(NamedTuple):
    """The action on one letter."""

    run_id: UUID
    status: LetterStatus
    """REDRIVEN, DISCARDED or RESOLVED."""
    note: str | None = None
    run: NewRun | None = None
    """With REDRIVEN: the new run of the same job; its `origin` is the letter's run."""
    resolution: LetterResolution | None = None
    """With RESOLVED. Either one starts what a sequence would have started (see `CompletionStore`)."""

    def refusal(self, *, is_held: bool, is_job_cancelled: bool) -> Settled | None:
        """The reason why an unsettled letter cannot be settled in this way; None: it can. A job that is gone counts as
        cancelled."""
        if self.status is LetterStatus.RESOLVED and not is_held:
            return Settled.NOT_HELD
        if self.status is LetterStatus.REDRIVEN and is_job_cancelled:
            return Settled.JOB_CANCELLED
        return None

    def answer(self, status: LetterStatus, redriven_as: UUID | None, resolution: LetterResolution | None) -> Settled:
        """The answer for a letter that was settled before, in this way."""
        new = None if self.run is None else self.run.run_id
        is_repeat = (self.status, new, self.resolution) == (status, redriven_as, resolution)
        return Settled.REPEATED if is_repeat else Settled.TAKEN


class Settled(StrEnum):
    """The result of one settlement of a batch."""

    SETTLED = "settled"
    REPEATED = "repeated"
    """It was settled so before, to the same run or resolution; nothing was changed."""
    TAKEN = "taken"
    """It was settled otherwise before."""
    NOT_FAILED = "not_failed"
    """There is no such run in this namespace that is on record as FAILED."""
    NOT_HELD = "not_held"
    """RESOLVED is for letters whose outcome is unknown."""
    JOB_CANCELLED = "job_cancelled"
    """REDRIVEN, and its job is CANCELLED or gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOperation:
    """A request for one action on every match of a filter."""

    operation_id: UUID
    namespace: str
    kind: str
    request: str
    """JSON text: filter and parameters; opaque to the store."""
    created_by: str
    matched: int | None
    """The number of targets at the request; None: more than were counted."""
    asker: Asker | None = None
    """The credential of `created_by`; None: no request is behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRow:
    """An operation and how far it has come."""

    operation_id: UUID
    namespace: str
    kind: str
    request: str
    created_by: str
    created_at: float
    updated_at: float
    ended_at: float | None
    status: OperationStatus
    matched: int | None
    cursor: str | None
    """The begin of the next page; opaque. None: no page is done yet."""
    step: int
    """The fence: how often the cursor has moved."""
    done: int
    refused: int
    problems: str
    """JSON text of the first refusals; opaque, `[]` at first."""
    asker: Asker | None = None
    """As it was stored. None: a program of the release before stored it, or it was a single request."""

    @property
    def text_bytes(self) -> int:
        """See `PageRow`."""
        return utf8_bytes(self.request, self.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationStep:
    """A page that was carried out."""

    operation_id: UUID
    expected_step: int
    cursor: str | None
    """The begin of the next page; None: it was the last one."""
    done: int
    """In this page."""
    refused: int
    problems: str
    """In place of those that are kept."""
    failed: bool = False
    """It cannot go on, and ends as FAILED. Only with `cursor` None."""


class LetterStore(Protocol):
    """Dead letters: runs that failed for good."""

    async def get(self, namespace: str, run_id: UUID, expire_seconds: float) -> LetterRow | None:
        """One letter."""
        ...

    async def settle(
        self,
        namespace: str,
        settlements: Sequence[Settlement],
        *,
        by: str,
        receipt: Receipt | None = None,
        audit: AuditEntry | None = None,
    ) -> Sequence[Settled] | Replay:
        """Settle letters of one namespace, each for itself, and make the runs that they become, in one transaction. The
        receipt is kept if every one is SETTLED or REPEATED. No letter is settled twice, however many ask at the same
        time. The targets of `audit` are those that are SETTLED by this call."""
        ...


class OperationStore(Protocol):
    """Operations: long requests that a scheduler carries out in steps."""

    async def add(
        self, operation: NewOperation, *, receipt: Receipt | None = None, audit: AuditEntry | None = None
    ) -> OperationRow | Replay:
        """Store one, RUNNING; one of the same id stays as it is."""
        ...

    async def record(self, operations: Sequence[EndedOperation]) -> None:
        """Put on record what is over already, each operation for itself; one of the same id stays as it is."""
        ...

    async def get(self, namespace: str, operation_id: UUID) -> OperationRow | None:
        """One operation."""
        ...

    async def cancel(self, namespace: str, operation_id: UUID, *, audit: AuditEntry | None = None) -> OperationRow:
        """Stop an operation after the page under way. Finished pages stay done; an ended operation stays as it is.
        Raises `NotFound`."""
        ...

    async def take(self, hold_seconds: float) -> OperationRow | None:
        """Take the RUNNING operation without a holder that waits longest, for this time; None: there is none.

        Its last taker may be slow or dead; the fence of `step` decides then.
        """
        ...

    async def step(self, step: OperationStep) -> bool:
        """Put a page on record, and let the operation go. False, and nothing is changed: another one has moved it since
        it was taken (the same step repeated: True)."""
        ...
