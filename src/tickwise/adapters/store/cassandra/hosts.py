"""The order in which the nodes of a cluster are asked: the replicas of a shard first, slow nodes last.

A frozen node keeps its connections, and the driver takes it for alive until a heartbeat fails. A node that let a
request time out is asked last for some seconds, so the next try of the same statement meets another coordinator.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cassandra.policies import DCAwareRoundRobinPolicy, TokenAwarePolicy

from tickwise.ports.clock import Clock

AVOIDED_SECONDS: Final = 5.0
"""About as long as nodes take to notice a frozen one among them."""


class ReplicasFirst(TokenAwarePolicy):  # type: ignore[misc]  # the driver carries no types
    """Replicas in the order of the ring, so that one node coordinates a shard as long as it is well: the conditional
    updates of a row contend when several nodes propose them."""

    def __init__(self, clock: Clock, datacenter: str) -> None:
        super().__init__(DCAwareRoundRobinPolicy(local_dc=datacenter))
        self._clock = clock
        self._slow_until: dict[Any, float] = {}

    def avoid(self, host: Any) -> None:
        """Ask that host last for some seconds. May be called from any thread."""
        self._slow_until[host] = self._clock.monotonic() + AVOIDED_SECONDS

    def make_query_plan(self, working_keyspace: str | None = None, query: Any = None) -> Iterator[Any]:
        """The hosts in the order in which the driver tries them."""
        plan = super().make_query_plan(working_keyspace, query)
        if not self._slow_until:
            return iter(plan)
        now = self._clock.monotonic()
        return iter(sorted(plan, key=lambda host: self._slow_until.get(host, 0.0) > now))
