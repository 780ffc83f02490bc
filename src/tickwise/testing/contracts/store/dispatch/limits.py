"""Starts under a concurrency limit: never more than it says, and no slot stays empty while somebody waits."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from tickwise.domain.decision import Overlap
from tickwise.domain.errors import Conflict
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed
from tickwise.domain.retry import OnUnknown
from tickwise.ports.store import Check, Gate, JobAction, QueueHold, RunCancel, RunPostpone, RunSkip, Store
from tickwise.testing.contracts.base import LEASE_SECONDS, lane
from tickwise.testing.contracts.store.dispatch.overlap import LineContract
from tickwise.testing.factories import Factory, outcome

HOUR = 3600.0
MAX_ROUNDS = 200
"""In each round at least one run has its turn, so that these are more than are ever needed."""
ENDS = [RunState.SUCCESS, RunState.FAILED, RunState.CANCELLED, RunState.RETRYING, RunState.QUEUED]
"""All that an executor may say of what it has begun."""


def limit(most: int, key: str = "job:x") -> Gate:
    """At most so many at once."""
    return Gate(limit_key=key, limit=most)


class CrowdContract(LineContract):
    """Shortcuts for many runs under one limit."""

    async def crowd(self, store: Store, make: Factory, count: int, **fields: str) -> tuple[int, list[Claimed]]:
        """An executor that lives long and holds so many runs, a second apart, the earliest first."""
        executor = await self.register(store, lease_seconds=100 * HOUR)
        await self.add(store, *(make.job(make.now - count + number, **fields) for number in range(count)))
        claims = await self.claim(store, executor)
        assert len(claims) == count
        return executor, sorted(claims, key=lambda claimed: claimed.due)


class LimitsContract(CrowdContract):
    """`Gate.limit_key`."""

    async def waiting(self, store: Store, claims: list[Claimed]) -> list[bool]:
        """Those that wait, after the sweep that may have to wake them."""
        await store.runs.unblock()
        return [await self.waits(store, claimed.run_id) for claimed in claims]

    async def test_as_many_start_as_the_limit_says(self, store: Store, make: Factory) -> None:
        """The next one's task must not run."""
        executor, claims = await self.crowd(store, make, 4)
        assert await self.starts_in_turn(store, executor, *claims, gate=limit(3)) == [True, True, True, False]

    async def test_starts_of_one_call_are_counted_too(self, store: Store, make: Factory) -> None:
        """They are settled one after the other."""
        executor, claims = await self.crowd(store, make, 4)
        assert sorted(await self.starts(store, executor, *claims, gate=limit(3))) == [False, True, True, True]

    async def test_what_has_no_slot_waits(self, store: Store, make: Factory) -> None:
        """Nobody holds it, its attempt is not counted, and everybody sees what it waits for."""
        executor, [first, second] = await self.crowd(store, make, 2)
        await self.begin(store, executor, first, gate=limit(1))
        assert await self.starts(store, executor, second, gate=limit(1)) == [False]
        assert await self.waits(store, second.run_id)
        row = await self.run_row(store, second.run_id)
        assert (row.limit_key, row.attempt, row.failures, row.crashes) == ("job:x", 0, 0, 0)
        assert list(await store.runs.attempts(second.run_id)) == []
        assert (await self.run_row(store, first.run_id)).limit_key == "job:x"

    async def test_what_waits_is_claimed_by_nobody(self, store: Store, make: Factory) -> None:
        """Not while the slot is taken, however long."""
        executor, [first, second] = await self.crowd(store, make, 2)
        await self.starts_in_turn(store, executor, first, second, gate=limit(1))
        for _ in range(3):
            assert await store.runs.unblock() == 0
            assert list(await self.claim_freed(store, executor, ahead_seconds=HOUR)) == []

    async def test_a_woken_run_that_finds_its_slot_taken_keeps_its_place(self, store: Store, make: Factory) -> None:
        """It goes on before a run that was ready after it."""
        executor, [first, second, third, fourth] = await self.crowd(store, make, 4)
        assert await self.starts_in_turn(store, executor, first, second, third, gate=limit(1)) == [True, False, False]
        assert await self.finish(store, executor, outcome(first)) == []
        await self.begin(store, executor, fourth, gate=limit(1))
        [again] = await self.claim_freed(store, executor)
        assert (again.run_id, await self.starts(store, executor, again, gate=limit(1))) == (second.run_id, [False])
        assert await self.finish(store, executor, outcome(fourth)) == []
        assert [await self.waits(store, each.run_id) for each in (second, third)] == [False, True]

    async def test_the_token_of_a_refused_start_is_void(self, store: Store, make: Factory) -> None:
        """An executor whose start was refused no longer holds the run."""
        executor, [first, second] = await self.crowd(store, make, 2)
        await self.starts_in_turn(store, executor, first, second, gate=limit(1))
        assert await self.finish(store, executor, outcome(second)) == [second.run_id]
        assert await self.starts(store, executor, second, gate=limit(9)) == [False]

    @pytest.mark.parametrize("end", ENDS)
    async def test_the_next_goes_on_when_one_runs_no_longer(self, store: Store, make: Factory, end: RunState) -> None:
        """After any outcome of the first. The next is claimed, asks again and starts."""
        executor, [first, second] = await self.crowd(store, make, 2)
        await self.starts_in_turn(store, executor, first, second, gate=limit(1))
        assert await self.finish(store, executor, outcome(first, end, retry_at=first.now + HOUR)) == []
        assert await self.goes_on(store, second.run_id)
        assert (await self.run_row(store, second.run_id)).limit_key is None
        [again] = await self.claim_freed(store, executor)
        assert (again.run_id, again.attempt) == (second.run_id, 1)
        assert await self.starts(store, executor, again, gate=limit(1)) == [True]

    @pytest.mark.parametrize("on_unknown", list(OnUnknown))
    async def test_the_next_goes_on_when_an_executor_leaves(
        self, store: Store, make: Factory, on_unknown: OnUnknown
    ) -> None:
        """Its run is then claimable or FAILED, and the slot is free in any case."""
        executor, [first, second] = await self.crowd(store, make, 2)
        await self.starts_in_turn(store, executor, first, second, gate=limit(1), on_unknown=on_unknown)
        await store.executors.leave(executor)
        assert await self.goes_on(store, second.run_id)

    async def test_what_a_lost_executor_ran_has_its_slot_until_it_is_freed(self, store: Store, make: Factory) -> None:
        """It may run still; from the expiry on it does not."""
        lost = await self.register(store, "lost")
        first = await self.held(store, lost, make.job())
        await self.begin(store, lost, first, gate=limit(1))
        await self.shift(store, LEASE_SECONDS + 1.0)
        executor = await self.register(store, "two")
        second = await self.held(store, executor, make.job(make.now + LEASE_SECONDS))
        assert await self.starts(store, executor, second, gate=limit(1)) == [False]
        assert list((await store.executors.expire(crashes_max=3)).executors) == [lost]
        assert await self.goes_on(store, second.run_id)

    async def test_those_who_waited_longest_go_on_first(self, store: Store, make: Factory) -> None:
        """In the order in which they were ready, not in that in which they asked."""
        executor, [first, *others] = await self.crowd(store, make, 4)
        await self.begin(store, executor, first, gate=limit(1))
        for claimed in reversed(others):
            assert await self.starts(store, executor, claimed, gate=limit(1)) == [False]
        order: list[UUID] = []
        running = first
        for _ in others:
            assert await self.finish(store, executor, outcome(running)) == []
            [running] = await self.claim_freed(store, executor)
            await self.begin(store, executor, running, gate=limit(1))
            order.append(running.run_id)
        assert order == [claimed.run_id for claimed in others]

    async def test_as_many_go_on_as_there_are_free_slots(self, store: Store, make: Factory) -> None:
        """Two ended, and two of three go on."""
        executor, claims = await self.crowd(store, make, 5)
        starts = await self.starts_in_turn(store, executor, *claims, gate=limit(2))
        assert starts == [True, True, False, False, False]
        assert await self.finish(store, executor, *(outcome(claimed) for claimed in claims[:2])) == []
        again = await self.claim_freed(store, executor)
        assert {claimed.run_id for claimed in again} == {claimed.run_id for claimed in claims[2:4]}
        assert await self.starts(store, executor, *again, gate=limit(2)) == [True, True]
        assert await self.waits(store, claims[4].run_id)

    async def test_only_what_is_running_counts(self, store: Store, make: Factory) -> None:
        """Neither what is merely held, nor what has no gate, nor what has ended."""
        executor, [first, second, third, fourth] = await self.crowd(store, make, 4)
        await self.begin(store, executor, first)
        await self.begin(store, executor, second, gate=limit(1))
        assert await self.finish(store, executor, outcome(second)) == []
        assert await self.starts(store, executor, third, gate=limit(1)) == [True]
        assert await self.run_state(store, fourth.run_id) is RunState.DISPATCHED

    async def test_each_key_has_its_own_slots(self, store: Store, make: Factory) -> None:
        """Another key is another limit."""
        executor, [first, second, third] = await self.crowd(store, make, 3)
        await self.begin(store, executor, first, gate=limit(1, "queue:default"))
        await self.begin(store, executor, second, gate=limit(1, "label:customer=7"))
        assert await self.starts(store, executor, third, gate=limit(1, "label:customer=7")) == [False]

    async def test_each_namespace_has_its_own_slots(self, store: Store, make: Factory) -> None:
        """Equal words in two namespaces are two limits."""
        executor, [first] = await self.crowd(store, make, 1)
        [elsewhere] = (await self.crowd(store, make, 1, namespace="elsewhere"))[1]
        await self.begin(store, executor, first, gate=limit(1, "namespace"))
        two = (await self.run_row(store, elsewhere.run_id, "elsewhere")).executor
        assert two is not None
        assert await self.starts(store, two, elsewhere, gate=limit(1, "namespace")) == [True]

    async def test_jobs_that_share_a_key_may_say_different_limits(self, store: Store, make: Factory) -> None:
        """Each starts while fewer run than it says itself."""
        executor, [first, second, third] = await self.crowd(store, make, 3)
        await self.begin(store, executor, first, gate=limit(1))
        assert await self.starts(store, executor, second, gate=limit(1)) == [False]
        assert await self.starts(store, executor, third, gate=limit(2)) == [True]

    async def test_each_that_waits_goes_by_the_limit_that_it_said_itself(self, store: Store, make: Factory) -> None:
        """A run that waits for a smaller limit does not block one that waits for a larger limit, nor starts because of
        it."""
        executor, [first, second, third, one, two, three] = await self.crowd(store, make, 6)
        assert await self.starts_in_turn(store, executor, first, second, third, gate=limit(3)) == [True] * 3
        for most, claimed in ((3, three), (1, one), (2, two)):
            assert await self.starts(store, executor, claimed, gate=limit(most)) == [False]
        await self.finish(store, executor, outcome(first))
        assert await self.waiting(store, [one, two, three]) == [True, True, False]
        [again] = await self.claim_freed(store, executor)
        await self.begin(store, executor, again, gate=limit(3))
        await self.finish(store, executor, outcome(second))
        assert await self.waiting(store, [one, two]) == [True, True]
        await self.finish(store, executor, outcome(third))
        assert await self.waiting(store, [one, two]) == [True, False]
        [last] = await self.claim_freed(store, executor)
        await self.begin(store, executor, last, gate=limit(2))
        await self.finish(store, executor, outcome(again))
        assert await self.waiting(store, [one]) == [True]
        await self.finish(store, executor, outcome(last))
        assert await self.waiting(store, [one]) == [False]

    async def test_what_is_running_is_not_asked_again(self, store: Store, make: Factory) -> None:
        """A start that is repeated, because its answer was lost, is accepted again."""
        executor, [first] = await self.crowd(store, make, 1)
        await self.begin(store, executor, first, gate=limit(1))
        assert await self.starts(store, executor, first, gate=limit(1)) == [True]

    async def test_what_waits_can_be_cancelled(self, store: Store, make: Factory) -> None:
        """At once, for nobody holds it."""
        executor, claims = await self.crowd(store, make, 3)
        await self.starts_in_turn(store, executor, *claims, gate=limit(1))
        [first, second, third] = claims
        assert await store.runs.move(RunCancel("default", second.run_id, "ada")) is RunState.CANCELLED
        row = await self.run_row(store, second.run_id)
        assert (row.blocked, row.limit_key) == (False, None)
        assert await self.finish(store, executor, outcome(first)) == []
        assert await self.goes_on(store, third.run_id)

    async def test_what_waits_can_be_skipped_and_not_postponed(self, store: Store, make: Factory) -> None:
        """As what waits for an earlier run."""
        executor, [first, second] = await self.crowd(store, make, 2)
        await self.starts_in_turn(store, executor, first, second, gate=limit(1))
        with pytest.raises(Conflict):
            await store.runs.move(RunPostpone("default", second.run_id, make.now + HOUR))
        assert await store.runs.move(RunSkip("default", second.run_id, "not now")) is RunState.SKIPPED
        assert await self.reason(store, second.run_id) == (RunState.SKIPPED, "requested")

    async def test_a_slot_that_was_not_taken_up_goes_to_the_next(self, store: Store, make: Factory) -> None:
        """The run with the reserved slot was cancelled before it began."""
        executor, [first, second, third] = await self.crowd(store, make, 3)
        await self.starts_in_turn(store, executor, first, second, third, gate=limit(1))
        assert await self.finish(store, executor, outcome(first)) == []
        assert await self.goes_on(store, second.run_id)
        await store.runs.move(RunCancel("default", second.run_id, "ada"))
        assert await self.waiting(store, [third]) == [False]

    async def test_a_slot_whose_job_is_cancelled_goes_to_the_next(self, store: Store, make: Factory) -> None:
        """Its executor stops it, and the slot is free."""
        executor, [first, second] = await self.crowd(store, make, 2)
        await self.starts_in_turn(store, executor, first, second, gate=limit(1))
        await store.jobs.move(make.move(first.job_id, JobAction.CANCEL))
        assert await self.waits(store, second.run_id)
        assert await self.finish(store, executor, outcome(first, RunState.CANCELLED)) == []
        assert await self.goes_on(store, second.run_id)

    async def test_what_was_asked_to_stop_meanwhile_ends_instead_of_waiting(self, store: Store, make: Factory) -> None:
        """As if its holder had given it back."""
        executor, [first, second] = await self.crowd(store, make, 2)
        await self.begin(store, executor, first, gate=limit(1))
        await store.runs.move(RunCancel("default", second.run_id, "ada"))
        assert await self.starts(store, executor, second, gate=limit(1)) == [False]
        assert await self.run_state(store, second.run_id) is RunState.CANCELLED

    async def test_the_overlap_is_settled_before_the_limit(self, store: Store, make: Factory) -> None:
        """A run that its policy skips takes no slot and waits for none."""
        job_id = await self.job_with(store, make, Overlap.SKIP, Overlap.SKIP)
        one, two = await self.register(store, "one"), await self.register(store, "two")
        first, second = await self.claims(store, one, two)
        await self.begin(store, one, first, gate=limit(1))
        assert await self.starts(store, two, second, gate=limit(1)) == [False]
        assert await self.reason(store, second.run_id) == (RunState.SKIPPED, "overlap")
        assert (await self.job_row(store, job_id)).job_id == job_id

    async def test_who_waits_in_another_lane_goes_on_too(self, store: Store, make: Factory) -> None:
        """A key may span queues; what it limits is the same everywhere."""
        executor = await self.register(store, queues=("default", "heavy"), lease_seconds=100 * HOUR)
        first = await self.held(store, executor, make.job())
        second = await self.held(store, executor, make.job(lane=lane(queue="heavy")), queues=("heavy",))
        await self.starts_in_turn(store, executor, first, second, gate=limit(1, "namespace"))
        assert await self.finish(store, executor, outcome(first)) == []
        assert await self.goes_on(store, second.run_id)
        [again] = await self.claim_freed(store, executor, queues=("heavy",))
        assert again.run_id == second.run_id

    async def lines(
        self, store: Store, make: Factory, queue: str, count: int
    ) -> tuple[int, Claimed, list[Claimed], Claimed]:
        """The run that has the single slot of a key, and the runs that wait for it: those of a queue, and after them
        one of the queue `default`."""
        executor = await self.register(store, queues=("default", queue), lease_seconds=100 * HOUR)
        running = await self.held(store, executor, make.job(make.now - HOUR))
        await self.begin(store, executor, running, gate=limit(1))
        jobs = [make.job(make.now - 100.0 + number, lane=lane(queue=queue)) for number in range(count)]
        await self.add(store, *jobs)
        others = list(await self.claim(store, executor, queues=(queue,)))
        assert len(others) == count
        last = await self.held(store, executor, make.job())
        starts = await self.starts_in_turn(store, executor, *others, last, gate=limit(1))
        assert starts == [False] * (count + 1)
        return executor, running, others, last

    async def test_a_queue_on_hold_keeps_no_slot_from_others(self, store: Store, make: Factory) -> None:
        """Runs of that queue go on when it is resumed, and until then runs of other queues do; no invariant is
        violated."""
        executor, running, others, last = await self.lines(store, make, "still", 5)
        hold = QueueHold(namespace="default", queue="still", begin=None, until=None, reason=None, by="ada")
        await store.queues.hold(hold)
        assert await self.finish(store, executor, outcome(running)) == []
        assert await self.goes_on(store, last.run_id)
        assert await self.waiting(store, others) == [True] * 5
        [again] = await self.claim_freed(store, executor)
        await self.begin(store, executor, again, gate=limit(1))
        assert await self.finish(store, executor, outcome(again)) == []
        assert await self.waiting(store, others) == [True] * 5
        assert list((await store.checks.violations(Check.WAITS_FOR_SOMETHING, after=None, limit=10)).found) == []
        assert await store.queues.resume("default", "still") is True
        assert [await self.waits(store, each.run_id) for each in others] == [False, True, True, True, True]

    async def test_a_hold_that_is_over_by_its_time_lets_its_queue_have_slots(self, store: Store, make: Factory) -> None:
        """From the next sweep on, which has its time: until then nothing is wrong."""
        executor, running, others, last = await self.lines(store, make, "still", 1)
        until = await store.now() + HOUR
        hold = QueueHold(namespace="default", queue="still", begin=None, until=until, reason=None, by="ada")
        await store.queues.hold(hold)
        assert await store.runs.move(RunCancel("default", last.run_id, "ada")) is RunState.CANCELLED
        assert await self.finish(store, executor, outcome(running)) == []
        assert await self.waiting(store, others) == [True]
        await self.shift(store, HOUR + 1.0)
        assert list((await store.checks.violations(Check.WAITS_FOR_SOMETHING, after=None, limit=10)).found) == []
        assert await self.waiting(store, others) == [False]

    async def test_those_whom_nobody_takes_hold_up_the_others_for_a_few_sweeps_alone(
        self, store: Store, make: Factory
    ) -> None:
        """Fifteen whose queue no executor serves any more: each sweep a second later wakes as many as the ones before
        it, together; with the fourth everybody has been woken, and the last of all starts."""
        executor, running, others, last = await self.lines(store, make, "deserted", 15)
        assert await self.finish(store, executor, outcome(running)) == []
        for _ in range(4):
            await self.shift(store, 1.5)
            await store.runs.unblock()
        assert [await self.waits(store, each.run_id) for each in (*others, last)] == [False] * 16
        [again] = await self.claim_freed(store, executor)
        await self.begin(store, executor, again, gate=limit(1))
        assert again.run_id == last.run_id

    async def test_what_was_woken_in_vain_passes_no_limit(self, store: Store, make: Factory) -> None:
        """Sixteen are woken one after the other while nobody takes them; then they all want to start, and one does."""
        executor, running, others, last = await self.lines(store, make, "deserted", 15)
        assert await self.finish(store, executor, outcome(running)) == []
        for _ in range(4):
            await self.shift(store, 1.5)
            await store.runs.unblock()
        again = await self.claim_freed(store, executor, queues=("default", "deserted"))
        assert {each.run_id for each in again} == {each.run_id for each in (*others, last)}
        assert sorted(await self.starts(store, executor, *again, gate=limit(1))) == [False] * 15 + [True]

    async def test_starts_at_the_same_moment_do_not_pass_the_limit(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """Twelve at once, through two clients: three begin, nine wait."""
        executor, claims = await self.crowd(store, make, 12)
        clients = [store, other] * 6
        starts = await asyncio.gather(
            *(
                self.starts(client, executor, claimed, gate=limit(3))
                for client, claimed in zip(clients, claims, strict=True)
            )
        )
        assert sorted(starts) == [[False]] * 9 + [[True]] * 3
        states = [await self.run_state(store, claimed.run_id) for claimed in claims]
        assert states.count(RunState.RUNNING) == 3

    async def test_nobody_is_forgotten_who_begins_to_wait_while_a_slot_becomes_free(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """Ends and starts at the same moment, ten times: the refused run goes on."""
        executor, claims = await self.crowd(store, make, 11)
        [running, *others] = claims
        await self.begin(store, executor, running, gate=limit(1))
        for claimed in others:
            _, [began] = await asyncio.gather(
                self.finish(store, executor, outcome(running)), self.starts(other, executor, claimed, gate=limit(1))
            )
            if began:
                running = claimed
                continue
            assert await self.goes_on(store, claimed.run_id)
            [running] = await self.claim_freed(store, executor)
            await self.begin(store, executor, running, gate=limit(1))
            assert running.run_id == claimed.run_id

    async def test_many_executors_never_pass_the_limit_and_every_run_has_its_turn(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """Four, through two clients, at twenty runs of which two may run at once, until all have ended."""
        jobs = [make.job() for _ in range(20)]
        await self.add(store, *jobs)
        executors = [await self.register(store, f"number {number}", lease_seconds=100 * HOUR) for number in range(4)]
        running: set[UUID] = set()
        most: list[int] = []
        ended: list[UUID] = []

        async def work(client: Store, executor: int) -> None:
            claims = await self.claim(client, executor, limit=3)
            for claimed in claims:
                if await self.starts(client, executor, claimed, gate=limit(2)) == [True]:
                    running.add(claimed.run_id)
                    most.append(len(running))
                    await client.now()  # The others get their chance to begin one too many.
                    running.remove(claimed.run_id)
                    assert await self.finish(client, executor, outcome(claimed)) == []
                    ended.append(claimed.run_id)

        for _ in range(MAX_ROUNDS):
            if len(ended) == len(jobs):
                break
            await asyncio.gather(
                *(work(client, executor) for client, executor in zip([store, other] * 2, executors, strict=True))
            )
            await store.runs.unblock()
            await self.shift(store, 2.0)
        assert sorted(ended) == sorted(job.run_id for job in jobs if job.run_id is not None)
        assert max(most) <= 2
