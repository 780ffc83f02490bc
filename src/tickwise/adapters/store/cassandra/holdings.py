"""Holdings of the shards of a keyspace, for people: read from Cassandra alone, also while no keeper runs.

Nothing is decided by it: the lease that counts is that of the owner's own clock, and of those who wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from tickwise.adapters.store.cassandra.link import CassandraLink
from tickwise.adapters.store.cassandra.time import ClusterTime


class LeaseState(StrEnum):
    """State of the lease of a shard."""

    VALID = "valid"
    OVER = "over"
    """Its owner has not renewed it, and nobody has taken over yet."""
    NONE = "none"
    """Its last owner gave it back, or it never had one."""


@dataclass(frozen=True, slots=True)
class ShardHolding:
    """One shard, as its row says."""

    shard: int
    address: str
    """host:port of its keeper; empty: it has none."""
    process: str
    """The name that its keeper gives itself; empty: it has none."""
    epoch: int
    """The number of owners that it has had."""
    lease: LeaseState
    lease_seconds: float | None
    """From now to the end of the lease, by the clocks of the nodes; below zero: it is over. None: there is none."""

    @property
    def told(self) -> str:
        """The lease in words."""
        if self.lease_seconds is None:
            return "none"
        if self.lease is LeaseState.OVER:
            return f"ended {abs(self.lease_seconds):.1f} s ago"
        return f"ends in {self.lease_seconds:.1f} s"


async def shard_holdings(link: CassandraLink, numbers: Sequence[int]) -> list[ShardHolding]:
    """One for each of the shards, in this order. Raises `StoreUnavailable`."""
    time = ClusterTime(link)
    await time.measure()
    rows = {row[0]: row for row in await link.ask("holdings_look", list(numbers))}
    return [holding_of(number, rows.get(number), time.now()) for number in numbers]


def holding_of(number: int, row: Sequence[Any] | None, now: float) -> ShardHolding:
    """A shard by its row of `holdings_look`, if there is one. `now`: the time of the cluster, in Unix seconds."""
    _, owner, endpoint, epoch, until = row or (number, "", "", 0, None)
    if not owner or until is None:
        return ShardHolding(number, "", "", epoch or 0, LeaseState.NONE, None)
    end: datetime = until
    left = round(end.replace(tzinfo=UTC).timestamp() - now, 3)
    lease = LeaseState.VALID if left > 0 else LeaseState.OVER
    return ShardHolding(number, (endpoint or "").partition("/")[0], owner, epoch, lease, left)
