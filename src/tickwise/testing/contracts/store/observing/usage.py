"""The resources that attempts used: kept with each attempt on record, and read back as they were measured."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tickwise.domain.lifecycle import RunState
from tickwise.domain.notices.changes import NoticeJob
from tickwise.domain.observing.analytics import GroupBy, GroupSort
from tickwise.domain.observing.usage import MAX_BYTES, ResourceUsage
from tickwise.ports.store import AnalyticsQuery, AttemptRow, NewJob, RunQuery, RunSample, Store
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.contracts.store.people.removals import TEAM, open_namespace
from tickwise.testing.factories import Factory, outcome

IMAGE = f"ghcr.io/acme/etl@sha256:{'a' * 64}"
USAGE = ResourceUsage(1.25, 48_000_000, 1_024, 4_096, 8_192, 77, 1 << 33, IMAGE)
HOUR = 3_600.0


def usage_of(row: AttemptRow) -> ResourceUsage:
    """The usage that an attempt has on record."""
    return ResourceUsage(*[getattr(row, name) for name in ResourceUsage._fields])


class UsageContract(StoreContract):
    """`attempts.finish` with usage, `runs.attempts`, and the analytics of it."""

    async def used(self, store: Store, executor: int, job: NewJob, usage: ResourceUsage | None, **fields: Any) -> UUID:
        """A run of a new job that succeeded with this usage."""
        claimed = await self.held(store, executor, job)
        given = {} if usage is None else {claimed.run_id: usage}
        assert await store.attempts.finish(executor, [outcome(claimed, **fields)], given) == []
        return claimed.run_id

    async def test_usage_is_kept_with_the_last_attempt(self, store: Store, make: Factory) -> None:
        """All of it, a part of it, and none; up to the largest number."""
        executor = await self.register(store)
        most = ResourceUsage(0.0, *[MAX_BYTES] * (len(USAGE) - 2))  # type: ignore[arg-type]  # all but the image are numbers
        for usage in (
            USAGE,
            ResourceUsage(output_bytes=0),
            ResourceUsage(work_bytes=5),
            ResourceUsage(image=IMAGE),
            most,
            None,
        ):
            run_id = await self.used(store, executor, make.job(), usage)
            [row] = await store.runs.attempts(run_id)
            assert usage_of(row) == (ResourceUsage() if usage is None else usage)

    async def test_runs_of_one_batch_have_each_their_own(self, store: Store, make: Factory) -> None:
        """Also beside runs without."""
        executor = await self.register(store)
        claims = [await self.held(store, executor, make.job()) for _ in range(3)]
        given = {claims[0].run_id: USAGE, claims[2].run_id: ResourceUsage(7.0)}
        assert await store.attempts.finish(executor, [outcome(each) for each in claims], given) == []
        found = [usage_of((await store.runs.attempts(each.run_id))[-1]) for each in claims]
        assert found == [USAGE, ResourceUsage(), ResourceUsage(7.0)]

    async def test_usage_is_kept_with_an_attempt_that_is_tried_again(self, store: Store, make: Factory) -> None:
        """Each attempt has its own."""
        executor = await self.register(store)
        first = await self.held(store, executor, make.job())
        again = outcome(first, RunState.RETRYING, reason="error", retry_at=make.now - 1.0)
        assert await store.attempts.finish(executor, [again], {first.run_id: USAGE}) == []
        [second] = await self.claim(store, executor)
        last = ResourceUsage(0.5)
        assert await store.attempts.finish(executor, [outcome(second)], {second.run_id: last}) == []
        assert [usage_of(row) for row in await store.runs.attempts(first.run_id)] == [USAGE, last]

    async def test_a_repeat_changes_nothing(self, store: Store, make: Factory) -> None:
        """The first report counts; an attempt that goes on has none."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        [row] = await store.runs.attempts(claimed.run_id)
        assert usage_of(row) == ResourceUsage()
        for usage in (USAGE, ResourceUsage(9.0)):
            assert await store.attempts.finish(executor, [outcome(claimed)], {claimed.run_id: usage}) == []
        [row] = await store.runs.attempts(claimed.run_id)
        assert usage_of(row) == USAGE

    async def test_a_stale_report_leaves_no_usage(self, store: Store, make: Factory) -> None:
        """Under a token of another attempt."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        stale = outcome(claimed, token=claimed.token + 1)
        assert await store.attempts.finish(executor, [stale], {claimed.run_id: USAGE}) == [claimed.run_id]
        [row] = await store.runs.attempts(claimed.run_id)
        assert (row.state, usage_of(row)) == (RunState.DISPATCHED, ResourceUsage())

    async def test_usage_is_counted_by_groups(self, store: Store, make: Factory) -> None:
        """Runs without usage count in no spread of it; groups stand by their processor time."""
        executor = await self.register(store)
        jobs = {name: make.job(name=name) for name in ("light", "heavy", "blind")}
        await self.used(store, executor, jobs["light"], ResourceUsage(1.0, 10_000_000))
        await self.used(store, executor, jobs["heavy"], ResourceUsage(3.0, 30_000_000))
        await self.used(store, executor, jobs["blind"], None)
        query = RunQuery(namespace="default", due_after=make.now - 12 * HOUR, due_before=make.now + 12 * HOUR)
        found = await store.searches.analyse(AnalyticsQuery(runs=query, group_by=GroupBy.JOB, sort=GroupSort.CPU))
        assert [row.name for row in found.groups] == ["heavy", "light", "blind"]
        total = found.total
        assert total.cpu_seconds == pytest.approx(4.0)
        assert total.cpu == pytest.approx((2, 2.0, 2.9, 2.98, 2.0, 3.0))
        assert total.memory == pytest.approx((2, 2e7, 2.9e7, 2.98e7, 2e7, 3e7))
        assert (found.groups[-1].cpu_seconds, found.groups[-1].cpu, found.groups[-1].memory) == (0.0, None, None)


class SamplesContract(StoreContract):
    """`delays.samples` and `delays.watched_jobs`."""

    async def ended(
        self, store: Store, executor: int, make: Factory, job: NewJob, state: RunState = RunState.SUCCESS, **more: Any
    ) -> UUID:
        """A further run of a job, that ended."""
        await store.runs.add(job.namespace, job.job_id, [make.run(job.job_id)])
        [claimed] = await self.claim(store, executor)
        usage = {claimed.run_id: ResourceUsage(output_bytes=more.pop("output"))} if "output" in more else {}
        assert await store.attempts.finish(executor, [outcome(claimed, state, **more)], usage) == []
        return claimed.run_id

    async def test_samples_are_the_newest_runs_that_succeeded(self, store: Store, make: Factory) -> None:
        """With duration and output; before a run, and of those that ended since a time."""
        executor = await self.register(store)
        job = make.recurring(make.now + 1_000.0)
        await self.add(store, job)
        now = make.now
        runs = [
            await self.ended(store, executor, make, job, started=now, ended=now + length, output=int(length) * 100)
            for length in (1.0, 2.0, 3.0)
        ]
        await self.ended(store, executor, make, job, RunState.FAILED, reason="error")
        newest = sorted(runs, reverse=True)
        found = (await store.delays.samples([job.job_id, make.identifier()], 10))[job.job_id]
        assert [each.run_id for each in found] == newest
        assert all(isinstance(each, RunSample) and each.namespace == "default" for each in found)
        lengths = dict(zip(runs, (1.0, 2.0, 3.0), strict=True))
        for each in found:
            assert each.measured == pytest.approx((lengths[each.run_id], lengths[each.run_id] * 100), abs=1e-3)
            assert each.ended_at == pytest.approx(now + lengths[each.run_id], abs=1e-3)
        found = (await store.delays.samples([job.job_id], 1))[job.job_id]
        assert [each.run_id for each in found] == newest[:1]
        found = (await store.delays.samples([job.job_id], 10, before=newest[0]))[job.job_id]
        assert [each.run_id for each in found] == newest[1:]
        found = (await store.delays.samples([job.job_id], 10, since=now + 1.5))[job.job_id]
        assert {each.run_id for each in found} == set(runs[1:])
        assert await store.delays.samples([job.job_id], 10, since=now + 60.0) == {}

    async def test_watched_jobs_are_pages_by_id(self, store: Store, make: Factory) -> None:
        """Those of other namespaces fill pages; named ones alone if that is asked."""
        await open_namespace(store)
        due = make.now + 100.0
        jobs = [make.recurring(due), make.recurring(due, labels={"team": "data"}), make.recurring(due)]
        other = make.recurring(due, namespace=TEAM)
        for job in (*jobs, other):
            await self.add(store, job)
        found, after, pages = list[NoticeJob](), UUID(int=0), 0
        while True:
            page = await store.delays.watched_jobs(["default"], 2, after=after)
            found += page.jobs
            pages += 1
            if page.beyond is None:
                break
            after = page.beyond
        assert [each.job_id for each in found] == sorted(job.job_id for job in jobs)
        assert pages == 3
        assert {each.job_id: dict(each.labels) for each in found}[jobs[1].job_id] == {"team": "data"}
        wanted = [jobs[0].job_id, other.job_id]
        page = await store.delays.watched_jobs(["default"], 10, after=UUID(int=0), ids=wanted)
        assert ([each.job_id for each in page.jobs], page.beyond) == ([jobs[0].job_id], None)
