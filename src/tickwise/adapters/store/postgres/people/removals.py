"""The end of a namespace: what it holds goes page by page, and with the last page the namespace.

Each page is a transaction of its own, and deletes what is there: a page that is repeated, after a crash or by two
schedulers at once, deletes what the first one left. Locks are taken in one order: people, the namespace, jobs, timers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.people.namespaces import found
from tickwise.adapters.store.postgres.records.audit import write_audit
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import AuditEntry
from tickwise.ports.identity.namespaces import (
    MAX_LEFT,
    REMOVED_SECONDS,
    SETTLE_SECONDS,
    NamespaceLeft,
    NamespaceRow,
    NamespaceState,
    check_removal,
)

_PAGES: Final = (
    "removal_rules",
    "removal_tasks",
    "removal_operations",
    "removal_receipts",
    "removal_gates",
    "removal_tallies_new",  # before `removal_tallies`: the upkeep may be folding the ones into the others
    "removal_tallies",
    "removal_error_groups",
    "removal_status_pages",
    "removal_secrets",
    "removal_notices",
    "removal_channels",
)
"""Statements that delete a page of one sort each, and tell how many."""


class Removals(Part):
    """`RemovalStore` of the port."""

    async def begin(self, name: str, *, audit: AuditEntry | None = None) -> NamespaceRow | None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("users_lock"))
            await connection.execute(statement("removal_lock"), name)
            row = await found(connection, name)
            if row is None or row.state is NamespaceState.REMOVING:
                return row
            check_removal(row)
            await connection.execute(statement("removal_begin"), name)
            for drop in ("removal_people", "removal_sessions", "removal_keys"):
                await connection.execute(statement(drop), name)
            await write_audit(connection, audit)
            return await found(connection, name)

    async def take(self, hold_seconds: float) -> str | None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            taken: str | None = await connection.fetchval(statement("removal_take"), hold_seconds)
        return taken

    async def put_back(self, name: str, seconds: float) -> None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            await connection.execute(statement("removal_put_back"), name, seconds)

    async def left(self, name: str) -> NamespaceLeft:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            return NamespaceLeft(*await connection.fetchrow(statement("removal_left"), name, MAX_LEFT))

    async def jobs(self, name: str, *, after: UUID | None, limit: int) -> Sequence[UUID]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("removal_jobs_going"), name, after or UUID(int=0), limit)
        return [row["job_id"] for row in rows]

    async def drop_runs(self, name: str, run_ids: Collection[UUID]) -> int:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            dropped: int = await connection.fetchval(statement("removal_runs"), name, list(run_ids))
        return dropped

    async def drop(self, name: str, limit: int) -> int:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            dropped = 0
            async with connection.transaction():
                rows = await connection.fetch(statement("removal_jobs_lock"), name, limit)
                if rows:
                    jobs = [row["job_id"] for row in rows]
                    # A scheduler that is just deciding a timer has it: the run that it makes is seen by what follows.
                    await connection.execute(statement("removal_timers"), jobs)
                    dropped += await connection.fetchval(statement("removal_jobs"), jobs)
            for page in _PAGES:
                dropped += await connection.fetchval(statement(page), name, limit)
        return dropped

    async def end(self, name: str) -> bool:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            row = await connection.fetchrow(statement("removal_lock"), name)
            if row is None:
                return True
            if not await connection.fetchval(statement("removal_is_over"), name, SETTLE_SECONDS):
                return False
            await connection.execute(statement("removal_rest"), name)
            await connection.execute(statement("removal_rest_notices"), name)
            await connection.execute(statement("removal_lanes"), name)
            await connection.execute(statement("removal_end"), name, REMOVED_SECONDS)
        self._lanes.forget()
        return True
