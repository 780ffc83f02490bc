"""Looks for runs that took or wrote far more or less than earlier ones of their job, where a rule asks for that.

    jobs of rules about anomalies, by id, a page at a time ──► runs that ended since the last round
      ──► compared with earlier ones (kept for a while) ──► event for the rules

Each scheduler does it. Invariants: without such a rule nothing is looked at; an event has a name, so several schedulers
note it once. A round begins some minutes before the end of the one before: an end that is recorded late, or a
scheduler that starts anew, leaves out none of that time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.domain.callers import INSTALLATION
from tickwise.domain.notices.changes import NoticeJob
from tickwise.domain.notices.index import RuleIndex
from tickwise.domain.notices.rules import NoticeEvent
from tickwise.domain.observing.anomalies import SAMPLE, Anomaly, anomalies_of
from tickwise.ports.clock import Clock
from tickwise.ports.store import NotedEvent, RunSample, Store
from tickwise.roles.scheduler.alerting import IDLE_SECONDS, Alerting

PAGE: Final = 200
"""Jobs of one step."""
ROUND_SECONDS: Final = 30.0
"""The pause between two rounds,"""
REST_SECONDS: Final = 0.2
"""and between two pages of one."""
SLACK_SECONDS: Final = 600.0
FRESH: Final = 50
"""Runs of one job that are judged in one round, the newest."""
KEPT_SECONDS: Final = 600.0
"""The time for which the earlier runs of a job are kept, once there are enough of them."""
MAX_KEPT: Final = 2_000
"""Jobs whose earlier runs are kept: some 20 MB."""
FIRST: Final = UUID(int=0)


class _Earlier(NamedTuple):
    """The earlier runs of a job, as they were read."""

    until: float
    """On the monotonic clock."""
    samples: Sequence[RunSample]


class AnomalyWatch:
    """The watch of one scheduler."""

    def __init__(self, alerting: Alerting, store: Store, clock: Clock) -> None:
        self._alerting = alerting
        self._store = store
        self._clock = clock
        self._after = FIRST
        self._since: float | None = None
        self._begun: float | None = None
        """The begin of the round that goes on, or of the last one, by the store's clock."""
        self._earlier: dict[UUID, _Earlier] = {}

    async def step(self) -> float:
        """Look at one page of jobs. Returns the seconds until the next one."""
        if not await self._alerting.refresh():
            return IDLE_SECONDS
        index = self._alerting.index
        namespaces = [each for each in index.namespaces(NoticeEvent.ANOMALY) if each != INSTALLATION]
        if not namespaces:
            self._after, self._begun = FIRST, None
            self._earlier.clear()
            return ROUND_SECONDS
        if self._after == FIRST:
            now = await self._store.now()
            self._since = (now if self._begun is None else self._begun) - SLACK_SECONDS
            self._begun = now
        page = await self._store.delays.watched_jobs(
            namespaces, PAGE, after=self._after, ids=_named_jobs(index, namespaces)
        )
        jobs = {
            job.job_id: job
            for job in page.jobs
            if index.concerning(job.namespace, NoticeEvent.ANOMALY, job.job_id, job.labels)
        }
        if jobs:
            await self._store.alerts.note(await self._found(jobs))
        self._after = FIRST if page.beyond is None else page.beyond
        return ROUND_SECONDS if page.beyond is None else REST_SECONDS

    async def _found(self, jobs: Mapping[UUID, NoticeJob]) -> list[NotedEvent]:
        """The anomalies of the runs of these jobs that ended of late."""
        fresh = await self._store.delays.samples(jobs, FRESH, since=self._since)
        earlier = await self._earlier_of(fresh)
        noted = []
        for job_id, runs in fresh.items():
            job = jobs[job_id]
            for run in runs:
                before = [
                    each.measured
                    for each in earlier.get(job_id, ())
                    if each.run_id < run.run_id and each.namespace == run.namespace
                ]
                if run.namespace == job.namespace:
                    noted += [_event(job, run, each) for each in anomalies_of(run.measured, before)]
        return noted

    async def _earlier_of(self, jobs: Collection[UUID]) -> Mapping[UUID, Sequence[RunSample]]:
        """The earlier runs of these jobs, of which some are remembered."""
        now = self._clock.monotonic()
        missing = [job_id for job_id in jobs if job_id not in self._earlier or self._earlier[job_id].until <= now]
        found = dict(await self._store.delays.samples(missing, SAMPLE + FRESH)) if missing else {}
        for job_id, samples in found.items():
            self._earlier.pop(job_id, None)
            if len(samples) == SAMPLE + FRESH:
                self._earlier[job_id] = _Earlier(now + KEPT_SECONDS, samples)
        while len(self._earlier) > MAX_KEPT:
            del self._earlier[next(iter(self._earlier))]
        return {job_id: found[job_id] if job_id in found else self._earlier[job_id].samples for job_id in jobs}


def _named_jobs(index: RuleIndex, namespaces: Collection[str]) -> Collection[UUID] | None:
    """The jobs that the rules name, if none of them is about labels or a whole namespace; else None."""
    rules = [rule for each in namespaces for rule in index.about(each, NoticeEvent.ANOMALY)]
    if any(rule.is_whole or rule.labels for rule in rules):
        return None
    return {job_id for rule in rules for job_id in rule.jobs}


def _event(job: NoticeJob, run: RunSample, anomaly: Anomaly) -> NotedEvent:
    return NotedEvent(
        job.namespace,
        NoticeEvent.ANOMALY,
        f"anomaly/{anomaly.quantity}/{run.run_id}",
        str(job.job_id),
        job.name,
        anomaly.sentence,
        job.job_id,
        run.run_id,
    )
