"""Searches of the audit log, and its export.

A principal sees the entries of its namespace since that was made. With `audit:read` in the whole installation it sees
those of each namespace, and the installation's own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from math import floor
from typing import Final, NamedTuple

from tickwise.control.access import holds_everywhere, requires
from tickwise.control.audit.entries import entry
from tickwise.control.context import ControlContext
from tickwise.domain.audit import AuditAction
from tickwise.domain.errors import Forbidden
from tickwise.domain.model import LATEST_INSTANT, Principal
from tickwise.domain.permissions import Permission
from tickwise.ports.audit import AuditPage, AuditPlace, AuditQuery, AuditRow
from tickwise.ports.paging import PAGE_BYTES, Page

EXPORT_PAGE: Final = 500
ENTRIES_MAX: Final = 1 << 63
"""No entry has this number, or a greater one."""
DAY_SECONDS: Final = 86_400.0


class AuditExport(NamedTuple):
    """An export."""

    until: float
    """It has all entries that match before this instant: the `since` of the next one."""
    pages: AsyncIterator[Page[AuditRow]]


def place_of(at: str, entry: str) -> AuditPlace | None:
    """The place of a cursor; None: no list of ours has it."""
    try:
        place = AuditPlace(float(at), int(entry))
    except ValueError:
        return None
    is_ours = -LATEST_INSTANT < place.at < LATEST_INSTANT and 0 <= place.entry < ENTRIES_MAX  # no number is not, too
    return place if is_ours else None


class AuditService:
    """Everything about the audit log that callers may ask for."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context
        self._audit = context.store.audit

    @requires(Permission.AUDIT_READ)
    async def search(self, who: Principal, query: AuditQuery) -> AuditPage:
        """Entries that match, as far as one look goes. Raises `Forbidden` for a query beyond the caller's namespace."""
        return await self._audit.find(replace(await self._seen(who, query), bytes_most=PAGE_BYTES, may_pause=True))

    @requires(Permission.AUDIT_READ)
    async def export(self, who: Principal, query: AuditQuery) -> AuditExport:
        """All entries that match, the oldest first, up to the present one; page by page as they are read. It ends
        before entries whose transactions have not ended, so an export from its end on has all others. The export itself
        is an entry, and written before. Raises `Forbidden` as `search`, and `StoreUnavailable` as `AuditStore.settled`.
        """
        query = await self._seen(who, query)
        settled = floor(await self._audit.settled() * 1000.0) / 1000.0
        until = settled if query.until is None else min(query.until, settled)
        asked = {"since": query.since, "until": query.until, "actor": query.actor, "action": query.action}
        detail = {name: value for name, value in {**asked, "target": query.target}.items() if value is not None}
        detail["until"] = until
        place = query.namespace or "*"
        await self._audit.add([entry(who, AuditAction.AUDIT_EXPORTED, "audit", namespace=place, detail=detail)])
        query = replace(
            query, until=until, ascending=True, limit=EXPORT_PAGE, bytes_most=PAGE_BYTES, may_pause=True
        )  # fmt: skip
        return AuditExport(until, self._days(query, until))

    async def _days(self, query: AuditQuery, until: float) -> AsyncIterator[Page[AuditRow]]:
        """The pages of one day after another: a search for a rare caller reads no more than a day at a time."""
        first = await self._audit.find(
            AuditQuery(namespace=query.namespace, since=query.since, ascending=True, limit=1)
        )
        begin = first[0].at if first else until
        while begin < until:
            end = min(until, (begin // DAY_SECONDS + 1) * DAY_SECONDS)
            async for page in self._pages(replace(query, since=begin, until=end)):
                yield page
            begin = end

    async def _pages(self, query: AuditQuery) -> AsyncIterator[Page[AuditRow]]:
        while True:
            page = await self._audit.find(query)
            if page:
                yield page
            is_full = page.is_full(query.limit)
            goes_on = AuditPlace(page[-1].at, page[-1].entry) if is_full else page.goes_on
            if goes_on is None:
                return
            query = replace(query, beyond=goes_on)

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


def usual_namespace(who: Principal, *, is_named: bool) -> str | None:
    """The namespace of a query that names none: that of the caller; None (each) for a caller that sees all, unless the
    request itself was made in a namespace (`is_named`)."""
    return None if holds_everywhere(who, Permission.AUDIT_READ) and not is_named else who.namespace
