"""Environments that jobs declare."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tickwise.adapters.store.memory.records import EnvironmentRecord
from tickwise.adapters.store.memory.state import Duty
from tickwise.ports.environments import EnvironmentDemand, EnvironmentFailure
from tickwise.ports.store.environments import (
    DECLARED_SECONDS,
    MAX_DECLARED_OF_NAMESPACE,
    MAX_FAULT_CHARACTERS,
    MAX_LOOKED_AT,
    DeclaredEnvironment,
    EnvironmentFault,
    WantedEnvironment,
    WantedQuery,
)


class DeclaredEnvironments(Duty):
    """`EnvironmentStore` of the port."""

    async def declare(self, environments: Sequence[DeclaredEnvironment]) -> None:
        state, now = self._state, self._state.now()
        for each in environments:
            namespace = each.demand.namespace
            if state.is_closed(namespace, or_closing=False):
                continue
            key = (namespace, each.demand.digest, each.queue, each.requires)
            known = state.environments.pop(key, None)
            state.environments[key] = EnvironmentRecord(each, now, None if known is None else known.fault)
            # They stand in the order of their last declaration.
            own = [place for place in state.environments if place[0] == namespace]
            for place in own[:-MAX_DECLARED_OF_NAMESPACE]:
                del state.environments[place]

    async def wanted(self, query: WantedQuery) -> Sequence[WantedEnvironment]:
        newest = list(reversed(self._state.environments.values()))
        labels = frozenset(query.labels)
        found: dict[EnvironmentDemand, tuple[float, float, bool]] = {}
        for queue in dict.fromkeys(query.queues):
            for each in [each for each in newest if each.declared.queue == queue][:MAX_LOOKED_AT]:
                demand = each.declared.demand
                if not labels.issuperset(each.declared.requires):
                    continue
                if query.namespaces is not None and demand.namespace not in query.namespaces:
                    continue
                due, declared, failed = found.get(demand, (math.inf, math.inf, False))
                found[demand] = (
                    min(due, self._due(each)), min(declared, -each.declared_at), failed or each.fault is not None
                )  # fmt: skip
        turns: dict[str, int] = {}
        ordered = []
        for demand in sorted(found, key=lambda each: (*found[each][:2], each.digest)):
            turns[demand.namespace] = turn = turns.get(demand.namespace, 0) + 1
            ordered.append((turn, *found[demand][:2], demand.namespace, demand))
        ordered.sort(key=lambda each: each[:4])
        return [WantedEnvironment(demand, found[demand][2]) for *_, demand in ordered[: query.limit]]

    def _due(self, record: EnvironmentRecord) -> float:
        """The time at which the job that declared it last is due; never: infinity."""
        job_id = record.declared.job_id
        job = None if job_id is None else self._state.jobs.get(job_id)
        return math.inf if job is None or job.timer is None else job.timer.pending.due

    async def report(self, demand: EnvironmentDemand, failure: EnvironmentFailure | None, executor: str) -> None:
        state, fault = self._state, None
        if failure is not None:
            detail = failure.detail.replace("\0", "")[:MAX_FAULT_CHARACTERS]
            fault = EnvironmentFault(failure.reason, detail, state.now(), executor)
        for key, each in state.environments.items():
            if each.declared.demand == demand:
                state.environments[key] = replace(each, fault=fault)

    async def fault(self, demand: EnvironmentDemand) -> EnvironmentFault | None:
        faults = [each.fault for each in self._state.environments.values() if each.declared.demand == demand]
        return max((each for each in faults if each is not None), key=lambda each: each.failed_at, default=None)

    async def forget(self) -> int:
        state, oldest = self._state, self._state.now() - DECLARED_SECONDS
        gone = [
            key for key, each in state.environments.items() if each.declared_at < oldest and not self._has_timer(each)
        ]
        for key in gone:
            del state.environments[key]
        return len(gone)

    def _has_timer(self, record: EnvironmentRecord) -> bool:
        job_id = record.declared.job_id
        job = None if job_id is None else self._state.jobs.get(job_id)
        return job is not None and job.timer is not None
