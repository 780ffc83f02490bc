"""`tickwise doctor history`: the history checker over a live database's own records.

    runs, page by page (keyset) ─► attempts of those with several ─► domain.history ─┐
    executors of that time ──────────────────────────────────────────────────────────┼─► one verdict
    one-time jobs of that time ─► is there a run of each? ───────────────────────────┘

Reads only, through the store's port, page by page: what is held in memory is one page and an id per job. Runs that are
still alive are only looked at; nothing is concluded from what may change between two reads.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from tickwise.adapters.clock import SystemClock
from tickwise.domain.errors import Misconfigured
from tickwise.domain.history.checker import FindingKind, History, HistoryFinding, HistoryVerdict, Run, Status, judge
from tickwise.domain.history.journal import lives
from tickwise.domain.history.records import Tried, attempts_findings, claim_findings, journal_of, start_findings
from tickwise.domain.lifecycle import FINAL, JobStatus
from tickwise.domain.model import DEFAULT_NAMESPACE, id_instant
from tickwise.domain.schedule import ScheduleType
from tickwise.ports.store import NO_TEXT, PAGE_BYTES, EpochCause, JobQuery, RunQuery, RunRow, Store
from tickwise.wiring.storage.databases import store_of
from tickwise.wiring.storage.file_store import is_in_process

PAGE: Final = 1_000
AT_ONCE: Final = 8
"""Runs whose attempts are asked for at the same time: fewer than a store has connections."""
MAX_FINDINGS: Final = 1_000
"""The most findings that are kept with their sentences; all are counted."""
ONCE: Final = frozenset({ScheduleType.IMMEDIATE, ScheduleType.FUTURE})

UNSEEN: Final = (
    "the clients' answers: a job that was acknowledged and never stored leaves no record",
    "the tasks' effects: only a witness can tell that a task ran twice, at the same time as another, or wrote nothing",
    "single moves that left no record, such as a claim that was given back unbegun",
    "which occurrences there should have been: `tickwise jobs explain` and `tickwise simulate` say that",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPeriod:
    """The judged records: runs with a nominal time from `begin` on and before `end`, Unix seconds."""

    begin: float
    end: float
    namespace: str = DEFAULT_NAMESPACE


def judge_database(database_url: str | None, period: HistoryPeriod) -> HistoryVerdict:
    """The records of a database. Raises `Misconfigured`, `StoreUnavailable`."""
    if database_url is None or is_in_process(database_url):
        raise Misconfigured(
            "there is no database to read: name one with --database or TICKWISE_DATABASE_URL, or start `tickwise up`"
        )
    return asyncio.run(_judge_database(database_url, period))


async def _judge_database(database_url: str, period: HistoryPeriod) -> HistoryVerdict:
    store = store_of(database_url, SystemClock())
    await store.open()
    try:
        return await judge_records(store, period)
    finally:
        await store.close()


@dataclass(slots=True)
class _Sum:
    """The findings so far."""

    findings: dict[HistoryFinding, None] = field(default_factory=dict)
    kinds: Counter[FindingKind] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    ended: bool = False
    jobs: set[UUID] = field(default_factory=set)
    """The jobs with a run."""
    unseen: list[str] = field(default_factory=list)
    """The checks that this period cannot answer."""

    def add(self, findings: Sequence[HistoryFinding]) -> None:
        """Add the findings of one look; a finding counts once."""
        for finding in findings:
            if finding not in self.findings:
                self.kinds[finding.kind] += 1
                if len(self.findings) < MAX_FINDINGS:
                    self.findings[finding] = None

    def verdict(self) -> HistoryVerdict:
        """The verdict of all parts."""
        status = Status.INVALID if self.kinds else Status.VALID if self.ended else Status.UNKNOWN
        counts = dict(self.counts) | {str(kind): number for kind, number in self.kinds.items()}
        return HistoryVerdict(
            status=status, findings=tuple(self.findings), counts=counts, unseen=(*UNSEEN, *self.unseen)
        )


async def judge_records(archive: Store, period: HistoryPeriod) -> HistoryVerdict:
    """Judge the records of this period. Raises the store's errors."""
    executors = await archive.executors.all(between=(period.begin, period.end))
    gone = {row.executor: row.gone_at for row in executors if row.gone_at is not None}
    total = _Sum()
    await _judge_epochs(archive, period, total)
    for row in executors:
        if row.gone_at is None and row.differs:
            text = (
                f"executor {row.executor} says that it holds other runs than the database says: {row.differs} of them"
            )
            total.add([HistoryFinding(FindingKind.STORE_SET_BACK, text)])
    total.counts.update(dict.fromkeys(("runs", "ended", "attempts", "one_time_jobs_over"), 0), executors=len(executors))
    async for rows in _groups(archive, period):
        await _judge_rows(archive, rows, gone, total)
    async for job_id, created in _jobs_once(archive, period):
        total.counts["one_time_jobs_over"] += 1
        if job_id in total.jobs:
            continue
        query = RunQuery(namespace=period.namespace, job_id=job_id, limit=1, texts=NO_TEXT)
        if not await archive.searches.runs(query):
            text = f"the one-time job {job_id}, created at {created:.3f}, has neither a timer nor a run on record"
            total.add([HistoryFinding(FindingKind.LOST, text, None, job_id)])
    return total.verdict()


async def _judge_epochs(archive: Store, period: HistoryPeriod, total: _Sum) -> None:
    """Judge whether the database was set back in this period. Lost rows leave no record; the new epoch may."""
    for epoch in await archive.epochs.all():
        if epoch.cause is EpochCause.FIRST or not period.begin <= epoch.began_at < period.end:
            continue
        text = f"the database was set back at {epoch.began_at:.3f} ({epoch.cause}, epoch {epoch.epoch})"
        if epoch.lost_writes:
            text += f": it lost acknowledged results; executors had other results of {epoch.differed} runs"
            total.add([HistoryFinding(FindingKind.STORE_SET_BACK, text)])
        else:
            total.unseen.append(f"{text}: the loss of writes that it had acknowledged shortly before")


async def _groups(archive: Store, period: HistoryPeriod) -> AsyncIterator[Sequence[RunRow]]:
    """Pages of runs, newest first, cut only between two milliseconds: runs of one nominal time stay together."""
    before, rest = _bound(period.end), list[RunRow]()
    while True:
        query = RunQuery(
            namespace=period.namespace, after=_bound(period.begin), before=before, limit=PAGE, texts=NO_TEXT
        )
        page = await archive.searches.runs(query)
        rest += page
        if not page.is_full(PAGE):
            break
        before = page[-1].run_id
        last = id_instant(before)
        yield [row for row in rest if id_instant(row.run_id) != last]
        rest = [row for row in rest if id_instant(row.run_id) == last]
    yield rest


async def _judge_rows(archive: Store, rows: Sequence[RunRow], gone: Mapping[int, float], total: _Sum) -> None:
    runs = [_run(row) for row in rows]
    verdict = judge(History(runs=runs, calm=False))
    total.add(verdict.findings)
    total.counts["runs"] += len(runs)
    total.jobs.update(run.job_id for run in runs)
    ended = [(row, run) for row, run in zip(rows, runs, strict=True) if run.state in FINAL]
    total.ended |= bool(ended)
    total.counts["ended"] += len(ended)
    several = [run for row, run in ended if row.attempt > 1 or row.crashes]
    tried = await _attempts(archive, several)
    total.counts["attempts"] += sum(map(len, tried.values()))
    total.add(lives(change for run in several for change in journal_of(run, tried[run.run_id]))[1])
    for row, run in ended:
        attempts = tried.get(run.run_id)
        if attempts is not None:
            total.add([*attempts_findings(run, attempts)])
        elif row.executor:
            attempts = [Tried(row.attempt, 0, row.executor, run.state, row.dispatched_at, row.started_at, row.ended_at)]
        total.add([*start_findings(run), *claim_findings(run, attempts or (), gone)])


async def _attempts(archive: Store, runs: Sequence[Run]) -> dict[UUID, list[Tried]]:
    """The attempts of ended runs, a few runs at a time: these never change any more."""
    found: dict[UUID, list[Tried]] = {}
    for at in range(0, len(runs), AT_ONCE):
        some = [run.run_id for run in runs[at : at + AT_ONCE]]
        for run_id, attempts in zip(some, await asyncio.gather(*map(archive.runs.attempts, some)), strict=True):
            found[run_id] = [
                Tried(row.attempt, row.token, row.executor, row.state, row.dispatched_at, row.started_at, row.ended_at)
                for row in attempts
            ]
    return found


async def _jobs_once(archive: Store, period: HistoryPeriod) -> AsyncIterator[tuple[UUID, float]]:
    """One-time jobs of this time that are over, and when they were created. Ids that clients chose need not tell the
    time; what is not in its order is not looked at."""
    before, oldest = _bound(period.end), _bound(period.begin)
    while True:
        page = await archive.searches.jobs(
            JobQuery(namespace=period.namespace, before=before, limit=PAGE, bytes_most=PAGE_BYTES)
        )
        for job in page:
            over = job.status in (JobStatus.COMPLETED, JobStatus.FAILED) and job.timer is None
            if job.job_id >= oldest and over and job.schedule_type in ONCE:
                yield job.job_id, job.created_at
        if not page.is_full(PAGE) or page[-1].listed < oldest:
            return
        before = page[-1].listed


def _bound(instant: float) -> UUID:
    """The smallest id of this instant (see `model.time_id`)."""
    return UUID(int=min(max(round(instant * 1000), 0), (1 << 48) - 1) << 80)


def _run(row: RunRow) -> Run:
    return Run(
        row.run_id, row.job_id, row.state, row.trigger, due=row.due_at, nominal=row.nominal_at, until=row.until,
        started=row.started_at, ended=row.ended_at, attempt=row.attempt, failures=row.failures, crashes=row.crashes,
        reason=row.reason, origin=row.origin, witnessed=False,
    )  # fmt: skip
