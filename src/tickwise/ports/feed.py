"""The feed: every change of a run's state, for readers that follow. The package states the rules of every method."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from struct import Struct
from typing import Final, Protocol
from uuid import UUID

from tickwise.domain.feed import ChangeNumber, FeedPlace
from tickwise.domain.lifecycle import RunState

FEED_SECONDS: Final = 330.0
"""Changes are kept for this long after they were first visible: the 5 minutes that readers are promised, and a little
more for the way."""
WATCH_SECONDS: Final = 900.0
"""Changes are noted for this long after a reader last said that it watches. Longer than `FEED_SECONDS`, so that a
reader whose process was away finds everything."""


_ID_BYTES: Final = 16
_BLOCK: Final = 50
"""Ids that are read by one call, in a tenth of the time that a slice for each takes."""


@cache
def _block(stride: int) -> Struct:
    return Struct(f"{stride - _ID_BYTES}x{_ID_BYTES}s" * _BLOCK)


class PackedIds:
    """Ids as the store sent them, 16 bytes each at a fixed stride: most readers want a few of many."""

    __slots__ = ("_first", "_packed", "_stride")

    def __init__(self, packed: bytes, *, first: int = 0, stride: int = 16) -> None:
        self._packed = packed
        self._first = first
        self._stride = stride

    def __len__(self) -> int:
        return max(0, len(self._packed) - self._first + self._stride - 16) // self._stride

    def at(self, index: int) -> bytes:
        """One of the ids."""
        begin = self._first + index * self._stride
        return self._packed[begin : begin + 16]

    def each(self) -> list[bytes]:
        """The ids, 16 bytes each."""
        packed, stride, found = self._packed, self._stride, list[bytes]()
        block, gap = _block(stride), stride - _ID_BYTES
        for at in range(self._first, self._first + len(self) // _BLOCK * _BLOCK * stride, _BLOCK * stride):
            found += block.unpack_from(packed, at - gap)
        begin = self._first + len(found) * stride
        found += [packed[at : at + _ID_BYTES] for at in range(begin, len(packed), stride)]
        return found


@dataclass(frozen=True, slots=True)
class RunChanges:
    """Runs of one namespace that came into one state by one statement."""

    transaction: int
    batch: int
    """Of two batches with the same run, the later one has the greater number."""
    at: float
    """The store's time."""
    state: RunState
    namespace: str
    runs: PackedIds
    jobs: PackedIds
    attempts: Sequence[int]

    def number(self, index: int) -> ChangeNumber:
        """The number of the change of the run at `index`."""
        return ChangeNumber(self.batch, index)


@dataclass(frozen=True, slots=True)
class FeedPage:
    """The changes after one place, and the next place."""

    changes: Sequence[RunChanges]
    """Of whole transactions; in the order of their batches."""
    place: FeedPlace
    """The place of the reader once it has these."""
    seen: FeedPlace
    """The transactions that were visible at this moment."""
    more: bool = False
    """The page was full: the next one can be read at once."""
    floor: FeedPlace | None = None
    """The least place that the feed reaches back to; None: there is none, nobody watched."""
    lost: bool = False
    """The feed does not reach back to the reader's place, or is of another epoch: changes may be missing. The page is
    empty, and its place is the present one."""


class FeedStore(Protocol):
    """Changes of states, kept for `FEED_SECONDS`, and noted only while somebody watches.

    Each state that a run comes into is one change, also QUEUED, DISPATCHED and RETRYING. A page has a run's changes in
    their order. Of two pages that follow each other without a pause (`more`), the later one may have an earlier change
    of a run, if its transactions overlapped. A short run may never be RUNNING: its start is recorded with its end. A
    run that goes without a final state (its job was changed before it began) leaves no change.
    """

    async def watch(self) -> FeedPlace:
        """Say that changes are read, for `WATCH_SECONDS` from now on, and drop those that are past their time. Returns
        the present place: every change that is committed after this call, and none that was before it, comes after
        the place.

        The first call after a time without any waits for transactions that are under way, 2 s at most: a change that
        one of these wrote before the call, and commits later than that, may be missing."""
        ...

    async def since(self, place: FeedPlace, *, limit: int = 500, namespaces: Collection[str] | None = None) -> FeedPage:
        """The next changes, of these namespaces or of all. `limit`: batches; a transaction is never divided, so there
        may be more. Never an answer that leaves out what was committed before the call and is not in `place`: what is
        left out stays out of the new place too."""
        ...

    async def labels(self, jobs: Collection[UUID]) -> Mapping[UUID, Mapping[str, str]]:
        """The labels of jobs, of those that have any."""
        ...
