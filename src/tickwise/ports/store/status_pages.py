"""Status pages, what looks found for them, and what people announce on them (`domain.observing.status_pages`).

    find(unseen_seconds) ──► a look at the jobs ──► look(page, looks, states): counted once, of however many schedulers

Invariant: a page, its days and its announcements go together, and with their namespace.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import Conflict, NotFound
from tickwise.domain.observing.status_pages import (
    MAX_ANNOUNCEMENTS,
    MAX_PAGES,
    Announcement,
    ComponentState,
    StatusDay,
    StatusPage,
)


def check_page_room(count: int) -> None:
    """Raise `Conflict`, code `status_pages_exhausted`, if a namespace with so many status pages takes no more."""
    if count >= MAX_PAGES:
        raise Conflict(f"a namespace has at most {MAX_PAGES} status pages: remove one", code="status_pages_exhausted")


def check_announcement_room(count: int) -> None:
    """Raise `Conflict`, code `announcements_exhausted`, if a page with so many announcements takes no more."""
    if count >= MAX_ANNOUNCEMENTS:
        raise Conflict(
            f"a status page has at most {MAX_ANNOUNCEMENTS} announcements: remove some that are over",
            code="announcements_exhausted",
        )


def slug_taken(slug: str) -> Conflict:
    """The refusal of an address that another status page has."""
    return Conflict(f"the address /status/{slug} is taken: choose another slug", pointer="/slug", code="slug_taken")


def page_changed(page: StatusPage) -> Conflict:
    """The refusal of a change of a page that was changed meanwhile."""
    return Conflict(
        f"the status page {page.slug} was changed since version {page.version}: read it again", code="version_changed"
    )


def announcement_changed(announcement: Announcement) -> Conflict:
    """The refusal of an update of an announcement that was updated meanwhile."""
    return Conflict(
        f"the announcement {announcement.title!r} was updated since version {announcement.version}: read it again",
        code="version_changed",
    )


def no_page() -> NotFound:
    """The refusal of an announcement for a page that is not there."""
    return NotFound("there is no such status page in this namespace")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusPageQuery:
    """Status pages, those first that were made first; everything given must match."""

    namespace: str | None
    """None: of all namespaces."""
    page_id: UUID | None = None
    enabled: bool | None = None
    unseen_seconds: float | None = None
    """Enabled pages at which nobody has looked for so long, those first that wait longest."""
    limit: int = MAX_PAGES


class StatusPageStore(Protocol):
    """Status pages. Slugs are unique in the installation."""

    async def add(self, page: StatusPage, *, audit: AuditEntry | None = None) -> StatusPage:
        """Store a page; one of this id that is there already is returned as it is. Raises `Conflict`, code
        `slug_taken`, `status_pages_exhausted` or `namespace_closing`."""
        ...

    async def change(self, page: StatusPage, *, audit: AuditEntry | None = None) -> StatusPage | None:
        """Replace the choices of a page whose version is `page.version`; the days of components that are gone go, too.
        None: there is none. Raises `Conflict`, code `slug_taken`, `version_changed` or `namespace_closing`."""
        ...

    async def remove(self, namespace: str, page_id: UUID, *, audit: AuditEntry | None = None) -> bool:
        """Remove a page with its days and announcements. False: there is none."""
        ...

    async def find(self, query: StatusPageQuery) -> Sequence[StatusPage]:
        """Pages by the time at which they were made; those of `unseen_seconds` by their wait."""
        ...

    async def look(self, page_id: UUID, looks: int, states: Mapping[str, ComponentState]) -> bool:
        """Record the states that a look found, of components by their names. Each state that is known counts for the
        time since the look before, `COUNTED_SECONDS` at most, on the day of now in UTC. Days before the last
        `HISTORY_DAYS` are dropped. False, and nothing was changed: the page is gone, is enabled no more, or has not the
        number of `looks` that was read."""
        ...

    async def days(self, page_ids: Collection[UUID]) -> Sequence[StatusDay]:
        """The days of pages, by page, component and day."""
        ...

    async def announce(
        self, namespace: str, announcement: Announcement, *, audit: AuditEntry | None = None
    ) -> Announcement:
        """Store an announcement; one of this id that is there already is returned as it is. Raises `NotFound` if the
        namespace has no such page; `Conflict`, code `announcements_exhausted` or `namespace_closing`."""
        ...

    async def update(
        self, namespace: str, announcement: Announcement, *, audit: AuditEntry | None = None
    ) -> Announcement | None:
        """Replace an announcement whose version is `announcement.version`. None: there is none. Raises `Conflict`, code
        `version_changed` or `namespace_closing`."""
        ...

    async def retract(
        self, namespace: str, page_id: UUID, announcement_id: UUID, *, audit: AuditEntry | None = None
    ) -> bool:
        """Remove an announcement. False: there is none."""
        ...

    async def announcements(self, page_ids: Collection[UUID]) -> Sequence[Announcement]:
        """The announcements of pages, the newest first by their ids."""
        ...
