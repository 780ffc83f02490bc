"""Records the starts of attempts that have run for a while, in batches.

    began ──► waiting ──(50 ms)──► attempts.start ──► accepted: on record
                                        └──────────► refused: the attempt is stale, and its task is killed

The start of a guarded run does not come here: `run_starter.py` records it before the task begins.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from tickwise.ports.clock import Clock
from tickwise.ports.store import AttemptStore, Began
from tickwise.roles.executor.held_runs import HeldRuns
from tickwise.roles.executor.lease import Lease
from tickwise.roles.shared.service import IDLE_SECONDS

GATHER_SECONDS: Final = 0.05
"""The time for which starts are gathered before they are recorded."""

logger = structlog.get_logger("tickwise.executor")


class StartRecords:
    """The starts that one executor has yet to record."""

    def __init__(self, *, attempts: AttemptStore, clock: Clock, lease: Lease, held_runs: HeldRuns) -> None:
        self.more = asyncio.Event()
        """Set when a start waits."""
        self._attempts = attempts
        self._clock = clock
        self._lease = lease
        self._held_runs = held_runs
        self._waiting: list[Began] = []

    def add(self, began: Began) -> None:
        """Take in a start that is worth recording."""
        self._waiting.append(began)
        self.more.set()

    async def send(self) -> float:
        """Record all starts that wait, and abandon the attempts that the store refuses.

        The store refuses by run. So the start of an older attempt must not go with the start of the attempt that is
        held now: its refusal would be taken for a refusal of both.
        """
        await self._clock.sleep(GATHER_SECONDS)
        batch, self._waiting = self._waiting, []
        batch = [began for began in batch if self._held_runs.holds_attempt(began.run_id, began.token)]
        if not batch:
            return IDLE_SECONDS
        try:
            refused = set(await self._attempts.start(self._lease.number, batch))
        except BaseException:
            self._waiting = batch + self._waiting
            raise
        for began in batch:
            if began.run_id in refused and self._held_runs.holds_attempt(began.run_id, began.token):
                logger.warning("attempt_stale", run_id=str(began.run_id), executor=self._lease.number)
                self._held_runs.abandon(self._held_runs.live[began.run_id])
        return IDLE_SECONDS

    def forget(self) -> None:
        """Drop all starts: the store expired the executor."""
        self._waiting.clear()
