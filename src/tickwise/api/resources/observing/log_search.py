"""`/logs`: a text in the outputs of many runs."""

from __future__ import annotations

from typing import Annotated, Final, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.api.endpoint import Call, Endpoint, Reply, answer, given, given_instant
from tickwise.api.resources.runs import States, Time
from tickwise.api.wire import API
from tickwise.control.runs.log_search import LOG_BYTES_MOST, OutputSearch, OutputSearched
from tickwise.control.runs.service import RunService
from tickwise.ports.store import RunQuery

BYTES_MOST: Final = 256 << 20
SECONDS_MOST: Final = 10.0


class LogSearchQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A text, the runs in whose outputs it is looked for, and the bounds of one answer."""

    find: Annotated[str, Meta(min_length=1, max_length=200, description="In any case of the letters a to z.")]
    job_id: UUID | UnsetType = UNSET
    job_name: Annotated[str, Meta(max_length=200, description="A part of its job's name, in any case.")] | UnsetType = (
        UNSET
    )
    status: States = []
    due_after: Time | UnsetType = UNSET
    due_before: Time | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=200, description="The most lines of one answer.")] = 50
    bytes_most: Annotated[int, Meta(ge=1 << 16, le=BYTES_MOST, description="The most that one answer reads.")] = (
        64 << 20
    )
    seconds: Annotated[float, Meta(ge=0.1, le=SECONDS_MOST, description="About the longest that one answer takes.")] = (
        5.0
    )
    before: (
        Annotated[UUID, Meta(description="Runs before this one alone: `next_before` of the answer before.")] | UnsetType
    ) = UNSET


class LogHitView(msgspec.Struct, kw_only=True):
    """A line with the text."""

    run_id: UUID
    job_id: UUID
    attempt_number: int
    offset: int
    """Of the line, in bytes of the attempt's log."""
    line: str
    """Its first 500 bytes."""
    origin: Literal["task", "tickwise"]
    """The writer of the line."""


class LogSearchView(msgspec.Struct, kw_only=True):
    """The lines that were found, and the extent of the search."""

    hits: list[LogHitView]
    runs_searched: int
    bytes_searched: int
    logs_cut: int
    """Logs that were searched in part: of each the first 16 MiB are, up to 20 hits."""
    next_before: UUID | None = None
    """The next answer goes on with `before` = this; none: all runs that match were searched."""


def log_search_view(found: OutputSearched) -> LogSearchView:
    """The answer as JSON."""
    return LogSearchView(
        hits=[
            LogHitView(
                run_id=hit.run.run_id,
                job_id=hit.run.job_id,
                attempt_number=hit.run.attempt,
                offset=hit.offset,
                line=hit.line,
                origin="tickwise" if hit.is_own else "task",
            )
            for hit in found.hits
        ],
        runs_searched=found.runs,
        bytes_searched=found.bytes,
        logs_cut=found.cut,
        next_before=found.before,
    )


async def logs_search(call: Call) -> Reply:
    """The lines with a text, newest run first."""
    said: LogSearchQuery = call.query
    query = RunQuery(
        namespace=call.principal.namespace,
        job_id=given(said.job_id),
        job_name=given(said.job_name),
        states=said.status,
        due_after=given_instant(said.due_after),
        due_before=given_instant(said.due_before),
        before=given(said.before),
        limit=said.limit,
    )
    search = OutputSearch(said.find, hits=said.limit, bytes_most=said.bytes_most, seconds=said.seconds)
    found = await call.control.runs.search_outputs(call.principal, query, search)
    return answer(200, log_search_view(found))


LOG_SEARCH: Final = (
    Endpoint(
        method="GET", path=f"{API}/logs", control=RunService.search_outputs, name="searchLogs", tag="runs",
        summary="Lines with a text in the outputs of runs, newest run first.",
        description="A scan of the newest attempt of each run that matches, without an index: name a job, a state or a "
        "time. An answer ends at its bounds of lines, bytes, seconds or 1,000 runs, and leads on by `next_before`; it "
        f"may have no hit and lead on. Of one log the first {LOG_BYTES_MOST >> 20} MiB are searched.",
        handler=logs_search, answers=(LogSearchView,), query=LogSearchQuery,
    ),
)  # fmt: skip
