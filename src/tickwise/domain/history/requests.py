"""Compares the answers that clients got with the records, and the records with themselves.

answered OK    ──► there is exactly one run for it, however often it was asked with the same key
answered FAIL  ──► there is none
answered INFO  ──► there is one or none
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from tickwise.domain.history.events import ClientAnswer, History, Operation, RequestKind, Run
from tickwise.domain.history.findings import FindingKind, HistoryFinding
from tickwise.domain.history.journal import Life
from tickwise.domain.lifecycle import FINAL, RunState
from tickwise.domain.model import Trigger

BY_SCHEDULE = frozenset({Trigger.SCHEDULE, Trigger.MISSED})
"""Triggers of runs that a job's own schedule makes."""


def on_record(history: History, lives: Mapping[UUID, Life] | None) -> Iterable[HistoryFinding]:
    """Each run is there once, ended, and as the journal says that it ended."""
    seen: set[UUID] = set()
    named: dict[tuple[UUID, float], UUID] = {}
    for run in history.runs:
        if run.run_id in seen:
            yield HistoryFinding(
                FindingKind.DUPLICATE_RUN, f"run {run.run_id} is on record twice", run.run_id, run.job_id
            )
        seen.add(run.run_id)
        if run.trigger == Trigger.SCHEDULE:
            fire = run.job_id, run.due if run.nominal is None else run.nominal
            if named.setdefault(fire, run.run_id) != run.run_id:
                text = f"runs {named[fire]} and {run.run_id} are both the fire of job {run.job_id} at {fire[1]:.6f}"
                yield HistoryFinding(FindingKind.DUPLICATE_RUN, text, run.run_id, run.job_id)
        if history.calm and run.state not in FINAL:
            yield HistoryFinding(
                FindingKind.NOT_TERMINAL, f"run {run.run_id} is still {run.state}", run.run_id, run.job_id
            )
        if run.attempts_most is not None and run.failures > run.attempts_most:
            text = f"run {run.run_id} failed {run.failures} times, and its job allows {run.attempts_most}"
            yield HistoryFinding(FindingKind.TOO_MANY_ATTEMPTS, text, run.run_id, run.job_id)
        if run.crashes > history.crashes_most:
            text = (
                f"run {run.run_id} was lost with its executor {run.crashes} times, {history.crashes_most} are the most"
            )
            yield HistoryFinding(FindingKind.TOO_MANY_ATTEMPTS, text, run.run_id, run.job_id)
        if lives is not None:
            yield from _as_journalled(run, lives.get(run.run_id))
    for run_id, life in (lives or {}).items():
        if life.state is not None and run_id not in seen:
            yield HistoryFinding(
                FindingKind.LOST, f"run {run_id} was {life.state} and is not on record any more", run_id
            )


def _as_journalled(run: Run, life: Life | None) -> Iterable[HistoryFinding]:
    if life is None:
        text = f"run {run.run_id} is on record as {run.state}, and the journal knows nothing of it"
        yield HistoryFinding(FindingKind.VERSION_GAP, text, run.run_id, run.job_id)
        return
    if life.state is not run.state:
        text = f"run {run.run_id} is on record as {run.state}, and the journal ends with {life.state}"
        yield HistoryFinding(FindingKind.LOST_UPDATE, text, run.run_id, run.job_id)
    current = max(life.attempts, default=0)
    if run.state is RunState.SUCCESS and run.token not in (0, current):
        text = f"run {run.run_id} ended under token {run.token}, and its last claim gave {current}"
        yield HistoryFinding(FindingKind.STALE_TOKEN, text, run.run_id, run.job_id, run.token)


class ClientRequests:
    """The operations of a history, held against its runs."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._by_id = {run.run_id: run for run in runs}
        self._by_key: dict[str, list[Run]] = defaultdict(list)
        self._by_job: dict[UUID, list[Run]] = defaultdict(list)
        for run in runs:
            if run.key is not None:
                self._by_key[run.key].append(run)
            if run.trigger in BY_SCHEDULE:
                self._by_job[run.job_id].append(run)

    def judge(self, operations: Iterable[Operation]) -> Iterable[HistoryFinding]:
        """Yield the broken promises to clients."""
        same: dict[tuple[RequestKind, str], list[Operation]] = defaultdict(list)
        for operation in operations:
            if operation.asked is RequestKind.CANCEL:
                yield from self._cancel(operation)
            elif operation.key is None:
                yield from self._request([operation])
            else:
                same[operation.asked, operation.key].append(operation)
        for requests in same.values():
            yield from self._request(requests)

    def _request(self, requests: Sequence[Operation]) -> Iterable[HistoryFinding]:
        """One thing that was asked for, once or more often."""
        first = requests[0]
        told = {operation.run_id or operation.job_id for operation in requests if operation.answer is ClientAnswer.OK}
        if len(told) > 1:
            text = f"{_what(first)} was answered with {len(told)} ids: {', '.join(sorted(map(str, told)))}"
            yield HistoryFinding(FindingKind.DUPLICATE_RUN, text, None, first.job_id)
        found = self._made(requests)
        if told and first.once and not found:
            text = f"{_what(first)} was acknowledged, and there is no run of it"
            yield HistoryFinding(FindingKind.LOST, text, first.run_id, first.job_id)
        if first.once and len(found) > 1:
            text = f"{_what(first)} made {len(found)} runs: {', '.join(sorted(map(str, found)))}"
            yield HistoryFinding(FindingKind.DUPLICATE_RUN, text, first.run_id, first.job_id)
        if found and all(operation.answer is ClientAnswer.FAIL for operation in requests):
            text = f"{_what(first)} was answered as not done, and there is run {min(found)}"
            yield HistoryFinding(FindingKind.FAILED_SUBMIT, text, min(found), first.job_id)

    def _made(self, requests: Sequence[Operation]) -> set[UUID]:
        """The runs that came of it."""
        found: set[UUID] = set()
        for operation in requests:
            if operation.key is not None:
                found.update(run.run_id for run in self._by_key.get(operation.key, ()))
            if operation.run_id is not None and operation.run_id in self._by_id:
                found.add(operation.run_id)
            if operation.asked is RequestKind.SUBMIT and operation.job_id is not None:
                found.update(run.run_id for run in self._by_job.get(operation.job_id, ()))
        return found

    def _cancel(self, operation: Operation) -> Iterable[HistoryFinding]:
        if (
            operation.answer is not ClientAnswer.OK
            or operation.state is not RunState.CANCELLED
            or operation.run_id is None
        ):
            return
        run = self._by_id.get(operation.run_id)
        if run is None:
            text = f"run {operation.run_id} was answered to be cancelled, and is not on record"
            yield HistoryFinding(FindingKind.LOST, text, operation.run_id, operation.job_id)
        elif run.state is not RunState.CANCELLED:
            text = f"run {run.run_id} was answered to be cancelled, and is {run.state}"
            yield HistoryFinding(FindingKind.CANCELLED_RAN_ON, text, run.run_id, run.job_id)


def _what(operation: Operation) -> str:
    if operation.key is not None:
        return f"the {operation.asked} with key {operation.key!r}"
    if operation.run_id is not None:
        return f"the {operation.asked} of run {operation.run_id}"
    return f"the {operation.asked} of job {operation.job_id}"
