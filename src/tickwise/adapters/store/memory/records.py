"""The data of a memory store, as plain mutable records, and the time-ordered queue that they wait in."""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar
from uuid import UUID

from tickwise.domain.decision import NEVER, Overlap, TimerState
from tickwise.domain.feed import FeedPlace
from tickwise.domain.lifecycle import HELD, CancelKind, RunState
from tickwise.domain.model import Lane, Trigger
from tickwise.domain.notices.rules import Alert, Notice
from tickwise.domain.retry import OnUnknown
from tickwise.domain.rules.capacities import Capacity
from tickwise.domain.rules.overlap import LinedRun
from tickwise.domain.rules.requests import StopRequest, merged
from tickwise.ports.feed import FEED_SECONDS, WATCH_SECONDS, PackedIds, RunChanges
from tickwise.ports.identity import NewKey
from tickwise.ports.identity.browser_sessions import NewBrowserSession, NewSessionLink
from tickwise.ports.identity.device_sign_ins import NewDeviceSignIn
from tickwise.ports.identity.factors import Factor, FactorReset, NewStep
from tickwise.ports.identity.identities import SignInTransaction
from tickwise.ports.identity.sessions import NewSession
from tickwise.ports.identity.users import NewLink, UserRow
from tickwise.ports.sealing import SealedParts
from tickwise.ports.store import (
    AttemptRow,
    Completion,
    ErrorGroupRow,
    ErrorJob,
    JobAction,
    LetterResolution,
    LetterStatus,
    NewExecutor,
    OperationRow,
    OperationStep,
    RunRow,
)
from tickwise.ports.store.environments import DeclaredEnvironment, EnvironmentFault
from tickwise.ports.store.secrets import SecretRow, SecretVersion


@dataclass(slots=True, kw_only=True)
class Placed:
    """A record that may stand in a queue. `place` is its ticket: an entry with another one is stale."""

    place: int = 0


P = TypeVar("P", bound=Placed)


class Numbers:
    """Numbers in a row; the last one that was given can be read, so that they go on behind it in another process."""

    __slots__ = ("last", "step")

    def __init__(self, first: int = 1, step: int = 1) -> None:
        self.last, self.step = first - step, step

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self.last += self.step
        return self.last


class TimeQueue(Generic[P]):
    """Items by time, and of one time in the order in which they came. An item that moved on is dropped when it comes
    up."""

    def __init__(self, tickets: Iterator[int]) -> None:
        """`tickets` are shared by all queues that an item may move between, so that none is given twice."""
        self._heap: list[tuple[float, int, P]] = []
        self._tickets = tickets

    def push(self, at: float, item: P) -> None:
        """Let it wait for `at`, here and nowhere else any more."""
        item.place = next(self._tickets)
        heapq.heappush(self._heap, (at, item.place, item))

    def first(self) -> tuple[float, P] | None:
        """The next item and its time; it stays."""
        while self._heap:
            at, ticket, item = self._heap[0]
            if item.place == ticket:
                return at, item
            heapq.heappop(self._heap)
        return None

    def pop(self) -> P:
        """Take out what `first` showed."""
        _, _, item = heapq.heappop(self._heap)
        item.place = 0
        return item

    def earliest(self, limit: int, until: float) -> list[P]:
        """Up to so many items of up to this time, in their order; each keeps its place."""
        seen: list[tuple[float, int, P]] = []
        while len(seen) < limit and (head := self.first()) is not None and head[0] <= until:
            seen.append(heapq.heappop(self._heap))
        for entry in seen:
            heapq.heappush(self._heap, entry)
        return [item for _, _, item in seen]

    def waiting(self) -> list[tuple[float, int, P]]:
        """All items that wait, with their times and tickets, in their order."""
        return sorted((entry for entry in self._heap if entry[2].place == entry[1]), key=lambda entry: entry[:2])

    def restore(self, entries: list[tuple[float, int, P]]) -> None:
        """Let these wait, each with the ticket that it had. The queue is empty before."""
        self._heap = entries
        heapq.heapify(entries)


@dataclass(slots=True, kw_only=True)
class TimerRecord(Placed):
    """The position of a schedule. Never changed, only replaced, so that a scheduler sees by identity whether it was."""

    job: JobRecord
    pending: TimerState
    run_id: UUID | None
    """The name of the fire of a one-time job that needs no decision."""
    zone_data: str | None

    @property
    def comes(self) -> bool:
        """True if the timer will be due by itself."""
        return self.pending.due != NEVER


class BatchRecord(NamedTuple):
    """Timers that one scheduler has taken for a decision."""

    timers: dict[UUID, TimerRecord]
    """By job."""
    taken_at: float
    runs: dict[str, int]
    """Counted for quotas, by namespace: given back unless the batch is committed."""


@dataclass(slots=True, kw_only=True)
class JobRecord:
    """A job, and what hangs on it."""

    job_id: UUID
    namespace: str
    name: str
    key: str | None
    digest: bytes | None
    schedule_type: str
    task_kind: str
    lane: Lane
    definition: str
    labels: Mapping[str, str]
    owner: str
    created_by: str
    created_at: float
    updated_at: float
    task_changed_at: float
    listed: UUID
    recurring: bool
    lasting: bool
    version: int = 1
    standing: JobAction | None = None
    """PAUSE or CANCEL, if that was the last word."""
    paused_at: float | None = None
    pause_reason: str | None = None
    pause_until: float | None = None
    paused_by: str | None = None
    calendars: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()
    timer: TimerRecord | None = None
    runs: dict[UUID, RunRecord] = field(default_factory=dict)


class SecretUseIndex:
    """Jobs by namespace and the name of a secret that they name: a question about one secret reads no other job.

    Invariant: it has each stored job under each of its names. A change of a job's names or namespace takes it out
    before, and puts it in after.
    """

    def __init__(self) -> None:
        self._jobs: dict[tuple[str, str], dict[UUID, JobRecord]] = {}

    def add(self, job: JobRecord) -> None:
        """Put a job in under its names."""
        for name in job.secrets:
            self._jobs.setdefault((job.namespace, name), {})[job.job_id] = job

    def drop(self, job: JobRecord) -> None:
        """Take a job out."""
        for name in job.secrets:
            place = job.namespace, name
            self._jobs[place].pop(job.job_id)
            if not self._jobs[place]:
                del self._jobs[place]

    def of(self, namespace: str, name: str) -> Collection[JobRecord]:
        """The jobs that name a secret."""
        return self._jobs.get((namespace, name), {}).values()


@dataclass(frozen=True, slots=True)
class EnvironmentRecord:
    """An environment that is declared. Never changed, only replaced."""

    declared: DeclaredEnvironment
    declared_at: float
    fault: EnvironmentFault | None


@dataclass(slots=True, kw_only=True)
class RunRecord(Placed):
    """An active run."""

    run_id: UUID
    job: JobRecord
    trigger: int
    due: float
    nominal: float
    queued: float
    ready: float
    overlap: Overlap
    lane: Lane
    definition: str | None
    origin: UUID | None
    state: RunState = RunState.QUEUED
    attempt: int = 0
    failures: int = 0
    crashes: int = 0
    settled: bool = False
    """Its overlap is decided: it may start beside all other runs."""
    guarded: bool = False
    blocked: bool = False
    """It waits for an earlier run of its job, or for a slot."""
    limit_key: str | None = None
    """The concurrency key that it runs under, waits for a slot of, or was woken for."""
    limit: int = 0
    """Of the slot that it waits for."""
    waited_since: float | None = None
    """The time at which it was ready before it waited for a slot: its place among those that wait, until it starts."""
    slot: float | None = None
    """Its own slot under a rate, until it begins."""
    rate_key: str | None = None
    """The rate of that slot."""
    on_unknown: OnUnknown = OnUnknown.RERUN
    """Of the last recorded start."""
    executor: int | None = None
    token: int = 0
    dispatched: float | None = None
    started: float | None = None
    request: StopRequest | None = None
    attempts: tuple[AttemptRow, ...] = ()
    """Those that did not end it."""

    @property
    def held(self) -> bool:
        """True if an executor holds the run."""
        return self.state in HELD

    @property
    def begun(self) -> bool:
        """True if the start of an attempt is on record."""
        return self.state is RunState.RUNNING or bool(self.attempts)

    @property
    def open(self) -> bool:
        """True if it is undecided whether the run may start while other runs of its job go on."""
        return self.overlap is not Overlap.ALLOW and not self.settled

    @property
    def waits_for_slot(self) -> bool:
        """True if a concurrency limit blocks the run, and not an earlier run."""
        return self.blocked and self.limit_key is not None

    @property
    def lined(self) -> LinedRun:
        """The part of it that other runs of its job see."""
        return LinedRun(self.due, self.run_id, self.overlap, self.trigger, self.settled, self.state)

    @property
    def ready_since(self) -> float:
        """Its place among the runs that want a slot."""
        return max(self.ready, self.due) if self.waited_since is None else self.waited_since

    @property
    def asked(self) -> CancelKind | None:
        """The request to its holder."""
        return None if self.request is None else self.request.kind

    @property
    def in_backfill(self) -> bool:
        """True if the run belongs to a backfill: only runs of backfills count for its overlap, and it counts only for
        theirs."""
        return self.trigger == Trigger.BACKFILL

    @property
    def cancelling(self) -> bool:
        """True if the holder was asked to end the run."""
        return self.asked is CancelKind.CANCEL

    def ask(self, request: StopRequest) -> bool:
        """Ask its holder, unless another request to it stands; whether it is asked by this one."""
        self.request = merged(self.request, request)
        return self.request is request


class EndedRun(NamedTuple):
    """A run that has its final state."""

    row: RunRow
    token: int
    attempts: tuple[AttemptRow, ...]
    """The earlier ones, and the one that ended it if there was one."""
    reported: bool
    """An executor reported the end, under this token. Else the store ended the run; simulated worlds compare both."""


@dataclass(slots=True, kw_only=True)
class ErrorGroupRecord:
    """Failures of one cause. `row.status` is of no time: it is derived when the group is told."""

    row: ErrorGroupRow
    jobs: dict[UUID, ErrorJob] = field(default_factory=dict)
    hours: Counter[float] = field(default_factory=Counter)
    """The number of failures, by the begin of the hour."""


@dataclass(slots=True, kw_only=True)
class AlertRecord:
    """An alert, with the times that only the store needs."""

    alert: Alert
    told_at: float | None = None
    escalated_at: float | None = None
    next_at: float | None = None
    version: int = 1


@dataclass(slots=True, kw_only=True)
class NoticeRecord:
    """A notice, and the sender that holds it."""

    notice: Notice
    made_at: float
    sender: str | None = None
    leased_until: float | None = None


class CompletionRecord(NamedTuple):
    """The end of a run from which others are yet to be made."""

    completion: Completion
    since: float


class LetterRecord(NamedTuple):
    """The handling of a dead letter."""

    status: LetterStatus
    at: float
    by: str
    note: str | None
    redriven_as: UUID | None
    resolution: LetterResolution | None


@dataclass(slots=True)
class OperationRecord:
    """An operation over many subjects, and its holder."""

    row: OperationRow
    free_at: float
    """The time from which any scheduler may take it."""
    last: OperationStep | None = None


@dataclass(slots=True, kw_only=True)
class RemovalRecord:
    """The removal of a namespace."""

    began_at: float
    free_at: float
    """From then on another scheduler may take it."""


@dataclass(slots=True, kw_only=True)
class ExecutorRecord:
    """An executor from its registration to an hour after its end."""

    number: int
    said: NewExecutor
    functions: tuple[str, ...]
    registered_at: float
    lease_seconds: float
    lease_until: float
    gone_at: float | None = None
    held: dict[UUID, RunRecord] = field(default_factory=dict)
    capacities: Mapping[str, Capacity] = field(default_factory=dict)
    differs: int = 0
    differing_since: float | None = None


class ReceiptRecord(NamedTuple):
    """An answer, until it expires."""

    body_digest: bytes
    status: int
    body: bytes
    expires_at: float


class EarlierSecret(NamedTuple):
    """A secret that a key had before."""

    number: int
    until: float


@dataclass(slots=True, kw_only=True)
class KeyRecord:
    """An API key."""

    key: NewKey
    created_at: float
    last_used_at: float | None = None
    revoked_at: float | None = None
    rotations: int = 0
    rotated_at: float | None = None
    earlier: dict[bytes, EarlierSecret] = field(default_factory=dict)
    """The secrets before the present one, by their digests."""

    def good(self, now: float) -> bool:
        """Check whether the key is accepted."""
        expires = self.key.principal.expires_at
        return self.revoked_at is None and (expires is None or expires > now)

    @property
    def over_at(self) -> float:
        """Of one that is not good: since when."""
        return self.revoked_at or self.key.principal.expires_at or 0.0


@dataclass(slots=True, kw_only=True)
class UserRecord:
    """A person."""

    row: UserRow
    name_key: str
    email_key: str | None
    password: str | None
    looks: tuple[str, ...] | None = None
    """None: an earlier release added it."""


@dataclass(slots=True, kw_only=True)
class LinkRecord:
    """A link."""

    link: NewLink
    expires_at: float
    is_used: bool = False


@dataclass(slots=True, kw_only=True)
class BrowserSessionRecord:
    """A session of a browser."""

    session: NewBrowserSession
    used_at: float
    ends_at: float


@dataclass(slots=True, kw_only=True)
class SignInRecord:
    """A sign-in by a provider that is under way."""

    transaction: SignInTransaction
    expires_at: float


@dataclass(slots=True, kw_only=True)
class BrowserLinkRecord:
    """A link that opens a session."""

    link: NewSessionLink
    expires_at: float
    opened: UUID | None = None


@dataclass(slots=True, kw_only=True)
class DeviceSignInRecord:
    """A request of a device."""

    request: NewDeviceSignIn
    created_at: float
    expires_at: float
    interval_seconds: float
    polled_at: float | None = None
    approved: bool | None = None
    user_id: UUID | None = None
    generation: int = 0
    family: UUID | None = None


@dataclass(slots=True, kw_only=True)
class SessionRecord:
    """A family."""

    session: NewSession
    rotated_at: float
    ends_at: float
    is_revoked: bool = False
    used: dict[bytes, bytes] = field(default_factory=dict)
    """Tokens that were rotated, each with the one that came after it."""


FEED_MAX_KEPT: Final = 1_000_000


class FeedLog:
    """Changes while somebody watches."""

    def __init__(self) -> None:
        self.kept: deque[RunChanges] = deque()
        self.next = 1
        """The number of the next change."""
        self.floor: int | None = None
        """Changes before this one may be missing; None: nobody has watched."""
        self._until = -math.inf

    def note(self, run: RunRecord, state: RunState, now: float) -> None:
        """A run came into a state."""
        if now >= self._until:
            return
        ids = PackedIds(run.run_id.bytes), PackedIds(run.job.job_id.bytes)
        self.kept.append(RunChanges(self.next, self.next, now, state, run.job.namespace, *ids, (run.attempt,)))
        self.next += 1
        if len(self.kept) > FEED_MAX_KEPT:
            self._drop()

    def watch(self, now: float, epoch: int) -> FeedPlace:
        """Note changes from now on."""
        if now >= self._until:
            self.kept.clear()
            # A number for all that was not noted meanwhile: no place of before has it.
            self.next += 1
            self.floor = self.next
        self._until = max(self._until, now + WATCH_SECONDS)
        while self.kept and self.kept[0].at <= now - FEED_SECONDS:
            self._drop()
        return FeedPlace(epoch, self.next)

    def _drop(self) -> None:
        self.floor = self.kept.popleft().transaction + 1


class SecretRecord(NamedTuple):
    """A secret, its sealed value, and the records of its versions, the newest first."""

    row: SecretRow
    sealed: SealedParts
    versions: tuple[SecretVersion, ...]


@dataclass(slots=True)
class RecoveryRecord:
    """A recovery code."""

    made_at: float
    use_id: UUID | None = None


@dataclass(slots=True)
class StepRecord:
    """A step that waits, or was settled."""

    step: NewStep
    expires_at: float
    tries: int = 0
    use_id: UUID | None = None


@dataclass(slots=True)
class FactorRecords:
    """Everything about second factors."""

    factors: dict[UUID, Factor] = field(default_factory=dict)
    recovery: dict[UUID, dict[bytes, RecoveryRecord]] = field(default_factory=dict)
    """By person, then by digest."""
    steps: dict[bytes, StepRecord] = field(default_factory=dict)
    resets: dict[UUID, FactorReset] = field(default_factory=dict)
