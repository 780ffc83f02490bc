"""What is answered: the views of rows, in the words of the API. Times are RFC 3339, UTC, ending in Z."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from tickwise.domain.decision import Hold, Overlap
from tickwise.domain.lifecycle import FINAL, JobStatus, RunState
from tickwise.domain.model import Trigger
from tickwise.domain.retry import OnUnknown
from tickwise.domain.schedule import ScheduleType, first_fire
from tickwise.ports.store import AttemptRow, ExecutorRow, JobRow, RunRow, StoredTask, Tally
from tickwise.roles.control.jobs import Change
from tickwise.roles.control.logs import LogChunk
from tickwise.roles.control.runs import RunDetails
from tickwise.roles.definition import Definition, decode_definition

API: Final = "/api/v1"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

encode = msgspec.json.Encoder().encode


def time_of(instant: float) -> datetime:
    """An instant as it is written; exact to the microsecond, in any year."""
    return _EPOCH + timedelta(microseconds=round(instant * 1_000_000))


def time_or_none(instant: float | None) -> datetime | None:
    """The same of an instant that may not have come."""
    return None if instant is None else time_of(instant)


class JobCreated(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A job that is stored."""

    job_id: UUID
    warnings: tuple[str, ...] = ()


class JobView(msgspec.Struct, kw_only=True):
    """A job with every field."""

    job_id: UUID
    namespace: str
    name: str
    key: str | None
    description: str | None
    labels: Mapping[str, str]
    owner: str
    schedule_type: ScheduleType
    schedule_time: datetime | None
    cron_expression: str | None
    interval_seconds: float | None
    anchor: datetime | None
    timezone: str
    start_at: datetime | None
    end_at: datetime | None
    max_runs: int | None
    dst: dict[str, Any]
    jitter_seconds: float
    window_seconds: float
    misfire: dict[str, Any]
    overlap: Overlap
    calendars: list[dict[str, Any]]
    fuse_per_minute: int
    planned_at: datetime | None
    """Since when its schedule counts: its creation, or the last change of it."""
    task: msgspec.Raw
    task_id: str | None = msgspec.field(name="taskId")
    task_version: int | None
    payload: msgspec.Raw
    isolation: str
    queue: str
    requires: Sequence[str]
    priority: int
    timeout_seconds: float | None
    limits: dict[str, Any]
    max_retries: int
    retry: dict[str, Any]
    on_unknown: OnUnknown
    concurrency: dict[str, Any] | None
    rate: dict[str, Any] | None
    then: Sequence[UUID]
    on_failure: Sequence[UUID]
    status: JobStatus
    pause_reason: str | None
    pause_until: datetime | None
    paused_at: datetime | None
    paused_by: str | None
    next_run_at: datetime | None
    created_at: datetime
    updated_at: datetime
    created_by: str
    version: int
    warnings: Sequence[str]
    pending: bool | UnsetType = UNSET
    """true: a change or a cancel of it was accepted, and is not applied yet."""


def job_view(row: JobRow, warnings: Sequence[str], *, pending: bool = False) -> JobView:
    """A job as it is answered."""
    said = decode_definition(row.definition)
    return JobView(
        job_id=row.job_id,
        namespace=row.namespace,
        name=row.name,
        key=row.key,
        description=said.description,
        labels=row.labels,
        owner=row.owner,
        schedule_type=said.schedule_type,
        schedule_time=time_or_none(said.schedule_time),
        cron_expression=said.cron_expression,
        interval_seconds=said.interval_seconds,
        anchor=time_or_none(said.anchor),
        timezone=said.timezone,
        start_at=time_or_none(said.start_at),
        end_at=time_or_none(said.end_at),
        max_runs=said.max_runs,
        dst=_whole(said.dst),
        jitter_seconds=said.jitter_seconds,
        window_seconds=said.window_seconds,
        misfire=_whole(said.misfire),
        overlap=said.overlap,
        calendars=[_whole(use) for use in said.calendars],
        fuse_per_minute=said.fuse_per_minute,
        planned_at=time_or_none(said.planned_at),
        task=said.task,
        task_id=said.task_id,
        task_version=said.task_version,
        payload=said.payload,
        isolation=said.isolation,
        queue=row.lane.queue,
        # Labels with a colon are our own book-keeping: what an executor must be able to run.
        requires=[label for label in row.lane.requires if ":" not in label],
        priority=row.lane.priority,
        timeout_seconds=said.timeout_seconds,
        limits=_whole(said.limits),
        max_retries=said.max_retries,
        retry=_whole(said.retry) | {"on": _whole(said.retry.on)},
        on_unknown=said.on_unknown,
        concurrency=None if said.concurrency is None else _whole(said.concurrency),
        rate=None if said.rate is None else _whole(said.rate),
        then=said.then,
        on_failure=said.on_failure,
        status=row.status,
        pause_reason=row.pause_reason,
        pause_until=time_or_none(row.pause_until),
        paused_at=time_or_none(row.paused_at),
        paused_by=row.paused_by,
        next_run_at=time_or_none(_next_run(row, said)),
        created_at=time_of(row.created_at),
        updated_at=time_of(row.updated_at),
        created_by=row.created_by,
        version=row.version,
        warnings=warnings,
        pending=pending or UNSET,
    )


def _next_run(row: JobRow, said: Definition) -> float | None:
    """When it runs next. A pause with an end is a time to look again, and the schedule may name another."""
    timer, next_run = row.timer, row.next_run_at
    if timer is None or timer.hold is not Hold.PAUSED or next_run is None or next_run != timer.due:
        return next_run
    return first_fire(said.schedule(row.job_id), next_run)


def _whole(struct: msgspec.Struct) -> dict[str, Any]:
    """With its defaults, which the stored form leaves out."""
    return msgspec.structs.asdict(struct)


class ChangeView(msgspec.Struct, kw_only=True):
    """What a change would do to the next 20 fires."""

    before: list[datetime]
    after: list[datetime]
    removed: list[datetime]
    added: list[datetime]
    kept: list[datetime]
    warnings: Sequence[str]


def change_view(change: Change) -> ChangeView:
    """The difference that a change makes."""
    return ChangeView(
        before=[time_of(fire) for fire in change.before],
        after=[time_of(fire) for fire in change.after],
        removed=[time_of(fire) for fire in change.removed],
        added=[time_of(fire) for fire in change.added],
        kept=[time_of(fire) for fire in change.kept],
        warnings=change.warnings,
    )


class AttemptView(msgspec.Struct, kw_only=True):
    """One attempt of a run."""

    attempt_number: int
    status: RunState
    executor_id: str
    dispatched_time: datetime | None
    start_time: datetime | None
    end_time: datetime | None
    reason: str | None
    error_message: str | None
    log_url: str


class CancelView(msgspec.Struct, kw_only=True):
    """A request to stop a run that an executor held."""

    asked_time: datetime
    said: str | None
    """Such as who asked."""
    heard_time: datetime | None
    """When its executor was told; null: not yet, or never."""
    ended_time: datetime | None
    """When nothing of it lived any more."""


class RunView(msgspec.Struct, kw_only=True):
    """A run."""

    run_id: UUID
    status: RunState
    start_time: datetime | None
    end_time: datetime | None
    modified_time: datetime
    attempt_number: int
    executor_id: str | None
    error_message: str | None
    log_url: str | None
    job_id: UUID
    trigger: str
    nominal_time: datetime
    """The time that the schedule named, or at which it was asked for."""
    due_time: datetime
    queued_time: datetime
    dispatched_time: datetime | None
    ready_time: datetime | None
    reason: str | None
    result: msgspec.Raw | None
    failures: int
    crashes: int
    waiting: bool
    """It waits for an earlier run of its job (overlap), or for a slot of its concurrency limit."""
    waits_for_slot: bool
    """It waits for a slot of its concurrency limit, …"""
    limit_key: str | None
    """… of this key; of one that runs: it has a slot of it."""
    paced: bool
    """It has a slot under its rate limit, at `ready_time`, and has not yet begun."""
    cancel: CancelView | None
    """That it is, or was, asked to stop."""
    occurrences: int
    """Of a SKIPPED one: how many occurrences it stands for."""
    until: datetime | None
    """With several: the nominal time of the last."""
    retry_of: UUID | None
    backfill_id: UUID | None
    started_by: UUID | None
    """The run of another job whose end started this one."""
    origin: UUID | None
    """Whichever of the three it is."""


class RunDetailView(RunView, kw_only=True):
    """A run with all that is known of it."""

    redriven_as: UUID | None
    """Of a FAILED one: the run that was made in its place."""
    payload: msgspec.Raw | None
    """Its own payload, if it is not the job's."""
    attempts: list[AttemptView]
    warnings: Sequence[str]
    """Of a run that waits: what nobody has that it needs."""


_TRIGGERS: Final = {trigger.value: trigger.name.lower() for trigger in Trigger}


def _run_fields(row: RunRow) -> dict[str, Any]:
    stages = (row.queued_at, row.dispatched_at, row.started_at, row.ended_at)
    return {
        "run_id": row.run_id,
        "status": row.state,
        "start_time": time_or_none(row.started_at),
        "end_time": time_or_none(row.ended_at),
        "modified_time": time_of(max(stage for stage in stages if stage is not None)),
        "attempt_number": row.attempt,
        "executor_id": None if row.executor is None else str(row.executor),
        "error_message": row.error,
        "log_url": None if row.attempt == 0 else f"{API}/runs/{row.run_id}/logs",
        "job_id": row.job_id,
        "trigger": _TRIGGERS.get(row.trigger, str(row.trigger)),
        "nominal_time": time_of(row.nominal_at),
        "due_time": time_of(row.due_at),
        "queued_time": time_of(row.queued_at),
        "dispatched_time": time_or_none(row.dispatched_at),
        "ready_time": None if row.state in FINAL else time_or_none(row.ready_at),
        "reason": row.reason,
        "result": None if row.result is None else msgspec.Raw(row.result.encode()),
        "failures": row.failures,
        "crashes": row.crashes,
        "waiting": row.blocked,
        "waits_for_slot": row.blocked and row.limit_key is not None,
        "limit_key": row.limit_key,
        "paced": row.paced,
        "cancel": _cancel_view(row),
        "occurrences": row.occurrences,
        "until": time_or_none(row.until),
        "retry_of": row.origin if row.trigger == Trigger.RETRY else None,
        "backfill_id": row.origin if row.trigger == Trigger.BACKFILL else None,
        "started_by": row.origin if row.trigger == Trigger.SEQUENCE else None,
        "origin": row.origin,
    }


def run_view(row: RunRow) -> RunView:
    """A run as it is listed."""
    return RunView(**_run_fields(row))


def run_detail_view(details: RunDetails) -> RunDetailView:
    """A run as it is answered alone."""
    row = details.row
    return RunDetailView(
        **_run_fields(row),
        redriven_as=details.redriven_as,
        payload=run_payload(row),
        attempts=[attempt_view(row.run_id, attempt) for attempt in details.attempts],
        warnings=details.warnings,
    )


def run_payload(row: RunRow) -> msgspec.Raw | None:
    """A run's own payload; None: it has that of its job."""
    return None if row.definition is None else decode_definition(row.definition).payload


def _cancel_view(row: RunRow) -> CancelView | None:
    asked = row.cancel
    if asked is None:
        return None
    ended = row.ended_at if row.state in FINAL else None
    return CancelView(
        asked_time=time_of(asked.asked_at),
        said=asked.error,
        heard_time=time_or_none(asked.heard_at),
        ended_time=time_or_none(ended),
    )


def attempt_view(run: UUID, row: AttemptRow) -> AttemptView:
    return AttemptView(
        attempt_number=row.attempt,
        status=row.state,
        executor_id=str(row.executor),
        dispatched_time=time_or_none(row.dispatched_at),
        start_time=time_or_none(row.started_at),
        end_time=time_or_none(row.ended_at),
        reason=row.reason,
        error_message=row.error,
        log_url=f"{API}/runs/{run}/logs?attempt={row.attempt}",
    )


class StatusView(msgspec.Struct, kw_only=True):
    """A job's latest run."""

    job_id: UUID
    latest_run: RunView | None


class RunDemanded(msgspec.Struct, kw_only=True):
    """A run that was asked for."""

    run_id: UUID


class RunStateView(msgspec.Struct, kw_only=True):
    """What a run is now; one that an executor holds is only asked to stop."""

    run_id: UUID
    status: RunState


class ResultView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What became of one job of a batch."""

    status: int
    job_id: UUID | None = None
    operation_id: UUID | None = None
    """Of a job that is accepted and not stored yet."""
    warnings: tuple[str, ...] = ()
    problem: Any = None


class BatchView(msgspec.Struct, kw_only=True):
    """What became of a batch, in its order."""

    created: int
    refused: int
    results: list[ResultView]


class TaskView(msgspec.Struct, kw_only=True):
    """A stored task."""

    task_id: str = msgspec.field(name="taskId")
    version: int
    name: str
    task: msgspec.Raw
    digest: str
    created_by: str
    created_at: datetime


def task_view(row: StoredTask) -> TaskView:
    """A stored task as it is answered."""
    return TaskView(
        task_id=row.task_id,
        version=row.version,
        name=row.name,
        task=msgspec.Raw(row.task.encode()),
        digest=row.digest,
        created_by=row.created_by,
        created_at=time_of(row.created_at),
    )


class LogView(msgspec.Struct, kw_only=True):
    """A part of a log, as JSON; bytes that are no UTF-8 are replaced."""

    run_id: UUID
    attempt_number: int
    offset: int
    next_offset: int
    complete: bool
    text: str


def log_view(run: UUID, chunk: LogChunk) -> LogView:
    """A part of a log as JSON."""
    return LogView(
        run_id=run,
        attempt_number=chunk.attempt,
        offset=chunk.offset,
        next_offset=chunk.next_offset,
        complete=chunk.complete,
        text=chunk.content.decode(errors="replace"),
    )


class ExecutorView(msgspec.Struct, kw_only=True):
    """An executor."""

    executor_id: str
    name: str
    alive: bool
    queues: Sequence[str]
    labels: Sequence[str]
    functions: Sequence[str]
    slots: int
    held: int
    born_at: datetime
    lease_until: datetime
    gone_at: datetime | None


class RunCountView(msgspec.Struct, kw_only=True):
    """How many runs came on record with one final state in one hour."""

    hour: datetime
    """When it began."""
    status: RunState
    runs: int


def run_count_view(tally: Tally) -> RunCountView:
    """A count as it is answered."""
    return RunCountView(hour=time_of(tally.hour), status=tally.state, runs=tally.runs)


def executor_view(row: ExecutorRow) -> ExecutorView:
    """An executor as it is answered."""
    return ExecutorView(
        executor_id=str(row.executor),
        name=row.name,
        alive=row.gone_at is None,
        queues=row.queues,
        labels=row.labels,
        functions=row.functions,
        slots=row.slots,
        held=row.held,
        born_at=time_of(row.born_at),
        lease_until=time_of(row.lease_until),
        gone_at=time_or_none(row.gone_at),
    )


class Health(msgspec.Struct, kw_only=True):
    """That all is well."""

    status: str
