"""What is committed of a partition, and from which partition is taken next."""

from __future__ import annotations

from random import Random

import pytest

from tickwise.adapters.broker.ledger import Head, Ledger, pick


def test_all_up_to_the_first_that_is_not_done_is_committed() -> None:
    """In whichever order they are done; offsets may have gaps."""
    ledger = Ledger(7)
    assert ledger.committed() == 7
    for offset in (7, 8, 11, 12):
        ledger.take(offset)
    committed = []
    for offset in (8, 12, 7, 11):
        ledger.done(offset)
        committed.append(ledger.committed())
    assert [7, 7, 11, 13] == committed


@pytest.mark.parametrize("offset", [0, 6, 8, 1000])
def test_what_was_not_taken_is_not_done(offset: int) -> None:
    """It was taken by somebody else, or before the partition was ours."""
    ledger = Ledger(7)
    ledger.take(7)
    ledger.done(offset)
    assert ledger.committed() == 7


def test_nothing_is_committed_past_what_is_open_whatever_happens() -> None:
    """Of a thousand random lives."""
    for seed in range(1000):
        dice = Random(seed)
        ledger, taken, done = Ledger(0), 0, set()
        for _ in range(50):
            if dice.random() < 0.5:
                ledger.take(taken)
                taken += 1
            elif taken:
                done.add(dice.randrange(taken))
                ledger.done(max(done))
                for offset in done:
                    ledger.done(offset)
            first_open = next((offset for offset in range(taken) if offset not in done), taken)
            assert first_open == ledger.committed(), f"seed {seed}"


HEADS = [("usual", Head(2, 10.0, 5)), ("urgent", Head(0, 30.0, 2)), ("older urgent", Head(0, 20.0, 1))]


@pytest.mark.parametrize(
    ("limit", "oldest_first", "expected"),
    [
        (10, False, [("older urgent", 1), ("urgent", 2), ("usual", 5)]),
        (2, False, [("older urgent", 1), ("urgent", 1)]),
        (1, True, [("usual", 1)]),
        (3, True, [("usual", 1), ("older urgent", 1), ("urgent", 1)]),
        (10, True, [("usual", 1), ("older urgent", 1), ("urgent", 2), ("usual", 4)]),
        (0, True, []),
    ],
)
def test_the_urgent_comes_first_unless_it_is_the_turn_of_the_oldest(
    limit: int, oldest_first: bool, expected: list[tuple[str, int]]
) -> None:
    """Of one urgency, what waited longest."""
    assert expected == pick(HEADS, limit, oldest_first=oldest_first)
