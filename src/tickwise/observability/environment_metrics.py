"""The metrics of environments of scripts."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

BUILD_SECONDS: Final = (0.5, 1, 2.5, 5, 10, 30, 60, 300, 900)


class EnvironmentMetrics:
    """A part of `Metrics`: what `ports.environments` counts."""

    def _environments(self, registry: CollectorRegistry) -> None:
        """Declare the metrics of environments of scripts."""
        self._environments_reused = Counter(
            "tickwise_environments_reused",
            "Attempts of scripts that found the environment that they declare.",
            registry=registry,
        )
        self._environments_failed = Counter(
            "tickwise_environments_failed",
            "Builds of environments that failed, by reason.",
            ["reason"],
            registry=registry,
        )
        self._environment_builds = Histogram(
            "tickwise_environment_build_seconds",
            "Durations of the builds of environments that succeeded.",
            buckets=BUILD_SECONDS,
            registry=registry,
        )

    def environment_reused(self) -> None:
        """A script found its environment."""
        self._environments_reused.inc()

    def environment_built(self, seconds: float) -> None:
        """An environment was built within this time."""
        self._environment_builds.observe(seconds)

    def environment_failed(self, reason: str) -> None:
        """A build failed; `reason` is one of `ENVIRONMENT_REASONS`."""
        self._environments_failed.labels(reason).inc()
