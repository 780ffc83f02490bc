"""Scripts, outputs and logs by key, in a local folder or an object store.

Keys are paths of `/`-separated safe names. Anything may be written again with the same content.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

from tickwise.domain.model import id_instant

LOGS = "logs/"
LOG_LAST = ".last"
"""What the key of a log's last chunk ends with: whoever follows the log stops there."""


def log_prefix(run_id: UUID, attempt: int) -> str:
    """The folder of one attempt's log: its chunks in key order are the log. An attempt without output has none.

    Logs lie by the day of their run, so that retention drops whole days.
    """
    return f"{LOGS}{log_day(id_instant(run_id))}/{run_id}/{attempt}/"


def log_day(instant: float) -> str:
    """The folder of a day's logs: days since the epoch, so that the names sort for any instant that an id can hold."""
    return f"{int(instant // 86_400):07d}"


def log_chunk_key(run_id: UUID, attempt: int, number: int, *, last: bool) -> str:
    """The key of chunk `number`, from 0."""
    return f"{log_prefix(run_id, attempt)}{number:06d}{LOG_LAST if last else ''}"


def script_key(digest: str) -> str:
    """The key of an uploaded script, by the SHA-256 of its content in hex."""
    return f"scripts/{digest}"


class BlobInfo(NamedTuple):
    """One stored blob."""

    key: str
    size_bytes: int
    written_at: float = 0.0
    """When, on the blob store's clock."""


class Blobs(Protocol):
    """A store of immutable byte strings. Raises `Unavailable` when it cannot be reached."""

    async def put(self, key: str, content: bytes) -> None:
        """Store `content` whole; a reader never sees a part of it. An existing blob is replaced."""
        ...

    async def get(self, key: str) -> bytes:
        """The content. Raises `NotFound`."""
        ...

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        """Up to `length` bytes from offset `start`; fewer at the end, none beyond it. Raises `NotFound`."""
        ...

    async def list(self, prefix: str) -> Sequence[BlobInfo]:
        """Every blob whose key begins with the folder `prefix` (ending in `/`), in key order."""
        ...

    async def folders(self, prefix: str) -> Sequence[str]:
        """The names of the folders directly in the folder `prefix` (ending in `/`), in order."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove; what is not there is no error."""
        ...
