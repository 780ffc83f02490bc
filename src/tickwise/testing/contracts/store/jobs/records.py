"""Records and current state: single rows, derived status, searches in stable pages, figures, and upkeep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, combinations
from typing import Any
from uuid import UUID

import pytest

from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.domain.model import Lane, Trigger, run_id
from tickwise.ports.store import BusyQueue, JobAction, JobQuery, JobRow, NewRun, Retention, RunQuery, Store
from tickwise.testing.contracts.base import DAY_SECONDS, StoreContract, microseconds
from tickwise.testing.factories import Factory, outcome

HOUR = 3600.0
KEPT = Retention(runs_seconds=30 * DAY_SECONDS, failed_seconds=90 * DAY_SECONDS)


class StatusContract(StoreContract):
    """The facts that `JobRow` derives from timers and runs; `runs.get` and `runs.attempts`."""

    async def test_what_is_not_there_is_none(self, store: Store, make: Factory) -> None:
        """Jobs, keys, runs, attempts."""
        nothing = make.identifier()
        assert await store.jobs.get("default", nothing) is None
        assert await store.jobs.get("default", "nothing") is None
        assert await store.runs.get("default", nothing) is None
        assert list(await store.runs.attempts(nothing)) == []

    async def test_a_job_is_found_by_its_key(self, store: Store, make: Factory) -> None:
        """As by its id."""
        job = make.job(key="nightly/1")
        await self.add(store, job, make.job())
        assert await store.jobs.get("default", "nightly/1") == await self.job_row(store, job.job_id)

    @pytest.mark.parametrize(
        ("end", "status"),
        [
            (RunState.SUCCESS, JobStatus.COMPLETED),
            (RunState.FAILED, JobStatus.FAILED),
            (RunState.CANCELLED, JobStatus.COMPLETED),
            (RunState.SKIPPED, JobStatus.COMPLETED),
        ],
    )
    async def test_a_one_time_job_is_as_its_run_ended(
        self, store: Store, make: Factory, end: RunState, status: JobStatus
    ) -> None:
        """SCHEDULED until then, whatever goes on."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        assert (await self.job_row(store, claimed.job_id)).status is JobStatus.SCHEDULED
        retry = outcome(claimed, RunState.RETRYING, retry_at=claimed.now)
        await self.finish(store, executor, retry)
        assert (await self.job_row(store, claimed.job_id)).status is JobStatus.SCHEDULED
        [again] = await self.claim_freed(store, executor)
        await self.finish(store, executor, outcome(again, end, reason="why"))
        row = await self.job_row(store, claimed.job_id)
        assert (row.status, row.next_run_at) == (status, None)

    async def test_the_newest_run_decides(self, store: Store, make: Factory) -> None:
        """A retry puts a FAILED job back, and completes it."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await self.finish(store, executor, outcome(claimed, RunState.FAILED))
        await self.shift(store, 5.0)
        retry = make.run(claimed.job_id, make.now + 5.0, trigger=Trigger.RETRY, origin=claimed.run_id)
        await store.runs.add("default", claimed.job_id, [retry])
        assert (await self.job_row(store, claimed.job_id)).status is JobStatus.SCHEDULED
        [again] = await self.claim_freed(store, executor)
        await self.finish(store, executor, outcome(again))
        assert (await self.job_row(store, claimed.job_id)).status is JobStatus.COMPLETED

    async def test_a_recurring_job_is_scheduled_while_it_has_a_timer(self, store: Store, make: Factory) -> None:
        """However its runs end; without one it is COMPLETED, never FAILED."""
        job, executor = make.recurring(make.now), await self.register(store)
        await self.add(store, job)
        for next_due, status in ((make.now + 1.0, JobStatus.SCHEDULED), (None, JobStatus.COMPLETED)):
            async with self.near(store, 1.0, 1) as batch:
                [timer] = batch.timers
                await batch.commit([make.fire(job.job_id, timer.pending.due, next_due)])
            [claimed] = await self.claim_freed(store, executor)
            await self.finish(store, executor, outcome(claimed, RunState.FAILED))
            assert (await self.job_row(store, job.job_id)).status is status

    async def test_the_next_run_is_the_earliest_that_has_yet_to_begin(self, store: Store, make: Factory) -> None:
        """Waiting, or held for its due time, or still a timer."""
        executor, job = await self.register(store, lease_seconds=600.0), make.job(make.now + 90.0)
        await self.add(store, job)
        assert microseconds((await self.job_row(store, job.job_id)).next_run_at) == microseconds(job.due)
        assert (await store.timers.fire(90.0, 10)).timers == 1
        assert microseconds((await self.job_row(store, job.job_id)).next_run_at) == microseconds(job.due)
        [claimed] = await self.claim(store, executor, ahead_seconds=90.0)
        assert microseconds((await self.job_row(store, job.job_id)).next_run_at) == microseconds(job.due)
        await self.shift(store, 91.0)
        assert (await self.job_row(store, job.job_id)).next_run_at is None
        await self.finish(store, executor, outcome(claimed))
        assert (await self.job_row(store, job.job_id)).next_run_at is None

    async def test_a_waiting_run_comes_before_the_timer(self, store: Store, make: Factory) -> None:
        """The earlier of both is next."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        await store.runs.add("default", job.job_id, [make.run(job.job_id, make.now + 60.0)])
        assert microseconds((await self.job_row(store, job.job_id)).next_run_at) == microseconds(make.now + 60.0)

    async def test_every_attempt_is_on_record_while_the_run_goes_on(self, store: Store, make: Factory) -> None:
        """The one that is under way too, without an end."""
        executor = await self.register(store)
        first = await self.held(store, executor, make.job())
        [current] = await store.runs.attempts(first.run_id)
        assert (current.attempt, current.state, current.token) == (1, RunState.DISPATCHED, first.token)
        assert (current.executor, current.started_at, current.ended_at) == (executor, None, None)
        assert microseconds(current.dispatched_at) == microseconds(first.now)
        await self.finish(store, executor, outcome(first, RunState.RETRYING, retry_at=first.now))
        assert [attempt.attempt for attempt in await store.runs.attempts(first.run_id)] == [1]
        [second] = await self.claim_freed(store, executor)
        await self.begin(store, executor, second)
        failed, current = await store.runs.attempts(first.run_id)
        assert (failed.attempt, failed.state, current.attempt, current.state) == (
            1,
            RunState.RETRYING,
            2,
            RunState.RUNNING,
        )
        assert microseconds(current.started_at) == microseconds(second.now)
        assert current.ended_at is None


class ListingsContract(StoreContract):
    """`searches.jobs` and `searches.runs`: every filter, alone and together; pages that rows do not slip out of."""

    async def found(self, store: Store, **query: Any) -> set[str]:
        """The names of the jobs that a search finds."""
        return {row.name for row in await store.searches.jobs(JobQuery(**{"namespace": "default", **query}))}

    async def test_jobs_are_listed_newest_first(self, store: Store, make: Factory) -> None:
        """By id, whose first part is time; up to the limit."""
        jobs = [make.job(job_id=make.identifier(ahead)) for ahead in (3.0, 1.0, 2.0)]
        await self.add(store, *jobs)
        rows = await store.searches.jobs(JobQuery(namespace="default", limit=2))
        assert [row.job_id for row in rows] == sorted((job.job_id for job in jobs), reverse=True)[:2]
        assert rows[0] == await self.job_row(store, rows[0].job_id)

    async def test_pages_of_jobs_are_stable_while_jobs_are_added(self, store: Store, make: Factory) -> None:
        """Nothing twice, nothing left out."""
        jobs = [make.job(job_id=make.identifier(number)) for number in range(7)]
        await self.add(store, *jobs)
        seen: list[UUID] = []
        while page := await store.searches.jobs(
            JobQuery(namespace="default", limit=2, before=seen[-1] if seen else None)
        ):
            seen += [row.job_id for row in page]
            await self.add(store, make.job(job_id=make.identifier(100.0 + len(seen))))
        assert seen == [job.job_id for job in reversed(jobs)]

    async def test_jobs_are_found_by_each_thing_that_is_known_of_them(self, store: Store, make: Factory) -> None:
        """Alone and together."""
        await self.add(
            store,
            make.job(name="Nightly Backup", key="k1", labels={"team": "a", "env": "prod"}, owner="grace"),
            make.job(name="nightly report", labels={"team": "a"}, task_kind="http"),
            make.recurring(make.now + HOUR, name="100% done_ish", labels={"team": "b"}),
        )
        every = {"Nightly Backup", "nightly report", "100% done_ish"}
        searches: list[tuple[dict[str, Any], set[str]]] = [
            ({}, every),
            ({"name": "NIGHTLY"}, {"Nightly Backup", "nightly report"}),
            ({"name": "y b"}, {"Nightly Backup"}),
            ({"name": "%"}, {"100% done_ish"}),
            ({"name": "_"}, {"100% done_ish"}),
            ({"name": "\\"}, set()),
            ({"key": "k1"}, {"Nightly Backup"}),
            ({"key": "k"}, set()),
            ({"labels": {"team": "a"}}, {"Nightly Backup", "nightly report"}),
            ({"labels": {"team": "a", "env": "prod"}}, {"Nightly Backup"}),
            ({"labels": {"team": "prod"}}, set()),
            ({"owner": "grace"}, {"Nightly Backup"}),
            ({"owner": "ada"}, {"nightly report", "100% done_ish"}),
            ({"schedule_type": "CRON"}, {"100% done_ish"}),
            ({"task_kind": "http"}, {"nightly report"}),
            ({"name": "nightly", "labels": {"team": "a"}, "task_kind": "shell"}, {"Nightly Backup"}),
            ({"name": "nightly", "owner": "nobody"}, set()),
        ]
        for query, expected in searches:
            assert await self.found(store, **query) == expected, query

    async def test_jobs_are_found_by_their_ids(self, store: Store, make: Factory) -> None:
        """Together with what else is asked, in pages, and counted; an id of another namespace finds nothing."""
        jobs = [make.recurring(make.now + HOUR, name=f"job {number}") for number in range(5)]
        elsewhere = make.job(namespace="elsewhere")
        await self.add(store, *jobs)
        await self.add(store, elsewhere)
        await store.jobs.move(make.move(jobs[2].job_id, JobAction.PAUSE, make.plan()))
        ids = (jobs[0].job_id, jobs[2].job_id, jobs[4].job_id, elsewhere.job_id, make.identifier(7.0))
        assert await self.found(store, ids=ids) == {"job 0", "job 2", "job 4"}
        assert await self.found(store, ids=ids, statuses=(JobStatus.PAUSED,)) == {"job 2"}
        assert await self.found(store, ids=ids, statuses=(JobStatus.SCHEDULED,)) == {"job 0", "job 4"}
        assert await self.found(store, ids=ids, name="job 1") == set()
        seen: list[JobRow] = []
        query = JobQuery(namespace="default", ids=ids, limit=2)
        while page := await store.searches.jobs(replace(query, before=seen[-1].listed if seen else None)):
            seen += page
        assert sorted(row.name for row in seen) == ["job 0", "job 2", "job 4"]
        assert [row.listed for row in seen] == sorted((row.listed for row in seen), reverse=True)
        assert await store.searches.count(replace(query, limit=10)) == 3
        for limit, is_whole in ((10, True), (2, False)):
            assert (await store.searches.count(replace(query, limit=limit, may_pause=True))).is_whole is is_whole

    async def test_jobs_are_found_by_their_derived_status(self, store: Store, make: Factory) -> None:
        """Each of the five, a pause that is over counted as none; pages are full though others lie between."""
        executor = await self.register(store)
        for state, name in ((RunState.SUCCESS, "completed"), (RunState.FAILED, "failed")):
            claimed = await self.held(store, executor, make.job(name=name))
            await self.finish(store, executor, outcome(claimed, state))
        for action, name in ((JobAction.PAUSE, "paused"), (JobAction.CANCEL, "cancelled")):
            job = make.recurring(make.now + HOUR, name=name)
            await self.add(store, job)
            await store.jobs.move(make.move(job.job_id, action, make.plan()))
        snoozed = make.recurring(make.now + HOUR, name="snoozed")
        await self.add(store, snoozed, make.job(make.now + HOUR, name="timer"), make.job(make.now + 1.9, name="run"))
        plan = make.plan(make.now + HOUR)
        await store.jobs.move(make.move(snoozed.job_id, JobAction.PAUSE, plan, until=make.now + 60.0))
        statuses = {status: await self.found(store, statuses=[status]) for status in JobStatus}
        assert statuses == {
            JobStatus.SCHEDULED: {"timer", "run"},
            JobStatus.PAUSED: {"paused", "snoozed"},
            JobStatus.COMPLETED: {"completed"},
            JobStatus.FAILED: {"failed"},
            JobStatus.CANCELLED: {"cancelled"},
        }
        await self.check_listed(store)
        await self.shift(store, 61.0)
        await self.check_listed(store)
        assert await self.found(store, statuses=[JobStatus.SCHEDULED]) == {"timer", "run", "snoozed"}
        for status, names in statuses.items():
            assert len(await store.searches.jobs(JobQuery(namespace="default", statuses=[status], limit=1))) == 1, names

    async def check_listed(self, store: Store) -> None:
        """The newest jobs are listed as each of them is looked up."""
        listed = await store.searches.jobs(JobQuery(namespace="default", limit=100))
        assert list(listed) == [await store.jobs.get("default", row.job_id) for row in listed]

    async def test_jobs_are_found_by_several_statuses(self, store: Store, make: Factory) -> None:
        """Those with any of them, each once and newest first, page by page; and as many are counted."""
        executor = await self.register(store)
        for number in range(2):
            for state in (RunState.SUCCESS, RunState.FAILED):
                claimed = await self.held(store, executor, make.job(name=f"{state} {number}"))
                await self.finish(store, executor, outcome(claimed, state))
            for action in (JobAction.PAUSE, JobAction.CANCEL):
                job = make.recurring(make.now + HOUR, name=f"{action} {number}")
                await self.add(store, job)
                await store.jobs.move(make.move(job.job_id, action, make.plan()))
            await self.add(store, make.job(make.now + HOUR), make.job(make.now + HOUR, namespace="elsewhere"))
        everything = await store.searches.jobs(JobQuery(namespace="default"))
        assert len(everything) == 2 * len(JobStatus)
        for chosen in chain.from_iterable(combinations(JobStatus, count) for count in range(1, 6)):
            expected = [row.job_id for row in everything if row.status in chosen]
            assert len(expected) == 2 * len(chosen)
            for size in (1, 3, 100):
                query, found = JobQuery(namespace="default", statuses=[*chosen, chosen[0]], limit=size), []
                assert await store.searches.count(query) == min(len(expected), size)
                while page := await store.searches.jobs(query):
                    assert len(page) <= size
                    found += [row.job_id for row in page]
                    query = replace(query, before=page[-1].listed)
                assert found == expected, (chosen, size)

    async def test_a_job_whose_pause_ends_is_in_one_page_of_both_its_statuses(
        self, store: Store, make: Factory
    ) -> None:
        """Before and after the end of its pause, once."""
        snoozed = make.recurring(make.now + HOUR, name="snoozed")
        await self.add(store, snoozed)
        plan = make.plan(make.now + HOUR)
        await store.jobs.move(make.move(snoozed.job_id, JobAction.PAUSE, plan, until=make.now + 60.0))
        query = JobQuery(namespace="default", statuses=(JobStatus.SCHEDULED, JobStatus.PAUSED))
        for status in (JobStatus.PAUSED, JobStatus.SCHEDULED):
            assert [(row.name, row.status) for row in await store.searches.jobs(query)] == [("snoozed", status)]
            assert await store.searches.count(query) == 1
            await self.shift(store, 61.0)

    async def test_jobs_are_found_by_the_window_of_their_next_run(self, store: Store, make: Factory) -> None:
        """From the one instant on, to before the other; who has no next run is in no window."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job(name="over"))
        await self.finish(store, executor, outcome(claimed))
        await self.add(
            store,
            make.job(make.now + 1.5, name="run"),
            make.recurring(make.now + 100.0, name="soon"),
            make.job(make.now + 200.0, name="late"),
        )
        now = make.now
        windows: list[tuple[dict[str, float], set[str]]] = [
            ({"next_run_after": now}, {"run", "soon", "late"}),
            ({"next_run_after": now + 100.0}, {"soon", "late"}),
            ({"next_run_before": now + 200.0}, {"run", "soon"}),
            ({"next_run_after": now + 1.6, "next_run_before": now + 150.0}, {"soon"}),
            ({"next_run_after": now + 300.0}, set()),
        ]
        for window, expected in windows:
            assert await self.found(store, **window) == expected, window

    async def some_runs(self, store: Store, make: Factory) -> tuple[UUID, list[NewRun]]:
        """A job with five runs of each kind of life, in the order of their due times, a minute apart."""
        executor, job = await self.register(store), make.recurring(make.now)
        await self.add(store, job)
        ago = [-300.0, -240.0, -180.0, -120.0, 60.0]
        runs = [NewRun(run_id(job.job_id, make.now + due), make.now + due, Trigger.SCHEDULE) for due in ago]
        async with self.near(store, 1.0, 1) as batch:
            [timer] = batch.timers
            assert await batch.commit([make.fire(job.job_id, timer.pending.due, None, runs=runs)]) == 5
        claims = await self.claim_freed(store, executor)
        claims_by_run = {claimed.run_id: claimed for claimed in claims}
        assert len(claims) == 4
        ends = (RunState.SUCCESS, RunState.FAILED, RunState.RETRYING)
        for run, state in zip(runs, ends, strict=False):
            report = outcome(claims_by_run[run.run_id], state, retry_at=make.now + HOUR)
            assert await self.finish(store, executor, report) == []
        return job.job_id, runs

    async def test_active_and_ended_runs_are_listed_together_newest_first(self, store: Store, make: Factory) -> None:
        """By id, whose first part is the nominal time."""
        job_id, runs = await self.some_runs(store, make)
        rows = await store.searches.runs(RunQuery(namespace="default", job_id=job_id))
        assert [row.run_id for row in rows] == [run.run_id for run in reversed(runs)]
        states = [RunState.QUEUED, RunState.DISPATCHED, RunState.RETRYING, RunState.FAILED, RunState.SUCCESS]
        assert [row.state for row in rows] == states
        for row in rows:
            assert row == await self.run_row(store, row.run_id)

    async def test_runs_are_found_by_each_thing_that_is_known_of_them(self, store: Store, make: Factory) -> None:
        """Alone and together."""
        job_id, runs = await self.some_runs(store, make)
        stranger = make.job(make.now + 1.9)
        await self.add(store, stranger)
        now = make.now
        searches: list[tuple[dict[str, Any], Sequence[int]]] = [
            ({"job_id": job_id}, (4, 3, 2, 1, 0)),
            ({"job_id": job_id, "states": (RunState.FAILED,)}, (1,)),
            ({"job_id": job_id, "states": (RunState.QUEUED, RunState.SUCCESS)}, (4, 0)),
            ({"due_before": now}, (3, 2, 1, 0)),
            ({"due_after": now - 180.0, "due_before": now - 120.0}, (2,)),
            ({"due_after": now + 30.0}, (4,)),
            ({"states": (RunState.SUCCESS, RunState.FAILED), "due_after": now - 250.0}, (1,)),
            ({"job_id": job_id, "before": runs[3].run_id}, (2, 1, 0)),
            ({"job_id": job_id, "limit": 2}, (4, 3)),
            ({"states": (RunState.RUNNING,)}, ()),
            ({"job_id": make.identifier()}, ()),
            ({"ids": (runs[0].run_id, runs[3].run_id, make.identifier())}, (3, 0)),
            ({"ids": (runs[0].run_id, runs[3].run_id), "states": (RunState.SUCCESS,)}, (0,)),
            ({"ids": (runs[0].run_id, runs[3].run_id), "before": runs[3].run_id, "limit": 1}, (0,)),
            ({"ids": (runs[4].run_id,), "due_after": now + 30.0}, (4,)),
            ({"ids": (make.identifier(),)}, ()),
        ]
        for query, expected in searches:
            assert await store.searches.count(RunQuery(**{"namespace": "default", **query})) == len(expected), query
            rows = await store.searches.runs(RunQuery(**{"namespace": "default", **query}))
            assert [row.run_id for row in rows] == [runs[index].run_id for index in expected], query

    async def test_what_was_asked_for_long_before_it_was_made_is_found_by_its_due_time(
        self, store: Store, make: Factory
    ) -> None:
        """Active and ended, listed and counted: a page of a long operation bears the time at which it was asked for."""
        job, asked, executor = make.recurring(make.now + HOUR), make.now - HOUR, await self.register(store)
        await self.add(store, job)
        run = NewRun(run_id(job.job_id, asked, Trigger.RETRY, b"an operation"), asked, Trigger.RETRY)
        await store.runs.add("default", job.job_id, [run])
        query = RunQuery(namespace="default", due_after=make.now - 60.0)
        before = replace(query, due_after=None, due_before=make.now - 60.0)
        assert await self.listed_and_counted(store, query) == ([run.run_id], 1)
        [claimed] = await self.claim_freed(store, executor)
        await self.finish(store, executor, outcome(claimed))
        assert await self.listed_and_counted(store, query) == ([run.run_id], 1)
        assert await self.listed_and_counted(store, before) == ([], 0)
        assert microseconds((await self.run_row(store, run.run_id)).nominal_at) == microseconds(asked)

    async def test_what_is_due_long_after_its_nominal_time_is_found_by_its_due_time(
        self, store: Store, make: Factory
    ) -> None:
        """Listed and counted, by a window of which the nominal time is no part, and not by one that has only that."""
        job = make.recurring(make.now)
        await self.add(store, job)
        late = make.scheduled(job.job_id, make.now + 2 * HOUR, nominal=make.now)
        on_time = make.scheduled(job.job_id, make.now + 2 * HOUR + 1.0)
        async with self.near(store) as batch:
            due = batch.timers[0].pending.due
            await batch.commit([make.fire(job.job_id, due, None, runs=[late, on_time])])
        query = RunQuery(namespace="default", due_after=make.now + HOUR, due_before=make.now + 3 * HOUR)
        assert await self.listed_and_counted(store, query) == ([on_time.run_id, late.run_id], 2)
        first = replace(query, limit=1)
        assert await self.listed_and_counted(store, first) == ([on_time.run_id], 1)
        assert await self.listed_and_counted(store, replace(first, before=on_time.run_id)) == ([late.run_id], 1)
        by_name = replace(query, due_after=None, due_before=make.now + HOUR)
        assert await self.listed_and_counted(store, by_name) == ([], 0)

    async def listed_and_counted(self, store: Store, query: RunQuery) -> tuple[list[UUID], int]:
        """The results of a search, and its count of them."""
        return [row.run_id for row in await store.searches.runs(query)], await store.searches.count(query)

    async def test_pages_of_runs_are_stable_while_runs_are_added_and_end(self, store: Store, make: Factory) -> None:
        """Nothing twice, nothing left out, though a run moves from the active to the ended between two pages."""
        executor = await self.register(store)
        jobs = [make.job(make.now + number / 10) for number in range(7)]
        await self.add(store, *jobs)
        await self.shift(store, 1.0)
        claims = list(await self.claim(store, executor))
        seen: list[UUID] = []
        while page := await store.searches.runs(
            RunQuery(namespace="default", limit=2, before=seen[-1] if seen else None)
        ):
            seen += [row.run_id for row in page]
            await self.finish(store, executor, *(outcome(claimed) for claimed in claims[:2]))
            del claims[:2]
            await self.add(store, make.job(make.now + 1.5 + len(seen) / 100))
        assert seen == [job.run_id for job in reversed(jobs)]


class UpkeepContract(StoreContract):
    """`stats` and `maintain`; `open`, `close` and `now`."""

    async def test_the_clock_goes_on(self, store: Store, other: Store) -> None:
        """One clock for all clients."""
        before = await store.now()
        await self.shift(store, 100.0)
        assert 100.0 <= await other.now() - before < 199.0

    async def test_the_figures_of_an_empty_store_are_nothing(self, store: Store) -> None:
        """No age without a run."""
        stats = await store.upkeep.stats()
        assert (stats.queued, stats.held, stats.retrying, stats.timers, stats.executors) == (0, 0, 0, 0, 0)
        assert (stats.oldest_ready_seconds, stats.timers_late_seconds) == (0.0, 0.0)

    async def test_the_figures_count_what_is_there(self, store: Store, make: Factory) -> None:
        """Ages go on while the test does."""
        executor = await self.register(store, lease_seconds=1000.0)
        await self.add(store, *(make.job() for _ in range(4)))
        claims = list(await self.claim(store, executor, limit=3))
        await self.finish(store, executor, outcome(claims[0], RunState.RETRYING, retry_at=make.now + HOUR))
        await self.begin(store, executor, claims[1])
        await self.add(store, make.job(make.now + HOUR), make.recurring(make.now + 200.0))
        await self.shift(store, 400.0)
        stats = await store.upkeep.stats()
        assert (stats.queued, stats.held, stats.retrying, stats.timers, stats.executors) == (1, 2, 1, 2, 1)
        assert 399.0 < stats.oldest_ready_seconds < 499.0
        assert 199.0 < stats.timers_late_seconds < 299.0

    async def test_the_queues_with_most_runs_come_first(self, store: Store, make: Factory) -> None:
        """Of all namespaces, with what waits and what is held apart; no more of them than are asked for."""
        executor = await self.register(store, lease_seconds=1000.0)
        await self.add(store, *(make.job() for _ in range(3)))
        assert 3 == len(await self.claim(store, executor, limit=3))
        await self.add(
            store,
            *(make.job(lane=Lane(queue="reports")) for _ in range(2)),
            make.job(lane=Lane(queue="reports", priority=3)),
            make.job(lane=Lane(queue="reports", priority=3)),
            make.job(namespace="acme"),
        )
        wanted = [
            BusyQueue("default", "reports", 4, 0),
            BusyQueue("default", "default", 0, 3),
            BusyQueue("acme", "default", 1, 0),
        ]
        for limit in (10, 2, 0):
            assert wanted[:limit] == [*(await store.upkeep.stats(limit)).queues]

    async def test_nothing_is_late_before_its_time(self, store: Store, make: Factory) -> None:
        """A run or timer of the future has not waited."""
        await self.made_ahead(store, make, 90.0)
        await self.add(store, make.recurring(make.now + HOUR))
        stats = await store.upkeep.stats()
        assert (stats.oldest_ready_seconds, stats.timers_late_seconds) == (0.0, 0.0)

    async def test_ended_runs_are_dropped_when_their_time_is_over(self, store: Store, make: Factory) -> None:
        """Failed ones outlive the others; until then all stay."""
        executor = await self.register(store)
        await self.add(store, make.job(), make.job())
        done, failed = await self.claim(store, executor)
        await self.finish(store, executor, outcome(done), outcome(failed, RunState.FAILED))
        for days, expected in ((25, (True, True)), (20, (False, True)), (80, (False, False))):
            await self.shift(store, days * DAY_SECONDS)
            await store.upkeep.maintain(KEPT)
            left = tuple([await self.run_state(store, claimed.run_id) is not None for claimed in (done, failed)])
            assert left == expected, days

    async def test_a_finished_one_time_job_goes_with_its_runs(self, store: Store, make: Factory) -> None:
        """It stays as long as one is on record, and its key is free afterwards."""
        executor = await self.register(store)
        done = await self.held(store, executor, make.job(key="done"))
        failed = await self.held(store, executor, make.job(key="failed"))
        await self.finish(store, executor, outcome(done), outcome(failed, RunState.FAILED))
        await self.shift(store, 45 * DAY_SECONDS)
        await store.upkeep.maintain(KEPT)
        assert await store.jobs.get("default", failed.job_id) is not None
        await self.shift(store, 80 * DAY_SECONDS)
        await store.upkeep.maintain(KEPT)
        assert await store.jobs.get("default", done.job_id) is None
        assert await store.jobs.get("default", failed.job_id) is None
        await self.add(store, make.job(key="done"), make.job(key="failed"))

    async def test_a_finished_job_goes_whatever_its_id_says(self, store: Store, make: Factory) -> None:
        """A client may choose an id that says another time than that of the creation."""
        executor = await self.register(store)
        ids = [
            UUID(int=7),
            UUID(int=(1 << 128) - 9),
            make.identifier(-900 * DAY_SECONDS),
            make.identifier(900 * DAY_SECONDS),
        ]
        for number, identifier in enumerate(ids):
            chosen = make.job(job_id=identifier, key=f"chosen {number}", named=True, digest=identifier.bytes)
            await self.finish(store, executor, outcome(await self.held(store, executor, chosen)))
        await self.shift(store, 20 * DAY_SECONDS)
        await store.upkeep.maintain(KEPT)
        assert [True] * 4 == [await store.jobs.get("default", identifier) is not None for identifier in ids]
        await self.shift(store, 25 * DAY_SECONDS)
        await store.upkeep.maintain(KEPT)
        assert [False] * 4 == [await store.jobs.get("default", identifier) is not None for identifier in ids]

    async def test_nothing_unfinished_is_ever_dropped(self, store: Store, make: Factory) -> None:
        """A timer, a waiting run, a held one, one that retries: each keeps itself and its job, for years."""
        executor = await self.register(store, lease_seconds=10_000 * DAY_SECONDS)
        far = make.job(make.now + 5_000 * DAY_SECONDS)
        retrying = await self.held(store, executor, make.job(definition='{"retrying":1}'))
        report = outcome(retrying, RunState.RETRYING, retry_at=make.now + 4_000 * DAY_SECONDS)
        await self.finish(store, executor, report)
        held = await self.held(store, executor, make.job())
        waiting, snoozed = make.job(), make.recurring(make.now + HOUR)
        await self.add(store, far, waiting, snoozed)
        await store.jobs.move(make.move(snoozed.job_id, JobAction.PAUSE))
        for _ in range(3):
            await self.shift(store, 400 * DAY_SECONDS)
            await store.upkeep.maintain(KEPT)
        for job_id in (far.job_id, retrying.job_id, held.job_id, waiting.job_id, snoozed.job_id):
            assert await store.jobs.get("default", job_id) is not None
        assert waiting.run_id is not None
        states = [await self.run_state(store, run) for run in (retrying.run_id, held.run_id, waiting.run_id)]
        assert states == [RunState.RETRYING, RunState.DISPATCHED, RunState.QUEUED]
        assert len(await store.runs.attempts(retrying.run_id)) == 1
        assert microseconds((await self.job_row(store, far.job_id)).next_run_at) == microseconds(far.due)
        assert await self.finish(store, executor, outcome(held)) == []

    async def test_a_recurring_job_stays_when_its_runs_are_gone(self, store: Store, make: Factory) -> None:
        """Finished or not: people made it by hand."""
        executor, job = await self.register(store), make.recurring(make.now)
        await self.add(store, job)
        async with self.near(store, 1.0, 1) as batch:
            [timer] = batch.timers
            await batch.commit([make.fire(job.job_id, timer.pending.due, None)])
        [claimed] = await self.claim_freed(store, executor)
        await self.finish(store, executor, outcome(claimed))
        await self.shift(store, 400 * DAY_SECONDS)
        await store.upkeep.maintain(KEPT)
        assert await self.run_state(store, claimed.run_id) is None
        assert (await self.job_row(store, job.job_id)).status is JobStatus.COMPLETED

    async def test_expired_answers_are_cleared_away(self, store: Store, make: Factory) -> None:
        """And counted; the others stay."""
        fleeting, lasting = make.receipt(keep_seconds=60.0), make.receipt()
        await store.receipts.keep(fleeting)
        await store.receipts.keep(lasting)
        await self.shift(store, 61.0)
        assert (await store.upkeep.maintain(KEPT)).receipts == 1
        assert (await store.upkeep.maintain(KEPT)).receipts == 0
        assert await store.receipts.find(lasting.principal, lasting.route, lasting.key) is not None

    async def test_upkeep_twice_is_upkeep_once(self, store: Store) -> None:
        """By any scheduler, at any time."""
        await store.upkeep.maintain(KEPT)
        again = await store.upkeep.maintain(KEPT)
        assert (list(again.made), list(again.dropped), again.receipts) == ([], [], 0)

    async def test_work_goes_on_after_long_upkeep(self, store: Store) -> None:
        """The partitions of the next days exist already."""
        await self.shift(store, 100 * DAY_SECONDS)
        await store.upkeep.maintain(replace(KEPT, ahead_seconds=3 * DAY_SECONDS))
        later = Factory(await store.now(), seed="later")
        executor = await self.register(store)
        claimed = await self.held(store, executor, later.job())
        assert await self.finish(store, executor, outcome(claimed)) == []
        assert await self.run_state(store, claimed.run_id) is RunState.SUCCESS
