"""Fires: near one-time jobs become runs, all others are handed to one scheduler at a time for a decision."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from heapq import nsmallest
from typing import Final
from uuid import UUID

from tickwise.adapters.store.memory.quotas import give_back_runs
from tickwise.adapters.store.memory.records import BatchRecord, TimeQueue, TimerRecord
from tickwise.adapters.store.memory.rows import fitting
from tickwise.adapters.store.memory.state import Duty
from tickwise.domain.decision import SkipReason
from tickwise.domain.errors import StoreUnavailable
from tickwise.domain.model import Trigger
from tickwise.ports.store import (
    BATCH_SECONDS,
    Fire,
    FireBatch,
    Fired,
    FireRequest,
    JobAction,
    NewRun,
    Ready,
    Timer,
)

MINUTE_SECONDS: Final = 60
SPEC_BYTES: Final = 8_192
"""A fire copies definitions up to this size into the runs of one-time jobs, in the other store."""
FUSE: Final = "fuse"
"""The name of the fuse, which pauses a job whose schedule makes too many runs."""


class TimerCommands(Duty):
    """`TimerStore` of the port, but for its repair."""

    async def fire(self, horizon_seconds: float, limit: int, *, named: bool = False, traced: bool = False) -> Fired:
        fired = self._near(self._state.one_time, horizon_seconds, limit)
        made = [timer.run_id for timer in fired if self._fire(timer) and timer.run_id is not None]
        runs = [self._state.runs[run_id] for run_id in made] if named else []
        texts = {run.run_id: run.job.definition for run in runs} if traced else {}
        return Fired(
            len(fired),
            [Ready(run.run_id, run.ready, run.lane, run.job.namespace) for run in runs],
            {
                run_id: text
                for run_id, text in texts.items()
                if '"traceparent"' in text and len(text.encode()) <= SPEC_BYTES
            },
        )

    def _fire(self, timer: TimerRecord) -> bool:
        """A timer of a one-time job becomes its run, unless that is there."""
        self._state.drop_timer(timer.job)
        if timer.run_id is None:
            return False
        return self._state.make(timer.job, NewRun(timer.run_id, timer.pending.due, Trigger.SCHEDULE))

    async def take(self, request: FireRequest) -> FireBatch:
        state = self._state
        self._expire()
        due = self._due(request) if request.other_zone_data_than is None else self._outdated(request)
        found = fitting(due, lambda timer: timer.job.definition)
        batch_id = next(state.batch_numbers)
        if found:
            state.batches[batch_id] = BatchRecord({timer.job.job_id: timer for timer in found}, state.now(), {})
            state.taken.update(map(id, found))
        return FireBatch(
            batch_id,
            state.now(),
            state.rules_version,
            [
                Timer(
                    job_id=timer.job.job_id,
                    namespace=timer.job.namespace,
                    pending=timer.pending,
                    definition=timer.job.definition,
                    labels=dict(timer.job.labels),
                    run_id=timer.run_id,
                    lane=timer.job.lane,
                )
                for timer in found
            ],
        )

    async def commit(self, batch_id: int, fires: Sequence[Fire]) -> int:
        self._expire()
        batch = self._end(batch_id)
        if batch is None and fires:
            raise StoreUnavailable("the batch of timers is over: nothing was fired; take the timers again")
        return 0 if batch is None else sum(self._commit(batch, fire) for fire in fires)

    async def release(self, batch_id: int) -> None:
        self._abandon(batch_id)

    def _abandon(self, batch_id: int) -> None:
        """End a batch without a commit."""
        batch = self._end(batch_id)
        if batch is not None:
            give_back_runs(self._state, batch.runs)

    def _end(self, batch_id: int) -> BatchRecord | None:
        """Let others have the timers of a batch."""
        batch = self._state.batches.pop(batch_id, None)
        if batch is not None:
            self._state.taken.difference_update(map(id, batch.timers.values()))
        return batch

    def _expire(self) -> None:
        """End the batches whose time has passed."""
        since = self._state.now() - BATCH_SECONDS
        for batch_id in [number for number, batch in self._state.batches.items() if batch.taken_at < since]:
            self._abandon(batch_id)

    def _commit(self, batch: BatchRecord, fire: Fire) -> int:
        timer = batch.timers.get(fire.job_id)
        if timer is None or timer.job.timer is not timer or timer.pending.due != fire.due:
            return 0
        job = timer.job
        self._state.move_timer(job, fire.timer, zone_data=fire.zone_data)
        goes_on = math.inf if fire.timer is None else fire.timer.due if fire.timer.since is None else fire.timer.since
        runs = sorted(fire.runs, key=lambda run: (run.due, run.run_id))
        made = sum(self._state.make(job, run, settled_by=goes_on) for run in runs)
        for skip in fire.skips:
            if skip.reason == SkipReason.PAUSED and job.standing is JobAction.PAUSE:
                by = f" by {job.paused_by}" if job.paused_by is not None else ""
                why = f": {job.pause_reason}" if job.pause_reason is not None else ""
                skip = skip._replace(error=f"{skip.error}{by}{why}")
            self._state.skip(job, skip)
        if fire.park is not None:
            self._state.pause(job, reason=fire.park, until=None, by=FUSE)
        return made

    def _due(self, request: FireRequest) -> list[TimerRecord]:
        """The timers that are due within the horizon and not taken, the earliest first."""
        state = self._state
        queues = [state.decided, state.one_time] if request.once else [state.decided]
        near = (
            timer
            for queue in queues
            for timer in self._near(queue, request.horizon_seconds, request.limit, frozenset(request.without))
        )
        return self._earliest(near, request.limit)

    def _outdated(self, request: FireRequest) -> list[TimerRecord]:
        """Due after the horizon, and computed with other zone data."""
        until = self._state.now() + request.horizon_seconds
        return self._earliest(
            (
                timer
                for timer in self._state.timers()
                if timer.zone_data not in (None, request.other_zone_data_than)
                and timer.pending.hold is None
                and timer.pending.due > until
                and (request.once or timer.run_id is None)
                and id(timer) not in self._state.taken
            ),
            request.limit,
        )

    def _earliest(self, timers: Iterator[TimerRecord], limit: int) -> list[TimerRecord]:
        return nsmallest(limit, timers, key=lambda timer: timer.pending.due)

    def _near(
        self,
        queue: TimeQueue[TimerRecord],
        horizon_seconds: float,
        limit: int,
        without: AbstractSet[UUID] = frozenset(),
    ) -> list[TimerRecord]:
        """The earliest that are due within the horizon and that no scheduler has. They stay in the queue."""
        until = self._state.now() + horizon_seconds
        taken = self._state.taken
        seen = queue.earliest(limit + len(taken) + len(without), until)
        return [timer for timer in seen if id(timer) not in taken and timer.job.job_id not in without][:limit]

    async def count(self, counts: Mapping[str, int]) -> Mapping[str, int]:
        state = self._state
        minute = int(state.now() // MINUTE_SECONDS)
        if minute != state.minute:
            state.minute = minute
            state.fires_in_minute.clear()
        state.fires_in_minute.update(counts)
        return {namespace: state.fires_in_minute[namespace] for namespace in counts}
