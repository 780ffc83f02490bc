"""Bounded looks: the latest runs of many jobs, jobs by their ids, and the jobs that come next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.domain.selectors import Selector
from tickwise.ports.store import ComingQuery, JobAction, JobsOfQuery, LatestRunsQuery, RunRow, Store
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.factories import Factory, outcome

HOUR = 3600.0
BILLING: Selector = ((("team", "billing"),),)


class LatestRunsContract(StoreContract):
    """`LatestRunsQuery` and `JobsOfQuery`."""

    async def latest(self, store: Store, asked: LatestRunsQuery) -> dict[UUID, list[RunRow]]:
        """The runs that the look finds, by their job."""
        found: dict[UUID, list[RunRow]] = {}
        for row in await store.searches.runs(asked):
            found.setdefault(row.job_id, []).append(row)
        return found

    async def names(self, store: Store, jobs: Sequence[UUID], within: Selector | None = None) -> dict[UUID, str]:
        """The names of the jobs that the look finds."""
        asked = JobsOfQuery(namespace="default", jobs=jobs, within=within)
        return {row.job_id: row.name for row in await store.searches.jobs(asked)}

    async def test_the_latest_runs_of_each_job_are_found_at_once(self, store: Store, make: Factory) -> None:
        """Newest first, as many of each as asked for, ended ones and others; nothing of a job without runs."""
        executor = await self.register(store)
        jobs = [make.job(), make.job(), make.recurring(make.now + HOUR)]
        await self.add(store, *jobs)
        first, other, quiet = (job.job_id for job in jobs)
        ended = {claimed.job_id: claimed for claimed in await self.claim(store, executor)}
        await self.finish(store, executor, outcome(ended[first], RunState.FAILED, error="it broke"))
        more = [make.run(first, make.now + number) for number in (1, 2)]
        await store.runs.add("default", first, more)
        asked = LatestRunsQuery(
            namespace="default", jobs=(first, other, quiet, make.identifier()), each=2, until=make.now
        )
        found = await self.latest(store, asked)
        assert {first, other} == {job for job, runs in found.items() if runs}
        newest = sorted([ended[first].run_id, *(run.run_id for run in more)], reverse=True)
        assert newest[:2] == [run.run_id for run in found[first]]
        assert [(ended[other].run_id, RunState.DISPATCHED)] == [(run.run_id, run.state) for run in found[other]]
        (row,) = [
            run for run in (await self.latest(store, replace(asked, each=9)))[first] if run.state is RunState.FAILED
        ]
        assert (None, None, None) == (row.error, row.result, row.definition)

    async def test_a_skip_that_is_planned_is_no_latest_run(self, store: Store, make: Factory) -> None:
        """Its time has not come, and it would stand before each run that has."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        row = await self.job_row(store, job.job_id)
        assert row.timer is not None
        timer = row.timer._replace(due=make.now + 2 * HOUR)
        skip = make.skip(job.job_id, make.now + HOUR)
        await store.jobs.move(make.occurrence(job.job_id, row.timer, timer, skip=skip))
        asked = LatestRunsQuery(namespace="default", jobs=(job.job_id,), each=5, until=make.now)
        assert {} == {job: runs for job, runs in (await self.latest(store, asked)).items() if runs}

    async def test_names_and_runs_are_those_of_the_namespace_and_the_selector(
        self, store: Store, make: Factory
    ) -> None:
        """Nothing is said of other jobs."""
        await self.register(store)
        mine = make.job(name="mine", labels={"team": "billing"})
        other = make.job(name="other", labels={"team": "ops"})
        theirs = make.job(name="theirs", namespace="elsewhere")
        await self.add(store, mine, other, theirs)
        ids = (mine.job_id, other.job_id, theirs.job_id, make.identifier())
        assert {mine.job_id: "mine", other.job_id: "other"} == await self.names(store, ids)
        assert {mine.job_id: "mine"} == await self.names(store, ids, BILLING)
        assert {} == await self.names(store, ())
        asked = LatestRunsQuery(namespace="default", jobs=ids, each=1, until=make.now, within=BILLING)
        assert {mine.job_id} == {job for job, runs in (await self.latest(store, asked)).items() if runs}


class ComingJobsContract(StoreContract):
    """`ComingQuery`."""

    async def coming(self, store: Store, namespace: str = "default", **query: object) -> list[UUID]:
        """The ids that the look finds."""
        asked = ComingQuery(**{"namespace": namespace, "limit": 10, **query})  # type: ignore[arg-type]  # of a test
        return [row.job_id for row in await store.searches.jobs(asked)]

    async def test_jobs_come_by_their_time(self, store: Store, make: Factory) -> None:
        """Recurring and one-time ones, the earliest first, as many as asked for, within the window."""
        jobs = [make.recurring(make.now + 3 * HOUR), make.recurring(make.now + HOUR), make.job(make.now + 2 * HOUR)]
        await self.add(store, *jobs)
        late, early, once = (job.job_id for job in jobs)
        assert [early, once, late] == await self.coming(store)
        assert [early, once] == await self.coming(store, limit=2)
        assert [once] == await self.coming(store, after=make.now + 1.5 * HOUR, before=make.now + 2.5 * HOUR)
        rows = await store.searches.jobs(ComingQuery(namespace="default", limit=1))
        assert [(JobStatus.SCHEDULED, make.now + HOUR)] == [(row.status, row.next_run_at) for row in rows]

    async def test_a_job_that_is_paused_or_cancelled_does_not_come(self, store: Store, make: Factory) -> None:
        """Nor one on demand."""
        jobs = [make.recurring(make.now + number * HOUR) for number in (1, 2, 3)]
        await self.add(store, *jobs)
        paused, cancelled, goes = (job.job_id for job in jobs)
        for job_id, action in ((paused, JobAction.PAUSE), (cancelled, JobAction.CANCEL)):
            await store.jobs.move(make.move(job_id, action))
        assert [goes] == await self.coming(store)

    async def test_a_run_that_waits_comes_with_its_time(self, store: Store, make: Factory) -> None:
        """Though no timer names it any more: it is overdue while nobody begins it."""
        job, timed = make.job(), make.recurring(make.now + HOUR)
        await self.add(store, job, timed)
        assert [job.job_id] == await self.coming(store, before=make.now + 60.0)
        assert [job.job_id, timed.job_id] == await self.coming(store)

    async def test_only_jobs_of_the_namespace_and_the_selector_come(self, store: Store, make: Factory) -> None:
        """Others, with earlier times, do not stand in their way."""
        names = ("default", "elsewhere", "default", "elsewhere")
        labels = ({"team": "ops"}, {"team": "billing"}, {"team": "billing"}, None)
        jobs = [
            make.recurring(make.now + (1 + number) * HOUR, namespace=name, labels=label)
            for number, (name, label) in enumerate(zip(names, labels, strict=True))
        ]
        await self.add(store, *jobs)
        ids = [job.job_id for job in jobs]
        assert [ids[0], ids[2]] == await self.coming(store)
        assert [ids[1], ids[3]] == await self.coming(store, "elsewhere")
        assert [ids[2]] == await self.coming(store, within=BILLING)
        assert [ids[1]] == await self.coming(store, "elsewhere", within=BILLING)
