"""A process that stores output is not ready while it cannot."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from tickwise.adapters.blobs import open_blobs
from tickwise.api.problems import NotReady
from tickwise.config import Settings
from tickwise.domain.errors import Unavailable
from tickwise.observability.blob_watch import BlobWatch
from tickwise.ports.blobs import Blobs
from tickwise.wiring import runtime as runtime_module
from tickwise.wiring.health_port import check_of
from tickwise.wiring.runtime import open_runtime
from tickwise.wiring.startup_wait import StartupWait


class Full:
    """A folder without room, until somebody makes some."""

    def __init__(self) -> None:
        self.full = True
        self._blobs = open_blobs("memory://")

    async def put(self, key: str, content: bytes) -> None:
        if self.full:
            raise Unavailable("no space left on device")
        await self._blobs.put(key, content)


async def test_a_write_that_fails_for_long_makes_it_unready_until_one_succeeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It says what is wrong; one hiccup is none."""
    now = 100.0
    blobs = Full()
    watch = BlobWatch(cast("Blobs", blobs), lambda: now)
    monkeypatch.setattr(runtime_module, "watched_blobs", lambda *_: watch)
    async with open_runtime(Settings(), "memory://", StartupWait(asyncio.Event())) as runtime:
        check = check_of(runtime, blobs=True)
        await check()
        with pytest.raises(Unavailable):
            await runtime.blobs.put("logs/1", b"")
        await check()
        now += 10.0
        with pytest.raises(NotReady, match="no output could be stored for 10 s"):
            await check()
        await check_of(runtime)()
        blobs.full = False
        await runtime.blobs.put("logs/1", b"")
        await check()
