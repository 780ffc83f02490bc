"""Searches for the jobs that fire next.

Timers have the index of their due time, and no namespace. So a look reads the timers that are due first, up to its
bound. Where the jobs are few by another index (a label, a namespace that is not the default one), it reads theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.records.job_rows import job_row
from tickwise.adapters.store.postgres.records.paging import bounded, page_of
from tickwise.adapters.store.postgres.records.searches import (
    KEPT_PLAN,
    fetched,
    labelled_jobs,
    labels_asked,
    like,
    searched,
)
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.ports.store import JobRow, Page, PlannedPage, PlannedQuery


class PlannedSearches(Part):
    """The look at the timers to come."""

    async def _planned(self, query: PlannedQuery) -> PlannedPage:
        labels = labels_asked(query.labels, query.within)
        name = None if query.name is None else like(query.name)
        async with self._links.pooled(writes=False) as connection:
            few = await self._candidates(connection, query, labels)
            window = [query.due_after, query.due_before]
            # Nearly all timers are wanted where a namespace has nearly all: then so many as a page has are enough.
            for looked in sorted({min(query.looked, query.limit + 1), query.looked}):
                asked = [few, looked, query.namespace, name, labels, query.queue]
                [known] = await searched(connection, "planned_due", [*window, *asked], self._clock)
                job_ids, dues = known["job_ids"], known["dues"]
                if len(job_ids) > query.limit or known["looked"] < looked:
                    break
        rows = await self._rows(query.namespace, job_ids[: query.limit], query.bytes_most)
        until = known["last"] if known["looked"] >= looked else None
        shown = 1 + job_ids.index(rows[-1].job_id) if rows.cut else query.limit
        return PlannedPage(rows, known_until=dues[shown] if shown < len(dues) else until)

    async def _rows(self, namespace: str, job_ids: Sequence[UUID], bytes_most: int | None) -> Page[JobRow]:
        """These jobs, in this order."""
        if not job_ids:
            return Page()
        async with self._links.search_line().use(writes=False) as connection:
            asked = [namespace, job_ids, bytes_most]
            rows = await fetched(connection, bounded("planned_jobs"), asked, self._clock, KEPT_PLAN)
        return page_of(rows, job_row)

    async def _candidates(
        self, connection: asyncpg.Connection, query: PlannedQuery, labels: Sequence[str] | None
    ) -> list[UUID] | None:
        """The only jobs that the query can be about, if they are few. None: they are many, or all."""
        if query.job_id is not None:
            return [query.job_id]
        if labels is not None:
            few = await labelled_jobs(connection, query.namespace, labels, self._clock, self._large_sets)
            if few is not None and len(few) < query.looked:
                return few
        if query.namespace == DEFAULT_NAMESPACE:
            return None
        rows = await searched(connection, "planned_candidates", [query.namespace, query.looked], self._clock)
        return [row["job_id"] for row in rows] if len(rows) < query.looked else None
