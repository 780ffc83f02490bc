"""Streams for open pages: that something changed of what a page shows, and the output of a run as it is written.

    feed ──► control.live ──► /live                    a word for each page of changes: `live.js` renews the block
    blobs ─► control.live ──► /runs/{run_id}/follow    lines as markup: `live.js` puts them below the last one

A stream ends with the session, the permission or the namespace that it was opened with, and says why.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from hashlib import sha256
from typing import Final
from uuid import UUID

from starlette.responses import Response, StreamingResponse

from tickwise.control.live.filters import EventFilter
from tickwise.control.live.log_follower import LogPosition, OutputPart, log_id, read_log_id
from tickwise.control.live.permits import Credential
from tickwise.control.live.service import LiveService
from tickwise.control.live.streams import marker
from tickwise.domain.errors import Invalid, Unauthenticated
from tickwise.domain.feed import read_event_id
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Principal
from tickwise.web import forms
from tickwise.web.ansi import PLAIN_STYLE, lines_on
from tickwise.web.page import WebPage
from tickwise.web.views.output import ATTEMPTS_MAX, LOG_BYTES, OFFSET_MAX
from tickwise.web.visit import EVENTS_PATH, Visit

EVENT_STREAM: Final = "text/event-stream"
LAST_EVENT_ID: Final = "last-event-id"
IDS_MAX: Final = 100
# nginx, and gateways made of it, hold an answer back until a buffer is full.
_HEADERS: Final = {"cache-control": "no-store, no-transform", "x-accel-buffering": "no"}


async def changes(visit: Visit) -> Response:
    """That something changed: of all runs of the namespace, or of those that the address names."""
    said = visit.request.query_params
    asked = EventFilter(
        namespace=visit.who.namespace,
        jobs=frozenset(_ids(said.getlist("job_id"), "job_id")),
        runs=frozenset(_ids(said.getlist("run_id"), "run_id")),
        states=frozenset(forms.choice(RunState, each, "status") for each in said.getlist("status") if each),
        brief=True,
    )
    if visit.request.method == "HEAD":
        return _streamed(None)
    last = visit.request.headers.get(LAST_EVENT_ID)
    # An id of another release tells nothing. The page is renewed whenever its stream begins anew.
    last = last if last is not None and read_event_id(last) is not None else None
    return _streamed(await visit.control.live.events(visit.who, asked, _credential(visit), last))


async def output(visit: Visit) -> Response:
    """The output of a run as it is written, from the place that is asked for."""
    run_id = visit.uuid("run_id", "run")
    attempt = forms.whole(visit.query.get("attempt"), "attempt", 1, ATTEMPTS_MAX)
    offset = forms.whole(visit.query.get("at"), "at", 0, OFFSET_MAX) or 0
    came_back = read_log_id(visit.request.headers.get(LAST_EVENT_ID, ""))
    attempt, offset = came_back or (attempt, offset)
    if visit.request.method == "HEAD":
        return _streamed(None)
    lines = _Lines(visit)
    if offset:
        await lines.begin(run_id, attempt, offset)
    position = LogPosition(attempt, offset)
    return _streamed(await visit.control.live.log(visit.who, run_id, _credential(visit), position, lines.event))


class _Lines:
    """Parts of an output as markup. A colour goes on from one part to the next."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._attempt = 0
        self._style = PLAIN_STYLE

    async def begin(self, run_id: UUID, attempt: int | None, offset: int) -> None:
        """Take over the style that is in force at a place."""
        at = max(0, offset - LOG_BYTES)
        runs = self._visit.control.runs
        before = await runs.log(self._visit.who, run_id, attempt=attempt, offset=at, limit=offset - at)
        self._attempt = before.attempt
        self._style = lines_on(before.content, at, PLAIN_STYLE, before.own)[1]

    def event(self, part: OutputPart) -> bytes:
        """One event for the lines of a part."""
        if part.attempt != self._attempt:
            self._attempt, self._style = part.attempt, PLAIN_STYLE
        content = b"".join(line for line, _ in part.lines)
        lines, self._style = lines_on(content, part.offset, self._style, part.own)
        values = {"visit": self._visit, "run_id": part.run, "attempt": part.attempt, "lines": lines}
        markup = self._visit.templates.render("log_lines.html", values)
        return marker(
            "output",
            {"attempt": part.attempt, "offset": part.offset, "lines": markup},
            place=log_id(part.attempt, part.next_offset),
        )


def _credential(visit: Visit) -> Credential:
    """The session of the page, to be looked up again while its stream is open."""
    cookie, sessions, directory = visit.cookie or "", visit.sessions, visit.control.directory
    namespace = visit.who.namespace

    async def principal() -> Principal:
        caller = await sessions.caller(cookie, used=False)
        if caller is None:
            raise Unauthenticated("the session has ended")
        return await directory.principal(caller, namespace)

    return Credential(("cookie", sha256(cookie.encode("utf-8", "surrogatepass")).digest(), namespace), principal)


def _ids(texts: list[str], name: str) -> list[bytes]:
    """Raises `Invalid`."""
    if len(texts) > IDS_MAX:
        raise Invalid(f"{name} is given {IDS_MAX} times at most")
    found = (forms.identifier(text, name) for text in texts)
    return [each.bytes for each in found if each is not None]


def _streamed(chunks: AsyncGenerator[bytes] | None) -> Response:
    if chunks is None:
        return Response(headers=dict(_HEADERS), media_type=EVENT_STREAM)
    return StreamingResponse(chunks, headers=dict(_HEADERS), media_type=EVENT_STREAM)


LIVE: Final[tuple[WebPage, ...]] = (
    WebPage(
        method="GET",
        path=EVENTS_PATH,
        name="live",
        query=("job_id", "run_id", "status"),
        handler=changes,
        control=(LiveService.events,),
        is_stream=True,
    ),
    WebPage(
        method="GET",
        path="/runs/{run_id}/follow",
        name="run_follow",
        query=("attempt", "at"),
        handler=output,
        control=(LiveService.log,),
        is_stream=True,
    ),
)
