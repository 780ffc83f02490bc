"""The facts for claim hints: the runs that a fire made, the lane of a timer's runs, and the runs that stayed queued."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

import pytest

from tickwise.ports.store import Ready, Store
from tickwise.testing.contracts.base import StoreContract, lane, microseconds
from tickwise.testing.contracts.store.dispatch.named_claims import name_of
from tickwise.testing.factories import Factory, outcome

HOUR = 3600.0


class FiredNamesContract(StoreContract):
    """`timers.fire` with the names of the runs, and the lane of a `Timer`."""

    async def test_a_fire_names_the_runs_that_it_made(self, store: Store, make: Factory) -> None:
        """Each with its lane, and ready no later than it is due; they are there, and can be claimed by these names."""
        urgent = lane(9, queue="heavy", requires=("gpu",))
        jobs = [make.job(make.now + 100.0), make.job(make.now + 101.0, lane=urgent), make.job(make.now + HOUR)]
        await self.add(store, *jobs)
        await self.shift(store, 99.0)
        executor = await self.register(store)
        made = {ready.run_id: ready for ready in (await store.timers.fire(5.0, 100, named=True)).ready}
        assert {run_id: ready.lane for run_id, ready in made.items()} == {
            name_of(jobs[0]): lane(),
            name_of(jobs[1]): urgent,
        }
        assert made[name_of(jobs[0])].ready <= make.now + 100.0
        assert made[name_of(jobs[1])].ready <= make.now + 101.0
        [claimed] = await self.claim(store, executor, ahead_seconds=5.0)
        assert claimed.run_id == jobs[0].run_id
        assert (await store.upkeep.stats()).timers == 1

    async def test_a_fire_says_the_namespace_of_each_run(self, store: Store, other: Store, make: Factory) -> None:
        """Lanes that are alike in two namespaces are two lanes, also to a client that has met neither."""
        jobs = [make.job(make.now + 100.0, namespace=name) for name in ("default", "elsewhere")]
        await self.add(store, *jobs)
        await self.shift(store, 99.0)
        made = {ready.run_id: ready.namespace for ready in (await other.timers.fire(5.0, 100, named=True)).ready}
        assert made == {name_of(job): job.namespace for job in jobs}

    async def test_a_fire_gives_the_definitions_that_may_name_a_trace(self, store: Store, make: Factory) -> None:
        """If the caller asks for them; long ones are left out."""
        named = '{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}'
        jobs = [
            make.job(make.now + 100.0, definition=text)
            for text in (named, "{}", named[:-1] + f',"payload":"{"x" * 9_000}"' + "}")
        ]
        await self.add(store, *jobs)
        await self.shift(store, 99.0)
        fired = await store.timers.fire(5.0, 100, named=True, traced=True)
        assert fired.definitions == {name_of(jobs[0]): named}
        assert len(fired.ready) == 3
        await self.add(store, make.job(make.now + 101.0, definition=named))
        assert (await store.timers.fire(5.0, 100, named=True)).definitions == {}

    async def test_a_fire_of_nothing_names_nothing(self, store: Store, make: Factory) -> None:
        """Timers beyond the horizon stay, and so do timers that need a decision."""
        await self.add(store, make.job(make.now + HOUR), make.recurring(make.now - 60.0))
        assert list((await store.timers.fire(5.0, 100, named=True)).ready) == []
        assert (await store.upkeep.stats()).timers == 2

    async def test_the_earliest_are_fired_and_named_first_up_to_the_limit(self, store: Store, make: Factory) -> None:
        """The rest waits for the next call."""
        jobs = [make.job(make.now + 100.0 + number) for number in (4, 1, 3, 0, 2)]
        await self.add(store, *jobs)
        await self.shift(store, 200.0)
        first = {ready.run_id for ready in (await store.timers.fire(0.0, 2, named=True)).ready}
        assert first == {jobs[3].run_id, jobs[1].run_id}
        second = {ready.run_id for ready in (await store.timers.fire(0.0, 100, named=True)).ready}
        assert second == {jobs[4].run_id, jobs[2].run_id, jobs[0].run_id}

    async def test_each_run_is_named_by_the_one_who_made_it(self, store: Store, other: Store, make: Factory) -> None:
        """Of six who fire at a time, through two clients, some without names."""
        jobs = [make.job(make.now + 100.0) for _ in range(120)]
        await self.add(store, *jobs)
        await self.shift(store, 200.0)
        named: list[UUID] = []
        unnamed = 0
        for _ in range(10):
            answers = await asyncio.gather(*(client.timers.fire(0.0, 7, named=True) for client in [store, other] * 2))
            named += [ready.run_id for answer in answers for ready in answer.ready]
            unnamed += (await other.timers.fire(0.0, 3)).timers
        while rest := (await store.timers.fire(0.0, 50, named=True)).ready:
            named += [ready.run_id for ready in rest]
        assert len(named) == len(set(named)) == 120 - unnamed
        assert (await store.upkeep.stats()).queued == 120

    async def test_a_timer_says_where_the_runs_of_its_job_wait(self, store: Store, make: Factory) -> None:
        """By each way of taking it; the scheduler that fires it can tell executors at once."""
        wanted = lane(7, queue="heavy", requires=("gpu", "zone=eu"))
        soon = make.recurring(make.now + 100.0, lane=wanted)
        once = make.job(make.now + 100.0, lane=lane(3))
        await self.add(store, soon, once)
        async with self.near(store, 200.0) as batch:
            assert {timer.job_id: timer.lane for timer in batch.timers} == {soon.job_id: wanted}
        async with self.near(store, 200.0, once=True) as batch:
            assert {timer.job_id: timer.lane for timer in batch.timers} == {soon.job_id: wanted, once.job_id: lane(3)}

    async def test_a_timer_of_other_zone_data_says_it_too(self, store: Store, other: Store, make: Factory) -> None:
        """Also to a client that has not met that lane before."""
        job = make.recurring(make.now + HOUR, lane=lane(2, queue="late"), zone_data="2025a")
        await self.add(store, job)
        async with self.near(other, 1.0, other_zone_data_than="2025b") as batch:
            assert [(timer.job_id, timer.lane) for timer in batch.timers] == [(job.job_id, lane(2, queue="late"))]


class WaitingNamesContract(StoreContract):
    """`runs.waiting`."""

    async def waiting(self, store: Store, *span: float, limit: int = 100) -> Sequence[Ready]:
        """Those that wait for so long."""
        ready_from, ready_to = span
        return await store.runs.waiting(ready_from, ready_to, limit)

    async def waiting_ids(self, store: Store, *span: float, limit: int = 100) -> list[UUID]:
        """The waiting runs by id."""
        return [ready.run_id for ready in await self.waiting(store, *span, limit=limit)]

    async def test_what_nobody_took_is_told_with_its_lane(self, store: Store, make: Factory) -> None:
        """And since when it could be claimed."""
        job = make.job(lane=lane(8, queue="heavy", requires=("gpu",)))
        await self.add(store, job)
        await self.shift(store, 5.0)
        [ready] = await self.waiting(store, 60.0, 1.0)
        assert (ready.run_id, ready.lane) == (job.run_id, job.lane)
        assert microseconds(ready.ready) == microseconds((await self.run_row(store, ready.run_id)).ready_at)

    async def test_what_nobody_took_is_told_with_its_namespace(self, store: Store, other: Store, make: Factory) -> None:
        """Runs of several namespaces come in one answer."""
        jobs = [make.job(namespace=name) for name in ("default", "elsewhere")]
        await self.add(store, *jobs)
        await self.shift(store, 5.0)
        told = {ready.run_id: ready.namespace for ready in await self.waiting(other, 60.0, 1.0)}
        assert told == {name_of(job): job.namespace for job in jobs}

    async def test_only_what_waits_for_that_long_is_told(self, store: Store, make: Factory) -> None:
        """Neither what has just come nor what was told in the span before: each run is in one of two that meet."""
        told: list[list[UUID]] = []
        for _ in range(2):
            jobs = [make.job(make.now + number / 10) for number in range(10)]
            await self.add(store, *jobs)
            told.append(sorted(name_of(job) for job in jobs))
            await self.shift(store, 100.0)
            make = Factory(await store.now(), seed="later")
        spans = [(250.0, 150.0), (150.0, 50.0)]
        assert told == [sorted(await self.waiting_ids(store, *span)) for span in spans]
        assert await self.waiting_ids(store, 50.0, 1.0) == []
        assert await self.waiting_ids(store, HOUR, 250.0) == []

    async def test_the_most_urgent_are_told_first_and_then_the_longest_waiting(
        self, store: Store, make: Factory
    ) -> None:
        """Across queues and namespaces; no more than asked for."""
        theirs = Factory(make.now, namespace="theirs", seed="theirs")
        jobs = [
            make.job(make.now + 0.3, lane=lane(9)),
            theirs.job(make.now + 0.4, lane=lane(9, queue="heavy")),
            make.job(make.now + 0.5, lane=lane(9)),
            make.job(make.now + 0.1, lane=lane(5)),
            make.job(make.now + 0.2, lane=lane(5, requires=("gpu",))),
            make.job(make.now, lane=lane(0)),
        ]
        await self.add(store, *jobs[::-1])
        await self.shift(store, 5.0)
        names = [name_of(job) for job in jobs]
        assert await self.waiting_ids(store, 60.0, 1.0) == names
        assert await self.waiting_ids(store, 60.0, 1.0, limit=3) == names[:3]

    @pytest.mark.parametrize("begun", [False, True])
    async def test_what_somebody_holds_does_not_wait(self, store: Store, make: Factory, begun: bool) -> None:
        """Nor what has ended."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        if begun:
            await self.begin(store, executor, claimed)
        await self.shift(store, 5.0)
        assert await self.waiting_ids(store, 60.0, 0.0) == []
        await self.finish(store, executor, outcome(claimed))
        assert await self.waiting_ids(store, 60.0, 0.0) == []

    async def test_what_cannot_be_claimed_is_not_told(self, store: Store, make: Factory) -> None:
        """A queue on hold; a run that is not due."""
        held, free = make.job(lane=lane(queue="heavy")), make.job()
        await self.add(store, held, free)
        await self.made_ahead(store, make, 90.0)
        await store.queues.hold(make.hold("heavy"))
        await self.shift(store, 1.0)
        assert await self.waiting_ids(store, 60.0, 0.0) == [free.run_id]
        await store.queues.resume("default", "heavy")
        assert sorted(await self.waiting_ids(store, 60.0, 0.0)) == sorted([name_of(free), name_of(held)])
