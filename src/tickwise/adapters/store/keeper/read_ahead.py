"""The state of a log, read before the log is owned: a process that waits for it has most of the work behind it.

    peek ──► the newest checkpoint, then what was appended since, again and again ──► acquired: the rest

Invariant: what is read ahead is what `acquire` would have found, or it is read anew. Nothing is answered by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tickwise.adapters.store.keeper.log import EffectLog, Tenure
from tickwise.adapters.store.keeper.rebuild import Contents
from tickwise.adapters.store.memory.ended import EndedRuns
from tickwise.domain.errors import Bug, Misconfigured, Unavailable
from tickwise.ports.clock import Clock

LOOK_SECONDS: Final = 0.5


class ReadAhead:
    """The contents that one wait for a log has read."""

    def __init__(self, log: EffectLog, clock: Clock, make_ended: Callable[[], EndedRuns] = EndedRuns) -> None:
        """`make_ended`: an empty container of ended runs; the last one that was made is in `contents`."""
        self._make_ended = make_ended
        self.contents = Contents(make_ended())
        self.checkpoint_bytes = self.entry_bytes = 0
        self._log, self._clock = log, clock
        self._checkpoint = self._position = 0

    async def follow(self) -> None:
        """Read what there is and what comes, until cancelled. A log that is not read before it is owned ends it."""
        while (seen := await self._seen()) is not None:
            try:
                await self.catch_up(seen)
            except (Bug, Misconfigured, Unavailable):
                # The owner has dropped what was read here, or the log cannot be reached. `acquire` tells what is wrong.
                self._begin_anew()
            await self._clock.sleep(LOOK_SECONDS)

    async def _seen(self) -> Tenure | None:
        while True:
            try:
                return await self._log.peek()
            except Unavailable:
                await self._clock.sleep(LOOK_SECONDS)

    async def catch_up(self, tenure: Tenure) -> None:
        """Read up to the end that this tenure knows. Raises `Misconfigured` for a log that is damaged."""
        if self._position < tenure.checkpoint:
            self._begin_anew()
            first = True
            async for part in self._log.checkpoint(tenure.checkpoint):
                self.contents.read_part(part, is_first=first)
                first, self.checkpoint_bytes = False, self.checkpoint_bytes + len(part)
            self._checkpoint = self._position = tenure.checkpoint
        async for entry in self._log.entries(self._position):
            self.contents.read_entry(entry.position, entry.body)
            self.entry_bytes += len(entry.body)
            self._position = entry.position

    def _begin_anew(self) -> None:
        self.contents.close()
        self.contents = Contents(self._make_ended())
        self.checkpoint_bytes = self.entry_bytes = self._checkpoint = self._position = 0
