"""The output of a run: a part of it on the page, a search over all of it, and the whole as a file.

A page holds `LOG_BYTES` of it, a search and a download hold one part at a time: a long output costs no memory.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from starlette.responses import RedirectResponse, Response, StreamingResponse

from tickwise.control.runs.artefacts import RunArtefacts, attachment
from tickwise.control.runs.downloads import Download, DownloadRequest, answer_download
from tickwise.control.runs.logs import LogSearch
from tickwise.control.runs.service import RunDetails, RunService
from tickwise.domain.errors import RangeNotSatisfiable, Unavailable
from tickwise.web import forms
from tickwise.web.ansi import OutputLine, lines_of, marked
from tickwise.web.page import WebPage
from tickwise.web.visit import Visit

LOG_BYTES: Final = 64 << 10
"""Of output on a page. A page costs the same, however long the output is."""
LINES_MAX: Final = 1_000
"""Of these: a browser needs seconds for some thousand lines."""
CONTEXT_BYTES: Final = 4 << 10
CONTEXT_LINES: Final = 40
"""Output that is shown before a line that an address names."""
OFFSET_MAX: Final = 1 << 40
ATTEMPTS_MAX: Final = 1_000_000
FIND_MAX: Final = 200
READ_SECONDS: Final = 5.0
"""The longest that a page waits for the store of outputs."""
UNREADABLE: Final = "The store of outputs does not answer, so the output cannot be read now."
SEE_OTHER: Final = 303


class Output(NamedTuple):
    """A part of what an attempt wrote."""

    attempt: int
    lines: list[OutputLine]
    begin: int
    end: int
    size: int
    complete: bool
    find: str
    """The text that is looked for; empty: none is."""
    at: int | None
    """The line that the address names."""
    after: int
    """The offset of the line after that one."""
    searched: int | None
    """No hit was found up to here."""
    back: bool
    waiting: str
    """A sentence about output that is not stored yet; empty: all is."""


async def output_of(visit: Visit, details: RunDetails) -> Output | None:
    """A part of the output: around the line that is asked for, or the end. None: it was not tried yet. While the store
    of outputs is away there are no lines, and a sentence says so: the rest of the page is worth seeing."""
    newest, said = details.row.attempt, visit.query
    if newest == 0:
        return None
    attempt = forms.whole(said.get("attempt"), "attempt", 1, newest) or newest
    try:
        async with asyncio.timeout(READ_SECONDS):
            return await _read(visit, details, attempt)
    except (Unavailable, TimeoutError):
        return _unreadable(attempt)


def _unreadable(attempt: int) -> Output:
    return Output(
        attempt=attempt,
        lines=[],
        begin=0,
        end=0,
        size=0,
        complete=False,
        find="",
        at=None,
        after=0,
        searched=None,
        back=False,
        waiting=UNREADABLE,
    )


async def _read(visit: Visit, details: RunDetails, attempt: int) -> Output:
    run_id, said = details.row.run_id, visit.query
    at = forms.whole(said.get("at"), "at", 0, OFFSET_MAX)
    find = forms.text(said, "find", FIND_MAX) or ""
    runs = visit.control.runs
    until = forms.whole(said.get("until"), "until", 0, OFFSET_MAX)
    if at is None:
        if until is None:
            until = (await runs.log(visit.who, run_id, attempt=attempt, offset=0, limit=0)).size
        start = max(0, until - LOG_BYTES)
        limit = until - start
    else:
        start, limit = max(0, at - CONTEXT_BYTES), LOG_BYTES
    chunk = await runs.log(visit.who, run_id, attempt=attempt, offset=start, limit=limit)
    content = chunk.content
    if start > 0:
        # The part begins within a line: that line is left out. A line longer than the part is shown from where it is.
        cut = _line_begin(content, None if at is None else at - start)
        start, content = start + cut, content[cut:]
    if not chunk.complete and b"\n" in content:
        content = content[: content.rfind(b"\n") + 1]
    lines, end = _some(lines_of(content, start, chunk.own), at, start + len(content))
    after = next((each.offset for each in lines if at is not None and each.offset > at), end)
    return Output(
        attempt=chunk.attempt,
        lines=marked(lines, find),
        begin=lines[0].offset if lines else start,
        end=end,
        size=max(chunk.size, end),
        complete=chunk.complete,
        find=find,
        at=at,
        after=after,
        searched=forms.whole(said.get("searched"), "searched", 0, OFFSET_MAX),
        back=bool(said.get("back")),
        waiting="" if chunk.waiting is None else chunk.waiting.sentence,
    )


async def artefacts_of_run(visit: Visit, details: RunDetails, output: Output | None) -> RunArtefacts | None:
    """The files of the attempt whose output is shown. None: there are none, or the visitor may not see them."""
    if output is None or not visit.may(RunService.artefacts):
        return None
    if output.waiting == UNREADABLE:
        return None
    try:
        found = await visit.control.runs.artefacts(visit.who, details.row.run_id, attempt=output.attempt)
    except Unavailable:
        return None
    return found if found.artefacts or found.left_count else None


def _line_begin(content: bytes, line: int | None) -> int:
    """The first whole line of a part, at the latest the line that is asked for."""
    found = content.find(b"\n") + 1
    return found if line is None or 0 < found <= line else line


def _some(lines: list[OutputLine], at: int | None, end: int) -> tuple[list[OutputLine], int]:
    """The lines of a page: from shortly before the one that is asked for, or the last ones; and where they end."""
    if at is None:
        return lines[-LINES_MAX:], end
    first = max(0, sum(each.offset <= at for each in lines) - 1 - CONTEXT_LINES)
    rest = lines[first + LINES_MAX :]
    return lines[first : first + LINES_MAX], rest[0].offset if rest else end


async def find_line(visit: Visit) -> Response:
    """The next line with a text, as the address of that line: the page shows it, and a browser scrolls to it."""
    run_id, said = visit.uuid("run_id", "run"), visit.query
    attempt = forms.whole(said.get("attempt"), "attempt", 1, ATTEMPTS_MAX)
    find, back = forms.text(said, "find", FIND_MAX), bool(said.get("back"))
    if find is None:
        return RedirectResponse(visit.url(f"/runs/{run_id}", attempt=attempt) + "#output", SEE_OTHER)
    start = forms.whole(said.get("from"), "from", 0, OFFSET_MAX)
    if start is None:
        start = OFFSET_MAX if back else 0
    search = LogSearch(find, start, back=back)
    hit = await visit.control.runs.find_in_log(visit.who, run_id, search, attempt=attempt)
    shown = {"attempt": hit.attempt or None, "find": find}
    if hit.line is not None:
        return RedirectResponse(visit.url(f"/runs/{run_id}", **shown, at=hit.line) + f"#b{hit.line}", SEE_OTHER)
    here = forms.whole(said.get("at"), "at", 0, OFFSET_MAX)
    stopped = {"searched": hit.searched_to, "back": 1 if back else None}
    return RedirectResponse(visit.url(f"/runs/{run_id}", **shown, at=here, **stopped) + "#output", SEE_OTHER)


async def log_file(visit: Visit) -> Response:
    """The whole output of an attempt, as far as it is written. It is sent as it is read, a part at a time."""
    run_id = visit.uuid("run_id", "run")
    attempt = forms.whole(visit.query.get("attempt"), "attempt", 1, ATTEMPTS_MAX)
    found = await visit.control.runs.log_file(visit.who, run_id, attempt=attempt)
    return await _download(visit, found.content, f"{run_id}-{found.attempt}.log", "text/plain; charset=utf-8")


async def artefact_file(visit: Visit) -> Response:
    """A file that an attempt left: to be saved, never to be shown."""
    name = visit.request.path_params["artefact"]
    attempt = forms.whole(visit.query.get("attempt"), "attempt", 1, ATTEMPTS_MAX)
    found = await visit.control.runs.artefact(visit.who, visit.uuid("run_id", "run"), name, attempt=attempt)
    if isinstance(found, str):
        return RedirectResponse(
            found, SEE_OTHER, headers={"cache-control": "no-store", "referrer-policy": "no-referrer"}
        )
    return await _download(visit, found, name, "application/octet-stream")


async def _download(visit: Visit, file: Download, name: str, media: str) -> Response:
    """A file, or the range of it that the browser asks for."""
    said = visit.request.headers
    asked = DownloadRequest(said.get("range"), said.get("if-range"), visit.request.method == "HEAD")
    try:
        found = await answer_download(file, asked)
    except RangeNotSatisfiable as refusal:
        return Response(refusal.detail, 416, {"content-range": f"bytes */{refusal.size}"}, "text/plain")
    headers = {"content-disposition": attachment(name), **dict(found.headers)}
    if found.content is None:
        return Response(status_code=found.status, headers=headers, media_type=media)
    return StreamingResponse(found.content, found.status, headers, media)


OUTPUT: Final = (
    WebPage(
        method="GET",
        path="/runs/{run_id}/artefacts/{artefact:path}",
        name="run_artefact",
        query=("attempt",),
        handler=artefact_file,
        control=(RunService.artefact,),
    ),
    WebPage(
        method="GET",
        path="/runs/{run_id}/log",
        name="run_log",
        query=("attempt",),
        handler=log_file,
        control=(RunService.log_file,),
    ),
    WebPage(
        method="GET",
        path="/runs/{run_id}/log/find",
        name="run_find",
        query=("attempt", "find", "back", "from", "at"),
        handler=find_line,
        control=(RunService.find_in_log,),
    ),
)
