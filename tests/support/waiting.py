"""Waiting for what a test expects, instead of sleeping and hoping."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

Found = TypeVar("Found")

PAUSE_SECONDS = 0.01


@overload
async def eventually(
    look: Callable[[], Awaitable[Found | None]], *, within_seconds: float = 60.0, what: str = ""
) -> Found: ...
@overload
async def eventually(look: Callable[[], Found | None], *, within_seconds: float = 60.0, what: str = "") -> Found: ...
async def eventually(look: Callable[[], Any], *, within_seconds: float = 60.0, what: str = "") -> Any:
    """The first true answer of `look`, asked again and again; an AssertionError with the last answer if none comes.

    For what cannot be awaited itself: another process, a server, a row that somebody else writes.
    """
    end = time.monotonic() + within_seconds
    while True:
        answer = look()
        found = await answer if inspect.isawaitable(answer) else answer
        if found:
            return found
        if time.monotonic() >= end:
            raise AssertionError(f"not within {within_seconds:g} s: {what or look}; the last answer was {found!r}")
        await asyncio.sleep(PAUSE_SECONDS)  # noqa: TID251 - between two looks; every other test waits through this
