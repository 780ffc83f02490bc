"""Operations over many things: stored, in one hand at a time, moved page by page under a fence."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from tickwise.domain.callers import Asker
from tickwise.domain.errors import NotFound
from tickwise.ports.store import OperationRow, OperationStatus, OperationStep, Replay, Store
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.factories import Factory

HOLD_SECONDS = 30.0


def step(row: OperationRow, cursor: str | None = "c1", **fields: Any) -> OperationStep:
    """The page after what this row says."""
    given: dict[str, Any] = {"done": 2, "refused": 1, "problems": '[{"id": "x"}]'}
    return OperationStep(
        **{**given, "operation_id": row.operation_id, "expected_step": row.step, "cursor": cursor, **fields}
    )


class OperationsContract(StoreContract):
    """`operations.add` to `operations.step`."""

    async def added_operation(self, store: Store, make: Factory, **fields: Any) -> OperationRow:
        """A new one."""
        row = await store.operations.add(make.operation(**fields))
        assert isinstance(row, OperationRow)
        return row

    async def taken(self, store: Store, hold_seconds: float = HOLD_SECONDS) -> OperationRow:
        """One that must be there to take."""
        row = await store.operations.take(hold_seconds)
        assert row is not None
        return row

    async def operation(self, store: Store, operation_id: UUID) -> OperationRow:
        """One that must be there."""
        row = await store.operations.get("default", operation_id)
        assert row is not None
        return row

    async def test_a_new_operation_is_running_and_nothing_is_done(self, store: Store, make: Factory) -> None:
        """The request is kept byte for byte."""
        request = '{"filter":  {"job_id": "x"}}'
        row = await self.added_operation(store, make, request=request, matched=None, kind="jobs:pause")
        assert (row.namespace, row.kind, row.request, row.created_by) == ("default", "jobs:pause", request, "ada")
        assert (row.status, row.matched, row.cursor, row.step) == (OperationStatus.RUNNING, None, None, 0)
        assert (row.done, row.refused, row.problems, row.ended_at) == (0, 0, "[]", None)
        assert abs(row.created_at - await store.now()) < 60.0
        assert await self.operation(store, row.operation_id) == row

    async def test_it_says_who_asked_for_it(self, store: Store, make: Factory) -> None:
        """Key, person and owner come back wherever the operation does; one without them says so."""
        askers = [
            Asker(key_id=make.identifier()),
            Asker(key_id=make.identifier(), owner_id=make.identifier()),
            Asker(user_id=make.identifier()),
            None,
        ]
        for asker in askers:
            row = await self.added_operation(store, make, asker=asker)
            taken = await self.taken(store)
            found = [row, taken, await self.operation(store, row.operation_id)]
            listed = await store.searches.operations("default", None, 10)
            found += [each for each in listed if each.operation_id == row.operation_id]
            assert await store.operations.step(step(taken, None))
            found.append(await store.operations.cancel("default", row.operation_id))
            assert [asker] * 5 == [each.asker for each in found]

    async def test_one_that_cannot_go_on_ends_as_failed(self, store: Store, make: Factory) -> None:
        """Its finished pages stay done, and it is not taken again."""
        row = await self.added_operation(store, make)
        assert await store.operations.step(step(await self.taken(store)))
        last = step(await self.taken(store), None, done=0, refused=0, problems='["no"]', failed=True)
        assert await store.operations.step(last)
        assert await store.operations.step(last)
        found = await self.operation(store, row.operation_id)
        assert (found.status, found.done, found.problems) == (OperationStatus.FAILED, 2, '["no"]')
        assert found.ended_at is not None
        assert await store.operations.take(HOLD_SECONDS) is None
        assert not await store.operations.step(step(found))

    async def test_one_of_the_same_id_stays_as_it_is(self, store: Store, make: Factory) -> None:
        """As after an answer that was lost."""
        new = make.operation()
        await store.operations.add(new)
        first = await self.taken(store)
        assert await store.operations.step(step(first))
        again = await store.operations.add(new)
        assert isinstance(again, OperationRow)
        assert (again.step, again.done) == (1, 2)

    async def test_an_answer_is_kept_with_its_operation(self, store: Store, make: Factory) -> None:
        """A repeat of the Idempotency-Key gets it again, and no second operation begins."""
        receipt = make.receipt(route="POST /runs:cancel")
        first = await store.operations.add(make.operation(), receipt=receipt)
        assert isinstance(first, OperationRow)
        second = make.operation()
        again = await store.operations.add(second, receipt=receipt)
        assert again == Replay(body_digest=receipt.body_digest, status=receipt.status, body=receipt.body)
        assert await store.operations.get("default", second.operation_id) is None

    async def test_an_operation_has_one_taker(self, store: Store, make: Factory) -> None:
        """For as long as was said; then the next one may, for the first may be dead."""
        row = await self.added_operation(store, make)
        assert (await self.taken(store)).operation_id == row.operation_id
        assert await store.operations.take(HOLD_SECONDS) is None
        await self.shift(store, HOLD_SECONDS + 1.0)
        assert (await self.taken(store)).operation_id == row.operation_id

    async def test_of_many_who_take_at_once_one_gets_it(self, store: Store, other: Store, make: Factory) -> None:
        """Eight at the same moment, through two clients."""
        row = await self.added_operation(store, make)
        answers = await asyncio.gather(*(client.operations.take(HOLD_SECONDS) for client in [store, other] * 4))
        assert [answer.operation_id for answer in answers if answer is not None] == [row.operation_id]

    async def test_the_one_that_waits_longest_is_taken_first(self, store: Store, make: Factory) -> None:
        """A page of each in turn: none is held up by a large one."""
        rows = []
        for _ in range(3):
            rows.append(await self.added_operation(store, make))
            await self.shift(store, 1.0)
        order: list[UUID] = []
        for _ in range(5):
            taken = await self.taken(store)
            order.append(taken.operation_id)
            assert await store.operations.step(step(taken, cursor=f"after {taken.step}"))
            await self.shift(store, 1.0)
        names = [row.operation_id for row in rows]
        assert order == [*names, *names[:2]]

    async def test_a_page_is_put_on_record(self, store: Store, make: Factory) -> None:
        """Counts add up, the cursor moves, the operation is free for the next page at once."""
        await self.added_operation(store, make)
        first = await self.taken(store)
        assert await store.operations.step(step(first))
        second = await self.taken(store)
        assert (second.cursor, second.step, second.done, second.refused) == ("c1", 1, 2, 1)
        assert second.problems == '[{"id": "x"}]'
        assert await store.operations.step(step(second, cursor="c2", done=5, refused=0, problems="[]"))
        row = await self.operation(store, first.operation_id)
        assert (row.cursor, row.step, row.done, row.refused, row.problems) == ("c2", 2, 7, 1, "[]")
        assert (row.status, row.ended_at) == (OperationStatus.RUNNING, None)

    async def test_the_last_page_ends_it(self, store: Store, make: Factory) -> None:
        """Nobody takes it any more."""
        await self.added_operation(store, make)
        first = await self.taken(store)
        assert await store.operations.step(step(first, cursor=None))
        row = await self.operation(store, first.operation_id)
        assert (row.status, row.done, row.refused) == (OperationStatus.DONE, 2, 1)
        assert row.ended_at is not None
        await self.shift(store, HOLD_SECONDS + 1.0)
        assert await store.operations.take(HOLD_SECONDS) is None

    @pytest.mark.parametrize("cursor", ["c1", None])
    async def test_a_page_that_is_reported_twice_counts_once(
        self, store: Store, make: Factory, cursor: str | None
    ) -> None:
        """The answer was lost; the same report again is accepted and changes nothing."""
        await self.added_operation(store, make)
        first = await self.taken(store)
        assert await store.operations.step(step(first, cursor=cursor))
        before = await self.operation(store, first.operation_id)
        assert await store.operations.step(step(first, cursor=cursor))
        assert await self.operation(store, first.operation_id) == before

    async def test_a_taker_that_was_too_slow_moves_nothing(self, store: Store, make: Factory) -> None:
        """Another one has taken and moved it meanwhile."""
        await self.added_operation(store, make)
        slow = await self.taken(store)
        await self.shift(store, HOLD_SECONDS + 1.0)
        swift = await self.taken(store)
        assert await store.operations.step(step(swift, cursor="c1"))
        before = await self.operation(store, slow.operation_id)
        assert not await store.operations.step(step(slow, cursor="elsewhere", done=9))
        assert await self.operation(store, slow.operation_id) == before

    async def test_a_taker_that_was_slow_but_alone_still_moves_it(self, store: Store, make: Factory) -> None:
        """Its time is over, and nobody has moved it: its page counts."""
        await self.added_operation(store, make)
        slow = await self.taken(store)
        await self.shift(store, HOLD_SECONDS + 1.0)
        assert await store.operations.step(step(slow))
        assert (await self.operation(store, slow.operation_id)).step == 1

    async def test_nothing_moves_what_is_not_there(self, store: Store, make: Factory) -> None:
        """An id that never was."""
        row = await self.added_operation(store, make)
        assert not await store.operations.step(step(row, operation_id=make.identifier()))

    async def test_a_cancelled_operation_does_not_go_on(self, store: Store, make: Factory) -> None:
        """It is over, and nobody takes it."""
        row = await self.added_operation(store, make)
        cancelled = await store.operations.cancel("default", row.operation_id)
        assert cancelled.status is OperationStatus.CANCELLED
        assert cancelled.ended_at is not None
        assert await store.operations.take(HOLD_SECONDS) is None

    @pytest.mark.parametrize("cursor", ["c1", None])
    async def test_the_page_that_was_in_hand_is_put_on_record(
        self, store: Store, make: Factory, cursor: str | None
    ) -> None:
        """Work done before the cancel stays done, and is counted; the operation stays cancelled, even if that page was
        the last."""
        await self.added_operation(store, make)
        first = await self.taken(store)
        await store.operations.cancel("default", first.operation_id)
        assert await store.operations.step(step(first, cursor=cursor))
        row = await self.operation(store, first.operation_id)
        assert (row.status, row.done, row.refused) == (OperationStatus.CANCELLED, 2, 1)
        assert await store.operations.take(HOLD_SECONDS) is None

    async def test_cancelling_twice_is_cancelling_once(self, store: Store, make: Factory) -> None:
        """It ended when it was first cancelled."""
        row = await self.added_operation(store, make)
        first = await store.operations.cancel("default", row.operation_id)
        await self.shift(store, 5.0)
        assert await store.operations.cancel("default", row.operation_id) == first

    async def test_what_is_done_stays_done(self, store: Store, make: Factory) -> None:
        """A cancel that comes too late changes nothing."""
        await self.added_operation(store, make)
        first = await self.taken(store)
        assert await store.operations.step(step(first, cursor=None))
        assert (await store.operations.cancel("default", first.operation_id)).status is OperationStatus.DONE

    async def test_nobody_sees_operations_of_another_namespace(self, store: Store, make: Factory) -> None:
        """Nor cancels them."""
        row = await self.added_operation(store, make)
        assert await store.operations.get("elsewhere", row.operation_id) is None
        assert list(await store.searches.operations("elsewhere", None, 10)) == []
        with pytest.raises(NotFound):
            await store.operations.cancel("elsewhere", row.operation_id)

    async def test_operations_are_listed_newest_first_and_pages_join(self, store: Store, make: Factory) -> None:
        """None twice, none left out."""
        ids = [make.identifier(number) for number in range(5)]
        for operation_id in ids:
            await self.added_operation(store, make, operation_id=operation_id)
        newest_first = sorted(ids, reverse=True)
        first = [row.operation_id for row in await store.searches.operations("default", None, 2)]
        rest = [row.operation_id for row in await store.searches.operations("default", first[-1], 10)]
        assert first + rest == newest_first

    async def test_operations_are_listed_by_kind_too(self, store: Store, make: Factory) -> None:
        """Only those of the kinds that are asked for, and pages are full of them."""
        kinds = ["jobs:pause", "runs:cancel", "jobs:pause", "runs:retry"]
        ids = [make.identifier(number) for number in range(4)]
        for operation_id, kind in zip(ids, kinds, strict=True):
            await self.added_operation(store, make, operation_id=operation_id, kind=kind)
        by_id = dict(zip(ids, kinds, strict=True))
        found = await store.searches.operations("default", None, 2, kinds=["jobs:pause", "runs:retry"])
        wanted = [each for each in sorted(ids, reverse=True) if by_id[each] != "runs:cancel"]
        assert [row.operation_id for row in found] == wanted[:2]
        assert list(await store.searches.operations("default", None, 10, kinds=[])) == []
