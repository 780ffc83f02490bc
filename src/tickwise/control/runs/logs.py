"""Reading a log that may still be growing: chunks in key order are one text, addressed by byte offsets.

logs/<run>/<attempt>/000000  000001  000002.last      offset 0 ───────────────────────► complete

A reader holds one part at a time (`PART_BYTES`), so a search over a log of any length has the memory of one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.domain.errors import NotFound
from tickwise.ports.blobs import LOG_LAST, BlobInfo, Blobs, log_prefix

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

    @property
    def next_offset(self) -> int:
        """The offset at which to go on reading."""
        return self.offset + len(self.content)


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


class LogReader:
    """The chunks of one attempt, listed once."""

    def __init__(self, blobs: Blobs, chunks: Sequence[BlobInfo]) -> None:
        self._blobs = blobs
        self._chunks = chunks
        self._begins = [0, *accumulate(chunk.size_bytes for chunk in chunks)]

    @classmethod
    async def open(cls, blobs: Blobs, run: UUID, attempt: int) -> LogReader:
        """The log as it is now."""
        return cls(blobs, sorted(await blobs.list(log_prefix(run, attempt))))

    @property
    def size(self) -> int:
        """Its bytes."""
        return self._begins[-1]

    @property
    def is_closed(self) -> bool:
        """Check whether its last chunk is there."""
        return bool(self._chunks) and self._chunks[-1].key.endswith(LOG_LAST)

    async def read(self, offset: int, limit: int) -> bytes:
        """Up to `limit` bytes from `offset`; fewer where the log ends, or where retention took the rest."""
        content = bytearray()
        place = max(0, bisect_right(self._begins, offset) - 1)
        while place < len(self._chunks) and len(content) < limit:
            start = offset + len(content)
            wanted = min(self._begins[place + 1] - start, limit - len(content))
            try:
                content += await self._blobs.get_range(self._chunks[place].key, start - self._begins[place], wanted)
            except NotFound:
                # Retention took it between the listing and now: the rest is gone with it.
                break
            place += 1
        return bytes(content)

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
    complete = (reader.is_closed or ended) and offset + len(content) >= reader.size
    return LogChunk(attempt, offset, content, complete, reader.size)


async def find_in_log(blobs: Blobs, run: UUID, attempt: int, search: LogSearch) -> LogHit:
    """The next hit in what an attempt has written so far."""
    reader = await LogReader.open(blobs, run, attempt)
    hit, stopped = await reader.find(search)
    line = None if hit is None else await reader.line_begin(hit)
    finished = stopped <= 0 if search.back else stopped >= reader.size
    return LogHit(attempt, line, stopped, reader.size, finished)
