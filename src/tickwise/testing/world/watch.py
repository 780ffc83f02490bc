"""Sees every call that reaches the store, and keeps what the history checker reads: the journal of all runs, the ends
of leases, the faults that explain why something ran again. It also keeps the trace.

    before a call: who holds what? ──► the call, all at once ──► after it: which runs are otherwise than before?

Since a call of the memory store is atomic, what lies between two looks is what that call did. The journal is thus made
from outside of the store, and does not believe what the store says of itself.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple
from uuid import UUID

from tickwise.adapters.store.memory import MemoryStore
from tickwise.domain.decision import SkipReason
from tickwise.domain.history.checker import Fault, LeaseEnd, RunChange
from tickwise.domain.lifecycle import CODES, FINAL, HELD, RunState
from tickwise.domain.model import Outcome
from tickwise.domain.retry import BEGUN_UNTOLD, EXECUTOR_LOST, UNKNOWN_OUTCOME
from tickwise.testing.world.link import READS, StoreCall
from tickwise.testing.world.process import SimulatedProcess

JUST_NOW_SECONDS: Final = 5.0
"""A heartbeat that was under way when its executor was hit may still arrive so much later."""
POISON: Final = "poison"
LATE_SECONDS: Final = 2.0
"""A run that is made so long after its nominal time was caught up with."""
POLLS: Final = frozenset(
    {
        "operations.take", "timers.fire", "attempts.claim", "runs.unblock",
        "executors.release_unknown",
    }
)  # fmt: skip
"""Calls that are made again and again. An answer that is nothing says that nothing was done; if that is not so, the
next look finds it."""
UNMOVING: Final = READS | {
    "executors.beat",
    "executors.join",
    "upkeep.maintain",
    "timers.count",
    "quotas.take_runs",
    "receipts.keep",
    "marks.put",
    "epochs.begin",
    "held.differed",
    "audit.seal",
    "error_groups.fold",
    "removals.take",
}
QUIET: Final = UNMOVING - {"executors.join"} | POLLS | {"executors.expire"}
"""Calls that are traced only if something came of them, as they are made again and again."""


class SeenRun(NamedTuple):
    """A run as it was at the last look."""

    state: RunState
    token: int
    version: int


class StandbyMark(NamedTuple):
    """The position at which a standby stopped following."""

    at: float
    """The world's time."""
    changes: int
    """Of the journal."""
    runs: Mapping[int, SeenRun]
    forgotten: Mapping[int, int]
    ended: int


class Gap(NamedTuple):
    """A time whose writes are lost."""

    begin: float
    end: float
    """The world's time."""


class Watch:
    """One world's."""

    def __init__(self, store: MemoryStore, seconds: Callable[[], float], tell: Callable[[str], None]) -> None:
        """`seconds` is the world's time, `tell` is called once for each thing worth knowing that it happened."""
        self._state = store.state
        self._seconds = seconds
        self._tell = tell
        self.trace: list[str] = []
        self.journal: list[RunChange] = []
        self.lease_ends: dict[int, LeaseEnd] = {}
        self.faults: list[Fault] = []
        self.stale_refused = 0
        self.tasks_of: Callable[[SimulatedProcess], int] = lambda _process: 0
        """The number of running tasks that a process has begun."""
        self.asking = True
        """Things are still asked for."""
        self.findings: list[str] = []
        self.gaps: list[Gap] = []
        """Writes in these times are lost, even if a client was told that they were done."""
        self.lost_tokens: set[int] = set()
        """Of claims in the gaps."""
        self._over: dict[tuple[int, int], float] = {}
        """The ends of attempts whose reports are lost: they hold no slot from then on, whenever it is reported
        again."""
        self._token_floor = 0
        """A claim gives a greater token than this."""
        self._hit: dict[str, float] = {}
        """The last fault of a process that may cost it its lease."""
        self._heard: dict[int, float] = {}
        """The last renewal of each executor's lease."""
        self._names: dict[int, str] = {}
        self._runs: dict[int, SeenRun] = {}
        """By the id as a number: it is looked up a million times, and the hash of a UUID is made in Python."""
        self._forgotten: dict[int, int] = {}
        """The last version of runs that were taken back: their occurrence may be made again, under the same name."""
        self._ended = 0
        self._reported: dict[UUID, tuple[int, int]] = {}

    def note(self, *words: object) -> None:
        """One line of the trace."""
        self.trace.append(f"{self._seconds():.6f} " + " ".join(map(str, words)))

    # ------------------------------------------------------------------ what is lost

    def mark(self) -> StandbyMark:
        """A standby follows no longer from here on."""
        return StandbyMark(self._seconds(), len(self.journal), {**self._runs}, {**self._forgotten}, self._ended)

    def set_back(self, mark: StandbyMark) -> None:
        """The store is as it was there. What the journal says since is no more; its tokens must never come again."""
        lost = self.journal[mark.changes :]
        del self.journal[mark.changes :]
        claims = {change.token for change in lost if change.after is RunState.DISPATCHED}
        self.lost_tokens |= claims
        for change in lost:
            if change.before in HELD and change.after not in HELD:
                self._over.setdefault((change.run_id.int, change.token), change.at)
        self._token_floor = max(self._token_floor, *claims, 0)
        self._runs, self._forgotten, self._ended = {**mark.runs}, {**mark.forgotten}, mark.ended
        self.gaps.append(Gap(mark.at, self._seconds()))
        # Also of those that have left since, and are there again.
        self._hit.update(dict.fromkeys(self._names.values(), self._seconds()))
        if lost:
            self._tell("acknowledged writes lost")
        self.note("the store is set back by", f"{self._seconds() - mark.at:.3f} s, changes lost:", len(lost))

    # ------------------------------------------------------------------ what links tell

    def asked(self, call: StoreCall) -> None:
        if call.name == "executors.join" and self.tasks_of(call.process):
            # Others may run them by now, and this executor has heard so.
            self.findings.append(f"{call.process} is registered anew while tasks of its former life go on")
        if call.name not in QUIET:
            self.note(call.process.name, "asks", call.name)

    def before(self, call: StoreCall) -> None:
        if call.name == "executors.expire":
            self._before_expiries()
        elif call.name == "executors.leave":
            self._gives_up(call.arguments[0], "leave", lambda run: run.state is RunState.RUNNING)
        elif call.name == "attempts.finish":
            self._before_finish(*call.arguments)
        elif call.name == "attempts.start":
            executor, starts = call.arguments
            self._reported = {began.run_id: (executor, began.token) for began in starts}

    def after(self, call: StoreCall, answer: Any) -> None:
        before, name = len(self.journal), call.name
        if name not in UNMOVING and (answer or name not in POLLS):
            self._look(name)
        changed = len(self.journal) - before
        if isinstance(answer, Exception):
            self.note(call.process.name, name, "refused:", type(answer).__name__, answer)
            return
        if changed or name not in QUIET:
            self.note(call.process.name, name, "done, changes", changed)
        if name == "executors.join":
            self._names[answer] = call.process.name
            self._heard[answer] = self._seconds()
        elif answer and name != "executors.beat":
            self._note_answer(call, answer)
        self._reported = {}

    def _note_answer(self, call: StoreCall, answer: Any) -> None:
        name = call.name
        if name == "attempts.finish":
            self.stale_refused += len(answer)
            self._tell("stale outcome refused")
        elif name == "attempts.start":
            self._tell("start refused")
            refused = [run for run_id in answer if (run := self._state.runs.get(run_id)) is not None]
            if any(run.blocked and run.limit_key is not None for run in refused):
                self._tell("limit waited for")
            if any(run.slot is not None for run in refused):
                self._tell("rate waited for")
        elif name == "attempts.claim" and call.arguments[0].runs is not None:
            self._tell("claimed by name")
        elif name == "executors.release_unknown":
            self._tell("claim in doubt given back")
        elif name == "completions.commit":
            self._tell("sequence went on")
        elif name == "operations.step":
            self._tell("operation went on")

    def answered(self, call: StoreCall, answer: Any) -> None:
        if isinstance(answer, Exception):
            return
        if call.name == "executors.join":
            self._extend(answer, call.sent, call.arguments[0].lease_seconds)
        elif call.name == "executors.beat" and answer.alive:
            self._heard[call.arguments[0]] = self._seconds()
            self._extend(call.arguments[0], call.sent, call.arguments[1])
        elif call.name == "executors.beat":
            self._tell("executor expired and registered again")

    def _extend(self, number: int, sent: float, lease_seconds: float) -> None:
        until = self._state.clock.now() - self._seconds() + sent + lease_seconds
        known = self.lease_ends.get(number)
        self.lease_ends[number] = LeaseEnd(number, until if known is None else max(until, known.at))

    # ------------------------------------------------------------------ what explains that something runs again

    def is_hit(self, process: SimulatedProcess) -> None:
        """Something befell this executor that may cost it its lease."""
        self._hit[process.name] = self._seconds()

    def is_explained(self, number: int) -> bool:
        """Check whether a fault hit this executor after it last heard of its lease, or just before."""
        hit = self._hit.get(self._names[number], -math.inf)
        return hit >= self._heard[number] - JUST_NOW_SECONDS

    def _before_expiries(self) -> None:
        now = self._state.now()
        for executor in self._state.executors.values():
            until = max(executor.lease_until, self._state.opened_at + executor.lease_seconds)
            if executor.gone_at is not None or until >= now:
                continue
            if any(run.state is RunState.RUNNING for run in executor.held.values()):
                self._tell("lease expired while running")
            elif executor.held:
                self._tell("lease expired while holding")
            was_told = executor.number in self.lease_ends  # else nobody lives who knows that it was registered
            if was_told and not self.is_explained(executor.number):
                self.findings.append(f"executor {executor.number} lost its lease, and nothing had befallen it")
            self._gives_up(executor.number, "lease lost", lambda _run: True)

    def _gives_up(self, number: int, kind: str, which: Callable[[Any], bool]) -> None:
        executor = self._state.executors.get(number)
        if executor is None or executor.gone_at is not None:
            return
        held = sum(1 for run in executor.held.values() if which(run))
        if held:
            self.faults.append(Fault(kind, self._state.now(), self._names.get(number, "?"), held, executor=number))

    def _before_finish(self, executor: int, outcomes: Sequence[Outcome], _usage: object = None) -> None:
        self._reported = {}
        for outcome in outcomes:
            self._reported.setdefault(outcome.run_id, (executor, outcome.token))
            run = self._state.runs.get(outcome.run_id)
            if run is None or (run.executor, run.token) != (executor, outcome.token):
                continue
            # Of two reports of one run, an old one and the current one, the current one is what counts.
            self._reported[outcome.run_id] = executor, outcome.token
            if outcome.state == CODES[RunState.QUEUED]:
                self._tell("give-back")
                if outcome.reason in BEGUN_UNTOLD:
                    kind = str(outcome.reason).replace("_", " ")
                    self._tell(f"given back: {kind}")
                    self.faults.append(
                        Fault(kind, self._state.now(), self._names.get(executor, "?"), 1, executor=executor)
                    )
            elif outcome.state == CODES[RunState.RETRYING]:
                self._tell("retry")
            if run.request is not None and run.cancelling and outcome.state == CODES[RunState.SUCCESS]:
                self._tell("cancel against completion")

    # ------------------------------------------------------------------ the journal

    def _look(self, call: str) -> None:
        state, seen = self._state, self._runs
        active = state.runs
        if len(state.ended) != self._ended:
            fresh = [*islice(state.ended.values(), self._ended, None)]
            self._ended = len(state.ended)
            for ended in fresh:
                self._has_ended(ended.row)
        looked = 0
        for run_id, run in active.items():
            known = seen.get(run_id.int)
            if known is None:
                self._moved(run_id, RunState.QUEUED, 0, 0)
                known = seen[run_id.int]
                self._is_made(run)
            looked += 1
            if known.state is not run.state or known.token != run.token:
                self._steps(known, run, call)
        if len(seen) > looked:
            for number in sorted(seen.keys() - {run_id.int for run_id in active}):
                self._moved(UUID(int=number), None, seen[number].token, 0)

    def _steps(self, known: SeenRun, run: Any, call: str) -> None:
        if known.token != run.token and known.state in HELD:
            # Freed and claimed anew within one call, or written over: the table of moves decides which is legal.
            self._moved(run.run_id, run.state, run.token, run.executor or 0)
            return
        executor, token = self._reported.get(run.run_id, (0, run.token))
        if call == "attempts.claim":
            executor = run.executor or 0
        self._moved(run.run_id, run.state, token, executor)

    def _moved(self, run_id: UUID, after: RunState | None, token: int, executor: int) -> None:
        known = self._runs.get(run_id.int)
        before, version = (None, self._forgotten.get(run_id.int, 0)) if known is None else (known.state, known.version)
        if after is RunState.DISPATCHED and token <= self._token_floor:
            self.findings.append(
                f"run {run_id} was claimed under token {token}, and {self._token_floor} was given before"
            )
        at = self._over.get((run_id.int, token), self._state.now()) if before in HELD else self._state.now()
        self.journal.append(RunChange(run_id, version + 1, before, after, token, executor, at))
        self.trace.append(f"    run {run_id} {before or '-'} -> {after or 'forgotten'} token {token} by {executor}")
        if after is None:
            self._forgotten[run_id.int] = version + 1
        if after is None or after in FINAL:
            self._runs.pop(run_id.int, None)
        else:
            self._runs[run_id.int] = SeenRun(after, token, version + 1)

    def _has_ended(self, row: Any) -> None:
        run_id = row.run_id
        known = self._runs.get(run_id.int)
        executor, token = (0, 0) if known is None else self._reported.get(run_id, (0, known.token))
        self._moved(run_id, row.state, token, executor)
        if row.reason in (POISON, EXECUTOR_LOST, UNKNOWN_OUTCOME):
            self._tell(f"ended: {row.reason}")
        elif row.reason in tuple(SkipReason):
            self._tell(f"skipped: {row.reason}")
        elif row.reason == "cancelled":
            self._tell("cancelled")

    def _is_made(self, run: Any) -> None:
        if run.trigger == 1 and self._state.now() - run.nominal > LATE_SECONDS and run.job.recurring:
            self._tell("catch-up")


class EventTally:
    """The number of times that each notable event was seen."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __call__(self, what: str, count: int = 1) -> None:
        self.counts[what] += count

    def as_dict(self) -> Mapping[str, int]:
        """By name, in order."""
        return dict(sorted(self.counts.items()))
