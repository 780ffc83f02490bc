"""Carries out the requests that come with a heartbeat: cancel a run, revoke it, or give it back.

request ──► run not held ──► its outcome waits in the outbox: nothing to do; else store and executor differ
       ├──► held, not begun ──► settled: CANCELLED, SKIPPED or QUEUED
       └──► running ──► a cancel stops its task; a revoke or a return comes too late
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from tickwise.domain.lifecycle import CancelKind
from tickwise.ports.store import CancelRequest
from tickwise.roles.executor.held_runs import HeldRuns, RunStage
from tickwise.roles.executor.outbox import Outbox
from tickwise.roles.executor.outcomes import called_off, given_back
from tickwise.roles.executor.reconciliation import Reconciliation
from tickwise.roles.executor.settlement import RunSettlement
from tickwise.roles.executor.store_clock import StoreClock


class CancelRequests:
    """Carries out the requests for one executor."""

    def __init__(
        self,
        *,
        time: StoreClock,
        held_runs: HeldRuns,
        settlement: RunSettlement,
        outbox: Outbox,
        reconciliation: Reconciliation,
        grace_seconds: float,
    ) -> None:
        """`grace_seconds`: the time between TERM and KILL for a cancelled task."""
        self._time = time
        self._held_runs = held_runs
        self._settlement = settlement
        self._outbox = outbox
        self._reconciliation = reconciliation
        self._grace_seconds = grace_seconds

    def carry_out(self, requests: Iterable[CancelRequest]) -> None:
        """Carry out all requests. A request may come again with the next heartbeat."""
        for request in requests:
            self._carry_out(request.run_id, request.kind)

    def _carry_out(self, run: UUID, kind: CancelKind) -> None:
        held = self._held_runs.live.get(run)
        if held is None:
            if all(run != known for known, _ in self._outbox.pairs()):
                # The store believes that this executor holds the run, and no outcome of it is on its way.
                self._reconciliation.doubt()
            return
        if held.stage is RunStage.HOLDING:
            now = self._time.now()
            if kind is CancelKind.RETURN:
                self._settlement.settle(held, given_back(held, now))
            else:
                self._settlement.settle(held, called_off(held, now, revoked=kind is CancelKind.REVOKE))
        elif kind is CancelKind.CANCEL and not held.cancelling:
            held.cancelling = True
            if held.stage is RunStage.LAUNCHED:
                held.capacity.runner.stop(run, grace_seconds=self._grace_seconds)
