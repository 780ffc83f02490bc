"""Reading a log that may still be growing: chunks in key order are one text, addressed by byte offsets.

logs/<run>/<attempt>/000000  000001  000002.last      offset 0 ───────────────────────► complete
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from tickwise.domain.errors import NotFound
from tickwise.ports.blobs import LOG_LAST, Blobs, log_prefix


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


async def read_log(blobs: Blobs, run: UUID, attempt: int, *, offset: int, limit: int, ended: bool) -> LogChunk:
    """Up to `limit` bytes from `offset`. `ended` says that the attempt is over, so what is there is all there is."""
    if attempt == 0:
        return LogChunk(0, offset, b"", ended)
    chunks = sorted(await blobs.list(log_prefix(run, attempt)))
    last = bool(chunks) and chunks[-1].key.endswith(LOG_LAST)
    size = sum(chunk.size_bytes for chunk in chunks)
    content = bytearray()
    begin = 0
    for chunk in chunks:
        end = begin + chunk.size_bytes
        start = offset + len(content)
        if end > start and len(content) < limit:
            wanted = min(end - start, limit - len(content))
            try:
                content += await blobs.get_range(chunk.key, start - begin, wanted)
            except NotFound:
                # Retention took it between the listing and now: the rest is gone with it.
                break
        begin = end
    complete = (last or ended) and offset + len(content) >= size
    return LogChunk(attempt, offset, bytes(content), complete, size)
