"""Jobs looked up, changed and moved; their plan replaced."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.records.job_rows import job_row
from tickwise.adapters.store.postgres.records.job_walks import MARKS, JobWalk, asked_statuses, count_jobs
from tickwise.adapters.store.postgres.records.paging import page_of
from tickwise.adapters.store.postgres.records.searches import (
    LAST_ID,
    conditions_of,
    connected,
    labels_asked,
    like,
    search,
    searched_page,
)
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.domain.schedule import ScheduleType
from tickwise.ports.store import JobQuery, JobRow, Page, SearchCount
from tickwise.ports.store.placement import LASTING_TYPES

NARROW_SECONDS: Final = 86_400.0
"""A window of next fires in which the jobs are put in order; in a wider one the newest jobs are looked at in turn."""

FEW: Final = 500
"""Up to so many jobs of a namespace, with a label or of a schedule type are all scanned, with any further filters;
among more, those are found first that are planned, due or failed, which may be those of everybody."""

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
        if not conditions_of(replace(query, statuses=asked_statuses(query))):
            name = "jobs_newest" if query.namespace == DEFAULT_NAMESPACE else "jobs_newest_of"
            arguments: list[Any] = [query.namespace, query.before or LAST_ID, query.limit]
        elif _may_pause(query):
            async with self._links.search_line().use(writes=False) as connection:
                return await JobWalk(connection, query, self._clock, self._large_sets).page()
        else:
            name, arguments = await self._looked_for("jobs_found", "jobs_list", query)
        async with connected(self._links, name) as connection:
            return page_of(await searched_page(connection, name, arguments, query.bytes_most, self._clock), job_row)

    async def _count_jobs(self, query: JobQuery) -> SearchCount:
        if _may_pause(query):
            async with self._links.search_line().use(writes=False) as connection:
                return await count_jobs(connection, query, self._clock, self._large_sets)
        name, arguments = await self._looked_for("jobs_found_count", "jobs_count", query)
        [(count,)] = await search(self._links, name, arguments, self._clock)
        return SearchCount(count, is_whole=count < query.limit)

    async def _looked_for(self, by_rare: str, among_all: str, query: JobQuery) -> tuple[str, list[Any]]:
        """The statement that reads less, of two that find the same; and its parameters."""
        marks = _found_by(query)
        if marks and _may_be_few(query):
            [(count,)] = await search(self._links, "jobs_alike", _alike(query), self._clock)
            marks = marks if count > FEW else []
        if marks:
            return by_rare, [*_asked(query), marks]
        return among_all, _listed(query)


def _may_pause(query: JobQuery) -> bool:
    """Check whether the search may pause. One for a key, a calendar or ids has the index of these."""
    return query.may_pause and query.key is None and query.calendar is None and not query.ids


def _found_by(query: JobQuery) -> list[str]:
    """Marks of `jobs_found`: each job of this search has one of them, and few other jobs have. None: the search looks
    among all jobs. A page of several statuses reads of each mark at most as much as a page of its status alone. With
    COMPLETED among them it is full no later than a page of COMPLETED alone, which has no mark."""
    statuses = asked_statuses(query)
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
        asked_statuses(query) or None,
        query.schedule_type,
        query.task_kind,
        query.owner,
        query.next_run_after,
        query.next_run_before,
        query.before,
        query.limit,
        query.schedule_type in LASTING_TYPES or None,
    ]


def _listed(query: JobQuery) -> list[Any]:
    """The parameters of `jobs_list`."""
    return [*_asked(query), query.calendar, list(query.ids) or None]


async def find_job(connection: asyncpg.Connection, namespace: str, job_id: UUID) -> JobRow | None:
    """One job as people see it."""
    row = await connection.fetchrow(statement("job_get"), namespace, job_id)
    return None if row is None else job_row(row)
