"""Runs claimed by their names: the very fences of a claim that scans, and names that are hints and nothing more."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from tickwise.domain.decision import Overlap
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed
from tickwise.ports.store import ClaimRequest, NewJob, Store
from tickwise.testing.contracts.base import LEASE_SECONDS, lane, microseconds
from tickwise.testing.contracts.store.dispatch.overlap import LineContract
from tickwise.testing.factories import Factory, outcome, outcomes


def name_of(job: NewJob) -> UUID:
    """The run that a one-time job comes to."""
    assert job.run_id is not None
    return job.run_id


class NamedClaimsContract(LineContract):
    """`attempts.claim` with `ClaimRequest.runs`."""

    async def named(self, store: Store, executor: int, runs: Sequence[UUID], **fields: Any) -> Sequence[Claimed]:
        """Claim these runs by name."""
        given: dict[str, Any] = {"queues": ("default",), "labels": (), "limit": 100, "ahead_seconds": 0.0}
        return await store.attempts.claim(ClaimRequest(**{**given, **fields, "executor": executor, "runs": runs}))

    async def named_ids(self, store: Store, executor: int, runs: Sequence[UUID], **fields: Any) -> list[UUID]:
        """The claimed runs by id."""
        return [claimed.run_id for claimed in await self.named(store, executor, runs, **fields)]

    async def test_a_claim_by_name_hands_over_all_that_is_needed_to_run(self, store: Store, make: Factory) -> None:
        """It gives what a claim that scans gives."""
        executor = await self.register(store)
        job = make.job(definition='{"task": {"kind":"shell"} , "n": 1}')
        await self.add(store, job)
        [claimed] = await self.named(store, executor, [name_of(job)])
        assert (claimed.run_id, claimed.job_id, claimed.namespace) == (job.run_id, job.job_id, "default")
        assert (claimed.attempt, claimed.failures, claimed.crashes, claimed.guarded) == (1, 0, 0, False)
        assert (claimed.spec, claimed.trigger) == (job.definition, 1)
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, row.executor, row.attempt) == (RunState.DISPATCHED, executor, 1)
        assert microseconds(row.dispatched_at) == microseconds(claimed.now)

    async def test_runs_come_in_the_order_in_which_they_are_named(self, store: Store, make: Factory) -> None:
        """The caller that names them knows which are urgent."""
        executor = await self.register(store)
        jobs = [make.job(lane=lane(priority)) for priority in (5, 0, 9, 5, 0, 9)]
        await self.add(store, *jobs)
        names = [name_of(job) for job in jobs[::-1]]
        assert await self.named_ids(store, executor, names) == names

    async def test_no_more_than_the_limit_are_taken_and_these_are_the_first(self, store: Store, make: Factory) -> None:
        """A name that is repeated counts once, one that is nobody's not at all."""
        executor = await self.register(store)
        jobs = [make.job() for _ in range(5)]
        await self.add(store, *jobs)
        names = [name_of(job) for job in jobs]
        asked = [make.identifier(), names[3], names[3], make.identifier(), names[1], names[3], names[0]]
        assert await self.named_ids(store, executor, asked, limit=2) == [names[3], names[1]]
        assert await self.named_ids(store, executor, names, limit=0) == []
        assert await self.named_ids(store, executor, []) == []
        assert await self.named_ids(store, executor, names) == [names[0], names[2], names[4]]

    async def test_what_is_claimed_is_claimed_by_nobody_else_by_its_name(self, store: Store, make: Factory) -> None:
        """Nor again by the same one; a claim that scans does not find it either."""
        one, two = await self.register(store, "one"), await self.register(store, "two")
        first, second = make.job(), make.job()
        await self.add(store, first, second)
        assert await self.named_ids(store, one, [name_of(first)]) == [first.run_id]
        assert await self.named_ids(store, one, [name_of(first)]) == []
        assert [claimed.run_id for claimed in await self.claim(store, two)] == [second.run_id]
        assert await self.named_ids(store, one, [name_of(first), name_of(second)]) == []

    async def test_many_who_are_told_the_same_names_share_the_runs(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """Eight at the same time, through two clients, half of them by scanning: each run goes to one."""
        jobs = [make.job() for _ in range(200)]
        await self.add(store, *jobs)
        names = [name_of(job) for job in jobs]
        executors = [await self.register(store, f"number {number}") for number in range(8)]

        async def take(client: Store, number: int) -> list[UUID]:
            mine: list[UUID] = []
            for start in range(0, len(names), 20):
                if number % 2:
                    mine += [claimed.run_id for claimed in await self.claim(client, executors[number], limit=20)]
                else:
                    mine += await self.named_ids(client, executors[number], names[start : start + 20])
            return mine

        shares = await asyncio.gather(*(take(client, number) for number, client in enumerate([store, other] * 4)))
        claims = Counter(run_id for share in shares for run_id in share)
        # Who met a row that another had in hand passed it over; what all passed over is there still.
        claims.update(await self.named_ids(store, executors[0], names, limit=200))
        assert claims == Counter(names)

    async def test_each_token_by_name_is_greater_than_every_one_before(self, store: Store, make: Factory) -> None:
        """One sequence of fences, however a run is claimed."""
        one, two = await self.register(store, "one"), await self.register(store, "two")
        job = make.job()
        first = await self.held(store, one, job)
        await self.finish(store, one, outcome(first, RunState.QUEUED))
        [second] = await self.named(store, two, [first.run_id], ahead_seconds=1.0)
        assert (first.token < second.token, second.attempt) == (True, 1)
        assert await self.starts(store, one, first) == [False]
        assert await self.starts(store, two, second) == [True]
        assert await self.finish(store, one, outcome(first)) == [first.run_id]
        assert await self.finish(store, two, outcome(second)) == []

    async def test_a_name_does_not_make_a_run_ready(self, store: Store, make: Factory) -> None:
        """By the store's clock, and as far ahead as the executor holds."""
        executor = await self.register(store)
        job = await self.made_ahead(store, make, 90.0)
        assert await self.named_ids(store, executor, [name_of(job)]) == []
        assert await self.named_ids(store, executor, [name_of(job)], ahead_seconds=30.0) == []
        [claimed] = await self.named(store, executor, [name_of(job)], ahead_seconds=90.0)
        assert microseconds(claimed.due) == microseconds(make.now + 90.0)
        assert claimed.now < claimed.due

    async def test_a_retry_is_claimed_by_its_name_when_its_time_has_come(self, store: Store, make: Factory) -> None:
        """Not before."""
        executor = await self.register(store, lease_seconds=600.0)
        first = await self.held(store, executor, make.job())
        await self.begin(store, executor, first)
        now = await store.now()
        await self.finish(store, executor, outcome(first, RunState.RETRYING, retry_at=now + 60.0))
        assert await self.named_ids(store, executor, [first.run_id]) == []
        await self.shift(store, 61.0)
        [second] = await self.named(store, executor, [first.run_id])
        assert (second.run_id, second.attempt, second.failures) == (first.run_id, 2, 1)

    async def test_a_name_opens_no_queue_that_the_executor_does_not_serve(self, store: Store, make: Factory) -> None:
        """Its queues and its labels decide, as with a scan."""
        executor = await self.register(store)
        heavy, gpu = make.job(lane=lane(queue="heavy")), make.job(lane=lane(requires=("gpu", "zone=eu")))
        await self.add(store, heavy, gpu)
        names = [name_of(heavy), name_of(gpu)]
        for labels in ((), ("gpu",), ("gpu", "zone=us")):
            assert await self.named_ids(store, executor, names, labels=labels) == [], labels
        assert await self.named_ids(store, executor, names, queues=()) == []
        assert await self.named_ids(store, executor, names, queues=("heavy",)) == [heavy.run_id]
        assert await self.named_ids(store, executor, names, labels=("ssd", "zone=eu", "gpu")) == [gpu.run_id]

    async def test_a_name_opens_no_queue_that_is_on_hold(self, store: Store, make: Factory) -> None:
        """Once it goes on, the name is as good as before."""
        executor = await self.register(store)
        job = make.job()
        await self.add(store, job)
        await store.queues.hold(make.hold())
        assert await self.named_ids(store, executor, [name_of(job)]) == []
        await store.queues.resume("default", "default")
        assert await self.named_ids(store, executor, [name_of(job)]) == [job.run_id]

    async def test_a_run_that_waits_for_another_one_is_not_claimed_by_its_name(
        self, store: Store, make: Factory
    ) -> None:
        """Once that has ended, it is."""
        await self.job_with(store, make, Overlap.QUEUE_ALL, Overlap.QUEUE_ALL)
        one, two = await self.register(store, "one"), await self.register(store, "two")
        first, second = await self.claims(store, one, two)
        await self.begin(store, one, first)
        assert await self.starts(store, two, second) == [False]
        assert await self.waits(store, second.run_id)
        assert await self.named_ids(store, two, [second.run_id], ahead_seconds=60.0) == []
        await self.finish(store, one, outcome(first))
        assert await self.goes_on(store, second.run_id)
        assert await self.named_ids(store, two, [second.run_id], ahead_seconds=60.0) == [second.run_id]

    async def test_only_an_executor_whose_lease_stands_claims_by_name(self, store: Store, make: Factory) -> None:
        """Not one that ran out, left, was expired or never registered."""
        late, left, expired = [await self.register(store, name) for name in ("late", "left", "expired")]
        await store.executors.leave(left)
        await self.shift(store, LEASE_SECONDS + 1.0)
        await store.executors.beat(late, LEASE_SECONDS)
        await store.executors.expire(crashes_max=3)
        await self.shift(store, LEASE_SECONDS + 1.0)
        job = make.job()
        await self.add(store, job)
        for executor in (late, left, expired, 999_999):
            assert await self.named_ids(store, executor, [name_of(job)]) == []
        await store.executors.beat(late, LEASE_SECONDS)
        assert await self.named_ids(store, late, [name_of(job)]) == [job.run_id]

    async def test_what_ended_is_never_claimed_again_by_its_name(self, store: Store, make: Factory) -> None:
        """A hint that is late is harmless."""
        executor = await self.register(store)
        jobs = [make.job() for _ in range(4)]
        await self.add(store, *jobs)
        claims = await self.named(store, executor, [name_of(job) for job in jobs])
        ends = (RunState.SUCCESS, RunState.FAILED, RunState.CANCELLED, RunState.SKIPPED)
        for claimed, state in zip(claims, ends, strict=True):
            assert await self.finish(store, executor, *outcomes([claimed], state)) == []
        assert await self.named_ids(store, executor, [name_of(job) for job in jobs]) == []

    async def test_a_run_with_its_own_definition_is_run_by_it_when_it_is_named(
        self, store: Store, make: Factory
    ) -> None:
        """And a definition too large for a copy comes from the job."""
        executor = await self.register(store)
        job = make.recurring(make.now + 3600.0, definition='{"of": "%s"}' % ("job" * 5_000))
        await self.add(store, job)
        own, plain = make.run(job.job_id, definition='{"of":  "run"}'), make.run(job.job_id)
        await store.runs.add("default", job.job_id, [own, plain])
        specs = [claimed.spec for claimed in await self.named(store, executor, [own.run_id, plain.run_id])]
        assert specs == ['{"of":  "run"}', job.definition]

    async def test_what_a_claim_by_name_leaves_is_found_by_one_that_scans(self, store: Store, make: Factory) -> None:
        """A name that is lost costs time; and what scans have learnt is as true as before."""
        executor = await self.register(store)
        jobs = [make.job() for _ in range(6)]
        await self.add(store, *jobs)
        assert len(await self.claim(store, executor, limit=2)) == 2
        rest = {name_of(job) for job in jobs}
        for job in jobs:
            if len(await self.named(store, executor, [name_of(job)])) == 1:
                rest.discard(name_of(job))
                break
        found = {claimed.run_id for claimed in await self.claim(store, executor)}
        assert (len(found), found <= rest) == (3, True)
