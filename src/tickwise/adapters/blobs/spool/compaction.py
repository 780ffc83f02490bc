"""One object for a log that has ended, in place of one for each part.

    000000  000001  …  00000n.last   ──read one after the other──►  whole.last   ──►  the parts are deleted

A log that is written for an hour has up to 7,200 parts: a listing of each 1,000, and a request for each. Readers take
`whole.last` where it is there, so a crash at any step leaves a log that reads the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final, Protocol

from tickwise.domain.errors import Unavailable
from tickwise.ports.blobs import LOG_LAST, LOG_WHOLE, BlobInfo, Blobs

MAX_WHOLE_BYTES: Final = 5 << 30
"""A longer log stays in its parts."""


class StreamingBlobs(Blobs, Protocol):
    """A store that takes a blob as it comes."""

    async def put_parts(self, key: str, parts: AsyncIterator[bytes]) -> None:
        """Store what comes as one blob, complete or not at all."""
        ...


def closes_log(key: str) -> bool:
    """Check whether this is the last one of several parts of a log."""
    name = key.rpartition("/")[2]
    return name.endswith(LOG_LAST) and name.removesuffix(LOG_LAST).isdigit() and int(name.removesuffix(LOG_LAST)) > 0


async def compact(blobs: StreamingBlobs, folder: str) -> bool:
    """Make one blob of the parts of a log; `folder` is `log_prefix`. False: it is left as it is, for a part is missing,
    or it is too long. Raises `Unavailable`: then it reads as before."""
    parts = await blobs.list(folder)
    if not is_whole(parts, folder) or sum(part.size_bytes for part in parts) > MAX_WHOLE_BYTES:
        return False
    key = f"{folder}{LOG_WHOLE}"
    await blobs.put_parts(key, _contents(blobs, parts))
    stored = [blob for blob in await blobs.list(folder) if blob.key == key]
    expected = sum(part.size_bytes for part in parts)
    if not stored or stored[0].size_bytes != expected:
        found = stored[0].size_bytes if stored else 0
        raise Unavailable(f"the store keeps {found} of {expected} bytes of {key}; the parts stay")
    await blobs.delete([part.key for part in parts])
    return True


def is_whole(parts: Sequence[BlobInfo], folder: str) -> bool:
    """Check whether every part from the first to the last is there, and nothing else."""
    wanted = [f"{folder}{number:06d}" for number in range(len(parts))]
    if len(parts) < 2:
        return False
    wanted[-1] += LOG_LAST
    return wanted == [part.key for part in parts]


async def _contents(blobs: Blobs, parts: Sequence[BlobInfo]) -> AsyncIterator[bytes]:
    for part in parts:
        content = await blobs.get(part.key)
        if len(content) != part.size_bytes:
            raise Unavailable(f"the store gave {len(content)} of {part.size_bytes} bytes of {part.key}")
        if content:
            yield content
