"""Files of a run for download, whole or one range of them, read a part at a time.

    request ──► permission ──► size, tag ──► Range, If-Range ──► first part ──► head of the answer ──► the rest

Ranges are those of RFC 9110 (sections 13.1.5 and 14), so a download that was cut goes on. One range is served;
several, other units and a header that cannot be read are answered with the whole file, as the RFC allows.

Invariant: a client that joins the parts it got under one tag has the file. A download holds one part of `PART_BYTES`,
however large the file is, and reads no byte of it that was not asked for.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

from tickwise.domain.errors import RangeNotSatisfiable, Unavailable

PART_BYTES: Final = 1 << 20
TAG_BYTES: Final = 15
_ONE: Final = re.compile(r"bytes=[ \t]*(\d{0,18})-(\d{0,18})[ \t]*", re.IGNORECASE | re.ASCII)


class ByteRange(NamedTuple):
    """Bytes of a file, from `start` up to and without `end`."""

    start: int
    end: int


class DownloadRequest(NamedTuple):
    """The headers of a request that decide what of a file is sent."""

    range: str | None = None
    if_range: str | None = None
    is_head: bool = False
    """Nothing is read; `Range` is defined for GET alone (RFC 9110, section 14.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """A file as it is now."""

    size: int
    identity: str
    """Equal for equal content, and for no other: the tag is made of it."""
    read: Callable[[int, int], Awaitable[bytes]]
    """Gives up to so many bytes from an offset on."""

    @property
    def tag(self) -> str:
        """The strong ETag."""
        return f'"{urlsafe_b64encode(blake2b(self.identity.encode(), digest_size=TAG_BYTES).digest()).decode()}"'

    async def parts(self, wanted: ByteRange) -> AsyncGenerator[bytes]:
        """The bytes of a range, in parts. Raises `Unavailable` where the store has fewer than the file had: the client
        must not take what it has for the whole."""
        place = wanted.start
        while place < wanted.end:
            content = await self.read(place, min(PART_BYTES, wanted.end - place))
            if not content:
                raise Unavailable(f"the store of outputs has {place} bytes of a file that had {self.size}")
            yield content
            place += len(content)


class DownloadAnswer(NamedTuple):
    """The status, the headers and the content to send."""

    status: int
    headers: list[tuple[str, str]]
    content: AsyncGenerator[bytes] | None
    """None: nothing is sent."""


def byte_range_of(text: str, size: int) -> ByteRange | None:
    """The range that the header asks for, of a file of `size` bytes; None: the header is to be ignored. Raises
    `RangeNotSatisfiable` if the file has none of it."""
    found = _ONE.fullmatch(text)
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        start, end = max(0, size - int(found[2])), size
    else:
        start, last = int(found[1]), int(found[2]) if found[2] else size
        if found[2] and last < start:
            return None
        end = min(size, last + 1)
    if start >= end:
        raise RangeNotSatisfiable(size)
    return ByteRange(start, end)


async def answer_download(file: Download, asked: DownloadRequest) -> DownloadAnswer:
    """The answer to a request for a file. Its first part is read before it: a store that is away, or that has the file
    no more, is told by a status. Raises `RangeNotSatisfiable`, `NotFound`, `Unavailable`."""
    part = None
    # A date is no tag: the file has no time, so it never matches. Neither does a weak tag.
    is_of_file = asked.if_range is None or asked.if_range.strip() == file.tag
    if asked.range is not None and is_of_file and not asked.is_head:
        part = byte_range_of(asked.range, file.size)
    wanted = part or ByteRange(0, file.size)
    headers = [("etag", file.tag), ("accept-ranges", "bytes"), ("content-length", str(wanted.end - wanted.start))]
    if part is not None:
        headers.append(("content-range", f"bytes {part.start}-{part.end - 1}/{file.size}"))
    status = 200 if part is None else 206
    if asked.is_head:
        return DownloadAnswer(status, headers, None)
    rest = file.parts(wanted)
    first = await anext(rest, b"")
    return DownloadAnswer(status, headers, _joined(first, rest))


async def _joined(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    if first:
        yield first
    del first  # it is sent by now: the next part takes its room
    async for part in rest:
        yield part
