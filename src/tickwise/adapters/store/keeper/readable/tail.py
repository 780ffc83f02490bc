"""The newest entries of a log in memory, for a reader that is a little behind; older ones are read from the log.

Invariant: entries come in their order and without gaps, from memory or from the log.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from tickwise.adapters.store.keeper.log import EffectLog, LogEntry


class LogTail:
    """The entries since a tenure began."""

    def __init__(self, log: EffectLog, last: int, most: Callable[[], int]) -> None:
        """`most`: the bytes of entries that may be in memory."""
        self._log, self._most = log, most
        self.last = last
        """The position of the newest entry."""
        self._kept: deque[LogEntry] = deque()
        self._bytes = 0
        self._sizes: deque[tuple[int, int]] = deque()
        self.behind_bytes = 0
        """The size of the entries since `done`."""
        self.came = asyncio.Event()

    def put(self, position: int, body: bytes) -> None:
        """The newest entry. The oldest ones leave memory when there are too many."""
        self.last = position
        self._kept.append(LogEntry(position, body))
        self._bytes += len(body)
        self._sizes.append((position, len(body)))
        self.behind_bytes += len(body)
        while self._bytes > self._most():
            self._bytes -= len(self._kept.popleft().body)
        self.came.set()

    def done(self, position: int) -> None:
        """The reader needs no entry up to this one any more."""
        while self._sizes and self._sizes[0][0] <= position:
            self.behind_bytes -= self._sizes.popleft()[1]

    async def read(self, after: int) -> AsyncIterator[LogEntry]:
        """The entries behind a position that are there now."""
        while after < self.last:
            while self._kept and self._kept[0].position <= after:
                self._bytes -= len(self._kept.popleft().body)
            if self._kept and self._kept[0].position == after + 1:
                entry = self._kept.popleft()
                self._bytes -= len(entry.body)
                after = entry.position
                yield entry
                continue
            until = self._kept[0].position - 1 if self._kept else self.last
            async for entry in self._log.entries(after):
                if entry.position > until:
                    break
                after = entry.position
                yield entry
