"""Stops: what one would hit, the stop itself, its end, and which there are.

        StopBody ──► scope, times ──┬── preview: `StopImpact`, nothing is changed
                                    └── Stop ──► store ──► executors give back what has not begun
                                                   └── asked for: an operation cancels what runs

Invariant: a stop that a person asks for has a reason and, unless the person says otherwise, an end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Final, NamedTuple
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.control.access import requires
from tickwise.control.audit.entries import entry
from tickwise.control.bodies import QUEUE_PATTERN, Labels
from tickwise.control.bulk.pages import OperationKind, StoredRequest
from tickwise.control.context import ControlContext
from tickwise.control.filters import RunsFilter
from tickwise.control.texts import clean_reason, clean_text
from tickwise.control.times import instant_within, written
from tickwise.documents.definition import decode_definition
from tickwise.domain import schedule as schedules
from tickwise.domain.audit import AuditAction
from tickwise.domain.callers import Asker
from tickwise.domain.decision import Hold
from tickwise.domain.errors import Forbidden, Invalid, NotFound
from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.domain.model import Principal, time_id
from tickwise.domain.permissions import Permission
from tickwise.domain.stops import OPEN_END_SECONDS, STOPS_KEPT_SECONDS, Meanwhile, Stop, StopScope
from tickwise.ports.signals import Topic
from tickwise.ports.store import NO_TEXT, DueJob, JobQuery, NewOperation, RunQuery, RunRow, StopQuery

STOP_SECONDS_USUAL: Final = 3_600.0
"""The length of a stop whose end is not given."""
STOP_SECONDS_MOST: Final = 366 * 86_400.0
PAST_SECONDS: Final = 60.0
"""A begin from up to so long ago is now: clocks differ, and people take their time."""
MAX_COUNTED: Final = 10_000
"""The most runs that a preview counts."""
MAX_DUE: Final = 1_000
"""The most jobs whose fires a preview counts."""
SAMPLE: Final = 10
NOT_CANCELLED: Final = tuple(status for status in JobStatus if status is not JobStatus.CANCELLED)

_encode: Final = msgspec.json.Encoder().encode


class StopBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A stop: its scope (one of `all`, `labels`, `queue`, `job_id`), its reason and its time."""

    all: Annotated[bool, Meta(description="All jobs of the namespace.")] = False
    labels: Annotated[Labels, Meta(description="The jobs that have all of these labels.")] = {}
    queue: Annotated[str, Meta(pattern=QUEUE_PATTERN, description="The jobs of this queue.")] | UnsetType = UNSET
    job_id: Annotated[UUID, Meta(description="This job alone.")] | UnsetType = UNSET
    reason: Annotated[str, Meta(max_length=1_000, description="Shown wherever the stop holds something back.")]
    begin: Annotated[datetime, Meta(tz=True, description="From this time on; now if not sent.")] | None = msgspec.field(
        name="from", default=None
    )
    until: (
        Annotated[datetime, Meta(tz=True, description="Until this time. Not sent: for an hour. Null: until lifted.")]
        | UnsetType
        | None
    ) = UNSET
    meanwhile: Annotated[
        Meanwhile,
        Meta(
            description="Occurrences whose time falls into the stop: `hold` starts each job once for all of them when "
            "the stop ends, `skip` skips them, on record. Runs that were asked for otherwise wait in any case."
        ),
    ] = Meanwhile.HOLD
    cancel_running: Annotated[bool, Meta(description="Cancel what runs already; else it goes on.")] = False


class FireHit(NamedTuple):
    """A job with fires in a stop."""

    job_id: UUID
    name: str
    first: float
    """The nominal time of its first fire in the stop."""
    fires: int
    """The number of its fires in the stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopImpact:
    """The work that a stop would hold back."""

    stop: Stop
    concerned: int | None
    """The jobs of the scope that are not cancelled, `MAX_COUNTED` at most. None: of a queue they are not counted."""
    jobs: int
    """Jobs with a fire in the stop, `MAX_DUE` at most."""
    fires: int
    """The fires of these jobs in the stop."""
    waiting: int
    """Runs that wait now, `MAX_COUNTED` at most."""
    running: int
    """Runs that an executor holds or runs now, `MAX_COUNTED` at most."""
    more: bool
    """There are more jobs than were looked at."""
    hits: Sequence[FireHit]
    """The first of the jobs, by time."""
    going: Sequence[RunRow]
    """The newest of the runs that are held or run."""


class MadeStop(NamedTuple):
    """A stop that is stored."""

    stop: Stop
    cancels: UUID | None
    """The operation that cancels what runs."""


class StopService:
    """Everything about stops."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    @requires(Permission.JOBS_OPERATE, Permission.JOBS_WRITE)
    async def preview(self, who: Principal, body: StopBody) -> StopImpact:
        """Find what a stop would hold back; nothing is changed. Raises `Invalid`, `NotFound`."""
        stop = await self._read(who, body)
        return await self._impact(who, stop)

    @requires(Permission.JOBS_OPERATE, Permission.JOBS_WRITE)
    async def add(self, who: Principal, body: StopBody) -> MadeStop:
        """Stop it. Raises `Invalid`, `NotFound`; `Conflict`, code `stops_exhausted`; `Forbidden` if what runs is to be
        cancelled and the caller may not cancel runs."""
        if body.cancel_running and not who.may(Permission.RUNS_WRITE):
            raise Forbidden(
                f"cancel_running needs the permission runs:write in the namespace {who.namespace}; leave it out to let "
                "running runs go on",
                pointer="/cancel_running",
            )
        stop = await self._read(who, body)
        audit = entry(who, AuditAction.STOP_MADE, "stop", stop.stop_id, after=stop_fields(stop))
        # From the store's own now on, which is not quite ours.
        asked = replace(stop, begin=0.0) if body.begin is None else stop
        stored = await self._context.surely(lambda: self._context.store.stops.add(asked, audit=audit))
        self._context.signals.send(Topic.TIMERS)
        # Executors are asked to return the runs that they hold and have not begun.
        self._context.signals.send(Topic.CANCELS)
        cancels = await self._cancel_running(who, stored) if body.cancel_running else None
        return MadeStop(stored, cancels)

    @requires(Permission.JOBS_OPERATE, Permission.JOBS_WRITE)
    async def lift(self, who: Principal, stop_id: UUID) -> Stop:
        """End a stop now; one that is over stays as it is. Raises `NotFound`."""
        audit = entry(who, AuditAction.STOP_LIFTED, "stop", stop_id)
        lifted = await self._context.surely(
            lambda: self._context.store.stops.lift(who.namespace, stop_id, by=who.name, audit=audit)
        )
        if lifted is None:
            raise _no_stop(who, stop_id)
        self._context.signals.send(Topic.TIMERS)
        self._context.signals.send(Topic.QUEUES)
        return lifted

    @requires(Permission.JOBS_READ)
    async def get(self, who: Principal, stop_id: UUID) -> Stop:
        """One stop. Raises `NotFound`."""
        for found in await self._context.store.stops.find(StopQuery(namespace=who.namespace, stop_id=stop_id)):
            return found
        raise _no_stop(who, stop_id)

    @requires(Permission.JOBS_READ)
    async def page(self, who: Principal, *, standing: bool, before: UUID | None, limit: int) -> Sequence[Stop]:
        """Stops, the newest first. `standing`: only those that are in force or to come."""
        since = 0.0 if standing else STOPS_KEPT_SECONDS
        query = StopQuery(namespace=who.namespace, over_seconds=since, before=before, limit=limit)
        return await self._context.store.stops.find(query)

    # ------------------------------------------------------------------------------------------ parts

    async def _read(self, who: Principal, body: StopBody) -> Stop:
        """The stop that is asked for. Raises `Invalid`, `NotFound`."""
        scope = _scope(body)
        if scope.job_id is not None:
            await self._context.job(who, scope.job_id)
        reason = (clean_reason(body.reason, "/reason") or "").strip()
        if not reason:
            raise Invalid("say why: the reason is shown to everybody whose jobs are stopped", pointer="/reason")
        now = await self._context.time.now()
        begin = now if body.begin is None else instant_within(body.begin, "/from")
        if begin < now - PAST_SECONDS:
            raise Invalid("from is in the past; leave it out to stop from now on", pointer="/from")
        begin = max(begin, now)
        open_ended = body.until is None
        until = begin + (OPEN_END_SECONDS if open_ended else STOP_SECONDS_USUAL)
        if isinstance(body.until, datetime):
            until = instant_within(body.until, "/until")
            if until <= begin:
                raise Invalid("until is not after from; give a later time", pointer="/until")
            if until > begin + STOP_SECONDS_MOST:
                raise Invalid("a stop lasts at most 366 days; send null to stop until it is lifted", pointer="/until")
        return Stop(
            stop_id=time_id(int(now * 1000), self._context.clock.random_bytes(10)),
            namespace=who.namespace,
            scope=scope,
            begin=begin,
            until=until,
            open_ended=open_ended,
            meanwhile=body.meanwhile,
            reason=reason,
            by=who.name,
        )

    async def _impact(self, who: Principal, stop: Stop) -> StopImpact:
        store, query = self._context.store, _runs_of(stop)
        # Of one without an end, what falls into its first day.
        until = min(stop.until, stop.begin + 86_400.0) if stop.open_ended else stop.until
        due = await store.stops.due(who.namespace, stop.scope, until=until, limit=MAX_DUE + 1)
        hits = [hit for job in due[:MAX_DUE] if (hit := _hit(job, stop.begin, until)) is not None]
        waiting = replace(query, states=(RunState.QUEUED, RunState.RETRYING))
        going = replace(query, states=(RunState.DISPATCHED, RunState.RUNNING))
        may_read = who.may(Permission.RUNS_READ)
        return StopImpact(
            stop=stop,
            concerned=await self._concerned(stop),
            jobs=len(hits),
            fires=sum(hit.fires for hit in hits),
            waiting=int(await store.searches.count(waiting)),
            running=int(await store.searches.count(going)),
            more=len(due) > MAX_DUE,
            hits=hits[:SAMPLE] if who.may(Permission.JOBS_READ) else (),
            going=await store.searches.runs(replace(going, limit=SAMPLE)) if may_read else (),
        )

    async def _concerned(self, stop: Stop) -> int | None:
        """The number of jobs of its scope; of a queue that no job has used 0, of another one None."""
        scope, store = stop.scope, self._context.store
        if scope.queue is not None:
            rows = await store.queues.all(stop.namespace)
            return None if any(row.queue == scope.queue for row in rows) else 0
        if scope.job_id is not None:
            return 1
        query = JobQuery(namespace=stop.namespace, labels=scope.labels, statuses=NOT_CANCELLED, limit=MAX_COUNTED)
        return int(await store.searches.count(query))

    async def _cancel_running(self, who: Principal, stop: Stop) -> UUID:
        """An operation that cancels what runs in the scope of a stop; its id."""
        scope, now = stop.scope, await self._context.time.now()
        said = RunsFilter(
            status=[RunState.RUNNING],
            labels=dict(scope.labels),
            queue=UNSET if scope.queue is None else scope.queue,
            job_id=UNSET if scope.job_id is None else scope.job_id,
        )
        operation = NewOperation(
            operation_id=time_id(int(now * 1000), self._context.clock.random_bytes(10)),
            namespace=who.namespace,
            kind=OperationKind.RUNS_CANCEL,
            request=_encode(StoredRequest(filter=msgspec.Raw(_encode(said)))).decode(),
            created_by=who.name,
            matched=None,
            asker=Asker.of(who),
        )
        detail = {"kind": operation.kind, "stop": str(stop.stop_id)}
        audit = entry(who, AuditAction.OPERATION_REQUESTED, "operation", operation.operation_id, detail=detail)
        await self._context.surely(lambda: self._context.store.operations.add(operation, audit=audit))
        self._context.signals.send(Topic.OPERATIONS)
        return operation.operation_id


def stop_fields(stop: Stop) -> dict[str, object]:
    """The fields of a stop for the audit log."""
    return {
        "scope": stop.scope.words(),
        "reason": stop.reason,
        "from": written(stop.begin),
        "until": None if stop.open_ended else written(stop.until),
        "meanwhile": stop.meanwhile.value,
    }


def _scope(body: StopBody) -> StopScope:
    """The scope of a body. Raises `Invalid` unless it names exactly one."""
    named = [
        name
        for name, said in (
            ("all", body.all), ("labels", bool(body.labels)), ("queue", body.queue is not UNSET),
            ("job_id", body.job_id is not UNSET),
        )
        if said
    ]  # fmt: skip
    if not named:
        raise Invalid("say what is to stop: labels, queue, job_id, or all for the whole namespace", pointer="/labels")
    if len(named) > 1:
        raise Invalid(f"{named[0]} and {named[1]} are two scopes; send one of them", pointer=f"/{named[1]}")
    for name, value in body.labels.items():
        clean_text(name, "/labels")
        clean_text(value, "/labels")
    queue = None if isinstance(body.queue, UnsetType) else body.queue
    return StopScope(body.labels, queue, None if isinstance(body.job_id, UnsetType) else body.job_id)


def _runs_of(stop: Stop) -> RunQuery:
    """The runs of the scope of a stop."""
    scope = stop.scope
    return RunQuery(
        namespace=stop.namespace,
        job_id=scope.job_id,
        labels=scope.labels,
        queue=scope.queue,
        limit=MAX_COUNTED,
        texts=NO_TEXT,
    )


def _hit(job: DueJob, begin: float, until: float) -> FireHit | None:
    """The fires of a job within a time; None: there are none."""
    schedule = decode_definition(job.definition).schedule(job.job_id)
    timer = job.timer
    if timer.hold is Hold.PAUSED or not schedule.recurs:
        return FireHit(job.job_id, job.name, timer.due, 1) if begin <= timer.due < until else None
    start = max(begin, timer.due)
    first = timer.due if timer.hold is None and timer.due >= begin else schedules.first_fire(schedule, start)
    if first is None or first >= until:
        return None
    rest = schedules.count_between(schedule, schedules.just_after(first), until)
    return FireHit(job.job_id, job.name, first, 1 + rest)


def _no_stop(who: Principal, stop_id: UUID) -> NotFound:
    return NotFound(f"there is no stop {stop_id} in the namespace {who.namespace}")
