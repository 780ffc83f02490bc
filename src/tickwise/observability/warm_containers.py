"""The metrics of the warm containers of an executor."""

from __future__ import annotations

from prometheus_client import Counter, Gauge


class WarmContainerMetrics:
    """Counts warm containers; see `adapters.runner.containers.WarmWatch`."""

    def __init__(self, events: Counter, ready: Gauge) -> None:
        """`events`: by the label `event`."""
        self._events = events
        self._ready = ready

    def warm_container(self, event: str) -> None:
        """One was `made`, `taken` by an attempt or `removed` unused; or an attempt found none, `missed`."""
        self._events.labels(event).inc()

    def warm_containers(self, ready: int) -> None:
        """Set the number of containers that are ready now."""
        self._ready.set(ready)
