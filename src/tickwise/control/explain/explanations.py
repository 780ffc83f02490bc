"""The parts of an explanation: a code for programs, a sentence for people, and the facts that both are made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from tickwise.control.times import written
from tickwise.documents.definition import Definition
from tickwise.domain.calendar.rules import ScheduleRules
from tickwise.domain.calendar.sentences import moment
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.model import Trigger
from tickwise.domain.rules.capacities import Demand, demand_of
from tickwise.domain.rules.confinement import Isolation, is_below
from tickwise.domain.schedule import Schedule
from tickwise.domain.stops import Stop
from tickwise.ports.store import AttemptRow, ExecutorRow, Incident, JobRow, LetterRow, QueueRow, RunRow

ON_TIME_SECONDS: Final = 1.0
"""A run that starts within it after its due time is on time, for people."""


class Because(StrEnum):
    """The codes. Programs of users decide by them: never renamed."""

    FIRED = "fired"
    """It started on time."""
    LATE_SCHEDULER_AWAY = "late_scheduler_away"
    LATE_STORE_AWAY = "late_store_away"
    LATE_SCHEDULER_BEHIND = "late_scheduler_behind"
    """Schedulers were active, as far as the record shows, and made its run late."""
    LATE_OVERLAP = "late_overlap"
    """It waited for an earlier run of its job."""
    LATE_NO_EXECUTOR = "late_no_executor"
    LATE_NOT_OFFERED = "late_not_offered"
    """Executors were alive, but none with its queue, labels and function."""
    LATE_PRIORITY = "late_priority"
    """Runs of higher priority went first."""
    LATE_EXECUTORS_BUSY = "late_executors_busy"
    """The executors had no free slot."""
    LATE_QUEUE_HELD = "late_queue_held"
    """Its queue was on hold."""
    LATE_EXECUTORS_LEFT = "late_executors_left"
    """The executors that could take it were stopping, or were lost, before one of them took it."""
    LATE_LIMITED = "late_limited"
    """Its job has a concurrency or rate limit, or its namespace a quota of runs at once, which leave no record; nothing
    else kept it waiting."""
    LATE_EXECUTOR_LOST = "late_executor_lost"
    """The executor that held it first was lost before it began."""
    LATE_START = "late_start"
    """Its executor had it in time, and began late."""
    LATE = "late"
    """Nothing on record says why."""
    EXECUTOR_LOST = "executor_lost"
    """An attempt was lost with its executor, and another one followed."""
    EXECUTOR_LEFT = "executor_left"
    """An attempt was ended by the stop of its executor, and another one followed."""
    LATE_STOPPED = "late_stopped"
    """A stop of its job, its labels, its queue or its namespace held it back."""
    LATE_CIRCUIT = "late_circuit"
    """The host that its task calls kept failing, and was left alone for a while."""
    FAILED = "failed"
    """Its last attempt failed, and there is no further one."""
    DEAD_LETTER = "dead_letter"
    """It failed for good, and its dead letter waits for a person, or is settled."""
    LAST_RUN_FAILED = "last_run_failed"
    RETRIED = "retried"
    """It began on time, and an attempt failed."""
    DEFERRED = "deferred"
    """A calendar or window moved it."""
    SNOOZED = "snoozed"
    """A person moved it."""
    MADE_UP_FOR = "made_up_for"
    """It was missed, and ran later."""
    ASKED_FOR = "asked_for"
    """A person requested a run beside the schedule."""
    RETRY_OF = "retry_of"
    """A person requested an ended run again."""
    BACKFILL = "backfill"
    STARTED_BY_SEQUENCE = "started_by_sequence"
    """The end of a run of another job started it."""
    RETRIED_BY_RULE = "retried_by_rule"
    """An attempt failed, and the job says that such a failure is worth another one."""
    NOT_RETRIED_RULE = "not_retried_rule"
    """It failed for good before its retries were used up, for the job says so."""
    NOT_RETRIED_DEADLINE = "not_retried_deadline"
    """The next attempt would have begun after its deadline."""
    UNKNOWN_OUTCOME = "unknown_outcome"
    """Its executor was lost after it had begun, and its job wants a person to decide."""
    FAILED_EXECUTOR_LOST = "failed_executor_lost"
    """Its executor was lost after it had begun, and its job wants it to fail then."""
    ASKED_TO_STOP = "asked_to_stop"
    """A person requested its stop after it had begun."""
    LIMIT_CPU = "limit_cpu"
    LIMIT_MEMORY = "limit_memory"
    LIMIT_PROCESSES = "limit_processes"
    LIMIT_DISK = "limit_disk"
    LIMIT_FILES = "limit_files"
    LIMIT_OUTPUT = "limit_output"
    SUCCESSOR_STARTED = "successor_started"
    SUCCESSOR_NOT_STARTED = "successor_not_started"
    """A job that it names did not go on from its end: it is paused, cancelled or gone, or its turn is yet to come."""

    RUNNING = "running"
    HANDED_OUT = "handed_out"
    """An executor has it, and has not said yet that it began."""
    WAITING_SCHEDULER = "waiting_scheduler"
    """Its time has come, and no scheduler has decided it."""
    WAITING_OVERLAP = "waiting_overlap"
    WAITING_NO_EXECUTOR = "waiting_no_executor"
    WAITING_NOT_OFFERED = "waiting_not_offered"
    WAITING_PRIORITY = "waiting_priority"
    WAITING_EXECUTORS_BUSY = "waiting_executors_busy"
    WAITING_ISOLATION = "waiting_isolation"
    """Its namespace demands a sandbox, and its job has none."""
    WAITING_CAPACITY = "waiting_capacity"
    """Counted resources or memory that a run holds are in use."""
    WAITING_BACKOFF = "waiting_backoff"
    WAITING_SLOT = "waiting_slot"
    """As many runs go on as its concurrency limit allows."""
    WAITING_QUOTA = "waiting_quota"
    """As many runs of its namespace go on as the namespace's quota of runs at once allows."""
    WAITING_RATE = "waiting_rate"
    """It has its turn under a rate limit, which is yet to come."""
    WAITING_STOPPED = "waiting_stopped"
    """A person stopped its job, its labels, its queue or its namespace for a time."""
    WAITING_QUEUE_HELD = "waiting_queue_held"
    WAITING_PAUSED = "waiting_paused"
    """A person gave it another time, and its job was paused since."""
    WAITING_CIRCUIT = "waiting_circuit"
    WAITING_SECRETS = "waiting_secrets"
    """The host that its task calls keeps failing, and is left alone for a while."""
    WAITING_GIVEN_BACK = "waiting_given_back"
    """An executor could not run it for now, and it is offered again later."""
    WAITING_TURN = "waiting_turn"
    """An executor can claim it at any moment."""

    SKIPPED = "skipped"
    """For a reason that this version does not know."""
    SKIPPED_OVERLAP = "skipped_overlap"
    SKIPPED_MISFIRE = "skipped_misfire"
    SKIPPED_PAUSED = "skipped_paused"
    SKIPPED_CALENDAR = "skipped_calendar"
    SKIPPED_MAINTENANCE = "skipped_maintenance"
    SKIPPED_STOPPED = "skipped_stopped"
    SKIPPED_DST = "skipped_dst"
    SKIPPED_FUSE = "skipped_fuse"
    SKIPPED_REQUESTED = "skipped_requested"
    SKIPPED_QUOTA = "skipped_quota"
    SKIPPED_EXPIRED = "skipped_expired"
    CANCELLED = "cancelled"
    """It never began."""
    FAILED_UNBEGUN = "failed_unbegun"

    NOT_DUE = "not_due"
    PAUSED = "paused"
    PAUSED_FUSE = "paused_fuse"
    """It made too many runs in a minute, and was parked."""
    HELD_CALENDAR = "held_calendar"
    HELD_MAINTENANCE = "held_maintenance"
    HELD_STOPPED = "held_stopped"
    JOB_CANCELLED = "job_cancelled"
    OVER_END_AT = "over_end_at"
    OVER_MAX_RUNS = "over_max_runs"
    OVER_ONE_TIME = "over_one_time"
    ON_DEMAND = "on_demand"
    """The job has no schedule: it runs when it is asked for."""
    OVER_NO_TIME = "over_no_time"
    """The schedule names no time any more."""
    WILL_FIRE = "will_fire"
    WILL_BE_SKIPPED = "will_be_skipped"
    WILL_BE_DEFERRED = "will_be_deferred"
    NOT_AN_OCCURRENCE = "not_an_occurrence"
    """The schedule does not name this time."""
    NOT_YET_CREATED = "not_yet_created"
    SCHEDULE_CHANGED = "schedule_changed"
    """The schedule of now counts from a later time on."""
    FORGOTTEN = "forgotten"
    """It is longer ago than runs are kept."""
    UNKNOWN = "unknown"
    """Nothing is on record of it."""


class Cause(NamedTuple):
    """One thing that had to do with it."""

    code: Because
    sentence: str
    """A part of a sentence, without a full stop."""
    data: dict[str, Any] = {}  # noqa: RUF012 - made once, never changed


class PastWait(NamedTuple):
    """A time in which a run waited."""

    cause: Cause
    begin: float
    end: float
    """Unix seconds; of a wait that goes on, now."""


class ConditionName(StrEnum):
    """The conditions. Programs of users read them: never renamed."""

    DUE = "due"
    STATUS = "status"
    SCHEDULE = "schedule"
    SCHEDULER = "scheduler"
    STOP = "stop"
    PAUSE = "pause"
    CALENDAR = "calendar"
    QUEUE = "queue"
    EARLIER_RUNS = "earlier_runs"
    CONCURRENCY = "concurrency"
    QUOTA = "quota"
    RATE = "rate"
    READY = "ready"
    CIRCUIT = "circuit"
    PREDECESSOR = "predecessor"
    EXECUTOR = "executor"
    SLOTS = "slots"
    CAPACITY = "capacity"
    ISOLATION = "isolation"


class Condition(NamedTuple):
    """One condition."""

    name: ConditionName
    met: bool
    evidence: str
    """The figures, names and ids that were seen."""
    looked_at: float
    """The time of the look, Unix seconds by the store's clock."""
    change: str | None = None
    """The event that would make it met; None: it is met."""
    data: dict[str, Any] = {}  # noqa: RUF012 - made once, never changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The answer."""

    code: Because
    sentence: str
    data: dict[str, Any] = field(default_factory=dict)
    """The facts of the sentence, for programs; times as RFC 3339 text."""
    causes: tuple[Cause, ...] = ()
    """Other facts that contributed."""
    run: RunRow | None = None
    conditions: tuple[Condition, ...] = ()
    """Of a run that waits, and of a job at present: each condition of the start, met or not."""
    waits: tuple[PastWait, ...] = ()
    """Of a run: the waits whose time is known, the earliest first."""


class Followed(NamedTuple):
    """A job that a run's end was to start."""

    job_id: UUID
    name: str
    status: JobStatus | None
    """None: it is gone."""
    field: str
    """`then` or `on_failure`."""
    run: RunRow | None
    """The run that was made of it, or the record that none was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """The facts about one run and the time around it."""

    now: float
    run: RunRow
    zone: ZoneInfo
    attempts: Sequence[AttemptRow] = ()
    job: JobRow | None = None
    plan: Definition | None = None
    """The job's; its own, if it has one."""
    schedule: Schedule | None = None
    rules: ScheduleRules | None = None
    function: str | None = None
    """The name of the task's function; None: the task is no function."""
    incidents: Sequence[Incident] = ()
    """Absences that touch the time from its nominal time to its first start, or to now."""
    secrets_away: Sequence[Incident] = ()
    """The times in which the provider of a secret that the job names did not answer; `who` is the reference."""
    circuits: Sequence[Incident] = ()
    """Of an http task: when the circuit of its host was open in that time."""
    stops: Sequence[Stop] = ()
    """The stops that concern its job, also those that are over."""
    holds: Sequence[Incident] = ()
    """The times in which its queue was on hold; `who` is the queue."""
    executors: Sequence[ExecutorRow] = ()
    """The executors that were alive in that time."""
    active: Sequence[ExecutorRow] = ()
    earlier: Sequence[RunRow] = ()
    """Runs of the job with a smaller id, the newest first."""
    favoured: Sequence[tuple[RunRow, JobRow]] = ()
    """Runs of higher priority in the same queue that were taken while this one waited."""
    queue: QueueRow | None = None
    """Of one that waits: its queue."""
    holders: Sequence[tuple[RunRow, str]] = ()
    """Of one that waits for a slot: the runs that have the slots, with the names of their jobs."""
    concurrent_runs: int | None = None
    """The quota of runs at once of its namespace, as it is now."""
    least_isolation: Isolation = Isolation.PROCESS
    """The least isolation that its namespace demands."""
    origin: tuple[RunRow, str] | None = None
    """The run that started it, with the name of its job."""
    letter: LetterRow | None = None
    followed: Sequence[Followed] = ()
    asked_by: str | None = None
    """Of a run that was asked for: the person or key that did."""

    def said(self, instant: float) -> str:
        """An instant on the clock of the job."""
        return f"{moment(instant, self.zone)} ({self.zone.key})"

    @property
    def name(self) -> str:
        """The name of the run in a sentence."""
        words = {
            Trigger.RUN_NOW: "the run that was asked for at",
            Trigger.RETRY: "the retry that was asked for at",
            Trigger.BACKFILL: "the backfilled run of",
            Trigger.MISSED: "the catch-up run of",
            Trigger.SEQUENCE: "the run that a sequence started at",
        }
        return f"{words.get(Trigger(self.run.trigger), 'the run of')} {self.said(self.run.nominal_at)}"

    @property
    def is_below_floor(self) -> bool:
        """Its task is below the least isolation of its namespace: no executor claims it."""
        return self.job is not None and is_below(self.job.lane.requires, self.least_isolation)

    @property
    def demand(self) -> Demand | None:
        """The counted capacities that it holds while it runs; None: none, or its job is gone."""
        plan = self.plan
        return None if plan is None else demand_of(plan.resources, plan.limits.memory_bytes)

    def stop_at(self, instant: float) -> Stop | None:
        """The stop that holds back the job of the run at an instant: of several, the one that ends last."""
        return None if self.rules is None else last_stop(self.rules.stops, instant)

    @property
    def began(self) -> float | None:
        """The time at which its task first began."""
        starts = [self.run.started_at, *(each.started_at for each in self.attempts)]
        return min((start for start in starts if start is not None), default=None)


def last_stop(stops: Sequence[Stop], instant: float) -> Stop | None:
    """Of the stops in force at an instant, the one that ends last."""
    return max((stop for stop in stops if stop.is_on(instant)), key=lambda stop: stop.until, default=None)


def stop_words(stop: Stop, said: Callable[[float], str]) -> str:
    """The stop in a sentence: `the jobs with the label customer=x were stopped by ada, until …: a release`."""
    verb = "was" if stop.scope.is_one else "were"
    until = "until it is lifted" if stop.open_ended and stop.lifted_by is None else f"until {said(stop.until)}"
    return f"{stop.scope.words()} {verb} stopped by {stop.by}, {until}: {stop.reason}"


def stop_data(stop: Stop) -> dict[str, Any]:
    """The facts of a stop."""
    return {
        "stop_id": str(stop.stop_id),
        "scope": stop.scope.words(),
        "stopped_by": stop.by,
        "stopped_until": None if stop.open_ended and stop.lifted_by is None else written(stop.until),
        "reason": stop.reason,
    }


def sentence(text: str) -> str:
    """With a capital and a full stop; a text that was cut keeps its `…`."""
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + ("" if text.endswith("…") else ".")


def lasting(seconds: float) -> str:
    """A length of time for people: 0.4 s, 45 s, 12 min, 3 h, 9 days."""
    for size, unit, length in ((172_800.0, "days", 86_400.0), (7_200.0, "h", 3_600.0), (120.0, "min", 60.0)):
        if seconds >= size:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
