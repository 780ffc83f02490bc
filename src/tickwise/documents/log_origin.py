"""The parts of an attempt's log that Tickwise itself wrote, as ranges of bytes: a small blob beside the log.

    logs/<day>/<run>/<attempt>.own        [[begin, end], …], in order, none beside another

Only an executor writes it, from where it wrote; no text of a log tells whose it is, since a task can print any text. It
lies with the logs, so that retention takes it with them. A log without it is the task's alone.

Invariant: of the first `RANGES_MOST` ranges each byte is Tickwise's. What is beyond them counts as the task's: a reader
may take a line of ours for the task's, never the other way round.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final
from uuid import UUID

from tickwise.domain.errors import NotFound
from tickwise.ports.blobs import Blobs, logs_folder

RANGES_MOST: Final = 256
"""The ranges that are kept of one attempt, about 4 kB."""

Range = tuple[int, int]
"""The offset of the first byte, and of the one after the last."""
Ranges = tuple[Range, ...]


def own_key(run_id: UUID, attempt: int) -> str:
    """The key of the ranges of an attempt."""
    return f"{logs_folder(run_id)}{attempt}.own"


def ranges_content(ranges: Ranges) -> bytes:
    """The ranges as they are stored."""
    return json.dumps(ranges, separators=(",", ":")).encode()


def joined(ranges: Iterable[Range]) -> Ranges:
    """The first `RANGES_MOST` of these, which are in order; those that touch as one."""
    found: list[Range] = []
    for begin, end in ranges:
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        elif begin < end:
            found.append((begin, end))
    return tuple(found[:RANGES_MOST])


def within(ranges: Ranges, begin: int, end: int) -> Ranges:
    """The parts of the ranges between two offsets."""
    cut = ((max(first, begin), min(last, end)) for first, last in ranges)
    return tuple((first, last) for first, last in cut if first < last)


def holds(ranges: Ranges, begin: int, end: int) -> bool:
    """Check whether all bytes between two offsets are in one of the ranges."""
    place = bisect_right(ranges, begin, key=lambda each: each[0]) - 1
    return place >= 0 and begin < end <= ranges[place][1]


async def read_own(blobs: Blobs, run_id: UUID, attempt: int) -> Ranges:
    """The ranges of an attempt; none if there are none, or if they cannot be read as such. Raises `Unavailable`."""
    try:
        content = await blobs.get(own_key(run_id, attempt))
    except NotFound:
        return ()
    try:
        return _checked(json.loads(content))
    except (ValueError, TypeError):
        return ()


def _checked(said: Any) -> Ranges:
    """Raises `ValueError` or `TypeError` for what is no list of ranges in order."""
    ranges = tuple((int(begin), int(end)) for begin, end in said)
    if any(not 0 <= begin < end for begin, end in ranges) or any(one[1] > other[0] for one, other in pairwise(ranges)):
        raise ValueError("no ranges in order")
    return ranges


def lines_of_ours(texts: Sequence[str]) -> str:
    """Lines of ours, each with its end: no text makes two lines of one, or moves the cursor of a terminal."""
    return "".join(f"{''.join(each if each.isprintable() else '?' for each in text)}\n" for text in texts)
