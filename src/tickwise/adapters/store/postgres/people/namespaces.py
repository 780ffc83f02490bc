"""Namespaces: the tenants of an installation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.records.audit import is_effective, write_audit
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import NotFound, VersionConflict
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.ports.identity.namespaces import (
    NamespaceRow,
    NamespaceState,
    NewNamespace,
    check_closing,
    namespace_exists,
    namespace_not_empty,
)


class Namespaces(Part):
    """`NamespaceStore` of the port."""

    async def add(self, namespace: NewNamespace, *, audit: AuditEntry | None = None) -> NamespaceRow:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            added = await connection.execute(
                statement("namespace_add"),
                namespace.name,
                namespace.display_name,
                namespace.created_by,
            )
            if is_effective(added):
                await write_audit(connection, audit)
            rows = await connection.fetch(statement("namespaces_page"), namespace.name, None, 1)
        if not rows or not namespace.is_same(_row(rows[0])):
            raise namespace_exists(namespace.name)
        return _row(rows[0])

    async def get(self, name: str) -> NamespaceRow | None:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("namespaces_page"), name, None, 1)
        return _row(rows[0]) if rows else None

    async def page(self, *, after: str | None, limit: int) -> Sequence[NamespaceRow]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("namespaces_page"), None, after, limit)
        return [_row(row) for row in rows]

    async def change(self, row: NamespaceRow, *, audit: AuditEntry | None = None) -> NamespaceRow:
        """See the port."""
        check_closing(row)
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            changed = await connection.fetchval(
                statement("namespace_change"),
                row.name,
                row.version,
                row.display_name,
                row.state.value,
            )
            if changed:
                await write_audit(connection, audit)
            rows = await connection.fetch(statement("namespaces_page"), row.name, None, 1)
        if not rows:
            raise NotFound(f"there is no namespace {row.name}")
        found = _row(rows[0])
        if changed or found == replace(
            row, version=row.version + 1, created_at=found.created_at, created_by=found.created_by
        ):
            return found
        raise VersionConflict(f"the namespace is at version {found.version}, not {row.version}: look again")

    async def remove(self, name: str, *, audit: AuditEntry | None = None) -> bool:
        """See the port."""
        if name == DEFAULT_NAMESPACE:
            raise namespace_not_empty(name)
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            removed = await connection.fetchval(statement("namespace_remove"), name)
            if removed:
                await write_audit(connection, audit)
        if removed is False:
            raise namespace_not_empty(name)
        return removed is not None


def _row(row: Mapping[str, Any]) -> NamespaceRow:
    fields = dict(row)
    return NamespaceRow(**{**fields, "state": NamespaceState(fields["state"])})
