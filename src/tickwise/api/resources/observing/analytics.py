"""`/analytics`: ended runs counted and measured by groups, as JSON or as CSV."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.api.endpoint import Call, Endpoint, Reply, answer, given, given_instant, labels_of
from tickwise.api.negotiation import prefers
from tickwise.api.problems import BadParameter
from tickwise.api.resources.runs import ExecutorId, States, Time, Triggers
from tickwise.api.wire import API, Instant, time_of, time_or_none
from tickwise.control.filters import Text
from tickwise.control.observing.analytics import (
    TOP_MOST,
    AnalyticsAnswer,
    AnalyticsQuestion,
    AnalyticsService,
    grouping_of,
)
from tickwise.control.observing.analytics_csv import STATES, analytics_csv, shown_key
from tickwise.domain.errors import Invalid
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Trigger
from tickwise.domain.observing.analytics import Coverage, GroupKind, GroupSort, RunGroup, Spread
from tickwise.ports.store import RunQuery

CSV: Final = "text/csv"


class AnalyticsFormat(StrEnum):
    """A form of the answer."""

    JSON = "json"
    CSV = "csv"


class AnalyticsParameters(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The runs, and how they are grouped; of the filters everything given must match."""

    group_by: Annotated[
        str,
        Meta(
            max_length=300,
            description="`job`, `label:NAME`, `namespace`, `executor`, `reason`, or `hour`: the one in which a run was "
            "due, in UTC.",
        ),
    ] = "job"
    start: (
        Annotated[Time, Meta(description="Due from then on; a day before the end if it is not sent.")] | UnsetType
    ) = msgspec.field(name="from", default=UNSET)
    until: Annotated[Time, Meta(description="Due before then; now if it is not sent.")] | UnsetType = UNSET
    sort: Annotated[
        GroupSort,
        Meta(description="The largest first: by runs, failed runs, the time that they took, or their processor time."),
    ] = GroupSort.RUNS
    top: Annotated[
        int, Meta(ge=1, le=TOP_MOST, description="The groups with a row of their own; the rest is one row.")
    ] = 20
    status: Annotated[States, Meta(description="Of ended runs. May be given several times.")] = []
    trigger: Triggers = []
    reason: Text | UnsetType = UNSET
    executor_id: ExecutorId | UnsetType = UNSET
    job_id: UUID | UnsetType = UNSET
    job_name: Annotated[str, Meta(max_length=200, description="A part of its job's name, in any case.")] | UnsetType = (
        UNSET
    )
    label: Annotated[
        list[str], Meta(max_length=20, description="name=value, of its job; may be given several times.")
    ] = []
    queue: Annotated[Text, Meta(description="Of its job.")] | UnsetType = UNSET
    format: Annotated[AnalyticsFormat, Meta(description="In place of `Accept`.")] | UnsetType = UNSET


class SpreadView(msgspec.Struct, kw_only=True):
    """The spread of a quantity, in seconds; of memory in bytes."""

    count: int
    """The runs that have it, of those that were read."""
    p50: float
    p95: float
    p99: float
    mean: float
    max: float


class AnalyticsRow(msgspec.Struct, kw_only=True):
    """The runs of a group, of those without a key, or of the remainder."""

    kind: GroupKind
    key: str | None
    """Of a group: the id of the job or executor, the value of the label, the namespace, the reason, or the beginning of
    the hour."""
    name: str | None
    """Of a job or executor that is on record."""
    runs: int
    by_status: dict[RunState, int]
    success_ratio: float | None
    """Succeeded runs among those that succeeded or failed."""
    retries: int
    """Attempts after the first."""
    seconds: float
    """The time that the last attempts took together."""
    duration: SpreadView | None
    """Of the last attempts, from start to end."""
    lateness: SpreadView | None
    """From the due time to the start, of runs with one attempt."""
    cpu_seconds: float
    """The processor time that the last attempts took together, of those that were measured."""
    cpu: SpreadView | None
    """The processor time of the last attempts that were measured."""
    memory: SpreadView | None
    """The peak of the memory of the last attempts that were measured."""


class AnalyticsTotal(msgspec.Struct, kw_only=True):
    """All runs that were counted."""

    runs: int
    by_status: dict[RunState, int]
    success_ratio: float | None
    retries: int
    seconds: float
    duration: SpreadView | None
    lateness: SpreadView | None
    cpu_seconds: float
    cpu: SpreadView | None
    memory: SpreadView | None


class AnalyticsView(msgspec.Struct, kw_only=True):
    """An analysis. `coverage` says how far it can be relied on."""

    group_by: str
    start: Instant = msgspec.field(name="from")
    until: Instant
    coverage: Coverage
    """`exact`: of all runs that match. `sampled`: counts and sums are estimated from a random share of the table.
    `newest`: of the newest runs, those that were due from `since` on."""
    rows_read: int
    share: float
    """The share of the table that was read; 1 unless `sampled`."""
    since: Instant | None
    """The due time of the earliest run that was read."""
    groups_found: int
    """Also those of the remainder."""
    total: AnalyticsTotal
    groups: list[AnalyticsRow]
    """Largest first, by hour the oldest first; then `none` and `rest`, where there are such runs."""


def _spread_view(spread: Spread | None) -> SpreadView | None:
    if spread is None:
        return None
    return SpreadView(
        count=spread.runs, p50=spread.p50, p95=spread.p95, p99=spread.p99, mean=spread.mean, max=spread.most
    )


def _total_view(row: RunGroup) -> AnalyticsTotal:
    return AnalyticsTotal(
        runs=row.runs,
        by_status={state: row.states.get(state, 0) for state in STATES},
        success_ratio=row.success_ratio,
        retries=row.retries,
        seconds=row.seconds,
        duration=_spread_view(row.duration),
        lateness=_spread_view(row.lateness),
        cpu_seconds=row.cpu_seconds,
        cpu=_spread_view(row.cpu),
        memory=_spread_view(row.memory),
    )


def analytics_view(found: AnalyticsAnswer) -> AnalyticsView:
    """An analysis as it is answered."""
    analysis = found.analysis
    rows = [
        AnalyticsRow(
            kind=row.kind, key=shown_key(found, row), name=row.name, **msgspec.structs.asdict(_total_view(row))
        )
        for row in analysis.groups
    ]
    return AnalyticsView(
        group_by=str(found.grouping),
        start=time_of(found.begin),
        until=time_of(found.end),
        coverage=analysis.coverage,
        rows_read=analysis.rows,
        share=analysis.share,
        since=time_or_none(analysis.since),
        groups_found=analysis.distinct,
        total=_total_view(analysis.total),
        groups=rows,
    )


async def analytics(call: Call) -> Reply:
    """Count and measure."""
    said: AnalyticsParameters = call.query
    query = RunQuery(
        namespace=call.principal.namespace,
        job_id=given(said.job_id),
        states=said.status,
        triggers=[Trigger[name.name] for name in said.trigger],
        reason=given(said.reason),
        executor=None if said.executor_id is UNSET else int(said.executor_id),
        job_name=given(said.job_name),
        labels=labels_of(said.label),
        queue=given(said.queue),
        due_after=given_instant(said.start),
        due_before=given_instant(said.until),
    )
    try:
        question = AnalyticsQuestion(filter=query, grouping=grouping_of(said.group_by), sort=said.sort, top=said.top)
        found = await call.control.analytics.answer(call.principal, question)
    except Invalid as refusal:
        if not refusal.pointer:
            raise
        raise BadParameter(refusal.detail, parameter=refusal.pointer.split("/")[1]) from None
    wants_csv = prefers(call.headers.get(b"accept"), CSV, "application/json")
    if (said.format is UNSET and wants_csv) or said.format is AnalyticsFormat.CSV:
        headers = [(b"content-disposition", b'attachment; filename="analytics.csv"')]
        return Reply(200, analytics_csv(found).encode(), headers, b"text/csv; charset=utf-8")
    return answer(200, analytics_view(found))


ANALYTICS: Final = (
    Endpoint(
        method="GET", path=f"{API}/analytics", control=AnalyticsService.answer, name="analyseRuns", tag="runs",
        summary="Ended runs counted and measured by job, label, namespace, executor, reason or hour.",
        description="Bounded in cost: where more runs match than are read one by one, the answer is of a sample or of "
        "the newest, and `coverage` says so. Callers that may read the runs of each namespace see all of them by "
        "`group_by=namespace`. By hour 31 days at most, otherwise 400. CSV by `Accept: text/csv` or `format=csv`.",
        handler=analytics, answers=(AnalyticsView,), query=AnalyticsParameters, headers=("Accept",),
        answer_media=("application/json", CSV), answer_headers=("Content-Disposition",),
    ),
)  # fmt: skip
