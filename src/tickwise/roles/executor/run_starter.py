"""From the claim to the runner: held until due, then begun; guarded ones only after the store has said yes.

    taken ──► due now? ──► launch ──► guarded? ──no──► runner
                │no          ▲           │yes
                ▼            │           └──► start recorded ──► accepted ──► runner
               heap ── due ──┘                     ▲   └────────► refused: forgotten, somebody else's by now
                                                   └── any failure: said again; only the store's word ends it

Invariants: nothing is given to a runner before its due time on the store's clock, nor unless our lease stands at that
very moment; a guarded run is given to it only after its start is on record.
"""

from __future__ import annotations

import asyncio
import collections
import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import structlog

from tickwise.observability.tracing import DECIDING_BITS
from tickwise.ports.clock import Clock
from tickwise.ports.identity.tokens import TokenFault
from tickwise.ports.runner import Assignment, Ending, Verdict
from tickwise.ports.store import AttemptStore, Began
from tickwise.roles.executor.capacity import RunnerCapacity
from tickwise.roles.executor.held_runs import HeldRun, HeldRuns, RunStage
from tickwise.roles.executor.identity import AttemptTokens, without_token
from tickwise.roles.executor.lease import Lease
from tickwise.roles.executor.outcomes import expired, is_expired, is_too_late, too_late
from tickwise.roles.executor.run_log import RunLog
from tickwise.roles.executor.run_traces import RunTraces
from tickwise.roles.executor.settlement import RunSettlement
from tickwise.roles.executor.store_clock import StoreClock
from tickwise.roles.shared.service import IDLE_SECONDS, is_cancelled

LAUNCH_BATCH: Final = 500
"""Held runs started at once before other tasks get a turn."""
FINE_SECONDS: Final = 0.0015
"""Timers of the event loop are exact to a millisecond: the last stretch to a due time is slept in such steps."""
GUARD_RETRY_SECONDS: Final = 0.5
"""Between two tries to record the start of a guarded run."""
LEASE_LOOK_SECONDS: Final = 0.02
"""The interval of looks whether the lease is good again."""
_LAUNCHED: Final = RunStage.LAUNCHED

logger = structlog.get_logger("tickwise.executor")


class RunStarter:
    """Starts the runs that one executor holds."""

    def __init__(
        self,
        *,
        attempts: AttemptStore,
        clock: Clock,
        time: StoreClock,
        lease: Lease,
        held_runs: HeldRuns,
        settlement: RunSettlement,
        run_log: RunLog | None = None,
        traces: RunTraces | None = None,
        tokens: AttemptTokens | None = None,
    ) -> None:
        self.changed = asyncio.Event()
        """Set when something is held that was not before."""
        self._attempts = attempts
        self._clock = clock
        self._time = time
        self._lease = lease
        self._held_runs = held_runs
        self._settlement = settlement
        self._run_log = run_log
        self._traces = traces
        self._tokens = tokens or AttemptTokens(None, clock=clock, held_runs=held_runs)
        self._heap: list[tuple[float, int, HeldRun]] = []
        self._order = itertools.count()
        # A dict, because sets of tasks have another order in each process, and a simulation none of its own.
        self._starting: dict[asyncio.Task[None], None] = {}

    def forget(self) -> None:
        """Drop all runs that wait for their due time: the store expired the executor."""
        self._heap.clear()

    def stop(self) -> None:
        """Cancel the starts that wait for the store."""
        for task in [*self._starting]:
            task.cancel()

    def take(self, claimed: Iterable[HeldRun]) -> None:
        """Claimed runs: those that are due go on at once, the others are held."""
        now = self._time.now()
        due: list[HeldRun] = []
        waiting = False
        for held in claimed:
            run = held.claimed
            if run.due <= now and run.ready <= now:
                due.append(held)
            else:
                # A retry is ready after its backoff, long after it was due; it is claimed ahead as well.
                self._hold(held, max(run.due, run.ready))
                waiting = True
                if held.capacity.prepare is not None:
                    held.capacity.prepare(held.assignment())
        if due:
            self._launch(due)
        if waiting:
            self.changed.set()

    def _hold(self, held: HeldRun, start_at: float) -> None:
        heapq.heappush(self._heap, (start_at, next(self._order), held))

    async def launch_due(self) -> float:
        """Start the runs that are due; return the time to the next."""
        heap = self._heap
        if not heap:
            return IDLE_SECONDS
        if not self._lease.stands():
            # Another executor may have these runs by now. The next heartbeat shows it.
            await self._clock.sleep(LEASE_LOOK_SECONDS)
            return 0.0
        now = self._time.now()
        due: list[HeldRun] = []
        while heap and heap[0][0] <= now and len(due) < LAUNCH_BATCH:
            held = heapq.heappop(heap)[2]
            if held.stage is RunStage.HOLDING and self._held_runs.holds(held):
                due.append(held)
        if due:
            self._launch(due)
            return 0.0
        if not heap:
            return IDLE_SECONDS
        gap = heap[0][0] - now
        return gap - FINE_SECONDS if gap > 2 * FINE_SECONDS else 0.001

    def _launch(self, batch: Iterable[HeldRun]) -> None:
        if not self._lease.stands():
            for held in batch:
                self._hold(held, 0.0)
            self.changed.set()
            return
        groups: dict[RunnerCapacity, list[Assignment]] = collections.defaultdict(list)
        guarded: list[HeldRun] = []
        named: list[HeldRun] = []
        launched: list[HeldRun] = []
        lines = 0 if self._run_log is None else self._run_log.starts_room
        for held in batch:
            if held.claimed.failures and is_too_late(held, now := self._time.now()):
                self._settlement.settle(held, too_late(held, now))
                continue
            if held.body.work.start_deadline_seconds is not None and is_expired(held, now := self._time.now()):
                self._settlement.settle(held, expired(held, now))
                continue
            capacity = held.capacity
            capacity.held -= 1
            capacity.launched += 1
            if held.guarded:
                held.stage = RunStage.STARTING
                guarded.append(held)
                continue
            if held.body.token_wish is not None:
                held.stage = RunStage.STARTING
                named.append(held)
                continue
            held.stage = _LAUNCHED
            groups[capacity].append(self._assignment(held))
            if len(launched) < lines:
                launched.append(held)
        if self._run_log is not None:
            self._run_log.launched(launched, sum(map(len, groups.values())), self._time.now())
        for capacity, assignments in groups.items():
            capacity.runner.launch(assignments)
        for work in (guarded and self._launch_guarded(guarded), named and self._launch_named(named)):
            if work:
                task = asyncio.create_task(work)
                self._starting[task] = None
                task.add_done_callback(self._starting.pop)

    async def _launch_guarded(self, batch: Sequence[HeldRun]) -> None:
        """Record the start, fenced, and begin only what the store accepted."""
        while True:
            now = self._time.now()
            batch = [*self._ours(batch)]
            begun = [
                Began(held.claimed.run_id, held.claimed.token, now, held.work.on_unknown, held.gate()) for held in batch
            ]
            try:
                refused = set(await self._attempts.start(self._lease.number, begun)) if begun else set()
                break
            except Exception as failure:  # noqa: BLE001  # after any failure only the store's answer can end this
                if is_cancelled():
                    return
                # It may be on record. Only a repeated call can tell. An expiry of this executor ends the loop too.
                logger.warning("start_unrecorded", runs=len(batch), detail=str(failure))
                await self._clock.sleep(GUARD_RETRY_SECONDS)
        await self._until_lease_stands(batch)
        for held in self._ours(batch):
            if held.claimed.run_id in refused:
                # The run has another holder by now, or waits for another run, a slot or its rate, or is skipped: no
                # error, and no outcome to report.
                self._held_runs.forget(held)
                self._held_runs.idle.set()
            elif held.cancelling:
                self._settlement.end(held, Ending(Verdict.CANCELLED, now, now, "cancelled"))
            elif held.body.token_wish is None:
                self._begin(held, self._assignment(held))
        await self._launch_named([held for held in self._ours(batch) if held.stage is RunStage.STARTING])

    async def _launch_named(self, batch: Sequence[HeldRun]) -> None:
        """Sign the identity tokens of these runs, then begin them."""
        if not batch:
            return
        signed = await asyncio.gather(*map(self._tokens.sign, batch))
        await self._until_lease_stands(batch)
        now = self._time.now()
        for held, token in zip(batch, signed, strict=True):
            if not self._held_runs.holds(held):
                continue
            if held.cancelling:
                self._settlement.end(held, Ending(Verdict.CANCELLED, now, now, "cancelled"))
            elif isinstance(token, TokenFault):
                self._settlement.end(held, without_token(token, now))
            else:
                self._begin(held, self._assignment(held)._replace(identity_token=token.text))
                self._tokens.begun(held, token)

    def _begin(self, held: HeldRun, assignment: Assignment) -> None:
        held.stage = _LAUNCHED
        if self._run_log is not None:
            self._run_log.launched([held], 1, self._time.now())
        held.capacity.runner.launch([assignment])

    async def _until_lease_stands(self, batch: Sequence[HeldRun]) -> None:
        """Wait while an answer took so long that the store may have expired this executor: no run begins twice."""
        while not self._lease.stands() and any(self._ours(batch)):
            await self._clock.sleep(LEASE_LOOK_SECONDS)

    def _assignment(self, held: HeldRun) -> Assignment:
        """As its runner takes it, in its place of the trace if it is recorded."""
        traces = self._traces
        # Decided here by its id, because nearly every run ends with this look.
        if traces is not None and (
            held.claimed.run_id.int & DECIDING_BITS < traces.bound or held.body.work.traceparent is not None
        ):
            traces.launch(held)
        return held.assignment()

    def _ours(self, batch: Sequence[HeldRun]) -> Iterator[HeldRun]:
        return (held for held in batch if self._held_runs.holds(held))
