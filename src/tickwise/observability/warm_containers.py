"""The metrics of the warm containers of an executor."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class WarmContainerMetrics:
    """Counts warm containers; see `adapters.runner.containers.WarmWatch`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._events = Counter(
            "tickwise_warm_containers",
            "Containers of the setting `container_warm`, by event: `made`; `taken` by an attempt; `missed`, an attempt "
            "that found none of its kind; `removed` unused.",
            ["event"],
            registry=registry,
        )
        self._ready = Gauge(
            "tickwise_warm_containers_ready", "Warm containers of this executor that wait now.", registry=registry
        )

    def warm_container(self, event: str) -> None:
        """One was `made`, `taken` or `removed`, or one was `missed`."""
        self._events.labels(event).inc()

    def warm_containers(self, ready: int) -> None:
        """So many are ready now."""
        self._ready.set(ready)
