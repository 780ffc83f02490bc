"""A log as it is written, line by line, until its run has ended.

    blobs ──`read_log`, at most `READ_BYTES`──► lines ──► the client asks for more ──► …
    a line that tells of a progress ──► the newest progress, if it is another one
    feed  ──the run came into another state──► look at the run again: its attempt, and whether it has ended

So the store is asked when the run changes, not while it writes. Memory is that of one read, however long the log is.

Invariant: the id of a line is the offset after it, so that a client which comes back with it misses no line.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.control.context import ControlContext
from tickwise.control.live.streams import HEARTBEAT_SECONDS, RETRY_MILLISECONDS, End, EventStream, comment, marker
from tickwise.control.runs.logs import read_log
from tickwise.documents.log_origin import Ranges, holds
from tickwise.documents.progress import LINE_BEGIN, RunProgress, read_progress
from tickwise.domain.errors import NotFound, Unavailable
from tickwise.domain.lifecycle import FINAL
from tickwise.domain.model import Principal
from tickwise.ports.store import RunRow
from tickwise.roles.shared.service import wait_for

READ_BYTES: Final = 128 << 10
LINE_BYTES: Final = 64 << 10
"""A longer line comes in parts."""
LOOK_SECONDS: Final = 0.5
"""Between two looks for what was written since."""
LABELS_SECONDS: Final = 3.0
"""A caller who may see jobs with certain labels alone is asked for again after this time: a job can be given others."""
LATE_SECONDS: Final = 5.0
"""The last part of an output may be stored so long after its attempt has ended."""

_ID: Final = re.compile(r"(\d{1,7})\.(\d{1,15})")


class LogPosition(NamedTuple):
    """The place at which reading begins."""

    attempt: int | None = None
    """None: the newest one, and those that follow it."""
    offset: int = 0
    only: bool = False
    """Attempts that follow are not read."""


class OutputPart(NamedTuple):
    """Whole lines of a log, as they follow each other."""

    run: UUID
    attempt: int
    offset: int
    """Of the first byte."""
    lines: list[tuple[bytes, int]]
    """Each with its end, and the offset after it."""
    own: Ranges = ()
    """The parts that Tickwise itself wrote."""

    @property
    def next_offset(self) -> int:
        """Of the byte after the last line."""
        return self.lines[-1][1]


LogWriter = Callable[[OutputPart], bytes]
"""Writes a part as server-sent events, each with the id `attempt.offset` of the place after it."""


def written_lines(part: OutputPart) -> bytes:
    """An event for each line."""
    return b"".join(
        marker(
            "log",
            {
                "run_id": part.run,
                "attempt": part.attempt,
                "offset": after - len(line),
                "next_offset": after,
                "line": line.rstrip(b"\r\n").decode("utf-8", "replace"),
                "origin": "tickwise" if holds(part.own, after - len(line), after) else "task",
            },
            place=log_id(part.attempt, after),
        )
        for line, after in part.lines
    )


def written_progress(run: UUID, attempt: int, progress: RunProgress) -> bytes:
    """An event for a progress. It has no id: who comes back gets the newest one with the next line."""
    said = {"run_id": run, "attempt": attempt, "share": progress.share, "text": progress.text}
    return marker("progress", {**said, "time": datetime.fromtimestamp(progress.at, UTC)})


def log_id(attempt: int, offset: int) -> str:
    """The id of an event: the place after it."""
    return f"{attempt}.{offset}"


def read_log_id(text: str) -> tuple[int, int] | None:
    """The attempt and the offset that an id names; None: it is none of ours."""
    found = _ID.fullmatch(text)
    return None if found is None else (int(found[1]), int(found[2]))


class LogFollower:
    """One stream of a log."""

    def __init__(
        self,
        context: ControlContext,
        who: Principal,
        run: UUID,
        stream: EventStream,
        position: LogPosition,
        write: LogWriter = written_lines,
    ) -> None:
        """`stream` hears of the run's changes, and ends with the caller's permission."""
        self._write = write
        self._context = context
        self._who = who
        self._run = run
        self._stream = stream
        self._position = position
        self._row: RunRow | None = None
        self._within = stream.within
        self._looked_at = 0.0
        self._attempt = position.attempt or 0
        self._offset = position.offset
        self._waited = 0.0
        self._progress: RunProgress | None = None

    async def chunks(self) -> AsyncGenerator[bytes]:
        """The parts of the answer, as they are written."""
        stream = self._stream
        try:
            yield comment("open", None, retry=RETRY_MILLISECONDS)
            quiet = 0.0
            while True:
                if stream.ended:
                    yield stream.last_words
                    return
                part, pause = await self._step()
                if part:
                    yield part
                    quiet = 0.0
                if self._over:
                    state = None if self._row is None else self._row.state
                    stream.end(End.COMPLETE, status=state, attempt=self._attempt)
                elif pause:
                    await wait_for(stream.news, pause)
                    quiet += pause
                    if quiet >= HEARTBEAT_SECONDS:
                        quiet = 0.0
                        yield comment("heartbeat", None)
        finally:
            stream.abandon()

    _over = False

    async def _step(self) -> tuple[bytes, float]:
        """The new part of the log, and the pause after it in seconds."""
        try:
            within, now = self._stream.within, self._context.clock.monotonic()
            known_for = now - self._looked_at
            is_old = within != self._within or (within is not None and known_for >= LABELS_SECONDS)
            if self._stream.take_news() or self._row is None or is_old:
                self._within, self._looked_at = within, now
                self._row = await self._context.run(self._who._replace(within=within), self._run)
            return await self._read(self._row)
        except NotFound:
            self._stream.end(End.NOT_FOUND)
            return b"", 0.0
        except Unavailable:
            return b"", LOOK_SECONDS * 2

    async def _read(self, row: RunRow) -> tuple[bytes, float]:
        if not self._attempt:
            self._attempt = row.attempt
        ended = row.state in FINAL or self._attempt < row.attempt
        chunk = await read_log(
            self._context.blobs, self._run, self._attempt, offset=self._offset, limit=READ_BYTES, ended=False
        )
        stored = chunk.complete
        gave_up = ended and self._waited >= LATE_SECONDS
        lines, used = _lines(chunk.content, whole=stored or (gave_up and len(chunk.content) < READ_BYTES))
        after = [(line, self._offset + end) for line, end in lines]
        part = self._write(OutputPart(self._run, self._attempt, self._offset, after, chunk.own)) if lines else b""
        if any(line.startswith(LINE_BEGIN) for line, _ in lines):
            part += await self._new_progress()
        self._offset += used
        if used:
            self._waited = 0.0
            if used == len(chunk.content) and not stored and len(chunk.content) < READ_BYTES:
                return part, LOOK_SECONDS
            if not stored or used < len(chunk.content):
                return part, 0.0
        if stored or (ended and (gave_up or not self._attempt)):
            self._next(row)
            return part, 0.0 if self._over or self._offset == 0 else LOOK_SECONDS
        if ended:
            self._waited += LOOK_SECONDS
        return part, LOOK_SECONDS

    async def _new_progress(self) -> bytes:
        """An event for the progress of this attempt, if it is not what was told last."""
        found = await read_progress(self._context.blobs, self._run, self._attempt)
        if found is None or found == self._progress:
            return b""
        self._progress = found
        return written_progress(self._run, self._attempt, found)

    def _next(self, row: RunRow) -> None:
        """This attempt has written all. Go on with the next one, wait for it, or end."""
        if row.attempt > self._attempt and not self._position.only:
            self._attempt, self._offset, self._waited = self._attempt + 1, 0, 0.0
        elif row.state in FINAL or (self._position.only and row.attempt >= self._attempt > 0):
            self._over = True


def _lines(content: bytes, *, whole: bool) -> tuple[list[tuple[bytes, int]], int]:
    """The lines of a part, each with the offset after it, and how much of the part they are. The last one counts only
    if it is whole, or very long."""
    lines: list[tuple[bytes, int]] = []
    at = 0
    for line in content.split(b"\n"):
        end = at + len(line) + 1
        if end > len(content):
            end = len(content)
            if end == at or not (whole or end - at >= LINE_BYTES):
                break
        for start in range(at, end, LINE_BYTES):
            stop = min(end, start + LINE_BYTES)
            lines.append((content[start:stop], stop))
        at = end
    return lines, at
