"""Executors: born, kept alive by their heartbeat, leaving in order, or buried by whoever looks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tickwise.adapters.store.memory.records import ExecutorRecord, RunRecord
from tickwise.adapters.store.memory.state import Duty, Report, attempt_row
from tickwise.domain.lifecycle import RunEvent, RunState
from tickwise.ports.store import Beat, CancelRequest, ExecutorRow, Expired, NewExecutor

GONE_LISTED_SECONDS: Final = 3_600.0
LEASE_LOST: Final = "lease_lost"
POISON: Final = "poison"


class Executors(Duty):
    """The executors' part of the port `Runs`."""

    async def executor_join(self, executor: NewExecutor) -> int:
        now = self._state.now()
        number = next(self._state.executor_numbers)
        self._state.executors[number] = ExecutorRecord(
            number=number,
            said=executor,
            functions=tuple(executor.functions),
            born_at=now,
            lease_seconds=executor.lease_seconds,
            lease_until=now + executor.lease_seconds,
        )
        return number

    async def executor_beat(self, executor: int, lease_seconds: float, functions: Sequence[str] | None = None) -> Beat:
        now = self._state.now()
        found = self._state.executors.get(executor)
        if found is None or found.gone_at is not None:
            return Beat(alive=False, now=now, cancels=())
        found.lease_seconds, found.lease_until = lease_seconds, now + lease_seconds
        if functions is not None:
            found.functions = tuple(functions)
        asked = [CancelRequest(run.run_id, run.request.kind) for run in found.held.values() if run.request is not None]
        return Beat(alive=True, now=now, cancels=asked)

    async def executor_leave(self, executor: int) -> None:
        found = self._state.executors.get(executor)
        if found is None or found.gone_at is not None:
            return
        found.gone_at = now = self._state.now()
        for run in list(found.held.values()):
            if run.state is RunState.RUNNING:
                self._lose(run)
            else:
                self._state.let_go(run, RunEvent.RELEASED, now)

    async def executors_list(self) -> Sequence[ExecutorRow]:
        since = self._state.now() - GONE_LISTED_SECONDS
        return [
            executor_row(executor)
            for executor in sorted(self._state.executors.values(), key=lambda executor: -executor.number)
            if executor.gone_at is None or executor.gone_at > since
        ]

    async def leases_expire(self, crashes_max: int) -> Expired:
        now = self._state.now()
        dead = [executor for executor in self._state.executors.values() if self._is_over(executor, now)]
        freed, quarantined = 0, []
        for executor in dead:
            executor.gone_at = now
            for run in list(executor.held.values()):
                run.guarded = True
                run.crashes += run.state is RunState.RUNNING
                if run.state is RunState.RUNNING and run.crashes >= crashes_max and not run.cancelling:
                    self._quarantine(run)
                    quarantined.append(run.run_id)
                else:
                    freed += self._lose(run)
        return Expired(executors=[executor.number for executor in dead], freed=freed, quarantined=quarantined)

    def _is_over(self, executor: ExecutorRecord, now: float) -> bool:
        """A lease that ran out while the store was away gets one more period, in which the executor can beat."""
        until = max(executor.lease_until, self._state.opened_at + executor.lease_seconds)
        return executor.gone_at is None and until < now

    def _lose(self, run: RunRecord) -> bool:
        """Its executor is gone. What had begun stays on record, unless it ends by request with this very attempt.

        Returns whether the run waits for another executor.
        """
        now = self._state.now()
        if run.state is RunState.RUNNING and not run.cancelling:
            lost = Report(ended=now, started=run.started, reason=LEASE_LOST)
            run.attempts.append(attempt_row(run, RunState.QUEUED, lost))
        return self._state.let_go(run, RunEvent.LEASE_LOST, now)

    def _quarantine(self, run: RunRecord) -> None:
        report = Report(
            ended=self._state.now(),
            started=run.started,
            reason=POISON,
            error=f"{run.crashes} executors were lost while they ran it",
        )
        self._state.end(run, RunEvent.QUARANTINED, report)


def executor_row(executor: ExecutorRecord) -> ExecutorRow:
    """An executor, as it is told."""
    return ExecutorRow(
        executor=executor.number,
        name=executor.said.name,
        queues=executor.said.queues,
        labels=executor.said.labels,
        functions=executor.functions,
        slots=executor.said.slots,
        born_at=executor.born_at,
        lease_until=executor.lease_until,
        gone_at=executor.gone_at,
        held=len(executor.held),
    )
