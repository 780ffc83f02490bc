"""The settings of one executor, as the composition root gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tickwise.domain.rules.capacities import MEMORY


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSettings:
    """The numbers and names that an executor works by. `tickwise.config` explains each of them to operators."""

    name: str
    queues: tuple[str, ...] = ("default",)
    labels: tuple[str, ...] = ()
    resources: Mapping[str, int] = field(default_factory=dict)
    """Counted capacities, by name."""
    memory_bytes: int | None = None
    """The memory that runs with a limit of memory reserve; None: it is not counted."""
    namespaces: tuple[str, ...] = ()
    """It claims runs of these alone; empty: of each one."""
    slots: int = 16
    lease_seconds: float = 10.0
    heartbeat_seconds: float = 3.0
    ahead_seconds: float = 1.5
    poll_seconds: float = 0.3
    claim_batch: int = 500
    held_max: int = 60_000
    finish_batch: int = 2000
    finish_flush_seconds: float = 0.004
    drain_seconds: float = 30.0
    kill_grace_seconds: float = 5.0
    log_runs_per_second: int | None = None
    """The number of log lines for starts, for ends and for failures of runs, each. None: no such line."""
    environments_ahead: int = 50
    """Environments that are built before a run needs them; 0: none."""
    results: str = "direct"
    """The path of outcomes: `direct` to the store, or through the `broker`, if there is one."""

    @property
    def capacities(self) -> dict[str, int]:
        """All that is counted, by name."""
        memory = {} if self.memory_bytes is None else {MEMORY: self.memory_bytes}
        return {**self.resources, **memory}
