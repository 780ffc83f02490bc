"""Takes the reports of the runners, and turns the end of each held run into an outcome in the outbox.

    runner ── began ──────► start_records
           ── ended ──────► RunSettlement.end ──► outcome_of ──┐
    never begun (cancelled, drained) ───────────────────────┴──► settle ──► run log ──► outbox
           ── ended_many ─► outbox, in one call for all tasks that succeeded

Each report first looks at the lease (`lease_watch.py`): a runner reports an end before it begins its next task.
Invariant: a run that is settled is held no more, and has exactly one outcome in the outbox.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from tickwise.domain.model import Outcome
from tickwise.domain.observing.usage import ResourceUsage
from tickwise.ports.clock import Clock
from tickwise.ports.runner import Ending, Verdict
from tickwise.ports.store import Began
from tickwise.roles.executor.circuit_record import CircuitRecord
from tickwise.roles.executor.held_runs import HeldRun, HeldRuns
from tickwise.roles.executor.lease import Lease
from tickwise.roles.executor.lease_watch import LeaseWatch
from tickwise.roles.executor.outbox import Outbox
from tickwise.roles.executor.outcomes import KILLED, SUCCESS, given_back, outcome_of
from tickwise.roles.executor.run_log import RunLog
from tickwise.roles.executor.run_traces import RunTraces
from tickwise.roles.executor.start_records import StartRecords
from tickwise.roles.executor.store_clock import StoreClock
from tickwise.roles.shared.service import Telemetry

_OK: Final = Verdict.OK
_new = tuple.__new__
"""A named tuple without the steps of its constructor, for tens of thousands of outcomes a second."""


class RunSettlement:
    """Settles the runs that one executor holds."""

    def __init__(
        self,
        *,
        clock: Clock,
        time: StoreClock,
        held_runs: HeldRuns,
        outbox: Outbox,
        circuits: CircuitRecord | None = None,
        run_log: RunLog | None = None,
        traces: RunTraces | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._traces = traces
        self._telemetry = telemetry
        self._clock = clock
        self._time = time
        self._held_runs = held_runs
        self._outbox = outbox
        self._circuits = circuits
        self._run_log = run_log

    def end(self, held: HeldRun, ending: Ending) -> None:
        """Settle a run whose attempt ended."""
        if held.claimed.attempt == 1:
            self._outbox.late(ending.started - held.claimed.due)
        if ending.verdict is Verdict.UNOFFERED and self._circuits is not None:
            self._circuits.add(held.claimed.namespace, ending)
        usage = ending.usage
        if usage is not None and not usage.is_plausible:
            usage = None
        if usage is not None and self._telemetry is not None:
            self._telemetry.used(held.body.kind, usage)
        self.settle(held, outcome_of(held, ending, self._clock.chance()), usage)

    def settle(self, held: HeldRun, outcome: Outcome, usage: ResourceUsage | None = None) -> None:
        """Settle a run with this outcome, which waits for the store from now on."""
        self._held_runs.forget(held)
        if self._run_log is not None:
            self._run_log.ended(held, outcome)
        if held.trace is not None and self._traces is not None:
            self._outbox.trace(outcome, self._traces.ended(held, outcome))
        self._outbox.add(outcome, held.capacity, urgent=held.is_urgent(), usage=usage)

    def give_back(self, batch: Iterable[HeldRun]) -> None:
        """Settle runs that have not begun here: they are queued again."""
        now = self._time.now()
        for held in batch:
            self.settle(held, given_back(held, now))


class RunReports:
    """The `Reports` that the runners of one executor call."""

    def __init__(
        self,
        *,
        lease: Lease,
        lease_watch: LeaseWatch,
        held_runs: HeldRuns,
        starts: StartRecords,
        settlement: RunSettlement,
        outbox: Outbox,
        run_log: RunLog | None = None,
        traces: RunTraces | None = None,
    ) -> None:
        self._traces = traces
        self._lease = lease
        self._lease_watch = lease_watch
        self._held_runs = held_runs
        self._starts = starts
        self._settlement = settlement
        self._outbox = outbox
        self._run_log = run_log

    def began(self, run_id: UUID, started: float) -> None:
        """Queue the start of a task that has run for a while. It is recorded with the next batch."""
        self._lease_watch.release_late()
        held = self._held_runs.live.get(run_id)
        if held is not None and not held.guarded:
            self._starts.add(Began(run_id, held.claimed.token, started))

    def ended_many(self, endings: Sequence[tuple[UUID, Ending]]) -> None:
        """Queue the outcomes of many tasks. Successes of quick functions are the bulk of a busy executor's work: they
        go straight to the outbox, without the calls that other endings take."""
        self._lease_watch.release_late()
        live, done, late, urgent = self._held_runs.live, [], [], False
        logged: list[tuple[HeldRun, float]] = []
        lines = 0 if self._run_log is None else self._run_log.ends_room
        for run_id, ending in endings:
            held = live.get(run_id)
            verdict, started, ended, _, _, result, _, _, usage = ending
            if held is None or verdict is not _OK or usage is not None or held.body.demand is not None:
                self.ended(run_id, ending)
                continue
            del live[run_id]
            claimed, capacity, body = held.claimed, held.capacity, held.body
            capacity.launched -= 1
            if claimed.attempt == 1:
                late.append(started - claimed.due)
            outcome = (run_id, claimed.token, SUCCESS, started, ended, None, None, result, None, body.is_followed)
            done.append((made := _new(Outcome, outcome), capacity))
            if len(logged) < lines:
                logged.append((held, ended - started))
            if held.trace is not None and self._traces is not None:
                self._outbox.trace(made, self._traces.ended(held, made))
            urgent = urgent or body.is_waited_for or claimed.guarded
        if self._run_log is not None:
            self._run_log.succeeded(logged, len(done))
        self._outbox.add_many(done, late, urgent=urgent)
        for capacity in {capacity for _, capacity in done}:
            capacity.freed()

    def ended(self, run_id: UUID, ending: Ending) -> None:
        """Settle the run of a task that ended. Of an abandoned attempt only its death counts."""
        self._lease_watch.release_late()
        held = self._held_runs.live.get(run_id)
        if held is None:
            self._held_runs.died(run_id)
        elif self._lease.left_seconds() <= 0.0 and ending.reason in KILLED:
            # The orphan reaper killed it while this process stood still. The task did not fail.
            held.fenced = True
            self._settlement.end(held, ending._replace(verdict=Verdict.CANCELLED))
        else:
            self._settlement.end(held, ending)
