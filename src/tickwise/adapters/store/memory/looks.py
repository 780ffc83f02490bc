"""Bounded looks: the latest runs of many jobs, jobs by their ids, and the jobs that come next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from uuid import UUID

from tickwise.adapters.store.memory.definitions import JobSearches, in_window
from tickwise.adapters.store.memory.history import RunSearches, row_of, rows_of, with_texts
from tickwise.adapters.store.memory.records import JobRecord
from tickwise.domain import selectors
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import name_from
from tickwise.domain.selectors import Selector
from tickwise.ports.store import (
    ComingQuery,
    EndingQuery,
    JobQuery,
    JobRow,
    JobsOfQuery,
    LatestRunsQuery,
    Page,
    PlannedPage,
    PlannedQuery,
    RunQuery,
    RunRow,
    page_within,
)


class Looks(JobSearches, RunSearches):
    """The searches for jobs and runs, and the looks among them."""

    async def jobs(self, query: JobQuery | JobsOfQuery | ComingQuery | PlannedQuery | EndingQuery) -> Page[JobRow]:
        """See the port."""
        if isinstance(query, JobQuery):
            return await super().jobs(query)
        if isinstance(query, PlannedQuery):
            return await self._planned(query)
        if isinstance(query, EndingQuery):
            return self._jobs_ending(query)
        if isinstance(query, JobsOfQuery):
            return Page(self._state.job_row(job) for job in self._of(query.namespace, query.jobs, query.within))
        found = []
        for job in self._state.jobs.awake:
            if job.namespace != query.namespace or not selectors.matches(job.labels, query.within):
                continue
            times = [due for due in _times(job) if in_window(due, query.after, query.before)]
            if times:
                found.append((min(times), job.job_id, job))
        found.sort(key=lambda each: each[:2])
        return Page(self._state.job_row(job) for _, _, job in found[: query.limit])

    async def runs(self, query: RunQuery | LatestRunsQuery | EndingQuery) -> Page[RunRow]:
        """See the port."""
        if isinstance(query, RunQuery):
            return await super().runs(query)
        if isinstance(query, EndingQuery):
            return self._runs_ending(query)
        found: Page[RunRow] = Page()
        for job in self._of(query.namespace, query.jobs, query.within):
            shown = (row for row in rows_of(self._state, job) if not _is_planned_skip(row, query.until))
            found += [with_texts(row, frozenset())._replace(error=None) for row in islice(shown, query.each)]
        return found

    def _jobs_ending(self, query: EndingQuery) -> Page[JobRow]:
        since, jobs = name_from(query.since), self._state.jobs
        resting = [each for each in jobs.resting_since(since) if str(each).endswith(query.ending)]
        found = [
            self._state.job_row(job)
            for job in (*jobs.awake, *(jobs[each] for each in resting))
            if str(job.job_id).endswith(query.ending)
            and job.namespace == query.namespace
            and selectors.matches(job.labels, query.within)
            and (job.lasting or job.timer is not None or job.runs or job.job_id >= since)
        ]
        return Page(sorted(found, key=lambda row: row.job_id, reverse=True)[: query.limit])

    def _runs_ending(self, query: EndingQuery) -> Page[RunRow]:
        since = name_from(query.since)
        known = [*self._state.runs, *self._state.ended.ids_after(since)]
        found = []
        for run_id in sorted(known, reverse=True):
            row = row_of(self._state, run_id) if str(run_id).endswith(query.ending) else None
            if row is None or row.namespace != query.namespace:
                continue
            job = self._state.job_of(row)
            if query.within is None or (job is not None and selectors.matches(job.labels, query.within)):
                found.append(with_texts(row, frozenset()))
        return Page(found[: query.limit])

    async def _planned(self, query: PlannedQuery) -> PlannedPage:
        found = sorted(
            (job.timer.pending.due, job.job_id, job)
            for job in self._state.jobs.awake
            if job.timer is not None and query.due_after <= job.timer.pending.due < query.due_before
            if _is_planned_by(job, query)
        )
        rows = page_within([self._state.job_row(job) for _, _, job in found[: query.limit]], query.bytes_most)
        return PlannedPage(rows, known_until=found[len(rows)][0] if len(found) > len(rows) else None)

    def _of(self, namespace: str, jobs: Sequence[UUID], within: Selector | None) -> Iterator[JobRecord]:
        for job_id in jobs:
            job = self._state.jobs.get(job_id)
            if job is not None and job.namespace == namespace and selectors.matches(job.labels, within):
                yield job


def _is_planned_by(job: JobRecord, query: PlannedQuery) -> bool:
    return (
        job.namespace == query.namespace
        and query.job_id in (None, job.job_id)
        and query.queue in (None, job.lane.queue)
        and (query.name is None or query.name.casefold() in job.name.casefold())
        and query.labels.items() <= job.labels.items()
        and selectors.matches(job.labels, query.within)
    )


def _times(job: JobRecord) -> Iterator[float]:
    """The times of its timer, and of its runs that nobody holds."""
    if job.timer is not None and job.timer.comes and job.timer.pending.hold is None:
        yield job.timer.pending.due
    for run in job.runs.values():
        if run.state is RunState.QUEUED and not run.blocked and run.ready != float("inf"):
            yield run.due


def _is_planned_skip(row: RunRow, until: float) -> bool:
    return row.state is RunState.SKIPPED and row.nominal_at > until
