"""Jobs looked up, changed and moved; their plan replaced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import asyncpg
import msgspec

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.records.named import (
    FEW_NAMED,
    LOOKED_JOBS,
    NameSearch,
    named_jobs,
    reach,
    without,
)
from tickwise.adapters.store.postgres.records.paging import page_of
from tickwise.adapters.store.postgres.records.searches import (
    LAST_ID,
    connected,
    labels_asked,
    like,
    search,
    searched_page,
)
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.decision import Hold, TimerState
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.model import DEFAULT_NAMESPACE, Lane
from tickwise.domain.schedule import ScheduleType
from tickwise.ports.paging import SearchPlace
from tickwise.ports.store import JobQuery, JobRow, Page
from tickwise.ports.store.placement import LASTING_TYPES

NARROW_SECONDS: Final = 86_400.0
"""A window of next fires in which the jobs are put in order; in a wider one the newest jobs are looked at in turn."""

FEW: Final = 500
"""Up to so many jobs of a namespace, with a label or of a schedule type are all scanned, with any further filters;
among more, those are found first that are planned, due or failed, which may be those of everybody."""

COUNTED_BY: Final = 15
"""The parameters that `jobs_count` shares with `jobs_list`: all but the floor of a look."""

MARKS: Final = {
    JobStatus.SCHEDULED: "planned",
    JobStatus.FAILED: "failed",
    JobStatus.PAUSED: "paused",
    JobStatus.CANCELLED: "cancelled",
}
"""The marks by which `jobs_found` finds the jobs of a status. COMPLETED says what a job has not, so no index has it."""
STANDING: Final = frozenset({JobStatus.PAUSED, JobStatus.CANCELLED})


class Lookups(Part):
    """`JobStore.get` of the port."""

    async def get(self, namespace: str, job: UUID | str) -> JobRow | None:
        """See the port."""
        if isinstance(job, UUID):
            rows = await search(self._links, "job_get", [namespace, job], self._clock)
            return job_row(rows[0]) if rows else None
        async with self._links.pooled(writes=False) as connection:
            row = await connection.fetchrow(statement("job_by_key"), namespace, job)
        return None if row is None else job_row(row)


class JobSearches(Part):
    """The searches for jobs."""

    async def jobs(self, query: JobQuery) -> Page[JobRow]:
        """See the port."""
        if _is_looked_for_by_name(query):
            return await self._jobs_by_name(query)
        if replace(query, statuses=_named(query)) == JobQuery(
            namespace=query.namespace,
            before=query.before,
            limit=query.limit,
            bytes_most=query.bytes_most,
            may_pause=query.may_pause,
        ):
            name = "jobs_newest" if query.namespace == DEFAULT_NAMESPACE else "jobs_newest_of"
            arguments: list[Any] = [query.namespace, query.before or LAST_ID, query.limit]
        else:
            name, arguments = await self._looked_for("jobs_found", "jobs_list", query)
        async with connected(self._links, name) as connection:
            return page_of(await searched_page(connection, name, arguments, query.bytes_most, self._clock), job_row)

    async def _jobs_by_name(self, query: JobQuery) -> Page[JobRow]:
        """A page of a search that may pause. One that the newest jobs fill is the same, however many have the name."""
        asked = NameSearch(query.namespace, query.name or "", labels_asked(query.labels, query.within))
        newest: Page[JobRow] | None = None
        async with self._links.pooled(writes=False) as connection:
            if not query.is_rest:
                floor = await reach(connection, "jobs_reach", query.namespace, LAST_ID, LOOKED_JOBS, self._clock)
                if query.before is None or floor is None or query.before > floor:
                    newest = await self._jobs_page(connection, query, floor)
                    if floor is None or newest.is_full(query.limit):
                        return newest
                    newest.paused_at = SearchPlace(floor, is_rest=False)
            few, floor = await named_jobs(connection, asked, self._clock, FEW_NAMED)
            if few is not None and not query.is_rest:
                page = await self._jobs_page(connection, replace(query, ids=few)) if few else Page[JobRow]()
                if floor is not None and not page.is_full(query.limit):
                    page.paused_at = SearchPlace(floor, is_rest=True)
                return page
            if newest is not None:
                return newest
            before = query.before or LAST_ID
            floor = await reach(connection, "jobs_reach", query.namespace, before, LOOKED_JOBS, self._clock)
            page = await self._jobs_page(connection, query, floor)
        if floor is not None and not page.is_full(query.limit):
            page.paused_at = SearchPlace(floor, query.is_rest)
        known = frozenset(few or ())
        return without(page, query.limit, lambda row: row.job_id in known, lambda row: row.listed)

    async def _jobs_page(
        self, connection: asyncpg.Connection, query: JobQuery, floor: UUID | None = None
    ) -> Page[JobRow]:  # fmt: skip
        arguments = _listed(query, floor)
        return page_of(await searched_page(connection, "jobs_list", arguments, query.bytes_most, self._clock), job_row)

    async def _count_jobs(self, query: JobQuery) -> int:
        name, arguments = await self._looked_for("jobs_found_count", "jobs_count", query)
        arguments = arguments[:COUNTED_BY] if name == "jobs_count" else arguments
        [(count,)] = await search(self._links, name, arguments, self._clock)
        return int(count)

    async def _looked_for(self, by_rare: str, among_all: str, query: JobQuery) -> tuple[str, list[Any]]:
        """The statement that reads less, of two that find the same; and its parameters."""
        marks = _found_by(query)
        if marks and _may_be_few(query):
            [(count,)] = await search(self._links, "jobs_alike", _alike(query), self._clock)
            marks = marks if count > FEW else []
        if marks:
            return by_rare, [*_asked(query), marks]
        return among_all, _listed(query)


def _named(query: JobQuery) -> tuple[JobStatus, ...]:
    """The statuses that narrow this search, each once; none if it asks for all of them."""
    asked = set(query.statuses)
    return () if len(asked) == len(JobStatus) else tuple(sorted(asked))


def _is_looked_for_by_name(query: JobQuery) -> bool:
    """Check whether the search has no index but that of names, and may pause."""
    return query.may_pause and query.name is not None and query.key is None and query.calendar is None and not query.ids


def _found_by(query: JobQuery) -> list[str]:
    """Marks of `jobs_found`: each job of this search has one of them, and few other jobs have. None: the search looks
    among all jobs. A page of several statuses reads of each mark at most as much as a page of its status alone. With
    COMPLETED among them it is full no later than a page of COMPLETED alone, which has no mark."""
    statuses = _named(query)
    if query.key is not None or query.calendar is not None or query.ids:
        return []
    if statuses == (JobStatus.FAILED,):
        return ["failed"]
    after, before = query.next_run_after, query.next_run_before
    if after is not None and before is not None and before - after <= NARROW_SECONDS:
        return ["due"]
    if after is not None or before is not None:
        return ["planned"]
    if len(statuses) == 1 and statuses[0] in STANDING:
        return []  # `jobs_list` finds each of these by itself
    return [MARKS[status] for status in statuses] if MARKS.keys() >= set(statuses) else []


def _may_be_few(query: JobQuery) -> bool:
    """Check whether the search has a condition for the index of jobs that leaves out the common ones."""
    is_rare_type = query.schedule_type not in (None, ScheduleType.FUTURE, ScheduleType.IMMEDIATE)
    return bool(query.labels) or query.within is not None or query.namespace != DEFAULT_NAMESPACE or is_rare_type


def _alike(query: JobQuery) -> list[Any]:
    """The parameters of `jobs_alike`."""
    labels = labels_asked(query.labels, query.within)
    return [query.namespace, labels, query.schedule_type, query.schedule_type in LASTING_TYPES or None, FEW + 1]


def _asked(query: JobQuery) -> list[Any]:
    """The parameters that all searches for jobs share."""
    return [
        query.namespace,
        None if query.name is None else like(query.name),
        query.key,
        labels_asked(query.labels, query.within),
        _named(query) or None,
        query.schedule_type,
        query.task_kind,
        query.owner,
        query.next_run_after,
        query.next_run_before,
        query.before,
        query.limit,
        query.schedule_type in LASTING_TYPES or None,
    ]


def _listed(query: JobQuery, floor: UUID | None = None) -> list[Any]:
    """The parameters of `jobs_list`."""
    return [*_asked(query), query.calendar, list(query.ids) or None, floor]


async def find_job(connection: asyncpg.Connection, namespace: str, job_id: UUID) -> JobRow | None:
    """One job as people see it."""
    row = await connection.fetchrow(statement("job_get"), namespace, job_id)
    return None if row is None else job_row(row)


_decode_labels: Final = msgspec.json.Decoder(dict[str, str]).decode


def job_row(row: Mapping[str, Any]) -> JobRow:
    """A row of the view of jobs, as the port says it."""
    return JobRow(
        job_id=row["job_id"],
        namespace=row["namespace"],
        name=row["name"],
        key=row["key"],
        schedule_type=row["schedule_type"],
        task_kind=row["task_kind"],
        lane=Lane(row["queue"], row["priority"], tuple(row["requires"])),
        definition=row["definition"],
        labels=_decode_labels(row["labels"]),
        owner=row["owner"],
        created_by=row["created_by"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        version=row["version"],
        status=JobStatus(row["status"]),
        paused_at=row["paused_at"],
        pause_reason=row["pause_reason"],
        pause_until=row["pause_until"],
        paused_by=row["paused_by"],
        next_run_at=row["next_run_at"],
        timer=None if row["timer_due"] is None else pending(row, "timer_"),
        listed=row["listed"],
        task_changed_at=row["task_changed_at"],
    )


def pending(row: Mapping[str, Any], prefix: str = "") -> TimerState:
    """The position of a schedule, from columns whose names begin with `prefix`."""
    hold = row[f"{prefix}hold"]
    return TimerState(
        due=row[f"{prefix}due"],
        since=row[f"{prefix}since"],
        hold=None if hold is None else Hold(hold),
        fired=row[f"{prefix}fired"],
        minute=row[f"{prefix}minute"],
        in_minute=row[f"{prefix}in_minute"],
    )
