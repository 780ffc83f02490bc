"""Checks that every occurrence has its run, and every end its successor.

Occurrences are matched blind: by when a run of the job first began, not by the time that its label names. So a wrong
label hides nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from tickwise.domain.history.events import Edge, Execution, History, Run, Target
from tickwise.domain.history.findings import FindingKind, HistoryFinding
from tickwise.domain.history.intervals import matched
from tickwise.domain.history.requests import BY_SCHEDULE
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Trigger
from tickwise.domain.retry import UNKNOWN_OUTCOME


def met(history: History, by_run: Mapping[UUID, Sequence[Execution]]) -> Iterable[HistoryFinding]:
    """Occurrences without a run, and runs without an occurrence, job by job."""
    targets: dict[UUID, list[Target]] = defaultdict(list)
    for target in history.targets or ():
        targets[target.job_id].append(target)
    runs: dict[UUID, list[Run]] = defaultdict(list)
    for run in history.runs:
        if run.job_id in targets and run.trigger in BY_SCHEDULE:
            runs[run.job_id].append(run)
    witnessed = history.executions is not None
    for job_id, wanted in targets.items():
        began: list[tuple[float, Run]] = []
        for run in runs[job_id]:
            at = by_run[run.run_id][0].begin if run.run_id in by_run else None if witnessed else run.started
            if at is not None:
                began.append((at, run))
        yield from _met(job_id, wanted, began, [run for run in runs[job_id] if run.state is RunState.SKIPPED])


def _met(
    job_id: UUID, wanted: Sequence[Target], began: Sequence[tuple[float, Run]], skips: Sequence[Run]
) -> Iterable[HistoryFinding]:
    result = matched([(target.earliest, target.latest) for target in wanted], [at for at, _ in began])
    for number in result.missed:
        target = wanted[number]
        if target.skippable and any(_covers(run, target) for run in skips):
            continue
        text = (
            f"job {job_id} has no run that began between {target.earliest:.6f} and {target.latest:.6f} "
            f"({len(began)} of its runs began at all)"
        )
        yield HistoryFinding(FindingKind.MISSED_TARGET, text, None, job_id)
    for number in result.extra:
        at, run = began[number]
        text = f"run {run.run_id} of job {job_id} began at {at:.6f}, where no occurrence asks for one"
        yield HistoryFinding(FindingKind.EXTRA_RUN, text, run.run_id, job_id)


def _covers(skip: Run, target: Target) -> bool:
    first = skip.due if skip.nominal is None else skip.nominal
    return first <= target.latest and (first if skip.until is None else skip.until) >= target.earliest


def followed(history: History) -> Iterable[HistoryFinding]:
    """Ends whose successor is missing or there twice, and successors that nothing asked for."""
    if not history.edges:
        return
    edges: dict[tuple[UUID, RunState], list[Edge]] = defaultdict(list)
    for edge in history.edges:
        edges[edge.job_id, edge.after].append(edge)
    made: dict[tuple[UUID, UUID], list[Run]] = defaultdict(list)
    for run in history.runs:
        if run.trigger == Trigger.SEQUENCE and run.origin is not None:
            made[run.origin, run.job_id].append(run)
    for run in history.runs:
        # The decision on an unknown outcome says with it which runs follow.
        after = (RunState.SUCCESS, RunState.FAILED) if run.reason == UNKNOWN_OUTCOME else (run.state,)
        for edge in (edge for state in after for edge in edges.get((run.job_id, state), ())):
            there = made.pop((run.run_id, edge.successor), [])
            if not there and run.reason != UNKNOWN_OUTCOME:
                text = f"run {run.run_id} ended {run.state}, and no run of job {edge.successor} followed"
                yield HistoryFinding(FindingKind.SUCCESSOR_MISSING, text, run.run_id, edge.successor)
            elif len(there) > 1:
                text = f"run {run.run_id} ended {run.state}, and {len(there)} runs of job {edge.successor} followed"
                yield HistoryFinding(FindingKind.SUCCESSOR_DOUBLED, text, run.run_id, edge.successor)
    for (origin, successor), runs in made.items():
        text = f"run {runs[0].run_id} of job {successor} names run {origin} as its origin, which starts none"
        yield HistoryFinding(FindingKind.EXTRA_RUN, text, runs[0].run_id, successor)
