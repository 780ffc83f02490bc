"""What becomes of a run whose executor is gone, in good order or not."""

from __future__ import annotations

from enum import Enum
from typing import Final

from tickwise.adapters.store.memory.records import RunRecord
from tickwise.adapters.store.memory.rows import Report, attempt_row
from tickwise.adapters.store.memory.state import State
from tickwise.domain.lifecycle import RunEvent, RunState
from tickwise.domain.retry import EXECUTOR_LOST, UNKNOWN_OUTCOME, OnUnknown

LEASE_LOST: Final = "lease_lost"
POISON: Final = "poison"


class Fate(Enum):
    """What has become of it."""

    FREED = "it waits for another executor"
    STOPPED = "it had been asked to stop, and has ended or is forgotten"
    QUARANTINED = "it took too many executors down with it"
    UNKNOWN = "its job says that it then failed"
    HELD = "its job leaves it to a person what it has done"


def lose(state: State, run: RunRecord, crashes_max: int) -> Fate:
    """Its executor was lost. A recorded start counts a crash, and whoever runs it next is to be careful."""
    run.guarded = True
    began = run.state is RunState.RUNNING
    run.crashes += began
    if began and not run.cancelling and run.on_unknown is OnUnknown.RERUN and run.crashes >= crashes_max:
        error = f"{run.crashes} executors were lost while they ran it"
        report = Report(ended=state.now(), started=run.started, reason=POISON, error=error, follow=True)
        state.end(run, RunEvent.QUARANTINED, report)
        return Fate.QUARANTINED
    return abandon(state, run, RunEvent.LEASE_LOST)


def abandon(state: State, run: RunRecord, event: RunEvent) -> Fate:
    """Its executor is gone. What had begun stays on record, unless it ends with this very attempt; what had not goes
    by `event`."""
    now = state.now()
    if run.state is RunState.RUNNING and not run.cancelling:
        if run.on_unknown is not OnUnknown.RERUN:
            return _end_unknown(state, run)
        lost = Report(ended=now, started=run.started, reason=LEASE_LOST)
        run.attempts.append(attempt_row(run, RunState.QUEUED, lost))
    event = RunEvent.LEASE_LOST if run.state is RunState.RUNNING else event
    return Fate.FREED if state.let_go(run, event, now) else Fate.STOPPED


def _end_unknown(state: State, run: RunRecord) -> Fate:
    """Nobody can know what it has done, and its job does not want it done twice."""
    held = run.on_unknown is OnUnknown.HOLD
    report = Report(
        ended=state.now(),
        started=run.started,
        reason=UNKNOWN_OUTCOME if held else EXECUTOR_LOST,
        error="its executor was lost after it had begun: what it has done is not known",
        follow=True,
    )
    state.end(run, RunEvent.UNKNOWN, report)
    return Fate.HELD if held else Fate.UNKNOWN
