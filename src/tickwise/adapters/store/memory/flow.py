"""Sequences of runs, and queues on hold."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from uuid import UUID

from tickwise.adapters.store.memory.state import Duty
from tickwise.domain.audit import AuditEntry
from tickwise.domain.decision import SkipReason
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import joined
from tickwise.domain.rules.sentences import SEQUENCE_PAUSED_SENTENCE
from tickwise.ports.store import (
    QUEUE_HELD,
    Completion,
    Incident,
    JobAction,
    NewRun,
    NewSkip,
    QueueHold,
    QueueRow,
    Successor,
)


class Completions(Duty):
    """`CompletionStore` of the port."""

    # ------------------------------------------------------------------------------------------- sequences

    async def pending(self, limit: int) -> Sequence[Completion]:
        return [each.completion for each in islice(self._state.completions.values(), limit)]

    async def commit(self, namespace: str, ends: Mapping[UUID, Sequence[Successor]]) -> int:
        made = 0
        for run_id, starts in ends.items():
            found = self._state.completions.get(run_id)
            if found is not None and found.completion.run.namespace == namespace:
                del self._state.completions[run_id]
                made += sum(self._succeed(namespace, start) for start in starts)
        return made

    def _succeed(self, namespace: str, start: Successor) -> bool:
        """Make what one job makes of it; whether that is a run."""
        state = self._state
        job = state.jobs.to_change(start.job_id)
        if job is None or job.namespace != namespace or job.standing is JobAction.CANCEL:
            return False
        if start.skip is not None:
            state.skip(job, start.skip)
        if start.run is None:
            return False
        if state.is_paused(job):
            state.skip(job, paused(start.run), origin=start.run.origin)
            return False
        return state.make(job, start.run)


class Queues(Duty):
    """`QueueStore` of the port."""

    # ------------------------------------------------------------------------------------------- queues

    async def hold(self, hold: QueueHold, *, audit: AuditEntry | None = None) -> QueueRow:
        self._state.check_open(hold.namespace, or_closing=False)
        now = self._state.now()
        stored = replace(hold, asked_at=now, begin=now if hold.begin is None else hold.begin)
        self._shorten(hold.namespace, hold.queue)
        self._state.queue_holds[hold.namespace, hold.queue] = stored
        end = math.inf if stored.until is None else stored.until
        incident = Incident(
            kind=QUEUE_HELD, begin=stored.begin or now, end=end, who=joined(hold.namespace, hold.queue)
        )  # fmt: skip
        self._state.incidents.setdefault((incident.kind, incident.begin, incident.who), incident)
        self._state.audit.write(audit)
        [row] = self._queues(hold.namespace, [hold.queue])
        return row

    async def resume(self, namespace: str, queue: str, *, audit: AuditEntry | None = None) -> bool:
        self._shorten(namespace, queue)
        hold = self._state.queue_holds.pop((namespace, queue), None)
        stood = hold is not None and not is_past(hold, self._state.now())
        if stood:
            self._state.audit.write(audit)
            for name in self._state.slots.names_in(namespace, queue):
                self._state.wake(name)
        return stood

    def _shorten(self, namespace: str, queue: str) -> None:
        """Let the record of a queue's hold end now, if it would end later."""
        hold, now = self._state.queue_holds.get((namespace, queue)), self._state.now()
        if hold is None or hold.begin is None:
            return
        name = (QUEUE_HELD, hold.begin, joined(namespace, queue))
        noticed = self._state.incidents.get(name)
        if noticed is not None and noticed.end > now:
            self._state.incidents[name] = replace(noticed, end=max(noticed.begin, now))

    async def all(self, namespace: str) -> Sequence[QueueRow]:
        named = {lane.queue for owner, lane in self._state.known if owner == namespace}
        held = {
            queue
            for (owner, queue), hold in self._state.queue_holds.items()
            if owner == namespace and not is_past(hold, self._state.now())
        }
        return self._queues(namespace, sorted(named | held))

    def _queues(self, namespace: str, queues: Sequence[str]) -> list[QueueRow]:
        """The present rows of these queues."""
        runs = Counter(
            (run.lane.queue, run.state) for run in self._state.runs.values() if run.job.namespace == namespace
        )
        rows = []
        for queue in queues:
            hold = self._state.queue_holds.get((namespace, queue))
            row = QueueRow(
                queue=queue,
                hold=None if hold is None or is_past(hold, self._state.now()) else hold,
                held=self._state.on_hold(namespace, queue),
                queued=runs[queue, RunState.QUEUED] + runs[queue, RunState.RETRYING],
                dispatched=runs[queue, RunState.DISPATCHED],
                running=runs[queue, RunState.RUNNING],
            )
            rows.append(row)
        return rows


def is_past(hold: QueueHold, now: float) -> bool:
    """Check whether a hold is over by its time."""
    return hold.until is not None and hold.until <= now


def paused(run: NewRun) -> NewSkip:
    """The record in place of a run whose job is paused."""
    nominal = run.due if run.nominal is None else run.nominal
    return NewSkip(
        run_id=run.run_id,
        nominal=nominal,
        until=nominal,
        occurrences=1,
        reason=SkipReason.PAUSED,
        error=SEQUENCE_PAUSED_SENTENCE,
        trigger=run.trigger,
    )
