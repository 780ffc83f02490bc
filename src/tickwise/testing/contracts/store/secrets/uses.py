"""The jobs and stored tasks that name a secret: told by an index, kept with each write."""

from __future__ import annotations

from uuid import UUID

import pytest

from tickwise.ports.store import JobAction, Store
from tickwise.ports.store.secrets import SecretPlace, SecretQuery, SecretUse, SecretUses
from tickwise.ports.store.transfers import JobTransfer
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.contracts.store.people.removals import TEAM, begin_removal, close, open_namespace
from tickwise.testing.contracts.store.secrets.secrets import secret
from tickwise.testing.factories import Factory, outcome

DB = SecretPlace("default", "db")


def ids(uses: SecretUses) -> set[UUID]:
    """The jobs of an answer."""
    return {each.job_id for each in uses.jobs}


class SecretUsesContract(StoreContract):
    """`SecretStore.uses`, and the counts of `find`."""

    async def counted(self, store: Store, *names: str, most: int = 100) -> dict[str, int]:
        """The counts of these secrets, which are stored, that are not 0."""
        for name in names:
            if not await store.secrets.versions(SecretPlace("default", name)):
                await store.secrets.put(secret(name))
        rows = await store.secrets.find(SecretQuery(namespace="default", jobs_most=most))
        assert not any(row.jobs for row in await store.secrets.find(SecretQuery(namespace="default")))
        return {row.name: row.jobs for row in rows if row.jobs}

    async def test_jobs_that_name_a_secret_are_told(self, store: Store, other: Store, make: Factory) -> None:
        """Each with its name, key and labels; those of other names and other namespaces are not. The secret need not be
        there."""
        await open_namespace(store)
        later = make.now + 500.0
        keyed = make.recurring(later, name="nightly", key="k", labels={"team": "a"}, secrets=["api", "db"])
        plain = make.recurring(later, name="hourly", secrets=["db"])
        others = [make.recurring(later), make.recurring(later, secrets=["db2"])]
        there = make.recurring(later, namespace=TEAM, secrets=["db"])
        await self.add(store, keyed, plain, *others)
        await self.add(store, there)
        found = await other.secrets.uses(DB, 10)
        assert SecretUses(
            sorted(
                [
                    SecretUse(keyed.job_id, "nightly", "k", {"team": "a"}),
                    SecretUse(plain.job_id, "hourly", None, {}),
                ]
            ),
            [],
            more=False,
        ) == SecretUses(list(found.jobs), list(found.tasks), found.more)
        assert {there.job_id} == ids(await store.secrets.uses(SecretPlace(TEAM, "db"), 10))
        assert {"api": 1, "db": 2, "db2": 1} == await self.counted(store, "api", "db", "db2", "none")

    @pytest.mark.parametrize(("limit", "count", "more"), [(2, 2, True), (3, 3, False)])
    async def test_an_answer_is_bounded(
        self, store: Store, make: Factory, limit: int, count: int, *, more: bool
    ) -> None:
        """And says that there is more."""
        await self.add(store, *(make.recurring(make.now + 500.0, secrets=["db"]) for _ in range(3)))
        found = await store.secrets.uses(DB, limit)
        assert (count, more) == (len(found.jobs), found.more)
        assert {"db": count} == await self.counted(store, "db", most=limit)

    async def test_a_change_takes_the_names_along(self, store: Store, make: Factory) -> None:
        """In the same write: a job that no longer names a secret is no user of it."""
        job = make.recurring(make.now + 500.0, secrets=["db"])
        await self.add(store, job)
        row = await store.jobs.get("default", job.job_id)
        assert row is not None
        await store.jobs.change(make.change(row, definition='{"task":{}}', secrets=["api"]))
        assert set() == ids(await store.secrets.uses(DB, 10))
        assert {job.job_id} == ids(await store.secrets.uses(SecretPlace("default", "api"), 10))
        row = await store.jobs.get("default", job.job_id)
        assert row is not None
        await store.jobs.change(make.change(row, definition="{}"))
        assert {} == await self.counted(store, "api", "db")

    async def test_a_cancelled_job_uses_nothing(self, store: Store, make: Factory) -> None:
        """A paused one does: it goes on some day."""
        paused, cancelled = (make.recurring(make.now + 500.0, secrets=["db"]) for _ in range(2))
        await self.add(store, paused, cancelled)
        await store.jobs.move(make.move(paused.job_id, JobAction.PAUSE))
        await store.jobs.move(make.move(cancelled.job_id, JobAction.CANCEL))
        assert {paused.job_id} == ids(await store.secrets.uses(DB, 10))
        assert {"db": 1} == await self.counted(store, "db")

    async def test_one_time_jobs_use_a_secret_until_they_are_over(self, store: Store, make: Factory) -> None:
        """While their time is to come, and while their run waits or runs; those that pass (`placement`) are not looked
        for. Jobs on demand use it always."""
        now = make.job(key="now", secrets=["db"])
        soon, far, passing = (
            make.job(make.now + seconds, key=key, secrets=["db"])
            for seconds, key in ((500.0, "soon"), (9e5, None), (500.0, None))
        )
        on_demand = make.job(schedule_type="ON_DEMAND", never=True, run_id=None, secrets=["db"])
        await self.add(store, now, soon, far, passing, on_demand)
        every = {job.job_id for job in (now, soon, far, on_demand)}
        assert every == ids(await store.secrets.uses(DB, 10))
        executor = await self.register(store)
        [claimed] = await self.claim(store, executor)
        assert every == ids(await store.secrets.uses(DB, 10))
        await self.finish(store, executor, outcome(claimed))
        assert every - {now.job_id} == ids(await store.secrets.uses(DB, 10))
        assert {"db": 1} == await self.counted(store, "db"), "the list counts jobs that stay"

    async def test_names_go_with_a_job_to_another_namespace(self, store: Store, make: Factory) -> None:
        """The secret of that namespace is meant there."""
        await open_namespace(store)
        job = make.recurring(make.now + 500.0, secrets=["db"])
        await self.add(store, job)
        await store.jobs.move(JobTransfer(namespace="default", job_id=job.job_id, to=TEAM, expected_version=1))
        assert set() == ids(await store.secrets.uses(DB, 10))
        assert {job.job_id} == ids(await store.secrets.uses(SecretPlace(TEAM, "db"), 10))

    async def test_a_removed_namespace_leaves_no_use(self, store: Store, make: Factory) -> None:
        """A later namespace of its name begins with none."""
        await open_namespace(store)
        await self.add(store, make.recurring(make.now + 500.0, namespace=TEAM, secrets=["db"]))
        await close(store)
        await begin_removal(store)
        while await store.removals.drop(TEAM, 2):
            pass
        assert set() == ids(await store.secrets.uses(SecretPlace(TEAM, "db"), 10))

    async def test_stored_tasks_with_the_word_are_found(self, store: Store, make: Factory) -> None:
        """Of each its newest version alone, by id."""
        naming, plain = '{"kind":"shell","env":{"A":"secret:db"}}', '{"kind":"shell","command":"true"}'
        for task_id, text in (("b", naming), ("a", naming), ("c", plain), ("was", naming), ("was", plain)):
            await store.tasks.put(make.task(task_id=task_id, task=text, digest=f"{task_id}{text}"[:64]))
        await store.tasks.put(make.task(task_id="became", task=plain, digest="1"))
        await store.tasks.put(make.task(task_id="became", task=naming, digest="2"))
        found = await store.secrets.uses(DB, 10)
        assert [("a", 1), ("b", 1), ("became", 2)] == [(each.task_id, each.version) for each in found.tasks]
        assert (naming, False) == (found.tasks[0].task, found.more)
        bounded = await store.secrets.uses(DB, 1)
        assert (["a"], True) == ([each.task_id for each in bounded.tasks], bounded.more)
        assert ([], []) == tuple(map(list, (await store.secrets.uses(SecretPlace(TEAM, "db"), 10))[:2]))
