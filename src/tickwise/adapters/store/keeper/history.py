"""`BlockKeeper`: writes ended runs of a tenure into blocks, names these in checkpoints, and deletes what none names.

    seal ──► whole blocks of the runs outside of memory, each stored once; those that hold erased runs are taken apart
    parts ──► their names, in a checkpoint ──► it counts ──► sweep: blocks that it does not name go

A crash before the checkpoint counts leaves blocks that none names: the next owner has these runs by the log, and its
first checkpoint deletes the blocks. An owner that lost its epoch may write a block late: it has that epoch in its
name, and nobody names it.

Invariant: a block is deleted only after a checkpoint counts that does not name it, by an owner of its epoch or a
later one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tickwise.adapters.store.keeper.block_places import PlacedBlock
from tickwise.adapters.store.keeper.blocks import BlockRun, block_body, parts_of_names, read_block
from tickwise.adapters.store.keeper.log import BlockName, EffectLog
from tickwise.adapters.store.keeper.spilled import SpilledRuns
from tickwise.ports.clock import Clock

READ_AT_ONCE: Final = 500
"""Runs that are read for a block before calls have their turn: about 2 ms."""


class BlockKeeper:
    """The blocks of one tenure; one checkpoint at a time uses it."""

    def __init__(self, log: EffectLog, clock: Clock, ended: SpilledRuns, epoch: int) -> None:
        self._log, self._clock, self._ended, self._epoch = log, clock, ended, epoch
        self._number = 0
        self._named: frozenset[BlockName] = frozenset()
        """By the checkpoint that was written last."""
        self._stored: set[BlockName] | None = None
        """None: nobody has looked yet in this tenure."""

    async def seal(self) -> None:
        """Store whole blocks of the runs that are in none."""
        await self.free_lapsed()
        for erasing in self._ended.places.erasing():
            await self._take_apart(erasing)
        for failed in (False, True):
            while (block := self._ended.places.begin(failed=failed)) is not None:
                try:
                    name = await self._keep(block)
                except BaseException:
                    self._ended.places.give_up(block)
                    raise
                self._ended.places.finish(block, name)

    async def free_lapsed(self) -> None:
        """Runs of blocks that the owner before had ceased to name, and that have not gone, are in none. It reads of all
        runs; such runs are there only after a takeover in the middle of a removal."""
        places = self._ended.places
        found: dict[PlacedBlock, dict[int, tuple[bytes, int]]] = {block: {} for block in places.lapsed()}
        if not found:
            return
        for rows in self._ended.placed(READ_AT_ONCE):
            for run, failed, place, size in rows:
                block = places.lapsed_at(place, failed=bool(failed))
                if block is not None:
                    found[block][place] = (run, size)
            await self._clock.sleep(0.0)
        for block in places.lapsed():
            left = {place: run for place, run in found[block].items() if not block.is_gone(place)}
            places.release(block, left)

    async def _take_apart(self, block: PlacedBlock) -> None:
        """Let the runs of a block that still count go into another one."""
        body = await self._log.block(block.named().name)
        left = enumerate(read_block(block.named(), body), start=block.first)
        runs = {place: (run.run, len(run.image)) for place, run in left if run is not None}
        if runs:
            self._ended.places.release(block, runs)

    async def _keep(self, block: PlacedBlock) -> BlockName:
        runs: list[BlockRun | None] = []
        while len(runs) < block.places:
            runs += self._ended.runs_at(block, len(runs), READ_AT_ONCE)
            await self._clock.sleep(0.0)
        self._number += 1
        name = await self._log.keep_block(self._number, block_body(runs))
        if self._stored is not None:
            self._stored.add(name)
        return name

    def parts(self) -> Iterator[bytes]:
        """The parts of a checkpoint that name the blocks as they are now."""
        blocks = list(self._ended.places.named())
        self._named = frozenset(each.name for each in blocks)
        return parts_of_names(iter(blocks))

    async def sweep(self) -> None:
        """Delete the blocks that the checkpoint does not name, which counts now."""
        if self._stored is None:
            self._stored = set(await self._log.blocks())
        gone = {each for each in self._stored - self._named if each.epoch <= self._epoch}
        if gone:
            await self._log.drop_blocks(gone)
            self._stored -= gone
