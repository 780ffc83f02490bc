"""The position to which a broker's messages are applied, their results, and the name of the store that has them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tickwise.domain.errors import Conflict, VersionConflict
from tickwise.ports.store import (
    EndedOperation,
    MarkedChannel,
    NewExecutor,
    OperationRow,
    OperationStatus,
    Retention,
    Store,
    earliest_mark,
)
from tickwise.testing.contracts.base import DAY_SECONDS, StoreContract, microseconds
from tickwise.testing.factories import Factory

FOR_EVER = Retention(runs_seconds=30 * DAY_SECONDS, failed_seconds=30 * DAY_SECONDS)


async def applied(store: Store, executor: int) -> float:
    """The number up to which the results of an executor are applied; 0: none is."""
    return (await store.marks.get(MarkedChannel.RESULTS, [executor])).get(executor, 0)


async def earliest(store: Store, partitions: int) -> float | None:
    """The time up to which the requests of all partitions are applied."""
    return earliest_mark(await store.marks.get(MarkedChannel.REQUESTS, range(partitions)), partitions)


class MarksContract(StoreContract):
    """`cluster_id`, and the marks of both channels."""

    async def test_a_store_has_one_name(self, store: Store, other: Store) -> None:
        """Every client sees one random identifier, before and after the store was away."""
        name = store.upkeep.cluster_id
        assert other.upkeep.cluster_id == name
        await self.restart(store)
        assert store.upkeep.cluster_id == name
        assert str(UUID(name)) == name
        assert UUID(name).version == 4

    async def test_of_an_executor_that_published_nothing_nothing_is_applied(self, store: Store) -> None:
        """It begins with number 1."""
        assert await applied(store, await self.register(store)) == 0

    async def test_the_results_of_each_executor_are_marked_by_their_numbers(self, store: Store, other: Store) -> None:
        """Several in one call, through any client."""
        one, two = await self.register(store, "one"), await self.register(store, "two")
        await store.marks.put(MarkedChannel.RESULTS, {one: 7, two: 2**40})
        assert [await applied(other, executor) for executor in (one, two)] == [7, 2**40]
        await store.marks.put(MarkedChannel.RESULTS, {})
        await other.marks.put(MarkedChannel.RESULTS, {one: 8})
        assert [await applied(store, executor) for executor in (one, two)] == [8, 2**40]

    async def test_a_mark_of_results_never_goes_back(self, store: Store, other: Store) -> None:
        """Not by a late recorder, nor by several marks in any order."""
        one, two = await self.register(store, "one"), await self.register(store, "two")
        await asyncio.gather(
            *(
                client.marks.put(MarkedChannel.RESULTS, {one: number, two: 2 * number})
                for number in range(1, 9)
                for client in (store, other)
            ),
            *(
                client.marks.put(MarkedChannel.RESULTS, {two: number, one: number})
                for number in range(1, 9)
                for client in (store, other)
            ),
        )
        await store.marks.put(MarkedChannel.RESULTS, {one: 3, two: 9})
        assert [await applied(store, executor) for executor in (one, two)] == [8, 16]

    async def test_an_executor_is_known_by_the_key_that_it_joined_with(self, store: Store, other: Store) -> None:
        """Through any client, also once it left; an empty key is not the lack of one, and of a stranger nothing is
        said."""
        joined = NewExecutor(
            number=1, name="e", queues=("default",), labels=(), functions=(), slots=1, lease_seconds=10.0
        )
        keys = [bytes(range(32)), b"", None]
        numbers = [
            await store.executors.join(replace(joined, number=number, results_key=key))
            for number, key in enumerate(keys, 1)
        ]
        await store.executors.leave(numbers[0])
        expected = dict(zip(numbers, keys, strict=True))
        assert dict(await other.executors.keys([*numbers, numbers[-1] + 1_000])) == expected
        assert dict(await store.executors.keys([])) == {}

    async def test_of_an_executor_that_is_not_there_nothing_is_marked(self, store: Store) -> None:
        """The others of the same call are."""
        one = await self.register(store)
        await store.marks.put(MarkedChannel.RESULTS, {999_999: 5, one: 6})
        assert [await applied(store, executor) for executor in (999_999, one)] == [0, 6]

    async def test_a_mark_of_results_goes_with_its_executor(self, store: Store) -> None:
        """Gone and expired it is kept, since results may still come; forgotten it is not."""
        one = await self.register(store)
        await store.marks.put(MarkedChannel.RESULTS, {one: 6})
        await store.executors.leave(one)
        assert await applied(store, one) == 6
        await self.shift(store, 31 * DAY_SECONDS)
        await store.upkeep.maintain(FOR_EVER)
        assert await applied(store, one) == 0
        await store.marks.put(MarkedChannel.RESULTS, {one: 7})
        assert await applied(store, one) == 0

    async def test_requests_are_applied_up_to_the_earliest_time_of_all_partitions(
        self, store: Store, other: Store
    ) -> None:
        """While nothing is known of one of them, nothing is said."""
        assert await earliest(store, 1) is None
        await store.marks.put(MarkedChannel.REQUESTS, {0: 1_790_000_010.5, 2: 1_790_000_005.0})
        assert await earliest(other, 1) == 1_790_000_010.5
        assert await earliest(other, 3) is None
        await other.marks.put(MarkedChannel.REQUESTS, {1: 1_790_000_007.25})
        assert await earliest(store, 3) == 1_790_000_005.0
        assert await earliest(store, 2) == 1_790_000_007.25

    async def test_a_mark_of_requests_never_goes_back(self, store: Store, other: Store) -> None:
        """Not by a late recorder."""
        await store.marks.put(MarkedChannel.REQUESTS, {0: 1_790_000_010.0, 1: 1_790_000_010.0})
        await other.marks.put(MarkedChannel.REQUESTS, {0: 1_790_000_009.0, 1: 1_790_000_011.0})
        await other.marks.put(MarkedChannel.REQUESTS, {})
        assert [await earliest(store, count) for count in (1, 2)] == [1_790_000_010.0, 1_790_000_010.0]
        await other.marks.put(MarkedChannel.REQUESTS, {0: 1_790_000_012.0})
        assert await earliest(store, 2) == 1_790_000_011.0


class RecordedOperationsContract(StoreContract):
    """`operations.record`."""

    def ended(self, make: Factory, **fields: Any) -> EndedOperation:
        """Something that could not be done."""
        given: dict[str, Any] = {
            "operation_id": make.identifier(),
            "namespace": "default",
            "kind": "jobs:create",
            "request": '{"name":  "late"}',
            "created_by": "ada",
            "created_at": make.now - 30.0,
            "status": OperationStatus.FAILED,
            "problems": '[{"code": "key_taken"}]',
        }
        return EndedOperation(**{**given, **fields})

    async def test_a_change_and_its_operation_are_one(self, store: Store, make: Factory) -> None:
        """On record with the change, also when that is repeated after a doubt; not on record if it is refused."""
        job, other = make.recurring(make.now + 3_600.0), make.recurring(make.now + 3_600.0, key="taken")
        await self.add(store, job, other)
        row = await self.job_row(store, job.job_id)
        done, refused = self.ended(make, status=OperationStatus.DONE, problems="[]"), self.ended(make)
        change = make.change(row, name="changed", operation=done)
        await store.jobs.change(change)
        assert OperationStatus.DONE == (await self.operation(store, done)).status
        await store.jobs.change(change)
        late = make.change(row, name="late", operation=refused)
        clash = make.change(await self.job_row(store, job.job_id), key="taken", operation=refused)
        for wrong, why in ((late, VersionConflict), (clash, Conflict)):
            with pytest.raises(why):
                await store.jobs.change(wrong)
        assert await store.operations.get(refused.namespace, refused.operation_id) is None
        row = await self.job_row(store, job.job_id)
        assert (row.name, row.key, row.version) == ("changed", None, 2)

    async def operation(self, store: Store, ended: EndedOperation) -> OperationRow:
        """It, as it is on record."""
        row = await store.operations.get(ended.namespace, ended.operation_id)
        assert row is not None
        return row

    async def test_what_failed_is_on_record_with_its_problems(self, store: Store, make: Factory) -> None:
        """The request is kept byte for byte, with its time."""
        failed = self.ended(make)
        await store.operations.record([failed])
        row = await self.operation(store, failed)
        assert (row.kind, row.request, row.created_by) == ("jobs:create", '{"name":  "late"}', "ada")
        assert (row.status, row.problems) == (OperationStatus.FAILED, '[{"code": "key_taken"}]')
        assert (row.matched, row.done, row.refused, row.step, row.cursor) == (1, 0, 1, 0, None)
        assert microseconds(row.created_at) == microseconds(make.now - 30.0)
        assert row.ended_at is not None
        assert abs(row.ended_at - await store.now()) < 60.0

    async def test_what_was_done_is_on_record_beside_what_failed(self, store: Store, make: Factory) -> None:
        """Of several namespaces at once; each sees its own, the newest first."""
        done = self.ended(make, status=OperationStatus.DONE, problems="[]", kind="jobs:change")
        theirs = self.ended(make, namespace="theirs")
        failed = self.ended(make, operation_id=make.identifier(ahead_seconds=1.0))
        await store.operations.record([done, theirs, failed])
        await store.operations.record([])
        row = await self.operation(store, done)
        assert (row.status, row.done, row.refused) == (OperationStatus.DONE, 1, 0)
        listed = [row.operation_id for row in await store.searches.operations("default", None, 10)]
        assert listed == [failed.operation_id, done.operation_id]
        changes = await store.searches.operations("default", None, 10, kinds=["jobs:change"])
        assert [row.operation_id for row in changes] == [done.operation_id]

    async def test_what_is_on_record_stays_as_it_is(self, store: Store, make: Factory) -> None:
        """Applied twice is applied once, also within one call; a running one is not ended by it."""
        first = self.ended(make)
        again = self.ended(make, operation_id=first.operation_id, status=OperationStatus.DONE, problems="[]")
        running = make.operation()
        await store.operations.add(running)
        over = self.ended(make, operation_id=running.operation_id)
        await store.operations.record([first, again, over])
        await store.operations.record([again])
        assert (await self.operation(store, first)).status is OperationStatus.FAILED
        assert (await self.operation(store, over)).status is OperationStatus.RUNNING

    async def test_nobody_takes_in_hand_or_cancels_what_is_over(self, store: Store, make: Factory) -> None:
        """It failed, and that is the last word."""
        failed = self.ended(make)
        await store.operations.record([failed])
        assert await store.operations.take(30.0) is None
        row = await store.operations.cancel("default", failed.operation_id)
        assert row.status is OperationStatus.FAILED
