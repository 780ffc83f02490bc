"""What becomes of a run that is about to start while earlier runs of its job are unfinished."""

from __future__ import annotations

from tickwise.adapters.store.memory.records import RunRecord, StopRequest
from tickwise.adapters.store.memory.state import State
from tickwise.domain.decision import REPLACED_SENTENCE, Overlap, SkipReason
from tickwise.domain.lifecycle import CancelKind, RunEvent
from tickwise.domain.model import Trigger

MAX_COUNTED = 100
"""Of earlier runs; more are not counted."""


def settle(state: State, run: RunRecord) -> bool:
    """Carry out the policy of a held run that has not begun. Returns whether it may start; else nobody holds it."""
    earlier = state.earlier(run)
    if run.overlap is Overlap.CANCEL_RUNNING:
        earlier = [each for each in earlier if not (_replaces(run, each) and _ended(state, each))]
    if not earlier:
        run.settled = True
        return True
    skips = run.overlap is Overlap.SKIP or (run.overlap is Overlap.QUEUE_ONE and len(earlier) > 1)
    if skips and run.request is None:
        run.attempt -= 1
        state.end_skipped(run, SkipReason.OVERLAP, f"{_count(len(earlier))} of the job had not ended")
    else:
        run.blocked = True
        state.let_go(run, RunEvent.RELEASED, run.due)
    return False


def _replaces(run: RunRecord, earlier: RunRecord) -> bool:
    """Whether a run with CANCEL_RUNNING takes the place of an earlier one; a fire of the schedule only of fires."""
    return run.trigger != Trigger.SCHEDULE or earlier.trigger == Trigger.SCHEDULE


def _ended(state: State, run: RunRecord) -> bool:
    """Stop a run in favour of a later one: asked of its holder, or at once if it has none."""
    if run.held:
        if not run.cancelling:
            run.request = StopRequest(CancelKind.CANCEL, state.now(), REPLACED_SENTENCE)
        state.tell_handover(stopping=[run.run_id])
        return False
    if run.begun:
        state.cancel(run, StopRequest(CancelKind.CANCEL, state.now(), REPLACED_SENTENCE), began=False)
    else:
        state.end_skipped(run, SkipReason.OVERLAP, REPLACED_SENTENCE)
    return True


def _count(runs: int) -> str:
    if runs >= MAX_COUNTED:
        return f"{MAX_COUNTED} earlier runs or more"
    return "an earlier run" if runs == 1 else f"{runs} earlier runs"
