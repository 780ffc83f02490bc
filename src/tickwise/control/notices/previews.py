"""The preview of a rule: which jobs it concerns, and what of the last day it would have told.

    rule ──► runs of the last 24 h, newest first, `MAX_RUNS` at most ──► oldest first, job by job ──► what each event
                                                                         would have counted

A preview judges what is on record. Events that leave no record of a run (an executor that was lost, a job that was
paused by its fuse, a certificate) are not in it, and the answer names them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.control.context import ControlContext
from tickwise.domain.lifecycle import RunState
from tickwise.domain.notices.judging import RETRIES_USUAL, UNCHOSEN
from tickwise.domain.notices.rules import INSTALLATION, NoticeEvent, NotificationRule
from tickwise.domain.selectors import labels_from, matches
from tickwise.ports.store import NO_TEXT, JobQuery, JobRow, JobsOfQuery, RunQuery, RunRow

DAY_SECONDS: Final = 86_400.0
MAX_RUNS: Final = 2_000
"""The most runs of the last day that a preview looks at."""
MAX_JOBS: Final = 10_000
"""The most jobs that it counts."""
SAMPLE: Final = 10
LATE_SECONDS: Final = 60.0
"""Of LATE without `after`."""
JUDGED: Final = frozenset(
    {
        NoticeEvent.FAILURE, NoticeEvent.FIRST_FAILURE, NoticeEvent.RECOVERY, NoticeEvent.DID_NOT_RUN,
        NoticeEvent.LATE, NoticeEvent.LONG, NoticeEvent.RETRIES, NoticeEvent.DEAD_LETTER, NoticeEvent.SUCCESS,
    }
)  # fmt: skip


class ToldRun(NamedTuple):
    """A run that the rule would have told of."""

    at: float
    event: NoticeEvent
    run_id: UUID
    job_id: UUID


class ConcernedJob(NamedTuple):
    """A job that the rule concerns."""

    job_id: UUID
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePreview:
    """The jobs of a rule, and the runs that it would have told of."""

    jobs: int
    """At most `MAX_JOBS`."""
    sample: Sequence[ConcernedJob]
    """Some of them."""
    names: Mapping[UUID, str]
    """The names of the jobs of `told`."""
    runs: int
    """Runs of the last day that were looked at."""
    more: bool
    """There were more runs: the preview is of the newest."""
    counts: Mapping[NoticeEvent, int]
    """The number of times that each event would have been counted."""
    told: Sequence[ToldRun]
    """The newest of them."""
    not_judged: Sequence[NoticeEvent]
    """Events of the rule of which a preview knows nothing."""


async def preview_of(context: ControlContext, rule: NotificationRule) -> RulePreview:
    """Look what a rule would have told."""
    unknown = sorted(rule.on - JUDGED)
    if rule.namespace == INSTALLATION:
        return RulePreview(
            jobs=0, sample=(), names={}, runs=0, more=False, counts={}, told=(), not_judged=unknown
        )  # fmt: skip
    shown, count = await _jobs(context, rule)
    runs = await _runs(context, rule)
    told = list(_told(rule, runs[:MAX_RUNS]))
    counts: dict[NoticeEvent, int] = defaultdict(int)
    for each in told:
        counts[each.event] += 1
    newest = sorted(told, key=lambda each: each.at, reverse=True)[:SAMPLE]
    query = JobsOfQuery(namespace=rule.namespace, jobs=[each.job_id for each in newest])
    names = {row.job_id: row.name for row in await context.searches.jobs(query)} if newest else {}
    return RulePreview(
        jobs=count,
        sample=[ConcernedJob(row.job_id, row.name) for row in shown],
        names=names,
        runs=min(len(runs), MAX_RUNS),
        more=len(runs) > MAX_RUNS,
        counts=dict(counts),
        told=newest,
        not_judged=unknown,
    )


async def _jobs(context: ControlContext, rule: NotificationRule) -> tuple[Sequence[JobRow], int]:
    """Some of the jobs that it concerns, and their number, `MAX_JOBS` at most."""
    by_id = JobQuery(namespace=rule.namespace, ids=rule.jobs, limit=len(rule.jobs) or 1)
    named = await context.searches.jobs(by_id) if rule.jobs else ()
    if rule.jobs and not rule.labels:
        return named[:SAMPLE], len(named)
    wanted = JobQuery(namespace=rule.namespace, labels=rule.labels, limit=MAX_JOBS)
    shown = await context.searches.jobs(replace(wanted, limit=SAMPLE))
    count = len(shown) if len(shown) < SAMPLE else int(await context.searches.count(wanted))
    others = [row for row in named if not matches(row.labels, (labels_from(rule.labels),))]
    return [*others, *shown][:SAMPLE], min(count + len(others), MAX_JOBS)


async def _runs(context: ControlContext, rule: NotificationRule) -> Sequence[RunRow]:
    """The runs of the last day that it concerns, the newest first, one more than are judged."""
    now = await context.time.now()
    query = RunQuery(
        namespace=rule.namespace,
        labels=rule.labels,
        due_after=now - DAY_SECONDS,
        due_before=now,
        limit=MAX_RUNS + 1,
        texts=NO_TEXT,
    )
    found: dict[UUID, RunRow] = {}
    if rule.labels or not rule.jobs:
        found = {run.run_id: run for run in await context.searches.runs(query)}
    for job_id in rule.jobs:
        left = MAX_RUNS + 1 - len(found)
        if left > 0:
            runs = await context.searches.runs(replace(query, labels={}, job_id=job_id, limit=left))
            found |= {run.run_id: run for run in runs}
    return list(found.values())


def _told(rule: NotificationRule, runs: Sequence[RunRow]) -> Iterator[ToldRun]:
    by_job: dict[UUID, list[RunRow]] = defaultdict(list)
    for run in runs:
        by_job[run.job_id].append(run)
    for found in by_job.values():
        found.sort(key=lambda run: run.ended_at if run.ended_at is not None else float("inf"))
        yield from _of_job(rule, found)


def _of_job(rule: NotificationRule, runs: Sequence[RunRow]) -> Iterator[ToldRun]:
    """The runs of one job, in the order of their ends, that it would have told of."""
    ends: list[bool] = []
    is_open = False
    for run in runs:
        yield from _of_times(rule, run)
        if run.state is RunState.SKIPPED and run.reason in UNCHOSEN:
            yield from _hit(rule, NoticeEvent.DID_NOT_RUN, run)
        if run.state not in (RunState.FAILED, RunState.SUCCESS):
            continue
        failed = run.state is RunState.FAILED
        was_failing = bool(ends) and ends[-1]
        ends.append(failed)
        if failed:
            told = [NoticeEvent.FAILURE] if _counts(rule, ends) else []
            told += [] if was_failing else [NoticeEvent.FIRST_FAILURE]
            told += [NoticeEvent.DEAD_LETTER]
            for event in told:
                is_open = is_open or event in rule.on
                yield from _hit(rule, event, run)
            continue
        is_told = is_open and NoticeEvent.RECOVERY in rule.on
        is_open = False
        yield from _hit(rule, NoticeEvent.RECOVERY if is_told else NoticeEvent.SUCCESS, run)


def _counts(rule: NotificationRule, ends: Sequence[bool]) -> bool:
    """Check whether a failure, the newest of the ends, is one that the rule is about."""
    if rule.in_a_row is None and rule.failures_of is None:
        return True
    if rule.in_a_row is not None and len(ends) >= rule.in_a_row and all(ends[-rule.in_a_row :]):
        return True
    return rule.failures_of is not None and sum(ends[-rule.failures_of.runs :]) >= rule.failures_of.failures


def _of_times(rule: NotificationRule, run: RunRow) -> Iterator[ToldRun]:
    if run.started_at is None:
        return
    if run.attempt == 1 and run.started_at - run.due_at >= (rule.after or LATE_SECONDS):
        yield from _hit(rule, NoticeEvent.LATE, run)
    if rule.after is not None and run.ended_at is not None and run.ended_at - run.started_at >= rule.after:
        yield from _hit(rule, NoticeEvent.LONG, run)
    # The attempt that ended the run FAILED is not tried again.
    tries = run.attempt - 1
    if tries >= (rule.attempts or RETRIES_USUAL):
        yield from _hit(rule, NoticeEvent.RETRIES, run)


def _hit(rule: NotificationRule, event: NoticeEvent, run: RunRow) -> Iterator[ToldRun]:
    if event in rule.on:
        at = run.ended_at if run.ended_at is not None else run.due_at
        yield ToldRun(at, event, run.run_id, run.job_id)
