"""Namespaces: the tenants of an installation. Their removal has a part of its own, `removals`."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.records.audit import write_audit
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import NotFound, VersionConflict
from tickwise.domain.quotas import NO_QUOTAS, Quotas
from tickwise.ports.identity.namespaces import (
    NamespaceRow,
    NamespaceState,
    NewNamespace,
    check_closing,
    namespace_exists,
    namespace_removing,
)


class Namespaces(Part):
    """`NamespaceStore` of the port."""

    async def add(self, namespace: NewNamespace, *, audit: AuditEntry | None = None) -> NamespaceRow:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            added = await connection.fetchval(
                statement("namespace_add"), namespace.name, namespace.display_name, namespace.created_by
            )
            if added:
                # What came for a former one of this name after it had gone.
                await connection.execute(statement("namespace_late"), namespace.name)
                await write_audit(connection, audit)
            row = await found(connection, namespace.name)
        if row is None:
            raise namespace_exists(namespace.name)
        if (refusal := namespace.refusal(row)) is not None:
            raise refusal
        return row

    async def get(self, name: str) -> NamespaceRow | None:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            return await found(connection, name)

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
                json.dumps(row.quotas.said()) if row.quotas else None,
            )
            if changed:
                await write_audit(connection, audit)
            stored = await found(connection, row.name)
        self._quotas.forget()
        if stored is None:
            raise NotFound(f"there is no namespace {row.name}")
        if stored.state is NamespaceState.REMOVING:
            raise namespace_removing(row.name)
        if changed or stored == replace(
            row, version=row.version + 1, created_at=stored.created_at, created_by=stored.created_by
        ):
            return stored
        raise VersionConflict(f"the namespace is at version {stored.version}, not {row.version}: look again")

    async def removed(self, names: Collection[str]) -> Mapping[str, float]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            return dict(await connection.fetch(statement("namespaces_removed"), list(names)))


async def found(connection: asyncpg.Connection, name: str) -> NamespaceRow | None:
    """One namespace."""
    row = await connection.fetchrow(statement("namespaces_page"), name, None, 1)
    return None if row is None else _row(row)


def _row(row: Mapping[str, Any]) -> NamespaceRow:
    fields = dict(row)
    quotas = NO_QUOTAS if fields["quotas"] is None else Quotas.of(json.loads(fields["quotas"]))
    return NamespaceRow(**{**fields, "state": NamespaceState(fields["state"]), "quotas": quotas})
