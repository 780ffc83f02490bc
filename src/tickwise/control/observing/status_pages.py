"""Status pages: make, change and remove them, announce on them, and what of them is public.

    administrator ──StatusPageBody──► names of jobs become ids ──► store ◄── looks of schedulers
    people on call ──AnnouncementBody──► store
    anybody ──► published, public_view: what an enabled page shows, without an id and without a name of a job

Invariant: what is public is what an administrator wrote for it. A page that is not enabled is as one that is not there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID

from msgspec import UNSET, UnsetType

from tickwise.control.access import requires, requires_none
from tickwise.control.audit.entries import entry
from tickwise.control.context import ControlContext
from tickwise.control.jobs.named_jobs import jobs_named
from tickwise.control.observing.status_page_bodies import (
    AnnouncementBody,
    AnnouncementUpdateBody,
    ComponentBody,
    StatusPageBody,
    StatusPageChangeBody,
    check_distinct,
    check_updates,
    clean_slug,
    public_line,
    public_text,
    state_for,
)
from tickwise.control.texts import clean_text
from tickwise.control.times import instant_within
from tickwise.domain.audit import AuditAction
from tickwise.domain.errors import Invalid, NotFound
from tickwise.domain.model import Principal, time_id
from tickwise.domain.observing.status_pages import (
    MAX_COMPONENTS,
    MAX_JOBS,
    MAX_PUBLISHED,
    Announcement,
    AnnouncementKind,
    AnnouncementUpdate,
    StatusComponent,
    StatusDay,
    StatusPage,
)
from tickwise.domain.permissions import Permission
from tickwise.ports.store import JobQuery, StatusPageQuery


class PublicStatus(NamedTuple):
    """The content of a public page."""

    page: StatusPage
    days: Sequence[StatusDay]
    announcements: Sequence[Announcement]
    """The newest first."""


class StatusPageService:
    """Everything about status pages. What they show is of jobs of the whole namespace: a permission for jobs with
    certain labels is not enough."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    # ------------------------------------------------------------------------------------------ what is public

    @requires_none("an enabled page is for people without an account: its administrator chose what it shows")
    async def published(self) -> Sequence[StatusPage]:
        """The enabled pages of the installation, `MAX_PUBLISHED` at most."""
        query = StatusPageQuery(namespace=None, enabled=True, limit=MAX_PUBLISHED)
        return await self._context.store.status_pages.find(query)

    @requires_none("an enabled page is for people without an account: its administrator chose what it shows")
    async def public_view(self, page: StatusPage) -> PublicStatus:
        """The public content of a page of `published`."""
        if not page.enabled:
            raise NotFound("there is no such page")
        store = self._context.store.status_pages
        days = await store.days([page.page_id]) if page.history_days or page.shows_uptime else []
        return PublicStatus(page, days, await store.announcements([page.page_id]))

    # ------------------------------------------------------------------------------------------ pages

    @requires(Permission.NOTICES_READ, Permission.STATUS_ADMIN)
    async def all(self, who: Principal) -> Sequence[StatusPage]:
        """The status pages of the namespace, the first that was made first."""
        return await self._context.store.status_pages.find(StatusPageQuery(namespace=who.namespace))

    @requires(Permission.NOTICES_READ, Permission.STATUS_ADMIN)
    async def get(self, who: Principal, page_id: UUID) -> StatusPage:
        """One. Raises `NotFound`."""
        return await self._find(who, page_id)

    @requires(Permission.JOBS_READ)
    async def job_names(self, who: Principal, page: StatusPage) -> Mapping[UUID, str]:
        """The names of the jobs that a page names, of those that are there."""
        ids = [job for each in page.components for job in each.jobs]
        if not ids:
            return {}
        query = JobQuery(namespace=who.namespace, ids=ids, limit=MAX_COMPONENTS * MAX_JOBS)
        return {row.job_id: row.name for row in await self._context.searches.jobs(query)}

    @requires(Permission.STATUS_ADMIN)
    async def add(self, who: Principal, body: StatusPageBody) -> StatusPage:
        """Make a status page. Raises `Invalid`; `Conflict`, code `slug_taken` or `status_pages_exhausted`."""
        now = await self._context.time.now()
        page = StatusPage(
            page_id=time_id(int(now * 1000), self._context.clock.random_bytes(10)),
            namespace=who.namespace,
            created_at=now,
            created_by=who.name,
            **await self._fields(who, body),
        )
        await self._context.namespaces.check_open(who.namespace)
        audit = entry(who, AuditAction.STATUS_PAGE_ADDED, "status_page", page.page_id, after=audit_fields(page))
        return await self._context.surely(lambda: self._context.store.status_pages.add(page, audit=audit))

    @requires(Permission.STATUS_ADMIN)
    async def change(
        self, who: Principal, page_id: UUID, body: StatusPageChangeBody, *, version: int | None = None
    ) -> StatusPage:
        """Change fields of it. `version`: that which the caller saw; None: whichever there is. Raises `NotFound`,
        `Invalid`; `Conflict`, code `slug_taken` or `version_changed`."""
        old = await self._find(who, page_id)
        fields = await self._fields(who, body)
        new = replace(old, **fields, version=old.version if version is None else version)
        audit = entry(
            who, AuditAction.STATUS_PAGE_CHANGED, "status_page", page_id,
            before=audit_fields(old), after=audit_fields(new),
        )  # fmt: skip
        changed = await self._context.surely(lambda: self._context.store.status_pages.change(new, audit=audit))
        if changed is None:
            raise _no_page(who, page_id)
        return changed

    @requires(Permission.STATUS_ADMIN)
    async def remove(self, who: Principal, page_id: UUID) -> StatusPage:
        """Remove it with its history and its announcements, and answer it as it was. Raises `NotFound`."""
        old = await self._find(who, page_id)
        audit = entry(who, AuditAction.STATUS_PAGE_REMOVED, "status_page", page_id, before=audit_fields(old))
        if not await self._context.surely(
            lambda: self._context.store.status_pages.remove(who.namespace, page_id, audit=audit)
        ):
            raise _no_page(who, page_id)
        return old

    # ------------------------------------------------------------------------------------------ announcements

    @requires(Permission.NOTICES_READ, Permission.STATUS_ADMIN)
    async def announcements(self, who: Principal, page_id: UUID) -> Sequence[Announcement]:
        """The announcements of a page, the newest first. Raises `NotFound`."""
        page = await self._find(who, page_id)
        return await self._context.store.status_pages.announcements([page.page_id])

    @requires(Permission.NOTICES_OPERATE, Permission.STATUS_ADMIN)
    async def announce(self, who: Principal, page_id: UUID, body: AnnouncementBody) -> Announcement:
        """Announce an incident or a maintenance. Raises `NotFound`, `Invalid`; `Conflict`, code
        `announcements_exhausted`."""
        page = await self._find(who, page_id)
        now = await self._context.time.now()
        begin = now if isinstance(body.begin, UnsetType) else instant_within(body.begin, "/from")
        ends_at = None if isinstance(body.until, UnsetType) else instant_within(body.until, "/until")
        if ends_at is not None and body.kind is not AnnouncementKind.MAINTENANCE:
            raise Invalid("only a maintenance has a planned end; leave it out", pointer="/until")
        if ends_at is not None and ends_at <= begin:
            raise Invalid("until is not after from; give a later time", pointer="/until")
        text = public_text(body.text, "/text", needed=True)
        announcement = Announcement(
            announcement_id=time_id(int(now * 1000), self._context.clock.random_bytes(10)),
            page_id=page_id,
            kind=body.kind,
            title=public_line(body.title, "/title"),
            components=_known(page, body.components),
            starts_at=begin,
            ends_at=ends_at,
            updates=(AnnouncementUpdate(now, state_for(body.kind, body.state), text),),
            created_by=who.name,
        )
        audit = entry(
            who, AuditAction.ANNOUNCEMENT_ADDED, "announcement", announcement.announcement_id,
            after=_announced(announcement), detail={"status_page": page.slug},
        )  # fmt: skip
        return await self._context.surely(
            lambda: self._context.store.status_pages.announce(who.namespace, announcement, audit=audit)
        )

    @requires(Permission.NOTICES_OPERATE, Permission.STATUS_ADMIN)
    async def update(
        self, who: Principal, page_id: UUID, announcement_id: UUID, body: AnnouncementUpdateBody
    ) -> Announcement:
        """Add a text to an announcement, and give it a state. Raises `NotFound`, `Invalid`; `Conflict`, code
        `version_changed`."""
        page, old = await self._find(who, page_id), await self._announcement(page_id, announcement_id)
        check_updates(len(old.updates))
        said = AnnouncementUpdate(
            await self._context.time.now(),
            state_for(old.kind, body.state),
            public_text(body.text, "/text", needed=True),
        )
        new = replace(old, updates=(*old.updates, said))
        audit = entry(
            who, AuditAction.ANNOUNCEMENT_CHANGED, "announcement", announcement_id,
            before=_announced(old), after=_announced(new), detail={"status_page": page.slug},
        )  # fmt: skip
        changed = await self._context.surely(
            lambda: self._context.store.status_pages.update(who.namespace, new, audit=audit)
        )
        if changed is None:
            raise _no_announcement(announcement_id)
        return changed

    @requires(Permission.NOTICES_OPERATE, Permission.STATUS_ADMIN)
    async def retract(self, who: Principal, page_id: UUID, announcement_id: UUID) -> Announcement:
        """Remove an announcement, and answer it as it was. Raises `NotFound`."""
        page, old = await self._find(who, page_id), await self._announcement(page_id, announcement_id)
        audit = entry(
            who, AuditAction.ANNOUNCEMENT_REMOVED, "announcement", announcement_id,
            before=_announced(old), detail={"status_page": page.slug},
        )  # fmt: skip
        if not await self._context.surely(
            lambda: self._context.store.status_pages.retract(who.namespace, page_id, announcement_id, audit=audit)
        ):
            raise _no_announcement(announcement_id)
        return old

    # ------------------------------------------------------------------------------------------ parts

    async def _find(self, who: Principal, page_id: UUID) -> StatusPage:
        query = StatusPageQuery(namespace=who.namespace, page_id=page_id, limit=1)
        for found in await self._context.store.status_pages.find(query):
            return found
        raise _no_page(who, page_id)

    async def _announcement(self, page_id: UUID, announcement_id: UUID) -> Announcement:
        for found in await self._context.store.status_pages.announcements([page_id]):
            if found.announcement_id == announcement_id:
                return found
        raise _no_announcement(announcement_id)

    async def _fields(self, who: Principal, body: StatusPageBody | StatusPageChangeBody) -> dict[str, Any]:
        """The fields that were sent, as those of a page. Raises `Invalid`."""
        found: dict[str, Any] = {}
        if not isinstance(body.slug, UnsetType):
            found["slug"] = clean_slug(body.slug)
        if not isinstance(body.title, UnsetType):
            found["title"] = public_line(body.title, "/title")
        if not isinstance(body.intro, UnsetType):
            found["intro"] = public_text(body.intro, "/intro")
        if not isinstance(body.components, UnsetType):
            check_distinct(body.components)
            found["components"] = tuple(
                [await self._component(who, each, place) for place, each in enumerate(body.components)]
            )
        said = {
            "enabled": body.enabled, "shows_uptime": body.show_uptime, "shows_punctuality": body.show_punctuality,
            "history_days": body.history_days,
        }  # fmt: skip
        return found | {name: value for name, value in said.items() if value is not UNSET}

    async def _component(self, who: Principal, body: ComponentBody, place: int) -> StatusComponent:
        pointer = f"/components/{place}"
        for name, value in body.labels.items():
            clean_text(name, f"{pointer}/labels")
            clean_text(value, f"{pointer}/labels")
        return StatusComponent(
            name=public_line(body.name, f"{pointer}/name", 100),
            jobs=await jobs_named(self._context, who, body.jobs, f"{pointer}/jobs"),
            labels=dict(body.labels),
        )


def audit_fields(page: StatusPage) -> Mapping[str, object]:
    """The fields of a page for the audit log."""
    return {
        "slug": page.slug,
        "title": page.title,
        "enabled": page.enabled,
        "components": [
            {"name": each.name, "jobs": [str(job) for job in each.jobs], "labels": dict(each.labels)}
            for each in page.components
        ],
        "show_uptime": page.shows_uptime,
        "show_punctuality": page.shows_punctuality,
        "history_days": page.history_days,
    }


def _announced(announcement: Announcement) -> Mapping[str, object]:
    return {
        "kind": announcement.kind.value,
        "title": announcement.title,
        "state": announcement.state.value,
        "text": announcement.updates[-1].text,
        "components": list(announcement.components),
    }


def _known(page: StatusPage, names: Sequence[str]) -> tuple[str, ...]:
    """The names of components that an announcement is about, each once. Raises `Invalid`."""
    known = {each.name for each in page.components}
    for place, name in enumerate(names):
        if name not in known:
            there = ", ".join(sorted(known)) or "none"
            raise Invalid(f"the page has no component {name[:100]!r}; it has: {there}", pointer=f"/components/{place}")
    return tuple(dict.fromkeys(names))


def _no_page(who: Principal, page_id: UUID) -> NotFound:
    return NotFound(f"there is no status page {page_id} in the namespace {who.namespace}")


def _no_announcement(announcement_id: UUID) -> NotFound:
    return NotFound(f"there is no announcement {announcement_id} on this status page")
