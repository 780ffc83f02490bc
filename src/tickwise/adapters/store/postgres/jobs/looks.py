"""Bounded looks: the latest runs of many jobs, jobs by their ids, and the jobs that come next.

A page of jobs asks once for the runs of all of them. The jobs that come next are read in the order of the timers'
indexes, and not by their making, as a search for a window of times does. Invariant: what a look reads is bounded by
what is asked for, and by `MAX_TIMERS_LOOKED`, however much is stored.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tickwise.adapters.store.postgres.jobs.jobs import JobSearches
from tickwise.adapters.store.postgres.jobs.planned import PlannedSearches
from tickwise.adapters.store.postgres.records.job_rows import job_row
from tickwise.adapters.store.postgres.records.records import RunSearches, run_row
from tickwise.adapters.store.postgres.records.searches import labels_asked, search
from tickwise.domain.model import DEFAULT_NAMESPACE, name_from
from tickwise.ports.store import (
    MAX_TIMERS_LOOKED,
    ComingQuery,
    EndingQuery,
    JobQuery,
    JobRow,
    JobsOfQuery,
    LatestRunsQuery,
    Page,
    PlannedQuery,
    RunQuery,
    RunRow,
)


class Looks(JobSearches, PlannedSearches, RunSearches):
    """The searches for jobs and runs, and the looks among them."""

    async def jobs(self, query: JobQuery | JobsOfQuery | ComingQuery | PlannedQuery | EndingQuery) -> Page[JobRow]:
        """See the port."""
        if isinstance(query, JobQuery):
            return await super().jobs(query)
        if isinstance(query, PlannedQuery):
            return await self._planned(query)
        labels = labels_asked({}, query.within)
        asked: list[Any]
        if isinstance(query, EndingQuery):
            found = await self._ids_ending("jobs_ending", query, labels)
            return Page(sorted(await self.jobs(JobsOfQuery(namespace=query.namespace, jobs=found)), key=_newest))
        if isinstance(query, JobsOfQuery):
            name, asked = "jobs_of", [query.namespace, query.jobs, labels]
        else:
            name, asked = await self._coming(query, labels)
        return Page(job_row(row) for row in await search(self._links, name, asked, self._clock))

    async def runs(self, query: RunQuery | LatestRunsQuery | EndingQuery) -> Page[RunRow]:
        """See the port."""
        if isinstance(query, RunQuery):
            return await super().runs(query)
        labels = labels_asked({}, query.within)
        if isinstance(query, EndingQuery):
            ids = await self._ids_ending("runs_ending", query, labels)
            named = RunQuery(namespace=query.namespace, ids=ids, limit=query.limit, texts=frozenset())
            return await super().runs(named) if ids else Page()
        asked = [query.namespace, query.jobs, query.each, query.until, labels]
        return Page(run_row(row) for row in await search(self._links, "runs_latest", asked, self._clock))

    async def _ids_ending(self, name: str, query: EndingQuery, labels: list[str] | None) -> list[UUID]:
        asked = [query.namespace, query.ending, name_from(query.since), query.limit, labels]
        return [row["id"] for row in await search(self._links, name, asked, self._clock)]

    async def _coming(self, query: ComingQuery, labels: list[str] | None) -> tuple[str, list[Any]]:
        """The statement that finds what comes next, and its parameters: few jobs are looked at one by one."""
        name = "jobs_coming"
        if query.namespace != DEFAULT_NAMESPACE or labels is not None:
            alike: list[Any] = [query.namespace, labels, None, None, MAX_TIMERS_LOOKED + 1]
            [(count,)] = await search(self._links, "jobs_alike", alike, self._clock)
            name = "jobs_coming_of" if count <= MAX_TIMERS_LOOKED else name
        return name, [query.namespace, query.after, query.before, query.limit, MAX_TIMERS_LOOKED, labels]


def _newest(row: JobRow) -> int:
    return -row.job_id.int
