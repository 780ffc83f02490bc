"""Opens the blobs that the settings name, looks at them once, and gives an executor its spool."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final, cast

import structlog

from tickwise.adapters.blobs import BlobAccess, StoredBlobs, open_blobs
from tickwise.adapters.blobs.s3.bucket import S3Blobs
from tickwise.adapters.blobs.spool.compaction import StreamingBlobs
from tickwise.adapters.blobs.spool.delivery import SpooledBlobs, spooled
from tickwise.adapters.clock import SystemClock
from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured, TickwiseError
from tickwise.ports.blobs import SCRIPTS, Blobs, SignedDownloads

LOOK_SECONDS: Final = 10.0
DAY_SECONDS: Final = 86_400.0

logger = structlog.get_logger("tickwise.wiring")


def blobs_url(settings: Settings) -> str:
    """The address of the blobs: the one that is set, or that of the folder in `data_dir`, which is made. Raises
    `Misconfigured`."""
    if settings.blobs_url is not None:
        return settings.blobs_url
    folder = settings.data_dir / "blobs"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as failure:
        raise Misconfigured(
            f"the folder {folder} for scripts and outputs cannot be made: {failure.strerror}; "
            "set TICKWISE_BLOBS_URL to one that can be written"
        ) from failure
    return folder.resolve().as_uri()


def access_of(settings: Settings) -> BlobAccess:
    """The credentials that the settings name."""
    return BlobAccess(
        access_key_id=settings.blobs_access_key_id,
        secret_access_key=settings.blobs_secret_access_key,
        now=SystemClock().now,
    )


async def open_storage(settings: Settings) -> StoredBlobs:
    """The blobs. A bucket is asked once: what is wrong with it is in the log, with what to do, and the process goes on,
    for tasks run without it. Raises `Misconfigured` for settings that cannot be."""
    blobs = open_blobs(blobs_url(settings), access_of(settings))
    if isinstance(blobs, S3Blobs):
        wrong = ""
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await blobs.folders(SCRIPTS)
        except TickwiseError as failure:
            wrong = failure.detail
        except TimeoutError:
            wrong = f"{blobs.address.where} did not answer in {LOOK_SECONDS:.0f} s"
        if wrong:
            logger.error("blob_storage_unusable", detail=wrong)
    return blobs


@contextlib.asynccontextmanager
async def open_spool(settings: Settings, stored: StoredBlobs, watched: Blobs) -> AsyncIterator[SpooledBlobs | None]:
    """The blobs of an executor whose output is in a bucket; None: in a folder nothing waits. Raises `Misconfigured` if
    the spool cannot be made."""
    if not isinstance(stored, S3Blobs) or not settings.output_spool_bytes:
        yield None
        return
    root = settings.data_dir / "spool"
    try:
        async with spooled(cast("StreamingBlobs", watched), SystemClock(), root, settings.output_spool_bytes) as spool:
            yield spool
    except PermissionError as failure:
        raise Misconfigured(
            f"the folder {root} for output that waits cannot be used: {failure.strerror}; set TICKWISE_DATA_DIR to one "
            "that can be written, or TICKWISE_OUTPUT_SPOOL_BYTES to 0"
        ) from failure


def outputs_kept_seconds(settings: Settings) -> float | None:
    """The retention of outputs that may come later than their run ends; None: none does, in a folder."""
    return settings.retention_logs_days * DAY_SECONDS if (settings.blobs_url or "").startswith("s3:") else None


def signed_downloads(settings: Settings, stored: StoredBlobs) -> SignedDownloads | None:
    """The addresses of downloads past the API; None: there are none."""
    if settings.blobs_downloads != "redirect" or not isinstance(stored, S3Blobs):
        return None
    seconds = settings.blobs_download_seconds

    async def sign(key: str) -> str:
        return await stored.signed_url(key, seconds)

    return sign
