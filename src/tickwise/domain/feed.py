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

_FORM: Final = re.compile(
    r"([0-9a-f]{1,16})\.([0-9a-f]{1,16})\.((?:[0-9a-f]{1,16}(?:-[0-9a-f]{1,16})*)?)"
    r"(?:~([0-9a-f]{1,16})\.([0-9a-f]{1,16})\.([0-9a-f]{1,8}))?"
)


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
    """The name of one change of a run: the same for each reader. Later changes of one transaction are greater."""

    transaction: int
    batch: int
    item: int

    def text(self) -> str:
        """The name as a text."""
        return f"{self.transaction:x}.{self.batch:x}.{self.item:x}"


class Resumed(NamedTuple):
    """The position of a reader that comes back."""

    place: FeedPlace
    """The transactions of which it has every change."""
    last: ChangeNumber | None = None
    """The last change that it got; it has those of the same transaction before this one, too."""

    def has(self, change: ChangeNumber) -> bool:
        """Check whether the reader has this change."""
        last = self.last
        return self.place.has(change.transaction) or (
            last is not None and change.transaction == last.transaction and change <= last
        )


def event_id(before: str, change: ChangeNumber) -> str:
    """The id of an event: `before` is the text of the place before its transaction."""
    return f"{before}~{change.text()}"


def read_event_id(text: str) -> Resumed | None:
    """The position that an id names; None: it is none of ours."""
    found = _FORM.fullmatch(text) if len(text) <= MAX_TEXT else None
    if found is None:
        return None
    epoch, upto, still, transaction, batch, index = found.groups()
    numbers = frozenset(int(upto, 16) - int(gap, 16) for gap in still.split("-")) if still else frozenset()
    if len(numbers) > MAX_OPEN or any(not 0 <= number < int(upto, 16) for number in numbers):
        return None
    place = FeedPlace(int(epoch, 16), int(upto, 16), numbers)
    if transaction is None:
        return Resumed(place)
    return Resumed(place, ChangeNumber(int(transaction, 16), int(batch, 16), int(index, 16)))
