"""`/jobs`: create, list, change, cancel, pause, resume, run now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.api.conditions import Conditions, etag, guarded, tag_of
from tickwise.api.endpoint import (
    BATCH_BYTES_MAX,
    Call,
    Endpoint,
    Reply,
    answer,
    cursor_place,
    given,
    given_instant,
    labels_of,
    page_links,
    replayed,
    search_cursor,
)
from tickwise.api.ingest import BATCH_TYPES, REFUSALS, JobsBody, job_bodies, job_body, job_parts
from tickwise.api.merging import MERGE_PATCH, patched
from tickwise.api.pending import PendingBatchView, PendingView, accepted, accepted_many
from tickwise.api.problems import BatchRefused, Headers, ResultView, problem_of
from tickwise.api.reading import JSON_TYPES, decode, field_names
from tickwise.api.resources.job_pages import JobPages
from tickwise.api.resources.runs import ENDING, Cursor, Limit, RunsOfJobQuery, check_alone, runs_page
from tickwise.api.resources.written import JobWrittenView, check_tags, job_written, reads_jobs
from tickwise.api.spelling import as_spelled
from tickwise.api.wire import (
    API,
    BatchView,
    ChangeView,
    JobCreated,
    JobView,
    RunDemanded,
    RunView,
    StatusView,
    change_view,
    encode,
    job_view,
    run_view,
)
from tickwise.control.bodies import JobBody, JobChangeBody, PauseBody, ResumeBody, RunNowBody
from tickwise.control.buffered.pending import PendingBatch, PendingRequest
from tickwise.control.jobs.changes import ChangeResult, FoundJob
from tickwise.control.jobs.moves import check_version
from tickwise.control.jobs.service import JobService
from tickwise.control.jobs.submission import Submitted, Verdict
from tickwise.control.requests import RequestService
from tickwise.control.runs.service import RunService
from tickwise.domain.errors import Bug, Refused
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.schedule import ScheduleType
from tickwise.ports.paging import place_after
from tickwise.ports.store import JobQuery, JobRow, Replay

Time = Annotated[datetime, Meta(tz=True)]
_HERE: Final = f"{API}/jobs/".encode()

_pause: Final = msgspec.json.Decoder(PauseBody)
_resume: Final = msgspec.json.Decoder(ResumeBody)
_run_now: Final = msgspec.json.Decoder(RunNowBody)


class _Told(msgspec.Struct):
    """The source of an answer's headers."""

    job_id: UUID
    name: str | UnsetType = UNSET


_told: Final = msgspec.json.Decoder(_Told).decode
_pages: Final = JobPages()


class JobsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A search for jobs; everything given must match."""

    name: Annotated[str, Meta(max_length=200, description="A part of the name, in any case.")] | UnsetType = UNSET
    key: Annotated[str, Meta(max_length=200)] | UnsetType = UNSET
    label: Annotated[list[str], Meta(description="name=value; may be given several times.")] = []
    status: Annotated[list[JobStatus], Meta(max_length=5, description="May be given several times.")] = []
    schedule_type: ScheduleType | UnsetType = UNSET
    task_kind: Annotated[str, Meta(max_length=200)] | UnsetType = UNSET
    owner: Annotated[str, Meta(max_length=200)] | UnsetType = UNSET
    next_run_after: Time | UnsetType = UNSET
    next_run_before: Time | UnsetType = UNSET
    job_id: Annotated[
        list[UUID], Meta(max_length=40, description="Any of these jobs; may be given several times.")
    ] = []
    id_end: (
        Annotated[
            str,
            Meta(
                pattern=ENDING,
                description="The last characters of its id, as the command line shows it. Looked for among jobs that "
                "recur or are planned, and those of the last day. No other "
                "parameter but `limit` goes with it. The answer has one page.",
            ),
        ]
        | UnsetType
    ) = UNSET
    next_allowed: Annotated[
        bool,
        Meta(
            description="`next_run_at` of jobs that recur is the first time that calendars, maintenance windows and "
            "stops let run, and not the next one of the schedule; null: none soon. It does not concern "
            "`next_run_after` and `next_run_before`."
        ),
    ] = False
    limit: Limit = 50
    cursor: Cursor | UnsetType = UNSET


class BatchQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The options of a batch."""

    atomic: Annotated[bool, Meta(description="All or none.")] = False


class ChangeQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The options of a change."""

    dry_run: Annotated[bool, Meta(description="Answer the difference in the next 20 fires; change nothing.")] = False
    if_version: (
        Annotated[
            int,
            Meta(
                ge=1, description="Only if the job is at this `version` (else 412); changes of its runs do not matter."
            ),
        ]
        | UnsetType
    ) = UNSET


# ------------------------------------------------------------------------------------------ create


async def job_create(call: Call) -> Reply:
    """One job. The hottest route."""
    create = call.control.requests.create
    claim = call.claim
    if claim is None:
        done = await create(call.principal, lambda: job_body(call.body))
    else:
        done = await create(
            call.principal,
            lambda: job_body(call.body),
            once=claim.once,
            receipt_for=lambda made: claim.receipt(_created(made)),
        )
    if isinstance(done, Submitted):
        return _created(done)
    return replayed(call, done) if isinstance(done, Replay) else accepted(done)


def _created(submitted: Submitted) -> Reply:
    job_id = str(submitted.job_id).encode()
    headers = _location(job_id)
    if not submitted.warnings:
        return Reply(201, b'{"job_id":"%b"}' % job_id, headers)
    return answer(201, JobCreated(job_id=submitted.job_id, warnings=submitted.warnings), headers=headers)


def _location(job_id: bytes) -> Headers:
    return [(b"location", _HERE + job_id)]


def _location_of(body: bytes) -> Headers:
    """The header that belongs to the answer of a create."""
    return _location(str(_told(body).job_id).encode())


async def jobs_batch(call: Call) -> Reply:
    """Up to 10,000 jobs."""
    query: BatchQuery = call.query
    claim = call.claim
    done = await call.control.requests.create_many(
        call.principal,
        lambda: job_bodies(call.body, call.media, call.control.clock, call.job_bytes_max),
        atomic=query.atomic,
        once=None if claim is None else claim.once,
        receipt_for=None if claim is None else lambda verdicts: claim.receipt(_batch(verdicts)),
    )
    if isinstance(done, Replay):
        return replayed(call, done)
    if isinstance(done, PendingBatch):
        await _point_as_spelled(call, done.verdicts)
        return accepted_many(done)
    await _point_as_spelled(call, done)
    if query.atomic and not all(isinstance(verdict, Submitted) for verdict in done):
        refused = sum(not isinstance(verdict, Submitted) for verdict in done)
        raise BatchRefused(
            f"{refused} of {len(done)} jobs cannot be stored, so none was; results has the error of each",
            [_result(verdict) for verdict in done if not isinstance(verdict, Submitted)]
            if len(done) == refused
            else [_result(verdict, stored=False) for verdict in done],
        )
    return _batch(done)


async def _point_as_spelled(call: Call, verdicts: Sequence[object]) -> None:
    """Let each refusal point at a member as the caller wrote it."""
    refused = [(place, each) for place, each in enumerate(verdicts) if isinstance(each, Refused) and each.pointer]
    parts = job_parts(call.body, call.media) if refused else ()
    for number, (place, refusal) in enumerate(refused, 1):
        if number % REFUSALS == 0:
            await call.control.clock.sleep(0)
        refusal.pointer = as_spelled(JobBody, bytes(parts[place]), refusal.pointer or "")


def _batch(verdicts: Sequence[Verdict]) -> Reply:
    results = [_result(verdict) for verdict in verdicts]
    created = sum(result.problem is None for result in results)
    return answer(200, BatchView(created=created, refused=len(results) - created, results=results))


def _result(verdict: Verdict, *, stored: bool = True) -> ResultView:
    if isinstance(verdict, Submitted):
        if not stored:
            return ResultView(status=424)
        return ResultView(status=201, job_id=verdict.job_id, warnings=verdict.warnings)
    problem, _ = problem_of(verdict)
    return ResultView(status=problem.status, problem=problem)


# ------------------------------------------------------------------------------------------ look up


async def _shown(call: Call, row: JobRow) -> bytes:
    """The answer to a GET of the job, from which its tag is made."""
    [warnings] = await call.control.jobs.warnings(call.principal, [row])
    return encode(job_view(row, warnings, pending=await call.control.buffered.is_change_pending(call.principal, row)))


async def _changed(call: Call, row: JobRow, warnings: Sequence[str] = ()) -> Reply:
    """The job after a write, with what is to be said of the write; the tag is that of the job. A caller that may not
    see the job is answered without it, and without a tag."""
    if not reads_jobs(call.principal):
        return answer(200, job_written(row, warnings))
    shown = await _shown(call, row)
    headers = [(b"content-location", _HERE + str(row.job_id).encode()), *etag(shown)]
    if not warnings:
        return Reply(200, shown, headers)
    [lasting] = await call.control.jobs.warnings(call.principal, [row])
    return answer(200, job_view(row, [*lasting, *warnings]), headers=headers)


def _headers_of_move(body: bytes) -> Headers:
    """The headers that belong to the answer of a move; one without the job itself has none."""
    told = _told(body)
    return [] if told.name is UNSET else [(b"content-location", _HERE + str(told.job_id).encode()), *etag(body)]


async def job_get(call: Call) -> Reply:
    """One job."""
    return Reply(200, await _shown(call, await call.control.jobs.get(call.principal, call.uuid("job_id", "job"))))


async def job_by_key(call: Call) -> Reply:
    """One job, by its key."""
    return Reply(200, await _shown(call, await call.control.jobs.by_key(call.principal, call.path_values["key"])))


async def jobs_list(call: Call) -> Reply:
    """A page of jobs, newest first."""
    said: JobsQuery = call.query
    if said.id_end is not UNSET:
        check_alone(said, "id_end", "limit", "next_allowed")
        ending = await call.control.jobs.ending_with(call.principal, said.id_end, said.limit)
        return Reply(200, await _listed(call, ending))
    place = cursor_place(said.cursor)
    is_rest = place is not None and place.is_rest
    rows = await call.control.jobs.search(
        call.principal,
        JobQuery(
            namespace=call.principal.namespace,
            name=given(said.name),
            key=given(said.key),
            ids=said.job_id,
            labels=labels_of(said.label),
            statuses=said.status,
            schedule_type=given(said.schedule_type),
            task_kind=given(said.task_kind),
            owner=given(said.owner),
            next_run_after=given_instant(said.next_run_after),
            next_run_before=given_instant(said.next_run_before),
            before=None if place is None else place.before,
            may_pause=True,
            is_rest=is_rest,
            rest_from=None if place is None else place.rest_from,
            limit=said.limit + 1,
        ),
    )
    goes_on = search_cursor(place_after(rows, said.limit, lambda row: row.listed, is_rest=is_rest))
    return Reply(200, await _listed(call, rows[: said.limit]), page_links(call, goes_on))


async def _listed(call: Call, rows: Sequence[JobRow]) -> bytes:
    """The jobs of a list."""
    query: JobsQuery = call.query
    if query.next_allowed:
        rows = await call.control.schedules.next_allowed(call.principal, rows)
    return _pages.content(rows, await call.control.jobs.warnings(call.principal, rows))


async def job_status(call: Call) -> Reply:
    """The latest run."""
    job_id = call.uuid("job_id", "job")
    latest = await call.control.jobs.status(call.principal, job_id)
    return answer(200, StatusView(job_id=job_id, latest_run=None if latest is None else run_view(latest)))


async def job_runs(call: Call) -> Reply:
    """A page of its runs, newest first."""
    return await runs_page(call, call.uuid("job_id", "job"))


# ------------------------------------------------------------------------------------------ change


async def _change(call: Call, job_id: UUID, body: JobBody, text: bytes, *, if_version: int | None) -> Reply:
    query: ChangeQuery = call.query
    done = await call.control.requests.change(
        call.principal, job_id, body, text=text, if_version=if_version, dry_run=query.dry_run
    )
    if isinstance(done, PendingRequest):
        return accepted(done)
    return answer(200, change_view(done)) if query.dry_run else await _changed(call, done.row, done.warnings)


async def job_change(call: Call) -> Reply:
    """Change the fields that were sent."""
    query: ChangeQuery = call.query
    job_id = call.uuid("job_id", "job")

    async def change(version: int | None) -> Reply:
        body = job_body(call.body)
        return await _change(call, job_id, body, call.body, if_version=version)

    return await _guarded(call, job_id, change, given(query.if_version))


async def job_patch(call: Call) -> Reply:
    """Change a job; a merge patch also changes members of objects."""
    if call.media != MERGE_PATCH:
        return await job_change(call)
    query: ChangeQuery = call.query
    job_id = call.uuid("job_id", "job")
    check_tags(call.principal, call.conditions)

    async def look() -> tuple[JobRow, bytes]:
        row = await call.control.jobs.to_change(call.principal, job_id)
        check_version(row, given(query.if_version))
        return row, tag_of(await _shown(call, row))

    async def write(row: JobRow | None) -> Reply:
        if row is None:
            raise Bug("a merge patch needs the job that it is merged with")
        text = patched(row, call.body)
        return await _change(call, job_id, job_body(text), text, if_version=row.version)

    return await guarded(call.conditions or Conditions(), look, write)


async def _guarded(
    call: Call, job_id: UUID, write: Callable[[int | None], Awaitable[Reply]], only: int | None = None
) -> Reply:
    """Write to a job that is there, if the preconditions allow it; `write` is given the version to hold to, which is
    `only` this one if that is given."""
    check_tags(call.principal, call.conditions)
    if only is not None and call.conditions is None:
        return await write(only)

    async def look() -> tuple[JobRow, bytes]:
        row = await call.control.jobs.to_change(call.principal, job_id)
        check_version(row, only)
        return row, tag_of(await _shown(call, row))

    return await guarded(call.conditions, look, lambda row: write(None if row is None else row.version))


async def job_upsert(call: Call) -> Reply:
    """Change the job with this key, or create it."""
    key = call.path_values["key"]
    check_tags(call.principal, call.conditions)

    async def look() -> tuple[FoundJob, bytes | None]:
        found = await call.control.jobs.to_upsert(call.principal, key)
        return found, None if found.row is None else tag_of(await _shown(call, found.row))

    async def write(found: FoundJob | None) -> Reply:
        done = await call.control.jobs.upsert(call.principal, key, job_body(call.body), found)
        return await _changed(call, done.row, done.warnings) if isinstance(done, ChangeResult) else _created(done)

    return await guarded(call.conditions, look, write)


async def job_cancel(call: Call) -> Reply:
    """Cancel it."""
    job_id = call.uuid("job_id", "job")

    async def cancel(version: int | None) -> Reply:
        done = await call.control.requests.cancel(call.principal, job_id, if_version=version)
        return accepted(done) if isinstance(done, PendingRequest) else await _changed(call, done)

    return await _guarded(call, job_id, cancel)


async def job_pause(call: Call) -> Reply:
    """Pause it."""
    body = decode(_pause, call.body or b"{}", field_names(PauseBody))
    job_id = call.uuid("job_id", "job")

    async def pause(version: int | None) -> Reply:
        return await _changed(call, await call.control.jobs.pause(call.principal, job_id, body, if_version=version))

    return await _guarded(call, job_id, pause)


async def job_resume(call: Call) -> Reply:
    """Resume it."""
    body = decode(_resume, call.body or b"{}", field_names(ResumeBody))
    job_id = call.uuid("job_id", "job")

    async def resume(version: int | None) -> Reply:
        return await _changed(call, await call.control.jobs.resume(call.principal, job_id, body, if_version=version))

    return await _guarded(call, job_id, resume)


async def job_run_now(call: Call) -> Reply:
    """Ask for one run."""
    body = decode(_run_now, call.body or b"{}", field_names(RunNowBody))
    claim = call.claim
    done = await call.control.jobs.run_now(
        call.principal,
        call.uuid("job_id", "job"),
        body,
        None if claim is None else lambda run_id: claim.receipt(answer(202, RunDemanded(run_id=run_id))),
    )
    if isinstance(done, Replay):
        return replayed(call, done)
    return answer(202, RunDemanded(run_id=done))


_BUFFERED: Final = (
    "Where requests are buffered (`ingest`), the answer is 202 as soon as the broker has it, and the outcome is at "
    "`/operations/{operation_id}`."
)

JOBS: Final = (
    Endpoint(
        method="POST", path=f"{API}/jobs", control=RequestService.create, name="createJob", tag="jobs",
        summary="Create a job. The answer comes once it is durable.", description=_BUFFERED,
        handler=job_create, body=JobBody, answers=(JobCreated,), status=201, refuses=(409,), foretold=True, keyed=True,
        headers_of=_location_of, answer_headers=("Location",), pending=(PendingView,),
    ),
    Endpoint(
        method="POST", path=f"{API}/jobs:batch", control=RequestService.create_many, name="createJobs", tag="jobs",
        summary="Create up to 10,000 jobs in one transaction.",
        handler=jobs_batch, body=JobsBody, answers=(BatchView,), query=BatchQuery, media=BATCH_TYPES,
        body_bytes_max=BATCH_BYTES_MAX, foretold=True, keyed=True,
        description=f"{_BUFFERED} One that is `atomic` is not buffered.", pending=(PendingBatchView,),
    ),
    Endpoint(
        method="GET", path=f"{API}/jobs", control=JobService.search, name="listJobs", tag="jobs",
        summary="List and search jobs, newest first.",
        description="A search looks at a bounded number of jobs for each page: a page may be short, or empty, and its "
        "`Link` leads on. Then jobs that recur or run on demand come first, and older one-time jobs behind them.",
        handler=jobs_list, answers=(list[JobView],), query=JobsQuery,
    ),
    Endpoint(
        method="GET", path=f"{API}/jobs/by-key/{{key}}", control=JobService.by_key, name="getJobByKey", tag="jobs",
        summary="One job, by its key.", handler=job_by_key, answers=(JobView,), refuses=(404,),
        conditional=True,
    ),
    Endpoint(
        method="PUT", path=f"{API}/jobs/by-key/{{key}}", control=JobService.upsert, name="upsertJob", tag="jobs",
        summary="Change the job with this key, or create it.",
        handler=job_upsert, body=JobChangeBody, answers=(JobView, JobWrittenView), also={201: (JobCreated,)},
        refuses=(404, 409, 412),
        answer_headers=("Location",),
        conditional=True,
    ),
    Endpoint(
        method="GET", path=f"{API}/jobs/{{job_id}}", control=JobService.get, name="getJob", tag="jobs",
        summary="One job with every field.", handler=job_get, answers=(JobView,), refuses=(404,),
        pending=(PendingView,), conditional=True,
    ),
    Endpoint(
        method="PUT", path=f"{API}/jobs/{{job_id}}", control=RequestService.change, name="changeJob", tag="jobs",
        summary="Change the fields that are sent; a new schedule replaces the old one as a whole and counts from now.",
        description="No change makes a run of the past: occurrences that were due and have no run are recorded as "
        f"skipped. A paused job stays paused. {_BUFFERED} With a precondition, `if_version` or "
        "`dry_run` it is not buffered.",
        handler=job_change, body=JobChangeBody, answers=(JobView, JobWrittenView, ChangeView), query=ChangeQuery,
        refuses=(404, 409, 412), conditional=True, pending=(PendingView,),
    ),
    Endpoint(
        method="PATCH", path=f"{API}/jobs/{{job_id}}", control=RequestService.change, name="patchJob", tag="jobs",
        summary="Change the fields that are sent, as PUT does.",
        description="As `application/merge-patch+json` (RFC 7396) an object changes the members that it has, and null "
        f"takes one away; as `application/json` it replaces the whole object. {_BUFFERED} With a precondition, "
        "`if_version` or `dry_run`, or as a merge patch, it is not buffered.",
        handler=job_patch, body=JobChangeBody, answers=(JobView, JobWrittenView, ChangeView), query=ChangeQuery,
        media=JSON_TYPES | {MERGE_PATCH}, refuses=(404, 409, 412), conditional=True,
        pending=(PendingView,),
    ),
    Endpoint(
        method="DELETE", path=f"{API}/jobs/{{job_id}}", control=RequestService.cancel, name="cancelJob", tag="jobs",
        summary="Cancel a job and ask its running attempt to stop.",
        description=f"{_BUFFERED} With a precondition it is not buffered.",
        handler=job_cancel, answers=(JobView, JobWrittenView), refuses=(404, 412), conditional=True,
        pending=(PendingView,),
    ),
    Endpoint(
        method="GET", path=f"{API}/jobs/{{job_id}}/status", control=JobService.status, name="getJobStatus", tag="jobs",
        summary="The latest run of a job.", handler=job_status, answers=(StatusView,), refuses=(404,),
        pending=(PendingView,),
    ),
    Endpoint(
        method="GET", path=f"{API}/jobs/{{job_id}}/runs", control=RunService.search, name="listJobRuns", tag="runs",
        summary="The runs of a job, newest first.",
        handler=job_runs, answers=(list[RunView],), query=RunsOfJobQuery, refuses=(404,), pending=(PendingView,),
    ),
    Endpoint(
        method="POST", path=f"{API}/jobs/{{job_id}}/runNow", control=JobService.run_now, name="runJobNow", tag="jobs",
        summary="Ask for one run beside the schedule.",
        handler=job_run_now, body=RunNowBody, optional_body=True, answers=(RunDemanded,), status=202,
        refuses=(404, 409), foretold=True,
    ),
    Endpoint(
        method="POST", path=f"{API}/jobs/{{job_id}}/pause", control=JobService.pause, name="pauseJob", tag="jobs",
        summary="Stop the schedule of a recurring job, for good or until a time.",
        handler=job_pause, body=PauseBody, optional_body=True, answers=(JobView, JobWrittenView),
        refuses=(404, 409, 412),
        conditional=True, headers_of=_headers_of_move,
    ),
    Endpoint(
        method="POST", path=f"{API}/jobs/{{job_id}}/resume", control=JobService.resume, name="resumeJob", tag="jobs",
        summary="Resume the schedule from now. Occurrences of the pause stay on record, and run only if asked for.",
        handler=job_resume, body=ResumeBody, optional_body=True, answers=(JobView, JobWrittenView),
        refuses=(404, 409, 412),
        conditional=True, headers_of=_headers_of_move,
    ),
)  # fmt: skip
