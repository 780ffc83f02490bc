"""Searches for the jobs that fire next, and for those that go by a calendar."""

from __future__ import annotations

from tickwise.adapters.store.memory.records import JobRecord
from tickwise.adapters.store.memory.state import Duty
from tickwise.domain import selectors
from tickwise.ports.store import JobAction, JobRow, Page, PlannedJobs, PlannedQuery, page_within


class PlannedSearches(Duty):
    """The looks at the time to come."""

    async def planned(self, query: PlannedQuery) -> PlannedJobs:
        found = sorted(
            (job.timer.pending.due, job.job_id, job)
            for job in self._state.jobs.values()
            if job.timer is not None and query.due_after <= job.timer.pending.due < query.due_before
            if _matches(job, query)
        )
        rows = page_within([self._state.job_row(job) for _, _, job in found[: query.limit]], query.bytes_most)
        return PlannedJobs(rows, found[len(rows)][0] if len(found) > len(rows) else None)

    async def calendar_jobs(
        self,
        namespace: str,
        calendar: str,
        limit: int,
        *,
        within: selectors.Selector | None = None,
        bytes_most: int | None = None,
    ) -> Page[JobRow]:
        found = [
            job
            for job in self._state.jobs.values()
            if job.namespace == namespace and calendar in job.calendars and job.standing is not JobAction.CANCEL
            if selectors.matches(job.labels, within)
        ]
        found.sort(key=lambda job: job.job_id, reverse=True)
        return page_within([self._state.job_row(job) for job in found[:limit]], bytes_most)


def _matches(job: JobRecord, query: PlannedQuery) -> bool:
    return (
        job.namespace == query.namespace
        and query.job_id in (None, job.job_id)
        and query.queue in (None, job.lane.queue)
        and (query.name is None or query.name.casefold() in job.name.casefold())
        and query.labels.items() <= job.labels.items()
        and selectors.matches(job.labels, query.within)
    )
