"""Claims: each run goes to one executor, from the right lanes, in the right order, and no lane starves."""

from __future__ import annotations

import asyncio
from collections import Counter

from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed
from tickwise.ports.store import Store
from tickwise.testing.contracts.base import LEASE_SECONDS, StoreContract, lane, microseconds
from tickwise.testing.factories import Factory, outcome, outcomes

TENTH = 10


class ClaimsContract(StoreContract):
    """`attempts.claim`."""

    async def test_a_claim_hands_over_all_that_is_needed_to_run(self, store: Store, make: Factory) -> None:
        """The executor asks nothing more before it begins."""
        executor = await self.register(store)
        job = make.job(definition='{"task": {"kind":"shell"} , "n": 1}')
        claimed = await self.held(store, executor, job)
        now = await store.now()
        assert (claimed.run_id, claimed.job_id, claimed.namespace) == (job.run_id, job.job_id, "default")
        assert (claimed.attempt, claimed.failures, claimed.crashes, claimed.guarded) == (1, 0, 0, False)
        assert (claimed.spec, claimed.trigger) == (job.definition, 1)
        assert claimed.due == claimed.ready <= claimed.now <= now + 0.001
        assert abs(now - claimed.now) < 60.0

    async def test_a_claimed_run_is_dispatched_to_its_executor(self, store: Store, make: Factory) -> None:
        """Everybody can see who holds it since when."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, row.executor, row.attempt) == (RunState.DISPATCHED, executor, 1)
        assert microseconds(row.dispatched_at) == microseconds(claimed.now)
        assert row.started_at is None

    async def test_what_is_claimed_is_claimed_by_nobody_else(self, store: Store, make: Factory) -> None:
        """Nor again by the same one."""
        one, two = await self.register(store, "one"), await self.register(store, "two")
        await self.held(store, one, make.job())
        assert list(await self.claim(store, two)) == []
        assert list(await self.claim(store, one)) == []

    async def test_many_claimers_share_the_runs_and_each_run_goes_to_one(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """Eight at the same time, through two clients."""
        jobs = [make.job() for _ in range(200)]
        await self.add(store, *jobs)
        executors = [await self.register(store, f"number {number}") for number in range(8)]

        async def drain(client: Store, executor: int) -> list[Claimed]:
            mine: list[Claimed] = []
            while len(mine) < len(jobs) and (batch := await self.claim(client, executor, limit=7)):
                mine += batch
            return mine

        shares = await asyncio.gather(
            *(drain(client, executor) for client, executor in zip([store, other] * 4, executors, strict=True))
        )
        claims = Counter(claimed.run_id for share in shares for claimed in share)
        # Those that met only locked rows may have gone home early; what they left is there for the next one.
        left = await drain(store, await self.register(store, "late"))
        claims.update(claimed.run_id for claimed in left)
        assert claims == Counter(job.run_id for job in jobs)

    async def test_each_token_is_greater_than_every_one_before(self, store: Store, make: Factory) -> None:
        """Across all executors and runs."""
        one, two = await self.register(store, "one"), await self.register(store, "two")
        first = await self.held(store, one, make.job())
        second = await self.held(store, two, make.job())
        await self.finish(store, one, outcome(first, RunState.QUEUED))
        [third] = await self.claim_freed(store, two)
        assert first.token < second.token < third.token
        assert (third.run_id, third.job_id) == (first.run_id, first.job_id)

    async def test_a_claim_takes_no_more_than_its_limit(self, store: Store, make: Factory) -> None:
        """The rest is left for others."""
        executor = await self.register(store)
        await self.add(store, *(make.job() for _ in range(5)))
        assert len(await self.claim(store, executor, limit=3)) == 3
        assert len(await self.claim(store, executor, limit=3)) == 2

    async def test_a_limit_of_nothing_takes_nothing(self, store: Store, make: Factory) -> None:
        """An executor without a free slot."""
        executor = await self.register(store)
        await self.add(store, make.job())
        assert list(await self.claim(store, executor, limit=0)) == []

    async def test_a_run_is_not_claimed_before_its_time(self, store: Store, make: Factory) -> None:
        """By the store's clock; no caller's clock decides."""
        executor = await self.register(store, lease_seconds=600.0)
        await self.made_ahead(store, make, 90.0)
        assert list(await self.claim(store, executor)) == []
        await self.shift(store, 91.0)
        assert len(await self.claim(store, executor)) == 1

    async def test_an_executor_may_claim_ahead_and_hold(self, store: Store, make: Factory) -> None:
        """So that lateness is the accuracy of its timer."""
        executor = await self.register(store)
        await self.made_ahead(store, make, 90.0)
        assert list(await self.claim(store, executor, ahead_seconds=30.0)) == []
        [claimed] = await self.claim(store, executor, ahead_seconds=90.0)
        assert microseconds(claimed.due) == microseconds(make.now + 90.0)
        assert claimed.now < claimed.due

    async def test_higher_priority_goes_first(self, store: Store, make: Factory) -> None:
        """9 before 5 before 0, though the lower waits longer."""
        executor = await self.register(store)
        for priority, ahead in ((0, 0.0), (5, 0.1), (9, 0.2)):
            await self.add(store, make.job(make.now + ahead, lane=lane(priority), name=str(priority)))
        await self.shift(store, 1.0)
        got = [await self.claim(store, executor, limit=1) for _ in range(3)]
        names = [(await self.job_row(store, claimed.job_id)).name for [claimed] in got]
        # The claim that begins with the longest-waiting run may be any of the three, and then it is "0" early.
        assert names in (["9", "5", "0"], ["0", "9", "5"], ["9", "0", "5"])

    async def test_within_a_lane_the_earliest_ready_goes_first(self, store: Store, make: Factory) -> None:
        """Not the earliest stored."""
        executor = await self.register(store)
        offsets = [0.7, 0.2, 0.9, 0.4]
        await self.add(store, *(make.job(make.now + offset) for offset in offsets))
        await self.shift(store, 1.0)
        dues = [claimed.due for _ in offsets for claimed in await self.claim(store, executor, limit=1)]
        assert [microseconds(due) for due in dues] == [microseconds(make.now + offset) for offset in sorted(offsets)]

    async def test_lanes_of_one_priority_go_by_their_longest_waiting_run(self, store: Store, make: Factory) -> None:
        """Neither queue of an executor is the favourite."""
        executor = await self.register(store)
        for queue, offset in (("beta", 0.1), ("alpha", 0.3), ("gamma", 0.2)):
            await self.add(store, make.job(make.now + offset, lane=lane(queue=queue), name=queue))
        await self.shift(store, 1.0)
        queues = ("alpha", "beta", "gamma")
        got = [await self.claim(store, executor, queues=queues, limit=1) for _ in queues]
        names = [(await self.job_row(store, claimed.job_id)).name for [claimed] in got]
        assert names == ["beta", "gamma", "alpha"]

    async def test_nobody_is_passed_over_for_ever(self, store: Store, make: Factory) -> None:
        """At least every tenth claim begins with the run that has waited longest, whatever its priority."""
        executor = await self.register(store)
        patient = make.job(lane=lane(0))
        await self.add(store, patient)
        await self.shift(store, 0.5)
        claimed_jobs = []
        for _ in range(TENTH):
            await self.add(store, make.job(lane=lane(9)), make.job(lane=lane(9)))
            claimed_jobs += [claimed.job_id for claimed in await self.claim(store, executor, limit=1)]
        assert patient.job_id in claimed_jobs
        assert claimed_jobs.count(patient.job_id) == 1

    async def test_the_exception_for_the_patient_stays_an_exception(self, store: Store, make: Factory) -> None:
        """Of ten claims with both waiting, the higher priority gets most."""
        executor = await self.register(store)
        low = [make.job(lane=lane(0)) for _ in range(20)]
        await self.add(store, *low)
        await self.shift(store, 0.5)
        await self.add(store, *(make.job(lane=lane(9)) for _ in range(20)))
        got = [claimed for _ in range(TENTH) for claimed in await self.claim(store, executor, limit=1)]
        patient = [claimed for claimed in got if claimed.job_id in {job.job_id for job in low}]
        assert len(got) == TENTH
        assert 1 <= len(patient) <= 3

    async def test_an_executor_gets_runs_of_its_queues_only(self, store: Store, make: Factory) -> None:
        """Of one, of several, of none that it does not name."""
        executor = await self.register(store)
        heavy, light = make.job(lane=lane(queue="heavy")), make.job(lane=lane(queue="light"))
        await self.add(store, heavy, light)
        assert list(await self.claim(store, executor)) == []
        assert list(await self.claim(store, executor, queues=())) == []
        [claimed] = await self.claim(store, executor, queues=("default", "heavy"))
        assert claimed.job_id == heavy.job_id
        [claimed] = await self.claim(store, executor, queues=("light", "heavy"))
        assert claimed.job_id == light.job_id

    async def test_an_executor_gets_only_what_its_labels_satisfy(self, store: Store, make: Factory) -> None:
        """Every required label, exactly as it is written; more labels than required do no harm."""
        executor = await self.register(store)
        job = make.job(lane=lane(requires=("gpu", "zone=eu")))
        await self.add(store, job)
        for labels in ((), ("gpu",), ("zone=eu",), ("gpu", "zone=us"), ("gpu=a100", "zone=eu"), ("gpu", "zone")):
            assert list(await self.claim(store, executor, labels=labels)) == [], labels
        [claimed] = await self.claim(store, executor, labels=("zone=eu", "ssd", "gpu"))
        assert claimed.job_id == job.job_id

    async def test_what_requires_nothing_goes_to_anyone(self, store: Store, make: Factory) -> None:
        """Labels are needs, not fences."""
        executor = await self.register(store)
        await self.add(store, make.job())
        assert len(await self.claim(store, executor, labels=("gpu", "ssd"))) == 1

    async def test_one_executor_may_claim_with_several_sets_of_labels(self, store: Store, make: Factory) -> None:
        """Runs for which it has no room stay claimable for others."""
        executor = await self.register(store)
        shell, http = make.job(lane=lane(requires=("task:shell",))), make.job(lane=lane(requires=("task:http",)))
        await self.add(store, shell, http)
        [first] = await self.claim(store, executor, labels=("task:http",))
        [second] = await self.claim(store, executor, labels=("task:shell",))
        assert (first.job_id, second.job_id) == (http.job_id, shell.job_id)

    async def test_an_executor_whose_lease_ran_out_gets_nothing(self, store: Store, make: Factory) -> None:
        """Not yet expired, and not alive either; the next heartbeat puts it right."""
        executor = await self.register(store)
        await self.shift(store, LEASE_SECONDS + 1.0)
        await self.add(store, make.job())
        assert list(await self.claim(store, executor)) == []
        assert (await store.executors.beat(executor, LEASE_SECONDS)).alive
        assert len(await self.claim(store, executor)) == 1

    async def test_an_expired_executor_gets_nothing(self, store: Store, make: Factory) -> None:
        """Not even after a heartbeat."""
        executor = await self.register(store)
        await self.expire(store, executor)
        await self.add(store, make.job())
        await store.executors.beat(executor, LEASE_SECONDS)
        assert list(await self.claim(store, executor)) == []

    async def test_an_executor_that_left_gets_nothing(self, store: Store, make: Factory) -> None:
        """It said so itself."""
        executor = await self.register(store)
        await store.executors.leave(executor)
        await self.add(store, make.job())
        assert list(await self.claim(store, executor)) == []

    async def test_an_executor_that_was_never_registered_gets_nothing(self, store: Store, make: Factory) -> None:
        """Numbers are given by the store alone."""
        await self.add(store, make.job())
        assert list(await self.claim(store, 999_999)) == []

    async def test_a_run_with_its_own_definition_is_run_by_it(self, store: Store, make: Factory) -> None:
        """A payload override of one run-now."""
        executor = await self.register(store)
        job = make.recurring(make.now + 3600.0, definition='{"of": "job"}')
        await self.add(store, job)
        own = make.run(job.job_id, definition='{"of":  "run"}')
        plain = make.run(job.job_id)
        assert await store.runs.add("default", job.job_id, [own]) is True
        assert await store.runs.add("default", job.job_id, [plain]) is True
        specs = {claimed.run_id: claimed.spec for claimed in await self.claim_freed(store, executor)}
        assert specs == {own.run_id: '{"of":  "run"}', plain.run_id: '{"of": "job"}'}
        assert (await self.run_row(store, own.run_id)).definition == '{"of":  "run"}'
        assert (await self.run_row(store, plain.run_id)).definition is None

    async def test_what_ended_is_never_claimed_again(self, store: Store, make: Factory) -> None:
        """Neither well nor badly."""
        executor = await self.register(store)
        await self.add(store, *(make.job() for _ in range(4)))
        claims = list(await self.claim(store, executor))
        ends = (RunState.SUCCESS, RunState.FAILED, RunState.CANCELLED, RunState.SKIPPED)
        for claimed, state in zip(claims, ends, strict=True):
            assert await self.finish(store, executor, *outcomes([claimed], state)) == []
        assert list(await self.claim_freed(store, executor)) == []
