"""Long work in a thread, while a server is kept running in the loop: it ends at Ctrl-C, and before the server does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tickwise.observability.tasks import retrieve_error

Item = TypeVar("Item")
Result = TypeVar("Result")


class StoppedHalfway(Exception):
    """The person at the terminal has asked for the end."""


class StopFlag:
    """Says whether the work shall end."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def ask(self) -> None:
        """Let the work end at the next item."""
        self._asked.set()

    def until(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items. Raises `StoppedHalfway` at the first one after the work was asked to end."""
        for item in items:
            if self._asked.is_set():
                raise StoppedHalfway
            yield item


async def apart(work: Callable[[StopFlag], Result]) -> Result:
    """The result of work in a thread. If the caller is cancelled, the work is asked to end, and waited for."""
    flag = StopFlag()
    task = asyncio.ensure_future(asyncio.to_thread(work, flag))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        flag.ask()
        await asyncio.wait({task})
        retrieve_error(task)
        raise
