"""Bounded looks: the latest runs of many jobs, jobs by their ids, and the jobs that come next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.domain.selectors import Selector
from tickwise.ports.store import (
    ComingQuery,
    JobAction,
    JobQuery,
    JobsOfQuery,
    LatestRunsQuery,
    PlannedPage,
    PlannedQuery,
    RunRow,
    Store,
)
from tickwise.testing.contracts.base import StoreContract, microseconds
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


class PlannedContract(StoreContract):
    """`searches.jobs` of a `PlannedQuery`, and the calendar of a `JobQuery`."""

    async def look(self, store: Store, make: Factory, **fields: Any) -> PlannedPage:
        """A look at the next 10 hours."""
        given = {"namespace": "default", "due_after": make.now, "due_before": make.now + 10 * HOUR}
        found = await store.searches.jobs(PlannedQuery(**{**given, **fields}))
        assert isinstance(found, PlannedPage)
        return found

    async def names(self, store: Store, make: Factory, **fields: Any) -> list[str]:
        """The names of the jobs of a look that knows all."""
        found = await self.look(store, make, **fields)
        assert found.known_until is None
        return [row.name for row in found]

    async def test_the_earliest_comes_first(self, store: Store, make: Factory) -> None:
        """Of jobs that recur and of those that do not; each as `jobs.get` has it."""
        await self.add(
            store,
            make.recurring(make.now + 3 * HOUR, name="third"),
            make.recurring(make.now + HOUR, name="first"),
            make.job(make.now + 2 * HOUR, name="second"),
        )
        assert await self.names(store, make) == ["first", "second", "third"]
        rows = await self.look(store, make)
        assert list(rows) == [await self.job_row(store, row.job_id) for row in rows]

    async def test_a_window_begins_with_its_first_instant(self, store: Store, make: Factory) -> None:
        """And ends before its last."""
        for hours in (1, 2, 3):
            await self.add(store, make.recurring(make.now + hours * HOUR, name=f"in {hours} h"))
        begin = (await self.look(store, make))[0].next_run_at
        assert begin is not None
        assert await self.names(store, make, due_after=begin, due_before=begin + 2 * HOUR) == ["in 1 h", "in 2 h"]

    async def test_each_condition_takes_away(self, store: Store, make: Factory) -> None:
        """Job, part of the name, labels, queue, selector; in one namespace alone."""
        nightly = make.recurring(make.now + HOUR, name="Nightly 100%", labels={"team": "a", "env": "prod"})
        await self.add(
            store,
            nightly,
            make.recurring(make.now + 2 * HOUR, name="hourly", labels={"team": "b"}),
            make.recurring(make.now + 3 * HOUR, name="in a queue", lane=nightly.lane._replace(queue="slow")),
        )
        there = Factory(make.now, namespace="team-x", seed="elsewhere")
        await self.add(store, there.recurring(make.now + HOUR, name="elsewhere", labels={"team": "a"}))
        looks: list[tuple[dict[str, Any], list[str]]] = [
            ({}, ["Nightly 100%", "hourly", "in a queue"]),
            ({"job_id": nightly.job_id}, ["Nightly 100%"]),
            ({"name": "NIGHT"}, ["Nightly 100%"]),
            ({"name": "%"}, ["Nightly 100%"]),
            ({"labels": {"team": "b"}}, ["hourly"]),
            ({"labels": {"team": "a", "env": "test"}}, []),
            ({"queue": "slow"}, ["in a queue"]),
            ({"queue": "none"}, []),
            ({"within": ((("team", "a"),), (("team", "b"),))}, ["Nightly 100%", "hourly"]),
            ({"within": ()}, []),
            ({"namespace": "team-x"}, ["elsewhere"]),
            ({"namespace": "team-x", "job_id": nightly.job_id}, []),
            ({"namespace": "nowhere"}, []),
        ]
        for fields, expected in looks:
            assert await self.names(store, make, **fields) == expected, fields

    async def test_a_job_that_stands_still_is_not_planned(self, store: Store, make: Factory) -> None:
        """Paused without an end, or cancelled. With an end, it is looked at again at that time."""
        jobs = [make.recurring(make.now + HOUR, name=name) for name in ("paused", "cancelled", "until", "goes on")]
        await self.add(store, *jobs)
        await store.jobs.move(make.move(jobs[0].job_id, JobAction.PAUSE))
        await store.jobs.move(make.move(jobs[1].job_id, JobAction.CANCEL))
        await store.jobs.move(make.move(jobs[2].job_id, JobAction.PAUSE, until=make.now + 2 * HOUR))
        assert await self.names(store, make) == ["goes on", "until"]

    async def test_a_limit_tells_until_when_all_is_known(self, store: Store, make: Factory) -> None:
        """The time of the first job that was left out."""
        for hours in range(1, 6):
            await self.add(store, make.recurring(make.now + hours * HOUR, name=f"in {hours} h"))
        found = await self.look(store, make, limit=2)
        assert [row.name for row in found] == ["in 1 h", "in 2 h"]
        assert microseconds(found.known_until) == microseconds(make.now + 3 * HOUR)
        assert await self.names(store, make, limit=5) == [f"in {hours} h" for hours in range(1, 6)]

    async def test_a_bound_of_timers_tells_until_when_all_is_known(self, store: Store, make: Factory) -> None:
        """Nothing before that time is missing, also where none of those that were read is wanted."""
        for hours in range(1, 6):
            await self.add(store, make.recurring(make.now + hours * HOUR, name=f"in {hours} h"))
        found = await self.look(store, make, name="in 5 h", looked=3)
        known = found.known_until
        if known is None:
            assert [row.name for row in found] == ["in 5 h"]
        else:
            assert list(found) == []
            assert make.now < known < make.now + 5 * HOUR

    async def test_large_definitions_end_a_look(self, store: Store, make: Factory) -> None:
        """As a limit does; one row comes in any case."""
        text = '{"large":"' + "x" * 9_990 + '"}'
        for hours in (1, 2, 3):
            await self.add(store, make.recurring(make.now + hours * HOUR, definition=text))
        for bytes_most, rows in ((0, 1), (20_010, 2), (1 << 20, 3)):
            found = await self.look(store, make, bytes_most=bytes_most)
            assert len(found) == rows
            known = None if rows == 3 else microseconds(make.now + (rows + 1) * HOUR)
            assert microseconds(found.known_until) == known

    @pytest.mark.parametrize("cancelled", [False, True])
    async def test_a_calendar_names_its_jobs(self, store: Store, make: Factory, *, cancelled: bool) -> None:
        """The newest first; of one namespace, of a selector, of some statuses."""
        jobs = [
            make.recurring(
                make.now + HOUR, name=f"job {number}", job_id=make.identifier(number), calendars=["holidays", "other"],
                labels={"team": "a" if number else "b"},
            )
            for number in range(3)
        ]  # fmt: skip
        there = Factory(make.now, namespace="team-x", seed="elsewhere")
        await self.add(store, *jobs, make.recurring(make.now + HOUR, name="without"))
        await self.add(store, there.recurring(make.now + HOUR, name="elsewhere", calendars=["holidays"]))
        if cancelled:
            await store.jobs.move(make.move(jobs[2].job_id, JobAction.CANCEL))
        wanted = ["job 1", "job 0"] if cancelled else ["job 2", "job 1", "job 0"]

        async def names(calendar: str, **fields: Any) -> list[str]:
            query = JobQuery(**{"namespace": "default", "calendar": calendar, **fields})
            rows = await store.searches.jobs(query)
            assert await store.searches.count(query) == len(rows)
            return [row.name for row in rows if row.status is not JobStatus.CANCELLED]

        assert await names("holidays") == await names("other") == wanted
        assert await names("holidays", limit=3, name="job") == wanted
        assert await names("holidays", within=((("team", "b"),),)) == ["job 0"]
        assert await names("holidays", within=()) == []
        assert await names("holiday") == []
        going_on = [status for status in JobStatus if status is not JobStatus.CANCELLED]
        assert await names("holidays", statuses=going_on) == wanted
