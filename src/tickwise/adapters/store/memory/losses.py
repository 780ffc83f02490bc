"""Decides on a run whose executor is gone: `domain.rules.losses`, carried out."""

from __future__ import annotations

from tickwise.adapters.store.memory.records import RunRecord
from tickwise.adapters.store.memory.rows import Report, attempt_row
from tickwise.adapters.store.memory.state import State
from tickwise.domain.lifecycle import RunEvent, RunState
from tickwise.domain.retry import CRASHES_MAX
from tickwise.domain.rules.losses import LossFate, LossVerdict, LostAttempt, lost
from tickwise.domain.rules.sentences import LEASE_LOST
from tickwise.ports.store import FailureId


def lose(state: State, run: RunRecord, crashes_max: int) -> LossFate:
    """Its executor was lost with its lease. The next one is told to be careful."""
    run.guarded = True
    return _carry_out(state, run, lost(_attempt(run, crashes_max, in_order=False)))


def leave(state: State, run: RunRecord) -> LossFate:
    """Its executor left in order."""
    return _carry_out(state, run, lost(_attempt(run, CRASHES_MAX, in_order=True)))


def _attempt(run: RunRecord, crashes_max: int, *, in_order: bool) -> LostAttempt:
    return LostAttempt(
        begun=run.state is RunState.RUNNING,
        in_order=in_order,
        on_unknown=run.on_unknown,
        crashes=run.crashes,
        crashes_max=crashes_max,
        asked=run.asked,
    )


def _carry_out(state: State, run: RunRecord, verdict: LossVerdict) -> LossFate:
    now = state.now()
    run.crashes, run.waited_since = verdict.crashes, None
    if verdict.error is not None:
        event = RunEvent.QUARANTINED if verdict.fate is LossFate.QUARANTINE else RunEvent.UNKNOWN
        report = Report(ended=now, started=run.started, reason=verdict.reason, error=verdict.error, follow=True)
        state.end(run, event, report)
        return verdict.fate
    if verdict.lost_reason is not None:
        report = Report(ended=now, started=run.started, reason=verdict.lost_reason)
        run.attempts = (*run.attempts, attempt_row(run, RunState.QUEUED, report))
        if verdict.lost_reason == LEASE_LOST:
            state.failures[FailureId(run.run_id, run.token)] = False
    state.release(run, RunEvent.LEASE_LOST if verdict.counted else RunEvent.RELEASED)
    return verdict.fate
