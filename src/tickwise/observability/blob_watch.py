"""Watches whether blob storage takes writes: wrapped once, so that adapters and runners stay plain.

While a folder is full or a store is away, runs wait at their end with their output. The readiness of the process says
so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from tickwise.domain.errors import Unavailable
from tickwise.ports.blobs import Blobs


class BlobWatch:
    """Forwards everything, and knows since when writes fail."""

    def __init__(self, blobs: Blobs, monotonic: Callable[[], float]) -> None:
        self._blobs = blobs
        self._monotonic = monotonic
        self._failing_since: float | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._blobs, name)

    @property
    def failing_seconds(self) -> float:
        """For how long no write has succeeded although some were tried; 0: the last one did."""
        return 0.0 if self._failing_since is None else self._monotonic() - self._failing_since

    async def put(self, key: str, content: bytes) -> None:
        """See the port."""
        try:
            await self._blobs.put(key, content)
        except Unavailable:
            if self._failing_since is None:
                self._failing_since = self._monotonic()
            raise
        self._failing_since = None


def watched_blobs(blobs: Blobs, monotonic: Callable[[], float]) -> Blobs:
    """Wrap blobs so that they also report whether they can be written."""
    return cast("Blobs", BlobWatch(blobs, monotonic))
