"""Fires: near one-time jobs become runs, recurring ones are handed to one scheduler at a time for a decision."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

from tickwise.adapters.store.memory.records import TimeQueue, TimerRecord
from tickwise.adapters.store.memory.state import Duty, State
from tickwise.domain.model import Trigger
from tickwise.ports.store import Fire, FireBatch, NewRun, Timer


class Batch:
    """The port `FireBatch`: timers that one scheduler has taken."""

    def __init__(self, state: State, taken: Sequence[TimerRecord]) -> None:
        self._state = state
        self._taken: dict[UUID, TimerRecord] = {timer.job.job_id: timer for timer in taken}
        self.now = state.now()
        self.timers = [
            Timer(
                job_id=timer.job.job_id, namespace=timer.job.namespace, due=timer.due, definition=timer.job.definition
            )
            for timer in taken
        ]

    async def commit(self, fires: Sequence[Fire]) -> int:
        return sum(self._commit(fire) for fire in fires)

    def _commit(self, fire: Fire) -> int:
        timer = self._taken.get(fire.job_id)
        if timer is None or timer.job.timer is not timer or timer.due != fire.due:
            return 0
        if fire.next_due is None:
            self._state.drop_timer(timer.job)
        else:
            self._state.set_timer(timer.job, fire.next_due, None)
        return sum(self._state.make(timer.job, run) for run in fire.runs)


class Timers(Duty):
    """The timers' part of the port `Runs`."""

    async def timers_fire(self, horizon_seconds: float, limit: int) -> int:
        fired = list(self._near(self._state.one_time, horizon_seconds, limit))
        for timer in fired:
            self._state.drop_timer(timer.job)
            if timer.run_id is not None:
                self._state.make(timer.job, NewRun(timer.run_id, timer.due, Trigger.SCHEDULE))
        return len(fired)

    @asynccontextmanager
    async def fires(self, horizon_seconds: float, limit: int) -> AsyncIterator[FireBatch]:
        found: list[TimerRecord] = []
        passed: list[TimerRecord] = []
        for timer in self._near(self._state.recurring, horizon_seconds, limit + len(self._state.taken)):
            taken_or_over = id(timer) in self._state.taken or len(found) >= limit
            (passed if taken_or_over else found).append(timer)
        for timer in [*found, *passed]:
            self._state.recurring.push(timer.due, timer)
        # The batch keeps its timers alive, so that no other object can get one of these identities meanwhile.
        mine = {id(timer) for timer in found}
        self._state.taken |= mine
        try:
            yield Batch(self._state, found)
        finally:
            self._state.taken -= mine

    def _near(self, queue: TimeQueue[TimerRecord], horizon_seconds: float, limit: int) -> Iterator[TimerRecord]:
        """Take out the earliest that are due within the horizon."""
        until = self._state.now() + horizon_seconds
        for _ in range(limit):
            head = queue.first()
            if head is None or head[0] > until:
                return
            yield queue.pop()
