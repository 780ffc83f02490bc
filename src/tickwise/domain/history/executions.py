"""Compares the executions that tasks witnessed with the records and the journal.

A run's executions are told apart by token. The first of a run is its due; one more is due for each failure that is
retried; every other is a re-execution, and only an attempt in flight that a fault hit may cause one:

    executions − 1 − retries = re-executions ≤ attempts in flight on the victims of all faults

Invariant: an execution that no claim gave a right to is an error, however well the run ended.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

from tickwise.domain.history.events import Execution, Fault, History, Run
from tickwise.domain.history.findings import FindingKind, HistoryFinding
from tickwise.domain.history.intervals import most_at_once
from tickwise.domain.history.journal import Life
from tickwise.domain.lifecycle import RunState

POISON = "poison"


class SeenExecutions(NamedTuple):
    """The result of checking the executions."""

    findings: list[HistoryFinding]
    by_run: Mapping[UUID, Sequence[Execution]]
    """The earliest first."""
    re_executions: int
    zombie_overlaps: int
    """The number of executions that began before an earlier one of the same run had ended."""


def executed(history: History, runs: Mapping[UUID, Run], lives: Mapping[UUID, Life] | None) -> SeenExecutions:
    """Judge each execution by itself, each run by its executions, and all of them by the faults."""
    by_run: dict[UUID, list[Execution]] = defaultdict(list)
    for execution in history.executions or ():
        by_run[execution.run_id].append(execution)
    findings: list[HistoryFinding] = []
    again: dict[UUID, int] = {}
    zombies = 0
    for run_id, executions in by_run.items():
        executions.sort(key=attrgetter("begin"))
        run, life = runs.get(run_id), None if lives is None else lives.get(run_id)
        findings += _claimed(history, executions, run, life, journalled=lives is not None)
        if run is not None:
            findings += _counted(executions, run)
            findings += _early(history, executions, run)
            extra = len({execution.token for execution in executions}) - 1 - _retries(run, life)
            if extra > 0:
                again[run_id] = extra
        zombies += sum(one.end is not None and one.end > next_.begin for one, next_ in pairwise(executions))
    if lives is not None:
        findings += _late(history, by_run, lives)
    findings += _unexplained(history.faults, by_run, again, lives)
    return SeenExecutions(findings, by_run, sum(again.values()), zombies)


def _claimed(
    history: History, executions: Sequence[Execution], run: Run | None, life: Life | None, *, journalled: bool
) -> Iterable[HistoryFinding]:
    """Each execution must be an attempt's, and each attempt's must be one."""
    for token, number in Counter(execution.token for execution in executions).items():
        run_id, job_id = executions[0].run_id, executions[0].job_id
        if number > 1:
            text = f"run {run_id} began {number} times under token {token}"
            yield HistoryFinding(FindingKind.TOKEN_REUSED, text, run_id, job_id, token)
        claimed = life is not None and token in life.attempts
        if journalled and not claimed:
            text = f"run {run_id} ran under token {token}, which no claim of it gave"
            yield HistoryFinding(FindingKind.PHANTOM_EXECUTION, text, run_id, job_id, token)
        elif run is None and not (claimed and history.faults):
            # A claimed run without a record was returned unbegun, by the word of its executor; only a fault could make
            # that word untrue.
            text = f"run {run_id} ran under token {token} and is not on record"
            yield HistoryFinding(FindingKind.PHANTOM_EXECUTION, text, run_id, job_id, token)
        elif run is not None and run.state is RunState.SKIPPED and not history.faults:
            text = f"run {run_id} ran under token {token} and is on record as skipped"
            yield HistoryFinding(FindingKind.PHANTOM_EXECUTION, text, run_id, job_id, token)


def _counted(executions: Sequence[Execution], run: Run) -> Iterable[HistoryFinding]:
    tokens = {execution.token for execution in executions}
    if len(tokens) > run.attempt:
        text = f"run {run.run_id} ran {len(tokens)} times, and {run.attempt} attempts are counted"
        yield HistoryFinding(FindingKind.TOO_MANY_ATTEMPTS, text, run.run_id, run.job_id)


def _early(history: History, executions: Sequence[Execution], run: Run) -> Iterable[HistoryFinding]:
    first = executions[0]
    if first.begin < run.due - history.clock_slack:
        text = f"run {run.run_id} began {run.due - first.begin:.6f} s before it was due"
        yield HistoryFinding(FindingKind.EARLY_START, text, run.run_id, run.job_id, first.token)


def _retries(run: Run, life: Life | None) -> int:
    """The number of its executions that follow a reported failure."""
    if life is not None:
        return life.retries
    ended_it = run.state is RunState.FAILED and run.reason != POISON and run.failures > 0
    return run.failures - (1 if ended_it else 0)


def unbacked(
    history: History, runs: Iterable[Run], by_run: Mapping[UUID, Sequence[Execution]]
) -> Iterable[HistoryFinding]:
    """Successes on record that no execution of the accepted attempt reached."""
    if history.executions is None:
        return
    for run in runs:
        if run.state is not RunState.SUCCESS or not run.witnessed:
            continue
        executions = by_run.get(run.run_id, ())
        if not any(each.end is not None and run.token in (0, each.token) for each in executions):
            said = ", ".join(f"{each.token}{'' if each.end is not None else ' (no end)'}" for each in executions)
            text = (
                f"run {run.run_id} is on record as a success under token {run.token}, and ran under: {said or 'none'}"
            )
            yield HistoryFinding(FindingKind.SUCCESS_WITHOUT_EXECUTION, text, run.run_id, run.job_id, run.token or None)


def _late(
    history: History, by_run: Mapping[UUID, Sequence[Execution]], lives: Mapping[UUID, Life]
) -> Iterable[HistoryFinding]:
    ends = {end.executor: end.at for end in history.lease_ends}
    for run_id, executions in by_run.items():
        life = lives.get(run_id)
        for execution in executions if life is not None else ():
            attempt = life.attempts.get(execution.token) if life is not None else None
            if attempt is None:
                continue
            end, begin = ends.get(attempt.executor), execution.begin - history.clock_slack
            if end is not None and begin > end:
                text = (
                    f"run {run_id} began under token {execution.token} {execution.begin - end:.6f} s after the lease "
                    f"of executor {attempt.executor} had ended"
                )
                yield HistoryFinding(FindingKind.LATE_START, text, run_id, execution.job_id, execution.token)
            elif history.late_starts and attempt.taken_at is not None and begin > attempt.taken_at:
                text = (
                    f"run {run_id} began under token {execution.token} {execution.begin - attempt.taken_at:.6f} s "
                    f"after that attempt was over"
                )
                yield HistoryFinding(FindingKind.LATE_START, text, run_id, execution.job_id, execution.token)


def allowed(faults: Sequence[Fault]) -> int:
    """The number of re-executions that these faults can explain."""
    return sum(fault.in_flight for fault in faults)


def _unexplained(
    faults: Sequence[Fault] | None,
    by_run: Mapping[UUID, Sequence[Execution]],
    again: Mapping[UUID, int],
    lives: Mapping[UUID, Life] | None,
) -> Iterable[HistoryFinding]:
    if faults is None:
        return
    total, bound = sum(again.values()), allowed(faults)
    if total > bound:
        some = ", ".join(str(run_id) for run_id in list(again)[:5])
        text = f"{total} executions were further ones without a failure, faults explain {bound}: runs {some}"
        yield HistoryFinding(FindingKind.RE_EXECUTIONS, text)
    if lives is None or any(fault.in_flight and fault.executor is None for fault in faults):
        return
    # Each fault names its victim, so each executor must answer for its own.
    lost: Counter[int] = Counter()
    for run_id in again:
        life = lives.get(run_id)
        for token in {execution.token for execution in by_run[run_id]} if life is not None else ():
            attempt = life.attempts.get(token) if life is not None else None
            if attempt is not None and attempt.after is RunState.QUEUED:
                lost[attempt.executor] += 1
    explained: Counter[int] = Counter()
    for fault in faults:
        explained[fault.executor or 0] += fault.in_flight
    for executor, number in lost.items():
        if number > explained[executor]:
            text = f"{number} attempts that executor {executor} had begun ran again"
            yield HistoryFinding(FindingKind.RE_EXECUTIONS, f"{text}, its faults explain {explained[executor]}")


def crowded(
    history: History,
    runs: Mapping[UUID, Run],
    by_run: Mapping[UUID, Sequence[Execution]],
    lives: Mapping[UUID, Life] | None,
) -> Iterable[HistoryFinding]:
    """More executions at the same time than a concurrency limit allows.

    An execution counts from its begin until its end, or until its attempt was taken away, if that came first: what a
    zombie does after that is counted apart.
    """
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for run_id, executions in by_run.items():
        run = runs.get(run_id)
        if run is None or run.limit_key is None or run.limit_key not in history.limits:
            continue
        life = None if lives is None else lives.get(run_id)
        for execution in executions:
            attempt = None if life is None else life.attempts.get(execution.token)
            ends = (execution.end, None if attempt is None else attempt.taken_at)
            known = [end for end in ends if end is not None]
            if known:
                spans[run.limit_key].append((execution.begin, min(known) - history.clock_slack))
    for key, limit in history.limits.items():
        most, when = most_at_once(spans[key])
        if most > limit:
            yield HistoryFinding(
                FindingKind.OVERLAP, f"{most} runs with limit key {key!r} ran at {when:.6f}, its limit is {limit}"
            )
