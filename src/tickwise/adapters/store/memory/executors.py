"""Executors: registered, kept alive by their heartbeat, leaving in order, or expired by any scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from tickwise.adapters.store.memory.losses import leave, lose
from tickwise.adapters.store.memory.records import ExecutorRecord, RunRecord
from tickwise.adapters.store.memory.state import Duty, State
from tickwise.domain.lifecycle import CancelKind, RunEvent, RunState
from tickwise.domain.rules.capacities import Capacity
from tickwise.domain.rules.losses import LossFate
from tickwise.domain.rules.requests import told_to_holder
from tickwise.ports.store import Beat, CancelRequest, ExecutorRow, Expired, NewExecutor, number_taken

MAX_EXECUTORS = 1_000
GONE_LISTED_SECONDS: Final = 3_600.0


class Executors(Duty):
    """`ExecutorStore` of the port."""

    async def join(self, executor: NewExecutor) -> int:
        now, number = self._state.now(), executor.number
        known = self._state.executors.get(number)
        if known is not None and not (executor.returns and known.gone_at is not None and not known.held):
            raise number_taken(number)
        self._state.executors[number] = ExecutorRecord(
            number=number,
            said=executor,
            functions=tuple(executor.functions),
            capacities=dict(executor.capacities),
            registered_at=now,
            lease_seconds=executor.lease_seconds,
            lease_until=now + executor.lease_seconds,
        )
        return number

    async def beat(
        self,
        executor: int,
        lease_seconds: float,
        functions: Sequence[str] | None = None,
        *,
        differs: int | None = None,
        held: int | None = None,
        capacities: Mapping[str, Capacity] | None = None,
    ) -> Beat:
        del held  # they are counted
        now, epoch = self._state.now(), self._state.epoch.epoch
        found = self._state.executors.get(executor)
        if found is None or found.gone_at is not None:
            return Beat(alive=False, now=now, cancels=(), epoch=epoch)
        if differs is not None:
            found.differs = differs
            found.differing_since = (found.differing_since or now) if differs else None
        found.lease_seconds, found.lease_until = lease_seconds, now + lease_seconds
        if functions is not None:
            found.functions = tuple(functions)
        if capacities is not None:
            found.capacities = dict(capacities)
        asked = [CancelRequest(run.run_id, kind) for run in found.held.values() if (kind := self._request_to(run, now))]
        return Beat(alive=True, now=now, cancels=asked, epoch=epoch)

    def _request_to(self, run: RunRecord, now: float) -> CancelKind | None:
        """The request to the holder of a run; from now on the holder has heard it."""
        on_hold = self._state.stands_still(run)
        told = told_to_holder(run.request, begun=run.state is not RunState.DISPATCHED, on_hold=on_hold)
        if told is not None and run.request is not None and run.request.heard_at is None:
            run.request = run.request._replace(heard_at=now)
        return told

    async def leave(self, executor: int) -> None:
        found = self._state.executors.get(executor)
        if found is None or found.gone_at is not None:
            return
        found.gone_at = self._state.now()
        for run in list(found.held.values()):
            leave(self._state, run)

    async def all(self, between: tuple[float, float] | None = None) -> Sequence[ExecutorRow]:
        if between is not None:
            return self._active_between(*between)
        since = self._state.now() - GONE_LISTED_SECONDS
        return [
            executor_row(executor)
            for executor in sorted(
                self._state.executors.values(), key=lambda executor: (-executor.registered_at, -executor.number)
            )
            if executor.gone_at is None or executor.gone_at > since
        ]

    def _active_between(self, since: float, until: float) -> Sequence[ExecutorRow]:
        found = [
            executor_row(executor)
            for executor in self._state.executors.values()
            if executor.registered_at <= until and (executor.gone_at is None or executor.gone_at >= since)
        ]
        return sorted(found, key=lambda executor: (-executor.registered_at, -executor.executor))[:MAX_EXECUTORS]

    async def expire(self, crashes_max: int) -> Expired:
        now = self._state.now()
        dead = [executor for executor in self._state.executors.values() if lease_is_over(self._state, executor, now)]
        fates: dict[LossFate, list[UUID]] = {fate: [] for fate in LossFate}
        for executor in dead:
            executor.gone_at = now
            for run in list(executor.held.values()):
                fates[lose(self._state, run, crashes_max)].append(run.run_id)
        return Expired(
            executors=[executor.number for executor in dead],
            freed=len(fates[LossFate.REQUEUE]),
            quarantined=fates[LossFate.QUARANTINE],
            unknown=[*fates[LossFate.FAIL], *fates[LossFate.HOLD]],
            held=fates[LossFate.HOLD],
        )

    async def keys(self, executors: Sequence[int]) -> Mapping[int, bytes | None]:
        known = self._state.executors
        return {number: known[number].said.results_key for number in executors if number in known}

    async def release_unknown(self, executor: int, tokens: Sequence[int], asked: float) -> int:
        found = self._state.executors.get(executor)
        if found is None:
            return 0
        known = frozenset(tokens)
        unknown = [
            run
            for run in found.held.values()
            if run.state is RunState.DISPATCHED and run.token not in known and (run.dispatched or 0.0) <= asked
        ]
        return sum(self._state.release(run, RunEvent.RELEASED) for run in unknown)


def lease_is_over(state: State, executor: ExecutorRecord, now: float) -> bool:
    """Check whether the executor's lease ran out. A lease that ran out while the store was away gets one more period
    for a heartbeat."""
    until = max(executor.lease_until, state.opened_at + executor.lease_seconds)
    return executor.gone_at is None and until < now


def executor_row(executor: ExecutorRecord) -> ExecutorRow:
    """An executor, as it is told."""
    return ExecutorRow(
        executor=executor.number,
        name=executor.said.name,
        queues=executor.said.queues,
        namespaces=executor.said.namespaces,
        labels=executor.said.labels,
        functions=executor.functions,
        capacities=executor.capacities,
        slots=executor.said.slots,
        registered_at=executor.registered_at,
        lease_until=executor.lease_until,
        gone_at=executor.gone_at,
        held=len(executor.held),
        differs=executor.differs,
        differing_since=executor.differing_since,
    )
