"""Removes the Jobs that no executor holds any more.

    Jobs of this installation
        ├── of this executor, and of none of its attempts ──► deleted: a deletion failed, or the API was away
        └── of another executor ── what does the store say of the attempt?
              held ──► left alone        settled ──► deleted
              lost ──► left for the executor that claims the run next and adopts it, for a bounded time; then deleted

What an executor that was killed leaves behind goes on until another one adopts it, or for `ADOPTION_SECONDS` after its
lease. A Secret goes with its Job.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final
from uuid import UUID

from tickwise.adapters.runner.container.kubernetes.cluster import ClusterRefused, JobCluster, job_path
from tickwise.adapters.runner.container.kubernetes.pods import JobObject
from tickwise.adapters.runner.container.names import EXECUTOR, INSTALLATION, RUN, TOKEN
from tickwise.adapters.runner.containers import AttemptFate, ContainerPolicy
from tickwise.domain.errors import Unavailable
from tickwise.ports.clock import Clock

SWEEP_SECONDS: Final = 10.0
ADOPTION_SECONDS: Final = 30.0
"""A run that was lost is claimed again within a second where an executor has room."""
_logger = logging.getLogger(__name__)


class JobSweep:
    """The sweep of one executor."""

    def __init__(self, cluster: JobCluster, policy: ContainerPolicy, executor: str, clock: Clock) -> None:
        self._cluster = cluster
        self._policy = policy
        self._executor = executor
        self._clock = clock
        self._lost_since: dict[tuple[UUID, int], float] = {}

    async def once(self, namespaces: Sequence[str], own: Callable[[], Collection[tuple[UUID, int]]]) -> int:
        """Delete what nobody holds; how many. `own`: the attempts of this executor, by run and token, asked for after
        the list: the Job of one that began meanwhile is in it. Raises `ClusterAway`."""
        removed = 0
        seen: set[tuple[UUID, int]] = set()
        for namespace in namespaces:
            for each in await self._cluster.jobs(namespace, f"{INSTALLATION}={self._policy.installation}"):
                try:
                    if each.metadata.deletion_timestamp is None and await self._is_left(each, own, seen):
                        await self._cluster.delete(job_path(namespace, each.metadata.name), each)
                        removed += 1
                        _logger.warning("deleted a Job that no executor holds: %s", dict(each.metadata.labels))
                except Unavailable:
                    return removed  # the store is away: the next sweep asks again
                except ClusterRefused as refused:
                    _logger.warning("the Job %s cannot be deleted: %s", each.metadata.name, refused.message)
        self._lost_since = {key: since for key, since in self._lost_since.items() if key in seen}
        return removed

    async def _is_left(
        self, job: JobObject, own: Callable[[], Collection[tuple[UUID, int]]], seen: set[tuple[UUID, int]]
    ) -> bool:
        labels = job.metadata.labels
        try:
            key = UUID(labels[RUN]), int(labels[TOKEN])
        except (KeyError, ValueError):
            return False
        seen.add(key)
        if labels.get(EXECUTOR) == self._executor:
            return key not in own()
        fate_of = self._policy.kubernetes.fate_of
        if fate_of is None:
            return False
        match await fate_of(*key):
            case AttemptFate.HELD:
                self._lost_since.pop(key, None)
                return False
            case AttemptFate.SETTLED:
                return True
        since = self._lost_since.setdefault(key, self._clock.monotonic())
        return self._clock.monotonic() - since >= ADOPTION_SECONDS
