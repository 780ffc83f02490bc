"""What happened and what stands now, for those who ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.lifecycle import CODES, HELD, STATES
from tickwise.ports.store import AttemptRow, CancelRow, Incident, RunQuery, RunRow, StoreStats

COUNTED_MOST: Final = 100_000
"""Rows that a look at the figures counts one by one, about 10 ms; beyond it they are estimated."""

INCIDENTS_MOST: Final = 100

_RUN_COLUMNS: Final = frozenset(field.name for field in fields(RunRow))


class Records(Part):
    """`run_get`, `run_attempts`, `runs_list`, `runs_count`, `incident*` and `stats` of the port."""

    async def run_get(self, namespace: str, run_id: UUID) -> RunRow | None:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await _shown(connection, await connection.fetch(statement("run_get"), run_id, namespace))
        return rows[0] if rows else None

    async def run_attempts(self, run_id: UUID) -> Sequence[AttemptRow]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("run_attempts"), run_id)
        return [AttemptRow(**{**dict(row), "state": STATES[row["state"]]}) for row in rows]

    async def runs_list(self, query: RunQuery) -> Sequence[RunRow]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            return await _shown(connection, await connection.fetch(statement("runs_list"), *_asked(query)))

    async def runs_count(self, query: RunQuery) -> int:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            count: int = await connection.fetchval(statement("runs_count"), *_asked(query))
        return count

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


def _asked(query: RunQuery) -> list[Any]:
    """The parameters of `runs_list` and `runs_count`."""
    return [
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
        query.reason,
    ]


async def _shown(connection: asyncpg.Connection, rows: Sequence[asyncpg.Record]) -> list[RunRow]:
    """Rows of the view of runs, those that are held with what is asked of their holders."""
    shown = [run_row(row) for row in rows]
    held = [run.run_id for run in shown if run.state in HELD]
    if not held:
        return shown
    asked = {
        row["run_id"]: CancelRow(asked_at=row["asked_at"], heard_at=row["heard_at"], error=row["error"])
        for row in await connection.fetch(statement("requests_of"), held)
    }
    return [replace(run, cancel=asked[run.run_id]) if run.run_id in asked else run for run in shown]


def run_row(row: Mapping[str, Any]) -> RunRow:
    """A row of the view of runs, as the port says it; other columns of it are passed over."""
    found = {name: value for name, value in row.items() if name in _RUN_COLUMNS}
    cancel = None
    if row["cancel_asked"] is not None:
        cancel = CancelRow(asked_at=row["cancel_asked"], heard_at=row["cancel_heard"], error=row["cancel_error"])
    return RunRow(**{**found, "state": STATES[row["state"]], "cancel": cancel})
