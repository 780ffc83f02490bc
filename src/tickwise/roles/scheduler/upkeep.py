"""Keeps the store's partitions and the stored outputs within their retention."""

from __future__ import annotations

from typing import Final, NamedTuple

import structlog

from tickwise.documents.artefacts import ARTEFACTS
from tickwise.ports.blobs import LOGS, BlobInfo, Blobs, log_day
from tickwise.ports.store import Retention, Store

MAINTAIN_SECONDS: Final = 600.0

logger = structlog.get_logger("tickwise.scheduler")


class ArtefactRetention(NamedTuple):
    """The limits of all stored artefacts."""

    seconds: float = 30 * 86_400.0
    """Since their attempt."""
    bytes_most: int = 10 << 30
    """Of all artefacts that are stored: the oldest go first."""


USUAL_ARTEFACTS: Final = ArtefactRetention()


class Upkeep:
    """The upkeep by one scheduler."""

    def __init__(
        self,
        store: Store,
        blobs: Blobs,
        *,
        retention: Retention,
        logs_seconds: float,
        artefacts: ArtefactRetention = USUAL_ARTEFACTS,
    ) -> None:
        """Outputs are kept for `logs_seconds`."""
        self._store = store
        self._blobs = blobs
        self._retention = retention
        self._logs_seconds = logs_seconds
        self._artefacts = artefacts

    async def keep_partitions(self) -> float:
        """Make the partitions ahead, and drop those that are past their retention."""
        done = await self._store.upkeep.maintain(self._retention)
        if done.made or done.dropped:
            logger.info("partitions_kept", made=list(done.made), dropped=list(done.dropped))
        await self._store.environments.forget()
        return MAINTAIN_SECONDS

    async def expire_outputs(self) -> float:
        """Remove the outputs of runs whose day is over its retention, then artefacts. Twice is once, so any scheduler
        may."""
        oldest = await self._store.now() - self._logs_seconds
        for day in await self._blobs.folders(LOGS):
            # A run that was made up for lately bears an old day in its id; what counts is when it wrote.
            if day < log_day(oldest):
                old = [blob.key for blob in await self._blobs.list(f"{LOGS}{day}/") if blob.written_at < oldest]
                await self._blobs.delete(old)
                if old:
                    logger.info("outputs_expired", day=day, count=len(old))
        await self.expire_artefacts()
        return MAINTAIN_SECONDS

    async def expire_artefacts(self) -> None:
        """Remove the artefacts that are older than their retention; of what is left, those of the oldest attempts, as
        far as all together have more bytes than they may."""
        bytes_most = self._artefacts.bytes_most
        oldest = await self._store.now() - self._artefacts.seconds
        kept, removed = 0, 0
        for day in sorted(await self._blobs.folders(ARTEFACTS), reverse=True):
            attempts: dict[str, list[BlobInfo]] = {}
            for blob in await self._blobs.list(f"{ARTEFACTS}{day}/"):
                attempts.setdefault(blob.key.rpartition("/")[0], []).append(blob)
            newest_first = sorted(attempts.values(), key=lambda blobs: -max(blob.written_at for blob in blobs))
            for blobs in newest_first:
                size = sum(blob.size_bytes for blob in blobs)
                if max(blob.written_at for blob in blobs) < oldest or kept + size > bytes_most:
                    await self._blobs.delete([blob.key for blob in blobs])
                    removed += 1
                else:
                    kept += size
        if removed:
            logger.info("artefacts_expired", count=removed)
