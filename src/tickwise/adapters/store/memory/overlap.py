"""Decides on a run that is about to start while earlier runs of its job are unfinished: `domain.rules.overlap`,
carried out."""

from __future__ import annotations

from tickwise.adapters.store.memory.records import RunRecord
from tickwise.adapters.store.memory.state import State
from tickwise.domain.decision import SkipReason
from tickwise.domain.lifecycle import CancelKind, RunEvent
from tickwise.domain.rules import overlap
from tickwise.domain.rules.overlap import ReplacedVerdict, StartVerdict
from tickwise.domain.rules.requests import StopRequest
from tickwise.domain.rules.sentences import REPLACED_SENTENCE, overlap_sentence


def settle(state: State, run: RunRecord) -> bool:
    """Carry out the policy of a held run that has not begun. Returns whether it may start; if not, it is no longer
    held."""
    mine = run.lined
    earlier = [each for each in state.earlier(run) if not (overlap.replaces(mine, each.lined) and _ended(state, each))]
    verdict = overlap.settle(run.overlap, len(earlier), run.asked)
    if verdict is StartVerdict.START:
        run.settled = True
        return True
    run.waited_since = None
    if verdict is StartVerdict.SKIP:
        run.attempt -= 1
        state.end_skipped(run, SkipReason.OVERLAP, overlap_sentence(len(earlier)))
    else:
        run.blocked = True
        state.release(run, RunEvent.RELEASED)
    return False


def _ended(state: State, run: RunRecord) -> bool:
    """Stop a run in favour of a later one; whether it has ended by now."""
    verdict = overlap.replaced(held=run.held, begun=run.begun)
    request = StopRequest(CancelKind.CANCEL, state.now(), REPLACED_SENTENCE)
    if verdict is ReplacedVerdict.STOP:
        run.ask(request)
        state.report_handover(stopping=[run.run_id])
        return False
    if verdict is ReplacedVerdict.CANCEL:
        state.cancel(run, request)
    else:
        state.end_skipped(run, SkipReason.OVERLAP, REPLACED_SENTENCE)
    return True
