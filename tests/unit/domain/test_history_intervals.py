"""Windows are met by as many points as any assignment could, and spans over one instant are counted exactly."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwise.domain.history.intervals import matched, most_at_once


def most_met(windows: Sequence[tuple[float, float]], points: Sequence[float]) -> int:
    """The size of a maximum matching, by augmenting paths: it knows nothing of order or time."""
    met_by: dict[int, int] = {}

    def augment(window: int, seen: set[int]) -> bool:
        for point, at in enumerate(points):
            if windows[window][0] <= at <= windows[window][1] and point not in seen:
                seen.add(point)
                if point not in met_by or augment(met_by[point], seen):
                    met_by[point] = window
                    return True
        return False

    return sum(augment(window, set()) for window in range(len(windows)))


def check(windows: Sequence[tuple[float, float]], points: Sequence[float]) -> None:
    """The matching is one, says all of itself, and none is greater."""
    result = matched(windows, points)
    for window, point in result.pairs:
        assert windows[window][0] <= points[point] <= windows[window][1]
    met, used = [window for window, _ in result.pairs], [point for _, point in result.pairs]
    assert list(range(len(windows))) == sorted([*met, *result.missed])
    assert list(range(len(points))) == sorted([*used, *result.extra])
    assert most_met(windows, points) == len(result.pairs), f"{windows} {points}"


def test_no_assignment_of_thousands_meets_more() -> None:
    """Drawn small and dense, so that windows lie within each other and share their ends and points."""
    drawn = random.Random(8)
    for _ in range(5_000):
        size = drawn.randrange(1, 9)
        begins = [drawn.randrange(12) for _ in range(size)]
        windows = [(float(begin), float(begin + drawn.randrange(8))) for begin in begins]
        check(windows, [float(drawn.randrange(14)) for _ in range(drawn.randrange(9))])


finite = st.floats(-1e9, 2e9)


@given(st.lists(st.tuples(finite, finite)), st.lists(finite))
def test_no_assignment_meets_more_whatever_the_figures(windows: list[tuple[float, float]], points: list[float]) -> None:
    """Windows that end before they begin are never met."""
    check(windows, points)


def test_the_first_choice_that_offers_itself_is_not_taken() -> None:
    """The long window opened first; the point goes to the one that closes first, and the later point to the long."""
    result = matched([(0.0, 100.0), (5.0, 10.0)], [6.0, 50.0])
    assert [(0, 1), (1, 0)] == sorted(result.pairs)


spans = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=15)


@given(spans)
def test_the_most_at_once_is_what_looking_at_every_instant_finds(drawn: list[tuple[int, int]]) -> None:
    """And the instant is the first at which there are so many."""
    by_instant = {at: sum(begin <= at < end for begin, end in drawn) for at in range(21)}
    most = max(by_instant.values())
    first = min(at for at, number in by_instant.items() if number == most)
    expected = (most, first) if most else (0, 0.0)
    assert expected == most_at_once(drawn)


@pytest.mark.parametrize(
    ("given_spans", "most"),
    [([], 0), ([(1.0, 1.0)], 0), ([(1.0, 2.0), (2.0, 3.0)], 1), ([(1.0, 3.0), (2.0, 4.0), (2.5, 2.6)], 3)],
    ids=["none", "no length", "one after the other", "three"],
)
def test_what_ends_as_another_begins_is_not_beside_it(given_spans: list[tuple[float, float]], most: int) -> None:
    """A limit of one lets one follow on another."""
    assert most == most_at_once(given_spans)[0]
