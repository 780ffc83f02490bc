"""Completions, queues and checks: ends that start other runs, holds, and the invariants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from tickwise.domain.audit import AuditEntry
from tickwise.domain.model import Lane
from tickwise.ports.store.definitions import NewRun, NewSkip
from tickwise.ports.store.records import RunRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A run whose end starts others, which are yet to be made."""

    run: RunRow
    succeeded: bool
    """The state that its sequence follows: its final state, or a person's decision on an unknown outcome."""


class Successor(NamedTuple):
    """The successor of one job after the end of a run of another."""

    job_id: UUID
    run: NewRun | None = None
    skip: NewSkip | None = None


QUEUE_HELD: Final = "queue_held"
"""The kind of the incident that is the record of a hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueHold:
    """A time in which a queue stands still."""

    namespace: str
    queue: str
    begin: float | None
    """None: now."""
    until: float | None
    """None: until a person resumes the queue."""
    reason: str | None
    by: str
    asked_at: float | None = None
    """Given by the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """A queue of a namespace as it is now."""

    queue: str
    hold: QueueHold | None
    """The hold that is in force, or will be."""
    held: bool
    """True if the hold is in force now."""
    queued: int
    """Waiting runs: QUEUED and RETRYING, whether ready or not."""
    dispatched: int
    running: int


class Check(StrEnum):
    """The invariants that a store can be asked about. The name says what must be."""

    ENDED_ONCE = "ended_once"
    """No run is both active and on record."""
    HELD_BY_ACTIVE = "held_by_active"
    """The holder of each run is an executor that is not gone and settled."""
    CLAIMED_IN_TIME = "claimed_in_time"
    """No run is ready for more than a minute and free, but for those of queues on hold."""
    FIRED_IN_TIME = "fired_in_time"
    """No timer is due for more than a minute."""
    PLANNED = "planned"
    """A job that will run again has a timer. Subjects are recurring jobs without one that are neither paused nor
    cancelled: the reader of its plan decides whether it should have one."""
    WAITS_FOR_SOMETHING = "waits_for_something"
    """A blocked run waits for an unfinished one, or for a slot that is taken."""
    FOLLOWED_IN_TIME = "followed_in_time"
    """No sequence waits for its next run for more than a minute."""
    HEARD_IN_TIME = "heard_in_time"
    """No request to stop is older than a minute without its holder having heard it, and none outlives its run."""
    EXPIRED_IN_TIME = "expired_in_time"
    """No lease is over for more than a minute without its executor being expired, and what it held free."""
    HELD_AS_TOLD = "held_as_told"
    """No executor knows better than the store what it holds for more than a minute (`HeldRunStore`)."""
    STEPPED_IN_TIME = "stepped_in_time"
    """No operation stands still for more than five minutes."""
    HAS_A_JOB = "has_a_job"
    """Each active run and each timer belongs to a job."""


class Violation(NamedTuple):
    """A subject that breaks an invariant."""

    subject: UUID
    """The run, job or operation; of EXPIRED_IN_TIME and HELD_AS_TOLD the executor's number as an integer
    id."""
    detail: str
    """For people."""
    namespace: str | None
    """The subject's; always given with PLANNED, so that the job's plan can be read. None: the subject is an executor,
    or nothing that is left of it says its namespace."""
    lane: Lane | None = None
    """With CLAIMED_IN_TIME: the lane of the run, so that a caller can check whether an executor serves the lane."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """One page of a check."""

    last: UUID | None
    """The last subject that was looked at, whether good or not: the next page begins after it. None: that was all."""
    found: Sequence[Violation] = ()


class CompletionStore(Protocol):
    """Ended runs that start others."""

    async def pending(self, limit: int) -> Sequence[Completion]:
        """Runs whose end starts others, the oldest first: those that were reported with `Outcome.follow`, those that
        the store itself ended for a crash (FAILED), and letters that were decided. A HELD one is not among them."""
        ...

    async def commit(self, namespace: str, ends: Mapping[UUID, Sequence[Successor]]) -> int:
        """Make what follows from the ends of runs of one namespace, and forget that it was to do, in one transaction;
        how many runs were made. One that exists or ended already, or whose job is CANCELLED or gone, is left out; a run
        of a job that is PAUSED goes on record as SKIPPED, reason `paused`. A repeat, also of some of them, changes
        nothing. Ends that another call has in hand are left to it, without waiting."""
        ...


class QueueStore(Protocol):
    """Queues, and their holds."""

    async def hold(self, hold: QueueHold, *, audit: AuditEntry | None = None) -> QueueRow:
        """Let a queue stand still, in place of a hold that there is. From its begin on nothing of it is claimed; what
        is held then and has not begun is asked back (`CancelKind.RETURN`)."""
        ...

    async def resume(self, namespace: str, queue: str, *, audit: AuditEntry | None = None) -> bool:
        """Take a hold away; whether there was one."""
        ...

    async def all(self, namespace: str) -> Sequence[QueueRow]:
        """Every queue that has a lane or a hold, by name."""
        ...


class CheckStore(Protocol):
    """The invariants, looked at and repaired."""

    async def violations(self, check: Check, *, after: UUID | None, limit: int) -> Examined:
        """Look at up to `limit` subjects of one invariant, in the order of their ids."""
        ...

    async def heal(self, check: Check, found: Sequence[Violation]) -> int:
        """Put right what the store itself can, each subject for itself; how many are right now. A violation is given as
        it was found: its namespace says where the subject is.

        ENDED_ONCE: the active one goes. HELD_BY_ACTIVE: freed as if its lease had been lost. WAITS_FOR_SOMETHING:
        claimable. HEARD_IN_TIME: a request whose run is gone goes. HELD_AS_TOLD: the executor's lease ends, so that it
        stops what it runs, and what it held is free. All others: 0. A subject that is right by now stays as it is.
        """
        ...
