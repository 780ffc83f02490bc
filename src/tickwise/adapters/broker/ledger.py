"""The messages of one partition that a member took, those of them that are done, and the partition to take from next.

    offsets   … 7 8 9 10 11 12 …        committed: 9, the first that is taken and not done
                done  ▲   done ▲
                      taken    taken    next: 12

Pure bookkeeping, the same for every broker whose partitions are logs with offsets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

FAIR_EVERY: Final = 10
"""One in so many takes begins with what has waited longest, so that no channel is passed over for ever."""


class Ledger:
    """One partition, since it was assigned to this member. Offsets are taken in ascending order; some may be missing
    (a log may have gaps)."""

    __slots__ = ("_done", "_open", "next")

    def __init__(self, next_offset: int) -> None:
        """`next_offset`: the first one that may be taken."""
        self.next = next_offset
        self._open: deque[int] = deque()
        self._done: set[int] = set()

    def take(self, offset: int) -> None:
        """Note that the message at this offset was handed out."""
        self._open.append(offset)
        self.next = offset + 1

    def done(self, offset: int) -> None:
        """Mark the message at this offset as done. An offset that was not handed out since the partition was assigned
        changes nothing: its message will come."""
        if self._open and self._open[0] <= offset < self.next:
            self._done.add(offset)

    def committed(self) -> int:
        """The offset to commit: all before it are done."""
        waiting, done = self._open, self._done
        while waiting and waiting[0] in done:
            done.discard(waiting.popleft())
        return waiting[0] if waiting else self.next


class Head(NamedTuple):
    """The first message of a partition that could be taken."""

    urgency: int
    """Place of its channel in the consumer's list; 0 comes first."""
    sent_at: float
    available: int
    """The number of messages of its partition that could be taken."""


Place = TypeVar("Place", bound=Hashable)


def pick(heads: Iterable[tuple[Place, Head]], limit: int, *, oldest_first: bool) -> Sequence[tuple[Place, int]]:
    """From which partitions to take how many, at most `limit` in all, in this order.

    The most urgent channel first, of one channel those that waited longest; with `oldest_first` one message of any
    waited longest goes before.
    """
    ranked = sorted(heads, key=lambda each: (each[1].urgency, each[1].sent_at))
    plan: list[tuple[Place, int]] = []
    if oldest_first and ranked and limit > 0:
        at = min(range(len(ranked)), key=lambda index: ranked[index][1].sent_at)
        place, head = ranked[at]
        plan.append((place, 1))
        ranked[at] = (place, head._replace(available=head.available - 1))
        limit -= 1
    for place, head in ranked:
        count = min(limit, head.available)
        if count > 0:
            plan.append((place, count))
            limit -= count
    return plan
