"""Judges a live database by its own records, without any witness: each ended run's attempts, told as a journal.

    attempts of a run   7 lost · 9 retried · 12 the last       ──►   QUEUED ► DISPATCHED(7) ► QUEUED ► DISPATCHED(9) …

A run that was given back unbegun leaves no attempt, so the resulting walk is the shortest that the records allow; if
even that one is illegal, the records are wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple

from tickwise.domain.history.events import Run, RunChange
from tickwise.domain.history.findings import FindingKind, HistoryFinding
from tickwise.domain.lifecycle import RunState

GONE_SLACK_SECONDS: Final = 1.0
"""The two instants are read by two statements that may overlap."""


class Tried(NamedTuple):
    """An attempt on record."""

    attempt: int
    token: int
    executor: int
    state: RunState
    """The state of the run after it."""
    dispatched: float | None
    started: float | None
    ended: float | None


def journal_of(run: Run, tried: Sequence[Tried]) -> list[RunChange]:
    """The changes that an ended run and its attempts stand for."""
    changes: list[RunChange] = []
    state: RunState | None = None

    def add(after: RunState, attempt: Tried | None = None, at: float | None = None) -> None:
        nonlocal state
        token, executor = (0, 0) if attempt is None else (attempt.token, attempt.executor)
        changes.append(RunChange(run.run_id, len(changes) + 1, state, after, token, executor, at or 0.0))
        state = after

    add(RunState.QUEUED)
    for attempt in sorted(tried, key=attrgetter("token")):
        add(RunState.DISPATCHED, attempt, attempt.dispatched)
        if attempt.started is not None and attempt.state is not RunState.SKIPPED:
            # An executor that skips an asked-back run reports the time of the skip as its start, too.
            add(RunState.RUNNING, attempt, attempt.started)
        add(attempt.state, attempt, attempt.ended)
    if state is not run.state:
        add(run.state, None, run.ended)
    return changes


def attempts_findings(run: Run, tried: Sequence[Tried]) -> Iterable[HistoryFinding]:
    """Attempts that are numbered wrongly, or are more than were counted."""
    in_order = sorted(tried, key=attrgetter("token"))
    for one, following in pairwise(in_order):
        if following.attempt <= one.attempt:
            text = f"attempt {following.attempt} of run {run.run_id} has a later token than attempt {one.attempt}"
            yield HistoryFinding(FindingKind.TOKEN_NOT_INCREASED, text, run.run_id, run.job_id, following.token)
    if len(tried) > run.attempt:
        text = f"run {run.run_id} has {len(tried)} attempts on record, and {run.attempt} are counted"
        yield HistoryFinding(FindingKind.TOO_MANY_ATTEMPTS, text, run.run_id, run.job_id)


def start_findings(run: Run) -> Iterable[HistoryFinding]:
    """A success that began before it was due."""
    if run.state is RunState.SUCCESS and run.started is not None and run.started < run.due:
        text = f"run {run.run_id} began {run.due - run.started:.6f} s before it was due"
        yield HistoryFinding(FindingKind.EARLY_START, text, run.run_id, run.job_id)


def claim_findings(run: Run, tried: Iterable[Tried], gone: Mapping[int, float]) -> Iterable[HistoryFinding]:
    """Claims by executors that were gone already. `gone`: since when, by executor."""
    for attempt in tried:
        since = gone.get(attempt.executor)
        if since is not None and attempt.dispatched is not None and attempt.dispatched > since + GONE_SLACK_SECONDS:
            text = (
                f"run {run.run_id} was claimed by executor {attempt.executor} "
                f"{attempt.dispatched - since:.6f} s after that one was gone"
            )
            yield HistoryFinding(FindingKind.LATE_START, text, run.run_id, run.job_id, attempt.token or None)
