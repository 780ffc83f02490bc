"""The arithmetic of measurements: windows, percentiles, slopes, bounds. Pure; nothing here measures anything."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

TWO_SIDED_95 = statistics.NormalDist().inv_cdf(0.975)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values does not exceed: none is made up between two."""
    if not values:
        raise ValueError("no values, so no percentile of them")
    ordered = sorted(values)
    place = -(-round(share * 1_000_000) * len(ordered) // 1_000_000)  # rounded up, in whole numbers
    return ordered[max(place - 1, 0)]


def window_rates(counts: Mapping[int, int], windows: int, window_seconds: float) -> list[float]:
    """Events a second of windows 0 to `windows` - 1. A window in which nothing happened is missing from `counts`."""
    return [counts.get(number, 0) / window_seconds for number in range(windows)]


def slowest_share(rates: Sequence[float]) -> float:
    """The slowest window, as a share of the median one; 0 if nothing happened in most of them."""
    middle = statistics.median(rates)
    return min(rates) / middle if middle else 0.0


def seconds_until(rates: Sequence[float], level: float, window_seconds: float) -> float | None:
    """When the first window that reached this level was over; None: none did."""
    for number, rate in enumerate(rates):
        if rate >= level:
            return (number + 1) * window_seconds
    return None


class Slope(NamedTuple):
    """The change of y for one unit of x, and between which bounds it lies with 95 % confidence."""

    value: float
    low: float
    high: float


def slope(points: Sequence[tuple[float, float]]) -> Slope:
    """Least squares through (x, y).

    The bounds take the distances from the line for independent: a sawtooth, such as dead rows between two vacuums,
    makes them narrower than they should be. Raises ValueError for fewer than three points, or all at one x.
    """
    if len(points) < 3:
        raise ValueError(f"a slope with its confidence takes three points, and there are {len(points)}")
    mean_x = statistics.fmean(x for x, _ in points)
    mean_y = statistics.fmean(y for _, y in points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if spread == 0:
        raise ValueError("a slope takes points at more than one place")
    value = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    rest = sum((y - mean_y - value * (x - mean_x)) ** 2 for x, y in points)
    freedom = len(points) - 2
    margin = _student(freedom) * (rest / freedom / spread) ** 0.5
    return Slope(value, value - margin, value + margin)


def _student(freedom: int) -> float:
    """The two-sided 95 % point of Student's t: exact for one and two degrees of freedom, else within 0.5 %."""
    if freedom == 1:
        return 12.7062
    if freedom == 2:
        return 4.3027
    z = TWO_SIDED_95
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def sure_drift(points: Sequence[tuple[float, float]]) -> float:
    """How much y changed from the first x to the last, as a share of its mean, as far as that is sure.

    0 if the slope may as well be flat; else by the bound that is nearer to flat.
    """
    found = slope(points)
    nearest = 0.0 if found.low <= 0 <= found.high else min(found.low, found.high, key=abs)
    mean = statistics.fmean(y for _, y in points)
    length = max(x for x, _ in points) - min(x for x, _ in points)
    return nearest * length / mean if mean else 0.0


def meets(figure: float | None, bound: float, *, higher: bool) -> bool:
    """Whether a figure is at least (`higher`) or at most its bound. One that is not there meets nothing."""
    return figure is not None and (figure >= bound if higher else figure <= bound)


def fell(ratio: float, recorded: float) -> float:
    """By which share a ratio lies below the recorded one; negative: above."""
    return 1 - ratio / recorded
