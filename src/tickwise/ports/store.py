"""The durable truth, split by duty: `Definitions` (jobs, tasks), `Runs` (timers, runs, executors), `Records` (history).

What holds for every method:

- It is atomic: all of its effect or none, and durable when it returns. A batch method says which of the
  batch were refused; nothing is promised across two calls.
- It may be repeated with the same ids: twice is once. So after `InDoubt` the caller repeats it.
- "now" is the store's clock, read inside the statement. No caller's clock decides anything.
- It raises `StoreUnavailable` or `InDoubt` when the store is away, `Refused` kinds as stated, and nothing else.
- Listings are keyset pages: stable while rows are added, never OFFSET.
- Text that a caller passes as JSON is kept as it is, byte for byte.

Fencing: a claim gives each run a token greater than every token before it. Every write of an executor names
(executor, run, token); one that does not match what the store holds is refused and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.domain.model import Claimed, Lane, Outcome

# ------------------------------------------------------------------------------------------ definitions


LANES_MOST: Final = 10_000
"""Different lanes (queue, priority and requirements together) that a store knows. Each claim looks at all of them, so
what would bring another one raises `Conflict`, code `lanes_exhausted`, and nothing of it is stored."""


class NewJob(NamedTuple):
    """One job to store. A NamedTuple because submits are hot."""

    job_id: UUID
    namespace: str
    name: str
    schedule_type: str
    task_kind: str
    definition: str
    """JSON text: everything that was said of the job and has no column of its own. Opaque to the store, and
    handed to executors as `Claimed.spec`."""
    lane: Lane
    created_by: str
    recurring: bool
    run_id: UUID | None
    """The name of the first fire of a one-time job; None for a recurring one."""
    due: float | None
    """When it fires first; None: now. A recurring job that will never fire has `never`."""
    never: bool = False
    named: bool = False
    """The client chose `job_id`: it may repeat one, so the store looks. Of a job that is not named, an id that is
    there already can only be our own repeat after `InDoubt`: REPEATED."""
    key: str | None = None
    digest: bytes | None = None
    """Of the body, for a named job: a repeated create with the same digest is answered as the first was."""
    labels: Mapping[str, str] | None = None
    owner: str | None = None
    missed: Sequence[NewRun] = ()
    """Runs to make besides, at once, whatever their due time."""


class NewRun(NamedTuple):
    """One run to make. `definition` None: the job's own."""

    run_id: UUID
    due: float
    trigger: int
    definition: str | None = None
    origin: UUID | None = None
    """The run that this one repeats, if a person asked for a retry."""


class Added(StrEnum):
    """What became of one job of a batch."""

    CREATED = "created"
    REPEATED = "repeated"
    """The same id and the same body were stored before; nothing was changed."""
    ID_TAKEN = "job_id_taken"
    """A named id that stands for another body, or for a job of another namespace. Looked at before the key."""
    KEY_TAKEN = "key_taken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """An answer to keep with its effect, under a client's Idempotency-Key (SPEC A10)."""

    principal: str
    route: str
    key: str
    body_digest: bytes
    status: int
    body: bytes
    keep_seconds: float = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The stored answer to an earlier request with the same Idempotency-Key."""

    body_digest: bytes
    status: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job as it is stored, with what follows from its timers and runs."""

    job_id: UUID
    namespace: str
    name: str
    key: str | None
    schedule_type: str
    task_kind: str
    lane: Lane
    definition: str
    labels: Mapping[str, str]
    owner: str
    created_by: str
    created_at: float
    updated_at: float
    version: int
    status: JobStatus
    """CANCELLED and PAUSED as stored; SCHEDULED while there is a timer or a living run; else FAILED if the job is a
    one-time job and its newest run (by id) is FAILED, else COMPLETED."""
    paused_at: float | None
    """Since when it is PAUSED: an edit or a further pause of a paused job moves it no more."""
    pause_reason: str | None
    pause_until: float | None
    """From this instant on the pause is over by itself: status, reason and this say nothing of it any more."""
    next_run_at: float | None
    """The earliest due time of its timer, of its QUEUED runs, and of its DISPATCHED runs that are not yet due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChange:
    """A job's new definition and, if its schedule changed, its new plan."""

    namespace: str
    job_id: UUID
    expected_version: int
    name: str
    key: str | None
    schedule_type: str
    task_kind: str
    definition: str
    lane: Lane
    labels: Mapping[str, str]
    owner: str
    replan: Replan | None
    """None: the schedule stays, and with it every timer and run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replan:
    """What a job will do from now on; it replaces its timer and the schedule's unstarted runs that are not yet due.

    Runs that are held by an executor and not due yet are asked back (see `CancelKind.REVOKE`). Those whose due time
    is in `keep_dues` stay, free or held: they are fires of the new plan as well and keep their name; if they were
    asked back before, that is withdrawn. What people asked for (`RUN_NOW`, `RETRY`), what is due already and what has
    a recorded start is left alone.
    """

    recurring: bool
    next_due: float | None
    """The timer; None: no further fire by schedule."""
    run_id: UUID | None = None
    """The name of that fire, for a one-time job."""
    keep_dues: Sequence[float] = ()
    missed: Sequence[NewRun] = ()
    """Occurrences of a pause that are made up for now."""


class JobAction(StrEnum):
    """Changes of a job's standing."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMove:
    """One change of a job's standing, with the plan that follows from it.

    CANCEL: its key is free for another job, the timer goes, free runs (of any trigger) end CANCELLED, held ones are
    asked to stop; `replan` says nothing.
    PAUSE and RESUME: as `replan` says. RESUME of a job that is not paused, and CANCEL of one that is
    CANCELLED, change nothing; PAUSE of a paused one replaces reason, `until` and plan. The version stays as it is.
    """

    namespace: str
    job_id: UUID
    action: JobAction
    replan: Replan
    expected_version: int | None = None
    """The version that the plan was made from; another one stored raises `VersionConflict`. None: whatever it is."""
    reason: str | None = None
    until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """A search. Newest first by id; everything given must match."""

    namespace: str
    name: str | None = None
    """A part of the name, any case."""
    key: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    status: JobStatus | None = None
    schedule_type: str | None = None
    task_kind: str | None = None
    owner: str | None = None
    next_run_after: float | None = None
    """From this instant on, and to before the next one; a job without a next run is in no window."""
    next_run_before: float | None = None
    before: UUID | None = None
    """Jobs with a smaller id only: the last id of the page before."""
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTask:
    """One version of a stored task (SPEC A15)."""

    namespace: str
    task_id: str
    version: int
    name: str
    task: str
    """JSON text of the normalised task."""
    digest: str
    """SHA-256 of the content, hexadecimal: the same content is kept once."""
    created_by: str
    created_at: float


class Definitions(Protocol):
    """Jobs and stored tasks: what people said."""

    async def jobs_add(self, jobs: Sequence[NewJob], receipt: Receipt | None = None) -> Sequence[Added] | Replay:
        """Store all that can be stored, each with its first run or timer, in one transaction; in the order given.

        The due time of a one-time job within the store's horizon (`near_seconds`) becomes a run at once, a later one,
        and every one of a recurring job, a timer. With a receipt whose key was used before, nothing is stored and the
        earlier answer comes back; else the receipt is kept with the jobs if every one is CREATED or REPEATED, and not
        at all if one was refused (its answer is then for `receipt_keep`).
        """
        ...

    async def jobs_add_all(self, jobs: Sequence[NewJob], receipt: Receipt | None = None) -> Sequence[Added] | Replay:
        """As `jobs_add`, but nothing is stored unless every one is CREATED or REPEATED."""
        ...

    async def job_get(self, namespace: str, job_id: UUID) -> JobRow | None:
        """One job, by id."""
        ...

    async def job_by_key(self, namespace: str, key: str) -> JobRow | None:
        """One job, by its key."""
        ...

    async def jobs_list(self, query: JobQuery) -> Sequence[JobRow]:
        """Up to `limit` jobs."""
        ...

    async def job_change(self, change: JobChange) -> JobRow:
        """Replace the definition; the version grows by one. Runs that nobody holds yet, one that is just being made
        included, get the new definition (unless they have their own) and the new lane. The same change repeated, with
        the version one higher by it, answers as it did at first and changes nothing.

        Raises `VersionConflict` (another version is stored), `NotFound`, `Conflict` (it is CANCELLED, or its new
        key is taken).
        """
        ...

    async def job_move(self, move: JobMove) -> JobRow:
        """Pause, resume or cancel. Doing it twice is doing it once. Raises `NotFound`; `Conflict` for a pause or
        resume of a CANCELLED job."""
        ...

    async def task_put(self, task: StoredTask) -> StoredTask:
        """Keep a new version of a task (`version` and `created_at` are given by the store, from 1 and its clock); the
        same digest as the newest: that one."""
        ...

    async def task_get(self, namespace: str, task_id: str, version: int | None = None) -> StoredTask | None:
        """One version, or the newest."""
        ...

    async def tasks_list(self, namespace: str, after: str | None, limit: int) -> Sequence[StoredTask]:
        """The newest version of each, by task_id, those after `after`."""
        ...

    async def receipt_find(self, principal: str, route: str, key: str) -> Replay | None:
        """The answer kept under this Idempotency-Key, unless it has expired."""
        ...

    async def receipt_keep(self, receipt: Receipt) -> Replay | None:
        """Keep an answer whose effect is idempotent by itself; or, if there is one already, return that."""
        ...


# ------------------------------------------------------------------------------------------ runs


@dataclass(frozen=True, slots=True, kw_only=True)
class NewExecutor:
    """An executor that is born. Its number is given by the store and never used again."""

    name: str
    queues: Sequence[str]
    labels: Sequence[str]
    functions: Sequence[str]
    slots: int
    lease_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorRow:
    """A living or lately dead executor."""

    executor: int
    name: str
    queues: Sequence[str]
    labels: Sequence[str]
    functions: Sequence[str]
    slots: int
    born_at: float
    lease_until: float
    gone_at: float | None
    held: int


class CancelKind(StrEnum):
    """What is asked of the executor that holds a run."""

    CANCEL = "cancel"
    """Stop it, begun or not; it ends CANCELLED. If its holder gives it back, wants to retry it, leaves or is lost,
    the store itself ends it so. What ended before the request was heard stays as it ended."""
    REVOKE = "revoke"
    """Only if it has not begun: report it SKIPPED with reason `revoked`; the store forgets it. If its holder gives it
    back, leaves or is lost before a start was recorded, the store forgets it too."""


class CancelRequest(NamedTuple):
    """One run that its holder should stop."""

    run_id: UUID
    kind: CancelKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """The answer to a heartbeat."""

    alive: bool
    """False: this executor is buried; it must stop all its tasks, report nothing and be born again."""
    now: float
    cancels: Sequence[CancelRequest]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """What an executor can take."""

    executor: int
    queues: Sequence[str]
    labels: Sequence[str]
    limit: int
    ahead_seconds: float
    """Also runs that become ready within this time; the executor holds them until they are due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """A recurring job whose next fire is near."""

    job_id: UUID
    namespace: str
    due: float
    definition: str


class Fire(NamedTuple):
    """What was decided for one timer. `next_due` None: it never fires again."""

    job_id: UUID
    due: float
    """The timer's due time as it was taken."""
    next_due: float | None
    runs: Sequence[NewRun]


class FireBatch(Protocol):
    """Timers taken for a decision. No other scheduler has them while this one does."""

    @property
    def now(self) -> float:
        """The store's clock."""
        ...

    @property
    def timers(self) -> Sequence[Timer]:
        """The earliest first."""
        ...

    async def commit(self, fires: Sequence[Fire]) -> int:
        """Make the runs and move the timers, all in one transaction; the number of runs made.

        A run that exists already, or ended already, is left alone. A timer that was changed meanwhile is too, and
        none of its runs are made. Timers without a fire stay as they were.
        """
        ...


class Began(NamedTuple):
    """The recorded start of an attempt."""

    run_id: UUID
    token: int
    started: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """What `leases_expire` did."""

    executors: Sequence[int] = ()
    freed: int = 0
    quarantined: Sequence[UUID] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """What monitoring reads: cheap, approximate to a second."""

    queued: int
    held: int
    retrying: int
    oldest_ready_seconds: float
    """How long the oldest claimable run has waited beyond its ready time; 0 if none has."""
    timers: int
    timers_late_seconds: float
    """How far the earliest timer is in the past; 0 if none is."""
    executors: int


class Runs(Protocol):
    """What runs now or will: timers, runs, and the executors that hold them."""

    async def timers_fire(self, horizon_seconds: float, limit: int) -> int:
        """One-time jobs due within the horizon become runs, the earliest first, at most `limit`: how many. No two
        schedulers fire the same timer."""
        ...

    def fires(self, horizon_seconds: float, limit: int) -> AbstractAsyncContextManager[FireBatch]:
        """Recurring jobs due within the horizon, at most `limit`, taken until the block is left. A client has
        one batch at a time."""
        ...

    async def runs_add(
        self, namespace: str, job_id: UUID, run: NewRun, *, receipt: Receipt | None = None
    ) -> bool | Replay:
        """Make a run that a person asked for; its due time is the store's now if `run.due` is earlier.

        False: the job is CANCELLED, nothing is made or kept. Raises `NotFound`. A run of that id that exists or ended
        already: True, nothing changes. The receipt as in `jobs_add`.
        """
        ...

    async def runs_cancel(self, namespace: str, run_id: UUID, principal: str) -> RunState:
        """End a run that nobody holds as CANCELLED at once; ask the holder of a held one to stop it.

        Returns the state that it is in afterwards (a final one that it had before is left; a held one's is as it was).
        Reason `cancelled`, error `cancelled by {principal}`, where the store ends it. Raises `NotFound`.
        """
        ...

    async def executor_join(self, executor: NewExecutor) -> int:
        """A new number, greater than every one before, with a lease from now on."""
        ...

    async def executor_beat(self, executor: int, lease_seconds: float, functions: Sequence[str] | None = None) -> Beat:
        """Renew the lease of one executor, whatever it holds; hear what is asked of it, each time until it is done. A
        lease that ran out is renewed too, unless a burial came first; a buried one, or one that left, stays so."""
        ...

    async def executor_leave(self, executor: int) -> None:
        """The orderly end: what it still holds is free at once, with no crash counted. A recorded start stays on
        record as a lost attempt; what was merely held is as if it had been given back."""
        ...

    async def executors_list(self) -> Sequence[ExecutorRow]:
        """The living, and those gone within the last hour; newest first."""
        ...

    async def attempts_claim(self, request: ClaimRequest) -> Sequence[Claimed]:
        """Take up to `limit` runs that are ready by `ahead_seconds` from now: QUEUED, or RETRYING after its backoff.

        Each goes to one executor only, with a new token, its attempt number one higher. Higher priority first, but no
        lane with waiting runs is passed over for ever: at least every tenth claim begins with the run that has waited
        longest, whatever its priority. Lanes of one priority go by their longest-waiting run; within a lane the
        earliest ready first. One executor may claim with several sets of labels in turn, each at its own pace (it names
        kinds of tasks as labels, so that what it has no room for stays for others). A buried executor, or one whose
        lease ran out, gets nothing. A run may stay unseen for up to 2 s after it became claimable in the past (freed,
        late commit), and one that is ready only in the future until 50 ms before it is.
        """
        ...

    async def attempts_start(self, executor: int, starts: Sequence[Began]) -> Sequence[UUID]:
        """Record that attempts began (RUNNING). Returns the refused: their task must not run, or must be killed. The
        first recorded start stays.

        For guarded runs this comes before the task, and a crash after it counts.
        """
        ...

    async def attempts_finish(self, executor: int, outcomes: Sequence[Outcome]) -> Sequence[UUID]:
        """Record how attempts ended, in one transaction. Returns the refused, which changed nothing.

        Final states leave a history row and no run. FAILED counts a failure. RETRYING does too, keeps the attempt on
        record, and is claimable from `retry_at`. QUEUED (given back unstarted) is claimable at once, or from
        `retry_at` if that is given, and the attempt is not counted; if its start was on record, the attempt stays on
        record as QUEUED and its number is used up, but neither a failure nor a crash is counted. SKIPPED with reason
        `revoked` leaves nothing; if the request was withdrawn meanwhile, it is a give-back. An outcome that
        left a record before, with the same executor and token, is accepted again and changes nothing; a
        repeated give-back or revoke changes nothing. What a store cannot keep of an error text (NUL, lone
        surrogates) it replaces.

        An outcome that is no legal move from where the run is, or that cannot be stored, is the caller's bug: that one
        is refused, or the call raises `Bug` and records nothing.
        """
        ...

    async def attempts_keep(self, executor: int, tokens: Sequence[int]) -> int:
        """Give back, as if never claimed, what this executor holds unbegun (DISPATCHED) with none of these tokens.

        For the claim whose answer was lost: the store gave runs that their holder does not know. Never while a claim of
        the same executor is under way. Returns how many went back; a pending cancel request ends them instead.
        """
        ...

    async def leases_expire(self, crashes_max: int) -> Expired:
        """Bury executors whose lease ran out and free what they held, by any scheduler, at any time.

        A run whose start was recorded counts a crash, keeps the lost attempt on record (reason `lease_lost`), and at
        `crashes_max` crashes ends FAILED with reason `poison`. One that was merely held goes back free; its attempt
        number is used up, for it may have begun. Either is `guarded` from then on. A lease that ran out while the store
        was down (it started less than one lease ago) is not yet over.
        """
        ...

    async def stats(self) -> StoreStats:
        """Counts for metrics and readiness."""
        ...


# ------------------------------------------------------------------------------------------ records


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """An attempt that did not end its run, or the last one."""

    attempt: int
    token: int
    executor: int
    state: RunState
    """Of an earlier attempt: RETRYING (it failed) or QUEUED (it was lost with its executor, or that left); of the
    last: the run's own."""
    dispatched_at: float | None
    started_at: float | None
    ended_at: float | None
    reason: str | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run, living or ended. Instants that have not come are None."""

    run_id: UUID
    job_id: UUID
    namespace: str
    state: RunState
    trigger: int
    due_at: float
    queued_at: float
    dispatched_at: float | None
    started_at: float | None
    ended_at: float | None
    ready_at: float | None
    """Of a living run: from when it may be claimed."""
    attempt: int
    failures: int
    """Attempts that failed, the one included by which a run FAILED."""
    crashes: int
    executor: int | None
    reason: str | None
    error: str | None
    result: str | None
    origin: UUID | None
    definition: str | None
    """The run's own definition, if it is not the job's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """A search over living and ended runs. Newest first by id; everything given must match."""

    namespace: str
    job_id: UUID | None = None
    states: Sequence[RunState] = ()
    due_after: float | None = None
    """From this instant on, and to before the next one."""
    due_before: float | None = None
    before: UUID | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long ended things are kept, and how far ahead partitions are made."""

    runs_seconds: float
    failed_seconds: float
    ahead_seconds: float = 2 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintained:
    """What `maintain` did."""

    made: Sequence[str] = ()
    dropped: Sequence[str] = ()
    receipts: int = 0


class Records(Protocol):
    """What happened, for those who ask, and its upkeep."""

    async def run_get(self, namespace: str, run_id: UUID) -> RunRow | None:
        """One run, living or ended."""
        ...

    async def run_attempts(self, run_id: UUID) -> Sequence[AttemptRow]:
        """All attempts of a run on record, first to last, the current or final one included (a run that ended while
        nobody held it has no final one)."""
        ...

    async def runs_list(self, query: RunQuery) -> Sequence[RunRow]:
        """Up to `limit` runs."""
        ...

    async def maintain(self, retention: Retention) -> Maintained:
        """Make what will be needed, drop what is past its time, by any scheduler. Nothing unfinished is ever dropped:
        one-time jobs that still have a timer or a run are moved out of the way first. Failed runs outlive the others,
        and a job with a run on record stays. Recurring jobs are never dropped."""
        ...


class Store(Definitions, Runs, Records, Protocol):
    """The whole, as wiring hands it out. Each role takes the part that it needs."""

    async def open(self) -> None:
        """Connect. Raises `Misconfigured` (a schema that is older or newer than the program, wrong settings) or
        `StoreUnavailable`."""
        ...

    async def close(self) -> None:
        """Give back every connection."""
        ...

    async def now(self) -> float:
        """The store's clock; also the cheapest sign that it is there."""
        ...
