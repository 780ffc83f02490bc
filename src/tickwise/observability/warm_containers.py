"""The metrics of the warm containers of an executor."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class WarmContainerMetrics:
    """Counts warm containers; see `adapters.runner.containers.WarmWatch`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._events = Counter("tickwise_warm_containers", "Warm containers, by event.", ["event"], registry=registry)
        self._ready = Gauge("tickwise_warm_containers_ready", "Warm containers that wait now.", registry=registry)

    def warm_container(self, event: str) -> None:
        """One was `made`, `taken` by an attempt or `removed` unused; or an attempt found none, `missed`."""
        self._events.labels(event).inc()

    def warm_containers(self, ready: int) -> None:
        """Set the number of containers that are ready now."""
        self._ready.set(ready)
