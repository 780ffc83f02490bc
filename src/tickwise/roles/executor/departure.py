"""Ends the work of an executor: in peace (`drain`), or at once (`begin`, then `leave`).

    drain ──► claims end ──► runs that have not begun go back ──► the rest ends, for `drain_seconds` at most
    begin ──► claims end ──► all tasks are abandoned            (then the role closes its runners)
    leave ──► outbox emptied ──► lost ends reported ──► starts recorded ──► the store frees what was held

Invariant: before the store frees the runs, it knows which of them ended and which began. It takes all others for runs
that never began, and the next attempt of such a run would have the same number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from tickwise.domain.errors import Unavailable
from tickwise.ports.clock import Clock
from tickwise.ports.store import AttemptStore, Began
from tickwise.roles.executor.capacity import RunnerCapacity
from tickwise.roles.executor.held_runs import HeldRuns, RunStage
from tickwise.roles.executor.lease import Lease
from tickwise.roles.executor.outbox import Outbox
from tickwise.roles.executor.reconciliation import Reconciliation
from tickwise.roles.executor.registration import ExecutorRegistration
from tickwise.roles.executor.settlement import RunSettlement
from tickwise.roles.executor.store_clock import StoreClock
from tickwise.roles.shared.service import wait_for

LEAVE_SECONDS: Final = 5.0
"""The time for which a stopping executor tries to sign off. If it cannot, its lease runs out by itself."""
LEAVE_RETRY_SECONDS: Final = 0.25
"""The time between two tries."""

logger = structlog.get_logger("tickwise.executor")


class Departure:
    """The departure of one executor."""

    def __init__(
        self,
        *,
        attempts: AttemptStore,
        clock: Clock,
        time: StoreClock,
        lease: Lease,
        held_runs: HeldRuns,
        capacities: Sequence[RunnerCapacity],
        settlement: RunSettlement,
        outbox: Outbox,
        reconciliation: Reconciliation,
        registration: ExecutorRegistration,
    ) -> None:
        self._attempts = attempts
        self._clock = clock
        self._time = time
        self._lease = lease
        self._held_runs = held_runs
        self._capacities = capacities
        self._settlement = settlement
        self._outbox = outbox
        self._reconciliation = reconciliation
        self._registration = registration
        self._begun: Sequence[Began] = ()

    async def drain(self, seconds: float) -> None:
        """Give back the runs that have not begun, and wait until the others end. Heartbeats must go on meanwhile, so
        that no other executor takes over a run that goes on here."""
        self._settlement.give_back(self._held_runs.in_stage(RunStage.HOLDING))
        for capacity in self._capacities:
            capacity.runner.release_waiting()
        idle, until = self._held_runs.idle, self._clock.monotonic() + seconds
        while (self._held_runs.live or self._outbox) and (left := until - self._clock.monotonic()) > 0:
            idle.clear()
            await wait_for(idle, left)
        if self._held_runs.live:
            logger.warning("drain_over", still_open=len(self._held_runs.live), seconds=seconds)

    def begin(self) -> None:
        """Abandon all tasks, and note the starts that `leave` must record."""
        live = self._held_runs.live
        now = self._time.now() if self._lease.number else 0.0
        launched = self._held_runs.in_stage(RunStage.LAUNCHED)
        self._begun = [Began(held.claimed.run_id, held.claimed.token, now) for held in launched if not held.guarded]
        if starting := self._held_runs.in_stage(RunStage.STARTING):
            # Their starts may be on record. Only this executor knows that the tasks never began.
            self._settlement.give_back(starting)
        # Comparisons go on with the heartbeats.
        self._reconciliation.leaving({(held.claimed.run_id, held.claimed.token) for held in live.values()})
        self._held_runs.abandon_all()

    async def leave(self) -> None:
        """Tell the store of ends and starts, then free the rest. Gives up after `LEAVE_SECONDS`."""
        until = self._clock.monotonic() + LEAVE_SECONDS
        try:
            # A store that is away for a moment is asked again; one that does not answer is given up.
            async with asyncio.timeout(LEAVE_SECONDS):
                while not await self._signed_off():
                    if self._clock.monotonic() + LEAVE_RETRY_SECONDS > until:
                        raise TimeoutError
                    await self._clock.sleep(LEAVE_RETRY_SECONDS)
        except TimeoutError:
            logger.warning("leave_unheard", executor=self._lease.number, seconds=LEAVE_SECONDS)

    async def _signed_off(self) -> bool:
        """Report the rest to the store and leave; True if the store took all of it. Each part may be repeated."""
        try:
            await self._outbox.empty()
            await self._reconciliation.settle()
            await self._outbox.empty()
            if self._begun:
                await self._attempts.start(self._lease.number, self._begun)
            await self._registration.leave()
        except Unavailable:
            return False
        return True
