"""What the row of a shard says about its keeper, in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from tickwise.adapters.store.cassandra.holdings import LeaseState, ShardHolding, holding_of

NOW: Final = 1_800_000_000.0
KEEPER: Final = "10.0.0.7:8472"


def _row(seconds: float | None, owner: str = "process 7") -> tuple[Any, ...]:
    """Its lease ends in so many seconds. The driver gives a time without a zone."""
    end = None if seconds is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=NOW + seconds)
    return 2, owner, f"{KEEPER}/abcd" if owner else "", 9, None if end is None else end.replace(tzinfo=None)


@pytest.mark.parametrize(
    ("row", "expected", "told"),
    [
        (_row(4.25), ShardHolding(2, KEEPER, "process 7", 9, LeaseState.VALID, 4.25), "ends in 4.2 s"),
        (_row(-12.5), ShardHolding(2, KEEPER, "process 7", 9, LeaseState.OVER, -12.5), "ended 12.5 s ago"),
        (_row(0.0), ShardHolding(2, KEEPER, "process 7", 9, LeaseState.OVER, 0.0), "ended 0.0 s ago"),
        (_row(-3.0, owner=""), ShardHolding(2, "", "", 9, LeaseState.NONE, None), "none"),
        (_row(None, owner=""), ShardHolding(2, "", "", 9, LeaseState.NONE, None), "none"),
        (None, ShardHolding(2, "", "", 0, LeaseState.NONE, None), "none"),
    ],
    ids=["renewed", "not renewed", "at its end", "given back", "never owned", "no row yet"],
)
def test_a_row_says_who_has_the_shard_and_for_how_long(
    row: tuple[Any, ...] | None, expected: ShardHolding, told: str
) -> None:
    """The keeper without the fingerprint of its certificate, and a lease that nobody renewed as what it is."""
    found = holding_of(2, row, NOW)
    assert (expected, told) == (found, found.told)
