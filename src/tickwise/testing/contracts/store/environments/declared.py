"""Environments that jobs declare: one row of equal ones, found by the executors that need them, in a fair order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from tickwise.ports.environments import ENVIRONMENT_INVALID, EnvironmentDemand, EnvironmentFailure
from tickwise.ports.store import Store
from tickwise.ports.store.environments import (
    DECLARED_SECONDS,
    MAX_DECLARED_OF_NAMESPACE,
    MAX_FAULT_CHARACTERS,
    DeclaredEnvironment,
    EnvironmentFault,
    WantedQuery,
)
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.contracts.store.people.removals import begin_removal, open_namespace
from tickwise.testing.factories import Factory


def demand(name: str = "requests", namespace: str = "default") -> EnvironmentDemand:
    """The environment with this package."""
    return EnvironmentDemand(namespace, name, python=">=3.9", exclude_newer="2026-01-01")


def declared(*demands: EnvironmentDemand, **fields: Any) -> list[DeclaredEnvironment]:
    """Declared by jobs of the default queue."""
    given: dict[str, Any] = {"queue": "default", "requires": (), "job_id": None, **fields}
    return [DeclaredEnvironment(demand=each, **given) for each in demands]


class DeclaredEnvironmentsContract(StoreContract):
    """`environments.declare`, `.wanted`, `.report`, `.fault`, `.forget`."""

    async def wanted(self, store: Store, **fields: Any) -> Sequence[EnvironmentDemand]:
        """The demands for an executor of the default queue."""
        given: dict[str, Any] = {"queues": ("default",), "labels": (), "namespaces": None, "limit": 100, **fields}
        return [each.demand for each in await store.environments.wanted(WantedQuery(**given))]

    async def test_equal_declarations_are_one(self, store: Store) -> None:
        """Of any number of jobs and queues; each word of the demand comes back."""
        one, other = demand(), EnvironmentDemand("default", lock="version = 1\nü = '\"'\n")
        for queue in ("default", "reports"):
            await store.environments.declare(declared(one, one, other, queue=queue))
        assert await self.wanted(store, queues=("reports", "default")) == sorted(
            (one, other), key=lambda each: each.digest
        )
        assert await self.wanted(store, queues=()) == []

    async def test_an_executor_gets_those_of_runs_that_it_may_claim(self, store: Store) -> None:
        """Its queues, its labels, its namespaces."""
        await open_namespace(store)
        plain, labelled, elsewhere, theirs = (
            demand("plain"), demand("labelled"), demand("elsewhere"), demand("theirs", "team-a")
        )  # fmt: skip
        await store.environments.declare(declared(plain, theirs))
        await store.environments.declare(declared(labelled, requires=("gpu", "zone=a")))
        await store.environments.declare(declared(elsewhere, queue="reports"))
        assert set(await self.wanted(store)) == {plain, theirs}
        assert set(await self.wanted(store, labels=("gpu",))) == {plain, theirs}
        assert set(await self.wanted(store, labels=("zone=a", "gpu", "x"))) == {plain, theirs, labelled}
        assert await self.wanted(store, queues=("reports",)) == [elsewhere]
        assert await self.wanted(store, namespaces=("team-a",)) == [theirs]

    async def test_those_whose_job_is_due_first_come_first(self, store: Store, make: Factory) -> None:
        """Then those that were declared last."""
        soon, late = make.recurring(make.now + 100.0), make.recurring(make.now + 9_000.0)
        await self.add(store, late, soon)
        for name, job_id in (("none", None), ("late", late.job_id), ("gone", UUID(int=1)), ("soon", soon.job_id)):
            await self.shift(store, 1.0)
            await store.environments.declare(declared(demand(name), job_id=job_id))
        found = await self.wanted(store)
        assert [each.requirements for each in found] == ["soon", "late", "gone", "none"]
        assert await self.wanted(store, limit=2) == found[:2]

    async def test_each_namespace_has_its_turn(self, store: Store) -> None:
        """However many environments another one declares."""
        await open_namespace(store)
        await store.environments.declare(declared(*(demand(f"p{number}") for number in range(5))))
        theirs = demand("theirs", "team-a")
        await store.environments.declare(declared(theirs))
        assert theirs in await self.wanted(store, limit=2)

    async def test_of_a_namespace_the_last_are_kept(self, store: Store) -> None:
        """It has a room of its own, and takes none of another's."""
        await open_namespace(store)
        await store.environments.declare(declared(demand("theirs", "team-a")))
        names = [f"p{number}" for number in range(MAX_DECLARED_OF_NAMESPACE + 1)]
        await store.environments.declare(declared(demand(names[0])))
        await self.shift(store, 1.0)
        await store.environments.declare(declared(*(demand(name) for name in names[1:])))
        found = {each.requirements for each in await self.wanted(store, limit=1_000)}
        assert found == {*names[1:], "theirs"}

    async def test_a_failed_build_is_on_record_until_one_succeeds(self, store: Store, other: Store) -> None:
        """It counts for the declaration in all of its queues. Its text is cut."""
        one = demand()
        for queue in ("default", "reports"):
            await store.environments.declare(declared(one, queue=queue))
        assert await store.environments.fault(one) is None
        failure = EnvironmentFailure(ENVIRONMENT_INVALID, "no\0 such package" + "x" * MAX_FAULT_CHARACTERS)
        await other.environments.report(one, failure, "host:1")
        now = await store.now()
        found = await store.environments.fault(one)
        assert found is not None
        assert found.failed_at <= now
        assert found._replace(failed_at=0.0) == EnvironmentFault(
            ENVIRONMENT_INVALID, failure.detail.replace("\0", "")[:MAX_FAULT_CHARACTERS], 0.0, "host:1"
        )
        query = WantedQuery(queues=("default",), labels=(), namespaces=None, limit=5)
        assert [each.failed for each in await store.environments.wanted(query)] == [True]
        await store.environments.declare(declared(one))
        assert await store.environments.fault(one) == found
        await other.environments.report(one, None, "host:2")
        assert await store.environments.fault(one) is None
        assert [each.failed for each in await store.environments.wanted(query)] == [False]

    async def test_a_report_of_what_nothing_declares_is_dropped(self, store: Store) -> None:
        """Its namespace may be gone meanwhile."""
        await store.environments.report(demand(), EnvironmentFailure(ENVIRONMENT_INVALID, "x"), "host:1")
        assert await store.environments.fault(demand()) is None
        assert await self.wanted(store) == []

    async def test_what_was_not_declared_for_long_is_forgotten(self, store: Store, make: Factory) -> None:
        """Not while its job has a time to come."""
        job = make.recurring(make.now + 2.0 * DECLARED_SECONDS)
        await self.add(store, job)
        await store.environments.declare([*declared(demand("kept"), job_id=job.job_id), *declared(demand("old"))])
        assert await store.environments.forget() == 0
        await self.shift(store, DECLARED_SECONDS + 1.0)
        await store.environments.declare(declared(demand("new")))
        assert await store.environments.forget() == 1
        assert {each.requirements for each in await self.wanted(store)} == {"kept", "new"}

    async def test_they_go_with_their_namespace(self, store: Store) -> None:
        """And none is added to one that is being removed."""
        await open_namespace(store)
        theirs, ours = demand("theirs", "team-a"), demand("ours")
        await store.environments.declare(declared(theirs))
        await begin_removal(store)
        await store.environments.declare(declared(theirs._replace(requirements="more"), ours))
        assert set(await self.wanted(store)) == {theirs, ours}
        await self.shift(store, 120.0)
        while await store.removals.drop("team-a", 100):
            pass
        assert await store.removals.end("team-a")
        assert await self.wanted(store) == [ours]
