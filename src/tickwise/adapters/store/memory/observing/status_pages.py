"""Status pages, their days and their announcements."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from tickwise.adapters.store.memory.state import Duty, State
from tickwise.domain.audit import AuditEntry
from tickwise.domain.observing.status_pages import (
    COUNTED_SECONDS,
    HISTORY_DAYS,
    Announcement,
    ComponentState,
    StateSeconds,
    StatusDay,
    StatusPage,
    total,
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


def drop_status_page(state: State, page_id: UUID) -> None:
    """Drop a page with its days and announcements."""
    del state.status_pages[page_id]
    for place in [each for each in state.status_days if each[0] == page_id]:
        del state.status_days[place]
    for key in [key for key, each in state.status_announcements.items() if each.page_id == page_id]:
        del state.status_announcements[key]


class StatusPages(Duty):
    """`StatusPageStore` of the port."""

    async def add(self, page: StatusPage, *, audit: AuditEntry | None = None) -> StatusPage:
        state = self._state
        stored = state.status_pages.get(page.page_id)
        if stored is not None:
            return stored
        state.check_open(page.namespace)
        check_page_room(sum(each.namespace == page.namespace for each in state.status_pages.values()))
        self._check_slug(page)
        stored = replace(page, version=1, created_at=state.now(), looks=0, looked_at=None, states={})
        state.status_pages[page.page_id] = stored
        state.audit.write(audit)
        return stored

    async def change(self, page: StatusPage, *, audit: AuditEntry | None = None) -> StatusPage | None:
        state = self._state
        stored = state.status_pages.get(page.page_id)
        if stored is None or stored.namespace != page.namespace:
            return None
        if stored.version != page.version:
            raise page_changed(page)
        state.check_open(page.namespace, or_closing=False)
        self._check_slug(page)
        names = {each.name for each in page.components}
        changed = replace(
            page,
            created_at=stored.created_at,
            created_by=stored.created_by,
            version=stored.version + 1,
            looks=stored.looks,
            looked_at=stored.looked_at,
            states={name: found for name, found in stored.states.items() if name in names},
        )
        state.status_pages[page.page_id] = changed
        for place in [each for each in state.status_days if each[0] == page.page_id and each[1] not in names]:
            del state.status_days[place]
        state.audit.write(audit)
        return changed

    async def remove(self, namespace: str, page_id: UUID, *, audit: AuditEntry | None = None) -> bool:
        stored = self._state.status_pages.get(page_id)
        if stored is None or stored.namespace != namespace:
            return False
        drop_status_page(self._state, page_id)
        self._state.audit.write(audit)
        return True

    async def find(self, query: StatusPageQuery) -> Sequence[StatusPage]:
        found = [each for each in self._state.status_pages.values() if self._is_hit(each, query)]
        if query.unseen_seconds is None:
            found.sort(key=lambda each: (each.created_at, each.page_id))
        else:
            found.sort(key=lambda each: (each.looked_at or 0.0, each.page_id))
        return found[: query.limit]

    def _is_hit(self, page: StatusPage, query: StatusPageQuery) -> bool:
        asked = (
            query.namespace in (None, page.namespace)
            and query.page_id in (None, page.page_id)
            and query.enabled in (None, page.enabled)
        )
        if query.unseen_seconds is None:
            return asked
        until = self._state.now() - query.unseen_seconds
        return asked and page.enabled and (page.looked_at is None or page.looked_at <= until)

    async def look(self, page_id: UUID, looks: int, states: Mapping[str, ComponentState]) -> bool:
        state, now = self._state, self._state.now()
        stored = state.status_pages.get(page_id)
        if stored is None or not stored.enabled or stored.looks != looks:
            return False
        state.status_pages[page_id] = replace(stored, looks=looks + 1, looked_at=now, states=dict(states))
        today = datetime.fromtimestamp(now, UTC).date()
        seconds = 0.0 if stored.looked_at is None else min(max(now - stored.looked_at, 0.0), COUNTED_SECONDS)
        for name, found in states.items():
            if found is not ComponentState.UNKNOWN and seconds > 0:
                place = (page_id, name, today)
                passed = StateSeconds()._replace(**{found.value: seconds})
                state.status_days[place] = total([state.status_days.get(place, StateSeconds()), passed])
        oldest = today - timedelta(days=HISTORY_DAYS)
        for place in [each for each in state.status_days if each[0] == page_id and each[2] <= oldest]:
            del state.status_days[place]
        return True

    async def days(self, page_ids: Collection[UUID]) -> Sequence[StatusDay]:
        found = [StatusDay(*place, seconds) for place, seconds in self._state.status_days.items()]
        return sorted((each for each in found if each.page_id in page_ids), key=lambda each: each[:3])

    async def announce(
        self, namespace: str, announcement: Announcement, *, audit: AuditEntry | None = None
    ) -> Announcement:
        state = self._state
        self._page_of(namespace, announcement.page_id)
        stored = state.status_announcements.get(announcement.announcement_id)
        if stored is not None:
            return stored
        state.check_open(namespace, or_closing=False)
        others = state.status_announcements.values()
        check_announcement_room(sum(each.page_id == announcement.page_id for each in others))
        stored = replace(announcement, version=1)
        state.status_announcements[announcement.announcement_id] = stored
        state.audit.write(audit)
        return stored

    async def update(
        self, namespace: str, announcement: Announcement, *, audit: AuditEntry | None = None
    ) -> Announcement | None:
        state = self._state
        stored = self._announcement(namespace, announcement.page_id, announcement.announcement_id)
        if stored is None:
            return None
        if stored.version != announcement.version:
            raise announcement_changed(announcement)
        state.check_open(namespace, or_closing=False)
        kept = replace(announcement, kind=stored.kind, created_by=stored.created_by, version=stored.version + 1)
        state.status_announcements[announcement.announcement_id] = kept
        state.audit.write(audit)
        return kept

    async def retract(
        self, namespace: str, page_id: UUID, announcement_id: UUID, *, audit: AuditEntry | None = None
    ) -> bool:
        if self._announcement(namespace, page_id, announcement_id) is None:
            return False
        del self._state.status_announcements[announcement_id]
        self._state.audit.write(audit)
        return True

    async def announcements(self, page_ids: Collection[UUID]) -> Sequence[Announcement]:
        found = [each for each in self._state.status_announcements.values() if each.page_id in page_ids]
        return sorted(found, key=lambda each: each.announcement_id, reverse=True)

    # ------------------------------------------------------------------------------------------ parts

    def _check_slug(self, page: StatusPage) -> None:
        others = (each for each in self._state.status_pages.values() if each.page_id != page.page_id)
        if any(each.slug == page.slug for each in others):
            raise slug_taken(page.slug)

    def _page_of(self, namespace: str, page_id: UUID) -> StatusPage:
        page = self._state.status_pages.get(page_id)
        if page is None or page.namespace != namespace:
            raise no_page()
        return page

    def _announcement(self, namespace: str, page_id: UUID, announcement_id: UUID) -> Announcement | None:
        page, found = self._state.status_pages.get(page_id), self._state.status_announcements.get(announcement_id)
        there = page is not None and page.namespace == namespace and found is not None and found.page_id == page_id
        return found if there else None
