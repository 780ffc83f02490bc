"""The shares of keepers: the same answer from the same facts, so keepers agree without a leader.

    owners 1:A 2:A 3:A 4:–, keepers A B C ──► quotas A 2, B 1, C 1 ──► A keeps 1 and 2; 3 and 4 go to B and C

Quotas differ by one at most, and the greater ones go to those that have most: so no shard moves unless its owner has
two more than another keeper, or it has no owner. Two keepers with different facts may both try for a shard, or none
for a moment; the epoch of the shard lets one of them in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple


class KeeperBeat(NamedTuple):
    """The last beat of a keeper."""

    number: int
    """Another one for each beat."""
    age_seconds: float
    """The time since that beat, by the clocks of the nodes: only a first look goes by it."""


def shares(owners: Mapping[int, str], keepers: Collection[str]) -> dict[int, str]:
    """The keeper that should have each shard. `owners`: who has it now; one that is not among `keepers` is nobody.
    Without keepers it is empty."""
    if not keepers:
        return {}
    had = Counter(dict.fromkeys(keepers, 0))
    had.update(owner for owner in owners.values() if owner in had)
    order = sorted(keepers, key=lambda keeper: (-had[keeper], keeper))
    least, more = divmod(len(owners), len(order))
    room = {keeper: least + (place < more) for place, keeper in enumerate(order)}
    found: dict[int, str] = {}
    for shard in sorted(owners):
        owner = owners[shard]
        if room.get(owner, 0):
            room[owner] -= 1
            found[shard] = owner
    for shard in sorted(owners):
        if shard not in found:
            taker = max(room, key=lambda keeper: (room[keeper], -order.index(keeper)))
            room[taker] -= 1
            found[shard] = taker
    return dict(sorted(found.items()))


def heirs(owners: Mapping[int, str], keepers: Collection[str]) -> dict[int, str]:
    """The keeper that waits for each shard and reads its log ahead: the one that should have it, or the one that should
    if its owner were gone. A shard whose owner is the only keeper has none."""
    wanted = shares(owners, keepers)
    after = {
        owner: shares(owners, [keeper for keeper in keepers if keeper != owner])
        for owner in {*owners.values()} & {*keepers}
    }
    found = {}
    for shard, keeper in wanted.items():
        heir = after[keeper].get(shard) if owners[shard] == keeper else keeper
        if heir is not None:
            found[shard] = heir
    return found
