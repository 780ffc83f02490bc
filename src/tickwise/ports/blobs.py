"""Scripts, outputs and logs by key, in a local folder or an object store.

Keys are paths of `/`-separated safe names (`check_key`). Anything may be written again with the same content.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from tickwise.domain.errors import Bug, NotFound, Unavailable
from tickwise.domain.model import id_instant

_KEY: Final = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9._=@+-]{0,199}/)*[A-Za-z0-9_][A-Za-z0-9._=@+-]{0,199}")


def check_key(key: str) -> str:
    """The key itself. Each name in its path has 1 to 200 of the characters A-Z a-z 0-9 . _ = @ + - and begins with a
    letter, a digit or `_`. Raises `Bug` for any other key: keys are ours, so it is a mistake or an attack."""
    if not _KEY.fullmatch(key):
        raise Bug(f"{key[:200]!r} is no key of a blob")
    return key


def is_key(text: str) -> bool:
    """Check whether `check_key` accepts it."""
    return _KEY.fullmatch(text) is not None


def check_folder(prefix: str) -> str:
    """The path of the folder without the slash that `prefix` ends in. Raises `Bug` for any other prefix."""
    if not prefix.endswith("/"):
        raise Bug(f"a listing is of a folder, {prefix!r} does not end in a slash")
    return check_key(prefix[:-1])


LOGS = "logs/"
LOG_LAST = ".last"
"""The end of the key of a log's last chunk: a reader that follows the log stops there."""
LOG_WHOLE = f"whole{LOG_LAST}"
"""The name of a whole log in one blob, made of its chunks when it has ended. Where it is there, it counts alone."""


def log_prefix(run_id: UUID, attempt: int) -> str:
    """The folder of one attempt's log: its chunks in key order are the log. An attempt without output has none.

    Logs lie by the day of their run, so that retention drops whole days.
    """
    return f"{logs_folder(run_id)}{attempt}/"


def logs_folder(run_id: UUID) -> str:
    """The folder of the logs of all attempts of a run."""
    return f"{LOGS}{log_day(id_instant(run_id))}/{run_id}/"


def log_day(instant: float) -> str:
    """The folder of a day's logs: days since the epoch, so that the names sort for any instant that an id can hold."""
    return f"{int(instant // 86_400):07d}"


def log_chunk_key(run_id: UUID, attempt: int, number: int, *, last: bool) -> str:
    """The key of chunk `number`, from 0."""
    return f"{log_prefix(run_id, attempt)}{number:06d}{LOG_LAST if last else ''}"


SCRIPTS = "scripts/"


def script_key(namespace: str, digest: str) -> str:
    """The key of an uploaded script, by the SHA-256 of its content in hex. Each namespace has a folder of its own, by a
    hash of its name, which may hold any character."""
    return f"{scripts_folder(namespace)}{digest}"


def scripts_folder(namespace: str) -> str:
    """The folder of the scripts of a namespace."""
    return f"{SCRIPTS}{sha256(namespace.encode()).hexdigest()}/"


def shared_script_key(digest: str) -> str:
    """The place of a script in releases before namespaces had folders. `roles/scheduler/script_mover.py` moves it."""
    return f"{SCRIPTS}{digest}"


async def read_script(blobs: Blobs, namespace: str, digest: str) -> bytes:
    """The content of a script that the namespace has stored, checked against its digest. Raises `NotFound`, also for
    a blob that holds something else: a script that was changed where it lies must not run."""
    try:
        content = await blobs.get(script_key(namespace, digest))
    except NotFound:
        try:
            content = await blobs.get(shared_script_key(digest))
        except NotFound:
            raise NotFound(f"the script sha256:{digest} is not stored here any more; upload it again") from None
    if sha256(content).hexdigest() != digest:
        raise NotFound(
            f"the stored script sha256:{digest} has another digest: it was changed or damaged, and is not run. "
            "Check who can write to the blob storage, then upload the script again"
        )
    return content


class SpoolFull(Unavailable):
    """The store is away and no more may wait for it: this content is lost, and its writer must not wait."""

    code = "spool_full"


class BlobInfo(NamedTuple):
    """One stored blob."""

    key: str
    size_bytes: int
    written_at: float = 0.0
    """The time of its last write, on the blob store's clock."""


SignedDownloads = Callable[[str], Awaitable[str]]
"""Gives the address at which anybody reads the blob of a key for a time, past the API."""


class Blobs(Protocol):
    """A store of immutable byte strings. Raises `Unavailable` when it cannot be reached, and `Bug` for a key that
    `check_key` refuses. All clients of a store see a write as soon as it has returned.

    The suite that every adapter passes: `tickwise.testing.contracts.blobs`.
    """

    async def put(self, key: str, content: bytes) -> None:
        """Store `content` whole; a reader never sees a part of it. An existing blob is replaced."""
        ...

    async def get(self, key: str) -> bytes:
        """The content. Raises `NotFound`, also for the path of a folder."""
        ...

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        """Up to `length` bytes from offset `start`; fewer at the end, none beyond it. Raises `NotFound`."""
        ...

    async def list(self, prefix: str) -> Sequence[BlobInfo]:
        """Every blob below the folder `prefix`, also in folders of it, in key order. A missing folder has none.

        Raises `Bug` for a prefix that does not end in `/`."""
        ...

    async def folders(self, prefix: str) -> Sequence[str]:
        """The names of the folders directly in the folder `prefix`, in order. A folder exists while it holds a blob.

        Raises `Bug` for a prefix that does not end in `/`."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove these blobs. A missing blob is no error."""
        ...
