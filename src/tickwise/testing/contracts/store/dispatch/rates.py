"""Starts under a rate: each has its own slot, a gap after the one before, and nothing is saved up."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed, Trigger
from tickwise.ports.store import Gate, NewRun, RunCancel, RunPostpone, RunSkip, Store
from tickwise.testing.contracts.base import StoreContract, microseconds
from tickwise.testing.factories import Factory, outcome

HOUR = 3600.0
GAP_SECONDS = 100.0
"""A time longer than anything that a test does by itself."""


def rate(key: str = "job:x", gap_seconds: float = GAP_SECONDS) -> Gate:
    """One start in so many seconds."""
    return Gate(rate_key=key, rate_gap_seconds=gap_seconds)


class RatesContract(StoreContract):
    """`Gate.rate_key`."""

    async def crowd(self, store: Store, make: Factory, count: int, **fields: str) -> tuple[int, list[Claimed]]:
        """An executor that lives long and holds so many runs, a second apart, the earliest first."""
        executor = await self.register(store, lease_seconds=100 * HOUR)
        await self.add(store, *(make.job(make.now - count + number, **fields) for number in range(count)))
        claims = await self.claim(store, executor)
        assert len(claims) == count
        return executor, sorted(claims, key=lambda claimed: claimed.due)

    async def slot(self, store: Store, claimed: Claimed) -> float:
        """The slot that a run waits for."""
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, row.executor, row.blocked, row.paced) == (RunState.QUEUED, None, False, True)
        assert row.ready_at is not None
        return row.ready_at

    async def later(self, store: Store, executor: int, seconds: float) -> list[Claimed]:
        """Claim after `seconds`."""
        await self.shift(store, seconds)
        await store.executors.beat(executor, 100 * HOUR)
        return list(await self.claim(store, executor))

    async def test_the_first_starts_and_the_second_waits_for_its_slot(self, store: Store, make: Factory) -> None:
        """One gap later, held by nobody, and waiting is no attempt."""
        executor, [first, second] = await self.crowd(store, make, 2)
        before = await store.now()
        await self.begin(store, executor, first, gate=rate())
        assert await self.starts(store, executor, second, gate=rate()) == [False]
        slot = await self.slot(store, second)
        assert before + GAP_SECONDS - 0.001 <= slot <= await store.now() + GAP_SECONDS
        assert (await self.run_row(store, second.run_id)).attempt == 0
        assert list(await store.runs.attempts(second.run_id)) == []
        assert (await self.run_row(store, first.run_id)).paced is False

    async def test_the_token_of_a_refused_start_is_void(self, store: Store, make: Factory) -> None:
        """An executor whose start was refused no longer holds the run."""
        executor, [first, second] = await self.crowd(store, make, 2)
        await self.starts_in_turn(store, executor, first, second, gate=rate())
        assert await self.finish(store, executor, outcome(second)) == [second.run_id]

    async def test_slots_are_a_gap_apart(self, store: Store, make: Factory) -> None:
        """To the microsecond, whether asked for in one call or in several."""
        executor, [first, *others] = await self.crowd(store, make, 6)
        await self.begin(store, executor, first, gate=rate())
        assert await self.starts(store, executor, *others[:3], gate=rate()) == [False] * 3
        for claimed in others[3:]:
            assert await self.starts(store, executor, claimed, gate=rate()) == [False]
        slots = sorted([await self.slot(store, claimed) for claimed in others])
        gaps = [round((after - before) * 1_000_000) for before, after in pairwise(slots)]
        assert gaps == [microseconds(GAP_SECONDS)] * 4

    async def test_nobody_gets_it_before_its_slot(self, store: Store, make: Factory) -> None:
        """Then it is claimed, and starts without being asked again."""
        executor, [first, second] = await self.crowd(store, make, 2)
        await self.starts_in_turn(store, executor, first, second, gate=rate())
        assert await self.later(store, executor, GAP_SECONDS / 2) == []
        [again] = await self.later(store, executor, GAP_SECONDS / 2 + 5.0)
        assert (again.run_id, again.attempt) == (second.run_id, 1)
        assert await self.starts(store, executor, again, gate=rate()) == [True]
        assert (await self.run_row(store, second.run_id)).paced is False

    async def test_taking_up_a_slot_asks_for_no_other_one(self, store: Store, make: Factory) -> None:
        """The next one's is where it was."""
        executor, [first, second, third] = await self.crowd(store, make, 3)
        await self.starts_in_turn(store, executor, first, second, third, gate=rate())
        slot = await self.slot(store, third)
        [again] = await self.later(store, executor, GAP_SECONDS + 5.0)
        await self.begin(store, executor, again, gate=rate())
        assert await self.slot(store, third) == slot
        [again] = await self.later(store, executor, GAP_SECONDS)
        assert (again.run_id, await self.starts(store, executor, again, gate=rate())) == (third.run_id, [True])

    async def test_a_further_attempt_asks_for_a_slot_of_its_own(self, store: Store, make: Factory) -> None:
        """A retry is a start like any other."""
        executor, [first] = await self.crowd(store, make, 1)
        await self.begin(store, executor, first, gate=rate())
        assert await self.finish(store, executor, outcome(first, RunState.RETRYING, retry_at=first.now)) == []
        [again] = await self.later(store, executor, 3.0)
        assert await self.starts(store, executor, again, gate=rate()) == [False]
        row = await self.run_row(store, first.run_id)
        assert (row.attempt, row.failures, row.paced) == (1, 1, True)

    async def test_nothing_is_saved_up_in_quiet_times(self, store: Store, make: Factory) -> None:
        """After ten gaps without a start, two that come together are a gap apart all the same."""
        executor, [first, second, third] = await self.crowd(store, make, 3)
        await self.begin(store, executor, first, gate=rate())
        await self.shift(store, 10 * GAP_SECONDS)
        before = await store.now()
        assert await self.starts(store, executor, second, gate=rate()) == [True]
        assert await self.starts(store, executor, third, gate=rate()) == [False]
        assert await self.slot(store, third) >= before + GAP_SECONDS - 0.001

    async def test_a_slot_stays_its_own_if_it_is_lost_before_it_begins(self, store: Store, make: Factory) -> None:
        """Claimed ahead and given back, it comes at the same slot."""
        executor, [first, second] = await self.crowd(store, make, 2)
        await self.starts_in_turn(store, executor, first, second, gate=rate())
        slot = await self.slot(store, second)
        await self.shift(store, GAP_SECONDS / 4)
        await store.executors.beat(executor, HOUR)
        [ahead] = await self.claim(store, executor, ahead_seconds=GAP_SECONDS)
        assert await self.finish(store, executor, outcome(ahead, RunState.QUEUED)) == []
        assert await self.slot(store, second) == slot

    async def test_a_run_that_is_postponed_gives_its_slot_up(self, store: Store, make: Factory) -> None:
        """It asks for another one when its new time has come."""
        executor, [first, second] = await self.crowd(store, make, 2)
        await self.starts_in_turn(store, executor, first, second, gate=rate())
        slot = await self.slot(store, second)
        assert await store.runs.move(RunPostpone("default", second.run_id, slot + 10 * GAP_SECONDS)) is RunState.QUEUED
        row = await self.run_row(store, second.run_id)
        assert (row.paced, microseconds(row.ready_at)) == (False, microseconds(slot + 10 * GAP_SECONDS))

    async def test_what_waited_through_downtime_does_not_start_all_at_once(self, store: Store, make: Factory) -> None:
        """Nobody was there when the slots came: one starts, the others are given new ones, a gap apart."""
        executor, [first, *others] = await self.crowd(store, make, 5)
        await self.begin(store, executor, first, gate=rate())
        await self.starts(store, executor, *others, gate=rate())
        again = await self.later(store, executor, 20 * GAP_SECONDS)
        assert len(again) == 4
        assert await self.starts_in_turn(store, executor, *again, gate=rate()) == [True, False, False, False]
        slots = sorted([await self.slot(store, claimed) for claimed in again[1:]])
        gaps = [round((after - before) * 1_000_000) for before, after in pairwise(slots)]
        assert gaps == [microseconds(GAP_SECONDS)] * 2

    async def test_a_gap_shorter_than_a_claim_takes_stops_nobody(self, store: Store, make: Factory) -> None:
        """A late run starts, if no other has just started: five slots missed, five starts."""
        executor, [first, *others] = await self.crowd(store, make, 6)
        swift = rate(gap_seconds=0.01)
        await self.begin(store, executor, first, gate=swift)
        waits = others
        for _ in range(50):
            if not waits:
                break
            await self.starts(store, executor, *waits, gate=swift)
            waits = await self.later(store, executor, 1.0)
        states = [await self.run_state(store, claimed.run_id) for claimed in others]
        assert states == [RunState.RUNNING] * 5

    async def test_a_slot_that_somebody_holds_is_kept_when_the_rate_changes(self, store: Store, make: Factory) -> None:
        """It is about to start by it: the next one comes a gap after it."""
        executor = await self.register(store, lease_seconds=100 * HOUR)
        job = make.job(make.now - 10.0)
        first = await self.held(store, executor, job)
        key = f"job:{job.job_id}"
        for _ in range(2):
            await store.runs.add("default", job.job_id, [NewRun(make.identifier(), make.now, Trigger.RUN_NOW)])
        others = await self.later(store, executor, 3.0)
        await self.starts_in_turn(store, executor, first, *others, gate=rate(key))
        held_slot, _ = sorted([await self.slot(store, claimed) for claimed in others])
        [held] = await self.claim(store, executor, ahead_seconds=1.5 * GAP_SECONDS)
        row = await self.job_row(store, job.job_id)
        await store.jobs.change(make.change(row, definition='{"rate": "another"}', rate_changed=True))
        [free] = await self.later(store, executor, 3.0)
        assert await self.starts(store, executor, free, gate=rate(key, 5.0)) == [False]
        assert microseconds(await self.slot(store, free)) == microseconds(held_slot + 5.0)
        assert held.run_id != free.run_id

    @pytest.mark.parametrize("elsewhere", [False, True])
    async def test_each_key_of_each_namespace_has_its_own_pace(
        self, store: Store, make: Factory, elsewhere: bool
    ) -> None:
        """Neither another key nor another namespace is held up."""
        executor, [first] = await self.crowd(store, make, 1)
        fields = {"namespace": "elsewhere"} if elsewhere else {}
        two, [second] = await self.crowd(store, make, 1, **fields)
        await self.begin(store, executor, first, gate=rate("label:customer=7"))
        key = "label:customer=7" if elsewhere else "label:customer=8"
        assert await self.starts(store, two, second, gate=rate(key)) == [True]

    async def test_slots_of_runs_that_ended_are_free_again(self, store: Store, make: Factory) -> None:
        """The next run gets the slot after the last start, or after the last slot of an active run."""
        executor, [first, second, third, fourth, fifth] = await self.crowd(store, make, 5)
        await self.starts_in_turn(store, executor, first, second, third, fourth, gate=rate())
        slots = [await self.slot(store, each) for each in (second, third, fourth)]
        assert await store.runs.move(RunCancel("default", fourth.run_id, "ada")) is RunState.CANCELLED
        assert await store.runs.move(RunSkip("default", third.run_id, "not now")) is RunState.SKIPPED
        assert await self.starts(store, executor, fifth, gate=rate()) == [False]
        assert microseconds(await self.slot(store, fifth)) == microseconds(slots[1])

    async def test_a_slip_locks_no_key_for_years(self, store: Store, make: Factory) -> None:
        """Ten starts a year apart were asked for, and cancelled: the next run waits by its own rate."""
        executor, claims = await self.crowd(store, make, 12)
        [first, *slips, last] = claims
        await self.begin(store, executor, first, gate=rate("key:all"))
        slow = rate("key:all", 366 * 24 * HOUR)
        assert await self.starts_in_turn(store, executor, *slips, gate=slow) == [False] * 10
        for each in slips:
            assert await store.runs.move(RunCancel("default", each.run_id, "ada")) is RunState.CANCELLED
        assert await self.starts(store, executor, last, gate=rate("key:all")) == [False]
        assert await self.slot(store, last) <= await store.now() + GAP_SECONDS

    async def test_a_job_whose_rate_is_another_one_frees_slots_that_others_share(
        self, store: Store, make: Factory
    ) -> None:
        """It gives up the slot that it had under their key, and the next who asks has it."""
        executor, [first, second, third] = await self.crowd(store, make, 3)
        shared = rate("key:shared")
        await self.starts_in_turn(store, executor, first, second, gate=shared)
        slot = await self.slot(store, second)
        row = await self.job_row(store, second.job_id)
        await store.jobs.change(make.change(row, definition='{"rate": "none"}', rate_changed=True))
        assert (await self.run_row(store, second.run_id)).paced is False
        assert await self.starts(store, executor, third, gate=shared) == [False]
        assert microseconds(await self.slot(store, third)) == microseconds(slot)

    async def test_a_slot_under_another_key_is_none(self, store: Store, make: Factory) -> None:
        """A run whose definition names another key by the time of its slot asks for one there."""
        executor, [first, second, third] = await self.crowd(store, make, 3)
        await self.starts_in_turn(store, executor, first, second, gate=rate("key:old"))
        [again] = await self.later(store, executor, GAP_SECONDS + 5.0)
        assert again.run_id == second.run_id
        await self.begin(store, executor, third, gate=rate("key:new"))
        assert await self.starts(store, executor, again, gate=rate("key:new")) == [False]
        assert await self.slot(store, second) > await store.now()

    async def test_what_the_limit_refuses_takes_no_slot(self, store: Store, make: Factory) -> None:
        """The limit is asked first; a slot is given to who could use it."""
        executor, [first, second, third] = await self.crowd(store, make, 3)
        both = rate()._replace(limit_key="job:x", limit=1)
        await self.begin(store, executor, first, gate=both._replace(rate_key=None))
        assert await self.starts(store, executor, second, gate=both) == [False]
        assert await self.waits(store, second.run_id)
        assert (await self.run_row(store, second.run_id)).paced is False
        assert await self.starts(store, executor, third, gate=rate()) == [True]

    async def test_who_waits_for_its_slot_has_none_under_the_limit(self, store: Store, make: Factory) -> None:
        """It does not run yet: another one may."""
        executor, [first, second, third] = await self.crowd(store, make, 3)
        both = rate()._replace(limit_key="job:x", limit=1)
        await self.begin(store, executor, first, gate=rate())
        assert await self.starts(store, executor, second, gate=both) == [False]
        await self.slot(store, second)
        assert await self.starts(store, executor, third, gate=both._replace(rate_key=None)) == [True]

    async def test_what_was_asked_to_stop_meanwhile_ends_instead_of_waiting(self, store: Store, make: Factory) -> None:
        """As if its holder had given it back."""
        executor, [first, second] = await self.crowd(store, make, 2)
        await self.begin(store, executor, first, gate=rate())
        await store.runs.move(RunCancel("default", second.run_id, "ada"))
        assert await self.starts(store, executor, second, gate=rate()) == [False]
        assert await self.run_state(store, second.run_id) is RunState.CANCELLED

    async def test_starts_at_the_same_moment_get_slots_a_gap_apart(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """Ten at once, through two clients: one begins."""
        executor, claims = await self.crowd(store, make, 10)
        starts = await asyncio.gather(
            *(
                self.starts(client, executor, claimed, gate=rate())
                for client, claimed in zip([store, other] * 5, claims, strict=True)
            )
        )
        assert sorted(starts) == [[False]] * 9 + [[True]]
        waits = [claimed for claimed, [began] in zip(claims, starts, strict=True) if not began]
        slots = sorted([await self.slot(store, claimed) for claimed in waits])
        gaps = [round((after - before) * 1_000_000) for before, after in pairwise(slots)]
        assert gaps == [microseconds(GAP_SECONDS)] * 8

    async def test_after_a_change_of_its_own_rate_a_job_is_asked_anew(self, store: Store, make: Factory) -> None:
        """A job whose rate was made faster, or taken away, does not wait for slots that were given before."""
        job = make.recurring(make.now, never=True)
        await self.add(store, job)
        executor = await self.register(store, lease_seconds=100 * HOUR)
        await store.runs.add("default", job.job_id, [make.run(job.job_id, make.now - each) for each in range(4)])
        first, *others = await self.claim(store, executor)
        own = f"job:{job.job_id}"
        await self.begin(store, executor, first, gate=rate(own, HOUR))
        assert await self.starts(store, executor, *others, gate=rate(own, HOUR)) == [False] * 3
        await store.jobs.change(make.change(await self.job_row(store, job.job_id), rate_changed=True))
        second, third, fourth = await self.later(store, executor, GAP_SECONDS)
        assert await self.starts(store, executor, second, gate=rate(own, GAP_SECONDS)) == [True]
        assert await self.starts(store, executor, third, gate=rate(own, GAP_SECONDS)) == [False]
        assert await self.slot(store, third) <= await store.now() + GAP_SECONDS
        assert await self.starts(store, executor, fourth) == [True]

    async def test_a_change_of_the_rate_is_no_way_round_it(self, store: Store, make: Factory) -> None:
        """The last start counts as before; only slots that nobody has taken up are given anew."""
        job = make.recurring(make.now, never=True)
        await self.add(store, job)
        executor = await self.register(store, lease_seconds=100 * HOUR)
        await store.runs.add("default", job.job_id, [make.run(job.job_id, make.now - each) for each in range(2)])
        first, second = await self.claim(store, executor)
        own = rate(f"job:{job.job_id}")
        await self.starts_in_turn(store, executor, first, second, gate=own)
        slot = await self.slot(store, second)
        await store.jobs.change(make.change(await self.job_row(store, job.job_id), rate_changed=True))
        [again] = await self.later(store, executor, GAP_SECONDS / 2)
        assert await self.starts(store, executor, again, gate=own) == [False]
        assert abs(await self.slot(store, second) - slot) < 1.0

    async def test_a_change_of_a_job_moves_no_slot_of_a_rate_that_others_share(
        self, store: Store, make: Factory
    ) -> None:
        """It would lose its place among them."""
        executor, [first, second] = await self.crowd(store, make, 2)
        await self.starts_in_turn(store, executor, first, second, gate=rate("key:shared"))
        slot = await self.slot(store, second)
        await store.jobs.change(make.change(await self.job_row(store, second.job_id)))
        assert await self.slot(store, second) == slot

    async def test_a_job_that_leaves_a_shared_rate_does_not_wait_by_it(self, store: Store, make: Factory) -> None:
        """Its runs may be claimed at once; the slots of others stay where they are."""
        executor, [first, second, third] = await self.crowd(store, make, 3)
        await self.starts_in_turn(store, executor, first, second, third, gate=rate("key:shared"))
        slot = await self.slot(store, third)
        await store.jobs.change(make.change(await self.job_row(store, second.job_id), rate_changed=True))
        row = await self.run_row(store, second.run_id)
        assert (row.paced, (row.ready_at or 0.0) <= await store.now()) == (False, True)
        [again] = await self.later(store, executor, 3.0)
        assert (again.run_id, await self.starts(store, executor, again)) == (second.run_id, [True])
        assert await self.slot(store, third) == slot
