"""Jobs, as callers reach them: look up, upsert, pause, resume, run now. To create, change or cancel: `requests`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from msgspec import UNSET

from tickwise.control.access import admitted, check_namespace, requires
from tickwise.control.bodies import JobBody, PauseBody, ResumeBody, RunNowBody
from tickwise.control.context import ControlContext, ReceiptFor
from tickwise.control.demand import make_runs
from tickwise.control.jobs.changes import ChangeResult, FoundJob, JobChanges, function_of
from tickwise.control.jobs.confining import below_floor, below_floor_waits, demand_of_job
from tickwise.control.jobs.moves import JobMoves
from tickwise.control.jobs.policies import payload_of
from tickwise.control.jobs.submission import Submitted, key_taken
from tickwise.control.jobs.transfers import JobTransfers
from tickwise.control.visible_runs import visible_runs
from tickwise.documents.definition import JudgedDefinition, decode_judged, decode_plan, definition_of_run
from tickwise.domain.errors import Conflict, NotFound
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.model import Lane, Principal, Trigger, run_id
from tickwise.domain.permissions import Permission
from tickwise.domain.rules.confinement import Isolation, is_below
from tickwise.domain.selectors import matches
from tickwise.ports.store import (
    PAGE_BYTES,
    ComingQuery,
    EndingQuery,
    JobQuery,
    JobRow,
    JobsOfQuery,
    NewRun,
    Page,
    Replay,
    RunQuery,
    RunRow,
)
from tickwise.roles.shared.costly import CostlyAnswers
from tickwise.roles.shared.served_queues import Serving, not_offered, unserved

DAY_SECONDS: Final = 86_400.0
_GOES_ON: Final = (JobStatus.SCHEDULED, JobStatus.PAUSED)


class JobService:
    """Everything about jobs."""

    def __init__(self, context: ControlContext, changes: JobChanges) -> None:
        self._context = context
        self._changes = changes
        self._moves = JobMoves(context)
        self._transfers = JobTransfers(context, changes.declarations)
        self._coming: CostlyAnswers[Hashable, Page[JobRow]] = CostlyAnswers(context.clock)

    # ------------------------------------------------------------------------------------------ write

    @requires(Permission.JOBS_WRITE, by_labels=True)
    async def upsert(
        self, who: Principal, key: str, body: JobBody, found: FoundJob | None = None
    ) -> Submitted | ChangeResult:
        """Change the job with this key, or create it. With `found`, raises `VersionConflict` if the key belongs to
        another job by now, or to another version."""
        return await self._changes.upsert(who, key, body, found)

    @requires(Permission.JOBS_OPERATE, Permission.JOBS_WRITE, by_labels=True)
    async def pause(self, who: Principal, job_id: UUID, body: PauseBody, *, if_version: int | None = None) -> JobRow:
        """Stop fires by schedule, until it is resumed or until a time. Raises `NotFound`, `Conflict`,
        `VersionConflict`."""
        return await self._moves.pause(who, job_id, body, if_version=if_version)

    @requires(Permission.JOBS_OPERATE, Permission.JOBS_WRITE, by_labels=True)
    async def resume(self, who: Principal, job_id: UUID, body: ResumeBody, *, if_version: int | None = None) -> JobRow:
        """Fire by schedule again. Raises `NotFound`, `Conflict`, `Invalid`, `VersionConflict`."""
        return await self._moves.resume(who, job_id, body, if_version=if_version)

    @requires(Permission.JOBS_WRITE)
    async def move(self, who: Principal, job_id: UUID, there: Principal) -> JobRow:
        """Move a job to another namespace, where `there` is the same caller. Raises `Forbidden` without `jobs:write` in
        both, `NotFound`, `Conflict`."""
        admitted(there, Permission.JOBS_WRITE)
        return await self._transfers.transfer(who, there.namespace, job_id)

    # ------------------------------------------------------------------------------------------ look up, run now

    @requires(Permission.JOBS_READ, by_labels=True)
    async def get(self, who: Principal, job_id: UUID) -> JobRow:
        """One job. Raises `NotFound`."""
        return await self._context.job(who, job_id)

    @requires(Permission.JOBS_READ, by_labels=True)
    async def by_key(self, who: Principal, key: str) -> JobRow:
        """One job, by its key. Raises `NotFound`."""
        row = await self._named(who, key)
        if row is None or not matches(row.labels, who.within):
            raise NotFound(f"there is no job with the key {key[:200]!r} in the namespace {who.namespace}")
        return row

    @requires(Permission.JOBS_OPERATE, Permission.JOBS_WRITE, by_labels=True)
    async def to_change(self, who: Principal, job_id: UUID) -> JobRow:
        """One job, for a write that is judged by the job as it is. Raises `NotFound`."""
        return await self._context.job(who, job_id)

    @requires(Permission.JOBS_WRITE, by_labels=True)
    async def to_upsert(self, who: Principal, key: str) -> FoundJob:
        """The job with this key, if there is one, for a write that is judged by the job as it is. Raises `Conflict` for
        the key of a job that the call may not be about."""
        row = await self._named(who, key)
        if row is not None and not matches(row.labels, who.within):
            raise key_taken(key)
        return FoundJob(row)

    @requires(Permission.JOBS_READ, by_labels=True)
    async def search(self, who: Principal, query: JobQuery) -> Page[JobRow]:
        """Newest first, for people: a replica may be asked. A page is bounded in bytes. Raises `Forbidden` for a query
        about another namespace."""
        check_namespace(who, query.namespace)
        return await self._context.searches.jobs(replace(query, within=who.within, bytes_most=PAGE_BYTES))

    @requires(Permission.JOBS_READ, by_labels=True)
    async def of_calendar(self, who: Principal, calendar: str, limit: int) -> Page[JobRow]:
        """Jobs that go by a calendar and are not cancelled, the newest first. A page is bounded in bytes."""
        query = JobQuery(
            namespace=who.namespace,
            calendar=calendar,
            statuses=[status for status in JobStatus if status is not JobStatus.CANCELLED],
            within=who.within,
            limit=limit,
            bytes_most=PAGE_BYTES,
        )
        return await self._context.searches.jobs(query)

    @requires(Permission.JOBS_READ, by_labels=True)
    async def names(self, who: Principal, jobs: Sequence[UUID]) -> Mapping[UUID, str]:
        """The names of these jobs; nothing of those that are gone, or not the caller's."""
        query = JobsOfQuery(namespace=who.namespace, jobs=jobs, within=who.within)
        return {row.job_id: row.name for row in await self._context.searches.jobs(query)} if jobs else {}

    @requires(Permission.JOBS_READ, by_labels=True)
    async def several(self, who: Principal, jobs: Sequence[UUID]) -> Mapping[UUID, JobRow]:
        """These jobs, in one look; nothing of those that are gone, or not the caller's. A replica may be asked."""
        query = JobsOfQuery(namespace=who.namespace, jobs=jobs, within=who.within)
        return {row.job_id: row for row in await self._context.searches.jobs(query)} if jobs else {}

    @requires(Permission.JOBS_READ, by_labels=True)
    async def ending_with(self, who: Principal, ending: str, limit: int) -> Sequence[JobRow]:
        """The jobs whose ids end with a text, the newest first: of those that recur or are planned, and of others those
        of the last day."""
        since = await self._context.time.now() - DAY_SECONDS
        query = EndingQuery(namespace=who.namespace, ending=ending, since=since, within=who.within, limit=limit)
        return await self._context.searches.jobs(query)

    @requires(Permission.JOBS_READ, by_labels=True)
    async def coming(
        self, who: Principal, *, after: float | None = None, before: float | None = None, limit: int
    ) -> Sequence[JobRow]:
        """The jobs that run next in this time, the earliest first: a bounded look, see `ComingQuery`. Up to 30 s old
        while it costs the store much."""
        query = ComingQuery(namespace=who.namespace, after=after, before=before, within=who.within, limit=limit)
        key = (who.namespace, who.within, after is None, before is None, limit)
        return await self._coming.of(key, lambda: self._context.searches.jobs(query))

    @requires(Permission.JOBS_READ, Permission.JOBS_WRITE, Permission.JOBS_OPERATE, by_labels=True)
    async def warnings(self, _who: Principal, rows: Sequence[JobRow]) -> Sequence[tuple[str, ...]]:
        """The warnings about the definition and the present situation of each of these jobs, in their order. What they
        are judged by is looked up once for all of them."""
        serving = await self._context.executors.serving()
        jobs = [(row, decode_judged(row.definition)) for row in rows]
        notifying = {row.namespace for row, definition in jobs if definition.notify}
        channels = {name: await self._channels(name) for name in notifying}
        floors = {name: await self._context.floors.of(name) for name in {row.namespace for row in rows}}
        return [
            definition.warnings
            if row.status is JobStatus.CANCELLED
            else (
                *definition.warnings,
                *(_untold(definition.notify, channels[row.namespace]) if definition.notify else ()),
                *_below(row, floors[row.namespace]),
                *_unserved(row, definition, serving),
            )
            for row, definition in jobs
        ]

    async def _channels(self, namespace: str) -> set[str]:
        """The names of the channels of a namespace."""
        return {channel.name for channel in await self._context.store.channels.find(namespace)}

    @requires(Permission.JOBS_WRITE, by_labels=True)
    async def queue_warning(self, who: Principal, queue: str) -> str | None:
        """The warning for a job of a queue that no active executor serves; None: one does, or none is active."""
        active = await self._context.executors.rows()
        return unserved(Lane(queue), None, active, who.namespace) if active else None

    @requires(Permission.RUNS_READ, by_labels=True)
    async def status(self, who: Principal, job_id: UUID) -> RunRow | None:
        """Its latest run; None: it has none. A planned skip is no run. Raises `NotFound`."""
        await self._context.job(who, job_id)
        latest = RunQuery(namespace=who.namespace, job_id=job_id, limit=1)
        runs = await visible_runs(self._context.store.searches, latest, await self._context.time.now())
        return runs[0] if runs else None

    @requires(Permission.RUNS_WRITE, by_labels=True)
    async def run_now(
        self, who: Principal, job_id: UUID, body: RunNowBody, receipt_for: ReceiptFor[UUID] | None = None
    ) -> UUID | Replay:
        """Make one run beside the schedule's, for a job in any status; return its id. Raises `Conflict` for a CANCELLED
        job, and for one below the least isolation of its namespace (`isolation_below_minimum`)."""
        row = await self._context.job(who, job_id)
        floor = await self._context.floors.of(row.namespace)
        if is_below(row.lane.requires, floor):
            raise Conflict(below_floor(floor), code="isolation_below_minimum")
        overlap = decode_plan(row.definition).overlap_of_asked() if body.overlap is UNSET else body.overlap
        payload = payload_of(body.payload, body.params)
        definition = definition_of_run(row.definition, payload=payload, trace=who.origin.trace)
        now = await self._context.time.now()
        run = NewRun(
            run_id=run_id(job_id, now, Trigger.RUN_NOW, self._context.clock.random_bytes(16)),
            due=now,
            trigger=Trigger.RUN_NOW,
            definition=definition,
            overlap=overlap,
        )
        receipt = receipt_for(run.run_id) if receipt_for is not None else None
        replay = await make_runs(self._context, who, job_id, (run,), receipt)
        return run.run_id if replay is None else replay

    async def _named(self, who: Principal, key: str) -> JobRow | None:
        return None if "\0" in key else await self._context.store.jobs.get(who.namespace, key)


def _untold(names: Sequence[str], there: set[str]) -> tuple[str, ...]:
    """The warning about channels of `notify` that were removed."""
    gone = [repr(name) for name in names if name not in there]
    if not gone:
        return ()
    channels = (
        f"the channel {gone[0]} of notify is" if len(gone) == 1 else f"the channels {', '.join(gone)} of notify are"
    )
    return (f"{channels} not there: nobody is told that way until there is one of that name again",)


def _unserved(row: JobRow, definition: JudgedDefinition, serving: Serving) -> tuple[str, ...]:
    """The warning about runs that no active executor can take; of a job that is over, about its function alone."""
    function = function_of(row, definition.task)
    if row.status in _GOES_ON:
        passing = serving.missing(row.lane, function, row.namespace, demand_of_job(definition))
    else:
        passing = not_offered(function, serving.functions)
    return () if passing is None else (passing,)


def _below(row: JobRow, floor: Isolation) -> tuple[str, ...]:
    """The warning about a job below the least isolation of its namespace."""
    return (below_floor_waits(floor),) if is_below(row.lane.requires, floor) else ()
