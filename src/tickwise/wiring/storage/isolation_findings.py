"""The findings of `tickwise doctor` on jobs whose runs wait because of their isolation.

A job that was stored before its namespace demanded more (`min_isolation`) stays, and its runs wait. So do those of a
job whose isolation no executor of its queue offers. Each run says so itself; these findings name the jobs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.rules.confinement import CONTAINER_LABEL, SANDBOX_LABEL, Isolation, is_below
from tickwise.ports.store import ExecutorRow, JobQuery, JobRow, Store
from tickwise.wiring.findings import DoctorFinding

JOBS_MOST: Final = 20_000
"""The most jobs that are looked at: some seconds."""
PAGE: Final = 500
PAGE_BYTES: Final = 8 << 20
NAMED_MOST: Final = 5
_GOES_ON: Final = (JobStatus.SCHEDULED, JobStatus.PAUSED)
_WALLS: Final = frozenset((SANDBOX_LABEL, CONTAINER_LABEL))


async def isolation_findings(store: Store, most: int = JOBS_MOST) -> AsyncIterator[DoctorFinding]:
    """Look at the scheduled and paused jobs of each namespace, up to `most` jobs; nothing is said where all is well."""
    now = await store.now()
    active = [row for row in await store.executors.all() if row.gone_at is None and row.lease_until > now]
    below: list[str] = []
    ungiven: list[str] = []
    looked = 0
    async for row, floor in _jobs(store):
        looked += 1
        if looked > most:
            break
        if row.status not in _GOES_ON:
            continue
        if is_below(row.lane.requires, floor):
            below.append(f"{row.namespace}/{row.name} ({row.job_id})")
        elif _is_given_by_none(row, active):
            ungiven.append(f"{row.namespace}/{row.name} ({row.job_id})")
    at_least = " at least" if looked > most else ""
    if below:
        yield DoctorFinding(
            "isolation of jobs", "warning",
            f"{len(below)}{at_least} below the min_isolation of their namespace, so their runs wait: {_named(below)}",
            "tickwise jobs edit JOB --isolation LEVEL, or tickwise namespaces quota NAMESPACE --min-isolation LEVEL",
        )  # fmt: skip
    if ungiven:
        yield DoctorFinding(
            "isolation of jobs", "warning",
            f"{len(ungiven)}{at_least} with an isolation that no active executor of their queue offers, so their runs "
            f"wait: {_named(ungiven)}",
            "`tickwise doctor` on the machines of these executors says why they do not offer it",
        )  # fmt: skip
    if looked > most:
        yield DoctorFinding("isolation of jobs", "ok", f"the first {most:,} jobs were looked at, and no more")


async def _jobs(store: Store) -> AsyncIterator[tuple[JobRow, Isolation]]:
    """All jobs, each with the least isolation that its namespace demands."""
    after: str | None = None
    while namespaces := await store.namespaces.page(after=after, limit=PAGE):
        for namespace in namespaces:
            async for row in _jobs_of(store, namespace.name):
                yield row, namespace.quotas.least_isolation
        after = namespaces[-1].name


async def _jobs_of(store: Store, namespace: str) -> AsyncIterator[JobRow]:
    before = None
    while True:
        page = await store.searches.jobs(
            JobQuery(namespace=namespace, before=before, limit=PAGE, bytes_most=PAGE_BYTES)
        )
        for row in page:
            yield row
        if not page.is_full(PAGE):
            return
        before = page[-1].listed


def _is_given_by_none(row: JobRow, active: Sequence[ExecutorRow]) -> bool:
    """Check whether executors serve the queue of this job, and none of them offers its isolation."""
    needed = _WALLS.intersection(row.lane.requires)
    serving = [each for each in active if row.lane.queue in each.queues and each.takes(row.namespace)]
    return bool(serving and needed) and not any(needed.issubset(each.labels) for each in serving)


def _named(jobs: Sequence[str]) -> str:
    more = f" and {len(jobs) - NAMED_MOST} more" if len(jobs) > NAMED_MOST else ""
    return ", ".join(jobs[:NAMED_MOST]) + more
