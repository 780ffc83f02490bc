"""Parts of a file by `Range` and `If-Range` (RFC 9110, sections 13.1.5 and 14), for downloads that were cut to go on.

Invariant: a client that joins the parts it got under one ETag has the file. One range is served; several, other units
and what cannot be read are answered with the whole file, as the RFC allows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from tickwise.api.conditions import tag_of
from tickwise.api.endpoint import Reply
from tickwise.api.problems import RangeNotSatisfiable

_ONE: Final = re.compile(rb"bytes=[ \t]*(\d{0,18})-(\d{0,18})[ \t]*", re.IGNORECASE)


class ByteRange(NamedTuple):
    """Bytes of a file, from `start` up to and without `end`."""

    start: int
    end: int


def byte_range_of(text: bytes, size: int) -> ByteRange | None:
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


def ranged(headers: Mapping[bytes, bytes], whole: Reply) -> Reply:
    """The whole file, or the part of it that the request asks for, with its ETag. Raises `RangeNotSatisfiable`."""
    tag = tag_of(whole.body)
    told = [*whole.headers, (b"etag", tag), (b"accept-ranges", b"bytes")]
    wanted = headers.get(b"range")
    # A date is no tag: the file has no time, so it never matches.
    if wanted is None or headers.get(b"if-range", tag).strip() != tag:
        return whole._replace(headers=told)
    part = byte_range_of(wanted, len(whole.body))
    if part is None:
        return whole._replace(headers=told)
    place = b"bytes %d-%d/%d" % (part.start, part.end - 1, len(whole.body))
    return whole._replace(
        status=206, body=whole.body[part.start : part.end], headers=[*told, (b"content-range", place)]
    )
