"""The state of a log, read before the log is owned: a process that waits for it has most of the work behind it.

    peek ──► the newest checkpoint, then what was appended since, again and again ──► acquired: the rest
              a later checkpoint ──► the blocks that it names: which of the runs that are here they have

Invariant: what is read ahead is what `acquire` would have found, or it is read anew. Nothing is answered by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tickwise.adapters.store.keeper.blocks import NamedBlock, names_in
from tickwise.adapters.store.keeper.log import EffectLog, Tenure
from tickwise.adapters.store.keeper.rebuild import Contents
from tickwise.adapters.store.memory.ended import EndedRuns
from tickwise.domain.errors import Bug, Misconfigured, Unavailable
from tickwise.ports.clock import Clock

LOOK_SECONDS: Final = 0.5


class ReadAhead:
    """The contents that one wait for a log has read."""

    def __init__(
        self,
        log: EffectLog,
        clock: Clock,
        make_ended: Callable[[], EndedRuns] = EndedRuns,
        caught_up: Callable[[int], None] = lambda _position: None,
    ) -> None:
        """`make_ended`: an empty container of ended runs; the last one that was made is in `contents`. `caught_up`
        hears of each look after which all that it saw is read, and up to which position that is."""
        self._make_ended, self._caught_up = make_ended, caught_up
        self.contents = Contents(make_ended())
        self.checkpoint_bytes = self.entry_bytes = 0
        self._log, self._clock = log, clock
        self._learns = False
        """True: a later checkpoint is looked at. If it has gone, the next look has another one; what was read stays."""
        self._checkpoint = self._position = 0

    async def follow(self) -> None:
        """Read what there is and what comes, until cancelled. A log that is not read before it is owned ends it."""
        while (seen := await self._seen()) is not None:
            try:
                await self.catch_up(seen)
                self._caught_up(self._position)
            except (Bug, Misconfigured, Unavailable):
                # The owner has dropped what was read here, or the log cannot be reached. `acquire` tells what is wrong.
                if not self._learns:
                    self._begin_anew()
                self._learns = False
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
                for named in self.contents.read_part(part, is_first=first):
                    self.contents.read_block(named, await self._log.block(named.name))
                first, self.checkpoint_bytes = False, self.checkpoint_bytes + len(part)
            self._checkpoint = self._position = tenure.checkpoint
        elif self._checkpoint < tenure.checkpoint:
            self._learns = True
            await self._learn_blocks(tenure.checkpoint)
            self._checkpoint, self._learns = tenure.checkpoint, False
        async for entry in self._log.entries(self._position):
            self.contents.read_entry(entry.position, entry.body)
            self.entry_bytes += len(entry.body)
            self._position = entry.position

    async def _learn_blocks(self, checkpoint: int) -> None:
        """Its owner has put runs into blocks. Without this, the next owner of the log would write them once more."""
        names = await self._names_in(checkpoint)
        new = self.contents.learn_blocks([each.name for each in names])
        for named in names:
            if named.name in new:
                self.contents.learn_block(named, await self._log.block(named.name))

    async def _names_in(self, checkpoint: int) -> list[NamedBlock]:
        found: list[NamedBlock] = []
        is_first = True
        async for part in self._log.checkpoint(checkpoint):
            names = () if is_first else names_in(part)
            if not is_first and not names:
                break  # names come before all rows
            is_first = False
            found += names
        return found

    def _begin_anew(self) -> None:
        self.contents.close()
        self.contents = Contents(self._make_ended())
        self.checkpoint_bytes = self.entry_bytes = self._checkpoint = self._position = 0
        self._learns = False
