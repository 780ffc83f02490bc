"""Places in the feed of changes: which transactions a reader has, exactly, in any order of their commits.

    numbers of transactions   … 95 96 97 98 99 100 101 …
    seen at a moment          …  ■  ■  □  ■  ■   □   □      next = 100, open = {97}: it was under way

A transaction gets its number when it begins to write, and is seen when it has committed. One that commits late is seen
late, under its early number. So a place is no single number: it names those below `next` that were still open.

Invariant: a transaction is in a place if and only if its changes were handed to the reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tickwise.domain.fencing import SHARD_BITS, shard_bits

MAX_OPEN: Final = 200
"""Open transactions that a text names. Of more, the later ones count as unseen with all after them: a reader gets some
changes again, and misses none."""
MAX_TEXT: Final = 4_000

MAX_SHARDS: Final = 64
_HEX: Final = "[0-9a-f]{1,16}"
_PLACE: Final = re.compile(rf"({_HEX})\.({_HEX})\.((?:{_HEX}(?:-{_HEX})*)?)")
_SHARD: Final = re.compile(rf"({_HEX})=(.*)")
_FORM: Final = re.compile(rf"([^/~]*)(?:/([^/~]*)~({_HEX})\.({_HEX}))?")


@dataclass(frozen=True, slots=True)
class FeedPlace:
    """The transactions whose changes a reader has."""

    epoch: int
    """Of the store: in another one, numbers were given anew."""
    next: int
    """No transaction from this number on is in it."""
    open: frozenset[int] = frozenset()
    """Those below `next` that are not in it."""

    def has(self, transaction: int) -> bool:
        """Check whether the changes of a transaction are in it."""
        return transaction < self.next and transaction not in self.open

    def covers(self, other: FeedPlace) -> bool:
        """Check whether every transaction of the other place is in this one."""
        if self.epoch != other.epoch or other.next - self.next > len(other.open):
            return False
        beyond = range(self.next, other.next)
        inside = (number for number in self.open if number < other.next)
        return all(number in other.open for number in (*beyond, *inside))

    def through(self, transaction: int, target: FeedPlace) -> FeedPlace:
        """This place after all transactions of `target` up to this one were handed over too."""
        after = transaction + 1
        held = {number for number in target.open if number < after}
        held |= {number for number in self.open if number >= after}
        return FeedPlace(self.epoch, max(self.next, after), frozenset(held))

    def common(self, other: FeedPlace) -> FeedPlace:
        """The transactions that are in both places, of one epoch."""
        least = min(self.next, other.next)
        return FeedPlace(self.epoch, least, frozenset(number for number in self.open | other.open if number < least))

    def ends(self, transactions: Iterable[int]) -> Sequence[int]:
        """The last of these transactions, of each database apart."""
        return [max(transactions)]

    def text(self) -> str:
        """The place as a text without spaces."""
        upto, still = self.next, sorted(self.open)
        if len(still) > MAX_OPEN:
            upto, still = still[MAX_OPEN], still[:MAX_OPEN]
        return f"{self.epoch:x}.{upto:x}.{'-'.join(f'{upto - number:x}' for number in still)}"


@dataclass(frozen=True, slots=True)
class PlacesOfShards(FeedPlace):
    """A place in each of several databases. Numbers of transactions and batches have the shard in their last bits
    (`fencing.SHARD_BITS`)."""

    parts: Mapping[int, FeedPlace] = field(default_factory=dict)
    """By the bits of the shard. Nothing of a shard that is not in it is in the place."""

    @staticmethod
    def of(parts: Mapping[int, FeedPlace]) -> PlacesOfShards:
        """The place of these."""
        return PlacesOfShards(
            sum(part.epoch for part in parts.values()), sum(part.next for part in parts.values()), parts=parts
        )

    def has(self, transaction: int) -> bool:
        """See `FeedPlace`."""
        part = self.parts.get(shard_bits(transaction))
        return part is not None and part.has(transaction >> SHARD_BITS)

    def covers(self, other: FeedPlace) -> bool:
        """See `FeedPlace`."""
        others = other.parts if isinstance(other, PlacesOfShards) else {}
        return bool(others) and all(
            shard in self.parts and self.parts[shard].covers(part) for shard, part in others.items()
        )

    def through(self, transaction: int, target: FeedPlace) -> FeedPlace:
        """See `FeedPlace`: in the shard of the transaction."""
        shard = shard_bits(transaction)
        goal = target.parts.get(shard) if isinstance(target, PlacesOfShards) else None
        if goal is None:
            return self
        part = self.parts.get(shard, goal).through(transaction >> SHARD_BITS, goal)
        return PlacesOfShards.of({**self.parts, shard: part})

    def common(self, other: FeedPlace) -> FeedPlace:
        """See `FeedPlace`. Of two epochs of one shard the lower: the feed does not reach back to it."""
        others = other.parts if isinstance(other, PlacesOfShards) else {}
        shared = {
            shard: part.common(others[shard])
            if part.epoch == others[shard].epoch
            else min(part, others[shard], key=lambda each: each.epoch)
            for shard, part in self.parts.items()
            if shard in others
        }
        return PlacesOfShards.of(shared)

    def ends(self, transactions: Iterable[int]) -> Sequence[int]:
        """See `FeedPlace`."""
        return [*{shard_bits(number): number for number in sorted(transactions)}.values()]

    def text(self) -> str:
        """See `FeedPlace`."""
        return "@" + ",".join(f"{shard:x}={part.text()}" for shard, part in sorted(self.parts.items()))


class ChangeNumber(NamedTuple):
    """The place of one change among all: later changes of one run have greater numbers."""

    batch: int
    item: int

    def text(self) -> str:
        """The number as a text."""
        return f"{self.batch:x}.{self.item:x}"


class Resumed(NamedTuple):
    """The position of a reader that comes back."""

    place: FeedPlace
    """It has all of these transactions,"""
    upto: FeedPlace | None = None
    """and of these …"""
    last: ChangeNumber = ChangeNumber(0, 0)
    """… the changes up to this one."""

    def has(self, transaction: int, change: ChangeNumber) -> bool:
        """Check whether the reader has this change."""
        if self.place.has(transaction):
            return True
        return self.upto is not None and change <= self.last and self.upto.has(transaction)


def page_id(place: FeedPlace, upto: FeedPlace) -> str:
    """The begin of the ids of events of one page, that of a reader at `place` who is at `upto` after it."""
    return f"{place.text()}/{upto.text()}~"


def read_event_id(text: str) -> Resumed | None:
    """The position that an id names: of an event (`page_id` and the number of its change), or of a place. None: it is
    none of ours."""
    found = _FORM.fullmatch(text) if len(text) <= 2 * MAX_TEXT else None
    if found is None:
        return None
    place = _place(found[1])
    if place is None or found[3] is None:
        return None if place is None else Resumed(place)
    upto = _place(found[2])
    return None if upto is None else Resumed(place, upto, ChangeNumber(int(found[3], 16), int(found[4], 16)))


def _place(text: str) -> FeedPlace | None:
    if not text.startswith("@"):
        return _one_place(text)
    parts: dict[int, FeedPlace] = {}
    for each in text[1:].split(",")[: MAX_SHARDS + 1]:
        found = _SHARD.fullmatch(each)
        part = None if found is None else _one_place(found[2])
        if found is None or part is None or int(found[1], 16) >= MAX_SHARDS:
            return None
        parts[int(found[1], 16)] = part
    return PlacesOfShards.of(parts)


def _one_place(text: str) -> FeedPlace | None:
    found = _PLACE.fullmatch(text)
    if found is None:
        return None
    epoch, upto, still = found.groups()
    after = int(upto, 16)
    numbers = frozenset(after - int(gap, 16) for gap in still.split("-")) if still else frozenset()
    if len(numbers) > MAX_OPEN or any(not 0 <= number < after for number in numbers):
        return None
    return FeedPlace(int(epoch, 16), after, numbers)
