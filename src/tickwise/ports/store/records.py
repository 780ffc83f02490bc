"""Rows of runs and attempts, incidents, marks of channels, and upkeep. The package states the rules of every method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from tickwise.domain.lifecycle import RunState
from tickwise.domain.selectors import Selector
from tickwise.ports.paging import utf8_bytes


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
    cpu_seconds: float | None = None
    """Its usage (`domain.observing.usage`); None: it was not measured, or has not ended."""
    memory_bytes: int | None = None
    output_bytes: int | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    network_bytes: int | None = None
    work_bytes: int | None = None
    image: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRow:
    """A request to stop a run that an executor held."""

    asked_at: float
    error: str | None
    """Details of it, such as the caller."""
    heard_at: float | None
    """The time at which its holder received the request; None: not yet, or never."""


class RunRow(NamedTuple):
    """A run, active or ended. Instants that have not come are None. A tuple: a page makes hundreds of them."""

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
    """Of an active run: from when it may be claimed; None while it is `blocked`, or held back by a pause that has no
    end."""
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
    nominal_at: float
    """The time that the schedule named; equal to `due_at` unless a person moved the run."""
    blocked: bool = False
    """It waits for an earlier run of its job (see `RunStore`, "Overlap"), or for a slot (`limit_key`)."""
    limit_key: str | None = None
    """Of an active run: the concurrency key that it has a slot of, or waits for one of; `QUOTA_KEY` of the quota of
    runs at once of its namespace."""
    paced: bool = False
    """Of an active run: it has a slot under its rate, at `ready_at`, and has not yet begun."""
    cancel: CancelRow | None = None
    """Of an active run that is asked to stop, and of one that ended CANCELLED by such a request."""
    occurrences: int = 1
    until: float | None = None
    """Of a SKIPPED one that stands for several occurrences: how many, and the nominal time of the last; of all others
    1 and None. Of one that was never made (`NewSkip`), due time and nominal time are the first's, and queued and ended
    is when it was recorded."""

    @property
    def text_bytes(self) -> int:
        """See `PageRow`."""
        return utf8_bytes(self.definition, self.result, self.error)


class RunText(StrEnum):
    """A large text of a run."""

    DEFINITION = "definition"
    RESULT = "result"


EVERY_TEXT: Final = frozenset(RunText)
NO_TEXT: Final[frozenset[RunText]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """A search over active and ended runs. Newest first by id; everything given must match."""

    namespace: str
    job_id: UUID | None = None
    ids: Sequence[UUID] = ()
    """Any of these runs; all if empty."""
    states: Sequence[RunState] = ()
    due_after: float | None = None
    """From this instant on, and to before the next one."""
    due_before: float | None = None
    before: UUID | None = None
    after: UUID | None = None
    """Runs with a greater id only. Ids begin with the milliseconds of the nominal time (`model.time_id`)."""
    triggers: Sequence[int] = ()
    origin: UUID | None = None
    reason: str | None = None
    executor: int | None = None
    """The one that has the run, or had it last."""
    job_name: str | None = None
    """A part of the name of its job, any case, …"""
    labels: Mapping[str, str] = field(default_factory=dict)
    """… labels that its job has, …"""
    queue: str | None = None
    """… and the queue of its job: each as the job is now."""
    within: Selector | None = None
    """Of the jobs of this selector alone, as they are now; None: of all. A run whose job is gone is of none."""
    may_pause: bool = False
    """As in `JobQuery`, of a search by `job_name`."""
    keeps_order: bool = False
    """As in `JobQuery`."""
    is_rest: bool = False
    """As in `JobQuery`."""
    limit: int = 50
    bytes_most: int | None = None
    """The page is cut before its definitions, results and errors hold more (`paging`); None: never."""
    texts: frozenset[RunText] = EVERY_TEXT
    """The texts that the runs come with. The others are None, even where stored: they are not read, and have no
    size."""
    brief: bool = False
    """Of a search that may pause: only ids, state, reason and the times of each run are needed (due, nominal, start,
    end). All else may be left out, and is then as of a run that was never claimed."""

    def is_met_by(self, row: RunRow) -> bool:
        """Check the conditions on the run itself. Those on its job (name, labels, queue, selector) are left out."""
        return (
            row.namespace == self.namespace
            and (self.job_id is None or row.job_id == self.job_id)
            and (not self.ids or row.run_id in self.ids)
            and (not self.states or row.state in self.states)
            and (not self.triggers or row.trigger in self.triggers)
            and (self.reason is None or row.reason == self.reason)
            and (self.origin is None or row.origin == self.origin)
            and (self.executor is None or row.executor == self.executor)
            and (self.before is None or row.run_id < self.before)
            and (self.after is None or row.run_id > self.after)
            and (self.due_after is None or row.due_at >= self.due_after)
            and (self.due_before is None or row.due_at < self.due_before)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The number of runs that came on record with one final state in one hour."""

    hour: float
    """Its first instant, by the store's clock: whole hours since the epoch."""
    state: RunState
    runs: int


MAX_TALLIES: Final = 10_000
"""Hours and states in one answer: three months of all four states."""

TALLIES_SECONDS: Final = 400 * 86_400.0
"""Counts are kept for longer than the runs that they count, so that one year can be held beside the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """A time in which a service could not be reached, as a process noticed it."""

    kind: str
    """`store_away`: the database could not be reached. `scheduler_away`: no scheduler was at work. `circuit_open`: an
    executor gave back the runs of a namespace that call a host which keeps failing. `secrets_away`: one gave back runs
    that name a secret whose provider did not answer. `queue_held`: a queue was on hold;
    the store writes it with the hold, and ends it when that ends early."""
    begin: float
    end: float
    """Of a hold without an end that goes on: infinite."""
    who: str
    """The process that noticed it; of a circuit, the namespace and the host, `joined`; of
    secrets, the namespace and the reference; of a hold, the namespace and the
    queue, `joined`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The retention of ended runs and jobs, and the time for which partitions are made ahead."""

    runs_seconds: float
    failed_seconds: float
    ahead_seconds: float = 2 * 86_400.0
    audit_seconds: float = 400 * 86_400.0
    """Of entries of the audit log, whole days; 30 days at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintained:
    """The effects of `maintain`."""

    made: Sequence[str] = ()
    dropped: Sequence[str] = ()
    receipts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """The figures for monitoring: cheap, approximate to a second."""

    queued: int
    held: int
    retrying: int
    oldest_ready_seconds: float
    """The wait of the oldest claimable run beyond its ready time; 0 if none waits."""
    executors: int
    timers: int = 0
    """The number of timers, with those that are held back without an end."""
    timers_late_seconds: float = 0.0
    """The time by which the earliest timer is late; 0 if none is."""
    sees_timers: bool = True
    """False: this process may not read timers (an executor with a database role of its own), so both are 0."""
    queues: Sequence[BusyQueue] = ()
    """The queues of all namespaces with the most unfinished runs, the fullest first, as many as were asked for. Of very
    many runs the numbers are estimated, and a queue with few of them may be missing."""


class BusyQueue(NamedTuple):
    """A queue that runs are in, and how many of them are not at their end."""

    namespace: str
    queue: str
    waiting: int
    """Held by no executor: QUEUED and RETRYING."""
    held: int
    """Held by an executor: DISPATCHED and RUNNING."""


class IncidentStore(Protocol):
    """Incidents: what was noticed about the installation."""

    async def add(self, incident: Incident) -> None:
        """Put on record what was noticed, for as long as runs are kept. The same kind, begin and who again: the first
        one stays."""
        ...

    async def between(self, since: float, until: float) -> Sequence[Incident]:
        """The incidents that overlap this time, oldest first, at most 100."""
        ...


class MarkedChannel(StrEnum):
    """The channels of a broker whose positions are marked."""

    REQUESTS = "requests"
    """By partition: all requests that the broker got before this time (its clock, Unix seconds) are applied."""
    RESULTS = "results"
    """By executor: every result that it published up to this number is applied. A mark goes with its executor, and none
    is kept of an executor that is not there."""


def earliest_mark(marks: Mapping[int, float], sources: int) -> float | None:
    """The least mark of the sources 0 to `sources` - 1; None while one of them has no mark."""
    known = [marks[source] for source in range(sources) if source in marks]
    return min(known) if known and len(known) == sources else None


class MarkStore(Protocol):
    """Positions up to which the channels of a broker are applied."""

    async def put(self, channel: MarkedChannel, marks: Mapping[int, float]) -> None:
        """Set marks, by source. A mark never goes back."""
        ...

    async def get(self, channel: MarkedChannel, sources: Sequence[int]) -> Mapping[int, float]:
        """The marks of these sources; a source without a mark is left out."""
        ...


class UpkeepStore(Protocol):
    """The store's name, its counts, and its upkeep."""

    @property
    def cluster_id(self) -> str:
        """The name of this store, made with it and never changed: no two have the same, but for a copy of one. `open`
        learns it. Objects elsewhere that belong to one store (channels of a broker, keys in a cache) are marked with
        it."""
        ...

    async def maintain(self, retention: Retention) -> Maintained:
        """Make what will be needed, drop what is past its time, by any scheduler. Nothing unfinished is ever dropped:
        one-time jobs that still have a timer or a run are moved out of the way first. Failed runs outlive the others,
        and a job with a run on record stays. Recurring jobs are never dropped."""
        ...

    async def stats(self, queues: int = 0) -> StoreStats:
        """Counts for metrics and readiness, with up to so many `queues` by name."""
        ...
