"""The feed: each change of a run's state reaches each reader once, and a reader that was away goes on without a gap."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection
from itertools import pairwise
from uuid import UUID

import pytest

from tickwise.domain.feed import ChangeNumber, FeedPlace
from tickwise.domain.lifecycle import CancelKind, RunState, steps
from tickwise.ports.feed import FEED_SECONDS, WATCH_SECONDS, RunChanges
from tickwise.ports.store import RunCancel, RunSkip, Store
from tickwise.testing.contracts.base import UNSEEN_SECONDS
from tickwise.testing.contracts.store.dispatch.limits import CrowdContract, limit
from tickwise.testing.factories import Factory, outcome

HOUR = 3600.0
LATE_SECONDS = 120.0
"""A store may keep changes for so much longer than it must."""
STEPS = 60
STEPS_OF_RUNS = steps()

Seen = tuple[str, UUID, UUID, RunState, int]


class FeedReading:
    """One reader: its place, and what it got."""

    def __init__(self, store: Store, place: FeedPlace) -> None:
        self.store, self.place = store, place
        self.got: list[Seen] = []
        self.numbers: list[ChangeNumber] = []
        self.transactions: dict[ChangeNumber, int] = {}
        self.lost = False

    async def read(self, *, limit: int = 500, namespaces: Collection[str] | None = None) -> list[Seen]:
        """All that there is now."""
        found: list[Seen] = []
        while True:
            page = await self.store.feed.since(self.place, limit=limit, namespaces=namespaces)
            self.place, self.lost = page.place, self.lost or page.lost
            for changes in page.changes:
                found += seen_in(changes)
                numbers = [changes.number(at) for at in range(len(changes.attempts))]
                self.numbers += numbers
                self.transactions |= dict.fromkeys(numbers, changes.transaction)
            if not page.more:
                self.got += found
                return found

    async def states(self, run: UUID) -> list[RunState]:
        """The states that a run came into since the last look, in order."""
        return [state for _, _, run_id, state, _ in await self.read() if run_id == run]


def seen_in(changes: RunChanges) -> list[Seen]:
    """The changes of a batch, one by one."""
    runs, jobs = changes.runs.each(), changes.jobs.each()
    return [
        (changes.namespace, UUID(bytes=job), UUID(bytes=run), changes.state, attempt)
        for run, job, attempt in zip(runs, jobs, changes.attempts, strict=True)
    ]


class FeedContract(CrowdContract):
    """`Store.feed`."""

    async def reading(self, store: Store) -> FeedReading:
        """A reader that begins now."""
        return FeedReading(store, await store.feed.watch())

    async def test_each_state_of_a_run_is_a_change(self, store: Store, make: Factory) -> None:
        """In the order in which it came into them, with its job, its namespace and its attempt."""
        reader = await self.reading(store)
        executor = await self.register(store)
        job = make.job()
        claimed = await self.held(store, executor, job)
        await self.begin(store, executor, claimed)
        await self.finish(store, executor, outcome(claimed, RunState.SUCCESS))
        expected = [RunState.QUEUED, RunState.DISPATCHED, RunState.RUNNING, RunState.SUCCESS]
        attempts = [0, 1, 1, 1]
        assert [
            ("default", job.job_id, claimed.run_id, state, attempt)
            for state, attempt in zip(expected, attempts, strict=True)
        ] == await reader.read()
        assert [] == await reader.read()

    async def test_each_change_has_the_attempt_of_its_run(self, store: Store, make: Factory) -> None:
        """Of runs that one call claims, starts or ends, too."""
        executor = await self.register(store)
        again = await self.held(store, executor, make.job())
        await self.finish(
            store, executor, outcome(again, RunState.RETRYING, retry_at=await store.now() - UNSEEN_SECONDS)
        )
        await self.add(store, make.job(), make.job())
        reader = await self.reading(store)
        claims = await self.claim(store, executor, limit=10, afresh=True)
        assert [1, 1, 2] == sorted(claimed.attempt for claimed in claims)
        await self.starts(store, executor, *claims)
        ends = [RunState.SUCCESS, RunState.FAILED, RunState.SUCCESS]
        await self.finish(store, executor, *(outcome(claimed, end) for claimed, end in zip(claims, ends, strict=True)))
        expected = {
            (claimed.run_id, state, claimed.attempt)
            for claimed, end in zip(claims, ends, strict=True)
            for state in (RunState.DISPATCHED, RunState.RUNNING, end)
        }
        found = [(run, state, attempt) for _, _, run, state, attempt in await reader.read()]
        assert expected == set(found)
        assert 9 == len(found)

    @pytest.mark.parametrize("namespaces", [("default", "default"), ("default", "team-a")])
    async def test_what_is_due_later_is_no_change_yet(
        self, store: Store, make: Factory, namespaces: tuple[str, str]
    ) -> None:
        """Of jobs that come together, those that become runs are queued."""
        soon, later = make.job(namespace=namespaces[0]), make.job(namespace=namespaces[1], due=make.now + 100 * HOUR)
        other = make.job(namespace=namespaces[1])
        reader = await self.reading(store)
        await self.add(store, soon, later, other)
        assert {(soon.namespace, soon.run_id), (other.namespace, other.run_id)} == {
            (namespace, run) for namespace, _, run, _, _ in await reader.read()
        }

    @pytest.mark.parametrize("end", [RunState.SUCCESS, RunState.FAILED, RunState.CANCELLED, RunState.RETRYING])
    async def test_what_an_executor_reports_is_a_change(self, store: Store, make: Factory, end: RunState) -> None:
        """A start that was never recorded is none."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        reader = await self.reading(store)
        await self.finish(store, executor, outcome(claimed, end, retry_at=make.now + HOUR))
        assert [end] == await reader.states(claimed.run_id)

    async def test_what_is_given_back_is_queued_again(self, store: Store, make: Factory) -> None:
        """By its holder, or because its holder is gone."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        reader = await self.reading(store)
        await self.finish(store, executor, outcome(claimed, RunState.QUEUED))
        assert [RunState.QUEUED] == await reader.states(claimed.run_id)
        [claimed] = await self.claim_freed(store, executor)
        await self.begin(store, executor, claimed)
        assert [RunState.DISPATCHED, RunState.RUNNING] == await reader.states(claimed.run_id)
        await self.expire(store, executor)
        assert [RunState.QUEUED] == await reader.states(claimed.run_id)

    async def test_what_an_executor_never_heard_of_is_queued_again(self, store: Store, make: Factory) -> None:
        """The claim whose answer was lost."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        reader = await self.reading(store)
        assert 1 == await store.executors.release_unknown(executor, [], await store.now())
        assert [RunState.QUEUED] == await reader.states(claimed.run_id)

    async def test_a_run_that_its_limit_refuses_was_never_running(self, store: Store, make: Factory) -> None:
        """It is queued again; the one that has the slot is running."""
        executor, [first, second] = await self.crowd(store, make, 2)
        reader = await self.reading(store)
        assert [True, False] == await self.starts_in_turn(store, executor, first, second, gate=limit(1))
        found = await reader.read()
        assert [(first.run_id, RunState.RUNNING), (second.run_id, RunState.QUEUED)] == [
            (run, state) for _, _, run, state, _ in found
        ]

    @pytest.mark.parametrize("kind", [CancelKind.CANCEL, CancelKind.REVOKE])
    async def test_what_people_end_is_a_change(self, store: Store, make: Factory, kind: CancelKind) -> None:
        """A cancel, and a skip."""
        job = make.job()
        await self.add(store, job)
        reader = await self.reading(store)
        assert job.run_id is not None
        if kind is CancelKind.CANCEL:
            await store.runs.move(RunCancel("default", job.run_id, "ada"))
        else:
            await store.runs.move(RunSkip("default", job.run_id, "not today"))
        expected = RunState.CANCELLED if kind is CancelKind.CANCEL else RunState.SKIPPED
        assert [expected] == await reader.states(job.run_id)

    async def test_what_was_before_is_no_change(self, store: Store, make: Factory) -> None:
        """A reader begins with what comes."""
        await store.feed.watch()
        await self.add(store, make.job(), make.job())
        reader = await self.reading(store)
        assert [] == await reader.read()

    async def test_readers_get_the_same(self, store: Store, other: Store, make: Factory) -> None:
        """Also through another client of the store, and under the same numbers."""
        here, there = await self.reading(store), await self.reading(other)
        await self.add(store, *(make.job() for _ in range(5)))
        await self.add(other, *(make.job() for _ in range(5)))
        await here.read()
        await there.read()
        assert 10 == len(here.got) == len(set(here.numbers))
        assert (here.got, here.numbers) == (there.got, there.numbers)

    async def test_a_reader_can_ask_for_some_namespaces(self, store: Store, make: Factory) -> None:
        """The others do not come later either."""
        reader = await self.reading(store)
        await self.add(store, make.job(), make.job(namespace="team-a"), make.job(namespace="team-b"))
        found = await reader.read(namespaces={"team-a", "team-b"})
        assert ["team-a", "team-b"] == sorted(namespace for namespace, *_ in found)
        assert [] == await reader.read()

    @pytest.mark.parametrize("limit", [1, 2, 3, 7])
    async def test_pages_are_all_of_it_once(self, store: Store, make: Factory, limit: int) -> None:
        """With pages of any size."""
        place = await store.feed.watch()
        for _ in range(6):
            await self.add(store, make.job(), make.job(namespace="team-a"))
        whole, small = FeedReading(store, place), FeedReading(store, place)
        await whole.read()
        await small.read(limit=limit)
        assert 12 == len(whole.got)
        assert (whole.numbers, whole.got) == (small.numbers, small.got)

    async def test_a_reader_that_was_away_misses_nothing(self, store: Store, make: Factory) -> None:
        """For as long as is promised, though nobody else reads meanwhile."""
        reader = await self.reading(store)
        await self.add(store, make.job())
        await self.shift(store, FEED_SECONDS - 30.0)
        await store.feed.watch()
        await self.add(store, make.job())
        assert (2, False) == (len(await reader.read()), reader.lost)

    async def test_a_reader_that_was_away_for_too_long_is_told_so(self, store: Store, make: Factory) -> None:
        """And goes on with what comes. Changes do not stay for ever."""
        reader = await self.reading(store)
        await self.add(store, make.job())
        late = await self.reading(store)
        for _ in range(4):
            await self.shift(store, (FEED_SECONDS + LATE_SECONDS) / 2)
            await store.feed.watch()
        await self.add(store, make.job())
        assert (False, True) == (late.lost, not await reader.read() and reader.lost)
        await self.add(store, make.job())
        assert 1 == len(await reader.read())

    async def test_nothing_is_noted_while_nobody_watches(self, store: Store, make: Factory) -> None:
        """And that is no gap that a reader could overlook."""
        reader = await self.reading(store)
        await self.shift(store, WATCH_SECONDS + 1.0)
        await self.add(store, make.job())
        await store.feed.watch()
        assert ([], True) == (await reader.read(), reader.lost)

    async def test_a_place_of_another_time_is_lost(self, store: Store) -> None:
        """Before anything, and after all that there is."""
        place = await store.feed.watch()
        for strange in (FeedPlace(place.epoch, 0), FeedPlace(place.epoch, place.next + 1_000_000), FeedPlace(99, 1)):
            page = await store.feed.since(strange)
            assert (True, []) == (page.lost, list(page.changes))
            assert page.place.covers(place)

    async def test_labels_of_jobs_are_told(self, store: Store, make: Factory) -> None:
        """Of those that have some."""
        labelled, plain = make.job(labels={"team": "a"}), make.job()
        await self.add(store, labelled, plain)
        found = await store.feed.labels([labelled.job_id, plain.job_id, make.identifier()])
        assert {labelled.job_id: {"team": "a"}} == {job: dict(labels) for job, labels in found.items()}

    @pytest.mark.parametrize("seed", range(3))
    async def test_a_walk_is_read_once_by_everybody(self, store: Store, other: Store, make: Factory, seed: int) -> None:
        """Two processes write at once, readers read in between by pages of any size, and one of them goes on from each
        place that it ever had."""
        del seed  # part of the test's name, of which `make` draws
        walk = FeedWalk(self, [store, other], make)
        readers = [await self.reading(each) for each in (store, other)]
        await walk.begin()
        places: list[FeedPlace] = []
        for _ in range(STEPS):
            await asyncio.gather(*(walk.step(each) for each in (store, other)))
            for reader in readers:
                if walk.draw(2):
                    places.append(reader.place)
                    await reader.read(limit=1 + walk.draw(5))
        for reader in readers:
            await reader.read()
            assert (False, len(reader.numbers)) == (reader.lost, len(set(reader.numbers)))
        first = readers[0]
        assert sorted(first.numbers) == sorted(readers[1].numbers)
        for place in places[:: max(1, len(places) // 8)]:
            again = FeedReading(other, place)
            await again.read(limit=3)
            missing = {number for number, transaction in first.transactions.items() if not place.has(transaction)}
            assert missing == set(again.numbers)
        await self.check_lives(store, first.got)

    async def check_lives(self, store: Store, got: list[Seen]) -> None:
        """Each run's changes are moves that it may make, and the last one is where it is."""
        lives: dict[UUID, list[RunState]] = defaultdict(list)
        for _, _, run, state, _ in got:
            lives[run].append(state)
        for run, states in lives.items():
            assert states[0] is RunState.QUEUED
            for earlier, later in pairwise(states):
                assert (earlier, later) in STEPS_OF_RUNS, (run, states)
            assert await self.run_state(store, run) is states[-1], (run, states)


class FeedWalk:
    """A walk of two processes that work on runs at once. Repeatable by its seed."""

    def __init__(self, contract: FeedContract, stores: list[Store], make: Factory) -> None:
        self.contract, self.stores, self.make = contract, stores, make
        self.executors: dict[int, int] = {}

    def draw(self, below: int) -> int:
        """A number from 0 on."""
        return int.from_bytes(self.make.random_bytes()[:4], "big") % below

    async def begin(self) -> None:
        """Each process has an executor."""
        for number, store in enumerate(self.stores):
            self.executors[number] = await self.contract.register(store, f"e{number}", lease_seconds=100 * HOUR)

    async def step(self, store: Store) -> None:
        """Something happens in one process."""
        number = 0 if store is self.stores[0] else 1
        executor = self.executors[number]
        await self.contract.add(store, *(self.make.job() for _ in range(self.draw(4))))
        claims = await self.contract.claim(store, executor, limit=1 + self.draw(4), afresh=True)
        for claimed in claims:
            kind = self.draw(5)
            if kind in (0, 1):
                await self.contract.starts(store, executor, claimed)
            ends = (RunState.SUCCESS, RunState.FAILED, RunState.RETRYING, RunState.QUEUED, RunState.CANCELLED)
            retry_at = await store.now() - UNSEEN_SECONDS
            await self.contract.finish(store, executor, outcome(claimed, ends[self.draw(5)], retry_at=retry_at))
