"""Jobs, stored tasks and receipts. The package states the rules of every method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from tickwise.domain.audit import AuditEntry, Source
from tickwise.domain.decision import Overlap, SkipReason, TimerState
from tickwise.domain.errors import Bug, Conflict, VersionConflict
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.model import DEFAULT_PRIORITY, DEFAULT_QUEUE, Lane
from tickwise.domain.selectors import Selector
from tickwise.ports.paging import Page, utf8_bytes
from tickwise.ports.store.transfers import JobTransfer

MAX_LANES: Final = 10_000
"""Different lanes (namespace, queue, priority and requirements together) that a store knows. Each claim looks at all of
them, so what would bring one more is refused, code `lanes_exhausted`."""
MAX_LANES_OF_NAMESPACE: Final = 1_000
"""The most lanes of one namespace, so that no namespace uses up those of all. Default lanes count, and are never
refused."""
LANES_RESERVED: Final = 16
"""The number that each namespace may have at any total, its default lanes included."""

LANE_IDLE_SECONDS: Final = 3_600.0
"""A lane that no job and no run has used for so long may be freed, where there is little room left."""


def is_default_lane(lane: Lane) -> bool:
    """Check whether the lane is that of jobs without queue, priority and labels. People's labels hold no colon."""
    return (
        lane.queue == DEFAULT_QUEUE and lane.priority == DEFAULT_PRIORITY and all(":" in each for each in lane.requires)
    )


def no_lane(namespace: str) -> Conflict:
    """The refusal of a lane for which there is no room."""
    return Conflict(
        f"the namespace {namespace} uses as many combinations of queue, priority and required labels as there is room "
        f"for ({MAX_LANES_OF_NAMESPACE}, and {MAX_LANES} in all namespaces): use one of those, or the default queue "
        "without labels, which is always there",
        code="lanes_exhausted",
    )


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
    """The name of the only fire of a one-time job that needs no decision; None for all others: they always begin as
    timers, and a scheduler decides what they come to."""
    due: float | None
    """The time of its first fire; None: now. A recurring job that will never fire has `never`."""
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
    """Further runs to make at once, with any due time."""
    calendars: Sequence[str] = ()
    """The names of the calendars that its schedule goes by."""
    zone_data: str | None = None
    """The version of the zone data that `due` was computed with; None if no zone's rules were needed."""
    source: Source | None = None
    """The caller who made it, for the audit log; None: no entry is written."""
    secrets: Sequence[str] = ()
    """The names of the secrets of our own store that its task names (`SecretStore.uses`)."""


class NewRun(NamedTuple):
    """One run to make. `definition` None: the job's own."""

    run_id: UUID
    due: float
    trigger: int
    definition: str | None = None
    origin: UUID | None = None
    """The run that this one repeats, if a person asked for a retry; of a backfill, the id that all its runs share."""
    nominal: float | None = None
    """The time that the schedule named; None: `due`."""
    overlap: Overlap = Overlap.ALLOW
    """The policy while an earlier run of its job is unfinished (see `RunStore`, "Overlap")."""


class NewSkip(NamedTuple):
    """Occurrences that do not run, to put on record as one SKIPPED run."""

    run_id: UUID
    """The name of the first of them, so that recording it twice is recording it once."""
    nominal: float
    until: float
    """Nominal time of the last."""
    occurrences: int
    reason: SkipReason
    error: str
    """The note about it for people."""
    trigger: int = 1


class Added(StrEnum):
    """The result for one job of a batch."""

    CREATED = "created"
    REPEATED = "repeated"
    """This id was stored before with an equal body; nothing was changed."""
    ID_TAKEN = "job_id_taken"
    """A named id that stands for another body, or for a job of another namespace. Looked at before the key."""
    KEY_TAKEN = "key_taken"
    NO_LANE = "lanes_exhausted"
    """Its namespace may have no more different lanes."""
    NO_QUOTA_JOBS = "quota_jobs"
    """Its namespace may have no more active jobs (`domain.quotas`)."""
    NO_QUOTA_RUNS = "quota_runs"
    """Its namespace may ask for no more runs today."""
    NO_QUOTA_BYTES = "quota_bytes"
    """Its namespace may store no more bytes."""
    CLOSING = "namespace_closing"
    """The namespace of the job takes nothing new: it is closing, being removed, or gone. Decided with the write, so no
    job is stored after a namespace was closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """An answer to keep with its effect, under a client's Idempotency-Key."""

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


class JobRow(NamedTuple):
    """A job as it is stored, with what follows from its timers and runs. A tuple: a page makes hundreds of them."""

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
    """CANCELLED and PAUSED as stored; SCHEDULED while there is a timer (one that is held back for good counts as none)
    or an active run, and always of an ON_DEMAND job; else FAILED if the job is a one-time job and its newest run
    (by id) is FAILED, else COMPLETED."""
    paused_at: float | None
    """Since when it is PAUSED: an edit or a further pause of a paused job moves it no more."""
    pause_reason: str | None
    pause_until: float | None
    """From this instant on the pause is over by itself: status, reason and this say nothing of it any more."""
    paused_by: str | None
    next_run_at: float | None
    """The earliest due time of its timer (unless that is held back for good), of its QUEUED runs, and of its DISPATCHED
    runs that are not yet due."""
    timer: TimerState | None
    """The state of its schedule; None: it has no further fire. Of a one-time job only the due time has a meaning."""
    listed: UUID
    """Its place in lists, `model.place_of`."""
    task_changed_at: float
    """The newest change of its task or payload, or when it was made. Of a job that was last changed before stores kept
    this: any change."""

    @property
    def text_bytes(self) -> int:
        """See `PageRow`."""
        return utf8_bytes(self.definition)


class OperationStatus(StrEnum):
    """The status of an operation."""

    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"
    """It was accepted and could not be applied; its problems say why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedOperation:
    """A request that was accepted to be done later, and is over."""

    operation_id: UUID
    namespace: str
    kind: str
    request: str
    created_by: str
    created_at: float
    """The time of its acceptance."""
    status: OperationStatus
    """DONE or FAILED."""
    problems: str = "[]"
    audit: AuditEntry | None = None
    """Written with it, unless an operation of its id is there."""


CHANGED_FIELDS: Final = (
    "name", "key", "schedule_type", "task_kind", "definition", "lane", "labels", "owner", "calendars",
)  # fmt: skip
"""The fields of a job that a change sets."""


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
    calendars: Sequence[str] = ()
    secrets: Sequence[str] = ()
    expected_paused: bool | None = None
    """True if the job was PAUSED when the plan was made: a pause changes no version. `VersionConflict` if the job's
    pause differs by now. None: the plan is valid either way."""
    postponed_after_seconds: float = math.inf
    """As in `JobMove`: a postponed run that the plan takes up again in a pause is held back, any other is skipped."""
    rate_changed: bool = False
    """Its rate is another one than before, or none."""
    task_changed: bool = False
    """Its task or its payload is another one than before: a run that is repeated from now on does something else."""
    operation: EndedOperation | None = None
    """The records that are written with it, in the same transaction."""

    def is_made(self, stored: Mapping[str, object]) -> bool:
        """Check whether a job with these `CHANGED_FIELDS` is as the change would leave it: the change is then a repeat.
        In `stored`, `labels` is a dict and `calendars` a frozenset."""
        wanted = {name: getattr(self, name) for name in CHANGED_FIELDS}
        wanted |= {"labels": dict(self.labels), "calendars": frozenset(self.calendars)}
        return all(stored[name] == value for name, value in wanted.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Replan:
    """The plan of a job from now on; it replaces its timer and the schedule's unstarted runs whose nominal
    time is yet to come.

    Those that are held by an executor are asked back (see `CancelKind.REVOKE`). Those whose nominal time
    is in `keep_dues` stay, free or held: they are fires of the new plan as well and keep their name; if they were
    asked back before, that is withdrawn (not for `RunSkip`; in a pause they are asked back for it again, and in a queue
    on hold for that: `domain.rules.requests`).
    Requested runs (`RUN_NOW`, `RETRY`), what is due already and what has a recorded start is left alone.
    """

    recurring: bool
    timer: TimerState | None
    """None: no further fire by schedule."""
    run_id: UUID | None = None
    """The name of that fire, for a one-time job that needs no decision; says nothing of a timer that is held back."""
    keep_dues: Sequence[float] = ()
    missed: Sequence[NewRun] = ()
    """Occurrences of a pause that are made up for now."""
    skips: Sequence[NewSkip] = ()
    """Occurrences of the plan before that go on record as skipped."""
    zone_data: str | None = None


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
    PAUSE: its timer (if it has one) is held back from where it stands: hold PAUSED, `since` the first occurrence that
    is not on record, due `until`, or `decision.NEVER`; from then on that of a one-time job needs a decision
    too (`Timer.run_id` is None); `replan` says nothing. The schedule's unstarted runs that are not yet due end SKIPPED
    with reason `paused`: free ones at once, held ones when their holder gives them back (they are asked back; begun
    ones go on). Postponed ones (`postponed_after_seconds`) are no fires any more but demands of a person: they stay
    QUEUED and cannot be claimed before the pause is over. PAUSE of a paused job replaces reason, `by` and `until` and
    leaves `since`.
    RESUME: as `replan` says, but what the timer counts (`fired`) goes on; the fuse's minute begins anew. Postponed runs
    stay, and can be claimed at their due time, or now if that has passed. RESUME of a job that is not paused (or no
    longer, by `until`), CANCEL of one that is CANCELLED, and PAUSE of one that is paused just so, change nothing. The
    version of a job that is changed grows by one.
    """

    namespace: str
    job_id: UUID
    action: JobAction
    replan: Replan
    expected_version: int | None = None
    """The version that the plan was made from; another one stored raises `VersionConflict`, unless it is the next one
    and the job stands as the move would have it: then that was this move, and it is not made again. None: any
    version."""
    reason: str | None = None
    until: float | None = None
    by: str | None = None
    """The caller, for people to read."""
    postponed_after_seconds: float = math.inf
    """A run of the schedule that is due more seconds than this after its nominal time was postponed by a person. The
    schedule's own jitter or window is the least value."""

    def is_made(self, standing: JobAction | None, pause: tuple[str | None, float | None, str | None]) -> bool:
        """Check whether a job is as the move would leave it: the move is then a repeat. `standing`: PAUSE, CANCEL, or
        None for a job that goes by its plan. `pause`: reason, end and author of its pause."""
        if self.action is JobAction.PAUSE:
            return standing is JobAction.PAUSE and pause == (self.reason, self.until, self.by)
        return standing is (JobAction.CANCEL if self.action is JobAction.CANCEL else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class OccurrenceMove:
    """The next occurrence of a job is skipped, or comes at another time; the schedule stays as it is, and the job's
    version grows by one.

    The same move again, when all of it is done, changes nothing.
    """

    namespace: str
    job_id: UUID
    expected: TimerState
    """The timer that this was decided from; another one stored raises `VersionConflict`."""
    timer: TimerState | None
    """Its next time; as in `TimerStore.commit`."""
    skip: NewSkip | None = None
    run: NewRun | None = None
    passed: Sequence[NewSkip] = ()
    """Occurrences before it that calendars, windows or stops close: they go on record with it."""
    zone_data: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """A search. Newest first, by `JobRow.listed`; everything given must match."""

    namespace: str
    name: str | None = None
    """A part of the name, any case."""
    key: str | None = None
    ids: Sequence[UUID] = ()
    """Any of these jobs; all if empty."""
    labels: Mapping[str, str] = field(default_factory=dict)
    statuses: Sequence[JobStatus] = ()
    """Any of these; all if empty."""
    schedule_type: str | None = None
    task_kind: str | None = None
    owner: str | None = None
    calendar: str | None = None
    """The job goes by the calendar of this name."""
    next_run_after: float | None = None
    """From this instant on, and to before the next one; a job without a next run is in no window."""
    next_run_before: float | None = None
    within: Selector | None = None
    """Of the jobs of this selector alone; None: of all."""
    before: UUID | None = None
    """Jobs with a smaller place only: the last one of the page before."""
    may_pause: bool = False
    """The search may end early, with `Page.paused_at`, when it has looked at as many rows as one call may; False: it
    looks at all rows, for as long as that takes. Rows come newest first up to a pause, and again after it."""
    keeps_order: bool = False
    """With `may_pause`: the looks go through all rows in the order of the list, also where an index would find some
    sooner. So behind a place there is nothing that stands before it."""
    is_rest: bool = False
    rest_from: UUID | None = None
    """Those of the `SearchPlace` that `before` is of."""
    limit: int = 50
    bytes_most: int | None = None
    """The page is cut before its definitions hold more (`paging`); None: never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTask:
    """One version of a stored task."""

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

    @property
    def text_bytes(self) -> int:
        """See `PageRow`."""
        return utf8_bytes(self.task)


def check_newest(newest: StoredTask | None, task: StoredTask, expected_version: int | None, *, again: bool) -> None:
    """Raise `VersionConflict` if a task that is put is not at the version that it must be at."""
    found = 0 if newest is None else newest.version
    is_own = again and newest is not None and newest.digest == task.digest and expected_version == found - 1
    if expected_version not in (None, found) and not is_own:
        raise VersionConflict(f"the task {task.task_id} is at version {found}, not {expected_version}")


def check_one_namespace(jobs: Sequence[NewJob], receipt: Receipt | None, *, whole: bool) -> None:
    """Raise `Bug` if a batch that is stored as one, with a receipt or `whole`, has jobs of several namespaces."""
    if len(jobs) > 1 and (whole or receipt is not None) and len({job.namespace for job in jobs}) > 1:
        raise Bug("a batch with a receipt, and one that is stored as a whole, has jobs of one namespace")


class JobStore(Protocol):
    """Jobs: what runs, and when."""

    async def add(
        self, jobs: Sequence[NewJob], receipt: Receipt | None = None, *, whole: bool = False
    ) -> Sequence[Added] | Replay:
        """Store all that can be stored, each with its first run or timer; in the order given, those of one namespace in
        one transaction.

        The due time of a one-time job within the store's horizon (`near_seconds`) becomes a run at once, a later one,
        and every one of a recurring job, a timer. With a receipt whose key was used before, nothing is stored and the
        earlier answer comes back; else the receipt is kept with the jobs if every one is CREATED or REPEATED, and not
        at all if one was refused (its answer is then for `ReceiptStore.keep`). Of a namespace with quotas as many are
        stored, in their order, as there is room for; one that is refused for its id or its key takes no room.

        With `whole`, nothing is stored unless every one is CREATED or REPEATED.

        With `whole` or a receipt, all jobs are of one namespace (`check_one_namespace`).
        """
        ...

    async def get(self, namespace: str, job: UUID | str) -> JobRow | None:
        """One job, by its id, or by its key if that is a text."""
        ...

    async def change(self, change: JobChange, *, audit: AuditEntry | None = None) -> JobRow:
        """Replace the definition; the version grows by one. All active runs, one that is just being made included, get
        the new definition (unless they have their own) and the new lane; a held one for its next attempt. The same
        change repeated, with the version one higher by it, answers as it did at first and changes nothing.

        Those that wait for a slot of a limit ask for it again, for the definition may say otherwise now. With
        `rate_changed` so do those that have a slot under a rate of any key: they are claimable as they are due, and
        their slots are free again. A run that is held keeps its slot. Without `rate_changed` no slot of a rate moves:
        among others a run would lose its place.

        Raises `VersionConflict` (another version is stored, or it was paused or resumed meanwhile), `NotFound`,
        `Conflict` (it is CANCELLED, or its new key is taken, or by the change it would count for the quotas of its
        namespace and has no room, or has more bytes than there is room for).
        """
        ...

    async def move(self, move: JobMove | OccurrenceMove | JobTransfer, *, audit: AuditEntry | None = None) -> JobRow:
        """Pause, resume or cancel a job, move its next occurrence, or move it to another namespace. Doing it twice is
        doing it once. Raises `NotFound`, `VersionConflict`; `Conflict` if the job is CANCELLED, unless the move cancels
        it.

        A `JobTransfer` raises `Conflict` also if the job has an unfinished run, or one whose end has yet to start
        others (code `job_busy`), if another job there has its key (`key_taken`), and if the other namespace takes
        nothing new (`namespace_closing`) or has no room for its lane, or under its quotas."""
        ...


class TaskStore(Protocol):
    """Stored tasks, each in versions."""

    async def put(
        self,
        task: StoredTask,
        expected_version: int | None = None,
        *,
        again: bool = False,
        audit: AuditEntry | None = None,
    ) -> StoredTask:
        """Keep a new version of a task (`version` and `created_at` are given by the store, from 1 and its clock); the
        same digest as the newest: that one. `expected_version`: what the newest must be, 0: there must be none; else
        `VersionConflict`. With `again` it repeats a call whose outcome is in doubt: the version after the expected one,
        with this digest, is its own effect."""
        ...

    async def versions(
        self, namespace: str, task_id: str, *, before: int | None, limit: int, bytes_most: int | None = None
    ) -> Page[StoredTask]:
        """The versions of one task, newest first, those below `before`; cut before their tasks hold more than
        `bytes_most`."""
        ...

    async def get(self, namespace: str, task_id: str, version: int | None = None) -> StoredTask | None:
        """One version, or the newest."""
        ...

    async def page(
        self, namespace: str, after: str | None, limit: int, *, bytes_most: int | None = None
    ) -> Page[StoredTask]:
        """The newest version of each, by task_id, those after `after`; cut before their tasks hold more than
        `bytes_most`."""
        ...

    async def scripts(self) -> Sequence[tuple[str, str]]:
        """The namespaces and the scripts that they have stored, by the SHA-256 in hex: of all versions of all tasks."""
        ...


class ReceiptStore(Protocol):
    """Receipts: the answers that were given to requests with an idempotency key."""

    async def find(self, principal: str, route: str, key: str) -> Replay | None:
        """The answer kept under this Idempotency-Key, unless it has expired."""
        ...

    async def keep(self, receipt: Receipt) -> Replay | None:
        """Keep an answer whose effect is idempotent by itself; or, if there is one already, return that."""
        ...
