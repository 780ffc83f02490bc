"""Answers of the API: the views of rows, in the words of the API. Times are RFC 3339, UTC, ending in Z."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Final, Literal
from urllib.parse import quote
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.api.problems import ResultView
from tickwise.api.wire_policies import (
    CalendarUseView,
    ClockChangesView,
    ConcurrencyView,
    IdentityTokenView,
    LimitsView,
    MisfireView,
    RateView,
    RetryView,
    decode_answered,
)
from tickwise.control.jobs.changes import ChangeResult
from tickwise.control.jobs.next_run import next_run_of
from tickwise.control.runs.artefacts import RunArtefacts
from tickwise.control.runs.logs import LogChunk
from tickwise.control.runs.payloads import PayloadSource, received_payload
from tickwise.control.runs.service import RunDetails
from tickwise.documents.drawn_fields import DrawnFields, with_answered_fields
from tickwise.documents.progress import RunProgress
from tickwise.domain.decision import Overlap
from tickwise.domain.job_fields import JOB_FIELDS
from tickwise.domain.lifecycle import FINAL, JobStatus, RunState
from tickwise.domain.masking import HTTP, masked
from tickwise.domain.model import Trigger
from tickwise.domain.observing.anomalies import Anomaly, AnomalyKind, AnomalyQuantity
from tickwise.domain.rules.capacities import MEMORY
from tickwise.domain.rules.confinement import Isolation, offered_levels, offered_users, own_labels
from tickwise.domain.schedule import ScheduleType
from tickwise.ports.store import AttemptRow, ExecutorRow, JobRow, RunRow, StoredTask, Tally

API: Final = "/api/v1"

Instant = Annotated[datetime, Meta(tz=True)]
"""A time in an answer: the description then says that it is one."""
StoredTaskObject = Annotated[msgspec.Raw, Meta(extra_json_schema={"$ref": "#/components/schemas/StoredTask"})]
"""A task in its long form."""
Relative = Annotated[str, Meta(extra_json_schema={"format": "uri-reference"})]
"""An address on this server."""

_DRAWN: Final = DrawnFields(JOB_FIELDS)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT_BELOW: Final = 2.0**32
"""Below it a float has more than a microsecond's precision, and the quick way, which a list takes hundreds of times,
rounds as the other does."""
_from_timestamp: Final = datetime.fromtimestamp

SHOWN_BYTES: Final = 2_048
SHOWN_TASKS: Final = 1_024
"""Tasks of at most this size whose answered form is kept. Lists are read again and again: masking was half of what
the view of such a job took."""

KEPT_TIMES: Final = 8_192
"""Several fields of a run have one instant, and lists are read again and again."""

encode = msgspec.json.Encoder().encode
_HTTP: Final = HTTP.encode()


@lru_cache(maxsize=KEPT_TIMES)
def time_of(instant: float) -> datetime:
    """An instant as it is written; exact to the microsecond, in any year."""
    if 0.0 <= instant < _EXACT_BELOW:
        return _from_timestamp(instant, UTC)
    return _EPOCH + timedelta(microseconds=round(instant * 1_000_000))


def time_or_none(instant: float | None) -> datetime | None:
    """The time of an instant that may not have come."""
    return None if instant is None else time_of(instant)


class JobCreated(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A job that is stored."""

    job_id: UUID
    warnings: tuple[str, ...] = ()


@with_answered_fields(JOB_FIELDS)
class JobView(msgspec.Struct, kw_only=True):
    """A job with every field."""

    job_id: UUID
    namespace: str
    name: str
    key: str | None
    labels: Mapping[str, str]
    owner: str
    schedule_type: ScheduleType
    schedule_time: Instant | None
    cron_expression: str | None
    interval_seconds: float | None
    anchor: Instant | None
    timezone: str
    start_at: Instant | None
    end_at: Instant | None
    max_runs: int | None
    dst: ClockChangesView
    jitter_seconds: float
    window_seconds: float
    misfire: MisfireView
    overlap: Overlap
    calendars: Sequence[CalendarUseView]
    planned_at: Instant | None
    """Since when its schedule counts: its creation, or the last change of it."""
    task: StoredTaskObject
    task_id: str | None = msgspec.field(name="taskId")
    task_version: int | None
    payload: msgspec.Raw
    isolation: Isolation
    allow_network: bool | Sequence[str]
    run_as: str | None
    resources: Mapping[str, int]
    identity_token: IdentityTokenView | None
    container_image: str | None
    queue: str
    requires: Sequence[str]
    priority: int
    limits: LimitsView
    retry: RetryView
    concurrency: ConcurrencyView | None
    rate: RateView | None
    then: Sequence[UUID]
    on_failure: Sequence[UUID]
    notify: Sequence[str]
    status: JobStatus
    pause_reason: str | None
    pause_until: Instant | None
    paused_at: Instant | None
    paused_by: str | None
    next_run_at: Instant | None
    created_at: Instant
    updated_at: Instant
    created_by: str
    version: int
    warnings: Sequence[str]
    pending: bool | UnsetType = UNSET
    """true: a change or a cancel of it was accepted, and is not applied yet."""


def task_shown(task: msgspec.Raw) -> msgspec.Raw:
    """A task as it is answered: without its secrets."""
    text = bytes(task)
    if _HTTP not in text:
        return task
    return msgspec.Raw(_text_shown(text) if len(text) <= SHOWN_BYTES else _masked_text(text))


def _masked_text(text: bytes) -> bytes:
    said = msgspec.json.decode(text)
    shown = masked(said)
    return text if shown is said else encode(shown)


_text_shown: Final = lru_cache(maxsize=SHOWN_TASKS)(_masked_text)


def job_view(row: JobRow, warnings: Sequence[str], *, pending: bool = False) -> JobView:
    """A job as it is answered."""
    said = decode_answered(row.definition)
    return JobView(
        job_id=row.job_id,
        namespace=row.namespace,
        name=row.name,
        key=row.key,
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
        dst=said.dst,
        jitter_seconds=said.jitter_seconds,
        window_seconds=said.window_seconds,
        misfire=said.misfire,
        overlap=said.overlap,
        calendars=said.calendars,
        planned_at=time_or_none(said.planned_at),
        task=task_shown(said.task),
        task_id=said.task_id,
        task_version=said.task_version,
        payload=said.payload,
        isolation=said.isolation,
        allow_network=said.allow_network,
        run_as=said.run_as,
        resources=said.resources,
        identity_token=said.identity_token,
        container_image=said.container_image,
        queue=row.lane.queue,
        # Labels with a colon are our own book-keeping: what an executor must be able to run.
        requires=[label for label in row.lane.requires if ":" not in label],
        priority=row.lane.priority,
        limits=said.limits,
        retry=said.retry,
        concurrency=said.concurrency,
        rate=said.rate,
        then=said.then,
        on_failure=said.on_failure,
        notify=said.notify,
        status=row.status,
        pause_reason=row.pause_reason,
        pause_until=time_or_none(row.pause_until),
        paused_at=time_or_none(row.paused_at),
        paused_by=row.paused_by,
        next_run_at=time_or_none(next_run_of(row, said)),
        created_at=time_of(row.created_at),
        updated_at=time_of(row.updated_at),
        created_by=row.created_by,
        version=row.version,
        warnings=warnings,
        pending=pending or UNSET,
        **_DRAWN.stored(said),
    )


class ChangeView(msgspec.Struct, kw_only=True):
    """The effect of a change on the next 20 fires."""

    before: list[Instant]
    after: list[Instant]
    removed: list[Instant]
    added: list[Instant]
    kept: list[Instant]
    warnings: Sequence[str]


def change_view(change: ChangeResult) -> ChangeView:
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
    dispatched_time: Instant | None
    start_time: Instant | None
    end_time: Instant | None
    reason: str | None
    error_message: str | None
    log_url: Relative
    cpu_seconds: float | None
    """Processor time of its processes; null: it was not measured, as of functions in a worker, or has not ended."""
    memory_bytes: int | None
    """The peak of its control group, or of its largest process; null: not measured, or below what can be told."""
    output_bytes: int | None
    """The output that was kept; null: not measured, or the attempt has not ended."""
    read_bytes: int | None
    """Bytes that its processes read from disks; null: not measured, as of tasks that were over at once."""
    written_bytes: int | None
    """Bytes that its processes wrote to disks; null: not measured."""
    network_bytes: int | None
    """Bytes between it and the network, both ways; null: nothing counts them."""
    work_bytes: int | None
    """The most that was found in its work folder: while it ran if that is limited, else at its end; null: not looked
    at, or nothing was there."""
    image: str | None
    """The image of its container, exactly: `ghcr.io/acme/etl@sha256:…`, or `sha256:…` for one that came from no
    registry; null: it ran in none."""


class CancelView(msgspec.Struct, kw_only=True):
    """A request to stop a run that an executor held."""

    asked_time: Instant
    said: str | None
    """Such as who asked."""
    heard_time: Instant | None
    """The time at which its executor received it; null: not yet, or never."""
    ended_time: Instant | None
    """The time at which all of its processes had ended."""


class RunView(msgspec.Struct, kw_only=True):
    """A run."""

    run_id: UUID
    status: RunState
    start_time: Instant | None
    end_time: Instant | None
    modified_time: Instant
    attempt_number: int
    executor_id: str | None
    error_message: str | None
    log_url: Relative | None
    job_id: UUID
    trigger: str
    nominal_time: Instant
    """The time that the schedule named, or at which it was asked for."""
    due_time: Instant
    queued_time: Instant
    dispatched_time: Instant | None
    ready_time: Instant | None
    reason: str | None
    result: msgspec.Raw | None
    failures: int
    crashes: int
    waiting: bool
    """It waits for an earlier run of its job (overlap), for a slot of its concurrency limit, or for the quota of runs
    at once of its namespace."""
    waits_for_slot: bool
    """It waits for a slot of its concurrency limit, or for that quota (the key is `quota`), …"""
    limit_key: str | None
    """… of this key; of one that runs: it has a slot of it."""
    paced: bool
    """It has a slot under its rate limit, at `ready_time`, and has not yet begun."""
    cancel: CancelView | None
    """The request to stop the run, if there was one."""
    occurrences: int
    """Of a SKIPPED one: how many occurrences it stands for."""
    until: Instant | None
    """With several: the nominal time of the last."""
    retry_of: UUID | None
    backfill_id: UUID | None
    started_by: UUID | None
    """The run of another job whose end started this one."""
    origin: UUID | None
    """One of `retry_of`, `backfill_id` and `started_by`: the one that is set."""


class AnomalyView(msgspec.Struct, kw_only=True):
    """A quantity of a run that is unlike that of the newest 50 earlier runs of its job that succeeded."""

    quantity: AnomalyQuantity
    """`duration` in seconds, `output` in bytes."""
    kind: AnomalyKind
    value: float
    low: float
    """Of ten earlier runs one had less, …"""
    high: float
    """… and one had more."""
    runs_compared: int


class ProgressView(msgspec.Struct, kw_only=True):
    """The newest word of a task on how far it is."""

    share: float
    """From 0 to 1."""
    text: str
    time: Instant


class RunDetailView(RunView, kw_only=True):
    """A run with all that is known of it."""

    redriven_as: UUID | None
    """Of a FAILED one: the run that was made in its place."""
    payload: msgspec.Raw | None
    """The payload that it received, or will receive; null: it is longer than 65,536 bytes, or its job is gone."""
    payload_bytes: int | None
    payload_from: PayloadSource | None
    attempts: list[AttemptView]
    warnings: Sequence[str]
    """Of a waiting run: its needs that no executor meets."""
    anomalies: list[AnomalyView]
    """Of one that goes on or succeeded: the quantities that are unlike those of earlier runs of its job."""
    trace_id: str | None
    """The trace that it belongs to, as collectors show it; null: it belongs to none, or to one of its own that is not
    recorded."""
    progress: ProgressView | None
    """Of one that is RUNNING: how far it is, as its task said. Null: it said nothing."""


_TRIGGERS: Final = {trigger.value: trigger.name.lower() for trigger in Trigger}


def run_view(row: RunRow) -> RunView:
    """A run as it is listed."""
    queued, dispatched, started, ended = row.queued_at, row.dispatched_at, row.started_at, row.ended_at
    return RunView(
        run_id=row.run_id,
        status=row.state,
        start_time=time_or_none(started),
        end_time=time_or_none(ended),
        modified_time=time_of(max(queued, dispatched or queued, started or queued, ended or queued)),
        attempt_number=row.attempt,
        executor_id=None if row.executor is None else str(row.executor),
        error_message=row.error,
        log_url=None if row.attempt == 0 else f"{API}/runs/{row.run_id}/logs",
        job_id=row.job_id,
        trigger=_TRIGGERS.get(row.trigger, str(row.trigger)),
        nominal_time=time_of(row.nominal_at),
        due_time=time_of(row.due_at),
        queued_time=time_of(queued),
        dispatched_time=time_or_none(dispatched),
        ready_time=None if row.state in FINAL else time_or_none(row.ready_at),
        reason=row.reason,
        result=None if row.result is None else msgspec.Raw(row.result.encode()),
        failures=row.failures,
        crashes=row.crashes,
        waiting=row.blocked,
        waits_for_slot=row.blocked and row.limit_key is not None,
        limit_key=row.limit_key,
        paced=row.paced,
        cancel=_cancel_view(row),
        occurrences=row.occurrences,
        until=time_or_none(row.until),
        retry_of=row.origin if row.trigger == Trigger.RETRY else None,
        backfill_id=row.origin if row.trigger == Trigger.BACKFILL else None,
        started_by=row.origin if row.trigger == Trigger.SEQUENCE else None,
        origin=row.origin,
    )


def run_detail_view(details: RunDetails, anomalies: Sequence[Anomaly]) -> RunDetailView:
    """A run as it is answered alone."""
    row = details.row
    payload, size, source = received_payload(details)
    return RunDetailView(
        **msgspec.structs.asdict(run_view(row)),
        redriven_as=details.redriven_as,
        payload=payload,
        payload_bytes=size,
        payload_from=source,
        attempts=[attempt_view(row.run_id, attempt) for attempt in details.attempts],
        warnings=details.warnings,
        anomalies=[
            AnomalyView(
                quantity=each.quantity,
                kind=each.kind,
                value=each.value,
                low=each.low,
                high=each.high,
                runs_compared=each.runs,
            )
            for each in anomalies
        ],
        trace_id=details.trace_id,
        progress=None if details.progress is None else progress_view(details.progress),
    )


def progress_view(progress: RunProgress) -> ProgressView:
    """The progress of a run, as it is answered."""
    return ProgressView(share=progress.share, text=progress.text, time=time_of(progress.at))


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
        cpu_seconds=row.cpu_seconds,
        memory_bytes=row.memory_bytes,
        output_bytes=row.output_bytes,
        read_bytes=row.read_bytes,
        written_bytes=row.written_bytes,
        network_bytes=row.network_bytes,
        work_bytes=row.work_bytes,
        image=row.image,
    )


class StatusView(msgspec.Struct, kw_only=True):
    """A job's latest run."""

    job_id: UUID
    latest_run: RunView | None


class RunDemanded(msgspec.Struct, kw_only=True):
    """A run that was asked for."""

    run_id: UUID


class RunStateView(msgspec.Struct, kw_only=True):
    """The state of a run now; a run that an executor holds is only asked to stop."""

    run_id: UUID
    status: RunState


class BatchView(msgspec.Struct, kw_only=True):
    """The results of a batch, in its order."""

    created: int
    refused: int
    results: list[ResultView]


class TaskView(msgspec.Struct, kw_only=True):
    """A stored task."""

    task_id: str = msgspec.field(name="taskId")
    version: int
    name: str
    task: StoredTaskObject
    digest: str
    created_by: str
    created_at: Instant


def task_view(row: StoredTask) -> TaskView:
    """A stored task as it is answered."""
    return TaskView(
        task_id=row.task_id,
        version=row.version,
        name=row.name,
        task=task_shown(msgspec.Raw(row.task.encode())),
        digest=row.digest,
        created_by=row.created_by,
        created_at=time_of(row.created_at),
    )


class LogPartView(msgspec.Struct, kw_only=True):
    """A part of a log that one of both wrote."""

    origin: Literal["task", "tickwise"]
    """`tickwise`: such as the line that names the artefacts. A task can print such a line, but not with this origin."""
    offset: int
    text: str


class LogView(msgspec.Struct, kw_only=True):
    """A part of a log, as JSON; bytes that are no UTF-8 are replaced."""

    run_id: UUID
    attempt_number: int
    offset: int
    next_offset: int
    complete: bool
    """No more will follow."""
    text: str
    waiting_bytes: int = 0
    """Bytes of an attempt that is over which are not stored yet: they follow when the object store answers."""
    waiting_on: str | None = None
    """The executor on whose disk they are."""
    parts: list[LogPartView] = []
    """`text` by its origin, where a part of it is of Tickwise itself. Empty: all of it is the task's."""


def _log_parts(chunk: LogChunk) -> list[LogPartView]:
    """The content by its origin."""
    found: list[LogPartView] = []
    at = chunk.offset
    for begin, end in (*chunk.own, (chunk.next_offset, chunk.next_offset)) if chunk.own else ():
        found += [
            LogPartView(origin="task", offset=at, text=_log_text(chunk, at, begin)),
            LogPartView(origin="tickwise", offset=begin, text=_log_text(chunk, begin, end)),
        ]
        at = end
    return [part for part in found if part.text]


def _log_text(chunk: LogChunk, begin: int, end: int) -> str:
    return chunk.content[begin - chunk.offset : end - chunk.offset].decode(errors="replace")


def log_view(run: UUID, chunk: LogChunk) -> LogView:
    """A part of a log as JSON."""
    return LogView(
        run_id=run,
        attempt_number=chunk.attempt,
        offset=chunk.offset,
        next_offset=chunk.next_offset,
        complete=chunk.complete,
        text=chunk.content.decode(errors="replace"),
        waiting_bytes=0 if chunk.waiting is None else chunk.waiting.size_bytes,
        waiting_on=None if chunk.waiting is None else chunk.waiting.executor,
        parts=_log_parts(chunk),
    )


class ArtefactView(msgspec.Struct, kw_only=True):
    """A file that an attempt left in its work folder."""

    name: str
    attempt_number: int
    size_bytes: int
    sha256: str
    url: str
    """The address of its content."""


def artefact_views(run: UUID, found: RunArtefacts) -> list[ArtefactView]:
    """The artefacts of an attempt."""
    return [
        ArtefactView(
            name=each.name,
            attempt_number=found.attempt,
            size_bytes=each.size_bytes,
            sha256=each.sha256,
            url=f"{API}/runs/{run}/artefacts/{quote(each.name, safe='')}?attempt={found.attempt}",
        )
        for each in found.artefacts
    ]


class ResourceView(msgspec.Struct, kw_only=True):
    """A counted resource of an executor."""

    total: int
    free: int
    """As of its last heartbeat."""


class MemoryView(msgspec.Struct, kw_only=True):
    """The memory of an executor that runs with `limits.memory_bytes` reserve."""

    total_bytes: int
    reserved_bytes: int
    """As of its last heartbeat."""


class ExecutorView(msgspec.Struct, kw_only=True):
    """An executor."""

    executor_id: str
    name: str
    alive: bool
    queues: Sequence[str]
    labels: Sequence[str]
    functions: Sequence[str]
    namespaces: Sequence[str] | None
    """It claims runs of these alone; null: of each one."""
    isolation: Sequence[Isolation]
    """The levels that it offers."""
    run_as: Sequence[str]
    """The users that tasks may name."""
    resources: Mapping[str, ResourceView]
    memory: MemoryView | None
    """Null: it counts none."""
    slots: int
    held: int
    registered_at: Instant
    lease_until: Instant
    gone_at: Instant | None


class RunCountView(msgspec.Struct, kw_only=True):
    """The number of runs that came on record with one final state in one hour."""

    hour: Instant
    """The beginning of the hour."""
    status: RunState
    runs: int


def run_count_view(tally: Tally) -> RunCountView:
    """A count as it is answered."""
    return RunCountView(hour=time_of(tally.hour), status=tally.state, runs=tally.runs)


def executor_view(row: ExecutorRow) -> ExecutorView:
    """An executor as it is answered."""
    memory = row.capacities.get(MEMORY)
    return ExecutorView(
        executor_id=str(row.executor),
        name=row.name,
        alive=row.gone_at is None,
        queues=row.queues,
        labels=own_labels(row.labels),
        functions=row.functions,
        namespaces=row.namespaces,
        isolation=offered_levels(row.labels),
        run_as=offered_users(row.labels),
        resources={
            name: ResourceView(total=capacity.whole, free=capacity.free)
            for name, capacity in sorted(row.capacities.items())
            if name != MEMORY
        },
        memory=None if memory is None else MemoryView(total_bytes=memory.whole, reserved_bytes=memory.taken),
        slots=row.slots,
        held=row.held,
        registered_at=time_of(row.registered_at),
        lease_until=time_of(row.lease_until),
        gone_at=time_or_none(row.gone_at),
    )


class Health(msgspec.Struct, kw_only=True):
    """The answer of a healthy process."""

    status: str


PartWord = Literal["ok", "degraded", "failing"]


class HealthSummary(msgspec.Struct, kw_only=True):
    """The health of the installation, as anybody may know it."""

    status: PartWord
    """The worst of the parts."""
    parts: dict[str, PartWord]


class PartDetails(msgspec.Struct, kw_only=True):
    """The status of one part, with its reason."""

    status: PartWord
    detail: str


class HealthDetails(msgspec.Struct, kw_only=True):
    """The health of the installation, with a sentence for each part."""

    status: PartWord
    """The worst of the parts."""
    parts: dict[str, PartDetails]
