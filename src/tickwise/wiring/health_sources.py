"""The sources of the health of the installation, as one process sees them."""

from __future__ import annotations

import asyncio
import shutil
from functools import partial
from pathlib import Path

from tickwise.adapters.blobs import folder_of
from tickwise.ports.clock import Clock
from tickwise.roles.shared.health import DiskSpace, HealthCheck, HealthSources
from tickwise.roles.shared.membership import active_roles
from tickwise.wiring.runtime import Runtime, blobs_url


class BlobDisk:
    """The disk of a folder of blobs. Invariant: a disk that does not answer holds one thread, however often it is
    asked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._asked: asyncio.Future[tuple[int, int]] | None = None

    async def space(self) -> tuple[int, int]:
        """Free bytes and all bytes. Raises `OSError`; waits for as long as the disk does."""
        if self._asked is None or self._asked.done():
            self._asked = asyncio.get_running_loop().run_in_executor(None, self._look)
        return await asyncio.shield(self._asked)

    def _look(self) -> tuple[int, int]:
        usage = shutil.disk_usage(self._folder)
        return usage.free, usage.total


def health_check(runtime: Runtime, *, broker_is_needed: bool = False) -> HealthCheck:
    """The health of the installation, as this process sees it. `broker_is_needed`: it can take nothing without it."""
    folder = folder_of(blobs_url(runtime.settings))
    clock: Clock = runtime.clock
    sources = HealthSources(
        stats=runtime.store.upkeep.stats,
        roles=partial(active_roles, runtime.coordination.shared_state),
        broker=None if runtime.broker is None else runtime.broker.state,
        broker_is_needed=broker_is_needed,
        blobs=None if folder is None else partial(_space, runtime, BlobDisk(folder)),
    )
    return HealthCheck(sources, clock)


async def _space(runtime: Runtime, disk: BlobDisk) -> DiskSpace:
    free, size = await disk.space()
    return DiskSpace(free, size, getattr(runtime.blobs, "failing_seconds", 0.0))
