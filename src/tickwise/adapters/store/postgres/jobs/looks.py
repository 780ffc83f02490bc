"""Bounded looks: the latest runs of many jobs, their names, and the jobs that come next.

A page of jobs asks once for the runs of all of them. The jobs that come next are read in the order of the timers'
indexes, and not by their making, as a search for a window of times does. Invariant: what a look reads is bounded by
what is asked for, and by `MAX_TIMERS_LOOKED`, however much is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.jobs.jobs import job_row
from tickwise.adapters.store.postgres.records.records import run_row
from tickwise.adapters.store.postgres.records.searches import labels_asked, search
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.domain.selectors import Selector
from tickwise.ports.store import MAX_TIMERS_LOOKED, ComingQuery, JobRow, LatestRunsQuery, RunRow


class Looks(Part):
    """The bounded looks of `Searches`."""

    async def latest(self, query: LatestRunsQuery) -> Mapping[UUID, Sequence[RunRow]]:
        """See the port."""
        labels = labels_asked({}, query.within)
        asked = [query.namespace, query.jobs, query.each, query.until, labels]
        found: dict[UUID, list[RunRow]] = {}
        for record in await search(self._links, "runs_latest", asked, self._clock):
            row = run_row(record)
            found.setdefault(row.job_id, []).append(row)
        return found

    async def names(self, namespace: str, jobs: Sequence[UUID], within: Selector | None) -> Mapping[UUID, str]:
        """See the port."""
        asked = [namespace, jobs, labels_asked({}, within)]
        return {row["job_id"]: row["name"] for row in await search(self._links, "jobs_names", asked, self._clock)}

    async def coming(self, query: ComingQuery) -> Sequence[JobRow]:
        """See the port."""
        labels = labels_asked({}, query.within)
        name = "jobs_coming"
        if query.namespace != DEFAULT_NAMESPACE or labels is not None:
            alike: list[Any] = [query.namespace, labels, None, None, MAX_TIMERS_LOOKED + 1]
            [(count,)] = await search(self._links, "jobs_alike", alike, self._clock)
            name = "jobs_coming_of" if count <= MAX_TIMERS_LOOKED else name
        asked = [query.namespace, query.after, query.before, query.limit, MAX_TIMERS_LOOKED, labels]
        return [job_row(row) for row in await search(self._links, name, asked, self._clock)]
