"""Searches of the audit log, and its export.

A principal sees the entries of its namespace since that was made. With `audit:read` in the whole installation it sees
those of each namespace, and the installation's own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Final

from tickwise.control.access import holds_everywhere, requires
from tickwise.control.audit.entries import entry
from tickwise.control.context import ControlContext
from tickwise.domain.audit import AuditAction
from tickwise.domain.errors import Forbidden
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.ports.audit import AuditPlace, AuditQuery, AuditRow

EXPORT_PAGE: Final = 500


class AuditService:
    """Everything about the audit log that callers may ask for."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context
        self._audit = context.store.audit

    @requires(Permission.AUDIT_READ)
    async def search(self, who: Principal, query: AuditQuery) -> Sequence[AuditRow]:
        """Entries that match. Raises `Forbidden` for a query beyond the caller's namespace."""
        return await self._audit.find(await self._seen(who, query))

    @requires(Permission.AUDIT_READ)
    async def export(self, who: Principal, query: AuditQuery) -> AsyncIterator[Sequence[AuditRow]]:
        """All entries that match, the oldest first, up to the present one; page by page as they are read. The export
        itself is an entry, and written before. Raises `Forbidden` as `search`."""
        query = await self._seen(who, query)
        now = await self._context.time.now()
        asked = {"since": query.since, "until": query.until, "actor": query.actor, "action": query.action}
        detail = {name: value for name, value in {**asked, "target": query.target}.items() if value is not None}
        place = query.namespace or "*"
        await self._audit.add([entry(who, AuditAction.AUDIT_EXPORTED, "audit", namespace=place, detail=detail)])
        until = now if query.until is None else min(query.until, now)
        return self._pages(replace(query, until=until, ascending=True, limit=EXPORT_PAGE))

    async def _pages(self, query: AuditQuery) -> AsyncIterator[Sequence[AuditRow]]:
        while True:
            rows = await self._audit.find(query)
            if rows:
                yield rows
            if len(rows) < query.limit:
                return
            query = replace(query, beyond=AuditPlace(rows[-1].at, rows[-1].entry))

    async def _seen(self, who: Principal, query: AuditQuery) -> AuditQuery:
        """The query for what the caller sees: of its namespace, and not of a former one of the same name. Raises
        `Forbidden`."""
        if holds_everywhere(who, Permission.AUDIT_READ):
            return query
        if query.namespace != who.namespace:
            raise Forbidden(f"this caller sees the audit log of the namespace {who.namespace} alone")
        row = await self._context.store.namespaces.get(who.namespace)
        begun = 0.0 if row is None else row.created_at
        return query if query.since is not None and query.since >= begun else replace(query, since=begun)
