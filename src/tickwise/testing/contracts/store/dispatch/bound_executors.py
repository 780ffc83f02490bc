"""Executors that are bound to namespaces, and namespaces that demand a sandbox: the store gives no run that may not go
on there, however it is asked for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from uuid import UUID

import pytest

from tickwise.domain.model import Lane
from tickwise.domain.quotas import Quotas
from tickwise.ports.identity.namespaces import NewNamespace
from tickwise.ports.store import Store
from tickwise.testing.contracts.base import StoreContract, lane
from tickwise.testing.factories import Factory

HOUR = 3600.0


class BoundExecutorsContract(StoreContract):
    """`NewExecutor.namespaces`, as `attempts.claim` and `executors.all` mind it."""

    async def waiting(self, store: Store, make: Factory, *namespaces: str, count: int = 3) -> dict[str, list[UUID]]:
        """Runs that wait, by their namespaces."""
        found: dict[str, list[UUID]] = {}
        for namespace in namespaces:
            jobs = [make.job(namespace=namespace) for _ in range(count)]
            await self.add(store, *jobs)
            found[namespace] = [job.run_id for job in jobs if job.run_id is not None]
        return found

    async def test_a_bound_executor_gets_runs_of_its_namespaces_only(self, store: Store, make: Factory) -> None:
        """Those of others stay for others."""
        await self.waiting(store, make, "a", "b", "c")
        bound = await self.register(store, namespaces=("a", "c"), lease_seconds=HOUR)
        free = await self.register(store, lease_seconds=HOUR)
        got = [claimed.namespace for _ in range(3) for claimed in await self.claim(store, bound, limit=100)]
        assert Counter(got) == {"a": 3, "c": 3}
        rest = [claimed.namespace for _ in range(3) for claimed in await self.claim(store, free, limit=100)]
        assert rest == ["b"] * 3

    async def test_a_bound_executor_gets_none_by_its_name_either(self, store: Store, make: Factory) -> None:
        """A hint, or somebody who read an id, names a run of another namespace."""
        runs = await self.waiting(store, make, "a", "b")
        bound = await self.register(store, namespaces=("a",), lease_seconds=HOUR)
        got = await self.claim(store, bound, runs=[*runs["b"], *runs["a"]], limit=100)
        assert [claimed.run_id for claimed in got] == runs["a"]

    async def test_an_executor_without_bounds_gets_all(self, store: Store, make: Factory) -> None:
        """None is each namespace; no namespace at all is none."""
        await self.waiting(store, make, "a", "b")
        nobodys = await self.register(store, namespaces=(), lease_seconds=HOUR)
        assert not await self.claim(store, nobodys, limit=100)
        free = await self.register(store, namespaces=None, lease_seconds=HOUR)
        assert len(await self.claim(store, free, limit=100)) == 6

    @pytest.mark.parametrize("limit", [1, 16])
    async def test_its_namespaces_take_turns(self, store: Store, make: Factory, limit: int) -> None:
        """A backlog of one of them, or of one that it does not take, keeps none of them waiting."""
        await self.waiting(store, make, "a", "z", count=200)
        bound = await self.register(store, namespaces=("a", "b"), lease_seconds=HOUR)
        await self.claim(store, bound, limit=limit)
        await self.waiting(store, make, "b", count=1)
        got = [claimed.namespace for _ in range(3) for claimed in await self.claim(store, bound, limit=limit)]
        assert "b" in got
        assert "z" not in got

    async def test_priority_goes_first_within_its_namespaces(self, store: Store, make: Factory) -> None:
        """An urgent run of another namespace is not its concern."""
        await self.add(store, make.job(namespace="z", lane=lane(9)), make.job(namespace="a", lane=lane(1)))
        urgent = make.job(namespace="b", lane=lane(8))
        await self.add(store, urgent)
        bound = await self.register(store, namespaces=("a", "b"), lease_seconds=HOUR)
        got = [claimed.job_id for _ in range(2) for claimed in await self.claim(store, bound, limit=1)]
        assert got[0] == urgent.job_id
        assert len(got) == 2

    async def test_executors_say_which_namespaces_they_take(self, store: Store) -> None:
        """Here, and where those of a time are listed."""
        bound = await self.register(store, namespaces=("b", "a"), lease_seconds=HOUR)
        free = await self.register(store, lease_seconds=HOUR)
        now = await store.now()
        for listed in (await store.executors.all(), await store.executors.all((now - 5.0, now + 5.0))):
            rows = {row.executor: row for row in listed}
            assert list(rows[bound].namespaces or ()) == ["b", "a"]
            assert rows[free].namespaces is None
            assert (rows[bound].takes("a"), rows[bound].takes("c"), rows[free].takes("c")) == (True, False, True)

    async def demand(self, store: Store, namespace: str, isolation: str | None) -> None:
        """Let the namespace demand this isolation of its tasks."""
        await store.namespaces.add(NewNamespace(name=namespace, display_name=namespace, created_by="ada"))
        row = await store.namespaces.get(namespace)
        assert row is not None
        await store.namespaces.change(replace(row, quotas=Quotas(min_isolation=isolation)))

    @pytest.mark.parametrize("by_name", [False, True])
    async def test_a_container_is_more_than_a_sandbox(self, store: Store, make: Factory, by_name: bool) -> None:
        """A demand of a sandbox lets tasks in containers go on; a demand of a container bars tasks in sandboxes."""
        labels = ("isolation:container", "isolation:sandbox", "task:container", "task:python", "task:shell")
        team = "team-c"
        lanes = {
            "container": Lane(requires=("isolation:container", "task:python")),
            "kind": Lane(requires=("isolation:container", "task:container")),
            "sandbox": Lane(requires=("isolation:sandbox", "task:shell")),
            "process": Lane(requires=("task:python",)),
        }
        jobs = {name: make.job(namespace=team, lane=where) for name, where in lanes.items()}
        await self.demand(store, team, "container")
        await self.add(store, *jobs.values())
        executor = await self.register(store, labels=labels, lease_seconds=HOUR)
        runs = [job.run_id for job in jobs.values()] if by_name else None

        async def claimed() -> set[str]:
            found = {each.job_id for each in await self.claim(store, executor, labels=labels, runs=runs)}
            return {name for name, job in jobs.items() if job.job_id in found}

        assert await claimed() == {"container", "kind"}
        await self.demand(store, team, "sandbox")
        assert await claimed() == {"sandbox"}
        await self.demand(store, team, None)
        assert await claimed() == {"process"}

    @pytest.mark.parametrize("by_name", [False, True])
    async def test_a_namespace_that_demands_a_sandbox_has_no_other_task_claimed(
        self, store: Store, make: Factory, by_name: bool
    ) -> None:
        """Scripts and commands without one wait, however they are asked for; functions and requests are no processes of
        their own, and other namespaces are not concerned. When the demand is lifted they go on."""
        team = "team-s"
        await self.demand(store, team, "sandbox")
        labels = ("isolation:sandbox", "task:function", "task:python", "task:shell")
        barred = [make.job(namespace=team, lane=Lane(requires=(f"task:{kind}",))) for kind in ("python", "shell")]
        free = [
            make.job(namespace=team, lane=Lane(requires=("isolation:sandbox", "task:python"))),
            make.job(namespace=team, lane=Lane(requires=("task:function",))),
            make.job(namespace="default", lane=Lane(requires=("task:shell",))),
        ]
        await self.add(store, *barred, *free)
        executor = await self.register(store, labels=labels, lease_seconds=HOUR)
        runs = [job.run_id for job in (*barred, *free)] if by_name else None

        async def claimed() -> set[UUID]:
            return {each.job_id for each in await self.claim(store, executor, labels=labels, runs=runs)}

        assert await claimed() == {job.job_id for job in free}
        assert await claimed() == set()
        await self.demand(store, team, None)
        assert await claimed() == {job.job_id for job in barred}
