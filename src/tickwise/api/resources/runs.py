"""`/runs`: search, look at, cancel, retry, read logs; and the executors that run them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.api.endpoint import (
    LIMIT_SAID,
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
from tickwise.api.negotiation import prefers_json
from tickwise.api.problems import BadParameter
from tickwise.api.reading import decode, field_names
from tickwise.api.wire import (
    API,
    ArtefactView,
    ExecutorView,
    LogView,
    RunCountView,
    RunDemanded,
    RunDetailView,
    RunStateView,
    RunView,
    artefact_views,
    executor_view,
    log_view,
    run_count_view,
    run_detail_view,
    run_view,
)
from tickwise.control.bodies import RunRetryBody
from tickwise.control.cluster import ClusterService
from tickwise.control.filters import Text, TriggerName
from tickwise.control.runs.artefacts import attachment
from tickwise.control.runs.downloads import Download, DownloadRequest, answer_download
from tickwise.control.runs.service import RunService
from tickwise.domain.errors import Invalid
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Trigger
from tickwise.ports.paging import place_after
from tickwise.ports.store import Replay, RunQuery

LOG_BYTES_MAX: Final = 4 << 20
LOG_BYTES_USUAL: Final = 1 << 20
OFFSET_MAX: Final = 1 << 40

Limit = Annotated[int, Meta(ge=1, le=500, description=LIMIT_SAID)]
Cursor = Annotated[
    str,
    Meta(max_length=500, pattern=r"^[A-Za-z0-9_-]+$(?!\n)", description="From the `Link` header of the page before."),
]
Time = Annotated[datetime, Meta(tz=True)]
States = Annotated[list[RunState], Meta(max_length=8, description="May be given several times.")]

_retry: Final = msgspec.json.Decoder(RunRetryBody)


_RANGES: Final = (b"range", b"if-range")

ENDING: Final = r"^[0-9a-f-]{4,36}$(?!\n)"
"""The end of an id, as it is written."""
ExecutorId = Annotated[
    str, Meta(pattern=r"^\d{1,18}$(?!\n)", description="The executor that has the run, or had it last.")
]
Triggers = Annotated[list[TriggerName], Meta(max_length=6, description="May be given several times.")]


class RunsOfJobQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A search among the runs of one job."""

    status: States = []
    trigger: Triggers = []
    origin: (
        Annotated[UUID, Meta(description="The run that was retried or that started it, or the backfill.")] | UnsetType
    ) = UNSET
    reason: Text | UnsetType = UNSET
    executor_id: ExecutorId | UnsetType = UNSET
    due_after: Time | UnsetType = UNSET
    due_before: Time | UnsetType = UNSET
    limit: Limit = 50
    cursor: Cursor | UnsetType = UNSET


class RunsQuery(RunsOfJobQuery, forbid_unknown_fields=True, kw_only=True):
    """A search for runs; everything given must match."""

    job_id: UUID | UnsetType = UNSET
    job_name: Annotated[str, Meta(max_length=200, description="A part of its job's name, in any case.")] | UnsetType = (
        UNSET
    )
    label: Annotated[
        list[str], Meta(max_length=20, description="name=value, of its job; may be given several times.")
    ] = []
    queue: Annotated[Text, Meta(description="Of its job.")] | UnsetType = UNSET
    id_end: (
        Annotated[
            str,
            Meta(
                pattern=ENDING,
                description="The last characters of its id, as the command line shows it. Looked for among runs under "
                "way and those of the last day. No other parameter but `limit` goes with it. The answer has one page.",
            ),
        ]
        | UnsetType
    ) = UNSET
    latest_of: Annotated[
        list[UUID],
        Meta(
            max_length=40,
            description="The latest run of each of these jobs, without its error and result; a future one only if "
            "there is no other among the newest 5. May be given several times. No other parameter goes with it.",
        ),
    ] = []


class RunCountsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The hours; the last day if none are named."""

    since: Time | UnsetType = UNSET
    until: Time | UnsetType = UNSET


class ArtefactsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The attempt that left them."""

    attempt: Annotated[int, Meta(ge=1, description="The newest attempt if it is left out.")] | UnsetType = UNSET


class LogQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The log, and the part of it."""

    attempt: Annotated[int, Meta(ge=1, le=1_000_000)] | UnsetType = UNSET
    offset: Annotated[int, Meta(ge=0, le=OFFSET_MAX)] = 0
    limit: Annotated[int, Meta(ge=1, le=LOG_BYTES_MAX)] = LOG_BYTES_USUAL


async def runs_page(call: Call, job_id: UUID | None) -> Reply:
    """A page of runs, newest first: of one job, or of all."""
    said: RunsOfJobQuery = call.query
    place = cursor_place(said.cursor)
    is_rest = place is not None and place.is_rest
    query = RunQuery(
        namespace=call.principal.namespace,
        job_id=job_id,
        states=said.status,
        triggers=[Trigger[name.name] for name in said.trigger],
        origin=given(said.origin),
        reason=given(said.reason),
        executor=None if said.executor_id is UNSET else int(said.executor_id),
        due_after=given_instant(said.due_after),
        due_before=given_instant(said.due_before),
        before=None if place is None else place.before,
        may_pause=True,
        is_rest=is_rest,
        limit=said.limit + 1,
    )
    if isinstance(said, RunsQuery):
        query = replace(query, job_name=given(said.job_name), labels=labels_of(said.label), queue=given(said.queue))
    rows = await call.control.runs.search(call.principal, query, must_exist=not isinstance(said, RunsQuery))
    goes_on = search_cursor(place_after(rows, said.limit, lambda row: row.run_id, is_rest=is_rest))
    return answer(200, [run_view(row) for row in rows[: said.limit]], headers=page_links(call, goes_on))


def check_alone(said: msgspec.Struct, name: str, *beside: str) -> None:
    """Raise `BadParameter` if anything but these parameters was sent."""
    others = set(said.__struct_fields__) - {name, *beside}
    sent = sorted(field for field in others if getattr(said, field) not in (UNSET, []))
    if sent:
        raise BadParameter(f"{name} goes without {', '.join(sent)}", parameter=sent[0])


async def runs_list(call: Call) -> Reply:
    """A page of runs."""
    said: RunsQuery = call.query
    if said.id_end is not UNSET:
        check_alone(said, "id_end", "limit")
        found = await call.control.runs.ending_with(call.principal, said.id_end, said.limit)
        return answer(200, [run_view(row) for row in found])
    if said.latest_of:
        check_alone(said, "latest_of", "limit")
        return answer(200, [run_view(row) for row in await call.control.runs.last(call.principal, said.latest_of)])
    return await runs_page(call, given(said.job_id))


async def run_counts(call: Call) -> Reply:
    """Count the runs that came on record, by the hour."""
    since, until = given_instant(call.query.since), given_instant(call.query.until)
    try:
        tallies = await call.control.runs.tally(call.principal, since, until)
    except Invalid as refusal:
        raise BadParameter(refusal.detail, parameter="since") from None
    return answer(200, [run_count_view(tally) for tally in tallies])


async def run_get(call: Call) -> Reply:
    """One run."""
    details = await call.control.runs.get(call.principal, call.uuid("run_id", "run"))
    anomalies = await call.control.anomalies.of_run(call.principal, details)
    return answer(200, run_detail_view(details, anomalies))


async def run_cancel(call: Call) -> Reply:
    """Cancel it: 200 if it is over, 202 if its executor was asked."""
    run_id = call.uuid("run_id", "run")
    state = await call.control.runs.cancel(call.principal, run_id)
    done = state is RunState.CANCELLED
    return answer(200 if done else 202, RunStateView(run_id=run_id, status=state))


async def run_retry(call: Call) -> Reply:
    """A new run like it."""
    body = decode(_retry, call.body or b"{}", field_names(RunRetryBody))
    claim = call.claim
    done = await call.control.runs.retry(
        call.principal,
        call.uuid("run_id", "run"),
        body,
        None if claim is None else lambda run_id: claim.receipt(answer(202, RunDemanded(run_id=run_id))),
    )
    if isinstance(done, Replay):
        return replayed(call, done)
    return answer(202, RunDemanded(run_id=done))


async def run_log(call: Call) -> Reply:
    """A part of a log: as it was written, or as JSON if that is asked for."""
    query: LogQuery = call.query
    run_id = call.uuid("run_id", "run")
    chunk = await call.control.runs.log(
        call.principal, run_id, attempt=given(query.attempt), offset=query.offset, limit=query.limit
    )
    headers = [
        (b"tickwise-attempt", b"%d" % chunk.attempt),
        (b"tickwise-next-offset", b"%d" % chunk.next_offset),
        (b"tickwise-complete", b"true" if chunk.complete else b"false"),
    ]
    if prefers_json(call.headers.get(b"accept"), "text/plain"):
        return answer(200, log_view(run_id, chunk), headers=headers)
    # A task's output is sent as text in any case: no browser may treat it as a page.
    return Reply(200, chunk.content, headers, b"text/plain; charset=utf-8")


async def artefacts_list(call: Call) -> Reply:
    """The files that an attempt left."""
    query: ArtefactsQuery = call.query
    run_id = call.uuid("run_id", "run")
    found = await call.control.runs.artefacts(call.principal, run_id, attempt=given(query.attempt))
    return answer(200, artefact_views(run_id, found))


async def artefact_get(call: Call) -> Reply:
    """The content of one. It is a file of others: no browser may show it, or guess what it is."""
    query: ArtefactsQuery = call.query
    run_id, name = call.uuid("run_id", "run"), call.path_values["artefact"]
    found = await call.control.runs.artefact(call.principal, run_id, name, attempt=given(query.attempt))
    if isinstance(found, str):
        headers = [(b"location", found.encode()), (b"cache-control", b"no-store")]
        return Reply(307, b"", headers, b"application/octet-stream")
    return await _download(call, found, name, b"application/octet-stream")


async def run_log_file(call: Call) -> Reply:
    """The whole log as a file, as far as it is written. It is sent as it is read, a part at a time."""
    query: ArtefactsQuery = call.query
    run_id = call.uuid("run_id", "run")
    found = await call.control.runs.log_file(call.principal, run_id, attempt=given(query.attempt))
    reply = await _download(call, found.content, f"{run_id}-{found.attempt}.log", b"text/plain; charset=utf-8")
    return reply._replace(headers=[*reply.headers, (b"tickwise-attempt", b"%d" % found.attempt)])


async def _download(call: Call, file: Download, name: str, media: bytes) -> Reply:
    """A file, or the range of it that the request asks for."""
    said = {header: call.headers[header].decode("latin-1") for header in _RANGES if header in call.headers}
    asked = DownloadRequest(said.get(b"range"), said.get(b"if-range"), call.is_head)
    found = await answer_download(file, asked)
    headers = [(each.encode(), value.encode()) for each, value in found.headers]
    return Reply(
        found.status, b"", [(b"content-disposition", attachment(name).encode()), *headers], media, found.content
    )


async def executors_list(call: Call) -> Reply:
    """Executors."""
    return answer(200, [executor_view(row) for row in await call.control.cluster.executors(call.principal)])


RUNS: Final = (
    Endpoint(
        method="GET", path=f"{API}/runs", control=RunService.search, name="listRuns", tag="runs",
        summary="Search runs, newest first.", handler=runs_list, answers=(list[RunView],), query=RunsQuery,
        description="A search looks at a bounded number of runs for each page: a page may be short or empty, and "
        "its `Link` leads on. With a part of a name, the runs of jobs that recur or run on demand come first.",
    ),
    Endpoint(
        method="GET", path=f"{API}/runs/counts", control=RunService.tally, name="countRuns", tag="runs",
        summary="Counts of the runs that ended in each hour, by final state: 92 days at most, by default the last day.",
        description="Counted as they come on record: exact, and as fast with any number of runs. Hours are those of "
        "UTC; hours and states without a run are left out. Kept for 400 days, longer than the runs.",
        handler=run_counts, answers=(list[RunCountView],), query=RunCountsQuery,
    ),
    Endpoint(
        method="GET", path=f"{API}/runs/{{run_id}}", control=RunService.get, name="getRun", tag="runs",
        summary="One run with its attempts and stage times.",
        handler=run_get, answers=(RunDetailView,), refuses=(404,), conditional=True,
    ),
    Endpoint(
        method="POST", path=f"{API}/runs/{{run_id}}/cancel", control=RunService.cancel, name="cancelRun", tag="runs",
        summary="End a run that waits; ask the executor of one that is held to stop it (202).",
        handler=run_cancel, answers=(RunStateView,), further=(202,), refuses=(404, 409),
    ),
    Endpoint(
        method="POST", path=f"{API}/runs/{{run_id}}/retry", control=RunService.retry, name="retryRun", tag="runs",
        summary="Repeat a run that has ended, as a new run, with its payload or another.",
        description="For a failed run this redrives its dead letter, which happens once: 409 "
        "`letter_settled` names the run that was made, or the decision.",
        handler=run_retry, body=RunRetryBody, optional_body=True, answers=(RunDemanded,), status=202,
        refuses=(404, 409), foretold=True,
    ),
    Endpoint(
        method="GET", path=f"{API}/runs/{{run_id}}/logs", control=RunService.log, name="getRunLog", tag="runs",
        summary="The output of an attempt from an offset on; the headers Tickwise-… give the next offset.",
        handler=run_log, answers=(LogView,), query=LogQuery, refuses=(404,), headers=("Accept",),
        answer_media=("text/plain", "application/json"),
        answer_headers=("Tickwise-Attempt", "Tickwise-Next-Offset", "Tickwise-Complete"),
    ),
    Endpoint(
        method="GET", path=f"{API}/runs/{{run_id}}/logs/file", control=RunService.log_file, name="downloadRunLog",
        tag="runs", summary="The whole output of an attempt as a file, as far as it is written.",
        description="A client resumes a download that was cut by `Range`, with the ETag in `If-Range`. While an output "
        "grows, its tag changes.",
        handler=run_log_file, query=ArtefactsQuery, refuses=(404, 416), also={206: ()},
        headers=("Range", "If-Range"), answer_media=("text/plain",),
        answer_headers=("Content-Disposition", "ETag", "Accept-Ranges", "Content-Range", "Tickwise-Attempt"),
    ),
    Endpoint(
        method="GET", path=f"{API}/runs/{{run_id}}/artefacts", control=RunService.artefacts, name="listArtefacts",
        tag="runs", summary="The files that an attempt left in its work folder.",
        description="Kept when the attempt ends: plain files, up to 100 of an attempt, each up to 16 MB, 64 MB "
        "together. The end of the log names those that were not kept.",
        handler=artefacts_list, answers=(list[ArtefactView],), query=ArtefactsQuery, refuses=(404,),
    ),
    Endpoint(
        method="GET", path=f"{API}/runs/{{run_id}}/artefacts/{{artefact}}", control=RunService.artefact,
        name="getArtefact", tag="runs", summary="The content of a file that an attempt left, by its name.",
        description="The name is the path in the work folder, its slashes as `%2F`. With `blobs_downloads = redirect` "
        "the answer is a 307 to an address of the object store that is signed for some minutes: send no key there. "
        "A client resumes a download that was cut by `Range`, with the ETag in `If-Range`.",
        handler=artefact_get, query=ArtefactsQuery, refuses=(404, 416), rest="artefact", also={206: (), 307: ()},
        headers=("Range", "If-Range"), answer_media=("application/octet-stream",),
        answer_headers=("Content-Disposition", "Location", "ETag", "Accept-Ranges", "Content-Range"),
    ),
    Endpoint(
        method="GET", path=f"{API}/executors", control=ClusterService.executors, name="listExecutors", tag="executors",
        summary="Active executors, and those gone within the last hour.",
        handler=executors_list, answers=(list[ExecutorView],),
    ),
)  # fmt: skip
