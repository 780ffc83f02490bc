"""The quota of runs at once of a namespace: kept at the start, and no slot stays empty while a run waits for one."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import UUID

import pytest

from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed
from tickwise.domain.quotas import Quotas
from tickwise.domain.rules.limits import QUOTA_KEY
from tickwise.ports.identity.namespaces import NewNamespace
from tickwise.ports.store import Check, Gate, RunRow, Store
from tickwise.testing.contracts.base import LEASE_SECONDS, began, lane
from tickwise.testing.contracts.store.dispatch.limits import ENDS, HOUR, CrowdContract, limit
from tickwise.testing.factories import Factory, outcome

TEAM = "team-r"


class RunQuotasContract(CrowdContract):
    """`Quotas.concurrent_runs`."""

    async def allow(self, store: Store, most: int | None) -> None:
        """Let so many runs of the team go on at once; None: any number."""
        await store.namespaces.add(NewNamespace(name=TEAM, display_name=TEAM, created_by="ada"))
        row = await store.namespaces.get(TEAM)
        assert row is not None
        await store.namespaces.change(replace(row, quotas=Quotas(concurrent_runs=most)))

    async def run_row(self, store: Store, run_id: UUID, namespace: str = TEAM) -> RunRow:
        """A run of the team that must be there."""
        return await super().run_row(store, run_id, namespace)

    async def team(self, store: Store, make: Factory, count: int) -> tuple[int, list[Claimed]]:
        """An executor that holds so many runs of the team, a second apart, the earliest first."""
        return await self.crowd(store, make, count, namespace=TEAM)

    async def waiting(self, store: Store, *claims: Claimed) -> list[bool]:
        """Those that wait, after the sweep that may have to wake them."""
        await store.runs.unblock()
        return [await self.waits(store, claimed.run_id) for claimed in claims]

    async def claimed_again(self, store: Store, executor: int) -> list[UUID]:
        """The runs that were woken."""
        return [claimed.run_id for claimed in await self.claim_freed(store, executor)]

    async def test_as_many_start_as_the_quota_says(self, store: Store, make: Factory) -> None:
        """Of all jobs of the namespace together, none of which has a limit. The start of each is recorded first."""
        await self.allow(store, 3)
        executor, claims = await self.team(store, make, 5)
        assert all(claimed.guarded for claimed in claims)
        assert await self.starts_in_turn(store, executor, *claims[:4]) == [True, True, True, False]
        assert await self.starts(store, executor, claims[4]) == [False]
        row = await self.run_row(store, claims[3].run_id)
        assert (row.state, row.blocked, row.limit_key, row.attempt) == (RunState.QUEUED, True, QUOTA_KEY, 0)
        assert (await store.quotas.use(TEAM)).concurrent_runs == 3

    async def test_starts_of_one_call_are_counted_too(self, store: Store, make: Factory) -> None:
        """The longest ready go on."""
        await self.allow(store, 2)
        executor, claims = await self.team(store, make, 4)
        await store.attempts.start(executor, [began(claimed) for claimed in reversed(claims)])
        assert await self.waiting(store, *claims) == [False, False, True, True]

    async def test_other_namespaces_start_as_ever(self, store: Store, make: Factory) -> None:
        """Their runs are not guarded, and nothing counts them."""
        await self.allow(store, 0)
        executor, claims = await self.crowd(store, make, 3)
        assert not any(claimed.guarded for claimed in claims)
        assert await self.starts(store, executor, *claims) == [True] * 3
        assert (await store.quotas.use("default")).concurrent_runs is None
        assert (await self.run_row(store, claims[0].run_id, "default")).limit_key is None

    async def test_what_waits_is_claimed_by_nobody(self, store: Store, make: Factory) -> None:
        """However often the sweep looks; and a repeat of a start that went on is recorded."""
        await self.allow(store, 1)
        executor, [first, second] = await self.team(store, make, 2)
        assert await self.starts_in_turn(store, executor, first, second) == [True, False]
        for _ in range(3):
            assert await store.runs.unblock() == 0
            assert await self.claimed_again(store, executor) == []
        assert await self.starts(store, executor, first) == [True]

    @pytest.mark.parametrize("end", ENDS)
    async def test_the_next_goes_on_when_one_runs_no_longer(self, store: Store, make: Factory, end: RunState) -> None:
        """After any outcome of the first, without a sweep."""
        await self.allow(store, 1)
        executor, [first, second, third] = await self.team(store, make, 3)
        await self.starts_in_turn(store, executor, first, second, third)
        assert await self.finish(store, executor, outcome(first, end, retry_at=first.now + HOUR)) == []
        assert [await self.waits(store, each.run_id) for each in (second, third)] == [False, True]
        [again] = await self.claim_freed(store, executor)
        assert (again.run_id, again.attempt, again.guarded) == (second.run_id, 1, True)
        assert await self.starts(store, executor, again) == [True]

    async def test_an_urgent_run_goes_on_first(self, store: Store, make: Factory) -> None:
        """Of runs that wait for the quota: by priority, then the longest ready."""
        await self.allow(store, 1)
        executor = await self.register(store, lease_seconds=100 * HOUR)
        jobs = [
            make.job(make.now - 10 + number, namespace=TEAM, lane=lane(priority))
            for number, priority in enumerate((5, 5, 9, 9))
        ]
        await self.add(store, *jobs)
        claims = sorted(await self.claim(store, executor), key=lambda claimed: claimed.due)
        await self.starts_in_turn(store, executor, *claims)
        assert await self.finish(store, executor, outcome(claims[0])) == []
        assert await self.claimed_again(store, executor) == [claims[2].run_id]

    async def test_a_run_under_a_limit_of_its_own_counts(self, store: Store, make: Factory) -> None:
        """It has a slot of both; and its end lets a run of another job go on."""
        await self.allow(store, 2)
        executor, [first, second, third] = await self.team(store, make, 3)
        gate = limit(1)
        assert await self.starts_in_turn(store, executor, first, gate=gate) == [True]
        assert (await self.run_row(store, first.run_id)).limit_key == gate.limit_key
        assert await self.starts_in_turn(store, executor, second, third) == [True, False]
        assert await self.finish(store, executor, outcome(first)) == []
        assert await self.waits(store, third.run_id) is False

    async def test_a_run_waits_for_its_own_limit_first(self, store: Store, make: Factory) -> None:
        """Then for the quota. A run that was woken for the quota and has no slot of its own leaves it to the next."""
        await self.allow(store, 2)
        executor, [one, two, three, four] = await self.team(store, make, 4)
        assert await self.starts_in_turn(store, executor, one, gate=limit(1)) == [True]
        assert await self.starts_in_turn(store, executor, two) == [True]
        assert await self.starts(store, executor, three, gate=limit(2)) == [False]
        assert await self.starts(store, executor, four) == [False]
        assert [(await self.run_row(store, each.run_id)).limit_key for each in (three, four)] == [QUOTA_KEY] * 2
        assert await self.finish(store, executor, outcome(two)) == []
        [again] = await self.claim_freed(store, executor)
        assert again.run_id == three.run_id
        assert await self.starts(store, executor, again, gate=limit(1)) == [False]
        assert (await self.run_row(store, three.run_id)).limit_key == limit(1).limit_key
        assert await self.waits(store, four.run_id) is False

    async def test_a_rate_comes_after_the_quota(self, store: Store, make: Factory) -> None:
        """A run that waits for the quota takes no slot of a rate."""
        await self.allow(store, 1)
        rate = Gate(rate_key="job:r", rate_gap_seconds=HOUR)
        executor, [first, second] = await self.team(store, make, 2)
        assert await self.starts_in_turn(store, executor, first, second, gate=rate) == [True, False]
        row = await self.run_row(store, second.run_id)
        assert (row.limit_key, row.paced) == (QUOTA_KEY, False)
        assert (await self.run_row(store, first.run_id)).limit_key == QUOTA_KEY

    async def test_what_a_lost_executor_ran_counts_until_it_is_freed(self, store: Store, make: Factory) -> None:
        """It may run still."""
        await self.allow(store, 1)
        lost = await self.register(store, "lost")
        first = await self.held(store, lost, make.job(namespace=TEAM))
        await self.begin(store, lost, first)
        await self.shift(store, LEASE_SECONDS + 1.0)
        executor = await self.register(store, "two")
        second = await self.held(store, executor, make.job(make.now + LEASE_SECONDS, namespace=TEAM))
        assert await self.starts(store, executor, second) == [False]
        assert list((await store.executors.expire(crashes_max=3)).executors) == [lost]
        assert await self.goes_on(store, second.run_id)

    async def test_a_higher_quota_lets_more_go_on_and_none_lets_all(self, store: Store, make: Factory) -> None:
        """By the next sweep; a lower one stops nothing that has begun."""
        await self.allow(store, 1)
        executor, claims = await self.team(store, make, 6)
        await self.starts_in_turn(store, executor, *claims)
        await self.allow(store, 3)
        assert await self.waiting(store, *claims) == [False, False, False, True, True, True]
        again = await self.claim_freed(store, executor)
        assert await self.starts_in_turn(store, executor, *again) == [True, True]
        await self.allow(store, 2)
        assert await self.finish(store, executor, outcome(claims[0])) == []
        assert await self.waiting(store, *claims[3:]) == [True] * 3
        await self.allow(store, None)
        assert await self.waiting(store, *claims[3:]) == [False] * 3
        again = await self.claim_freed(store, executor)
        assert await self.starts(store, executor, *again) == [True] * 3

    async def test_a_run_that_was_claimed_before_the_quota_goes_on(self, store: Store, make: Factory) -> None:
        """Its task is under way when its start is told, and it does not count."""
        await store.namespaces.add(NewNamespace(name=TEAM, display_name=TEAM, created_by="ada"))
        executor, [first] = await self.team(store, make, 1)
        await self.allow(store, 0)
        assert (first.guarded, await self.starts(store, executor, first)) == (False, [True])
        assert await self.finish(store, executor, outcome(first)) == []

    async def test_two_processes_together_do_not_pass_the_quota(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """Executors of two start at the same time; all runs have their turn in the end."""
        await self.allow(store, 3)
        executors = [(each, await self.register(each, lease_seconds=100 * HOUR)) for each in (store, other)]
        await self.add(store, *(make.job(make.now - 20 + number, namespace=TEAM) for number in range(12)))
        ended = 0
        for _ in range(30):
            held = [(each, executor, await self.claim(each, executor, limit=6)) for each, executor in executors]
            await asyncio.gather(
                *(
                    each.attempts.start(executor, [began(claimed)])
                    for each, executor, claims in held
                    for claimed in claims
                )
            )
            going = [
                (each, executor, claimed)
                for each, executor, claims in held
                for claimed in claims
                if (await self.run_row(store, claimed.run_id)).state is RunState.RUNNING
            ]
            assert len(going) <= 3
            for each, executor, claimed in going:
                assert list(await each.attempts.finish(executor, [outcome(claimed)])) == []
            ended += len(going)
            await store.runs.unblock()
        assert ended == 12

    async def test_a_run_that_waits_for_the_quota_waits_for_something(self, store: Store, make: Factory) -> None:
        """Only while it is used up."""
        await self.allow(store, 1)
        executor, [first, second] = await self.team(store, make, 2)
        await self.starts_in_turn(store, executor, first, second)
        found = await store.checks.violations(Check.WAITS_FOR_SOMETHING, after=None, limit=100)
        assert list(found.found) == []
        await self.allow(store, 2)
        found = await store.checks.violations(Check.WAITS_FOR_SOMETHING, after=None, limit=100)
        assert [each.subject for each in found.found] == [second.run_id]
