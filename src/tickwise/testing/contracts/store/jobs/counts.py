"""Counting runs and jobs, finding runs by how they ended and whose they are, and the order of jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.domain.model import Lane, place_of, time_id
from tickwise.ports.store import JobAction, JobQuery, Retention, RunCancel, RunQuery, Store
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.factories import Factory, outcome

HOUR = 3600.0
KEEP = Retention(runs_seconds=24 * HOUR, failed_seconds=48 * HOUR)


class CountsContract(StoreContract):
    """`count`, `searches.tally`, `RunQuery.reason`."""

    async def ended(self, store: Store, make: Factory, state: RunState, reason: str | None) -> UUID:
        """A run that ended so."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        assert await self.finish(store, executor, outcome(claimed, state, reason=reason)) == []
        return claimed.run_id

    async def test_runs_are_found_by_their_reason(self, store: Store, make: Factory) -> None:
        """Exactly as it is written; active runs have none."""
        timeout = await self.ended(store, make, RunState.FAILED, "timeout")
        await self.ended(store, make, RunState.FAILED, "exit_code")
        await self.ended(store, make, RunState.SUCCESS, None)
        await self.add(store, make.job())
        query = RunQuery(namespace="default", reason="timeout")
        assert [row.run_id for row in await store.searches.runs(query)] == [timeout]
        assert await store.searches.count(query) == 1
        assert list(await store.searches.runs(RunQuery(namespace="default", reason="time"))) == []

    async def test_runs_are_found_by_what_their_job_is_and_by_their_executor(self, store: Store, make: Factory) -> None:
        """A part of its name, all of the labels, its queue; listed and counted, the active and the ended."""
        named = make.job(name="Nightly report", labels={"team": "data", "tier": "1"})
        queued = make.job(name="nightly_100%", lane=Lane("reports"), labels={"team": "data"})
        other = make.job(name="hourly")
        first = await self.register(store)
        claimed = await self.held(store, first, named)
        assert await self.finish(store, first, outcome(claimed)) == []
        second = await self.register(store)
        await self.held(store, second, other)
        await self.add(store, queued)
        runs = {named.run_id: "named", queued.run_id: "queued", other.run_id: "other"}
        searches: list[tuple[dict[str, Any], set[str]]] = [
            ({"job_name": "nightly"}, {"named", "queued"}),
            ({"job_name": "NIGHTLY R"}, {"named"}),
            ({"job_name": "_100%"}, {"queued"}),
            ({"job_name": "%"}, {"queued"}),
            ({"labels": {"team": "data"}}, {"named", "queued"}),
            ({"labels": {"team": "data", "tier": "1"}}, {"named"}),
            ({"labels": {"team": "web"}}, set()),
            ({"queue": "reports"}, {"queued"}),
            ({"queue": "default", "labels": {"team": "data"}}, {"named"}),
            ({"executor": first}, {"named"}),
            ({"executor": second}, {"other"}),
            ({"executor": second, "job_name": "nightly"}, set()),
            ({"job_name": "nightly", "states": (RunState.SUCCESS,)}, {"named"}),
        ]
        for asked, expected in searches:
            query = RunQuery(namespace="default", **asked)
            assert {runs[row.run_id] for row in await store.searches.runs(query)} == expected, asked
            assert await store.searches.count(query) == len(expected), asked
        assert list(await store.searches.runs(RunQuery(namespace="elsewhere", job_name="nightly"))) == []

    async def test_jobs_are_listed_newest_first_whatever_ids_clients_choose(self, store: Store, make: Factory) -> None:
        """By their creation, in pages that join; however they are searched for."""
        chosen = [UUID(int=7), UUID(int=(1 << 128) - 9), make.identifier(-30 * 86_400.0), make.identifier(86_400.0)]
        jobs = []
        for identifier in (*chosen[:2], None, *chosen[2:], None):
            fields: dict[str, Any] = {"labels": {"team": "data"}}
            if identifier is not None:
                fields |= {"job_id": identifier, "named": True, "digest": identifier.bytes}
            jobs.append(make.job(make.now + 80_000.0, **fields))
            if identifier is None:
                # Its id says when it is made, so it is made then.
                jobs[-1] = jobs[-1]._replace(job_id=time_id(int(await store.now() * 1000), make.random_bytes()))
            await self.add(store, jobs[-1])
            await self.shift(store, 61.0)
        newest_first = [job.job_id for job in reversed(jobs)]
        now = await store.now()
        for asked in (
            {},
            {"labels": {"team": "data"}},
            {"statuses": [JobStatus.SCHEDULED]},
            {"schedule_type": jobs[0].schedule_type},
            {"next_run_after": now, "next_run_before": now + 86_400.0},
            {"next_run_after": now},
        ):
            for size in (1, 2, 4, 100):
                query, found = JobQuery(namespace="default", limit=size, **asked), []
                while page := await store.searches.jobs(query):
                    found += [row.job_id for row in page]
                    query = replace(query, before=page[-1].listed)
                assert found == newest_first, (asked, size)
        for job in jobs:
            row = await self.job_row(store, job.job_id)
            assert row.listed == place_of(row.job_id, row.created_at)

    async def test_runs_are_counted_as_they_are_listed(self, store: Store, make: Factory) -> None:
        """Active and ended, by whatever is asked."""
        await self.ended(store, make, RunState.FAILED, "timeout")
        await self.ended(store, make, RunState.SUCCESS, None)
        await self.add(store, make.job(), make.job(namespace="elsewhere"))
        everything = RunQuery(namespace="default")
        assert await store.searches.count(everything) == 3
        for query in (
            RunQuery(namespace="default", states=(RunState.FAILED,)),
            RunQuery(namespace="default", states=(RunState.QUEUED, RunState.SUCCESS)),
            RunQuery(namespace="default", due_after=make.now + HOUR),
            RunQuery(namespace="elsewhere"),
            RunQuery(namespace="nowhere"),
        ):
            assert await store.searches.count(query) == len(await store.searches.runs(query)), query

    async def test_counting_stops_where_it_is_told_to(self, store: Store, make: Factory) -> None:
        """Counting a million would take its time."""
        await self.add(store, *(make.job() for _ in range(5)))
        assert await store.searches.count(RunQuery(namespace="default", limit=3)) == 3
        assert await store.searches.count(JobQuery(namespace="default", limit=3)) == 3
        assert await store.searches.count(RunQuery(namespace="default", limit=10)) == 5
        assert await store.searches.count(JobQuery(namespace="default", limit=10)) == 5

    async def test_jobs_are_counted_as_they_are_listed(self, store: Store, make: Factory) -> None:
        """By whatever is asked, what follows from their runs included."""
        gone = make.recurring(make.now + HOUR, name="gone")
        await self.add(store, gone, make.recurring(make.now + HOUR, labels={"a": "b"}), make.job(task_kind="http"))
        await store.jobs.move(make.move(gone.job_id, JobAction.CANCEL))
        assert await store.searches.count(JobQuery(namespace="default")) == 3
        for query in (
            JobQuery(namespace="default", statuses=(JobStatus.CANCELLED,)),
            JobQuery(namespace="default", statuses=(JobStatus.SCHEDULED,)),
            JobQuery(namespace="default", labels={"a": "b"}),
            JobQuery(namespace="default", task_kind="http"),
            JobQuery(namespace="default", name="GON"),
            JobQuery(namespace="elsewhere"),
        ):
            assert await store.searches.count(query) == len(await store.searches.jobs(query)), query

    async def tallied(self, store: Store, namespace: str | None = "default") -> dict[RunState, int]:
        """The counts of all time, by final state."""
        found: dict[RunState, int] = {}
        for tally in await store.searches.tally(namespace, 0.0, await store.now() + HOUR):
            found[tally.state] = found.get(tally.state, 0) + tally.runs
        return found

    async def test_what_comes_on_record_is_counted_by_how_it_ended(self, store: Store, make: Factory) -> None:
        """Ended by an executor or by a person. Active runs are not counted."""
        await self.ended(store, make, RunState.FAILED, "timeout")
        await self.ended(store, make, RunState.SUCCESS, None)
        await self.ended(store, make, RunState.SUCCESS, None)
        cancelled, active = make.job(), make.job()
        await self.add(store, cancelled, active)
        assert cancelled.run_id is not None
        await store.runs.move(RunCancel("default", cancelled.run_id, "ada"))
        assert await self.tallied(store) == {RunState.SUCCESS: 2, RunState.FAILED: 1, RunState.CANCELLED: 1}

    async def test_a_report_that_is_repeated_is_counted_once(self, store: Store, make: Factory) -> None:
        """And so is one that was refused: not at all."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        assert await self.finish(store, executor, outcome(claimed)) == []
        assert await self.finish(store, executor, outcome(claimed)) == []
        await self.finish(store, executor, outcome(claimed, RunState.FAILED))
        assert await self.tallied(store) == {RunState.SUCCESS: 1}

    async def test_counts_are_told_by_the_hour_and_the_namespace(self, store: Store, make: Factory) -> None:
        """The hour in which a run came on record; an hour belongs to the time in which it begins."""
        await self.ended(store, make, RunState.SUCCESS, None)
        first = (await store.now()) // HOUR * HOUR
        await self.shift(store, 2 * HOUR)
        later = (await store.now()) // HOUR * HOUR
        other = Factory(await store.now(), seed="other").job(namespace="elsewhere")
        await self.add(store, other)
        assert other.run_id is not None
        await store.runs.move(RunCancel("elsewhere", other.run_id, "ada"))
        everywhere = await store.searches.tally(None, first - HOUR, later + 2 * HOUR)
        states = [(tally.state, tally.runs) for tally in everywhere]
        assert states == [(RunState.SUCCESS, 1), (RunState.CANCELLED, 1)]
        begun, ended = [tally.hour for tally in everywhere]
        assert ended - begun in (2 * HOUR, 3 * HOUR)
        assert list(await store.searches.tally(None, begun + 1.0, ended)) == []
        assert [tally.hour for tally in await store.searches.tally("elsewhere", 0.0, ended + HOUR)] == [ended]
        assert list(await store.searches.tally("nowhere", 0.0, ended + HOUR)) == []

    async def test_upkeep_leaves_counts_as_they_are(self, store: Store, make: Factory) -> None:
        """Also when it folds them again and again, and when the runs themselves are past their time."""
        await self.ended(store, make, RunState.FAILED, "timeout")
        await store.upkeep.maintain(KEEP)
        await self.ended(store, make, RunState.FAILED, "timeout")
        assert await self.tallied(store) == {RunState.FAILED: 2}
        await store.upkeep.maintain(KEEP)
        assert await self.tallied(store) == {RunState.FAILED: 2}
        await self.shift(store, 5 * 24 * HOUR)
        await store.upkeep.maintain(KEEP)
        assert list(await store.searches.runs(RunQuery(namespace="default"))) == []
        assert await self.tallied(store) == {RunState.FAILED: 2}

    async def test_counts_go_after_more_than_a_year(self, store: Store, make: Factory) -> None:
        """They are small, and not for ever."""
        await self.ended(store, make, RunState.SUCCESS, None)
        await self.shift(store, 399 * 24 * HOUR)
        await store.upkeep.maintain(KEEP)
        assert await self.tallied(store) == {RunState.SUCCESS: 1}
        await self.shift(store, 402 * 24 * HOUR)
        await store.upkeep.maintain(KEEP)
        assert await self.tallied(store) == {}
