"""The runs of jobs with an objective, counted by whether they began in time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.records.searches import first_id, searched
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.observing.objectives import StartCount
from tickwise.ports.store import LATE_REASONS, JobStarts, StartsQuery

DAY_SECONDS: Final = 86_400.0
"""Runs are looked for by their ids, from a day before the window on: some are due long after the time in their id."""


class StartSearches(Part):
    """`Searches.starts` of the port."""

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
