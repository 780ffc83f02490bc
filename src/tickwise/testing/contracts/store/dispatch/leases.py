"""Executors live by their heartbeat, leave in order or are expired; what they held goes on without them."""

from __future__ import annotations

import asyncio

import pytest

from tickwise.domain.errors import Conflict
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import executor_number
from tickwise.domain.rules.capacities import MEMORY, Capacity
from tickwise.domain.rules.sentences import REVOKED
from tickwise.ports.store import Began, Expired, Store
from tickwise.testing.contracts.base import LEASE_SECONDS, StoreContract, microseconds
from tickwise.testing.factories import Factory, outcome

CRASHES_MAX = 3


class LeasesContract(StoreContract):
    """`ExecutorStore` of the port; the fence above all."""

    async def test_an_executor_has_the_number_that_it_drew(self, store: Store, other: Store) -> None:
        """Up to 63 bits, in any order, also several of one name: the clocks of two machines differ."""
        drawn = [executor_number(1_790_000_000_000, b"\x0f\xff"), 7, (1 << 63) - 1, 8]
        clients = [store, other, store, other]
        for client, number in zip(clients, drawn, strict=True):
            assert number == await self.register(client, "same", number=number)
        assert {row.executor for row in await store.executors.all()} == set(drawn)
        for number in drawn:
            assert (await other.executors.beat(number, LEASE_SECONDS)).alive

    async def test_a_number_that_is_taken_is_refused(self, store: Store, other: Store) -> None:
        """By any client, also after its executor left; the executor that has it stays as it is."""
        number = await self.register(store, "first")
        with pytest.raises(Conflict, match=str(number)):
            await self.register(other, "second", number=number)
        assert [(row.executor, row.name) for row in await store.executors.all()] == [(number, "first")]
        await store.executors.leave(number)
        with pytest.raises(Conflict, match=str(number)):
            await self.register(other, "third", number=number)
        assert not (await store.executors.beat(number, LEASE_SECONDS)).alive

    async def test_the_newest_by_the_clock_of_the_store_is_listed_first(self, store: Store) -> None:
        """Also if the machine of the older one has a clock that runs ahead, so that its number is higher."""
        older = await self.register(store, "older", number=1 << 52)
        await self.shift(store, 1.0)
        newer = await self.register(store, "newer", number=1 << 51)
        now = await store.now()
        for between in (None, (now - 60.0, now + 60.0)):
            assert [row.executor for row in await store.executors.all(between)] == [newer, older]

    async def test_an_executor_says_what_it_counts_and_what_is_taken_of_it(self, store: Store, other: Store) -> None:
        """On joining, and with each heartbeat that says so; one of the release before says nothing. Memory has more
        bytes than 32 bits hold."""
        joined = {"gpu": Capacity(2, 0), MEMORY: Capacity(1 << 40, 0)}
        number = await self.register(store, "counts", capacities=joined)
        plain = await self.register(store, "plain")

        async def said(client: Store) -> dict[int, dict[str, Capacity]]:
            now = await client.now()
            for between in (None, (now - 60.0, now + 60.0)):
                found = {row.executor: dict(row.capacities) for row in await client.executors.all(between)}
            return found

        assert await said(other) == {number: joined, plain: {}}
        await store.executors.beat(number, LEASE_SECONDS)
        assert (await said(store))[number] == joined
        taken = {"gpu": Capacity(2, 1), MEMORY: Capacity(1 << 41, 1 << 40), "license": Capacity(1, 1)}
        await store.executors.beat(number, LEASE_SECONDS, capacities=taken)
        assert await said(other) == {number: taken, plain: {}}
        await store.executors.beat(number, LEASE_SECONDS, capacities={})
        assert (await said(other))[number] == {}

    async def test_the_active_are_listed_with_what_they_said_of_themselves(self, store: Store, make: Factory) -> None:
        """Newest first, with what they hold and until when."""
        one = await self.register(store, "one")
        two = await self.register(
            store, "two", queues=("heavy", "default"), labels=("gpu",), functions=("send",), slots=4, lease_seconds=30.0
        )
        await self.held(store, one, make.job())
        first, second = await store.executors.all()
        assert (first.executor, second.executor) == (two, one)
        assert (first.name, list(first.queues), list(first.labels)) == ("two", ["heavy", "default"], ["gpu"])
        assert (list(first.functions), first.slots, first.gone_at) == (["send"], 4, None)
        assert (first.held, second.held) == (0, 1)
        assert abs(first.lease_until - first.registered_at - 30.0) < 0.1
        assert abs(first.registered_at - make.now) < 60.0
        assert (await store.upkeep.stats()).executors == 2

    async def test_the_gone_are_listed_for_an_hour(self, store: Store) -> None:
        """Those that left and those that were expired."""
        left, dead = await self.register(store, "left"), await self.register(store, "dead")
        await store.executors.leave(left)
        await self.expire(store, dead)
        rows = {row.executor: row for row in await store.executors.all()}
        assert set(rows) == {left, dead}
        assert all(row.gone_at is not None for row in rows.values())
        assert (await store.upkeep.stats()).executors == 0
        await self.shift(store, 3601.0)
        assert list(await store.executors.all()) == []

    async def test_a_heartbeat_keeps_the_lease(self, store: Store, make: Factory) -> None:
        """With any number of held runs, for as long as heartbeats come."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        for _ in range(4):
            await self.shift(store, LEASE_SECONDS - 1.0)
            beat = await store.executors.beat(executor, LEASE_SECONDS)
            assert (beat.alive, list(beat.cancels)) == (True, [])
            assert abs(beat.now - await store.now()) < 60.0
            assert list((await store.executors.expire(CRASHES_MAX)).executors) == []
        assert await self.finish(store, executor, outcome(claimed)) == []

    async def test_a_heartbeat_may_tell_what_functions_are_offered_now(self, store: Store) -> None:
        """And says nothing of them if it says nothing."""
        executor = await self.register(store, functions=("send",))
        await store.executors.beat(executor, LEASE_SECONDS)
        [row] = await store.executors.all()
        assert list(row.functions) == ["send"]
        await store.executors.beat(executor, LEASE_SECONDS, ["send", "fetch"])
        [row] = await store.executors.all()
        assert list(row.functions) == ["send", "fetch"]

    async def test_a_late_heartbeat_that_comes_before_the_expiry_is_in_time(self, store: Store, make: Factory) -> None:
        """Nobody took anything from it yet."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await self.shift(store, LEASE_SECONDS + 5.0)
        assert (await store.executors.beat(executor, LEASE_SECONDS)).alive
        expired = await store.executors.expire(CRASHES_MAX)
        assert (list(expired.executors), expired.freed) == ([], 0)
        assert await self.finish(store, executor, outcome(claimed)) == []

    async def test_a_late_finish_that_comes_before_the_expiry_is_accepted(self, store: Store, make: Factory) -> None:
        """It still matches what the store holds."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await self.shift(store, LEASE_SECONDS + 5.0)
        assert await self.finish(store, executor, outcome(claimed)) == []

    async def test_an_expired_executor_stays_expired(self, store: Store) -> None:
        """It must stop all its tasks, report nothing and register again."""
        executor = await self.register(store)
        await self.expire(store, executor)
        for _ in range(2):
            assert not (await store.executors.beat(executor, LEASE_SECONDS)).alive
        assert list((await store.executors.expire(CRASHES_MAX)).executors) == []
        [row] = await store.executors.all()
        assert row.gone_at is not None

    async def test_an_executor_that_was_never_registered_is_not_active(self, store: Store) -> None:
        """Nor does a heartbeat make it."""
        assert not (await store.executors.beat(999_999, LEASE_SECONDS)).alive
        assert list(await store.executors.all()) == []

    async def test_a_lease_that_still_runs_is_left_alone(self, store: Store, make: Factory) -> None:
        """However often somebody looks."""
        executor = await self.register(store, lease_seconds=10 * LEASE_SECONDS)
        claimed = await self.held(store, executor, make.job())
        await self.shift(store, 5 * LEASE_SECONDS)
        expired = await store.executors.expire(CRASHES_MAX)
        assert (list(expired.executors), expired.freed, list(expired.quarantined)) == ([], 0, [])
        assert await self.run_state(store, claimed.run_id) is RunState.DISPATCHED

    async def test_what_a_dead_executor_merely_held_goes_back_free(self, store: Store, make: Factory) -> None:
        """No crash is counted; from then on its start is recorded first; the attempt number is used up."""
        dead = await self.register(store, "dead")
        first = await self.held(store, dead, make.job())
        await self.shift(store, LEASE_SECONDS + 1.0)
        expired = await store.executors.expire(CRASHES_MAX)
        assert (list(expired.executors), expired.freed, list(expired.quarantined)) == ([dead], 1, [])
        row = await self.run_row(store, first.run_id)
        assert (row.state, row.executor, row.crashes) == (RunState.QUEUED, None, 0)
        [second] = await self.claim_freed(store, await self.register(store, "next"))
        assert (second.run_id, second.attempt) == (first.run_id, 2)
        assert (second.crashes, second.failures, second.guarded) == (0, 0, True)
        assert microseconds(second.due) == microseconds(first.due)

    async def test_a_recorded_start_that_is_lost_counts_a_crash(self, store: Store, make: Factory) -> None:
        """And the lost attempt stays on record."""
        dead = await self.register(store, "dead")
        first = await self.held(store, dead, make.job())
        await self.begin(store, dead, first)
        await self.expire(store, dead)
        [second] = await self.claim_freed(store, await self.register(store, "next"))
        assert (second.run_id, second.attempt) == (first.run_id, 2)
        assert (second.crashes, second.failures, second.guarded) == (1, 0, True)
        lost, current = await store.runs.attempts(first.run_id)
        assert (lost.attempt, lost.token, lost.executor, lost.state) == (1, first.token, dead, RunState.QUEUED)
        assert (lost.reason, microseconds(lost.started_at)) == ("lease_lost", microseconds(first.now))
        assert lost.ended_at is not None
        assert (current.attempt, current.state, current.token) == (2, RunState.DISPATCHED, second.token)

    async def test_a_run_that_takes_its_executors_with_it_is_quarantined(self, store: Store, make: Factory) -> None:
        """At the third crash it ends FAILED, reason `poison`, with every attempt on record."""
        job, expired = make.job(), Expired()
        await self.add(store, job)
        for number in range(1, CRASHES_MAX + 1):
            dead = await self.register(store, f"victim {number}")
            [claimed] = await self.claim_freed(store, dead)
            assert (claimed.attempt, claimed.crashes) == (number, number - 1)
            await self.begin(store, dead, claimed)
            await self.shift(store, LEASE_SECONDS + 1.0)
            expired = await store.executors.expire(CRASHES_MAX)
        run_id = job.run_id
        assert run_id is not None
        assert (list(expired.quarantined), expired.freed) == ([run_id], 0)
        row = await self.run_row(store, run_id)
        assert (row.state, row.reason, row.crashes) == (RunState.FAILED, "poison", CRASHES_MAX)
        assert row.error
        assert row.ended_at is not None
        attempts = await store.runs.attempts(run_id)
        assert [attempt.attempt for attempt in attempts] == [1, 2, 3]
        assert [attempt.state for attempt in attempts] == [RunState.QUEUED, RunState.QUEUED, RunState.FAILED]
        assert list(await self.claim_freed(store, await self.register(store))) == []

    async def test_being_merely_held_never_poisons(self, store: Store, make: Factory) -> None:
        """However many executors die around it."""
        await self.add(store, make.job())
        for _ in range(CRASHES_MAX + 2):
            dead = await self.register(store)
            assert len(await self.claim_freed(store, dead)) == 1
            await self.shift(store, LEASE_SECONDS + 1.0)
            assert list((await store.executors.expire(CRASHES_MAX)).quarantined) == []
        [claimed] = await self.claim_freed(store, await self.register(store))
        assert (claimed.crashes, claimed.guarded) == (0, True)

    async def test_failures_and_crashes_are_counted_apart(self, store: Store, make: Factory) -> None:
        """One of each."""
        dead = await self.register(store, "dead")
        first = await self.held(store, dead, make.job())
        await self.finish(store, dead, outcome(first, RunState.RETRYING, retry_at=first.now))
        [second] = await self.claim_freed(store, dead)
        await self.begin(store, dead, second)
        await self.expire(store, dead)
        [third] = await self.claim_freed(store, await self.register(store, "next"))
        assert (third.attempt, third.failures, third.crashes) == (3, 1, 1)

    async def test_a_stale_owner_that_wakes_up_is_refused(self, store: Store, make: Factory) -> None:
        """Its run went on without it: nothing that it says of it is recorded, before or after the next claim."""
        dead = await self.register(store, "dead")
        stale = await self.held(store, dead, make.job())
        await self.expire(store, dead)
        began = Began(stale.run_id, stale.token, stale.now)
        for state in (RunState.SUCCESS, RunState.RETRYING, RunState.QUEUED):
            assert await self.finish(store, dead, outcome(stale, state, retry_at=stale.now)) == [stale.run_id]
        assert list(await store.attempts.start(dead, [began])) == [stale.run_id]
        following = await self.register(store, "next")
        [fresh] = await self.claim_freed(store, following)
        for state in (RunState.SUCCESS, RunState.RETRYING, RunState.QUEUED):
            assert await self.finish(store, dead, outcome(stale, state, retry_at=stale.now)) == [stale.run_id]
        assert list(await store.attempts.start(dead, [began])) == [stale.run_id]
        assert await self.run_state(store, stale.run_id) is RunState.DISPATCHED
        assert await self.finish(store, following, outcome(fresh)) == []
        assert await self.finish(store, dead, outcome(stale, RunState.FAILED)) == [stale.run_id]
        assert await self.run_state(store, stale.run_id) is RunState.SUCCESS

    @pytest.mark.parametrize("in_order", [False, True])
    async def test_a_begun_attempt_that_was_lost_has_no_other_end(
        self, store: Store, make: Factory, in_order: bool
    ) -> None:
        """The store has put its end on record, and the run went on: each later report of its holder is refused,
        also that it gave the run back."""
        gone = await self.register(store, "gone")
        stale = await self.held(store, gone, make.job())
        await self.begin(store, gone, stale)
        if in_order:
            await store.executors.leave(gone)
        else:
            await self.expire(store, gone)
        [lost] = await store.runs.attempts(stale.run_id)
        assert lost.state is RunState.QUEUED
        states = (RunState.QUEUED, RunState.RETRYING, RunState.SUCCESS, RunState.FAILED, RunState.CANCELLED)
        late = [outcome(stale, state, reason="drained", retry_at=stale.now) for state in states]
        late.append(outcome(stale, RunState.SKIPPED, reason=REVOKED))
        for report in late:
            assert await self.finish(store, gone, report) == [stale.run_id], report
        following = await self.register(store, "next")
        [fresh] = await self.claim_freed(store, following)
        for report in late:
            assert await self.finish(store, gone, report) == [stale.run_id], report
        assert list(await store.attempts.start(gone, [Began(stale.run_id, stale.token, stale.now)])) == [stale.run_id]
        assert await self.finish(store, following, outcome(fresh)) == []
        for report in late:
            assert await self.finish(store, gone, report) == [stale.run_id], report
        assert next(iter(await store.runs.attempts(stale.run_id))) == lost
        assert await self.run_state(store, stale.run_id) is RunState.SUCCESS

    async def test_a_stale_attempt_is_refused_though_the_same_executor_claimed_again(
        self, store: Store, make: Factory
    ) -> None:
        """The fence is the token, never the executor alone."""
        executor = await self.register(store)
        stale = await self.held(store, executor, make.job())
        await self.finish(store, executor, outcome(stale, RunState.QUEUED))
        [fresh] = await self.claim_freed(store, executor)
        assert fresh.run_id == stale.run_id
        assert await self.finish(store, executor, outcome(stale)) == [stale.run_id]
        began = Began(stale.run_id, stale.token, stale.now)
        assert list(await store.attempts.start(executor, [began])) == [stale.run_id]
        assert await self.run_state(store, stale.run_id) is RunState.DISPATCHED
        assert await self.finish(store, executor, outcome(fresh)) == []

    async def test_a_finish_that_was_recorded_is_accepted_again_after_the_expiry(
        self, store: Store, make: Factory
    ) -> None:
        """The commit was in doubt, and then the link was away for longer than the lease."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await self.finish(store, executor, outcome(claimed))
        await self.expire(store, executor)
        assert await self.finish(store, executor, outcome(claimed)) == []
        assert await self.run_state(store, claimed.run_id) is RunState.SUCCESS

    async def test_leaving_frees_what_was_held_at_once(self, store: Store, make: Factory) -> None:
        """Merely held: as if it had been given back."""
        leaver, following = await self.register(store, "leaver"), await self.register(store, "next")
        first = await self.held(store, leaver, make.job())
        await store.executors.leave(leaver)
        row = await self.run_row(store, first.run_id)
        assert (row.state, row.executor) == (RunState.QUEUED, None)
        [second] = await self.claim_freed(store, following)
        assert (second.run_id, second.attempt, second.crashes, second.guarded) == (first.run_id, 1, 0, False)

    async def test_leaving_counts_no_crash(self, store: Store, make: Factory) -> None:
        """Not even for a recorded start; that attempt stays on record."""
        leaver, following = await self.register(store, "leaver"), await self.register(store, "next")
        first = await self.held(store, leaver, make.job())
        await self.begin(store, leaver, first)
        await store.executors.leave(leaver)
        [second] = await self.claim_freed(store, following)
        assert (second.run_id, second.attempt, second.crashes) == (first.run_id, 2, 0)
        lost, _ = await store.runs.attempts(first.run_id)
        assert (lost.attempt, lost.state, lost.executor) == (1, RunState.QUEUED, leaver)

    async def test_leaving_twice_is_leaving_once(self, store: Store) -> None:
        """And the expired may try."""
        leaver, dead = await self.register(store, "leaver"), await self.register(store, "dead")
        await store.executors.leave(leaver)
        await store.executors.leave(leaver)
        await self.expire(store, dead)
        await store.executors.leave(dead)
        assert not (await store.executors.beat(leaver, LEASE_SECONDS)).alive
        assert not (await store.executors.beat(dead, LEASE_SECONDS)).alive

    async def test_those_who_look_for_the_dead_together_free_each_run_once(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """Any scheduler may, at any time: a crash is counted once, and each database names the dead once."""
        dead = await self.register(store, "dead")
        await self.add(store, *(make.job() for _ in range(20)))
        claims = list(await self.claim(store, dead))
        for claimed in claims:
            await self.begin(store, dead, claimed)
        await self.shift(store, LEASE_SECONDS + 1.0)
        found = await asyncio.gather(*(client.executors.expire(CRASHES_MAX) for client in [store, other] * 3))
        assert sum(expired.freed for expired in found) == 20
        named = [executor for expired in found for executor in expired.executors]
        assert named in [[dead] * times for times in range(1, self.databases + 1)]
        again = await self.claim_freed(store, await self.register(store, "next"))
        assert {claimed.crashes for claimed in again} == {1}
        assert len(again) == 20

    async def test_after_the_store_was_away_leases_get_one_period_of_grace(self, store: Store, make: Factory) -> None:
        """No executor could beat: a lease that ran out meanwhile is over one lease after the store is back."""
        executor = await self.register(store, lease_seconds=10 * LEASE_SECONDS)
        claimed = await self.held(store, executor, make.job())
        await self.shift(store, 15 * LEASE_SECONDS)
        await self.restart(store)
        await self.shift(store, 5 * LEASE_SECONDS)
        assert list((await store.executors.expire(CRASHES_MAX)).executors) == []
        assert await self.run_state(store, claimed.run_id) is RunState.DISPATCHED
        await self.shift(store, 6 * LEASE_SECONDS)
        assert list((await store.executors.expire(CRASHES_MAX)).executors) == [executor]
