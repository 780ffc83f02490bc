"""`/status-pages`: what people without an account see of chosen jobs, and what is announced there."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec

from tickwise.api.endpoint import Call, Endpoint, Reply, answer
from tickwise.api.reading import decode, field_names
from tickwise.api.wire import API, Instant, time_of, time_or_none
from tickwise.control.observing.status_page_bodies import (
    AnnouncementBody,
    AnnouncementUpdateBody,
    StatusPageBody,
    StatusPageChangeBody,
)
from tickwise.control.observing.status_pages import StatusPageService
from tickwise.domain.observing.status_pages import (
    Announcement,
    AnnouncementKind,
    AnnouncementState,
    ComponentState,
    StatusPage,
)

_page: Final = msgspec.json.Decoder(StatusPageBody)
_change: Final = msgspec.json.Decoder(StatusPageChangeBody)
_announcement: Final = msgspec.json.Decoder(AnnouncementBody)
_update: Final = msgspec.json.Decoder(AnnouncementUpdateBody)


class ComponentView(msgspec.Struct, kw_only=True):
    """A component, with the state of the last look."""

    name: str
    jobs: list[UUID]
    labels: dict[str, str]
    state: ComponentState


class StatusPageView(msgspec.Struct, kw_only=True):
    """A status page, as its administrator sees it."""

    page_id: UUID
    slug: str
    path: str
    """Its address on the pages: `/status/SLUG`."""
    title: str
    intro: str
    enabled: bool
    components: list[ComponentView]
    show_uptime: bool
    show_punctuality: bool
    history_days: int
    looked_at: Instant | None
    """Null: no scheduler has looked yet."""
    created_at: Instant
    created_by: str
    version: int


class UpdateView(msgspec.Struct, kw_only=True):
    """One text of an announcement."""

    at: Instant
    state: AnnouncementState
    text: str


class AnnouncementView(msgspec.Struct, kw_only=True):
    """An incident or a maintenance."""

    announcement_id: UUID
    page_id: UUID
    kind: AnnouncementKind
    title: str
    state: AnnouncementState
    over: bool
    components: list[str]
    begin: Instant = msgspec.field(name="from")
    until: Instant | None
    """Of a maintenance: its planned end."""
    updates: list[UpdateView]
    """The oldest first."""
    created_by: str
    version: int


def page_view(page: StatusPage) -> StatusPageView:
    """A status page as it is answered."""
    return StatusPageView(
        page_id=page.page_id,
        slug=page.slug,
        path=f"/status/{page.slug}",
        title=page.title,
        intro=page.intro,
        enabled=page.enabled,
        components=[
            ComponentView(
                name=each.name, jobs=list(each.jobs), labels=dict(each.labels),
                state=page.states.get(each.name, ComponentState.UNKNOWN),
            )
            for each in page.components
        ],
        show_uptime=page.shows_uptime,
        show_punctuality=page.shows_punctuality,
        history_days=page.history_days,
        looked_at=time_or_none(page.looked_at),
        created_at=time_of(page.created_at),
        created_by=page.created_by,
        version=page.version,
    )  # fmt: skip


def announcement_view(announcement: Announcement) -> AnnouncementView:
    """An announcement as it is answered."""
    return AnnouncementView(
        announcement_id=announcement.announcement_id,
        page_id=announcement.page_id,
        kind=announcement.kind,
        title=announcement.title,
        state=announcement.state,
        over=announcement.is_over,
        components=list(announcement.components),
        begin=time_of(announcement.starts_at),
        until=time_or_none(announcement.ends_at),
        updates=[UpdateView(at=time_of(each.at), state=each.state, text=each.text) for each in announcement.updates],
        created_by=announcement.created_by,
        version=announcement.version,
    )


async def page_add(call: Call) -> Reply:
    """Make a status page."""
    made = await call.control.status_pages.add(call.principal, decode(_page, call.body, field_names(StatusPageBody)))
    return answer(201, page_view(made), headers=[(b"location", f"{API}/status-pages/{made.page_id}".encode())])


async def pages_list(call: Call) -> Reply:
    """All status pages."""
    return answer(200, [page_view(each) for each in await call.control.status_pages.all(call.principal)])


async def page_get(call: Call) -> Reply:
    """One status page."""
    return answer(200, page_view(await call.control.status_pages.get(call.principal, _page_id(call))))


async def page_change(call: Call) -> Reply:
    """Change a status page."""
    body = decode(_change, call.body, field_names(StatusPageChangeBody))
    return answer(200, page_view(await call.control.status_pages.change(call.principal, _page_id(call), body)))


async def page_remove(call: Call) -> Reply:
    """Remove a status page."""
    return answer(200, page_view(await call.control.status_pages.remove(call.principal, _page_id(call))))


async def announcements_list(call: Call) -> Reply:
    """All announcements of a page."""
    found = await call.control.status_pages.announcements(call.principal, _page_id(call))
    return answer(200, [announcement_view(each) for each in found])


async def announcement_add(call: Call) -> Reply:
    """Announce something."""
    body = decode(_announcement, call.body, field_names(AnnouncementBody))
    made = await call.control.status_pages.announce(call.principal, _page_id(call), body)
    return answer(201, announcement_view(made))


async def announcement_update(call: Call) -> Reply:
    """Add a text to an announcement."""
    body = decode(_update, call.body, field_names(AnnouncementUpdateBody))
    found = await call.control.status_pages.update(call.principal, _page_id(call), _announcement_id(call), body)
    return answer(200, announcement_view(found))


async def announcement_remove(call: Call) -> Reply:
    """Remove an announcement."""
    gone = await call.control.status_pages.retract(call.principal, _page_id(call), _announcement_id(call))
    return answer(200, announcement_view(gone))


def _page_id(call: Call) -> UUID:
    return call.uuid("page_id", "status page")


def _announcement_id(call: Call) -> UUID:
    return call.uuid("announcement_id", "announcement")


_WHAT: Final = (
    "The page is at `/status/SLUG` of the pages, for people without an account, as soon as `enabled` is true. It shows "
    "the names and texts of this body, the states that schedulers find of the jobs, and the announcements: no id, no "
    "name of a job, no label, no error."
)
_ONE: Final = f"{API}/status-pages/{{page_id}}"

STATUS_PAGES: Final = (
    Endpoint(
        method="POST", path=f"{API}/status-pages", control=StatusPageService.add, name="createStatusPage",
        tag="status pages", summary="Make a status page for people without an account.", description=_WHAT,
        handler=page_add, body=StatusPageBody, answers=(StatusPageView,), status=201, refuses=(409,),
        answer_headers=("Location",),
    ),
    Endpoint(
        method="GET", path=f"{API}/status-pages", control=StatusPageService.all, name="listStatusPages",
        tag="status pages", summary="All status pages, with the states of the last look.",
        handler=pages_list, answers=(list[StatusPageView],),
    ),
    Endpoint(
        method="GET", path=_ONE, control=StatusPageService.get, name="getStatusPage",
        tag="status pages", summary="One status page.", handler=page_get, answers=(StatusPageView,), refuses=(404,),
    ),
    Endpoint(
        method="PATCH", path=_ONE, control=StatusPageService.change, name="changeStatusPage", tag="status pages",
        summary="Change fields of a status page. A component keeps its history while it keeps its name.",
        handler=page_change, body=StatusPageChangeBody, answers=(StatusPageView,), refuses=(404, 409),
    ),
    Endpoint(
        method="DELETE", path=_ONE, control=StatusPageService.remove, name="removeStatusPage", tag="status pages",
        summary="Remove a status page with its history and announcements; it is returned as it was.",
        handler=page_remove, answers=(StatusPageView,), refuses=(404,),
    ),
    Endpoint(
        method="GET", path=f"{_ONE}/announcements", control=StatusPageService.announcements, name="listAnnouncements",
        tag="status pages", summary="The announcements of a status page, the newest first.",
        handler=announcements_list, answers=(list[AnnouncementView],), refuses=(404,),
    ),
    Endpoint(
        method="POST", path=f"{_ONE}/announcements", control=StatusPageService.announce, name="createAnnouncement",
        tag="status pages", summary="Announce an incident or a maintenance; it is public at once if its page is.",
        handler=announcement_add, body=AnnouncementBody, answers=(AnnouncementView,), status=201, refuses=(404, 409),
    ),
    Endpoint(
        method="POST", path=f"{_ONE}/announcements/{{announcement_id}}/updates", control=StatusPageService.update,
        name="updateAnnouncement", tag="status pages", summary="Add a text to an announcement, and give it a state.",
        handler=announcement_update, body=AnnouncementUpdateBody, answers=(AnnouncementView,), refuses=(404, 409),
    ),
    Endpoint(
        method="DELETE", path=f"{_ONE}/announcements/{{announcement_id}}", control=StatusPageService.retract,
        name="removeAnnouncement", tag="status pages", summary="Remove an announcement; it is returned as it was.",
        handler=announcement_remove, answers=(AnnouncementView,), refuses=(404,),
    ),
)  # fmt: skip
