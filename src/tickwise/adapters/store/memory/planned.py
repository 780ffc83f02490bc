"""Searches for the jobs that fire next."""

from __future__ import annotations

from tickwise.adapters.store.memory.records import JobRecord
from tickwise.adapters.store.memory.state import Duty
from tickwise.domain import selectors
from tickwise.ports.store import ComingJobs, PlannedQuery, page_within


class PlannedSearches(Duty):
    """The look at the timers to come."""

    async def _planned(self, query: PlannedQuery) -> ComingJobs:
        found = sorted(
            (job.timer.pending.due, job.job_id, job)
            for job in self._state.jobs.values()
            if job.timer is not None and query.due_after <= job.timer.pending.due < query.due_before
            if _matches(job, query)
        )
        rows = page_within([self._state.job_row(job) for _, _, job in found[: query.limit]], query.bytes_most)
        return ComingJobs(rows, found[len(rows)][0] if len(found) > len(rows) else None)


def _matches(job: JobRecord, query: PlannedQuery) -> bool:
    return (
        job.namespace == query.namespace
        and query.job_id in (None, job.job_id)
        and query.queue in (None, job.lane.queue)
        and (query.name is None or query.name.casefold() in job.name.casefold())
        and query.labels.items() <= job.labels.items()
        and selectors.matches(job.labels, query.within)
    )
