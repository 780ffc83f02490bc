"""Copies blobs from one store to another: a folder into a bucket, or back.

Invariant: twice is once, and nothing is deleted. A blob is copied if it is missing at the goal or has another size
there: content under a name does not change. Only the progress of attempts does; it is small, and copied each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from tickwise.adapters.blobs import open_blobs
from tickwise.config import Settings
from tickwise.documents.artefacts import ARTEFACTS
from tickwise.domain.errors import Misconfigured, NotFound
from tickwise.ports.blobs import LOGS, SCRIPTS, Blobs
from tickwise.wiring.storage.opening import access_of

AT_ONCE: Final = 16
REPLACED: Final = (".progress", ".own")
"""The ends of the keys beside a log whose content may be another one of the same size."""


class CopyReport(NamedTuple):
    """The outcome of a copy."""

    copied: int
    copied_bytes: int
    present: int
    """Blobs that the goal had already."""
    gone: int
    """Blobs that retention took in the meantime."""


def copy_blobs(settings: Settings, source: str, goal: str, tell: Callable[[int, int], None]) -> CopyReport:
    """Copy all blobs; `tell` gets how many are done, and how many there are. The credentials of the settings are for
    the one of the two that is a bucket. Raises `Misconfigured`; `Unavailable` if a store goes away: call it again."""
    if source.rstrip("/") == goal.rstrip("/"):
        raise Misconfigured("both addresses are the same; name where the blobs are, then where they are to be")
    access = access_of(settings)
    return asyncio.run(_copy(open_blobs(source, access), open_blobs(goal, access), tell))


async def _copy(source: Blobs, goal: Blobs, tell: Callable[[int, int], None]) -> CopyReport:
    copied, copied_bytes, present, gone = 0, 0, 0, 0
    for folder in (SCRIPTS, ARTEFACTS, LOGS):  # scripts first: without them nothing runs
        there = {info.key: info.size_bytes for info in await goal.list(folder)}
        found = await source.list(folder)
        wanted = [info for info in found if there.get(info.key) != info.size_bytes or info.key.endswith(REPLACED)]
        present += len(found) - len(wanted)
        for begin in range(0, len(wanted), AT_ONCE):
            batch = wanted[begin : begin + AT_ONCE]
            sizes = await asyncio.gather(*(_copy_one(source, goal, info.key) for info in batch))
            done = [size for size in sizes if size is not None]
            copied, copied_bytes, gone = copied + len(done), copied_bytes + sum(done), gone + len(sizes) - len(done)
            tell(begin + len(batch), len(wanted))
    return CopyReport(copied, copied_bytes, present, gone)


async def _copy_one(source: Blobs, goal: Blobs, key: str) -> int | None:
    """The bytes of it; None: it is gone."""
    try:
        content = await source.get(key)
    except NotFound:
        return None
    await goal.put(key, content)
    return len(content)
