"""The starts of the runs of jobs with an objective, and the search for such jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from tickwise.domain.lifecycle import RunState
from tickwise.domain.observing.objectives import StartCount
from tickwise.domain.selectors import Selector
from tickwise.ports.store import (
    MAX_OBJECTIVES_LOOKED,
    JobStarts,
    NewJob,
    ObjectiveJobsQuery,
    StartsQuery,
    Store,
)
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.factories import Factory, outcome

HOUR: Final = 3_600.0
OBJECTIVE: Final = '{"schedule_type":"CRON","objective_start_seconds":30,"task":{"kind":"shell","command":"true"}}'
DATA: Final[Selector] = ((("team", "data"),),)


class StartsContract(StoreContract):
    """`searches.starts`."""

    async def counted(self, store: Store, job: NewJob, *, each: int = 100, within: float = 30.0) -> JobStarts:
        """The counts of the last hour and of the last day."""
        query = StartsQuery(jobs={job.job_id: within}, windows=(24 * HOUR, HOUR), each=each)
        return (await store.searches.starts(query))[job.job_id]

    async def again(self, store: Store, make: Factory, job: NewJob) -> UUID:
        """One run more of the job, due now."""
        run = make.run(job.job_id, await store.now())
        await store.runs.add("default", job.job_id, [run])
        return run.run_id

    async def test_runs_count_by_the_start_of_their_first_attempt(self, store: Store, make: Factory) -> None:
        """In time, late, and late at the first of two attempts; by window."""
        executor = await self.register(store)
        job = make.job()
        claimed = await self.held(store, executor, job)
        times: dict[str, Any] = {"started": claimed.due + 29.0, "ended": claimed.due + 100.0}
        assert await self.finish(store, executor, outcome(claimed, **times)) == []
        late = make.job()
        claimed = await self.held(store, executor, late)
        times = {"started": claimed.due + 31.0, "ended": claimed.due + 100.0}
        assert await self.finish(store, executor, outcome(claimed, RunState.FAILED, reason="error", **times)) == []
        await self.shift(store, 2 * HOUR)
        assert (await self.counted(store, job)).counts == {24 * HOUR: StartCount(1, 0), HOUR: StartCount(0, 0)}
        assert (await self.counted(store, late)).counts[24 * HOUR] == StartCount(0, 1)
        assert (await self.counted(store, late, within=31.5)).counts[24 * HOUR] == StartCount(1, 0)
        assert (await self.counted(store, make.job())).counts[24 * HOUR] == StartCount(0, 0)

    async def test_a_retried_run_counts_by_its_first_attempt(self, store: Store, make: Factory) -> None:
        """However late the second one begins."""
        executor = await self.register(store)
        job = make.job()
        claimed = await self.held(store, executor, job)
        again = outcome(claimed, RunState.RETRYING, retry_at=claimed.now)
        assert await self.finish(store, executor, again) == []
        await self.shift(store, 5.0)
        await store.executors.beat(executor, 1000.0)
        await self.shift(store, 100.0)
        [second] = await self.claim(store, executor)
        assert await self.finish(store, executor, outcome(second)) == []
        assert (await self.counted(store, job)).counts[HOUR] == StartCount(1, 0)

    async def test_a_run_that_waits_too_long_is_late_before_it_ends(self, store: Store, make: Factory) -> None:
        """Nobody claims it: it is not counted until its time is over. Once it runs, its start says."""
        executor = await self.register(store, lease_seconds=1000.0)
        job = make.job()
        await self.add(store, job)
        assert (await self.counted(store, job)).counts[HOUR] == StartCount(0, 0)
        await self.shift(store, 31.0)
        assert (await self.counted(store, job)).counts[HOUR] == StartCount(0, 1)
        [claimed] = await self.claim(store, executor)
        await self.begin(store, executor, claimed)
        assert (await self.counted(store, job)).counts[HOUR] == StartCount(0, 1)
        prompt = make.job(make.now + 31.0)
        await self.add(store, prompt)
        [claimed] = await self.claim(store, executor, ahead_seconds=5.0)
        await self.begin(store, executor, claimed)
        await self.shift(store, 60.0)
        assert (await self.counted(store, prompt)).counts[HOUR] == StartCount(1, 0)

    async def test_what_was_not_meant_to_begin_does_not_count(self, store: Store, make: Factory) -> None:
        """A run that was skipped since no executor could start it is late; one that a person skipped is none."""
        executor = await self.register(store)
        for reason, count in (("expired", StartCount(0, 1)), ("overlap", StartCount(0, 0))):
            job = make.job()
            claimed = await self.held(store, executor, job)
            skipped = outcome(claimed, RunState.SKIPPED, reason=reason, started=0.0)
            assert await self.finish(store, executor, skipped) == []
            assert (await self.counted(store, job)).counts[HOUR] == count

    async def test_more_runs_than_are_read_leave_the_earlier_ones_out(self, store: Store, make: Factory) -> None:
        """The answer says since when."""
        executor = await self.register(store, lease_seconds=1000.0)
        job = make.recurring(make.now + 1.0, run_id=None)
        await self.add(store, job)
        dues = []
        for _ in range(3):
            await self.shift(store, 10.0)
            await self.again(store, make, job)
            [claimed] = await self.claim_freed(store, executor)
            dues.append(claimed.due)
            assert await self.finish(store, executor, outcome(claimed)) == []
        assert await self.counted(store, job, each=3) == JobStarts(
            {24 * HOUR: StartCount(3, 0), HOUR: StartCount(3, 0)}, None
        )
        found = await self.counted(store, job, each=2)
        assert found.counts[HOUR] == StartCount(2, 0)
        assert found.since is not None
        assert abs(found.since - dues[1]) < 0.001


class ObjectiveJobsContract(StoreContract):
    """`objectives.jobs`."""

    async def found(self, store: Store, **said: object) -> list[UUID]:
        """The ids of the jobs."""
        query = ObjectiveJobsQuery(**{"namespace": "default", **said})  # type: ignore[arg-type]  # named by the tests
        return [row.job_id for row in (await store.objectives.jobs(query)).jobs]

    async def test_recurring_jobs_with_an_objective_are_found_by_id(self, store: Store, make: Factory) -> None:
        """In pages that join; of one namespace or of all; within labels. Jobs without one, and those that run once, are
        not there."""
        labels = {"labels": {"team": "data"}}
        mine = [
            make.recurring(make.now + HOUR, definition=OBJECTIVE, **(labels if number == 1 else {}))
            for number in range(3)
        ]
        other = make.recurring(make.now + HOUR, definition=OBJECTIVE, namespace="elsewhere")
        once = make.job(make.now + 100 * HOUR, definition=OBJECTIVE)
        await self.add(store, *mine, once, make.recurring(make.now + HOUR))
        await self.add(store, other)
        ids = sorted(job.job_id for job in mine)
        assert await self.found(store) == ids
        assert await self.found(store, limit=2) == ids[:2]
        assert await self.found(store, after=ids[1]) == ids[2:]
        assert await self.found(store, within=DATA) == [mine[1].job_id]
        assert await self.found(store, namespace=None) == sorted([*ids, other.job_id])

    async def test_a_page_says_where_the_next_one_begins(self, store: Store, make: Factory) -> None:
        """Behind its last job, if there are more; else nowhere. It has what the objective is read from."""
        jobs = [make.recurring(make.now + HOUR, definition=OBJECTIVE) for _ in range(3)]
        await self.add(store, *jobs)
        ids = sorted(job.job_id for job in jobs)
        page = await store.objectives.jobs(ObjectiveJobsQuery(namespace="default", limit=2))
        assert page.beyond == ids[1]
        assert {(each.namespace, each.definition) for each in page.jobs} == {("default", OBJECTIVE)}
        for namespace in ("default", None):
            whole = await store.objectives.jobs(ObjectiveJobsQuery(namespace=namespace, limit=3))
            assert ([each.job_id for each in whole.jobs], whole.beyond) == (ids, None)
        nothing = await store.objectives.jobs(ObjectiveJobsQuery(namespace="elsewhere"))
        assert ([*nothing.jobs], nothing.beyond) == ([], None)

    async def test_jobs_of_other_labels_fill_a_look_and_hide_none(self, store: Store, make: Factory) -> None:
        """It goes on where it ended, and reads no more than its bound at once."""
        others = [make.recurring(make.now + HOUR, definition=OBJECTIVE) for _ in range(MAX_OBJECTIVES_LOOKED)]
        mine = make.recurring(make.now + HOUR, definition=OBJECTIVE, labels={"team": "data"})
        await self.add(store, *others, mine)
        found, places = list[UUID](), list[UUID]()
        query = ObjectiveJobsQuery(namespace="default", within=DATA)
        while (page := await store.objectives.jobs(query)).beyond is not None:
            found += [each.job_id for each in page.jobs]
            places.append(page.beyond)
            query = replace(query, after=page.beyond)
        assert [*found, *(each.job_id for each in page.jobs)] == [mine.job_id]
        assert places == [sorted(job.job_id for job in (*others, mine))[MAX_OBJECTIVES_LOOKED - 1]]
