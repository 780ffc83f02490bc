"""A job goes to another namespace with all that it is; what it did stays where it was done."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace

import pytest

from tickwise.domain.decision import Hold, TimerState
from tickwise.domain.errors import Conflict, NotFound, VersionConflict
from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.domain.model import Lane
from tickwise.ports.identity.namespaces import NamespaceState, NewNamespace
from tickwise.ports.store import (
    JobAction,
    JobQuery,
    JobRow,
    JobTransfer,
    LetterQuery,
    LetterStatus,
    RunQuery,
    Settled,
    Settlement,
    Store,
)
from tickwise.testing.contracts.base import StoreContract, instants
from tickwise.testing.factories import Factory, outcome

HOUR = 3_600.0
TEAM = "team-a"
MONTH = 30 * 86_400.0


def to_team(row: JobRow) -> JobTransfer:
    """The job as it was read goes there."""
    return JobTransfer(namespace=row.namespace, job_id=row.job_id, to=TEAM, expected_version=row.version)


async def refused(call: Awaitable[object]) -> str:
    """The code with which a call is refused."""
    with pytest.raises(Conflict) as refusal:
        await call
    return refusal.value.code


class TransfersContract(StoreContract):
    """`JobStore.move` to another namespace."""

    async def test_a_job_goes_with_its_id_its_key_and_its_schedule(self, store: Store, make: Factory) -> None:
        """In its former namespace it is gone, and its key is free; the same again is the same."""
        job = make.recurring(make.now + HOUR, key="k", lane=Lane("reports"), labels={"team": "a"})
        await self.add(store, job)
        before = await self.job_row(store, job.job_id)
        after = await store.jobs.move(to_team(before))
        assert (after.namespace, after.version) == (TEAM, before.version + 1)
        kept = ("job_id", "key", "name", "definition", "labels", "lane", "owner", "created_by", "status", "listed")
        assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]
        assert instants(after.timer) == instants(before.timer)
        assert await store.jobs.move(to_team(before)) == after
        assert await store.jobs.get("default", job.job_id) is None
        assert await store.jobs.get("default", "k") is None
        assert [row.job_id for row in await store.searches.jobs(JobQuery(namespace=TEAM, key="k"))] == [job.job_id]
        assert list(await store.searches.jobs(JobQuery(namespace="default"))) == []
        await self.add(store, make.job(make.now + HOUR, key="k"))
        async with self.near(store, 2 * HOUR) as batch:
            assert [timer.namespace for timer in batch.timers if timer.job_id == job.job_id] == [TEAM]

    async def test_its_next_run_is_one_of_the_other_namespace(self, store: Store, make: Factory) -> None:
        """In the lane of that one; the runs before stay on record where they ran."""
        executor = await self.register(store)
        job = make.recurring(make.now)
        await self.add(store, job)
        first, second = make.now, make.now + 1.0
        async with self.near(store) as batch:
            await batch.commit([make.fire(job.job_id, first, second)])
        [claimed] = await self.claim(store, executor)
        await self.finish(store, executor, outcome(claimed))
        await store.jobs.move(to_team(await self.job_row(store, job.job_id)))
        async with self.near(store, 5.0) as batch:
            await batch.commit([make.fire(job.job_id, second, second + HOUR)])
        [again] = await self.claim_freed(store, executor)
        assert (claimed.namespace, again.namespace) == ("default", TEAM)
        await self.finish(store, executor, outcome(again))
        for namespace, run in (("default", claimed), (TEAM, again)):
            found = await store.searches.runs(RunQuery(namespace=namespace, job_id=job.job_id))
            assert [row.run_id for row in found] == [run.run_id]
            assert await store.searches.count(RunQuery(namespace=namespace)) == 1

    async def test_who_reads_the_former_runs_learns_nothing_of_the_job_by_then(
        self, store: Store, make: Factory
    ) -> None:
        """Neither by searches for its name, nor in its dead letters, which can be discarded and not redriven."""
        executor = await self.register(store)
        job = make.job(name="before", labels={"team": "a"})
        claimed = await self.held(store, executor, job)
        await self.finish(store, executor, outcome(claimed, RunState.FAILED))
        moved = await store.jobs.move(to_team(await self.job_row(store, job.job_id)))
        await store.jobs.change(make.change(moved, name="a secret", namespace=TEAM))
        for asked in (
            RunQuery(namespace="default", job_name="secret"),
            RunQuery(namespace="default", job_name="before"),
        ):
            assert list(await store.searches.runs(asked)) == []
            assert await store.searches.count(asked) == 0
        query = LetterQuery(namespace="default", expire_seconds=MONTH)
        [letter] = await store.searches.letters(query)
        assert (letter.job_name, letter.task_kind) == ("(moved)", "")
        assert list(await store.searches.letters(replace(query, namespace=TEAM))) == []
        # Callers whose permissions go by labels: those that the job has elsewhere say nothing here.
        by_labels = replace(query, within=((("team", "a"),),))
        assert (await store.jobs.get(TEAM, job.job_id) or moved).labels == {"team": "a"}
        assert list(await store.searches.letters(by_labels)) == []
        assert await store.searches.count(by_labels) == 0
        again = Settlement(claimed.run_id, LetterStatus.REDRIVEN, None, make.run(job.job_id))
        assert await store.letters.settle("default", [again], by="ada") == [Settled.JOB_CANCELLED]
        assert await store.letters.settle(TEAM, [again], by="ada") == [Settled.NOT_FAILED]
        discarded = Settlement(claimed.run_id, LetterStatus.DISCARDED, None)
        assert await store.letters.settle("default", [discarded], by="ada") == [Settled.SETTLED]

    async def test_its_former_dead_letters_outlive_the_namespace_that_it_went_to(
        self, store: Store, make: Factory
    ) -> None:
        """The job is gone with that one. They are found, and can be discarded."""
        executor = await self.register(store)
        row = await store.namespaces.add(NewNamespace(name=TEAM, display_name=TEAM, created_by="ada"))
        job = make.job(labels={"team": "a"})
        claimed = await self.held(store, executor, job)
        await self.finish(store, executor, outcome(claimed, RunState.FAILED))
        await store.jobs.move(to_team(await self.job_row(store, job.job_id)))
        await store.namespaces.change(replace(row, state=NamespaceState.CLOSING))
        await store.removals.begin(TEAM)
        while await store.removals.drop(TEAM, 10):
            pass
        assert await store.jobs.get(TEAM, job.job_id) is None
        query = LetterQuery(namespace="default", expire_seconds=MONTH)
        [letter] = await store.searches.letters(query)
        assert (letter.run.run_id, letter.job_name, letter.task_kind) == (claimed.run_id, "(moved)", "")
        assert await store.searches.count(query) == 1
        assert await store.letters.get("default", claimed.run_id, MONTH) == letter
        by_labels = replace(query, within=((("team", "a"),),))
        assert list(await store.searches.letters(by_labels)) == []
        assert await store.searches.count(by_labels) == 0
        again = Settlement(claimed.run_id, LetterStatus.REDRIVEN, None, make.run(job.job_id))
        assert await store.letters.settle("default", [again], by="ada") == [Settled.JOB_CANCELLED]
        discarded = Settlement(claimed.run_id, LetterStatus.DISCARDED, None)
        assert await store.letters.settle("default", [discarded], by="ada") == [Settled.SETTLED]

    async def test_a_job_with_an_unfinished_run_stays(self, store: Store, make: Factory) -> None:
        """Free or held, and until what follows its end is made."""
        executor = await self.register(store)
        job = make.job()
        await self.add(store, job)
        row = await self.job_row(store, job.job_id)
        assert await refused(store.jobs.move(to_team(row))) == "job_busy"
        [claimed] = await self.claim(store, executor)
        assert await refused(store.jobs.move(to_team(row))) == "job_busy"
        await self.finish(store, executor, outcome(claimed, follow=True))
        assert await refused(store.jobs.move(to_team(row))) == "job_busy"
        await store.completions.commit("default", {claimed.run_id: ()})
        assert (await store.jobs.move(to_team(row))).status is JobStatus.COMPLETED

    async def test_a_transfer_is_refused_for_what_stands_in_its_way(self, store: Store, make: Factory) -> None:
        """A key that is taken there, a namespace that closes, a job that is cancelled, changed or not there: nothing
        moves."""
        await store.namespaces.add(NewNamespace(name=TEAM, display_name=TEAM, created_by="ada"))
        job, theirs = make.recurring(make.now + HOUR, key="k"), make.job(make.now + HOUR, key="k", namespace=TEAM)
        await self.add(store, job, theirs)
        row = await self.job_row(store, job.job_id)
        assert await refused(store.jobs.move(to_team(row))) == "key_taken"
        with pytest.raises(VersionConflict):
            await store.jobs.move(replace(to_team(row), expected_version=row.version + 1))
        with pytest.raises(NotFound):
            await store.jobs.move(replace(to_team(row), namespace="elsewhere"))
        with pytest.raises(NotFound):
            await store.jobs.move(replace(to_team(row), job_id=make.identifier()))
        await store.jobs.move(make.move(theirs.job_id, JobAction.CANCEL, namespace=TEAM))
        namespace = await store.namespaces.get(TEAM)
        assert namespace is not None
        await store.namespaces.change(replace(namespace, state=NamespaceState.CLOSING))
        assert await refused(store.jobs.move(to_team(row))) == "namespace_closing"
        assert await self.job_row(store, job.job_id) == row
        await store.jobs.move(make.move(job.job_id, JobAction.CANCEL))
        row = await self.job_row(store, job.job_id)
        assert await refused(store.jobs.move(replace(to_team(row), to="team-b"))) == "job_cancelled"

    async def test_what_a_window_held_back_is_asked_anew(self, store: Store, make: Factory) -> None:
        """The rules of the other namespace hold from now on; a pause stays a pause."""
        held, paused = make.recurring(make.now), make.recurring(make.now + HOUR)
        await self.add(store, held, paused)
        until = TimerState(make.now + HOUR, since=make.now, hold=Hold.MAINTENANCE)
        async with self.near(store) as batch:
            await batch.commit([make.fire(held.job_id, make.now, until, runs=())])
        await store.jobs.move(make.move(paused.job_id, JobAction.PAUSE))
        for job in (held, paused):
            await store.jobs.move(to_team(await self.job_row(store, job.job_id)))
        async with self.near(store) as batch:
            assert [timer.job_id for timer in batch.timers] == [held.job_id]
        assert (await self.job_row(store, paused.job_id, TEAM)).status is JobStatus.PAUSED
