"""Counting runs and jobs, and finding runs by how they ended."""

from __future__ import annotations

from uuid import UUID

from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.ports.store import JobAction, JobQuery, RunQuery
from tickwise.testing.contracts.base import KeyedStore, StoreContract
from tickwise.testing.factories import Factory, outcome

HOUR = 3600.0


class CountsContract(StoreContract):
    """`runs_count`, `jobs_count`, `RunQuery.reason`."""

    async def ended(self, store: KeyedStore, make: Factory, state: RunState, reason: str | None) -> UUID:
        """A run that ended so."""
        executor = await self.born(store)
        claimed = await self.held(store, executor, make.job())
        assert await self.finish(store, executor, outcome(claimed, state, reason=reason)) == []
        return claimed.run_id

    async def test_runs_are_found_by_their_reason(self, store: KeyedStore, make: Factory) -> None:
        """Exactly as it is written; the living have none."""
        timeout = await self.ended(store, make, RunState.FAILED, "timeout")
        await self.ended(store, make, RunState.FAILED, "exit_code")
        await self.ended(store, make, RunState.SUCCESS, None)
        await self.add(store, make.job())
        query = RunQuery(namespace="default", reason="timeout")
        assert [row.run_id for row in await store.runs_list(query)] == [timeout]
        assert await store.runs_count(query) == 1
        assert list(await store.runs_list(RunQuery(namespace="default", reason="time"))) == []

    async def test_runs_are_counted_as_they_are_listed(self, store: KeyedStore, make: Factory) -> None:
        """Living and ended, by whatever is asked."""
        await self.ended(store, make, RunState.FAILED, "timeout")
        await self.ended(store, make, RunState.SUCCESS, None)
        await self.add(store, make.job(), make.job(namespace="elsewhere"))
        everything = RunQuery(namespace="default")
        assert await store.runs_count(everything) == 3
        for query in (
            RunQuery(namespace="default", states=(RunState.FAILED,)),
            RunQuery(namespace="default", states=(RunState.QUEUED, RunState.SUCCESS)),
            RunQuery(namespace="default", due_after=make.now + HOUR),
            RunQuery(namespace="elsewhere"),
            RunQuery(namespace="nowhere"),
        ):
            assert await store.runs_count(query) == len(await store.runs_list(query)), query

    async def test_counting_stops_where_it_is_told_to(self, store: KeyedStore, make: Factory) -> None:
        """Counting a million would take its time."""
        await self.add(store, *(make.job() for _ in range(5)))
        assert await store.runs_count(RunQuery(namespace="default", limit=3)) == 3
        assert await store.jobs_count(JobQuery(namespace="default", limit=3)) == 3
        assert await store.runs_count(RunQuery(namespace="default", limit=10)) == 5
        assert await store.jobs_count(JobQuery(namespace="default", limit=10)) == 5

    async def test_jobs_are_counted_as_they_are_listed(self, store: KeyedStore, make: Factory) -> None:
        """By whatever is asked, what follows from their runs included."""
        gone = make.recurring(make.now + HOUR, name="gone")
        await self.add(store, gone, make.recurring(make.now + HOUR, labels={"a": "b"}), make.job(task_kind="http"))
        await store.job_move(make.move(gone.job_id, JobAction.CANCEL))
        assert await store.jobs_count(JobQuery(namespace="default")) == 3
        for query in (
            JobQuery(namespace="default", status=JobStatus.CANCELLED),
            JobQuery(namespace="default", status=JobStatus.SCHEDULED),
            JobQuery(namespace="default", labels={"a": "b"}),
            JobQuery(namespace="default", task_kind="http"),
            JobQuery(namespace="default", name="GON"),
            JobQuery(namespace="elsewhere"),
        ):
            assert await store.jobs_count(query) == len(await store.jobs_list(query)), query
