"""Reading a log that may still be growing: chunks in key order are one text, addressed by byte offsets.

logs/<run>/<attempt>/000000  000001  000002.last      offset 0 ───────────────────────► complete
logs/<run>/<attempt>/whole.last                       the same in one blob, later, in an object store

A part that the store has lost is told in its place by a line, so that what follows it is still read.

A reader holds one part at a time (`PART_BYTES`), so a search over a log of any length has the memory of one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.control.runs.downloads import Download
from tickwise.control.runs.waiting_output import WaitingOutput
from tickwise.documents.log_origin import Ranges, joined, read_own, within
from tickwise.domain.errors import NotFound
from tickwise.ports.blobs import LOG_LAST, LOG_WHOLE, BlobInfo, Blobs, log_prefix

PART_BYTES: Final = 1 << 20
ESCAPES_MAX: Final = 500_000
"""Escape sequences that one search takes out of its way; what is left is for the next one."""
LINE_BYTES: Final = 64 << 10
"""The beginning of a line is looked for so far before a hit: a longer line is named by the place of the hit."""
_ESCAPE: Final = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
"""Colours, and the other sequences that a terminal obeys: a search passes over them (ECMA-48)."""


class LogChunk(NamedTuple):
    """A part of one attempt's log."""

    attempt: int
    """0: the run has not been tried yet."""
    offset: int
    content: bytes
    complete: bool
    """Nothing will follow after this part."""
    size: int = 0
    """Bytes that are there now."""
    waiting: WaitingOutput | None = None
    """The part that is not stored yet, of an attempt that is over."""
    is_closed: bool = True
    """The last part is stored."""
    own: Ranges = ()
    """The parts of the content that Tickwise itself wrote, by their offsets in the log."""

    @property
    def next_offset(self) -> int:
        """The offset at which to go on reading."""
        return self.offset + len(self.content)


class LogFile(NamedTuple):
    """The whole of one attempt's log."""

    attempt: int
    """0: the run has not been tried yet."""
    content: Download


class LogSearch(NamedTuple):
    """A text that is looked for in a log."""

    text: str
    """One line at most, in any case of the letters of ASCII."""
    start: int
    """Hits from this offset on; with `back`, hits that begin before it."""
    back: bool = False
    bytes_most: int = 256 << 20
    """The most that one search reads."""


class LogHit(NamedTuple):
    """The outcome of a search."""

    attempt: int
    line: int | None
    """The offset of the line of the first hit; None: there is none in what was read."""
    searched_to: int
    """The offset at which a further search in this direction goes on."""
    size: int
    finished: bool
    """The end of the log, or its beginning, was reached."""


class StoredPart(NamedTuple):
    """A chunk of a log, or the line that stands for one that is missing."""

    key: str
    size_bytes: int
    notice: bytes = b""
    """Of a missing one: the line itself."""


class LogReader:
    """The chunks of one attempt, listed once, and again when one of them has gone into a whole meanwhile."""

    def __init__(self, blobs: Blobs, folder: str, chunks: Sequence[BlobInfo]) -> None:
        self._blobs = blobs
        self._folder = folder
        self._chunks: Sequence[StoredPart] = ()
        self._begins = [0]
        self._take(chunks)

    def _take(self, chunks: Sequence[BlobInfo]) -> None:
        self._chunks = parts_of(self._folder, chunks)
        self._begins = [0, *accumulate(chunk.size_bytes for chunk in self._chunks)]

    @classmethod
    async def open(cls, blobs: Blobs, run: UUID, attempt: int) -> LogReader:
        """The log as it is now."""
        folder = log_prefix(run, attempt)
        return cls(blobs, folder, await blobs.list(folder))

    @property
    def size(self) -> int:
        """Its bytes."""
        return self._begins[-1]

    @property
    def notice_bytes(self) -> int:
        """The bytes of the lines that stand for lost parts."""
        return sum(len(chunk.notice) for chunk in self._chunks)

    def own(self, told: Ranges) -> Ranges:
        """The parts that Tickwise itself wrote, out of those that the executor told. Behind a part that is lost its
        offsets hold no more: nothing there is ours but the lines about what is lost."""
        notices = [
            (begin, begin + chunk.size_bytes)
            for begin, chunk in zip(self._begins, self._chunks, strict=False)
            if chunk.notice
        ]
        known = notices[0][0] if notices else self.size
        return joined((*within(told, 0, known), *notices))

    @property
    def is_closed(self) -> bool:
        """Check whether its last chunk is there."""
        return bool(self._chunks) and self._chunks[-1].key.endswith(LOG_LAST)

    async def read(self, offset: int, limit: int) -> bytes:
        """Up to `limit` bytes from `offset`; fewer where the log ends, or where retention took the rest."""
        content = bytearray()
        while len(content) < limit:
            start = offset + len(content)
            place = max(0, bisect_right(self._begins, start) - 1)
            if place >= len(self._chunks):
                break
            piece = await self._piece(place, start, limit - len(content))
            if piece is None:
                # Retention took it between the listing and now: the rest is gone with it.
                break
            content += piece
        return bytes(content)

    async def _piece(self, place: int, start: int, limit: int) -> bytes | None:
        """The content of one part from an offset on. None: it is gone, and no listing knows it any more."""
        for is_known in (True, False):
            chunk = self._chunks[place]
            within, wanted = start - self._begins[place], min(self._begins[place + 1] - start, limit)
            if chunk.notice:
                return chunk.notice[within : within + wanted]
            try:
                return await self._blobs.get_range(chunk.key, within, wanted)
            except NotFound:
                listed = await self._blobs.list(self._folder) if is_known else ()
            if any(info.key == chunk.key for info in listed):
                return _filled(chunk, within, wanted)
            if not any(info.key.endswith(LOG_WHOLE) for info in listed):
                return None
            self._take(listed)
            place = max(0, bisect_right(self._begins, start) - 1)
            if place >= len(self._chunks):
                return None
        return None

    async def find(self, search: LogSearch) -> tuple[int | None, int]:
        """The offset of the first hit, and where the search stopped. Raises nothing for a text that is not there."""
        needle = search.text.encode().lower()
        parts = self._backward(search, len(needle)) if search.back else self._forward(search, len(needle))
        stopped, escapes = min(self.size, search.start), 0
        async for begin, content in parts:
            # Each has to be taken out of the way: an output of nothing else takes a second for two megabytes.
            escapes += content.count(b"\x1b")
            found = hit_in(content, needle, last=search.back)
            if found is not None:
                return begin + found, begin + found
            stopped = begin if search.back else begin + len(content)
            if escapes > ESCAPES_MAX:
                break
        return None, stopped

    async def line_begin(self, offset: int) -> int:
        """The offset of the line that holds a byte; the byte itself in a line that is too long."""
        begin = max(0, offset - LINE_BYTES)
        before = await self.read(begin, offset - begin)
        newline = before.rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        return offset if begin else 0

    async def _forward(self, search: LogSearch, needle: int) -> AsyncIterator[tuple[int, bytes]]:
        """Whole lines where that is possible; a line longer than a part comes in parts that overlap by a hit."""
        begin, last = search.start, min(self.size, search.start + search.bytes_most)
        while begin < last:
            content = await self.read(begin, min(PART_BYTES, last - begin))
            if not content:
                return
            end = begin + len(content)
            if end < last:
                newline = content.rfind(b"\n")
                end = begin + newline + 1 if newline >= 0 else max(begin + 1, end - needle + 1)
            yield begin, content if end >= last or b"\n" not in content else content[: end - begin]
            begin = end

    async def _backward(self, search: LogSearch, needle: int) -> AsyncIterator[tuple[int, bytes]]:
        end = min(self.size, search.start)
        first = max(0, end - search.bytes_most)
        while end > first:
            begin = max(first, end - PART_BYTES)
            content = await self.read(begin, end - begin)
            if not content:
                return
            if begin > first:
                newline = content.find(b"\n")
                if 0 <= newline < len(content) - 1:
                    begin, content = begin + newline + 1, content[newline + 1 :]
            yield begin, content
            end = begin if begin <= first or b"\n" in content else min(end - 1, begin + needle - 1)


def parts_of(folder: str, chunks: Sequence[BlobInfo]) -> Sequence[StoredPart]:
    """The parts of a log in their order: the whole alone where it is there, and a line for each chunk that is missing
    before a later one. Chunks are written in order, so the store has lost it."""
    whole = [chunk for chunk in chunks if chunk.key == f"{folder}{LOG_WHOLE}"]
    parts: list[StoredPart] = []
    expected = 0
    for chunk in whole or sorted(chunks):
        name = chunk.key.rpartition("/")[2].removesuffix(LOG_LAST)
        if name.isdigit():
            number = int(name)
            if number > expected:
                lost = f"{folder}{expected:06d}" + (f" to {number - 1:06d}" if number - 1 > expected else "")
                notice = f"[the store of outputs has lost {lost}: what stood here is missing]\n".encode()
                parts.append(StoredPart(f"{folder}{expected:06d}", len(notice), notice))
            expected = number + 1
        parts.append(StoredPart(chunk.key, chunk.size_bytes))
    return parts


def _filled(chunk: StoredPart, begin: int, length: int) -> bytes:
    """A filling for a part that is listed and cannot be had: as long as the part, so that offsets hold."""
    notice = f"[the store of outputs lists {chunk.key} and does not have it]".encode()
    end = min(begin + length, chunk.size_bytes)
    return notice[begin:end].ljust(end - begin, b".")[: end - begin - 1] + b"\n" if end > begin else b""


def hit_in(content: bytes, needle: bytes, *, last: bool = False) -> int | None:
    """The place of the first hit, or of the last one, as people read the output: escape sequences do not count."""
    lower = content.lower()
    if b"\x1b" not in lower:
        found = lower.rfind(needle) if last else lower.find(needle)
        return found if found >= 0 else None
    removed: list[tuple[int, int]] = []
    pieces, kept, place = [], 0, 0
    for escape in _ESCAPE.finditer(content):
        pieces.append(lower[place : escape.start()])
        kept += escape.start() - place
        removed.append((kept, escape.end() - escape.start()))
        place = escape.end()
    shown = b"".join([*pieces, lower[place:]])
    found = shown.rfind(needle) if last else shown.find(needle)
    if found < 0:
        return None
    return found + sum(length for at, length in removed if at <= found)


async def read_log(blobs: Blobs, run: UUID, attempt: int, *, offset: int, limit: int, ended: bool) -> LogChunk:
    """Up to `limit` bytes from `offset`. `ended` says that the attempt is over, so what is there is all there is."""
    if attempt == 0:
        return LogChunk(0, offset, b"", ended)
    reader = await LogReader.open(blobs, run, attempt)
    content = await reader.read(offset, limit)
    # Read after the content: what is there of our lines is told by now.
    own = within(reader.own(await read_own(blobs, run, attempt)), offset, offset + len(content)) if content else ()
    complete = (reader.is_closed or ended) and offset + len(content) >= reader.size
    return LogChunk(attempt, offset, content, complete, reader.size, is_closed=reader.is_closed, own=own)


async def log_download(blobs: Blobs, run: UUID, attempt: int) -> Download:
    """The log as it is now, of which nothing is read yet. A log only grows, so its size tells its content; with a part
    that was lost, also the size of the line in its place."""
    reader = await LogReader.open(blobs, run, attempt)
    identity = f"log {run} {attempt} {reader.size} {reader.notice_bytes}"
    return Download(size=reader.size, identity=identity, read=reader.read)


async def find_in_log(blobs: Blobs, run: UUID, attempt: int, search: LogSearch) -> LogHit:
    """The next hit in what an attempt has written so far."""
    reader = await LogReader.open(blobs, run, attempt)
    hit, stopped = await reader.find(search)
    line = None if hit is None else await reader.line_begin(hit)
    finished = stopped <= 0 if search.back else stopped >= reader.size
    return LogHit(attempt, line, stopped, reader.size, finished)
