"""From the address of blobs to the blobs: `file:///folder`, `memory://`, `s3://bucket/prefix?…`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from obstore.exceptions import BaseError
from obstore.store import LocalStore, MemoryStore

from tickwise.adapters.blobs.stored import StoredBlobs
from tickwise.domain.errors import Misconfigured


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobAccess:
    """The credentials for a bucket. A folder needs none."""

    access_key_id: str | None = None
    """With `secret_access_key`. None: the chain of `s3/credentials.py`."""
    secret_access_key: str | None = None
    now: Callable[[], float] | None = None
    """The wall clock: credentials of a file are read again after a time. None: they are read once."""


def open_blobs(url: str, access: BlobAccess | None = None) -> StoredBlobs:
    """The blobs at `file:///folder`, `memory://` or `s3://bucket/prefix?…` (`s3/address.py` has the options). Raises
    `Misconfigured`; makes the folder if it is not there, never a bucket."""
    parts = urlsplit(url)
    if parts.scheme == "memory":
        return StoredBlobs(MemoryStore())
    if parts.scheme == "s3":
        from tickwise.adapters.blobs.s3.address import read_address
        from tickwise.adapters.blobs.s3.bucket import S3Blobs

        found = access or BlobAccess()
        return S3Blobs(read_address(url), found.access_key_id, found.secret_access_key, now=found.now)
    if parts.scheme != "file":
        raise Misconfigured(f"blobs_url must begin with `file:///`, `s3://` or `memory://`, not with `{parts.scheme}:`")
    folder = Path(unquote(parts.path))
    if parts.netloc not in ("", "localhost") or not folder.is_absolute():
        raise Misconfigured("blobs_url must name a folder by its whole path, with three slashes: `file:///folder`")
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return StoredBlobs(LocalStore(folder, automatic_cleanup=True))
    except (OSError, BaseError) as error:
        raise Misconfigured(f"the folder {folder} of blobs_url cannot be used: {error}") from error


def folder_of(url: str) -> Path | None:
    """The folder of blobs at this address; None: they are in none of this machine."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None
