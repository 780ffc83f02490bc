"""Runs whose duration or output is unlike that of earlier runs of their job, by robust statistics.

    earlier runs that succeeded ──► median, median absolute deviation ──► far from both: MORE or LESS

Invariants: a few odd runs among the earlier ones change nothing; where a tenth of them is as odd, nothing is (a job
that has two ways to run); and a difference that nobody would notice is none: it is at least the floor of its quantity
and half of the larger one of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from statistics import median
from typing import Final, NamedTuple

from tickwise.domain.observing.analytics import percentile

SAMPLE: Final = 50
"""Earlier runs that are compared with, the newest."""
SAMPLE_LEAST: Final = 10
DEVIATIONS: Final = 6.0
"""Of the spread of a bell curve: one run of 500 million lies farther away by chance."""
TO_STANDARD: Final = 1.4826
"""A median absolute deviation, times this, is the standard deviation of a bell curve."""
FACTOR: Final = 2.0
ALIKE_SHARE: Final = 0.1
ALIKE_LEAST: Final = 3
"""Earlier runs that are at least half as far out, so that such a run is usual: this share, and at least so many."""


class AnomalyQuantity(StrEnum):
    """A quantity that is compared."""

    DURATION = "duration"
    """In seconds, of the last attempt."""
    OUTPUT = "output"
    """In bytes, of the last attempt, as far as it was kept."""


FLOORS: Final[Mapping[AnomalyQuantity, float]] = {AnomalyQuantity.DURATION: 1.0, AnomalyQuantity.OUTPUT: 4_096.0}


class AnomalyKind(StrEnum):
    """The direction in which a quantity is unlike the earlier ones."""

    MORE = "more"
    LESS = "less"
    """It may have had nothing to do, or not have done it."""


class Anomaly(NamedTuple):
    """A quantity that is unlike the earlier ones."""

    quantity: AnomalyQuantity
    kind: AnomalyKind
    value: float
    low: float
    """Of ten earlier runs one had less, …"""
    high: float
    """… and one had more."""
    runs: int
    """The earlier runs that were compared with."""

    @property
    def sentence(self) -> str:
        """It in one line, for people."""
        value, low, high = (_written(self.quantity, each) for each in (self.value, self.low, self.high))
        verb = "took" if self.quantity is AnomalyQuantity.DURATION else "wrote"
        return f"a run {verb} {value}, usually {low} to {high}"


class MeasuredEnd(NamedTuple):
    """The quantities of a run that are compared."""

    seconds: float
    output_bytes: int | None = None
    """None: it was not measured."""


def anomalies_of(run: MeasuredEnd, earlier: Sequence[MeasuredEnd]) -> list[Anomaly]:
    """The anomalies of a run, beside the newest earlier ones of its job, at most `SAMPLE` of them."""
    newest = earlier[:SAMPLE]
    found = [anomaly_of(AnomalyQuantity.DURATION, run.seconds, [each.seconds for each in newest])]
    if run.output_bytes is not None:
        sizes = [float(each.output_bytes) for each in newest if each.output_bytes is not None]
        found.append(anomaly_of(AnomalyQuantity.OUTPUT, float(run.output_bytes), sizes))
    return [each for each in found if each is not None]


def anomaly_of(quantity: AnomalyQuantity, value: float, earlier: Sequence[float]) -> Anomaly | None:
    """The anomaly of one quantity; None: there is none, or the earlier runs are too few to tell."""
    if len(earlier) < SAMPLE_LEAST:
        return None
    middle = median(earlier)
    spread = TO_STANDARD * median(abs(each - middle) for each in earlier)
    distance, larger, smaller = abs(value - middle), max(value, middle), min(value, middle)
    if distance < max(FLOORS[quantity], DEVIATIONS * spread) or larger < FACTOR * smaller:
        return None
    side = 1.0 if value > middle else -1.0
    alike = sum(side * (each - middle) * FACTOR >= distance for each in earlier)
    if alike >= max(ALIKE_LEAST, ALIKE_SHARE * len(earlier)):
        return None
    ordered = sorted(earlier)
    kind = AnomalyKind.MORE if value > middle else AnomalyKind.LESS
    return Anomaly(quantity, kind, value, percentile(ordered, 0.1), percentile(ordered, 0.9), len(ordered))


def _written(quantity: AnomalyQuantity, value: float) -> str:
    if quantity is AnomalyQuantity.DURATION:
        return f"{value:.3g} s" if value < 100 else f"{value:.0f} s"
    if value < 1_000:
        return f"{value:.0f} B"
    return f"{value / 1_000:.3g} kB" if value < 1_000_000 else f"{value / 1_000_000:.4g} MB"
