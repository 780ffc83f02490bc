"""Objectives for starts: jobs that have one, and those of many jobs with their counts, which ends leave by a trigger
(0034).

Looks that schedulers repeat: each reads a bounded number of rows along an index that has them alone, and no view of
jobs or runs, which takes longer to plan than all of these take to read.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.openness import check_open
from tickwise.adapters.store.postgres.records.audit import write_audit
from tickwise.adapters.store.postgres.records.searches import labels_asked, searched
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import AuditEntry
from tickwise.domain.observing.objectives import HOUR, WINDOW_SECONDS, GroupObjective, StartCount
from tickwise.ports.store import (
    MAX_OBJECTIVES,
    MAX_OBJECTIVES_LOOKED,
    MAX_WAITING_COUNTED,
    ObjectiveJob,
    ObjectiveJobs,
    ObjectiveJobsQuery,
    check_objective_room,
    objective_name_taken,
)

FOLDED_MOST: Final = 10_000
"""Counts of one fold: about a minute of them at full rate."""
BY_MINUTE_SECONDS: Final = 6 * HOUR
"""The longest window that goes by minutes."""
NIL: Final = UUID(int=0)


class Objectives(Part):
    """`ObjectiveStore` of the port."""

    async def jobs(self, query: ObjectiveJobsQuery) -> ObjectiveJobs:
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

    async def add(self, objective: GroupObjective, *, audit: AuditEntry | None = None) -> GroupObjective:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await check_open(connection, objective.namespace)
            await connection.execute(statement("objectives_lock"), objective.namespace)
            count = await connection.fetchval(statement("objectives_count"), objective.namespace)
            stored = await connection.fetchrow(statement("objective_get"), objective.objective_id)
            if stored is not None:
                return _objective(stored)
            check_objective_room(count)
            try:
                await connection.execute(
                    statement("objective_add"), objective.objective_id, objective.namespace, objective.name,
                    objective.within_seconds, objective.ratio, objective.priority, json.dumps(dict(objective.labels)),
                    objective.created_by,
                )  # fmt: skip
            except asyncpg.UniqueViolationError:
                raise objective_name_taken(objective.name) from None
            await write_audit(connection, audit)
            return _objective(await connection.fetchrow(statement("objective_get"), objective.objective_id))

    async def remove(self, namespace: str, objective_id: UUID, *, audit: AuditEntry | None = None) -> bool:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            if await connection.fetchval(statement("objective_remove"), namespace, objective_id) is None:
                return False
            await write_audit(connection, audit)
        return True

    async def find(
        self, namespace: str | None, *, after: UUID | None = None, limit: int = MAX_OBJECTIVES
    ) -> Sequence[GroupObjective]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("objectives_find"), namespace, after or NIL, limit)
        return [_objective(row) for row in rows]

    async def counts(
        self, objectives: Sequence[UUID], windows: Sequence[float]
    ) -> Mapping[UUID, Mapping[float, StartCount]]:
        """See the port."""
        asked = [list(objectives), list(windows), BY_MINUTE_SECONDS, MAX_WAITING_COUNTED]
        found = defaultdict[UUID, dict[float, StartCount]](dict)
        async with self._links.pooled(writes=False) as connection:
            for row in await searched(connection, "objectives_counts", asked, self._clock):
                found[row["objective_id"]][row["window_seconds"]] = StartCount(row["good"], row["late"])
        return found

    async def fold(self) -> int:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            if not await connection.fetchval(statement("objectives_fold_lock")):
                return 0
            folded: int = await connection.fetchval(statement("objectives_fold"), FOLDED_MOST)
            await connection.execute(
                statement("objectives_trim"), BY_MINUTE_SECONDS + 2 * HOUR, WINDOW_SECONDS + 2 * HOUR
            )
        return folded


def _objective(row: Mapping[str, Any]) -> GroupObjective:
    return GroupObjective(
        objective_id=row["objective_id"],
        namespace=row["namespace"],
        name=row["name"],
        within_seconds=row["start_within"],
        ratio=row["ratio"],
        priority=row["priority"],
        labels=json.loads(row["labels"]),
        created_at=row["created_at"],
        created_by=row["created_by"],
    )
