"""`Blobs` over any store that obstore knows, and the view of them that an executor has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import obstore
from obstore.exceptions import BaseError, NotFoundError, NotSupportedError
from obstore.store import ObjectStore

from tickwise.documents.artefacts import ARTEFACTS
from tickwise.domain.errors import Bug, NotFound, TickwiseError, Unavailable
from tickwise.ports.blobs import LOGS, BlobInfo, Blobs, check_folder, check_key

_Result = TypeVar("_Result")


class StoredBlobs:
    """`Blobs` over any store that obstore knows."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def put(self, key: str, content: bytes) -> None:
        # A local put writes beside the place and renames: no reader sees a part.
        await self._try(key, lambda: obstore.put_async(self._store, check_key(key), content))

    async def get(self, key: str) -> bytes:
        # The reading is part of it: a disk or a link may fail in the middle of a blob.
        return await self._try(key, lambda: self._read(check_key(key)))

    async def _read(self, key: str) -> bytes:
        answer = await obstore.get_async(self._store, key)
        return bytes(await answer.bytes_async())

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        size = (await self._try(key, lambda: obstore.head_async(self._store, check_key(key))))["size"]
        end = min(start + length, size)
        if start >= end:
            return b""
        part = await self._try(key, lambda: obstore.get_range_async(self._store, check_key(key), start=start, end=end))
        return bytes(part)

    async def list(self, prefix: str) -> Sequence[BlobInfo]:
        folder = check_folder(prefix)
        found: list[BlobInfo] = []
        try:
            async for page in obstore.list(self._store, folder):
                found += [BlobInfo(entry["path"], entry["size"], entry["last_modified"].timestamp()) for entry in page]
        except (BaseError, OSError) as error:
            raise self._failed("listed", error) from error
        return sorted(found)

    async def folders(self, prefix: str) -> Sequence[str]:
        folder = check_folder(prefix)
        try:
            found = await obstore.list_with_delimiter_async(self._store, folder)
        except (BaseError, OSError) as error:
            raise self._failed("listed", error) from error
        return sorted(path.rsplit("/", 1)[-1] for path in found["common_prefixes"])

    async def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            try:
                await self._try(key, partial(obstore.delete_async, self._store, check_key(key)))
            except NotFound:
                continue

    async def _try(self, key: str, call: Callable[[], Awaitable[_Result]]) -> _Result:
        try:
            return await call()
        except (NotFoundError, FileNotFoundError) as error:
            raise self._missing(key, error) from None
        except (NotSupportedError, ValueError) as error:
            raise Bug(f"blob storage does not take this: {error}") from error
        except (BaseError, OSError) as error:
            raise self._failed("reached", error) from error

    def _missing(self, key: str, _error: Exception, /) -> TickwiseError:
        """The error for a blob that is not there."""
        return NotFound(f"there is no blob {key}")

    def _failed(self, what: str, error: Exception, /) -> Unavailable:
        """The error for a store that could not be `what`: reached, or listed."""
        return Unavailable(f"blob storage could not be {what}: {error}")


class OutputBlobs:
    """The blobs of an executor: it reads all of them and writes outputs and artefacts alone, so only the API changes
    scripts.

    This holds inside this process. The operator sets what the executor's user may do in the folders themselves."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    async def put(self, key: str, content: bytes) -> None:
        self._check(key)
        await self._blobs.put(key, content)

    async def get(self, key: str) -> bytes:
        return await self._blobs.get(key)

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        return await self._blobs.get_range(key, start, length)

    async def list(self, prefix: str) -> Sequence[BlobInfo]:
        return await self._blobs.list(prefix)

    async def folders(self, prefix: str) -> Sequence[str]:
        return await self._blobs.folders(prefix)

    async def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._check(key)
        await self._blobs.delete(keys)

    def _check(self, key: str) -> None:
        if not key.startswith((LOGS, ARTEFACTS)):
            raise Bug(f"an executor writes below {LOGS} and {ARTEFACTS} alone, not {key[:200]!r}")
