"""`Blobs` in an S3 bucket, over obstore.

    small blob   one PUT
    large blob   a multipart upload: parts of `PART_BYTES`, a few at once; complete or not there
    a range      one GET with `Range`, no look at the size before it

A request that may be repeated is tried again for `RETRY_SECONDS`. After that the caller decides: `spool/` keeps
output.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from typing import Any, Final

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from tickwise.adapters.blobs.s3.address import BucketAddress
from tickwise.adapters.blobs.s3.credentials import file_credentials
from tickwise.adapters.blobs.s3.failures import code_of, sentence_of
from tickwise.adapters.blobs.stored import StoredBlobs
from tickwise.domain.errors import Misconfigured, TickwiseError, Unavailable
from tickwise.ports.blobs import check_key

CONNECT_SECONDS: Final = 3.0
REQUEST_SECONDS: Final = 30.0
RETRY_SECONDS: Final = 6.0
RETRIES: Final = 4
MULTIPART_BYTES: Final = 16 << 20
"""A larger blob goes in parts, so that a cut link costs a part and not the whole."""
PART_BYTES: Final = 8 << 20
"""S3 allows no part but the last one below 5 MiB."""
PARTS_AT_ONCE: Final = 4
DELETE_BATCH: Final = 1_000
"""Most keys of one DeleteObjects."""


class S3Blobs(StoredBlobs):
    """The blobs below one prefix of one bucket."""

    def __init__(
        self,
        address: BucketAddress,
        access_key_id: str | None = None,
        secret_access_key: str | None = None,
        *,
        now: Callable[[], float] | None = None,
    ) -> None:
        """Asks nothing of the bucket. Raises `Misconfigured`."""
        self.address = address
        self._make: Callable[[str | None], S3Store] = lambda endpoint: _store(
            address, endpoint, access_key_id, secret_access_key, now
        )
        store = self._make(address.endpoint)
        super().__init__(store)
        self._signing = store if address.public_endpoint is None else self._make(address.public_endpoint)

    async def put(self, key: str, content: bytes) -> None:
        large = len(content) > MULTIPART_BYTES
        await self._try(
            key,
            lambda: obstore.put_async(
                self._store,
                check_key(key),
                content,
                use_multipart=large,
                chunk_size=PART_BYTES,
                max_concurrency=PARTS_AT_ONCE,
            ),
        )

    async def put_parts(self, key: str, parts: AsyncIterator[bytes]) -> None:
        """Store what `parts` gives, one after the other, as one blob; no more than some parts of `PART_BYTES` are held
        in memory. Nothing is stored if `parts` raises."""
        await self._try(
            key,
            lambda: obstore.put_async(
                self._store, check_key(key), parts, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE
            ),
        )

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        if length <= 0:
            return await super().get_range(key, start, length)
        try:
            answer = await obstore.get_async(self._store, check_key(key), options={"range": (start, start + length)})
            return bytes(await answer.bytes_async())
        except (BaseError, OSError, ValueError):
            # Beyond the end S3 answers 416; the look at the size tells that from a failure.
            return await super().get_range(key, start, length)

    async def delete(self, keys: Sequence[str]) -> None:
        if self.address.deletes_singly:
            await super().delete(keys)
            return
        wanted = [check_key(key) for key in dict.fromkeys(keys)]
        for begin in range(0, len(wanted), DELETE_BATCH):
            batch = wanted[begin : begin + DELETE_BATCH]
            try:
                await obstore.delete_async(self._store, batch)
            except FileNotFoundError as error:
                if code_of(str(error)) not in (None, "NoSuchKey"):
                    raise self._failed("reached", error) from error
            except (BaseError, OSError) as error:
                raise self._failed("reached", error) from error

    async def signed_url(self, key: str, seconds: float) -> str:
        """An address at which anybody reads this blob for `seconds`, without asking whether it is there. Signed on this
        machine."""
        return str(await obstore.sign_async(self._signing, "GET", check_key(key), timedelta(seconds=seconds)))

    def _missing(self, key: str, error: Exception, /) -> TickwiseError:
        if code_of(str(error)) not in (None, "NoSuchKey"):  # of the bucket, or of who asks
            return self._failed("reached", error)
        return super()._missing(key, error)

    def _failed(self, _what: str, error: Exception, /) -> Unavailable:
        return Unavailable(sentence_of(error, self.address.where))


def _store(
    address: BucketAddress,
    endpoint: str | None,
    access_key_id: str | None,
    secret_access_key: str | None,
    now: Callable[[], float] | None,
) -> S3Store:
    if (access_key_id is None) != (secret_access_key is None):
        raise Misconfigured("blobs_access_key_id and blobs_secret_access_key go together: set both or none")
    config: dict[str, Any] = {"virtual_hosted_style_request": address.is_virtual_hosted}
    provider = None
    if access_key_id is not None:
        config |= {"access_key_id": access_key_id, "secret_access_key": secret_access_key}
    else:
        provider = file_credentials(os.environ, now)
    if endpoint is not None:
        config["endpoint"] = endpoint
    if address.region is not None:
        config["region"] = address.region
    if address.encryption is not None:
        config["server_side_encryption"] = address.encryption
    if address.kms_key is not None:
        config["sse_kms_key_id"] = address.kms_key
    client: dict[str, Any] = {
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        "timeout": timedelta(seconds=REQUEST_SECONDS),
        "allow_http": (endpoint or os.environ.get("AWS_ENDPOINT_URL_S3", "")).startswith("http://"),
    }
    try:
        if address.ca_file is not None:
            client["root_certificate"] = address.ca_file.read_bytes()
        return S3Store(
            address.bucket,
            prefix=address.prefix or None,
            client_options=client,  # type: ignore[arg-type]  # made name by name above
            retry_config={"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRY_SECONDS)},
            credential_provider=provider,  # type: ignore[arg-type]  # as obstore reads it
            **config,
        )
    except (BaseError, OSError, ValueError) as error:
        raise Misconfigured(f"{address.where} of blobs_url cannot be used: {error}") from error
