"""What happened and what stands now, for those who ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.lifecycle import CODES, STATES
from tickwise.ports.store import AttemptRow, Incident, RunQuery, RunRow, StoreStats

COUNTED_MOST: Final = 100_000
"""Rows that a look at the figures counts one by one, about 10 ms; beyond it they are estimated."""

INCIDENTS_MOST: Final = 100


class Records(Part):
    """`run_get`, `run_attempts`, `runs_list`, `incident*` and `stats` of the port."""

    async def run_get(self, namespace: str, run_id: UUID) -> RunRow | None:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            row = await connection.fetchrow(statement("run_get"), run_id, namespace)
        return None if row is None else run_row(row)

    async def run_attempts(self, run_id: UUID) -> Sequence[AttemptRow]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("run_attempts"), run_id)
        return [AttemptRow(**{**dict(row), "state": STATES[row["state"]]}) for row in rows]

    async def runs_list(self, query: RunQuery) -> Sequence[RunRow]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(
                statement("runs_list"),
                query.namespace,
                query.job_id,
                [CODES[state] for state in query.states] or None,
                query.due_after,
                query.due_before,
                query.before,
                query.limit,
                query.after,
                list(query.triggers) or None,
                query.origin,
            )
        return [run_row(row) for row in rows]

    async def incident_add(self, incident: Incident) -> None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            await connection.execute(
                statement("incident_add"), incident.kind, incident.begin, incident.end, incident.who
            )

    async def incidents_list(self, since: float, until: float) -> Sequence[Incident]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("incidents_list"), since, until, INCIDENTS_MOST)
        return [Incident(**dict(row)) for row in rows]

    async def stats(self) -> StoreStats:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            row = await connection.fetchrow(statement("stats"), COUNTED_MOST)
        return StoreStats(**dict(row))


def run_row(row: asyncpg.Record) -> RunRow:
    """A row of the view of runs, as the port says it."""
    return RunRow(**{**dict(row), "state": STATES[row["state"]]})
