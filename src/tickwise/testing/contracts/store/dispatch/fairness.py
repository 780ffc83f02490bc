"""The order of claims: namespaces in turn, high priority before low, and now and then the longest waiting run before
all."""

from __future__ import annotations

from collections import Counter

import pytest

from tickwise.ports.store import Store
from tickwise.testing.contracts.base import StoreContract, lane
from tickwise.testing.factories import Factory

HOUR = 3600.0
BACKLOG = 2_000
TENTH = 10


class FairnessContract(StoreContract):
    """`attempts.claim`, "Fair"."""

    async def backlog(self, store: Store, make: Factory, namespace: str, count: int, *, priority: int = 5) -> None:
        """Make this number of waiting runs of a namespace, all older than later ones."""
        jobs = [make.job(namespace=namespace, lane=lane(priority)) for _ in range(count)]
        await self.add(store, *jobs)

    @pytest.mark.parametrize("limit", [1, 16])
    async def test_a_backlog_does_not_keep_another_namespace_waiting(
        self, store: Store, make: Factory, limit: int
    ) -> None:
        """Its single run is among the first that are claimed, however many wait before it, however few are taken."""
        await self.backlog(store, make, "busy", BACKLOG)
        executor = await self.register(store, lease_seconds=HOUR)
        await self.claim(store, executor, limit=limit)
        single = make.job(namespace="quiet")
        await self.add(store, single)
        claims = 0
        got: set[object] = set()
        while single.job_id not in got and claims < TENTH:
            got = {claimed.job_id for claimed in await self.claim(store, executor, limit=limit)}
            claims += 1
        assert single.job_id in got
        assert claims <= 3

    async def test_namespaces_take_turns(self, store: Store, make: Factory) -> None:
        """One has ten times as much as the others, and gets no more than they while they have something."""
        for namespace, count in (("a", 50), ("b", 5), ("c", 5)):
            await self.backlog(store, make, namespace, count)
        executor = await self.register(store, lease_seconds=HOUR)
        got = [claimed.namespace for _ in range(9) for claimed in await self.claim(store, executor, limit=1)]
        counts = Counter(got)
        assert (sum(counts.values()), set(counts)) == (9, {"a", "b", "c"})
        # Three each, but for the one claim of ten that goes by waiting time alone.
        assert all(2 <= count <= 4 for count in counts.values()), counts

    async def test_a_higher_priority_goes_before_another_namespaces_turn(self, store: Store, make: Factory) -> None:
        """Turns are taken among lanes of one priority."""
        await self.backlog(store, make, "urgent", 8, priority=9)
        await self.shift(store, 0.5)
        await self.backlog(store, make, "other", 8)
        executor = await self.register(store, lease_seconds=HOUR)
        got = [claimed.namespace for _ in range(8) for claimed in await self.claim(store, executor, limit=1)]
        assert got == ["urgent"] * 8

    async def test_within_a_namespace_the_longest_waiting_goes_first(self, store: Store, make: Factory) -> None:
        """In any of the namespace's queues."""
        executor = await self.register(store, queues=("one", "two"), lease_seconds=HOUR)
        jobs = [make.job(lane=lane(queue="one" if number % 2 else "two")) for number in range(6)]
        for job in jobs:  # each is ready when it is added, so the earlier one has waited longer
            await self.add(store, job)
        await self.shift(store, 1.0)
        got = [
            claimed.job_id
            for _ in jobs
            for claimed in await self.claim(store, executor, queues=("one", "two"), limit=1)
        ]
        assert got == [job.job_id for job in jobs]

    async def test_a_claim_is_filled_from_every_namespace(self, store: Store, make: Factory) -> None:
        """A turn leaves no slot empty while anybody waits."""
        for namespace in ("a", "b", "c"):
            await self.backlog(store, make, namespace, 3)
        executor = await self.register(store, lease_seconds=HOUR)
        assert len(await self.claim(store, executor, limit=9)) == 9

    async def test_each_tenth_claim_begins_with_the_longest_waiting(self, store: Store, make: Factory) -> None:
        """Low priority, behind a backlog of high: it is claimed within ten claims, and not much later."""
        low = make.job(lane=lane(0), namespace="patient")
        await self.add(store, low)
        await self.shift(store, 0.5)
        await self.backlog(store, make, "busy", 100, priority=9)
        executor = await self.register(store, lease_seconds=HOUR)
        got = [claimed.job_id for _ in range(TENTH) for claimed in await self.claim(store, executor, limit=1)]
        assert len(got) == TENTH
        assert low.job_id in got
