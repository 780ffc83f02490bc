"""Queues on hold: nothing of them is claimed or begun, what is held unbegun is asked back; what has begun goes on."""

from __future__ import annotations

import asyncio
import math
from uuid import UUID

import pytest

from tickwise.domain.lifecycle import CancelKind, RunState
from tickwise.domain.model import joined
from tickwise.domain.retry import OnUnknown
from tickwise.ports.store import QUEUE_HELD, CancelRequest, QueueRow, RunCancel, Store
from tickwise.testing.contracts.base import LEASE_SECONDS, StoreContract, lane, microseconds
from tickwise.testing.factories import Factory, outcome

HOUR = 3600.0


class QueuesContract(StoreContract):
    """`queues.hold`, `queues.resume`, `queues.all`."""

    async def queue(self, store: Store, name: str = "default", namespace: str = "default") -> QueueRow:
        """A queue that must be listed."""
        [row] = [row for row in await store.queues.all(namespace) if row.queue == name]
        return row

    async def claimed_ids(self, store: Store, executor: int, **fields: object) -> set[UUID]:
        """The jobs of what this executor gets."""
        return {claimed.job_id for claimed in await self.claim_freed(store, executor, **fields)}

    async def test_a_queue_on_hold_gives_nothing(self, store: Store, make: Factory) -> None:
        """Neither now nor ahead; the other queues do."""
        executor = await self.register(store, queues=("default", "heavy"))
        await self.add(store, make.job(lane=lane(queue="heavy")))
        other = make.job()
        await self.add(store, other)
        await store.queues.hold(make.hold("heavy"))
        assert await self.claimed_ids(store, executor, queues=("default", "heavy")) == {other.job_id}
        assert await self.claimed_ids(store, executor, queues=("default", "heavy"), ahead_seconds=HOUR) == set()

    async def test_what_comes_while_it_holds_waits_too(self, store: Store, make: Factory) -> None:
        """Also in a lane that nobody had named before."""
        executor = await self.register(store)
        await store.queues.hold(make.hold())
        await self.add(store, make.job(), make.job(lane=lane(9)))
        assert await self.claimed_ids(store, executor) == set()

    async def test_a_queue_goes_on_when_it_is_resumed(self, store: Store, make: Factory) -> None:
        """The runs that waited are claimed."""
        executor = await self.register(store)
        job = make.job()
        await self.add(store, job)
        await store.queues.hold(make.hold())
        assert await self.claimed_ids(store, executor) == set()
        assert await store.queues.resume("default", "default") is True
        assert await self.claimed_ids(store, executor) == {job.job_id}

    async def recorded(self, store: Store, make: Factory) -> list[tuple[float, float]]:
        """The holds of the queue that are on record, as seconds from the begin of the test."""
        found = await store.incidents.between(make.now - HOUR, make.now + 9 * HOUR)
        return [
            (each.begin - make.now, each.end - make.now)
            for each in found
            if each.kind == QUEUE_HELD and each.who == joined("default", "default")
        ]

    async def test_a_hold_leaves_a_record_that_ends_with_it(self, store: Store, make: Factory) -> None:
        """One without an end has an infinite one until it is resumed; one that is replaced ends then."""
        await store.queues.hold(make.hold(begin=make.now - 60.0))
        [(begin, end)] = await self.recorded(store, make)
        assert (round(begin), end) == (-60, math.inf)
        await store.queues.hold(make.hold(until=make.now + HOUR))
        (_, replaced), (again, ends) = await self.recorded(store, make)
        assert replaced <= again
        assert round(ends) == HOUR
        await store.queues.resume("default", "default")
        assert all(end < HOUR for _, end in await self.recorded(store, make))

    async def test_a_hold_that_is_over_by_itself_is_recorded_as_long(self, store: Store, make: Factory) -> None:
        """A resume afterwards, or another hold, changes nothing of it. One that was taken back has no length."""
        await store.queues.hold(make.hold(begin=make.now + HOUR, until=make.now + 2 * HOUR))
        assert [(HOUR, 2 * HOUR)] == [(round(begin), round(end)) for begin, end in await self.recorded(store, make)]
        await store.queues.resume("default", "default")
        assert [(HOUR, HOUR)] == [(round(begin), round(end)) for begin, end in await self.recorded(store, make)]

    async def test_resuming_what_is_not_on_hold_changes_nothing(self, store: Store) -> None:
        """And says so."""
        assert await store.queues.resume("default", "default") is False

    async def test_a_queue_of_another_namespace_goes_on(self, store: Store, make: Factory) -> None:
        """Equal names in two namespaces are two queues."""
        executor = await self.register(store)
        foreign = make.job(namespace="elsewhere")
        await self.add(store, make.job(), foreign)
        await store.queues.hold(make.hold())
        assert await self.claimed_ids(store, executor) == {foreign.job_id}
        assert await store.queues.resume("elsewhere", "default") is False
        assert await self.claimed_ids(store, executor) == set()

    async def test_a_hold_begins_at_its_time(self, store: Store, make: Factory) -> None:
        """Until then it is announced, and all goes on."""
        executor = await self.register(store)
        hold = make.hold(begin=make.now + 100.0)
        assert (await store.queues.hold(hold)).held is False
        before, after = make.job(), make.job()
        await self.add(store, before)
        assert await self.claimed_ids(store, executor) == {before.job_id}
        await self.shift(store, 110.0)
        await self.add(store, after)
        assert await self.claimed_ids(store, executor) == set()
        row = await self.queue(store)
        assert row.held is True
        assert row.hold is not None
        assert microseconds(row.hold.begin) == microseconds(make.now + 100.0)

    async def test_a_hold_ends_at_its_time(self, store: Store, make: Factory) -> None:
        """By itself; then there is none."""
        executor = await self.register(store)
        job = make.job()
        await self.add(store, job)
        assert (await store.queues.hold(make.hold(until=make.now + 100.0))).held is True
        assert await self.claimed_ids(store, executor) == set()
        await self.shift(store, 110.0)
        assert await self.claimed_ids(store, executor) == {job.job_id}
        row = await self.queue(store)
        assert (row.held, row.hold) == (False, None)
        assert await store.queues.resume("default", "default") is False

    async def test_a_new_hold_takes_the_place_of_the_one_before(self, store: Store, make: Factory) -> None:
        """One queue has one hold."""
        await store.queues.hold(make.hold(reason="one", until=make.now + 100.0))
        row = await store.queues.hold(make.hold(reason="two"))
        assert row.hold is not None
        assert (row.hold.reason, row.hold.until) == ("two", None)
        assert [each.queue for each in await store.queues.all("default")] == ["default"]

    async def test_what_was_said_of_a_hold_is_told(self, store: Store, make: Factory) -> None:
        """The reason, the caller, the beginning and the end."""
        before = await store.now()
        row = await store.queues.hold(make.hold(until=make.now + HOUR))
        after = await store.now()
        assert row == await self.queue(store)
        hold = row.hold
        assert hold is not None
        assert (hold.namespace, hold.queue, hold.reason, hold.by) == ("default", "default", "the database moves", "ada")
        assert hold.asked_at is not None
        assert hold.begin is not None
        assert before - 0.001 <= hold.asked_at <= after + 0.001
        assert before - 0.001 <= hold.begin <= after + 0.001
        assert microseconds(hold.until) == microseconds(make.now + HOUR)

    async def test_what_is_held_unbegun_is_asked_back(self, store: Store, make: Factory) -> None:
        """Given back, it waits with the others, and its attempt is not counted."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await store.queues.hold(make.hold())
        assert await self.cancels(store, executor) == [CancelRequest(claimed.run_id, CancelKind.RETURN)]
        assert await self.finish(store, executor, outcome(claimed, RunState.QUEUED)) == []
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, row.attempt, row.cancel) == (RunState.QUEUED, 0, None)
        assert await self.cancels(store, executor) == []
        assert await self.claimed_ids(store, executor) == set()

    async def test_what_is_asked_back_is_so_until_it_is_done(self, store: Store, make: Factory) -> None:
        """At each heartbeat; not any more when the queue goes on."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await store.queues.hold(make.hold())
        for _ in range(3):
            assert await self.cancels(store, executor) == [CancelRequest(claimed.run_id, CancelKind.RETURN)]
        await store.queues.resume("default", "default")
        assert await self.cancels(store, executor) == []
        assert await self.starts(store, executor, claimed) == [True]

    async def test_what_is_asked_back_by_a_hold_to_come_is_so_when_it_begins(self, store: Store, make: Factory) -> None:
        """At the first heartbeat after."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await store.queues.hold(make.hold(begin=make.now + 60.0))
        assert await self.cancels(store, executor) == []
        await self.shift(store, 61.0)
        assert await self.cancels(store, executor) == [CancelRequest(claimed.run_id, CancelKind.RETURN)]

    @pytest.mark.parametrize("on_hold", [True, False])
    async def test_what_is_held_of_a_job_that_changes_its_queue_goes_by_the_new_one(
        self, store: Store, make: Factory, on_hold: bool
    ) -> None:
        """It is asked back if that is on hold, however long it has been, and not any more if only the one before is."""
        executor = await self.register(store, queues=("default", "heavy"))
        job = make.job()
        claimed = await self.held(store, executor, job)
        await store.queues.hold(make.hold("heavy" if on_hold else "default"))
        await self.shift(store, 6.0)
        asked = [CancelRequest(claimed.run_id, CancelKind.RETURN)]
        assert await self.cancels(store, executor) == ([] if on_hold else asked)
        change = make.change(await self.job_row(store, job.job_id), lane=lane(queue="heavy"))
        await store.jobs.change(change)
        assert await self.cancels(store, executor) == (asked if on_hold else [])

    async def test_what_has_begun_goes_on(self, store: Store, make: Factory) -> None:
        """It is not asked back, and ends as it ends."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await self.begin(store, executor, claimed)
        row = await store.queues.hold(make.hold())
        assert (row.running, row.dispatched) == (1, 0)
        assert await self.cancels(store, executor) == []
        assert await self.finish(store, executor, outcome(claimed)) == []
        assert (await self.queue(store)).running == 0

    async def test_what_began_unheard_of_ends_as_it_ends(self, store: Store, make: Factory) -> None:
        """Its start was not recorded, and it was asked back too late."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await store.queues.hold(make.hold())
        await self.cancels(store, executor)
        assert await self.finish(store, executor, outcome(claimed)) == []
        assert await self.run_state(store, claimed.run_id) is RunState.SUCCESS

    async def test_a_start_that_is_recorded_first_is_refused(self, store: Store, make: Factory) -> None:
        """The run is as if it had been given back: free, uncounted, and claimed when the queue goes on."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await store.queues.hold(make.hold())
        assert await self.starts(store, executor, claimed, on_unknown=OnUnknown.FAIL) == [False]
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, row.executor, row.attempt) == (RunState.QUEUED, None, 0)
        await store.queues.resume("default", "default")
        [again] = await self.claim_freed(store, executor)
        assert await self.starts(store, executor, again) == [True]

    async def test_an_ordinary_start_is_recorded_while_the_queue_holds(self, store: Store, make: Factory) -> None:
        """It is told of when the task is under way, and what has begun goes on."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await store.queues.hold(make.hold())
        assert await self.starts(store, executor, claimed) == [True]
        assert await self.run_state(store, claimed.run_id) is RunState.RUNNING

    async def test_a_repeated_start_is_accepted_while_the_queue_holds(self, store: Store, make: Factory) -> None:
        """It is RUNNING already."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await self.begin(store, executor, claimed)
        await store.queues.hold(make.hold())
        assert await self.starts(store, executor, claimed) == [True]

    @pytest.mark.parametrize("held_first", [False, True])
    async def test_a_cancel_goes_before_the_hold(self, store: Store, make: Factory, held_first: bool) -> None:
        """In either order: a run that is to end does not wait for the hold's end."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        if held_first:
            await store.queues.hold(make.hold())
            await store.runs.move(RunCancel("default", claimed.run_id, "ada"))
        else:
            await store.runs.move(RunCancel("default", claimed.run_id, "ada"))
            await store.queues.hold(make.hold())
        assert await self.cancels(store, executor) == [CancelRequest(claimed.run_id, CancelKind.CANCEL)]
        assert await self.finish(store, executor, outcome(claimed, RunState.QUEUED)) == []
        assert await self.run_state(store, claimed.run_id) is RunState.CANCELLED

    async def test_what_is_lost_while_the_queue_holds_waits_with_the_others(self, store: Store, make: Factory) -> None:
        """The request to give it back goes with its holder."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await store.queues.hold(make.hold())
        await self.expire(store, executor)
        assert await self.run_state(store, claimed.run_id) is RunState.QUEUED
        two = await self.register(store, "two")
        assert await self.claimed_ids(store, two) == set()
        await store.queues.resume("default", "default")
        [again] = await self.claim_freed(store, two)
        assert again.run_id == claimed.run_id
        assert await self.cancels(store, two) == []

    async def test_what_waits_can_be_cancelled_while_the_queue_holds(self, store: Store, make: Factory) -> None:
        """A hold stops claims and starts, nothing else."""
        job = make.job()
        await self.add(store, job)
        await store.queues.hold(make.hold())
        assert job.run_id is not None
        assert await store.runs.move(RunCancel("default", job.run_id, "ada")) is RunState.CANCELLED

    async def test_queues_are_listed_with_what_is_in_them(self, store: Store, make: Factory) -> None:
        """By name: those that jobs have named, and those that are held."""
        executor = await self.register(store)
        begun = await self.held(store, executor, make.job())
        await self.begin(store, executor, begun)
        await self.held(store, executor, make.job())
        retried = await self.held(store, executor, make.job())
        late = outcome(retried, RunState.RETRYING, retry_at=make.now + HOUR)
        assert await self.finish(store, executor, late) == []
        await self.add(store, make.job(make.now + 1.9), make.job(lane=lane(queue="heavy")))
        await store.queues.hold(make.hold("quiet", begin=make.now + HOUR))
        rows = await store.queues.all("default")
        assert [(row.queue, row.queued, row.dispatched, row.running, row.held) for row in rows] == [
            ("default", 2, 1, 1, False),
            ("heavy", 1, 0, 0, False),
            ("quiet", 0, 0, 0, False),
        ]
        assert [row.hold is not None for row in rows] == [False, False, True]
        assert list(await store.queues.all("elsewhere")) == []

    async def test_what_a_held_queue_keeps_is_not_told_as_late(self, store: Store, make: Factory) -> None:
        """Nobody is to be woken at night for what somebody wanted."""
        await self.add(store, make.job())
        await store.queues.hold(make.hold())
        await self.shift(store, HOUR)
        assert (await store.upkeep.stats()).oldest_ready_seconds == 0.0
        await store.queues.resume("default", "default")
        assert (await store.upkeep.stats()).oldest_ready_seconds >= HOUR - 1.0

    async def test_a_hold_outlives_a_restart(self, store: Store, make: Factory) -> None:
        """It is stored like everything else."""
        await store.queues.hold(make.hold())
        await self.restart(store)
        await self.add(store, make.job())
        executor = await self.register(store, lease_seconds=LEASE_SECONDS)
        assert await self.claimed_ids(store, executor) == set()

    async def test_a_hold_and_a_claim_at_the_same_moment_agree(self, store: Store, other: Store, make: Factory) -> None:
        """Twenty times: the claim gets nothing, or what it got is asked back."""
        executor = await self.register(store, lease_seconds=HOUR)
        for _ in range(20):
            job = make.job()
            await self.add(store, job)
            _, claims = await asyncio.gather(other.queues.hold(make.hold()), self.claim(store, executor))
            asked = [CancelRequest(claimed.run_id, CancelKind.RETURN) for claimed in claims]
            assert await self.cancels(store, executor) == asked
            assert await self.finish(store, executor, *(outcome(claimed, RunState.QUEUED) for claimed in claims)) == []
            assert job.run_id is not None
            assert await store.runs.move(RunCancel("default", job.run_id, "ada")) is RunState.CANCELLED
            assert await store.queues.resume("default", "default") is True
