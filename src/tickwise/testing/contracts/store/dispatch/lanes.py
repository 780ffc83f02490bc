"""Lanes: how many there may be, that no namespace uses up what all may have, and that unused ones are freed."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from tickwise.domain.errors import Conflict
from tickwise.domain.model import Lane
from tickwise.ports.store import (
    LANE_IDLE_SECONDS,
    LANES_RESERVED,
    MAX_LANES,
    MAX_LANES_OF_NAMESPACE,
    Added,
    NewJob,
    Replay,
    Retention,
    RunCancel,
    Store,
)
from tickwise.testing.contracts.base import DAY_SECONDS, StoreContract, added, lane
from tickwise.testing.factories import Factory

HOUR = 3600.0
RETENTION = Retention(runs_seconds=30 * DAY_SECONDS, failed_seconds=30 * DAY_SECONDS)
SHORT = Retention(runs_seconds=0.0, failed_seconds=0.0)


def named_lanes(count: int, *, first: int = 0) -> list[Lane]:
    """Different ones, none of them a default lane."""
    return [lane(queue=f"queue-{number}") for number in range(first, first + count)]


class LanesContract(StoreContract):
    """The bounds on different lanes."""

    def jobs_in(self, make: Factory, lanes: list[Lane], namespace: str = "default") -> list[NewJob]:
        """A job of each, due in an hour."""
        return [make.job(make.now + HOUR, lane=each, namespace=namespace) for each in lanes]

    async def test_a_namespace_has_only_so_many_lanes(self, store: Store, other: Store, make: Factory) -> None:
        """One more is refused, by submit and by edit; those that are there go on."""
        wanted = self.jobs_in(make, named_lanes(MAX_LANES_OF_NAMESPACE))
        await self.add(store, *wanted)
        more = make.job(lane=lane(queue="one-more"))
        for client in (store, other):
            for add in (client.jobs.add, partial(client.jobs.add, whole=True)):
                assert list(added(await add([more]))) == [Added.NO_LANE]
        row = await self.job_row(store, wanted[0].job_id)
        with pytest.raises(Conflict) as refused:
            await store.jobs.change(make.change(row, lane=more.lane))
        assert refused.value.code == "lanes_exhausted"
        assert (await store.upkeep.stats()).queued == 0
        await self.add(other, make.job(lane=wanted[-1].lane))
        last = f"queue-{MAX_LANES_OF_NAMESPACE - 1}"
        assert len(await self.claim(store, await self.register(store), queues=[last])) == 1

    async def test_a_job_without_a_lane_takes_no_other_with_it(self, store: Store, make: Factory) -> None:
        """Of a batch of many callers, the others are stored; where all or nothing is asked, nothing is."""
        await self.add(store, *self.jobs_in(make, named_lanes(MAX_LANES_OF_NAMESPACE)))
        lanes = [lane(queue="queue-1"), lane(queue="more"), lane(), lane(queue="yet-more")]
        batch = self.jobs_in(make, lanes)
        answers = [Added.CREATED, Added.NO_LANE, Added.CREATED, Added.NO_LANE]
        assert list(added(await store.jobs.add(batch, whole=True))) == answers
        assert await store.jobs.get("default", batch[0].job_id) is None
        receipt = make.receipt()
        assert list(added(await store.jobs.add(batch, receipt))) == answers
        assert await store.receipts.find(receipt.principal, receipt.route, receipt.key) is None
        stored = [await store.jobs.get("default", job.job_id) is not None for job in batch]
        assert stored == [answer is Added.CREATED for answer in answers]

    async def test_an_earlier_answer_comes_before_a_refusal(self, store: Store, make: Factory) -> None:
        """A request that was answered is answered again, also when there is no more room."""
        receipt = make.receipt()
        await store.jobs.add([make.job()], receipt)
        await self.add(store, *self.jobs_in(make, named_lanes(MAX_LANES_OF_NAMESPACE - 1)))
        for add in (store.jobs.add, partial(store.jobs.add, whole=True)):
            assert isinstance(await add([make.job(lane=lane(queue="more"))], receipt), Replay)

    async def test_the_default_lanes_are_always_there(self, store: Store, make: Factory) -> None:
        """A namespace that has used up its lanes submits to the default queue, whatever the kind of task."""
        await self.add(store, *self.jobs_in(make, named_lanes(MAX_LANES_OF_NAMESPACE)))
        defaults = [lane(), lane(requires=("task:shell",)), lane(requires=("function:*", "task:function"))]
        others = [lane(4), lane(requires=("gpu", "task:shell"))]
        answers = added(await store.jobs.add([make.job(lane=each) for each in (*defaults, *others)]))
        assert list(answers) == [Added.CREATED] * 3 + [Added.NO_LANE] * 2

    async def test_namespaces_do_not_use_up_each_others_lanes(self, store: Store, make: Factory) -> None:
        """However many there are in all, each has some of its own; and no more than those."""
        for number in range(MAX_LANES // MAX_LANES_OF_NAMESPACE):
            await self.add(store, *self.jobs_in(make, named_lanes(MAX_LANES_OF_NAMESPACE), f"greedy-{number}"))
        wanted = self.jobs_in(make, named_lanes(LANES_RESERVED + 3), "modest")
        answers = Counter(added(await store.jobs.add(wanted)))
        assert answers == {Added.CREATED: LANES_RESERVED, Added.NO_LANE: 3}
        assert list(added(await store.jobs.add(self.jobs_in(make, [lane()], "modest")))) == [Added.CREATED]

    async def test_lanes_that_nothing_uses_are_freed(self, store: Store, other: Store, make: Factory) -> None:
        """Their jobs are gone for some time. Lanes that a job or a run uses stay."""
        passing = [make.job(lane=each) for each in named_lanes(MAX_LANES_OF_NAMESPACE - 1)]
        lasting = make.recurring(make.now + 400 * DAY_SECONDS, lane=lane(queue="lasting"))
        await self.add(store, *passing, lasting)
        await self.add(other, make.job(lane=passing[0].lane))
        more = make.job(lane=lane(queue="more"))
        assert list(added(await other.jobs.add([more]))) == [Added.NO_LANE]
        for job in passing[2:]:
            assert job.run_id is not None
            await store.runs.move(RunCancel("default", job.run_id, "x"))
        await self.shift(store, 3 * DAY_SECONDS)
        await store.upkeep.maintain(SHORT)
        await store.upkeep.maintain(SHORT)
        assert list(added(await other.jobs.add([more]))) == [Added.NO_LANE], "they have only just become idle"
        await self.shift(store, LANE_IDLE_SECONDS + 60.0)
        await store.upkeep.maintain(SHORT)
        assert list(added(await other.jobs.add([more]))) == [Added.CREATED]
        again = make.job(lane=passing[5].lane)
        await self.add(other, again)
        executor = await self.register(store)
        queues = ["queue-0", "queue-1", "queue-5", "more"]
        claimed = await self.claim(store, executor, queues=queues)
        assert {each.job_id for each in claimed} >= {again.job_id, more.job_id, passing[1].job_id}
        assert (await self.job_row(store, lasting.job_id)).lane == lasting.lane

    async def test_a_lane_that_is_used_again_is_not_freed(self, store: Store, other: Store, make: Factory) -> None:
        """Also by a process that has known it all the time, and also if its job comes and goes in between."""
        passing = [make.job(lane=each) for each in named_lanes(MAX_LANES_OF_NAMESPACE)]
        await self.add(store, *passing)
        for job in passing:
            assert job.run_id is not None
            await store.runs.move(RunCancel("default", job.run_id, "x"))
        await self.shift(store, 3 * DAY_SECONDS)
        for _ in range(2):
            await store.upkeep.maintain(SHORT)
        await self.shift(store, LANE_IDLE_SECONDS - 60.0)
        again = make.job(lane=passing[7].lane)
        await self.add(other, again)
        await self.shift(store, 120.0)
        await store.upkeep.maintain(RETENTION)
        assert [each.job_id for each in await self.claim(store, await self.register(store), queues=["queue-7"])] == [
            again.job_id
        ]
