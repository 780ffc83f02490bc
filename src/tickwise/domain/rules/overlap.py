"""The rules of overlap: a run may start or not while earlier runs of its job are unfinished.

    run with an open overlap ── earlier runs ──┬── none       START
                                               ├── SKIP, or QUEUE_ONE behind two ──► SKIP
                                               └── else       WAIT

A run with CANCEL_RUNNING first replaces the earlier runs that it may replace. A replaced run that nobody holds ends at
once and is earlier no longer; the holder of another one is asked to stop it, and the run waits.

A line is the runs of one job that look at each other: the runs of a backfill are one line, all others another.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from tickwise.domain.decision import Overlap
from tickwise.domain.lifecycle import CancelKind, RunState
from tickwise.domain.model import Trigger


class LinedRun(NamedTuple):
    """An active run, by what its line goes by."""

    due: float
    run_id: UUID
    policy: Overlap
    trigger: int
    settled: bool
    """Its overlap is decided: it may start beside all other runs."""
    state: RunState


class StartVerdict(Enum):
    """The verdict on a run that wants to start."""

    START = "it starts"
    WAIT = "it waits until the last earlier run has ended"
    SKIP = "it ends SKIPPED"


class ReplacedVerdict(Enum):
    """The verdict on a run that a later one replaces."""

    STOP = "its holder is asked to stop it"
    SKIP = "it ends SKIPPED, for it never began"
    CANCEL = "it ends CANCELLED"


def is_earlier(other: LinedRun, run: LinedRun) -> bool:
    """Check whether another unfinished run of the job comes before this one: by its time, or because its start is
    settled."""
    if other.run_id == run.run_id or (other.trigger == Trigger.BACKFILL) != (run.trigger == Trigger.BACKFILL):
        return False
    return was_let_start(other) or (other.due, other.run_id) < (run.due, run.run_id)


def was_let_start(run: LinedRun) -> bool:
    """Check that no other run can come before this one any more."""
    return run.settled or (run.policy is Overlap.ALLOW and run.state is not RunState.QUEUED)


def replaces(run: LinedRun, earlier: LinedRun) -> bool:
    """Check whether a run takes the place of an earlier one. A fire of the schedule replaces only fires."""
    if run.policy is not Overlap.CANCEL_RUNNING:
        return False
    return run.trigger != Trigger.SCHEDULE or earlier.trigger == Trigger.SCHEDULE


def replaced(*, held: bool, begun: bool) -> ReplacedVerdict:
    """The end of a replaced run. `begun`: the start of an attempt is on record."""
    if held:
        return ReplacedVerdict.STOP
    return ReplacedVerdict.CANCEL if begun else ReplacedVerdict.SKIP


def settle(policy: Overlap, earlier: int, asked: CancelKind | None) -> StartVerdict:
    """Decide whether a run with an undecided overlap may start, with so many earlier runs that it does not replace.

    A run that was asked to stop is not skipped: it waits, and then ends as its request says. A request to give the run
    back says nothing of its end.
    """
    if earlier == 0:
        return StartVerdict.START
    skips = policy is Overlap.SKIP or (policy is Overlap.QUEUE_ONE and earlier > 1)
    return StartVerdict.SKIP if skips and asked in (None, CancelKind.RETURN) else StartVerdict.WAIT


def next_in_line(waiting: Sequence[LinedRun]) -> LinedRun:
    """The waiting run of a line (of at least one) that asks next whether it may start.

    The first by time. Of several in a row that would replace each other, the last: at its start the others end.
    """
    ordered = sorted(waiting, key=lambda run: (run.due, run.run_id))
    chosen = ordered[0]
    if chosen.policy is Overlap.CANCEL_RUNNING:
        for run in ordered:
            if run.policy is not Overlap.CANCEL_RUNNING or run.trigger != chosen.trigger:
                break
            chosen = run
    return chosen
