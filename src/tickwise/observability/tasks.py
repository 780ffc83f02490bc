"""Tasks that go on in the background, and their end.

    cancel ──► ended? ── yes ──► done
       ▲         └── not within `AGAIN_SECONDS`: a driver took the cancel for a failure of its own, and went on
       └─────────────┘

A client of Redis or PostgreSQL that is interrupted while it connects, or while its time-out runs, may raise another
error than the cancel, or none at all. One cancel is therefore a hint. Only a task that has ended, has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

AGAIN_SECONDS: Final = 0.5
"""Between two cancels of a task that goes on."""


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel these tasks until all of them have ended. Their exceptions are not raised here."""
    left = [*tasks]
    while left:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=AGAIN_SECONDS)
        for task in left:
            if task.done() and not task.cancelled():
                task.exception()  # retrieved, so that the loop does not report it as lost
        left = [task for task in left if not task.done()]
