"""Stops the tasks that the executor's lease covers before the lease ends.

    lease ends soon ──► TERM to each running task ──► KILL before the lease is over
                   └──► runners give back the tasks that wait in them

Invariant: no task runs here after the store may have given its run to another executor. The orphan reaper keeps the
same promise for a process that stands still (docs/decisions/0016).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog

from tickwise.roles.executor.capacity import RunnerCapacity
from tickwise.roles.executor.held_runs import HeldRuns, RunStage
from tickwise.roles.executor.lease import Lease
from tickwise.roles.shared.service import Telemetry

WATCH_SECONDS: Final = 0.05
"""The time between two looks at a lease that is over. A runner may have begun or received a task meanwhile."""

logger = structlog.get_logger("tickwise.executor")


class LeaseWatch:
    """Watches the lease of one executor."""

    def __init__(
        self, *, lease: Lease, held_runs: HeldRuns, capacities: Sequence[RunnerCapacity], telemetry: Telemetry
    ) -> None:
        self._lease = lease
        self._held_runs = held_runs
        self._capacities = capacities
        self._telemetry = telemetry
        self._releasing = False

    async def watch(self) -> float:
        """Stop all covered tasks if the lease ends now. Returns the seconds until the next look."""
        left = self._lease.left_seconds()
        if left > 0.0:
            return max(left, 0.001)
        self._stop_covered_tasks()
        return WATCH_SECONDS

    def release_late(self) -> None:
        """Make the runners give back their waiting tasks if the lease is over.

        A runner reports an end before it fills the freed place, and each report calls this method. So no task begins
        after the process stood still, although the watch has not had its turn yet.
        """
        if self._lease.left_seconds() > 0.0 or self._releasing:
            return
        self._releasing = True
        try:
            for capacity in self._capacities:
                capacity.runner.release_waiting()
        finally:
            self._releasing = False

    def _stop_covered_tasks(self) -> None:
        self.release_late()
        running = [held for held in self._held_runs.in_stage(RunStage.LAUNCHED) if not held.fenced]
        if running:
            logger.error("lease_over", executor=self._lease.number, stopped=len(running))
            self._telemetry.lease_stopped(len(running))
        grace = self._lease.grace_seconds()
        for held in running:
            held.fenced = True
            held.capacity.runner.stop(held.claimed.run_id, grace_seconds=grace)
