"""Jobs with an objective, and their runs, counted by whether they began in time.

Looks that schedulers repeat: each reads a bounded number of rows along an index that has them alone, and no view of
jobs or runs, which takes longer to plan than all of these take to read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.records.records import first_id
from tickwise.adapters.store.postgres.records.searches import labels_asked, searched
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.observing.objectives import StartCount
from tickwise.ports.store import (
    LATE_REASONS,
    MAX_OBJECTIVES_LOOKED,
    JobStarts,
    ObjectiveJob,
    ObjectiveJobs,
    ObjectiveJobsQuery,
    StartsQuery,
)

DAY_SECONDS: Final = 86_400.0
"""Runs are looked for by their ids, from a day before the window on: some are due long after the time in their id."""
NIL: Final = UUID(int=0)


class StartSearches(Part):
    """`Searches.starts` and `.objective_jobs` of the port."""

    async def objective_jobs(self, query: ObjectiveJobsQuery) -> ObjectiveJobs:
        """See the port."""
        after, most, last_read = query.after or NIL, query.limit + 1, None
        async with self._links.pooled(writes=False) as connection:
            if query.namespace is None:
                rows = await connection.fetch(statement("objective_jobs"), after, most)
            else:
                labels = labels_asked({}, query.within)
                read = most if labels is None else max(MAX_OBJECTIVES_LOOKED, most)
                asked = [query.namespace, after, labels, most, read]
                rows = await connection.fetch(statement("objective_jobs_of"), *asked)
                last_read = rows[0]["last_read"]
        jobs = [
            ObjectiveJob(row["namespace"], row["job_id"], row["name"], row["definition"])
            for row in rows
            if row["job_id"] is not None
        ]
        page = jobs[: query.limit]
        return ObjectiveJobs(page, page[-1].job_id if len(jobs) > len(page) else last_read)

    async def starts(self, query: StartsQuery) -> Mapping[UUID, JobStarts]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            begin: float = await connection.fetchval(statement("now")) - max(query.windows) - DAY_SECONDS
            asked = [
                list(query.jobs), list(query.jobs.values()), list(query.windows), query.each, first_id(begin),
                [each.value for each in LATE_REASONS],
            ]  # fmt: skip
            rows = await searched(connection, "runs_starts", asked, self._clock)
        counts = defaultdict[UUID, dict[float, StartCount]](dict)
        for row in rows:
            counts[row["job_id"]][row["seconds"]] = StartCount(row["good"], row["late"])
        since = {row["job_id"]: row["since"] for row in rows}
        return {job_id: JobStarts(found, since[job_id]) for job_id, found in counts.items()}
