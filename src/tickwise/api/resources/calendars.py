"""`/calendars` and `/windows`: times at which jobs may not run, or may only run; and which times they cover."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.api.conditions import etag, guarded, tag_of
from tickwise.api.endpoint import (
    LIMIT_SAID,
    Call,
    Endpoint,
    Reply,
    answer,
    cursor_text,
    given_instant,
    page_links,
    page_of,
)
from tickwise.api.reading import decode, field_names
from tickwise.api.wire import API, Instant, encode, time_of
from tickwise.control.schedules.calendars import CalendarService
from tickwise.control.schedules.stored_rules import Covers, FoundRule, Range, WrittenCalendar
from tickwise.control.schedules.windows import WindowBody, WindowService
from tickwise.documents.calendars import (
    CalendarBody,
    HolidaysBody,
    ResolvedBody,
    StoredCalendar,
    decode_calendar,
    written,
)
from tickwise.documents.rulebook import StoredWindow, decode_window
from tickwise.domain.calendar.rules import Otherwise
from tickwise.ports.store import RuleRow

Time = Annotated[datetime, Meta(tz=True)]
View = Callable[[RuleRow], Any]
"""The answer to a GET of a calendar or a window."""


class RulesQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The part of the list."""

    limit: Annotated[int, Meta(ge=1, le=100, description=LIMIT_SAID)] = 50
    cursor: (
        Annotated[
            str,
            Meta(
                max_length=2_000,
                pattern=r"^[A-Za-z0-9_-]+$(?!\n)",
                description="From the `Link` header of the page before.",
            ),
        ]
        | UnsetType
    ) = UNSET


class CoversQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The times that are looked at."""

    start: Annotated[datetime, Meta(tz=True, description="Default: now.")] | UnsetType = msgspec.field(
        name="from", default=UNSET
    )
    end: Annotated[datetime, Meta(tz=True, description="Default: 30 days later.")] | UnsetType = msgspec.field(
        name="to", default=UNSET
    )
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


class CalendarPreviewBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A calendar that is not stored, and which times of it are looked at."""

    calendar: CalendarBody
    start: Time | UnsetType = msgspec.field(name="from", default=UNSET)
    end: Time | UnsetType = msgspec.field(name="to", default=UNSET)
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


_calendar: Final = msgspec.json.Decoder(CalendarBody)
_window: Final = msgspec.json.Decoder(WindowBody)
_preview: Final = msgspec.json.Decoder(CalendarPreviewBody)


class RuleView(msgspec.Struct, kw_only=True):
    """The fields that calendars and windows share."""

    name: str
    version: int
    created_by: str
    created_at: Instant
    updated_at: Instant
    warnings: Sequence[str]
    """The entries that were not taken over from `ics` or `holidays`."""


class CalendarView(RuleView, kw_only=True):
    """A calendar."""

    calendar: CalendarBody
    """As it was sent."""
    resolved: ResolvedBody | None
    """Its resolved entries, if `ics` or `holidays` were given: from the first day of the year before it was stored, for
    ten years on."""


class CalendarItem(RuleView, kw_only=True):
    """A calendar of a list."""

    timezone: str
    entries: int
    """The number of its days, hours, windows and periods."""
    ics: bool
    """It was made from an iCalendar file."""
    holidays: HolidaysBody | None


class WindowView(RuleView, kw_only=True):
    """A maintenance window."""

    when: CalendarBody
    """As it was sent."""
    resolved: ResolvedBody | None
    labels: Mapping[str, str]
    action: Otherwise
    reason: str


class WindowItem(RuleView, kw_only=True):
    """A maintenance window of a list."""

    timezone: str
    entries: int
    ics: bool
    holidays: HolidaysBody | None
    labels: Mapping[str, str]
    action: Otherwise
    reason: str


class StretchView(msgspec.Struct, kw_only=True):
    """Time without a break that is covered."""

    begin: Instant = msgspec.field(name="from")
    end: Instant | None = msgspec.field(name="to")
    """It may lie after the range; null: no end is in sight."""
    what: str
    """The cover of its begin."""


class CoversView(msgspec.Struct, kw_only=True):
    """The covered times."""

    begin: Instant = msgspec.field(name="from")
    end: Instant = msgspec.field(name="to")
    covers: list[StretchView]
    more: bool
    """The limit came before the end of the range: go on from where the last one ends."""
    warnings: Sequence[str]


# ------------------------------------------------------------------------------------------ calendars


async def calendar_put(call: Call) -> Reply:
    """Create or replace a calendar."""
    name = call.path_values["name"]

    async def put(found: FoundRule | None) -> Reply:
        body = decode(_calendar, call.body, field_names(CalendarBody))
        done = await call.control.calendars.put(call.principal, name, body, found)
        return _put(done, _calendar_view)

    return await guarded(call.conditions, lambda: _look(call, call.control.calendars, _calendar_view), put)


async def calendar_get(call: Call) -> Reply:
    """One calendar."""
    row = await call.control.calendars.get(call.principal, call.path_values["name"])
    return answer(200, _calendar_view(row))


async def calendar_delete(call: Call) -> Reply:
    """Delete a calendar."""
    return await _delete(call, call.control.calendars, _calendar_view)


async def calendars_list(call: Call) -> Reply:
    """A page of calendars, by name."""
    query: RulesQuery = call.query
    found = await call.control.calendars.page(call.principal, _after(query), query.limit + 1)
    page, more = page_of(found, query.limit)
    last = page[-1].row.name if more else None
    views = [CalendarItem(**_common(each.row, each.stored), **_brief(each.stored)) for each in page]
    return answer(200, views, headers=page_links(call, last))


async def calendar_covers(call: Call) -> Reply:
    """The times that a calendar covers."""
    found = call.control.calendars.covers(call.principal, call.path_values["name"], _range(call.query))
    return answer(200, _covers_view(await found))


async def calendar_preview(call: Call) -> Reply:
    """The times that a calendar would cover that is not stored."""
    body = decode(_preview, call.body, field_names(CalendarPreviewBody))
    return answer(200, _covers_view(await call.control.calendars.preview(call.principal, body.calendar, _range(body))))


# ------------------------------------------------------------------------------------------ windows


async def window_put(call: Call) -> Reply:
    """Create or replace a maintenance window."""
    name = call.path_values["name"]

    async def put(found: FoundRule | None) -> Reply:
        body = decode(_window, call.body, field_names(WindowBody))
        return _put(await call.control.windows.put(call.principal, name, body, found), _window_view)

    return await guarded(call.conditions, lambda: _look(call, call.control.windows, _window_view), put)


async def window_get(call: Call) -> Reply:
    """One maintenance window."""
    row = await call.control.windows.get(call.principal, call.path_values["name"])
    return answer(200, _window_view(row))


async def window_delete(call: Call) -> Reply:
    """Delete a maintenance window."""
    return await _delete(call, call.control.windows, _window_view)


async def windows_list(call: Call) -> Reply:
    """A page of maintenance windows, by name."""
    query: RulesQuery = call.query
    found = await call.control.windows.page(call.principal, _after(query), query.limit + 1)
    page, more = page_of(found, query.limit)
    last = page[-1].row.name if more else None
    views = [
        WindowItem(**_common(row, when), **_brief(when), **_concern(stored))
        for row, stored in page
        for when in [StoredCalendar(stored.window.when, stored.said, stored.warnings)]
    ]
    return answer(200, views, headers=page_links(call, last))


async def window_covers(call: Call) -> Reply:
    """The times at which a maintenance window is open."""
    found = call.control.windows.covers(call.principal, call.path_values["name"], _range(call.query))
    return answer(200, _covers_view(await found))


# ------------------------------------------------------------------------------------------ in and out


async def _look(call: Call, service: CalendarService | WindowService, view: View) -> tuple[FoundRule, bytes | None]:
    """The object under the name, with its tag."""
    found = await service.to_change(call.principal, call.path_values["name"])
    return found, None if found.row is None else tag_of(encode(view(found.row)))


def _put(done: WrittenCalendar, view: View) -> Reply:
    shown = encode(view(done.row))
    return Reply(201 if done.created else 200, shown, etag(shown))


async def _delete(call: Call, service: CalendarService | WindowService, view: View) -> Reply:
    """Delete what the name stands for; what it was."""
    name = call.path_values["name"]

    async def look() -> tuple[RuleRow, bytes]:
        row = await service.to_delete(call.principal, name)
        return row, tag_of(encode(view(row)))

    async def delete(row: RuleRow | None) -> Reply:
        return answer(200, view(await service.delete(call.principal, name, row)))

    return await guarded(call.conditions, look, delete)


def _after(query: RulesQuery) -> str | None:
    return None if query.cursor is UNSET else cursor_text(query.cursor)


def _range(said: CoversQuery | CalendarPreviewBody) -> Range:
    return Range(start=given_instant(said.start), end=given_instant(said.end), limit=said.limit)


def _common(row: RuleRow, stored: StoredCalendar) -> dict[str, Any]:
    return {
        "name": row.name,
        "version": row.version,
        "created_by": row.created_by,
        "created_at": time_of(row.created_at),
        "updated_at": time_of(row.updated_at),
        "warnings": stored.warnings,
    }


def _brief(stored: StoredCalendar) -> dict[str, Any]:
    return {
        "timezone": stored.calendar.timezone,
        "entries": len(stored.calendar.entries),
        "ics": stored.said.ics is not None,
        "holidays": stored.said.holidays,
    }


def _concern(stored: StoredWindow) -> dict[str, Any]:
    window = stored.window
    return {"labels": window.labels, "action": window.action, "reason": window.reason}


def _resolved(stored: StoredCalendar) -> ResolvedBody | None:
    if stored.said.ics is None and stored.said.holidays is None:
        return None
    return written(stored.calendar)


def _calendar_view(row: RuleRow) -> CalendarView:
    stored = decode_calendar(row.body)
    return CalendarView(**_common(row, stored), calendar=stored.said, resolved=_resolved(stored))


def _window_view(row: RuleRow) -> WindowView:
    stored = decode_window(row.name, row.body)
    when = StoredCalendar(stored.window.when, stored.said, stored.warnings)
    return WindowView(**_common(row, when), when=stored.said, resolved=_resolved(when), **_concern(stored))


def _covers_view(covers: Covers) -> CoversView:
    return CoversView(
        begin=time_of(covers.start),
        end=time_of(covers.end),
        covers=[
            StretchView(begin=time_of(each.begin), end=None if each.end is None else time_of(each.end), what=each.what)
            for each in covers.stretches
        ],
        more=covers.more,
        warnings=covers.warnings,
    )


_NAMED: Final = f"{API}/calendars/{{name}}"
_WINDOW: Final = f"{API}/windows/{{name}}"

CALENDARS: Final = (
    Endpoint(
        method="GET", path=f"{API}/calendars", control=CalendarService.page, name="listCalendars", tag="calendars",
        summary="The calendars, by name.",
        handler=calendars_list, answers=(list[CalendarItem],), query=RulesQuery,
    ),
    Endpoint(
        method="POST", path=f"{API}/calendars:preview", control=CalendarService.preview, name="previewCalendar",
        previews=True, tag="calendars", summary="The times that a calendar would cover, without storing it.",
        handler=calendar_preview, body=CalendarPreviewBody, answers=(CoversView,),
    ),
    Endpoint(
        method="PUT", path=_NAMED, control=CalendarService.put, name="putCalendar", tag="calendars",
        summary="Create a calendar, or replace it as a whole.",
        description="Jobs name it in `calendars`. Times that it closes from now on are decided again; existing runs "
        "stay. `holidays` and `ics` are resolved now, from the first day of last year for ten years on.",
        handler=calendar_put, body=CalendarBody, answers=(CalendarView,), further=(201,), refuses=(409, 412),
        conditional=True,
    ),
    Endpoint(
        method="GET", path=_NAMED, control=CalendarService.get, name="getCalendar", tag="calendars",
        summary="A calendar, as it was sent and as it was resolved.",
        handler=calendar_get, answers=(CalendarView,), refuses=(404,), conditional=True,
    ),
    Endpoint(
        method="DELETE", path=_NAMED, control=CalendarService.delete, name="deleteCalendar", tag="calendars",
        summary="Delete a calendar that no job uses, and return its last version.",
        handler=calendar_delete, answers=(CalendarView,), refuses=(404, 409, 412), conditional=True,
    ),
    Endpoint(
        method="GET", path=f"{_NAMED}/covers", control=CalendarService.covers,
        name="getCalendarCovers", tag="calendars",
        summary="The times that a calendar covers.",
        handler=calendar_covers, answers=(CoversView,), query=CoversQuery, refuses=(404,),
    ),
    Endpoint(
        method="GET", path=f"{API}/windows", control=WindowService.page, name="listWindows", tag="windows",
        summary="The maintenance windows, by name.",
        handler=windows_list, answers=(list[WindowItem],), query=RulesQuery,
    ),
    Endpoint(
        method="PUT", path=_WINDOW, control=WindowService.put, name="putWindow", tag="windows",
        summary="Create a maintenance window, or replace it as a whole.",
        description="No run by schedule of a job that has all of `labels` starts in it: with `action` skip it is "
        "skipped, with defer it runs when the window ends. Active runs go on, and requested runs run.",
        handler=window_put, body=WindowBody, answers=(WindowView,), further=(201,), refuses=(409, 412),
        conditional=True,
    ),
    Endpoint(
        method="GET", path=_WINDOW, control=WindowService.get, name="getWindow", tag="windows",
        summary="A maintenance window, as it was sent and as it was resolved.",
        handler=window_get, answers=(WindowView,), refuses=(404,), conditional=True,
    ),
    Endpoint(
        method="DELETE", path=_WINDOW, control=WindowService.delete, name="deleteWindow", tag="windows",
        summary="Delete a maintenance window, and return its last version.",
        handler=window_delete, answers=(WindowView,), refuses=(404, 412), conditional=True,
    ),
    Endpoint(
        method="GET", path=f"{_WINDOW}/covers", control=WindowService.covers, name="getWindowCovers", tag="windows",
        summary="The times at which a maintenance window is open.",
        handler=window_covers, answers=(CoversView,), query=CoversQuery, refuses=(404,),
    ),
)  # fmt: skip
