"""Runs whose duration is unlike those of earlier runs of their job, by robust statistics.

    durations of earlier runs that succeeded ──► median, median absolute deviation ──► far from both: SLOW or FAST

Invariant: a few odd runs among the earlier ones change nothing, and a difference that nobody would notice is none: it
is at least `FLOOR_SECONDS` and half of the larger one of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from statistics import median
from typing import Final, NamedTuple

from tickwise.domain.observing.analytics import percentile

SAMPLE: Final = 50
"""Earlier runs that are compared with, the newest."""
SAMPLE_LEAST: Final = 10
FLOOR_SECONDS: Final = 1.0
DEVIATIONS: Final = 6.0
"""Of the spread of a bell curve: one run of 500 million lies farther away by chance."""
TO_STANDARD: Final = 1.4826
"""A median absolute deviation, times this, is the standard deviation of a bell curve."""
FACTOR: Final = 2.0


class AnomalyKind(StrEnum):
    """The direction in which a duration is unlike the earlier ones."""

    SLOW = "slow"
    FAST = "fast"
    """It may have had nothing to do, or not have done it."""


class DurationAnomaly(NamedTuple):
    """A duration that is unlike the earlier ones, in seconds."""

    kind: AnomalyKind
    seconds: float
    low: float
    """Of ten earlier runs one was quicker, …"""
    high: float
    """… and one took longer."""
    runs: int
    """The earlier runs that were compared with."""


def duration_anomaly(seconds: float, earlier: Sequence[float]) -> DurationAnomaly | None:
    """The anomaly of a run that took so long; None: it is none, or the earlier runs are too few to tell."""
    if len(earlier) < SAMPLE_LEAST:
        return None
    middle = median(earlier)
    spread = TO_STANDARD * median(abs(each - middle) for each in earlier)
    distance, larger, smaller = abs(seconds - middle), max(seconds, middle), min(seconds, middle)
    if distance < max(FLOOR_SECONDS, DEVIATIONS * spread) or larger < FACTOR * smaller:
        return None
    ordered = sorted(earlier)
    kind = AnomalyKind.SLOW if seconds > middle else AnomalyKind.FAST
    return DurationAnomaly(kind, seconds, percentile(ordered, 0.1), percentile(ordered, 0.9), len(ordered))
