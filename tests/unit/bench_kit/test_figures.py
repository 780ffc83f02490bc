"""What benchmarks say is arithmetic on what they saw, and the arithmetic is right."""

from __future__ import annotations

import math

import pytest

from bench.figures import (
    fell,
    meets,
    percentile,
    seconds_until,
    slope,
    slowest_share,
    sure_drift,
    window_rates,
)


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.0, 1)])
def test_a_percentile_is_a_value_that_was_measured(share: float, expected: int) -> None:
    """The smallest that this share of all values does not exceed; the order of the values does not matter."""
    assert expected == percentile([float(value) for value in range(100, 0, -1)], share)


def test_a_percentile_of_nothing_is_refused() -> None:
    """It would be a figure that nobody measured."""
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_a_window_in_which_nothing_happened_counts() -> None:
    """The database leaves out groups without rows; a stall must be seen."""
    assert [20.0, 0.0, 10.0] == window_rates({0: 100, 2: 50}, 3, 5.0)


def test_the_slowest_window_is_told_as_a_share_of_the_median_one() -> None:
    """Not of the mean, which the slowest one moves."""
    assert 0.25 == slowest_share([100.0, 25.0, 100.0, 400.0, 100.0])


def test_nothing_done_in_most_windows_is_no_even_flow() -> None:
    """A share of nothing is nothing."""
    assert 0.0 == slowest_share([0.0, 0.0, 10.0])


def test_a_level_is_reached_when_its_first_window_is_over() -> None:
    """Later windows below it do not matter."""
    assert 10.0 == seconds_until([50.0, 96.0, 90.0], 95.0, 5.0)


def test_a_level_that_no_window_reached_has_no_time() -> None:
    """None, and not the length of the watch."""
    assert seconds_until([50.0, 94.9], 95.0, 5.0) is None


def test_the_slope_of_a_line_is_the_lines() -> None:
    """Without noise the confidence interval has no width."""
    found = slope([(x, 3.0 + 2.0 * x) for x in (0.0, 1.0, 2.0, 5.0)])
    assert (2.0, 2.0, 2.0) == pytest.approx(tuple(found))


def test_the_confidence_of_a_slope_is_the_textbooks() -> None:
    """Five points by hand: slope 0.9, residuals 0.2 in all, squares of x 10, Student's t of 3 degrees 3.1824."""
    found = slope([(1.0, 2.0), (2.0, 2.5), (3.0, 4.0), (4.0, 4.5), (5.0, 5.5)])
    margin = 3.1824 * math.sqrt(0.2 / 3 / 10)
    assert (0.9, 0.9 - margin, 0.9 + margin) == pytest.approx(tuple(found), rel=5e-3)


@pytest.mark.parametrize("points", [[(0.0, 1.0), (1.0, 2.0)], [(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]])
def test_a_slope_without_enough_points_is_refused(points: list[tuple[float, float]]) -> None:
    """Two points fit any line; points at one time fit all."""
    with pytest.raises(ValueError, match="a slope"):
        slope(points)


def test_noise_around_a_level_is_no_drift() -> None:
    """The interval contains zero: nothing is sure."""
    assert 0.0 == sure_drift([(float(x), 100.0 + (-1) ** x) for x in range(20)])


def test_growth_is_a_drift_by_what_is_sure_of_it() -> None:
    """From 100 to 119 with a mean of 109.5, and no noise: 19 / 109.5."""
    assert 19 / 109.5 == pytest.approx(sure_drift([(float(x), 100.0 + x) for x in range(20)]))


def test_a_fall_is_a_negative_drift() -> None:
    """The bound nearer to flat, with its sign."""
    assert -0.1 > sure_drift([(float(x), 119.0 - x + 0.1 * (-1) ** x) for x in range(20)])


@pytest.mark.parametrize(
    ("figure", "higher", "expected"),
    [(10.0, True, True), (9.9, True, False), (10.0, False, True), (10.1, False, False), (None, False, False)],
)
def test_a_figure_meets_a_bound_that_it_equals(figure: float | None, higher: bool, expected: bool) -> None:
    """At least, or at most; a figure that could not be had meets nothing."""
    assert expected == meets(figure, 10.0, higher=higher)


def test_a_fall_is_told_as_a_share_of_what_was_recorded() -> None:
    """0.4 of the limit instead of 0.5 is a fifth less."""
    assert 0.2 == pytest.approx(fell(0.4, 0.5))
