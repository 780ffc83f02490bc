"""Timers, runs, attempts and executors. The package states the rules of every method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from tickwise.domain.audit import AuditEntry
from tickwise.domain.decision import TimerState
from tickwise.domain.errors import Conflict
from tickwise.domain.lifecycle import CancelKind, RunState
from tickwise.domain.model import Claimed, Lane, Outcome
from tickwise.domain.observing.usage import NO_USAGE, UsageByRun
from tickwise.domain.retry import OnUnknown
from tickwise.domain.rules.capacities import Capacity
from tickwise.ports.store.definitions import NewRun, NewSkip, Receipt, Replay
from tickwise.ports.store.records import AttemptRow, RunRow


@dataclass(frozen=True, slots=True, kw_only=True)
class NewExecutor:
    """An executor that registers."""

    number: int
    """Drawn by the executor (`executor_number`): the same on every shard. A fence compares it for equality alone, never
    for order, since the clocks of two machines differ."""
    name: str
    queues: Sequence[str]
    labels: Sequence[str]
    functions: Sequence[str]
    slots: int
    lease_seconds: float
    results_key: bytes | None = None
    """The public key by which its published results are verified; empty: it publishes none. None: it signs none, as
    programs before 0.2."""
    namespaces: Sequence[str] | None = None
    """It claims runs of these namespaces alone; None: of each one."""
    capacities: Mapping[str, Capacity] = field(default_factory=dict)
    """Its counted capacities (`domain.rules.capacities`), by name."""
    returns: bool = False
    """It has this number on other shards, and takes it again on this one, which it could not reach for a time. One that
    is on record as gone, and holds nothing any more, is active again."""


def number_taken(number: int) -> Conflict:
    """The refusal of a number that another executor on record has."""
    return Conflict(f"the executor number {number} is taken: draw another one")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorRow:
    """An active or lately dead executor."""

    executor: int
    name: str
    queues: Sequence[str]
    labels: Sequence[str]
    functions: Sequence[str]
    slots: int
    registered_at: float
    lease_until: float
    gone_at: float | None
    held: int
    differs: int = 0
    """Runs of which its last heartbeat said that the executor knows better than the store …"""
    differing_since: float | None = None
    """… and since when there are any."""
    namespaces: Sequence[str] | None = None
    """It claims runs of these namespaces alone; None: of each one."""
    capacities: Mapping[str, Capacity] = field(default_factory=dict)
    """Its counted capacities by name, with the amounts taken at its last heartbeat; empty of a program that counts
    nothing."""

    def takes(self, namespace: str) -> bool:
        """Check whether it claims runs of this namespace."""
        return self.namespaces is None or namespace in self.namespaces


class CancelRequest(NamedTuple):
    """One run that its holder should stop."""

    run_id: UUID
    kind: CancelKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """The answer to a heartbeat."""

    alive: bool
    """False: this executor is expired; it must stop all its tasks, report nothing and register again."""
    now: float
    cancels: Sequence[CancelRequest]
    epoch: int = 0
    """See `Epoch`. Another one than before: the store may have lost what it acknowledged."""
    lost: Sequence[int] = ()
    """`fencing.shard_bits` of the shards in which the executor has no lease any more. It must stop the runs whose
    tokens have these bits and report nothing of them; the others go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """The request of an executor for runs."""

    executor: int
    queues: Sequence[str]
    labels: Sequence[str]
    limit: int
    ahead_seconds: float
    """Also runs that become ready within this time; the executor holds them until they are due."""
    afresh: bool = False
    """The claim reads each lane from its begin, so that it misses no ready run: a queue goes on in which runs have been
    ready for long."""
    runs: Sequence[UUID] | None = None
    """Only these, in this order: a hint named them. None: any."""


class Ready(NamedTuple):
    """A run that can be claimed now or soon, as a hint names it. A NamedTuple because hints are hot."""

    run_id: UUID
    ready: float
    """From when on."""
    lane: Lane
    namespace: str


class Handover(NamedTuple):
    """The effects of a call on runs other than those that it names."""

    claimable: Sequence[Ready] = ()
    """These waited for an earlier run or for a slot, and can be claimed now."""
    stopping: Sequence[UUID] = ()
    """The held runs whose holders are asked to stop them (`CancelKind.CANCEL`). A holder knows the namespace:
    `Claimed`."""


class Timer(NamedTuple):
    """A timer whose due time is near, with what its decision needs. A NamedTuple because fires are hot."""

    job_id: UUID
    namespace: str
    pending: TimerState
    definition: str
    labels: Mapping[str, str] | None
    """The job's, for windows that go by label."""
    run_id: UUID | None = None
    """Of a one-time job that needs no decision: the name of its fire."""
    lane: Lane = Lane()
    """The lane of its runs."""


class Fire(NamedTuple):
    """The decision for one timer."""

    job_id: UUID
    due: float
    """The timer's due time as it was taken."""
    timer: TimerState | None
    """Its next time; None: it never fires again."""
    runs: Sequence[NewRun]
    skips: Sequence[NewSkip] = ()
    park: str | None = None
    """Pause the job, for this reason, by `fuse`."""
    zone_data: str | None = None
    """The version of the zone data that `timer` was computed with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FireRequest:
    """The timers that a scheduler takes for a decision."""

    horizon_seconds: float
    limit: int
    once: bool = False
    """True: timers of one-time jobs too, while a maintenance window may concern them."""
    without: Sequence[UUID] = ()
    """The jobs whose timers are left out, because they wait; they do not count for the limit."""
    other_zone_data_than: str | None = None
    """Instead, those that were computed with another version of the zone data than this and are due after the horizon.
    Left out are those that are held back, and those that needed no zone's rules."""


BATCH_SECONDS: Final = 30.0
"""A batch of timers that is neither committed nor released after this time is over: other schedulers take its
timers."""


class Fired(NamedTuple):
    """The effects of `TimerStore.fire`."""

    timers: int
    """The number of timers that fired."""
    ready: Sequence[Ready] = ()
    """The runs that were made, if the caller asked for their names. A run is left out while its lane cannot be read:
    `RunStore.waiting` finds it later."""
    definitions: Mapping[UUID, str] = {}
    """Of those of the runs whose definitions may name a trace, if the caller asked for them; one of more than 8,192
    bytes is left out."""


class FireBatch(NamedTuple):
    """Timers taken for a decision. No other scheduler takes them until the batch is over."""

    batch_id: int
    """The name of the batch, valid for the client that took it. Opaque."""
    now: float
    """The store's clock."""
    rules_version: int
    """Grows with each change of a calendar or window, of any namespace (see `RuleStore.all`)."""
    timers: Sequence[Timer]
    """The earliest first. A batch without timers is over at once."""


class RunCancel(NamedTuple):
    """A run without a holder ends CANCELLED at once, reason `cancelled`, error `cancelled by {by}`; the holder of a
    held one is asked to stop it. Of two requests to one holder, `domain.rules.requests` says which one stands."""

    namespace: str
    run_id: UUID
    by: str
    """The caller, for people to read."""


class RunSkip(NamedTuple):
    """An unstarted run ends SKIPPED, reason `requested`: a free one at once, a held one when its holder gives it back
    (it is asked back as by `CancelKind.REVOKE`). A run that has begun, now or in an earlier attempt, goes on."""

    namespace: str
    run_id: UUID
    error: str
    """The text about it for people."""


class RunPostpone(NamedTuple):
    """A free run that has not begun gets another due time; its overlap is open again. One of the schedule cannot be
    claimed before a pause of its job is over. `Conflict`, code `occurrence_begun`: it is held, has begun, waits for
    another run, or has ended."""

    namespace: str
    run_id: UUID
    due: float


RunMove: TypeAlias = RunCancel | RunSkip | RunPostpone
"""One change of a run that a person asks for."""


def not_postponable(run_id: UUID) -> Conflict:
    """The refusal of a `RunPostpone`."""
    return Conflict(
        f"the run {run_id} is held, has begun, waits for another run, or has ended: it cannot be postponed",
        code="occurrence_begun",
    )


class Gate(NamedTuple):
    """The limits that a start has to pass besides its fence, as the run's job says. Keys are texts of the run's
    namespace."""

    limit_key: str | None = None
    limit: int = 0
    """Starts while fewer runs than this are RUNNING with `limit_key`."""
    rate_key: str | None = None
    rate_gap_seconds: float = 0.0
    """Between two starts with `rate_key`."""


class Began(NamedTuple):
    """The recorded start of an attempt. It names no namespace, as `Outcome`."""

    run_id: UUID
    token: int
    started: float
    on_unknown: OnUnknown = OnUnknown.RERUN
    """The policy for the run if its executor is lost from here on."""
    gate: Gate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """The effects of `ExecutorStore.expire`."""

    executors: Sequence[int] = ()
    freed: int = 0
    quarantined: Sequence[UUID] = ()
    unknown: Sequence[UUID] = ()
    """Ended FAILED, for their jobs say so (`OnUnknown`), …"""
    held: Sequence[UUID] = ()
    """… and those of them whose dead letters wait for a person."""


class TimerStore(Protocol):
    """Timers: the next fire of each job."""

    async def fire(self, horizon_seconds: float, limit: int, *, named: bool = False, traced: bool = False) -> Fired:
        """One-time jobs due within the horizon become runs, the earliest first, at most `limit`. No two schedulers fire
        the same timer. With `named` the answer names the runs, for a scheduler that sends hints or records traces; with
        `traced` too, it has the definitions that may name a trace. The timers of one namespace fire in one
        transaction."""
        ...

    async def take(self, request: FireRequest) -> FireBatch:
        """Take timers that need a decision and are due within the horizon, at most `limit`, and fewer where their
        definitions are large: the next batch has others.

        No other scheduler takes them until `commit` or `release` names the batch, or its client is gone,
        or `BATCH_SECONDS` have passed. A batch that ends without a commit changes nothing.
        """
        ...

    async def commit(self, batch_id: int, fires: Sequence[Fire]) -> int:
        """Make the runs, record the skips, move the timers and park jobs, the fires of one namespace in one
        transaction. Returns the number of runs made. The batch is over afterwards, also if this call fails.

        A run or skip that exists already, or ended already, is left alone. A timer that was changed meanwhile is too,
        and none of its runs and skips are made. Timers without a fire stay as they were. A parked job is PAUSED, by
        `fuse` and without an end; its timer stands as the fire says, and its runs stay. A one-time job's timer that is
        given a `hold` needs a decision from then on.

        Raises `StoreUnavailable` if the batch is over: nothing was fired, and the scheduler takes the timers again. A
        fire that cannot be recorded keeps the other fires of its namespace from it, and the call raises. Fires of
        other namespaces may be recorded then; their timers are not taken again.
        """
        ...

    async def release(self, batch_id: int) -> None:
        """End a batch without a commit. A batch that is over stays so."""
        ...

    async def count(self, counts: Mapping[str, int]) -> Mapping[str, int]:
        """Add to the number of fires of namespaces in the current minute of the store's clock (they begin at whole
        minutes); what the numbers of these namespaces are then. Each number is added for itself."""
        ...

    async def restore(self, namespace: str, job_id: UUID, timer: TimerState, *, expected_version: int) -> bool:
        """Give a job that has no timer this one. False: it has one, or was changed, paused or cancelled meanwhile."""
        ...


class RunStore(Protocol):
    """Runs: made, looked up, cancelled, and chosen for a start.

    **Overlap.** A run with an `overlap` other than ALLOW is settled when a fire makes it, if its job has no unfinished
    run then, the fire makes no earlier one, and none that is made later can come before it (it is due no later than the
    nominal time that the timer goes on from). Else it is claimed `guarded`, and `AttemptStore.start` settles it: if no
    earlier run of the job is unfinished then, it starts; if not, its start is refused and the store does as the policy
    says. Earlier is what has the smaller (due, run id), and each run that was let start already (settled, or with ALLOW
    and not merely QUEUED); runs of a backfill look only at their own kind, and others not at them. What is settled
    stays so, through retries too, unless a free run is given another due time or kept by a new plan.

        SKIP            it ends SKIPPED, reason `overlap`
        QUEUE_ONE       it waits; if two or more are earlier (one goes on, one waits), it ends SKIPPED, reason `overlap`
        QUEUE_ALL       it waits
        CANCEL_RUNNING  held earlier ones are asked to stop (`CancelKind.CANCEL`), free ones that never began end
                        SKIPPED, reason `overlap`, the other free ones CANCELLED; it waits, unless none is left. A fire
                        of the schedule does so to fires only, and waits for all others

    A refused start counts and keeps no attempt, and its token is void. A run that was asked back meanwhile ends as if
    its holder had given it back. Waiting: QUEUED, held by nobody, not claimable, until the last earlier run has
    ended. The end of a run makes the next one that waits for it claimable within the same transaction, or
    `unblock` does later. It is then settled again at its start. A run with
    ALLOW starts at once and counts as unfinished for all others; so does a fire made with ALLOW before its job was
    changed.

    **Limits.** After its overlap, a start with a `Gate` is settled too. With a `limit_key`: if as many runs of the
    namespace as its `limit` are RUNNING with that key, its start is refused as above, and the run waits: QUEUED,
    blocked, not claimable. (A run that a lost executor held counts until it is freed: RUNNING runs are looked up, and
    no counter goes up and down.) When a run with that key is RUNNING no longer, the earliest waiting runs by (ready,
    run id) become claimable, each while fewer runs have a slot than its own limit, within the same transaction, or by
    `unblock` later. A run in a queue on hold becomes claimable when the hold is over. A woken run loses its reserved
    slot after 1 s unclaimed, or 5 s claimed but not started. Each call of `unblock` then wakes as many other runs, so
    that no slot stays empty because of runs that no executor can take. A start without a free slot is refused.

    A namespace may have a quota of runs at once (`Quotas.concurrent_runs`). Its runs are claimed `guarded`, and a start
    that is recorded first is refused, after its own limit and before its rate, if as many runs of the namespace are
    RUNNING; it waits as above, with the key `QUOTA_KEY`. Runs that wait for the quota become claimable by priority,
    then by (ready, run id). A run that was claimed before the quota was in force is not counted. A changed quota holds
    for waiting runs from the next `unblock` on.

    With a `rate_key`: each start gets a slot in time: the latest of now, `rate_gap_seconds` after the last start under
    that key, and `rate_gap_seconds` after the last slot of an active run under that key. The slot of a run that ends
    before its start is thus free again. A run whose slot is now starts. Any other start is refused, and the run waits,
    QUEUED and claimable from its slot on. The run keeps this slot: its next start gets a new one only if it names
    another key, or if it is late by more than `rate_gap_seconds` and another start under that key came less than that
    ago (the start of a further attempt gets a new one, too). Waiting for a slot is no attempt.

    **Queues on hold** (`QueueStore.hold`): no run of theirs is claimed, and none starts whose start is recorded first
    (guarded, overlap still open, a gate, an `on_unknown` other than RERUN). Of all others the task is under way.

    **Fair.** A lane belongs to a namespace. Among lanes of one priority, each claim begins with another namespace.
    """

    async def add(
        self,
        namespace: str,
        job_id: UUID,
        runs: Sequence[NewRun],
        *,
        receipt: Receipt | None = None,
        audit: AuditEntry | None = None,
    ) -> bool | Replay:
        """Make runs of one job that a person asked for, all or none. A due time in the past becomes the store's now.

        False: the job is CANCELLED, nothing is made or kept. Raises `NotFound`. A run whose id is on record already
        stays as it is. The receipt as in `JobStore.add`.
        """
        ...

    async def waiting(self, ready_from: float, ready_to: float, limit: int) -> Sequence[Ready]:
        """The claimable runs that no executor has claimed for more than `ready_to` and at most `ready_from` seconds of
        the store's clock; the higher priority first, within a priority the earliest ready.

        A scheduler publishes hints of these runs again. The cost depends on the runs of that time alone.
        """
        ...

    async def move(self, move: RunMove, *, audit: AuditEntry | None = None) -> RunState:
        """Cancel, skip or postpone one run. Returns the state that it is in afterwards: a final one that it had before
        stays, and a held run's is as it was. Raises `NotFound`, and `Conflict` as `RunPostpone` says."""
        ...

    async def cancel_all(
        self, namespace: str, job_id: UUID, origin: UUID, *, principal: str, audit: AuditEntry | None = None
    ) -> int:
        """`RunCancel` for all unfinished runs of a job with this origin; how many there were (of a job that is not
        there: none)."""
        ...

    async def unblock(self) -> int:
        """Make the runs claimable that wait for a run that has ended, or for a slot that is free; the number of these
        runs. Any scheduler may call this at any time. Each job and each key has a transaction of its own."""
        ...

    async def get(self, namespace: str, run_id: UUID) -> RunRow | None:
        """One run, active or ended."""
        ...

    async def attempts(self, run_id: UUID) -> Sequence[AttemptRow]:
        """All attempts of a run on record, first to last, the current or final one included (a run that ended without a
        holder has no final one)."""
        ...


class AttemptStore(Protocol):
    """Attempts: claimed, begun and ended by executors."""

    async def claim(self, request: ClaimRequest) -> Sequence[Claimed]:
        """Take up to `limit` runs that are ready by `ahead_seconds` from now: QUEUED, or RETRYING after its backoff.
        Fewer, but at least one, where their definitions are large: the next claim has others.

        Each goes to one executor only, with a new token, its attempt number one higher. Each claim is atomic for
        itself: the lost answer of a call leaves claims that `ExecutorStore.release_unknown` gives back. Higher priority
        first, but no lane with waiting runs is passed over for ever: at least every tenth claim begins with the run
        that has waited longest, of any priority. Lanes of one priority go by their longest-waiting run; within a
        lane the earliest ready first. One executor may claim with several sets of labels in turn, each at its own pace
        (it names kinds of tasks as labels, so that what it has no room for stays for others). An expired executor, or
        one whose lease ran out, gets nothing. A run may stay unseen for up to 2 s after it became claimable in the past
        (freed, late commit), and one that is ready only in the future until 50 ms before it is.

        With `request.runs`, of those runs the ones that it could claim now, in the order in which they are named. All
        others (gone, held, not ready within `ahead_seconds`, in a lane that is not served, of a queue on hold, never
        there) are left out, and cost a look at an index. Names are hints: any may be repeated.
        """
        ...

    async def start(self, executor: int, starts: Sequence[Began]) -> Sequence[UUID]:
        """Record that attempts began (RUNNING), each start for itself. Returns the refused: their task must not run, or
        must be killed. The first recorded start stays. After an error some starts may be on record; the caller repeats
        all of them.

        For guarded runs this comes before the task, and a crash after it counts. A run whose overlap is still open is
        settled here first, then its `gate`; a gate is not asked again about what is RUNNING.
        """
        ...

    async def finish(self, executor: int, outcomes: Sequence[Outcome], usage: UsageByRun = NO_USAGE) -> Sequence[UUID]:
        """Record how attempts ended, those of one namespace in one transaction. Returns the refused, which changed
        nothing.

        Final states leave a history row and no run. FAILED counts a failure. RETRYING does too, keeps the attempt on
        record, and is claimable from `retry_at`. QUEUED (given back unstarted) is claimable at once, or from `retry_at`
        if that is given, and the attempt is not counted; if its start was on record, the attempt stays on record as
        QUEUED and its number is used up, but neither a failure nor a crash is counted; unless its `started` is 0.0, for
        then the run never began, also if its start is on record, and it is a give-back like any other. SKIPPED with
        reason `revoked` leaves what `CancelKind.REVOKE` says; if the request was withdrawn meanwhile, it is a
        give-back. A repeat of a recorded outcome, with the same executor and token, is accepted and changes nothing
        (`domain.rules.repeats`); a repeated give-back or revoke changes nothing. What a store cannot keep of an error
        text (NUL, lone surrogates) it replaces.

        `usage` has the usage of attempts that were measured. It is kept with each attempt that stays on record, and a
        repeat changes nothing of it.

        An outcome that is no legal move from where the run is, or that cannot be stored, is the caller's bug: that one
        is refused, or the call raises `Bug` and records nothing of that outcome's namespace. Outcomes of other
        namespaces may be recorded then, and are accepted again.
        """
        ...


class ExecutorStore(Protocol):
    """Executors: their leases, and what they hold."""

    async def join(self, executor: NewExecutor) -> int:
        """Register the executor with a lease from now on. Returns its number.

        Raises `Conflict`, and changes nothing, if an executor on record has that number, also one that is gone: the
        caller draws another."""
        ...

    async def beat(
        self,
        executor: int,
        lease_seconds: float,
        functions: Sequence[str] | None = None,
        *,
        differs: int | None = None,
        held: int | None = None,
        capacities: Mapping[str, Capacity] | None = None,
    ) -> Beat:
        """Renew the lease of one executor and of all runs that it holds; return the requests to it, each until it is
        done. A lease that ran out is renewed too, unless an expiry came first; an expired one, or one that left, stays
        so. `differs` is what the executor says of itself (`ExecutorRow.differs`), `held` how many runs it holds,
        `capacities` what it counts; None: as before."""
        ...

    async def leave(self, executor: int) -> None:
        """The orderly end: what it still holds is free at once, each run for itself, with no crash counted. A recorded
        start stays on record as a lost attempt; what was merely held is as if it had been given back."""
        ...

    async def release_unknown(self, executor: int, tokens: Sequence[int], asked: float) -> int:
        """Give back, as if never claimed, what this executor holds unbegun (DISPATCHED) with none of these tokens, if
        it was dispatched no later than `asked`.

        For the claim whose answer was lost: the store gave runs that their holder does not know. `asked` is the store's
        time, as far as it is known and never ahead of it, at which these tokens were all that is known: so a request
        that takes effect long after its caller gave it up takes nothing that was claimed meanwhile. Never while a claim
        of the same executor is under way. Returns how many went back; a pending cancel request ends them instead.
        """
        ...

    async def expire(self, crashes_max: int) -> Expired:
        """Expire executors whose lease ran out and free what they held, each run for itself, by any scheduler, at any
        time.

        A run whose start was recorded counts a crash, keeps the lost attempt on record (reason `lease_lost`), and at
        `crashes_max` crashes ends FAILED with reason `poison`. One that was merely held goes back free; its attempt
        number is used up, for it may have begun. Either is `guarded` from then on. A lease that ran out while the store
        was down (it started less than one lease ago) is not yet over.

        One whose recorded start says FAIL or HOLD ends FAILED at once, its crash counted, reason `executor_lost` or
        `unknown_outcome`; `leave` does the same. A run that cannot be freed holds up no other.
        """
        ...

    async def all(self, between: tuple[float, float] | None = None) -> Sequence[ExecutorRow]:
        """Active executors, and those gone within the last hour; newest first. With `between`: those that were active
        at some moment of that time, at most 1,000; as far back as runs are kept."""
        ...

    async def keys(self, executors: Sequence[int]) -> Mapping[int, bytes | None]:
        """By executor, the `results_key` that it joined with; nothing of those that are not there."""
        ...
