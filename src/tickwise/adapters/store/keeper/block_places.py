"""`BlockPlaces`: which of the runs outside of memory are in which block.

    a run comes to the file ──► a place, each one above that of the run before
    enough of them in no block ──► begun: their places are those of a block ──► named once it is stored, or given up
    a run goes ──► its place in its block is gone ──► with the last one the block

A run keeps its place, so a block is a range of places, and what goes is a bit. Runs that FAILED have places of their
own.

Invariant: each place that counts is in exactly one block, or in none.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator
from typing import Final

from tickwise.adapters.store.keeper.blocks import NamedBlock
from tickwise.adapters.store.keeper.log import BlockName

BLOCK_RUNS: Final = 4_000
BLOCK_BYTES: Final = 4 << 20
"""Of images. A block is written once it has as many runs, or as many bytes."""
SPARSE: Final = 4
"""A block has at most so many places for each run that it may have: many may have gone before it is written."""


class PlacedBlock:
    """A block, and the places that it has."""

    __slots__ = ("erases", "failed", "first", "gone", "is_lapsed", "left", "name", "places", "runs")

    def __init__(self, first: int, places: int, *, failed: bool) -> None:
        self.failed, self.first, self.places = failed, first, places
        self.name: BlockName | None = None
        """None: it is not stored yet."""
        self.erases = False
        """True: a run of it is to leave the disk, so the others are written into another one."""
        self.is_lapsed = False
        """True: the owner of the log has ceased to name it, and may have deleted it."""
        self.left = places
        """The number of runs that count."""
        self.gone = bytearray()
        """A bit for each place, as far as one is set."""
        self.runs: dict[int, tuple[bytes, int]] = {}
        """Until it is stored: its runs by their places, as in `BlockPlaces`."""

    def named(self) -> NamedBlock:
        """The block as a checkpoint names it; it is stored."""
        assert self.name is not None
        return NamedBlock(*self.name, self.failed, self.places, bytes(self.gone))

    def is_gone(self, place: int) -> bool:
        """Check whether the run at this place does not count any more."""
        offset = place - self.first
        return offset >> 3 < len(self.gone) and bool(self.gone[offset >> 3] & 1 << (offset & 7))

    def drop(self, place: int) -> None:
        """The run at this place does not count any more."""
        offset = place - self.first
        if offset >> 3 >= len(self.gone):
            self.gone.extend(bytes((offset >> 3) + 1 - len(self.gone)))
        if not self.is_gone(place):
            self.gone[offset >> 3] |= 1 << (offset & 7)
            self.left -= 1
        self.runs.pop(place, None)


class BlockPlaces:
    """The places of runs. Each method that takes `failed` is about those of the runs that FAILED, or of the others."""

    def __init__(self, runs_most: int = BLOCK_RUNS, bytes_most: int = BLOCK_BYTES) -> None:
        self._runs_most, self._bytes_most = runs_most, bytes_most
        self._next = [0, 0]
        self._loose: tuple[dict[int, tuple[bytes, int]], ...] = ({}, {})
        """The runs in no block by their places: their ids and the sizes of their images."""
        self._firsts: tuple[list[int], ...] = ([], [])
        self._blocks: tuple[dict[int, PlacedBlock], ...] = ({}, {})
        """By their first places."""

    # ------------------------------------------------------------------------------------------- runs

    def add(self, run: bytes, size: int, *, failed: bool) -> int:
        """The place of a run that comes, and is in no block."""
        place = self._next[failed]
        self._next[failed] = place + 1
        self._loose[failed][place] = (run, size)
        return place

    def drop(self, place: int, *, failed: bool, erase: bool = False) -> None:
        """The run at this place goes, or gets another place. `erase`: its block, too."""
        if self._loose[failed].pop(place, None) is not None:
            return
        block = self._block_at(place, failed=failed)
        block.drop(place)
        block.erases = block.erases or erase
        if not block.left and block.name is not None:
            self._forget(block)

    def loose(self) -> list[bytes]:
        """The ids of the runs in no block."""
        return [run for runs in self._loose for run, _ in runs.values()]

    def _block_at(self, place: int, *, failed: bool) -> PlacedBlock:
        firsts = self._firsts[failed]
        return self._blocks[failed][firsts[bisect_right(firsts, place) - 1]]

    # ------------------------------------------------------------------------------------------- blocks

    def begin(self, *, failed: bool) -> PlacedBlock | None:
        """A block of the oldest runs in none, which is to be stored; None: there are not enough of them."""
        loose, size, taken = self._loose[failed], 0, dict[int, tuple[bytes, int]]()
        first = next(iter(loose), 0)
        firsts = self._firsts[failed]
        at = bisect_right(firsts, first)
        end = first + SPARSE * self._runs_most
        if at < len(firsts):
            end = min(end, firsts[at])
        for place, run in loose.items():
            if len(taken) >= self._runs_most or size >= self._bytes_most or place >= end:
                break
            taken[place] = run
            size += run[1]
        else:
            if len(taken) < self._runs_most and size < self._bytes_most:
                return None
        for place in taken:
            del loose[place]
        block = PlacedBlock(first, max(taken) - first + 1, failed=failed)
        for place in range(first, first + block.places):
            if place not in taken:
                block.drop(place)
        block.runs = taken
        self._put(block)
        return block

    def finish(self, block: PlacedBlock, name: BlockName) -> None:
        """A block that was begun is stored."""
        block.name, block.runs = name, {}
        if not block.left:
            self._forget(block)

    def give_up(self, block: PlacedBlock) -> None:
        """A block that was begun is not stored: its runs are in none."""
        self._forget(block)
        self._set_free(block.runs, failed=block.failed)

    def take(self, named: NamedBlock) -> PlacedBlock:
        """A block that is stored, with places for its runs."""
        failed = named.failed
        block = PlacedBlock(self._next[failed], named.places, failed=failed)
        block.name, block.gone = named.name, bytearray(named.gone)
        block.left -= int.from_bytes(named.gone, "little").bit_count()
        self._next[failed] += named.places
        if block.left:
            self._put(block)
        return block

    def release(self, block: PlacedBlock, runs: dict[int, tuple[bytes, int]]) -> None:
        """Take a block apart: these runs, by their places, are what counts of it, and are in none from now on."""
        self._forget(block)
        self._set_free(runs, failed=block.failed)

    def stored(self) -> list[PlacedBlock]:
        """The blocks that are stored and have a run that counts."""
        return [each for each in self._all() if each.name is not None and not each.is_lapsed]

    def erasing(self) -> list[PlacedBlock]:
        """Those of them of which a run is to leave the disk."""
        return [block for block in self.stored() if block.erases]

    def lapsed(self) -> list[PlacedBlock]:
        """The blocks that are named no more, and have a run that counts."""
        return [each for each in self._all() if each.is_lapsed]

    def lapsed_at(self, place: int, *, failed: bool) -> PlacedBlock | None:
        """The one of these that has this place."""
        firsts = self._firsts[failed]
        at = bisect_right(firsts, place) - 1
        block = self._blocks[failed][firsts[at]] if at >= 0 else None
        return block if block is not None and block.is_lapsed and place < block.first + block.places else None

    def _all(self) -> Iterator[PlacedBlock]:
        return (block for blocks in self._blocks for block in blocks.values())

    def named(self) -> Iterator[NamedBlock]:
        """Stored blocks with runs that count, as a checkpoint names them."""
        return (block.named() for block in self.stored() if block.left)

    def _put(self, block: PlacedBlock) -> None:
        insort(self._firsts[block.failed], block.first)
        self._blocks[block.failed][block.first] = block

    def _forget(self, block: PlacedBlock) -> None:
        firsts = self._firsts[block.failed]
        del firsts[bisect_right(firsts, block.first) - 1], self._blocks[block.failed][block.first]

    def _set_free(self, runs: dict[int, tuple[bytes, int]], *, failed: bool) -> None:
        """They are older than some of the others: a block is a range of places."""
        loose = self._loose[failed]
        in_order = sorted({**loose, **runs}.items())
        loose.clear()
        loose.update(in_order)
