"""Places in the feed of changes: which transactions a reader has, exactly, in any order of their commits.

    numbers of transactions   … 95 96 97 98 99 100 101 …
    seen at a moment          …  ■  ■  □  ■  ■   □   □      next = 100, open = {97}: it was under way

A transaction gets its number when it begins to write, and is seen when it has committed. One that commits late is seen
late, under its early number. So a place is no single number: it names those below `next` that were still open.

Invariant: a transaction is in a place if and only if its changes were handed to the reader.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

MAX_OPEN: Final = 200
"""Open transactions that a text names. Of more, the later ones count as unseen with all after them: a reader gets some
changes again, and misses none."""
MAX_TEXT: Final = 4_000

_HEX: Final = "[0-9a-f]{1,16}"
_PLACE: Final = rf"({_HEX})\.({_HEX})\.((?:{_HEX}(?:-{_HEX})*)?)"
_FORM: Final = re.compile(rf"{_PLACE}(?:/{_PLACE}~({_HEX})\.({_HEX}))?")


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

    def text(self) -> str:
        """The place as a text without spaces."""
        upto, still = self.next, sorted(self.open)
        if len(still) > MAX_OPEN:
            upto, still = still[MAX_OPEN], still[:MAX_OPEN]
        return f"{self.epoch:x}.{upto:x}.{'-'.join(f'{upto - number:x}' for number in still)}"


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
    place = _place(*found.groups()[:3])
    if place is None or found[4] is None:
        return None if place is None else Resumed(place)
    upto = _place(*found.groups()[3:6])
    return None if upto is None else Resumed(place, upto, ChangeNumber(int(found[7], 16), int(found[8], 16)))


def _place(epoch: str, upto: str, still: str) -> FeedPlace | None:
    after = int(upto, 16)
    numbers = frozenset(after - int(gap, 16) for gap in still.split("-")) if still else frozenset()
    if len(numbers) > MAX_OPEN or any(not 0 <= number < after for number in numbers):
        return None
    return FeedPlace(int(epoch, 16), after, numbers)
