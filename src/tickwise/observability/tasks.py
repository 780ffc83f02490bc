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


def retrieve_error(task: asyncio.Task[Any]) -> None:
    """Take the error of a task that has ended, so that the loop does not report it as lost. For callers who may all
    have gone: `task.add_done_callback(retrieve_error)`."""
    if not task.cancelled():
        task.exception()


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel these tasks until all of them have ended. Their exceptions are not raised here."""
    left = [*tasks]
    while left:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=AGAIN_SECONDS)
        for task in left:
            if task.done():
                retrieve_error(task)
        left = [task for task in left if not task.done()]
