"""Runs and their holders: claims, starts, finishes, each fenced by (executor, run, token)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush, nsmallest
from types import MappingProxyType
from typing import Final
from uuid import UUID

from tickwise.adapters.store.memory.limits import admit
from tickwise.adapters.store.memory.overlap import settle
from tickwise.adapters.store.memory.quotas import close_room, open_room
from tickwise.adapters.store.memory.records import ExecutorRecord, RunRecord, TimeQueue
from tickwise.adapters.store.memory.rows import ANSWER_CHARACTERS, Report, attempt_row, cancel_row, run_row
from tickwise.adapters.store.memory.state import Duty, after_pause
from tickwise.domain.audit import AuditEntry
from tickwise.domain.decision import SkipReason
from tickwise.domain.errors import Bug, NotFound
from tickwise.domain.lifecycle import CODES, STATES, CancelKind, RunEvent, RunState, move
from tickwise.domain.model import LATEST_INSTANT, Claimed, Lane, Outcome, Trigger
from tickwise.domain.observing.usage import NO_USAGE, NOT_MEASURED, UsageByRun
from tickwise.domain.retry import OnUnknown
from tickwise.domain.rules.confinement import is_below
from tickwise.domain.rules.repeats import is_repeat
from tickwise.domain.rules.requests import StopRequest
from tickwise.domain.rules.returns import claimable_at
from tickwise.domain.rules.sentences import REVOKED, cancelled_sentence
from tickwise.ports.store import (
    Began,
    ClaimRequest,
    FailureId,
    JobAction,
    NewRun,
    Ready,
    Receipt,
    Replay,
    RunCancel,
    RunMove,
    RunPostpone,
    not_postponable,
)
from tickwise.ports.store.quotas import Cost

PATIENCE_CLAIMS: Final = 10
"""Each executor's every tenth claim begins with the run that has waited longest."""

Head = tuple[int, bool, str, float, int, "ServedLane"]
"""The urgency of the first run of a lane, ending with its ticket, which no other has; and the lane."""

ServedLane = tuple[str, Lane, TimeQueue[RunRecord]]
"""A lane that an executor can take from: its namespace, what it is, and who waits in it."""

EVENTS: Final[Mapping[RunState, RunEvent]] = MappingProxyType(
    {
        RunState.SUCCESS: RunEvent.SUCCEEDED,
        RunState.FAILED: RunEvent.FAILED,
        RunState.CANCELLED: RunEvent.CANCELLED,
        RunState.SKIPPED: RunEvent.SKIPPED,
        RunState.RETRYING: RunEvent.RETRIED,
        RunState.QUEUED: RunEvent.RELEASED,
    }
)
"""The events that an executor may report, by the state that it names."""

LET_GO: Final = MappingProxyType({CODES[state]: state for state in (RunState.RETRYING, RunState.QUEUED)})
"""Outcomes that end an attempt and not its run: they are on record as attempts."""

FOLLOWED: Final = frozenset(CODES[state] for state in (RunState.SUCCESS, RunState.FAILED))
"""Outcomes that others may go on from."""


class RunCommands(Duty):
    """The changes of `RunStore` of the port."""

    # ------------------------------------------------------------------------------------------- by request

    async def add(
        self,
        namespace: str,
        job_id: UUID,
        runs: Sequence[NewRun],
        *,
        receipt: Receipt | None = None,
        audit: AuditEntry | None = None,
    ) -> bool | Replay:
        if (replay := self._state.replay(receipt)) is not None:
            return replay
        self._state.check_open(namespace)
        job = self._state.job(namespace, job_id)
        if job.standing is JobAction.CANCEL:
            return False
        room = open_room(self._state, namespace)
        if room is not None:
            known, ended = self._state.runs, self._state.ended
            new = {run.run_id for run in runs if run.run_id not in known and run.run_id not in ended}
            room.demand(Cost(runs=len(new)))
        if sum(self._state.make_now(job, run) for run in runs):
            self._state.audit.write(audit)
        close_room(self._state, namespace, room)
        self._state.keep(receipt)
        return True

    def _find(self, namespace: str, run_id: UUID) -> RunRecord | RunState:
        """An active run, or the final state of one that has ended. Raises `NotFound`."""
        ended = self._state.ended.get(run_id)
        if ended is not None and ended.row.namespace == namespace:
            return ended.row.state
        run = self._state.runs.get(run_id)
        if run is None or run.job.namespace != namespace:
            raise NotFound(f"there is no run {run_id}")
        return run

    async def move(self, move: RunMove, *, audit: AuditEntry | None = None) -> RunState:
        run = self._find(move.namespace, move.run_id)
        if isinstance(move, RunPostpone):
            postponed = self._postpone(run, move)
            self._state.audit.write(audit)
            return postponed
        if isinstance(run, RunState):
            return run
        held = run.held
        is_new = self._stop(run, move.by) if isinstance(move, RunCancel) else self._skip(run, move.error)
        if is_new:
            self._state.audit.write(audit)
        if held or not is_new:
            return run.state
        return RunState.CANCELLED if isinstance(move, RunCancel) else RunState.SKIPPED

    def _skip(self, run: RunRecord, error: str) -> bool:
        """Skip a run that has not begun; False: this changes nothing."""
        return not run.begun and self._state.drop_unstarted(run, SkipReason.REQUESTED, error)

    def _postpone(self, run: RunRecord | RunState, move: RunPostpone) -> RunState:
        if isinstance(run, RunState) or run.held or run.begun or run.blocked:
            raise not_postponable(move.run_id)
        run.due, run.waited_since = move.due, None
        in_pause = run.trigger == Trigger.SCHEDULE and self._state.is_paused(run.job)
        run.ready = after_pause(run) if in_pause else claimable_at(now=self._state.now(), due=move.due)
        run.settled = False
        run.slot = run.rate_key = None
        self._state.place(run)
        self._state.unblock(run.job)
        return run.state

    async def cancel_all(
        self, namespace: str, job_id: UUID, origin: UUID, *, principal: str, audit: AuditEntry | None = None
    ) -> int:
        job = self._state.jobs.get(job_id)
        if job is None or job.namespace != namespace:
            return 0
        runs = [run for run in job.runs.values() if run.origin == origin]
        changed = [self._stop(run, principal) for run in runs]
        if any(changed):
            self._state.audit.write(audit)
        return len(runs)

    def _stop(self, run: RunRecord, principal: str) -> bool:
        """End a free run at once, ask the holder of a held one; False: this was asked before."""
        request = StopRequest(CancelKind.CANCEL, self._state.now(), cancelled_sentence(principal))
        if not run.held:
            self._state.cancel(run, request)
            return True
        return run.ask(request)

    async def unblock(self) -> int:
        jobs = {run.job.job_id: run.job for run in self._state.runs.values() if run.blocked}
        unblocked = sum(self._state.unblock(job) for job in jobs.values())
        return unblocked + sum(self._state.wake(name, sweeping=True) for name in self._state.slots.names())

    # ------------------------------------------------------------------------------------------- figures

    async def waiting(self, ready_from: float, ready_to: float, limit: int) -> Sequence[Ready]:
        now = self._state.now()
        waiting = [
            Ready(run.run_id, run.ready, run.lane, run.job.namespace)
            for run in self._state.runs.values()
            if self._state.is_claimable(run) and now - ready_from <= run.ready < now - ready_to
        ]
        return nsmallest(limit, waiting, key=lambda run: (-run.lane.priority, run.ready))


class Attempts(Duty):
    """`AttemptStore` of the port."""

    # ------------------------------------------------------------------------------------------- claims

    async def claim(self, request: ClaimRequest) -> Sequence[Claimed]:
        executor = self._active(request.executor)
        if executor is None:
            return []
        if request.runs is not None:
            return self._claim_named(request, executor, request.runs)
        now = self._state.now()
        caller = (request.executor, tuple(request.queues), tuple(request.labels))
        self._state.claims[caller] += 1
        lanes = self._served(request, executor)
        claims: list[Claimed] = []
        if self._state.claims[caller] % PATIENCE_CLAIMS == 0 and request.limit > 0:
            claims += self._take(lanes, executor, until=now, limit=1, by_priority=False)
        until = now + request.ahead_seconds
        claims += self._take(lanes, executor, until=until, limit=request.limit - len(claims), by_priority=True)
        return claims

    def _claim_named(self, request: ClaimRequest, executor: ExecutorRecord, runs: Sequence[UUID]) -> Sequence[Claimed]:
        until = self._state.now() + request.ahead_seconds
        served = {(namespace, lane) for namespace, lane, _ in self._served(request, executor)}
        claims: list[Claimed] = []
        characters = 0
        for run_id in runs:
            if characters >= ANSWER_CHARACTERS:
                break
            run = self._state.runs.get(run_id)
            if len(claims) >= request.limit or run is None or not self._state.is_claimable(run) or run.ready > until:
                continue
            if (run.job.namespace, run.lane) in served:
                self._state.hold(run, executor)
                claims.append(claimed(run, self._state.now()))
                characters += len(claims[-1].spec)
        return claims

    def _active(self, number: int) -> ExecutorRecord | None:
        """The executor, if its lease stands."""
        executor = self._state.executors.get(number)
        if executor is None or executor.gone_at is not None or executor.lease_until <= self._state.now():
            return None
        return executor

    def _served(self, request: ClaimRequest, executor: ExecutorRecord) -> list[ServedLane]:
        """The lanes that this executor can take from."""
        labels, bound = set(request.labels), executor.said.namespaces
        return [
            (namespace, lane, queue)
            for (namespace, lane), queue in self._state.lanes.items()
            if lane.queue in request.queues
            and labels.issuperset(lane.requires)
            and not self._state.on_hold(namespace, lane.queue)
            and (bound is None or namespace in bound)
            and not is_below(lane.requires, self._state.quotas_of(namespace).least_isolation)
        ]

    def _take(
        self, lanes: Sequence[ServedLane], executor: ExecutorRecord, *, until: float, limit: int, by_priority: bool
    ) -> list[Claimed]:
        """Take the runs at the heads of lanes, the most urgent first: by priority, the namespaces in turn, by waiting
        time."""
        turn = self._state.turns.get(executor.number, "")

        def head(namespace: str, lane: Lane, queue: TimeQueue[RunRecord]) -> Iterator[Head]:
            first = queue.first()
            if first is not None and first[0] <= until:
                urgency = (-lane.priority, namespace <= turn, namespace) if by_priority else (0, False, "")
                yield *urgency, first[0], first[1].place, (namespace, lane, queue)

        heads = [each for served in lanes for each in head(*served)]
        heapify(heads)
        claims: list[Claimed] = []
        stopped: list[RunRecord] = []
        characters = 0
        while heads and len(claims) < limit and characters < ANSWER_CHARACTERS:
            *_, served = heappop(heads)
            namespace, _, queue = served
            if by_priority and not claims:
                self._state.turns[executor.number] = namespace
            run = queue.pop()
            if self._state.is_stopped(run.job):
                stopped.append(run)
            else:
                self._state.hold(run, executor)
                claims.append(claimed(run, self._state.now()))
                characters += len(claims[-1].spec)
            for following in head(*served):
                heappush(heads, following)
        for run in stopped:
            self._state.place(run)
        return claims

    # ------------------------------------------------------------------------------------------- reports

    def _held(self, executor: int, run_id: UUID, token: int) -> RunRecord | None:
        """The run, if this executor holds it under this token."""
        run = self._state.runs.get(run_id)
        return run if run is not None and (run.executor, run.token) == (executor, token) else None

    async def start(self, executor: int, starts: Sequence[Began]) -> Sequence[UUID]:
        refused: list[UUID] = []
        for began in starts:
            check_instants(began.run_id, began.started)
        for began in sorted(starts, key=self._turn):
            run = self._held(executor, began.run_id, began.token)
            if run is None or (run.state is RunState.DISPATCHED and not self._start(run, began)):
                refused.append(began.run_id)
        return refused

    def _turn(self, began: Began) -> tuple[bool, float, UUID]:
        """The order of several starts in one call: those whose overlap is open last, the longest ready first."""
        run = self._state.runs.get(began.run_id)
        return run is not None and run.open, 0.0 if run is None else run.ready_since, began.run_id

    def _start(self, run: RunRecord, began: Began) -> bool:
        """A held run begins, unless its queue, a stop, an earlier run of its job or its gate is against it."""
        # An ordinary start is told of when the task is under way, and what has begun goes on.
        first = run.guarded or run.open or began.on_unknown is not OnUnknown.RERUN or began.gate is not None
        if first and self._state.stands_still(run):
            self._state.release(run, RunEvent.RELEASED)
            return False
        asks = run.guarded or run.open or began.gate is not None
        if run.open and not settle(self._state, run):
            return False
        # A start that is told of late has begun; the quota of now does not count.
        quota = self._state.quotas_of(run.job.namespace).concurrent_runs if asks else None
        gated = began.gate is not None or run.limit_key is not None or run.slot is not None or quota is not None
        if gated and not admit(self._state, run, began.gate, quota):
            return False
        run.state = move(run.state, RunEvent.STARTED)
        run.started, run.on_unknown = began.started, began.on_unknown
        self._state.noted(run)
        return True

    async def finish(self, executor: int, outcomes: Sequence[Outcome], usage: UsageByRun = NO_USAGE) -> Sequence[UUID]:
        for outcome in outcomes:  # All are judged before any is recorded: a bug records nothing.
            event = event_of(outcome)
            check_instants(outcome.run_id, outcome.started, outcome.ended, outcome.retry_at)
            run = self._held(executor, outcome.run_id, outcome.token)
            if run is not None:
                move(run.state, event)
        return [outcome.run_id for outcome in outcomes if not self._finish(executor, outcome, usage)]

    def _finish(self, executor: int, outcome: Outcome, usage: UsageByRun) -> bool:
        run = self._held(executor, outcome.run_id, outcome.token)
        if run is None:
            return self._was_recorded(executor, outcome)
        event = event_of(outcome)
        if event in (RunEvent.RELEASED, RunEvent.RETRIED):
            self._put_back(run, event, outcome, usage)
        else:
            report = report_of(outcome, usage)
            if event is RunEvent.CANCELLED and run.cancelling:
                report = replace(report, cancel=cancel_row(run.request))
            run.failures += event is RunEvent.FAILED
            self._state.end(run, event, report)
        return True

    def _put_back(self, run: RunRecord, event: RunEvent, outcome: Outcome, usage: UsageByRun) -> None:
        """Queue the run again, plan its retry, or end it by request. An attempt that began stays on record."""
        report, state = report_of(outcome, usage), move(run.state, event)
        run.failures += event is RunEvent.RETRIED
        if event is RunEvent.RELEASED and outcome.started <= 0:
            # A start that is recorded first may have been so for nothing.
            run.state, run.started = RunState.DISPATCHED, None
        if run.state is RunState.RUNNING or event is RunEvent.RETRIED:
            run.attempts = (*run.attempts, attempt_row(run, state, report))
        if event is RunEvent.RETRIED:
            self._state.failures[FailureId(run.run_id, run.token)] = False
            if run.job.namespace in self._state.notices_retries:
                row = run_row(run, RunState.RETRYING, report)
                self._state.note_event(row, run.token, report.ended, report.error)
        run.waited_since = None
        self._state.release(run, event, outcome.retry_at)

    def _was_recorded(self, executor: int, outcome: Outcome) -> bool:
        """Check whether this attempt's outcome is on record already: then it is accepted again."""
        ended = self._state.ended.get(outcome.run_id)
        if ended is not None and (ended.row.executor, ended.token) == (executor, outcome.token):
            row = ended.row
            return is_repeat(STATES[outcome.state], outcome.reason, row.state, row.reason)
        run = self._state.runs.get(outcome.run_id)
        attempts = ended.attempts if ended is not None else run.attempts if run is not None else ()
        let_go = LET_GO.get(outcome.state)
        return let_go is not None and any(
            (attempt.executor, attempt.token) == (executor, outcome.token)
            and is_repeat(let_go, outcome.reason, attempt.state, attempt.reason)
            for attempt in attempts
        )


def event_of(outcome: Outcome) -> RunEvent:
    """The event of an outcome. A revoked run was given back, and is forgotten if that still is what is wanted."""
    state = STATES.get(outcome.state)
    if state is RunState.SKIPPED and outcome.reason == REVOKED:
        return RunEvent.RELEASED
    event = EVENTS.get(state) if state is not None else None
    if event is None:
        raise Bug(f"an attempt of the run {outcome.run_id} cannot be reported as {state or outcome.state}")
    return event


def check_instants(run_id: UUID, *instants: float | None) -> None:
    """Raise `Bug` for an instant that is none."""
    for instant in instants:
        if instant is not None and not -LATEST_INSTANT < instant < LATEST_INSTANT:
            raise Bug(f"{instant} is no instant that an attempt of the run {run_id} can have")


def report_of(outcome: Outcome, usage: UsageByRun = NO_USAGE) -> Report:
    """The stored part of an outcome."""
    return Report(
        started=outcome.started if outcome.started > 0 else None,
        ended=outcome.ended,
        reason=outcome.reason,
        error=outcome.error,
        result=outcome.result,
        reported=True,
        follow=outcome.follow and outcome.state in FOLLOWED,
        usage=usage.get(outcome.run_id, NOT_MEASURED),
    )


def claimed(run: RunRecord, now: float) -> Claimed:
    """A run just taken, as its executor hears of it."""
    return Claimed(
        run_id=run.run_id,
        token=run.token,
        job_id=run.job.job_id,
        namespace=run.job.namespace,
        attempt=run.attempt,
        failures=run.failures,
        crashes=run.crashes,
        guarded=run.guarded or run.open,
        due=run.due,
        nominal=run.nominal,
        ready=run.ready,
        trigger=run.trigger,
        spec=run.job.definition if run.definition is None else run.definition,
        now=now,
    )
