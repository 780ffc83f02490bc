"""Real concurrency: several schedulers and executors at the runs of one job, and never two of them at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from tickwise.domain.decision import Overlap
from tickwise.domain.lifecycle import FINAL, RunState
from tickwise.domain.model import Claimed, run_id
from tickwise.ports.store import Began, RunQuery, Store
from tickwise.testing.contracts.base import UNSEEN_SECONDS
from tickwise.testing.contracts.store.dispatch.overlap import LineContract
from tickwise.testing.factories import Factory, outcome

HOUR = 3600.0
EXECUTORS = 6
OCCURRENCES = 8
MAX_ROUNDS = 200
"""In each round at least one run begins, waits or ends, so that these are more than are ever needed."""


@dataclass
class Floor:
    """The executions at the executors, as these see them."""

    running: dict[UUID, set[UUID]] = field(default_factory=dict)
    """By job: the runs whose tasks have begun and whose end nobody has reported yet."""
    most: dict[UUID, int] = field(default_factory=dict)
    begun: list[UUID] = field(default_factory=list)

    def begin(self, claimed: Claimed) -> None:
        """A task begins."""
        mine = self.running.setdefault(claimed.job_id, set())
        mine.add(claimed.run_id)
        self.most[claimed.job_id] = max(len(mine), self.most.get(claimed.job_id, 0))
        self.begun.append(claimed.run_id)

    def end(self, claimed: Claimed) -> None:
        """A task has ended; that is reported after this."""
        self.running[claimed.job_id].remove(claimed.run_id)


class RacesContract(LineContract):
    """Overlap, with many at it at the same time."""

    async def work(self, client: Store, executor: int, floor: Floor) -> list[Claimed]:
        """An executor claims and begins what it may. Returns what goes on."""
        claims = await self.claim(client, executor, limit=2)
        guarded = [claimed for claimed in claims if claimed.guarded]
        began = [Began(claimed.run_id, claimed.token, max(claimed.now, claimed.due)) for claimed in guarded]
        # What is not guarded begins without a word to the store, as its executor does it.
        going = [claimed for claimed in claims if not claimed.guarded]
        for claimed in going:
            floor.begin(claimed)
        refused = set(await client.attempts.start(executor, began)) if began else set()
        for claimed in guarded:
            if claimed.run_id not in refused:
                floor.begin(claimed)
                going.append(claimed)
        return going

    async def turn(self, client: Store, executor: int, floor: Floor, meeting: asyncio.Barrier | None) -> None:
        """Begin what may begin, do it, report it. At a meeting nothing ends before everybody has begun."""
        going = await self.work(client, executor, floor)
        if meeting is not None:
            await meeting.wait()
        for claimed in going:
            floor.end(claimed)
        assert list(await client.attempts.finish(executor, [outcome(claimed) for claimed in going])) == []

    async def executors(self, store: Store, count: int = EXECUTORS) -> list[int]:
        """Several, that live long."""
        return [await self.register(store, f"number {number}", lease_seconds=HOUR) for number in range(count)]

    async def states(self, store: Store, job_id: UUID) -> list[RunState]:
        """Of all runs of a job, by their time."""
        rows = await store.searches.runs(RunQuery(namespace="default", job_id=job_id, limit=1000))
        return [row.state for row in reversed(rows)]

    async def schedule(self, client: Store, make: Factory, policy: Overlap, last: float) -> None:
        """One turn of a scheduler: each timer makes one run and goes on a second later, up to `last`."""
        async with self.near(client, 0.0) as batch:
            fires = []
            for timer in batch.timers:
                due = timer.pending.due
                run = make.scheduled(timer.job_id, due, overlap=policy)
                fires.append(make.fire(timer.job_id, due, due + 1.0 if due < last else None, runs=[run]))
            await batch.commit(fires)

    @pytest.mark.parametrize("policy", [Overlap.SKIP, Overlap.QUEUE_ONE, Overlap.QUEUE_ALL])
    async def test_never_two_runs_of_a_job_at_once(
        self, store: Store, other: Store, make: Factory, policy: Overlap
    ) -> None:
        """Four schedulers and six executors at three jobs; every occurrence has its record, and nobody is forgotten."""
        jobs = [make.recurring(make.now) for _ in range(3)]
        await self.add(store, *jobs)
        await self.shift(store, OCCURRENCES + 1.0)
        executors, floor = await self.executors(store), Floor()
        clients = [store, other] * (EXECUTORS // 2)
        last = make.now + OCCURRENCES - 1
        for number in range(MAX_ROUNDS):
            meeting = asyncio.Barrier(EXECUTORS) if number % 2 else None
            await asyncio.gather(
                *(self.schedule(client, make, policy, last) for client in [store, other] * 2),
                *(
                    self.turn(client, executor, floor, meeting)
                    for client, executor in zip(clients, executors, strict=True)
                ),
                store.runs.unblock(),
            )
            stats = await store.upkeep.stats()
            if (stats.timers, stats.queued, stats.held) == (0, 0, 0):
                break
            await self.shift(store, UNSEEN_SECONDS)
            for executor in executors:
                await store.executors.beat(executor, HOUR)
        assert floor.most == {job.job_id: 1 for job in jobs}
        for job in jobs:
            states = await self.states(store, job.job_id)
            assert len(states) == OCCURRENCES
            allowed = {RunState.SUCCESS} if policy is Overlap.QUEUE_ALL else {RunState.SUCCESS, RunState.SKIPPED}
            assert set(states) <= allowed
            # The latest may have been skipped for one before it, but the first has none before it.
            assert RunState.SUCCESS in states
        assert len(floor.begun) == len(set(floor.begun))

    @pytest.mark.parametrize("policy", [Overlap.SKIP, Overlap.QUEUE_ONE, Overlap.QUEUE_ALL])
    async def test_of_many_that_start_together_one_does(
        self, store: Store, other: Store, make: Factory, policy: Overlap
    ) -> None:
        """Each at another executor, in the same moment, none of them finished: the one that is first in line."""
        job_id = await self.job_with(store, make, *[policy] * EXECUTORS)
        executors = await self.executors(store)
        claims = await self.claims(store, *executors)
        await self.finish(store, executors[0], outcome(claims[0]))
        clients = [store, other] * (EXECUTORS // 2)
        starts = await asyncio.gather(
            *(
                self.starts(client, executor, claimed)
                for client, executor, claimed in zip(clients, executors, claims, strict=True)
            )
        )
        assert sum(map(sum, starts)) <= 1
        assert starts[0] == [False]
        states = await self.states(store, job_id)
        running = [state for state in states if state is RunState.RUNNING]
        assert len(running) == sum(map(sum, starts)) == 1
        assert starts[1] == [True]

    async def test_an_end_and_a_start_at_the_same_time_leave_nobody_behind(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """The later one starts, or it waits and has its turn: at each of twelve jobs."""
        lines: list[tuple[int, int, Claimed, Claimed]] = []
        for _ in range(12):
            await self.job_with(store, make, Overlap.QUEUE_ALL, Overlap.QUEUE_ALL)
            one, two = await self.executors(store, 2)
            first, second = await self.claims(store, one, two)
            lines.append((one, two, first, second))
        answers = await asyncio.gather(
            *(self.finish(store, one, outcome(first)) for one, _, first, _ in lines),
            *(self.starts(other, two, second) for _, two, _, second in lines),
        )
        assert answers[: len(lines)] == [[]] * len(lines)
        await store.runs.unblock()
        for (_, _, _, second), started in zip(lines, answers[len(lines) :], strict=True):
            row = await self.run_row(store, second.run_id)
            assert (row.state, row.blocked) == (RunState.RUNNING if started == [True] else RunState.QUEUED, False)

    async def test_who_cancels_the_running_gets_its_place_once_it_has_ended(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """Of many such runs the last one runs; no two at once, and each has its end."""
        job_id = await self.job_with(store, make, *[Overlap.CANCEL_RUNNING] * OCCURRENCES)
        executors, floor = await self.executors(store), Floor()
        clients = [store, other] * (EXECUTORS // 2)
        going: dict[int, list[Claimed]] = {executor: [] for executor in executors}

        async def turn(client: Store, executor: int) -> None:
            for claimed in list(going[executor]):
                asked = {request.run_id for request in (await client.executors.beat(executor, HOUR)).cancels}
                if claimed.run_id in asked:
                    floor.end(claimed)
                    ended = outcome(claimed, RunState.CANCELLED, reason="cancelled")
                    assert list(await client.attempts.finish(executor, [ended])) == []
                    going[executor].remove(claimed)
            going[executor] += await self.work(client, executor, floor)

        for _ in range(MAX_ROUNDS):
            await asyncio.gather(
                *(turn(client, executor) for client, executor in zip(clients, executors, strict=True)),
                store.runs.unblock(),
            )
            *before, last = await self.states(store, job_id)
            if last is RunState.RUNNING and FINAL.issuperset(before):
                break
            await self.shift(store, UNSEEN_SECONDS)
            for executor in executors:
                await store.executors.beat(executor, HOUR)
        assert floor.most == {job_id: 1}
        assert last is RunState.RUNNING
        assert set(before) <= {RunState.CANCELLED, RunState.SKIPPED}
        assert floor.begun[-1] == run_id(job_id, make.now + OCCURRENCES - 1)
