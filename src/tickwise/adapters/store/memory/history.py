"""Past and present, for readers, and its upkeep; and the API keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from uuid import UUID

from tickwise.adapters.store.memory.ended import ALL_RUNS, Within
from tickwise.adapters.store.memory.executors import GONE_LISTED_SECONDS
from tickwise.adapters.store.memory.failures.error_groups import forget
from tickwise.adapters.store.memory.notices import alerts
from tickwise.adapters.store.memory.records import EndedRun, JobRecord, RunRecord
from tickwise.adapters.store.memory.rows import LOOK_BUDGET, ROW_COST, Report, attempt_row, paused
from tickwise.adapters.store.memory.state import HOUR_SECONDS, Duty, State
from tickwise.domain import selectors
from tickwise.domain.lifecycle import CODES, FINAL, HELD, RunState
from tickwise.ports.store import (
    MAX_TALLIES,
    TALLIES_SECONDS,
    AttemptRow,
    BusyQueue,
    Incident,
    Maintained,
    MarkedChannel,
    Page,
    Retention,
    RunQuery,
    RunRow,
    RunText,
    StoreStats,
    Tally,
    page_within,
)

MAX_INCIDENTS = 100


class RunRecords(Duty):
    """`RunStore.get` and `RunStore.attempts` of the port."""

    async def get(self, namespace: str, run_id: UUID) -> RunRow | None:
        row = row_of(self._state, run_id)
        return row if row is not None and row.namespace == namespace else None

    async def attempts(self, run_id: UUID) -> Sequence[AttemptRow]:
        ended = self._state.ended.get(run_id)
        if ended is not None:
            return list(ended.attempts)
        run = self._state.runs.get(run_id)
        if run is None:
            return []
        current = [attempt_row(run, run.state, Report(started=run.started))] if run.held else []
        return [*run.attempts, *current]


class RunSearches(Duty):
    """The searches for runs, and their tallies."""

    async def runs(self, query: RunQuery) -> Page[RunRow]:
        found: list[RunRow] = []
        budget, last = LOOK_BUDGET, None
        for row in self._candidates(query):
            if len(found) >= query.limit:
                break
            if budget <= 0 and query.may_pause and last is not None:
                return paused(page_within(found, query.bytes_most), last)
            last = row.run_id
            budget -= ROW_COST
            if query.is_met_by(row) and is_of(self._state.job_of(row), query):
                found.append(with_texts(row, query.texts))
        return page_within(found, query.bytes_most)

    def _candidates(self, query: RunQuery) -> Iterator[RunRow]:
        """The runs that may match, the newest first."""
        if query.ids:
            named = (row_of(self._state, run_id) for run_id in sorted(set(query.ids), reverse=True))
            return (row for row in named if row is not None)
        if query.job_id is not None:
            job = self._state.jobs.get(query.job_id)
            return iter(()) if job is None else rows_of(self._state, job, Within.of(query), is_search=True)
        states = frozenset(query.states)
        active = self._active_of(query) if not states or not states <= FINAL else ()
        ended = self._state.ended.newest(
            namespace=query.namespace, failed=states == {RunState.FAILED}, within=Within.of(query), is_search=True
        )
        return newest_first(self._state, active, iter(()) if states and not states & FINAL else ended)

    def _active_of(self, query: RunQuery) -> Iterator[UUID]:
        """The active runs of the namespace and between the bounds: those of others cost a glance each, and no row."""
        for run_id, run in self._state.runs.items():
            if run.job.namespace == query.namespace and (query.before is None or run_id < query.before):
                yield run_id

    async def tally(self, namespace: str | None, since: float, until: float) -> Sequence[Tally]:
        found = Counter[tuple[float, RunState]]()
        for (whose, hour, state), runs in self._state.tallies.items():
            if namespace in (None, whose) and since <= hour * HOUR_SECONDS < until:
                found[hour * HOUR_SECONDS, state] += runs
        ordered = sorted(found.items(), key=lambda item: (item[0][0], CODES[item[0][1]]))
        return [Tally(hour=hour, state=state, runs=runs) for (hour, state), runs in ordered[:MAX_TALLIES]]


class Incidents(Duty):
    """`IncidentStore` of the port."""

    async def add(self, incident: Incident) -> None:
        self._state.incidents.setdefault((incident.kind, incident.begin, incident.who), incident)

    async def between(self, since: float, until: float) -> Sequence[Incident]:
        found = [each for each in self._state.incidents.values() if each.begin <= until and each.end >= since]
        return sorted(found, key=lambda incident: (incident.begin, incident.kind, incident.who))[:MAX_INCIDENTS]


class Marks(Duty):
    """`MarkStore` of the port."""

    async def put(self, channel: MarkedChannel, marks: Mapping[int, float]) -> None:
        for source, mark in marks.items():
            if channel is MarkedChannel.RESULTS and source not in self._state.executors:
                continue
            self._state.marks[channel, source] = max(self._state.marks.get((channel, source), mark), mark)

    async def get(self, channel: MarkedChannel, sources: Sequence[int]) -> Mapping[int, float]:
        known = self._state.marks
        if channel is MarkedChannel.RESULTS:
            sources = [source for source in sources if source in self._state.executors]
        return {source: known[channel, source] for source in sources if (channel, source) in known}


class Upkeep(Duty):
    """`UpkeepStore` of the port."""

    @property
    def cluster_id(self) -> str:
        if self._state.cluster_id is None:
            self._state.cluster_id = str(UUID(bytes=self._state.clock.random_bytes(16), version=4))
        return self._state.cluster_id

    async def maintain(self, retention: Retention) -> Maintained:
        now = self._state.now()
        dropped = self._drop_runs(now - retention.runs_seconds, now - retention.failed_seconds)
        dropped += self._drop_jobs(now - retention.runs_seconds)
        forget(self._state, now - retention.failed_seconds)
        alerts.forget(self._state)
        self._state.audit.retire(now - retention.audit_seconds)
        expired = [name for name, receipt in self._state.receipts.items() if receipt.expires_at <= now]
        for name in expired:
            del self._state.receipts[name]
        self._state.slots.trim(now)
        self._state.free_lanes()
        for counted in [each for each in self._state.tallies if each[1] * HOUR_SECONDS < now - TALLIES_SECONDS]:
            del self._state.tallies[counted]
        self._drop_past(now - max(retention.runs_seconds, GONE_LISTED_SECONDS))
        return Maintained(dropped=[str(gone) for gone in dropped], receipts=len(expired))

    def _drop_past(self, since: float) -> None:
        """Executors and incidents of which no run tells any more."""
        for executor in list(self._state.executors.values()):
            if executor.gone_at is not None and executor.gone_at < since:
                del self._state.executors[executor.number]
                self._state.marks.pop((MarkedChannel.RESULTS, executor.number), None)
        for name, incident in list(self._state.incidents.items()):
            if incident.end < since:
                del self._state.incidents[name]

    def _drop_runs(self, since: float, failed_since: float) -> list[UUID]:
        """Ended runs that are past their time; the failed have a longer one."""
        dropped = [
            run_id
            for run_id in self._state.ended.ended_before(since, failed_at=failed_since)
            if run_id not in self._state.completions
        ]
        self._state.ended.drop(dropped)
        for run_id in dropped:
            self._state.letters.pop(run_id, None)
        return dropped

    def _drop_jobs(self, since: float) -> list[UUID]:
        """One-time jobs that have nothing to come and nothing on record any more."""
        resting = self._state.jobs.resting_before(since)
        gone = [job_id for job_id in resting if not self._state.ended.has_any(job_id)]
        for job_id in gone:
            del self._state.jobs[job_id]
        dropped = [job for job in self._state.jobs.awake if job.created_at < since and self._is_over(job)]
        for job in dropped:
            del self._state.jobs[job.job_id]
            self._state.secret_uses.drop(job)
            if job.key is not None:
                del self._state.jobs.keyed[job.namespace, job.key]
        return gone + [job.job_id for job in dropped]

    def _is_over(self, job: JobRecord) -> bool:
        """Check whether a job is finished and forgotten: recurring ones never are."""
        is_there = job.recurring or job.timer is not None or bool(job.runs)
        return not is_there and not self._state.ended.has_any(job.job_id)

    async def stats(self, queues: int = 0) -> StoreStats:
        now = self._state.now()
        states = [run.state for run in self._state.runs.values()]
        ready = [run.ready for run in self._claimable()]
        dues = [timer.pending.due for timer in self._state.timers()]
        return StoreStats(
            queued=states.count(RunState.QUEUED),
            held=states.count(RunState.DISPATCHED) + states.count(RunState.RUNNING),
            retrying=states.count(RunState.RETRYING),
            oldest_ready_seconds=max(0.0, now - min(ready, default=now)),
            timers=len(dues),
            timers_late_seconds=max(0.0, now - min(dues, default=now)),
            executors=sum(executor.gone_at is None for executor in self._state.executors.values()),
            queues=self._fullest(queues),
        )

    def _claimable(self) -> list[RunRecord]:
        """The runs that may be claimed. Nobody is answered meanwhile, so a call for each is spared if it can be."""
        state = self._state
        waiting = [run for run in state.runs.values() if not (run.blocked or run.state in HELD)]
        return [run for run in waiting if state.is_claimable(run)] if state.stops or state.queue_holds else waiting

    def _fullest(self, limit: int) -> tuple[BusyQueue, ...]:
        counts: dict[tuple[str, str], list[int]] = {}
        if not limit:
            return ()
        for run in self._state.runs.values():
            counts.setdefault((run.job.namespace, run.lane.queue), [0, 0])[run.state in HELD] += 1
        fullest = sorted(counts.items(), key=lambda item: (-sum(item[1]), item[0]))
        return tuple(BusyQueue(*place, *numbers) for place, numbers in fullest[:limit])


def row_of(state: State, run_id: UUID) -> RunRow | None:
    run = state.runs.get(run_id)
    if run is not None:
        return state.run_row(run)
    ended = state.ended.get(run_id)
    return None if ended is None else ended.row


def rows_of(state: State, job: JobRecord, within: Within = ALL_RUNS, *, is_search: bool = False) -> Iterator[RunRow]:
    """The runs of a job, the newest first: all active ones, and the ended ones within these bounds."""
    return newest_first(state, job.runs, state.ended.newest(job.job_id, within=within, is_search=is_search))


def newest_first(state: State, active: Iterable[UUID], ended: Iterator[EndedRun]) -> Iterator[RunRow]:
    """Active runs, which are few, among ended ones, which are read as far as they are asked for."""
    waiting = sorted(active)
    for each in ended:
        while waiting and waiting[-1] > each.row.run_id:
            yield state.run_row(state.runs[waiting.pop()])
        if each.row.run_id not in state.runs:
            yield each.row
    for run_id in reversed(waiting):
        yield state.run_row(state.runs[run_id])


def with_texts(row: RunRow, texts: frozenset[RunText]) -> RunRow:
    """The run with these of its large texts only."""
    return row._replace(
        definition=row.definition if RunText.DEFINITION in texts else None,
        result=row.result if RunText.RESULT in texts else None,
    )


def is_of(job: JobRecord | None, query: RunQuery) -> bool:
    """Check whether a run of this job matches the search's conditions on jobs."""
    if job is None:
        return query.job_name is None and query.queue is None and not query.labels and query.within is None
    return (
        (query.job_name is None or query.job_name.casefold() in job.name.casefold())
        and query.labels.items() <= job.labels.items()
        and selectors.matches(job.labels, query.within)
        and (query.queue is None or query.queue == job.lane.queue)
    )
