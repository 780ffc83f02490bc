"""Saved views of lists."""

from __future__ import annotations

from collections.abc import Sequence

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.openness import check_open
from tickwise.adapters.store.postgres.records.audit import write_audit
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import AuditEntry
from tickwise.domain.model import joined
from tickwise.ports.store import SHARED, SavedView, check_views


class SavedViews(Part):
    """`SavedViewStore` of the port."""

    async def put(self, view: SavedView, *, audit: AuditEntry | None = None) -> None:
        """See the port."""
        named = (view.namespace, view.owner, view.path, view.name)
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await check_open(connection, view.namespace, or_closing=False)
            await connection.execute(statement("saved_views_lock"), joined(view.namespace, view.owner))
            others = await connection.fetchval(statement("saved_views_others"), *named)
            check_views(others, shared=view.owner == SHARED)
            await connection.execute(statement("saved_view_put"), *named, view.query, view.by)
            await write_audit(connection, audit)

    async def find(self, namespace: str, owners: Sequence[str]) -> Sequence[SavedView]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("saved_views_find"), namespace, list(owners))
        return [
            SavedView(
                namespace=row["namespace"], owner=row["owner"], path=row["path"], name=row["name"], query=row["query"],
                by=row["saved_by"],
            )
            for row in rows
        ]  # fmt: skip

    async def remove(
        self, namespace: str, owner: str, *, path: str, name: str, audit: AuditEntry | None = None
    ) -> bool:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            if not await connection.fetchval(statement("saved_view_remove"), namespace, owner, path, name):
                return False
            await write_audit(connection, audit)
        return True
