"""Status pages, their days and their announcements."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.openness import check_open
from tickwise.adapters.store.postgres.records.audit import write_audit
from tickwise.adapters.store.postgres.statements import statement
from tickwise.documents.status_pages import (
    decode_choices,
    decode_states,
    decode_updates,
    encode_choices,
    encode_states,
    encode_updates,
)
from tickwise.domain.audit import AuditEntry
from tickwise.domain.observing.status_pages import (
    COUNTED_SECONDS,
    HISTORY_DAYS,
    Announcement,
    AnnouncementKind,
    ComponentState,
    StateSeconds,
    StatusDay,
    StatusPage,
)
from tickwise.ports.store.status_pages import (
    StatusPageQuery,
    announcement_changed,
    check_announcement_room,
    check_page_room,
    no_page,
    page_changed,
    slug_taken,
)


class StatusPages(Part):
    """`StatusPageStore` of the port."""

    async def add(self, page: StatusPage, *, audit: AuditEntry | None = None) -> StatusPage:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            stored = await connection.fetchrow(statement("status_page_get"), page.page_id)
            if stored is not None:
                return _page(stored)
            await check_open(connection, page.namespace)
            await connection.execute(statement("status_pages_lock"), page.namespace)
            check_page_room(await connection.fetchval(statement("status_pages_count"), page.namespace))
            try:
                await connection.execute(
                    statement("status_page_add"), page.page_id, page.namespace, page.slug, page.title, page.enabled,
                    encode_choices(page), page.created_by,
                )  # fmt: skip
            except asyncpg.UniqueViolationError:
                raise slug_taken(page.slug) from None
            await write_audit(connection, audit)
            return _page(await connection.fetchrow(statement("status_page_get"), page.page_id))

    async def change(self, page: StatusPage, *, audit: AuditEntry | None = None) -> StatusPage | None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            row = await connection.fetchrow(statement("status_page_lock"), page.namespace, page.page_id)
            if row is None:
                return None
            stored = _page(row)
            if stored.version != page.version:
                raise page_changed(page)
            await check_open(connection, page.namespace, or_closing=False)
            names = [each.name for each in page.components]
            states = encode_states({name: state for name, state in stored.states.items() if name in names})
            try:
                await connection.execute(
                    statement("status_page_change"), page.page_id, page.slug, page.title, page.enabled,
                    encode_choices(page), states, names,
                )  # fmt: skip
            except asyncpg.UniqueViolationError:
                raise slug_taken(page.slug) from None
            await write_audit(connection, audit)
            return _page(await connection.fetchrow(statement("status_page_get"), page.page_id))

    async def remove(self, namespace: str, page_id: UUID, *, audit: AuditEntry | None = None) -> bool:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            if await connection.fetchval(statement("status_page_remove"), namespace, page_id) is None:
                return False
            await write_audit(connection, audit)
        return True

    async def find(self, query: StatusPageQuery) -> Sequence[StatusPage]:
        """See the port."""
        asked = (query.namespace, query.page_id, query.enabled, query.limit, query.unseen_seconds)
        async with self._links.pooled(writes=False) as connection:
            return [_page(row) for row in await connection.fetch(statement("status_pages_find"), *asked)]

    async def look(self, page_id: UUID, looks: int, states: Mapping[str, ComponentState]) -> bool:
        """See the port."""
        values = [state.value for state in states.values()]
        async with self._links.pooled(writes=True) as connection:
            return bool(
                await connection.fetchval(
                    statement("status_page_look"), page_id, looks, encode_states(states), list(states), values,
                    COUNTED_SECONDS, HISTORY_DAYS,
                )
            )  # fmt: skip

    async def days(self, page_ids: Collection[UUID]) -> Sequence[StatusDay]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("status_days"), list(page_ids))
        return [
            StatusDay(
                row["page_id"], row["component"], row["day"],
                StateSeconds(row["operational"], row["late"], row["degraded"], row["down"]),
            )
            for row in rows
        ]  # fmt: skip

    async def announce(
        self, namespace: str, announcement: Announcement, *, audit: AuditEntry | None = None
    ) -> Announcement:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            page = await connection.fetchrow(statement("status_page_lock"), namespace, announcement.page_id)
            if page is None:
                raise no_page()
            stored = await connection.fetchrow(statement("status_announcement_get"), announcement.announcement_id)
            if stored is not None:
                return _announcement(stored)
            await check_open(connection, namespace, or_closing=False)
            check_announcement_room(
                await connection.fetchval(statement("status_announcements_count"), announcement.page_id)
            )
            await connection.execute(
                statement("status_announcement_add"), announcement.announcement_id, announcement.page_id,
                announcement.kind.value, announcement.title, list(announcement.components), announcement.starts_at,
                announcement.ends_at, encode_updates(announcement.updates), announcement.created_by,
            )  # fmt: skip
            await write_audit(connection, audit)
            return _announcement(
                await connection.fetchrow(statement("status_announcement_get"), announcement.announcement_id)
            )

    async def update(
        self, namespace: str, announcement: Announcement, *, audit: AuditEntry | None = None
    ) -> Announcement | None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            asked = (announcement.page_id, announcement.announcement_id)
            if await connection.fetchrow(statement("status_page_lock"), namespace, announcement.page_id) is None:
                return None
            version = await connection.fetchval(statement("status_announcement_version"), *asked)
            if version is None:
                return None
            if version != announcement.version:
                raise announcement_changed(announcement)
            await check_open(connection, namespace, or_closing=False)
            await connection.execute(
                statement("status_announcement_change"), announcement.announcement_id, announcement.title,
                list(announcement.components), announcement.starts_at, announcement.ends_at,
                encode_updates(announcement.updates),
            )  # fmt: skip
            await write_audit(connection, audit)
            return _announcement(
                await connection.fetchrow(statement("status_announcement_get"), announcement.announcement_id)
            )

    async def retract(
        self, namespace: str, page_id: UUID, announcement_id: UUID, *, audit: AuditEntry | None = None
    ) -> bool:
        """See the port."""
        asked = (namespace, page_id, announcement_id)
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            if await connection.fetchval(statement("status_announcement_remove"), *asked) is None:
                return False
            await write_audit(connection, audit)
        return True

    async def announcements(self, page_ids: Collection[UUID]) -> Sequence[Announcement]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("status_announcements"), list(page_ids))
        return [_announcement(row) for row in rows]


def _page(row: Mapping[str, Any]) -> StatusPage:
    return StatusPage(
        page_id=row["page_id"],
        namespace=row["namespace"],
        slug=row["slug"],
        title=row["title"],
        enabled=row["enabled"],
        created_at=row["created_at"],
        created_by=row["created_by"],
        version=row["version"],
        looks=row["looks"],
        looked_at=row["looked_at"],
        states=decode_states(row["states"]),
        **decode_choices(row["choices"]),
    )


def _announcement(row: Mapping[str, Any]) -> Announcement:
    return Announcement(
        announcement_id=row["announcement_id"],
        page_id=row["page_id"],
        kind=AnnouncementKind(row["kind"]),
        title=row["title"],
        components=tuple(row["components"]),
        starts_at=row["starts_at"],
        ends_at=row["ends_at"],
        updates=decode_updates(row["updates"]),
        created_by=row["created_by"],
        version=row["version"],
    )
