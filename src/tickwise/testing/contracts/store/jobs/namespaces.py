"""Namespaces are walls: nothing of another namespace is visible, found, changed or told."""

from __future__ import annotations

from functools import partial

import pytest

from tickwise.domain.errors import Bug, NotFound
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Lane
from tickwise.ports.store import Added, JobAction, JobQuery, RunCancel, RunQuery, Store
from tickwise.testing.contracts.base import StoreContract, added
from tickwise.testing.factories import Factory, outcome

HOUR = 3600.0


class WallsContract(StoreContract):
    """Every method that names a namespace."""

    async def test_a_job_is_seen_in_its_own_namespace_only(self, store: Store, make: Factory) -> None:
        """By id, by key, in lists."""
        job = make.job(key="k")
        await self.add(store, job)
        assert await store.jobs.get("elsewhere", job.job_id) is None
        assert await store.jobs.get("elsewhere", "k") is None
        assert list(await store.searches.jobs(JobQuery(namespace="elsewhere"))) == []
        assert list(await store.searches.jobs(JobQuery(namespace="elsewhere", key="k"))) == []
        assert list(await store.searches.jobs(JobQuery(namespace=""))) == []

    async def test_a_run_is_seen_in_its_own_namespace_only(self, store: Store, make: Factory) -> None:
        """Active and ended."""
        executor, job = await self.register(store), make.job()
        claimed = await self.held(store, executor, job)
        for _ in range(2):
            assert await store.runs.get("elsewhere", claimed.run_id) is None
            assert list(await store.searches.runs(RunQuery(namespace="elsewhere"))) == []
            assert list(await store.searches.runs(RunQuery(namespace="elsewhere", job_id=job.job_id))) == []
            with pytest.raises(NotFound):
                await store.runs.move(RunCancel("elsewhere", claimed.run_id, "eve"))
            await self.finish(store, executor, outcome(claimed))
        assert await self.run_state(store, claimed.run_id) is RunState.SUCCESS

    async def test_an_id_of_another_namespace_is_taken_and_tells_nothing(self, store: Store, make: Factory) -> None:
        """Not even with the same body: only the creator may repeat it."""
        job = make.job(named=True, digest=b"a" * 32)
        await self.add(store, job)
        thief = job._replace(namespace="elsewhere", run_id=make.identifier(), key="k")
        for add in (store.jobs.add, partial(store.jobs.add, whole=True)):
            assert list(added(await add([thief]))) == [Added.ID_TAKEN]
            assert list(added(await add([thief._replace(named=False)]))) == [Added.ID_TAKEN]
        assert await store.jobs.get("elsewhere", job.job_id) is None
        assert await store.jobs.get("elsewhere", "k") is None
        assert (await store.upkeep.stats()).queued == 1

    async def test_a_key_changes_hands_only_inside_its_namespace(self, store: Store, make: Factory) -> None:
        """An equal key in another namespace is no conflict."""
        mine, theirs = make.job(make.now + HOUR), make.job(key="k", namespace="elsewhere")
        await self.add(store, mine, theirs)
        await store.jobs.change(make.change(await self.job_row(store, mine.job_id), key="k"))
        for namespace, job in (("default", mine), ("elsewhere", theirs)):
            found = await store.jobs.get(namespace, "k")
            assert found is not None
            assert (found.job_id, found.namespace) == (job.job_id, namespace)

    async def test_what_is_done_in_one_namespace_leaves_the_other_alone(self, store: Store, make: Factory) -> None:
        """Cancels, pauses, edits."""
        theirs = make.recurring(make.now + HOUR, namespace="elsewhere")
        await self.add(store, theirs)
        before = await self.job_row(store, theirs.job_id, "elsewhere")
        for action in JobAction:
            with pytest.raises(NotFound):
                await store.jobs.move(make.move(theirs.job_id, action))
        with pytest.raises(NotFound):
            await store.jobs.change(make.change(before, namespace="default", name="stolen"))
        with pytest.raises(NotFound):
            await store.runs.add("default", theirs.job_id, [make.run(theirs.job_id)])
        assert await self.job_row(store, theirs.job_id, "elsewhere") == before

    async def test_executors_serve_every_namespace(self, store: Store, make: Factory) -> None:
        """And hear which one a run and a timer belong to; queues, not namespaces, divide the work."""
        executor = await self.register(store)
        await self.add(store, make.job(), make.job(namespace="elsewhere", lane=Lane()))
        claims = await self.claim(store, executor)
        assert sorted(claimed.namespace for claimed in claims) == ["default", "elsewhere"]
        await self.add(store, make.recurring(make.now, namespace="elsewhere"))
        async with self.near(store, 1.0, 10) as batch:
            assert [timer.namespace for timer in batch.timers] == ["elsewhere"]

    async def test_jobs_of_one_namespace_are_stored_without_those_of_another(self, store: Store, make: Factory) -> None:
        """A key that is taken here refuses the job here alone. The batch may be repeated."""
        await self.add(store, make.job(make.now + HOUR, key="k"))
        refused, sibling = make.job(make.now + HOUR, key="k"), make.job(make.now + HOUR)
        theirs = make.job(make.now + HOUR, key="k", namespace="elsewhere")
        batch = [refused, theirs, sibling]
        assert list(added(await store.jobs.add(batch))) == [Added.KEY_TAKEN, Added.CREATED, Added.CREATED]
        assert list(added(await store.jobs.add(batch)))[1:] == [Added.REPEATED, Added.REPEATED]
        assert await store.jobs.get("default", refused.job_id) is None
        assert (await self.job_row(store, theirs.job_id, "elsewhere")).key == "k"
        assert (await self.job_row(store, sibling.job_id)).key is None

    async def test_a_batch_that_is_stored_as_one_has_one_namespace(self, store: Store, make: Factory) -> None:
        """With a receipt, or as a whole. A mixed batch is refused as a bug, and leaves neither a job nor a receipt."""
        batch = [make.job(make.now + HOUR), make.job(make.now + HOUR, namespace="elsewhere")]
        receipt = make.receipt()
        for add in (partial(store.jobs.add, whole=True), partial(store.jobs.add, receipt=receipt)):
            with pytest.raises(Bug, match="one namespace"):
                await add(batch)
        assert await store.receipts.find(receipt.principal, receipt.route, receipt.key) is None
        for job in batch:
            assert await store.jobs.get(job.namespace, job.job_id) is None
        assert list(added(await store.jobs.add(batch[1:], receipt, whole=True))) == [Added.CREATED]

    async def test_outcomes_of_one_namespace_are_recorded_without_those_of_another(
        self, store: Store, make: Factory
    ) -> None:
        """A refused outcome leaves the others of its batch on record. After an impossible one, which is a bug, the
        others can be reported again: each ends once, whether the first report recorded it or not."""
        executor = await self.register(store, lease_seconds=HOUR)
        await self.add(store, *(make.job(namespace=name) for name in ("default", "elsewhere") for _ in range(2)))
        claims = await self.claim(store, executor)
        first, second = (each for each in claims if each.namespace == "default")
        stale, odd = (each for each in claims if each.namespace == "elsewhere")
        late = outcome(stale, token=stale.token + 1_000_000)
        assert await self.finish(store, executor, late, outcome(first)) == [stale.run_id]
        with pytest.raises(Bug):
            await store.attempts.finish(executor, [outcome(second), outcome(odd, ended=float("inf"))])
        assert await self.finish(store, executor, outcome(second), outcome(first)) == []
        for claimed in (first, second):
            assert await self.run_state(store, claimed.run_id) is RunState.SUCCESS
            assert len(await store.runs.attempts(claimed.run_id)) == 1
        held = [await store.runs.get("elsewhere", each.run_id) for each in (stale, odd)]
        assert [row and row.state for row in held] == [RunState.DISPATCHED] * 2
        assert await self.finish(store, executor, outcome(stale), outcome(odd)) == []
