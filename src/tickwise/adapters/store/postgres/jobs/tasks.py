"""Stored tasks, every version: a small table, plainly kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.jobs.quotas import close_room, open_room
from tickwise.adapters.store.postgres.openness import check_open
from tickwise.adapters.store.postgres.records.audit import is_effective, write_audit
from tickwise.adapters.store.postgres.records.paging import bounded, own_columns, page_of
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import AuditEntry
from tickwise.ports.store import Page, StoredTask, check_newest
from tickwise.ports.store.quotas import Cost


class Tasks(Part):
    """`TaskStore` of the port."""

    async def put(
        self,
        task: StoredTask,
        expected_version: int | None = None,
        *,
        again: bool = False,
        audit: AuditEntry | None = None,
    ) -> StoredTask:
        """See the port."""
        quotas = (await self._quotas.of([task.namespace])).get(task.namespace)
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await check_open(connection, task.namespace)
            await connection.execute(statement("task_lock"), task.namespace, task.task_id)
            if expected_version is not None:
                newest = await connection.fetchrow(statement("task_get"), task.namespace, task.task_id, None)
                check_newest(
                    None if newest is None else StoredTask(**dict(newest)), task, expected_version, again=again
                )
            cost = Cost(bytes=len(task.task.encode()))
            room = None if quotas is None else await open_room(connection, task.namespace, quotas, cost)
            put = await connection.execute(
                statement("task_put"),
                task.namespace,
                task.task_id,
                task.name,
                task.task,
                task.digest,
                task.created_by,
            )
            if is_effective(put):
                if room is not None:
                    await close_room(connection, room, room.demand(cost))
                await write_audit(connection, audit)
            row = await connection.fetchrow(statement("task_get"), task.namespace, task.task_id, None)
        return StoredTask(**dict(row))

    async def get(self, namespace: str, task_id: str, version: int | None = None) -> StoredTask | None:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            row = await connection.fetchrow(statement("task_get"), namespace, task_id, version)
        return None if row is None else StoredTask(**dict(row))

    async def versions(
        self, namespace: str, task_id: str, *, before: int | None, limit: int, bytes_most: int | None = None
    ) -> Page[StoredTask]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(bounded("task_versions"), namespace, task_id, before, limit, bytes_most)
        return page_of(rows, _listed)

    async def page(
        self, namespace: str, after: str | None, limit: int, *, bytes_most: int | None = None
    ) -> Page[StoredTask]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(bounded("tasks_list"), namespace, after, limit, bytes_most)
        return page_of(rows, _listed)

    async def scripts(self) -> Sequence[tuple[str, str]]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("scripts_stored"))
        return [(row["namespace"], row["digest"]) for row in rows]


def _listed(row: Mapping[str, Any]) -> StoredTask:
    return StoredTask(**own_columns(row))
