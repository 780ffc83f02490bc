"""Scripts of releases before each namespace had a folder of its own: they are moved to those who stored them.

    scripts/DIGEST ──► scripts/NAMESPACE/DIGEST for each namespace that has a task with it ──(a day later)──► gone

Until then executors read them where they are, checked against their digests. Moving twice is moving once, so any
scheduler may, and an API of the release before may go on storing where it did.
"""

from __future__ import annotations

import re
from collections import defaultdict
from hashlib import sha256
from typing import Final

import structlog

from tickwise.ports.blobs import SCRIPTS, BlobInfo, Blobs, script_key
from tickwise.ports.clock import Clock
from tickwise.ports.store import TaskStore

KEPT_SECONDS: Final = 86_400.0
"""An executor of the release before looks in the old place alone."""
LOOK_SECONDS: Final = 600.0

_SHARED = re.compile(re.escape(SCRIPTS) + r"([0-9a-f]{64})")

logger = structlog.get_logger("tickwise.scripts")


class ScriptMover:
    """Of one scheduler."""

    def __init__(self, tasks: TaskStore, blobs: Blobs, clock: Clock) -> None:
        self._tasks = tasks
        self._blobs = blobs
        self._clock = clock
        self._kept: set[str] = set()
        """Scripts that are where they belong, and stay in the old place for a while."""

    async def step(self) -> float:
        """Move the shared scripts to the namespaces that own them; the time to the next look."""
        shared = [info for info in await self._blobs.list(SCRIPTS) if _SHARED.fullmatch(info.key)]
        if shared:
            owners = defaultdict(list)
            for namespace, digest in await self._tasks.scripts():
                owners[digest].append(namespace)
            for info in shared:
                digest = info.key.removeprefix(SCRIPTS)
                await self._move(info, digest, owners[digest])
        return LOOK_SECONDS

    async def _move(self, info: BlobInfo, digest: str, namespaces: list[str]) -> None:
        if digest not in self._kept:
            content = await self._blobs.get(info.key)
            if sha256(content).hexdigest() != digest:
                logger.error("script_changed", digest=digest, namespaces=namespaces)
                return
            for namespace in namespaces:
                await self._blobs.put(script_key(namespace, digest), content)
            self._kept.add(digest)
        if info.written_at < self._clock.now() - KEPT_SECONDS:
            await self._blobs.delete([info.key])
            self._kept.discard(digest)
            logger.info("script_moved", digest=digest, namespaces=namespaces)
