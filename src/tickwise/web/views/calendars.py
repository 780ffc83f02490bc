"""Calendars and maintenance windows: the lists, one of them with its times and jobs, and the forms that keep them.

A form that is refused comes back with what was typed, and the fault at its field and line. A form can be previewed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from tickwise.control.schedules.calendars import CalendarEntry, CalendarService
from tickwise.control.schedules.stored_rules import Covers, FoundRule, Range
from tickwise.control.schedules.windows import WindowBody, WindowEntry, WindowService
from tickwise.documents.calendars import CalendarBody, decode_calendar, written
from tickwise.documents.rulebook import decode_window
from tickwise.domain.calendar.rules import Otherwise
from tickwise.domain.errors import Busy, Conflict, Invalid, Refused, TickwiseError, VersionConflict
from tickwise.ports.store import RuleRow
from tickwise.web import calendar_text, forms
from tickwise.web.page import Handler, WebPage
from tickwise.web.views.jobs import labels_of
from tickwise.web.visit import Visit

PAGE_SIZE: Final = 25
STRETCHES: Final = 50
PREVIEWED: Final = 12
AHEAD_SECONDS: Final = 400 * 86_400.0
"""The times that the page of a calendar looks for; its next holiday may be a year away."""
LIST_SECONDS: Final = 60 * 86_400.0
JOBS: Final = 50
NAME_MAX: Final = 200
VERSION_MOST: Final = 10**15
SEE_OTHER: Final = 303
DONE: Final = {
    "stored": "It is stored. Schedulers go by it from now on.",
    "deleted": "It is deleted.",
}


class TypedRule(NamedTuple):
    """A form that comes back."""

    form: Mapping[str, str]
    fault: TickwiseError | None = None
    preview: Covers | None = None

    @property
    def place(self) -> tuple[str, int | None]:
        """The field and the line of the fault."""
        pointer = getattr(self.fault, "pointer", None)
        return ("", None) if pointer is None else calendar_text.place_of(pointer)


NOTHING: Final = TypedRule({})


class RuleLine(NamedTuple):
    """A calendar or a window in a list."""

    row: RuleRow
    body: CalendarBody
    entries: int
    covers: Covers
    window: Any = None


async def calendars_page(visit: Visit) -> Response:
    """Calendars, and maintenance windows."""
    return await _lists(visit)


async def _lists(visit: Visit, typed: TypedRule = NOTHING, kind: str = "") -> Response:
    said = visit.query
    after, after_window = said.get("cursor") or None, said.get("window_cursor") or None
    within = Range(end=visit.now + LIST_SECONDS, limit=1)
    calendars = await visit.control.calendars.covering(visit.who, within, PAGE_SIZE + 1, after=after)
    windows = None
    if visit.may(type(visit.control.windows).covering):
        windows = await visit.control.windows.covering(visit.who, within, PAGE_SIZE + 1, after=after_window)
    values = {
        "calendars": [_calendar_line(entry, covers) for entry, covers in calendars[:PAGE_SIZE]],
        "windows": None if windows is None else [_window_line(entry, covers) for entry, covers in windows[:PAGE_SIZE]],
        "next": _after(visit, "cursor", [entry.row.name for entry, _ in calendars]),
        "next_window": _after(visit, "window_cursor", [entry.row.name for entry, _ in windows or ()]),
        "first": visit.url("/calendars") if after or after_window else None,
        "typed": typed,
        "typed_kind": kind,
        "done": DONE.get(said.get("done", "")),
    }
    return visit.page("calendars.html", values, _status(typed))


def _after(visit: Visit, name: str, names: list[str]) -> str | None:
    return visit.url("/calendars", **{name: names[PAGE_SIZE - 1]}) if len(names) > PAGE_SIZE else None


def _calendar_line(entry: CalendarEntry, covers: Covers) -> RuleLine:
    return RuleLine(entry.row, entry.stored.said, len(entry.stored.calendar.entries), covers)


def _window_line(entry: WindowEntry, covers: Covers) -> RuleLine:
    window = entry.stored.window
    return RuleLine(entry.row, entry.stored.said, len(window.when.entries), covers, window)


def _status(typed: TypedRule) -> int:
    if typed.fault is None:
        return 200
    return 422 if isinstance(typed.fault, Invalid) else 429 if isinstance(typed.fault, Busy) else 409


# ---------------------------------------------------------------------------------------------------- one of them


async def calendar_page(visit: Visit) -> Response:
    """One calendar."""
    return await _calendar(visit, await visit.control.calendars.get(visit.who, _name(visit)))


async def _calendar(visit: Visit, row: RuleRow, typed: TypedRule = NOTHING) -> Response:
    stored = decode_calendar(row.body)
    within = _range(visit)
    jobs = None
    if visit.may(type(visit.control.jobs).of_calendar):
        jobs = await visit.control.jobs.of_calendar(visit.who, row.name, JOBS + 1)
    values = {
        "kind": "calendar",
        "stored": stored,
        "covers": await visit.control.calendars.covers(visit.who, row.name, within),
        "resolved": len(written(stored.calendar).dates) if stored.said.holidays or stored.said.ics else None,
        "jobs": None if jobs is None else jobs[:JOBS],
        "more_jobs": jobs is not None and jobs.is_full(JOBS + 1),
        "may_write": visit.may(CalendarService.put),
        "window": None,
    }
    return _one(visit, row, stored.said, typed, values)


async def window_page(visit: Visit) -> Response:
    """One maintenance window."""
    return await _window(visit, await visit.control.windows.get(visit.who, _name(visit)))


async def _window(visit: Visit, row: RuleRow, typed: TypedRule = NOTHING) -> Response:
    stored = decode_window(row.name, row.body)
    values = {
        "kind": "window",
        "stored": stored,
        "covers": await visit.control.windows.covers(visit.who, row.name, _range(visit)),
        "resolved": None,
        "jobs": None,
        "more_jobs": False,
        "may_write": visit.may(WindowService.put),
        "window": stored.window,
    }
    return _one(visit, row, stored.said, typed, values)


def _one(visit: Visit, row: RuleRow, said: CalendarBody, typed: TypedRule, values: dict[str, Any]) -> Response:
    covers: Covers = values["covers"]
    last = covers.stretches[-1] if covers.stretches else None
    more = covers.more and last is not None and last.end is not None
    window = values["window"]
    about = {} if window is None else {
        "labels": ", ".join(f"{name}={value}" for name, value in window.labels.items()),
        "action": window.action.value,
        "reason": window.reason,
    }  # fmt: skip
    values |= {
        "row": row,
        "said": said,
        "fields": dict(typed.form) or {**calendar_text.shown(said), **about},
        "typed": typed,
        "path": _path(values["kind"], row.name),
        "later": visit.url(_path(values["kind"], row.name), start=f"{last.end:.0f}") if more and last else None,
        "moved": bool(visit.query.get("start")),
        "done": DONE.get(visit.query.get("done", "")),
    }
    return visit.page("calendar.html", values, _status(typed))


def _range(visit: Visit) -> Range:
    start = forms.whole(visit.query.get("start"), "start", 0, 10**11)
    begin = visit.now if start is None else float(start)
    return Range(start=begin, end=begin + AHEAD_SECONDS, limit=STRETCHES)


def _name(visit: Visit) -> str:
    return str(visit.request.path_params["name"])


def _path(kind: str, name: str) -> str:
    return f"/{kind}s/{quote(name, safe='')}"


# ---------------------------------------------------------------------------------------------------- forms


async def add_calendar(visit: Visit) -> Response:
    """A new calendar; with `preview`, its times alone."""
    return await _put(visit, "calendar", new=True)


async def add_window(visit: Visit) -> Response:
    """A new maintenance window; with `preview`, its times alone."""
    return await _put(visit, "window", new=True)


async def change_calendar(visit: Visit) -> Response:
    """Another calendar in place of one; with `preview`, its times alone."""
    return await _put(visit, "calendar")


async def change_window(visit: Visit) -> Response:
    """Another window in place of one; with `preview`, its times alone."""
    return await _put(visit, "window")


async def _put(visit: Visit, kind: str, *, new: bool = False) -> Response:
    service: CalendarService | WindowService = visit.control.calendars if kind == "calendar" else visit.control.windows
    name = (forms.text(visit.form, "name", NAME_MAX) or "") if new else _name(visit)
    found: FoundRule | None = None
    try:
        body = calendar_text.read(visit.form)
        window = None if kind == "calendar" else _window_body(visit.form, body)
        if "preview" in visit.form:
            return await _back(visit, kind, new, TypedRule(visit.form, preview=await _preview(visit, body)))
        if not name:
            raise Invalid("give it a name", pointer="/name")
        found = await service.to_change(visit.who, name)
        _check_version(visit, found, new=new)
        if isinstance(service, CalendarService):
            await service.put(visit.who, name, body, found)
        elif window is not None:
            await service.put(visit.who, name, window, found)
    except (Invalid, Conflict, VersionConflict, Busy) as refusal:
        return await _back(visit, kind, new, TypedRule(visit.form, refusal))
    return RedirectResponse(visit.url(_path(kind, name), done="stored"), SEE_OTHER)


def _check_version(visit: Visit, found: FoundRule, *, new: bool) -> None:
    """Raises `Conflict` for the name of another one, `VersionConflict` for one that was changed meanwhile."""
    if new and found.row is not None:
        raise Conflict("there is one of this name already; open it to change it", pointer="/name")
    version = forms.whole(visit.form.get("version"), "version", 1, VERSION_MOST)
    if version is not None and (found.row is None or found.row.version != version):
        raise VersionConflict("it was changed meanwhile: open it again, and repeat your change")


def _window_body(form: Mapping[str, str], when: CalendarBody) -> WindowBody:
    action = forms.choice(Otherwise, form.get("action") or Otherwise.SKIP, "action")
    labels = dict(labels_of((forms.text(form, "labels") or "").split(",")))
    return WindowBody(when=when, labels=labels, action=action, reason=forms.text(form, "reason") or "")


async def _preview(visit: Visit, body: CalendarBody) -> Covers | None:
    """The times that it would cover; None for a visitor who may not read calendars."""
    if not visit.may(CalendarService.preview):
        return None
    return await visit.control.calendars.preview(visit.who, body, Range(end=visit.now + AHEAD_SECONDS, limit=PREVIEWED))


async def _back(visit: Visit, kind: str, new: bool, typed: TypedRule) -> Response:  # private, by place
    """The page of the form, with what was typed. Raises the fault for a visitor who may not see that page."""
    if not visit.may(CalendarService.get if kind == "calendar" or new else WindowService.get):
        raise typed.fault or Invalid("a preview needs the permission calendars:read")
    if new:
        return await _lists(visit, typed, kind)
    if kind == "calendar":
        return await _calendar(visit, await visit.control.calendars.get(visit.who, _name(visit)), typed)
    return await _window(visit, await visit.control.windows.get(visit.who, _name(visit)), typed)


def _deleting(kind: str) -> Callable[[Visit], Awaitable[Response]]:
    async def delete(visit: Visit) -> Response:
        service: CalendarService | WindowService = (
            visit.control.calendars if kind == "calendar" else visit.control.windows
        )
        name = _name(visit)
        row = await service.to_delete(visit.who, name)
        try:
            if visit.form.get("confirm") != "yes":
                raise Invalid("tick the box: jobs start without it from then on", pointer="/confirm")
            _check_version(visit, FoundRule(row), new=False)
            await service.delete(visit.who, name, row)
        except (Invalid, Conflict, VersionConflict) as refusal:
            return await _back(visit, kind, False, TypedRule({}, _about_delete(refusal)))
        return RedirectResponse(visit.url("/calendars", done="deleted"), SEE_OTHER)

    return delete


def _about_delete(refusal: Refused) -> Refused:
    """A refusal of the delete, told at its form."""
    refusal.pointer = "/confirm"
    return refusal


def _form(path: str, name: str, handler: Handler, control: Callable[..., object]) -> WebPage:
    return WebPage(method="POST", path=path, name=name, handler=handler, control=(control,))


CALENDARS: Final = (
    WebPage(
        method="GET",
        path="/calendars",
        name="calendars",
        query=("cursor", "window_cursor", "done"),
        handler=calendars_page,
        control=(CalendarService.covering,),
    ),
    WebPage(
        method="GET",
        path="/calendars/{name:path}",
        name="calendar",
        query=("start", "done"),
        handler=calendar_page,
        control=(CalendarService.get,),
    ),
    WebPage(
        method="GET",
        path="/windows/{name:path}",
        name="window",
        query=("start", "done"),
        handler=window_page,
        control=(WindowService.get,),
    ),
    # Before the paths that end with a name, which may hold anything.
    _form("/calendars/{name:path}/delete", "calendar_delete", _deleting("calendar"), CalendarService.delete),
    _form("/windows/{name:path}/delete", "window_delete", _deleting("window"), WindowService.delete),
    _form("/calendars", "calendar_add", add_calendar, CalendarService.put),
    _form("/windows", "window_add", add_window, WindowService.put),
    _form("/calendars/{name:path}", "calendar_change", change_calendar, CalendarService.put),
    _form("/windows/{name:path}", "window_change", change_window, WindowService.put),
)
