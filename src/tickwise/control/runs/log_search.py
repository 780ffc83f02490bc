"""A search for a text in the outputs of many runs, newest run first: a scan with bounds, without an index.

    runs that match ──newest first──► each one's newest attempt ──1 MiB at a time──► lines that have the text
         └── until the hits, the bytes, the time or the runs of one answer are used up ──► go on before this run

Invariant: one answer costs at most its `bytes_most` read from the store of outputs, about its `seconds`, and the memory
of one part; at most `AT_ONCE` searches of a process read at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.control.context import ControlContext
from tickwise.control.runs.logs import LINE_BYTES, LogReader, LogSearch
from tickwise.control.visible_runs import visible_runs
from tickwise.documents.log_origin import Ranges, holds, read_own
from tickwise.domain.errors import Busy
from tickwise.ports.store import NO_TEXT, RunQuery, RunRow

RUNS_AT_ONCE: Final = 50
RUNS_MOST: Final = 1_000
"""Runs of one answer; most have no output, and cost a listing."""
LOG_BYTES_MOST: Final = 16 << 20
"""Of one log, from its beginning."""
HITS_OF_RUN: Final = 20
LINE_SHOWN: Final = 500
"""Bytes of a line in an answer, from its beginning."""
AT_ONCE: Final = 2
TURN_SECONDS: Final = 5.0
"""The longest that a search waits for others to end."""


class OutputSearch(NamedTuple):
    """A text, and the bounds of one answer."""

    text: str
    """One line at most, in any case of the letters of ASCII."""
    hits: int = 50
    bytes_most: int = 64 << 20
    seconds: float = 5.0


class OutputHit(NamedTuple):
    """A line that has the text."""

    run: RunRow
    offset: int
    """Of the line in the output of the run's newest attempt."""
    line: str
    """Its beginning."""
    is_own: bool
    """True if Tickwise itself wrote the line."""


class OutputSearched(NamedTuple):
    """One answer."""

    hits: Sequence[OutputHit]
    runs: int
    bytes: int
    cut: int
    """Logs that were not read to their end: they are longer than `LOG_BYTES_MOST`, or have more than `HITS_OF_RUN`
    hits."""
    seconds: float
    before: UUID | None
    """Go on with the runs before this one; None: all that match were searched."""


class OutputSearches:
    """The searches of one process. It checks no permission."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def search(self, query: RunQuery, search: OutputSearch) -> OutputSearched:
        """Search the outputs of the runs of `query`. Raises `Busy` if others search for long."""
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await self._turns.acquire()
        except TimeoutError:
            raise Busy("other searches of outputs are at work; send this one again in a moment") from None
        try:
            return await _Scan(self._context, query, search).run()
        finally:
            self._turns.release()


class _Scan:
    """The work for one answer."""

    def __init__(self, context: ControlContext, query: RunQuery, search: OutputSearch) -> None:
        self._context = context
        self._query = query
        self._search = search
        self._began = context.clock.monotonic()
        self._until = self._began + search.seconds
        self._hits: list[OutputHit] = []
        self._runs = self._bytes = self._cut = 0

    async def run(self) -> OutputSearched:
        """Look at the runs, page by page."""
        before = self._query.before
        while True:
            query = replace(self._query, before=before, limit=RUNS_AT_ONCE, texts=NO_TEXT)
            page = await visible_runs(self._context.searches, query, await self._context.time.now())
            for row in page:
                if self._is_used_up():
                    return self._answer(before)
                await self._look(row)
                before = row.run_id
            if not page and page.paused_at is None:
                return self._answer(None)
            if page.paused_at is not None:
                before = min(page.paused_at.before, before) if before is not None else page.paused_at.before
            elif not page.cut and len(page) < RUNS_AT_ONCE:
                return self._answer(None)

    def _answer(self, before: UUID | None) -> OutputSearched:
        seconds = self._context.clock.monotonic() - self._began
        return OutputSearched(self._hits, self._runs, self._bytes, self._cut, seconds, before)

    def _is_used_up(self) -> bool:
        """Check the bounds; the first run is searched in any case, so that each answer goes on."""
        return self._runs > 0 and (
            len(self._hits) >= self._search.hits
            or self._bytes >= self._search.bytes_most
            or self._runs >= RUNS_MOST
            or self._context.clock.monotonic() >= self._until
        )

    async def _look(self, row: RunRow) -> None:
        self._runs += 1
        if not row.attempt:
            return
        log = await LogReader.open(self._context.blobs, row.run_id, row.attempt)
        room = min(LOG_BYTES_MOST, max(0, self._search.bytes_most - self._bytes))
        end = min(log.size, room)
        start = found = 0
        own: Ranges | None = None
        while start < end:
            hit, stopped = await log.find(LogSearch(self._search.text, start, bytes_most=end - start))
            if hit is None:
                self._bytes += max(0, stopped - start)
                break
            begin = await log.line_begin(hit)
            line = await log.read(begin, LINE_BYTES)
            length = line.find(b"\n") + 1 or len(line)
            self._bytes += begin + length - start
            if own is None:  # most outputs have no hit: theirs are not read
                own = log.own(await read_own(self._context.blobs, row.run_id, row.attempt))
            text = line[: min(length, LINE_SHOWN)].decode(errors="replace").rstrip()
            is_own = holds(own, begin, begin + len(line[:length].removesuffix(b"\n")))
            self._hits.append(OutputHit(row, begin, text, is_own))
            start = max(begin + length, hit + 1)
            found += 1
            if found >= HITS_OF_RUN or len(self._hits) >= self._search.hits:
                self._cut += start < log.size
                return
        self._cut += end < log.size
