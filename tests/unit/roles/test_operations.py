"""Operations over many things go on page by page, whoever dies; nothing is counted twice."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests.unit.roles.rig import Flaky, Silent, drive
from tickwise.adapters.clock import VirtualClock
from tickwise.adapters.store.memory import MemoryStore
from tickwise.domain.errors import Bug, InDoubt, StoreUnavailable
from tickwise.ports.store import NewOperation, OperationRow, OperationStatus, OperationStep
from tickwise.roles.scheduler.operations import HOLD_SECONDS, LOOK_SECONDS, PAGE, Operations
from tickwise.testing.factories import Factory

SUBJECTS = 3 * PAGE + 7


class Page(NamedTuple):
    """What a page came to."""

    cursor: str | None
    done: int
    refused: int
    problems: str
    failed: bool = False


class Work:
    """Subjects 0, 1, 2, …, each done at most once; every hundredth refuses."""

    def __init__(self, subjects: int = SUBJECTS) -> None:
        self.subjects = subjects
        self.done: set[int] = set()
        self.pages = 0
        self.trouble: Exception | None = None

    async def carry_out(self, operation: OperationRow, size: int) -> Page:
        """The next `size` subjects."""
        if self.trouble is not None:
            raise self.trouble
        self.pages += 1
        begin = 0 if operation.cursor is None else int(operation.cursor)
        some = range(begin, min(begin + size, self.subjects))
        refused = [number for number in some if number % 100 == 99]
        self.done.update(set(some) - set(refused))
        cursor = str(some.stop) if some.stop < self.subjects else None
        return Page(cursor, len(some) - len(refused), len(refused), f'["{len(refused)}"]')


class Rig:
    """A store with operations, and schedulers that carry them out."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock, near_seconds=2.0)
        self.flaky = Flaky(self.store)
        self.make = Factory(self.clock.now())
        self.work = Work()

    def operations(self, work: Work | None = None) -> Operations:
        """Those of one more scheduler."""
        carry_out = (work or self.work).carry_out
        return Operations(self.flaky.operations, carry_out, clock=self.clock, telemetry=Silent())

    async def ask(self, kind: str = "runs:cancel") -> OperationRow:
        """Something to be done to many."""
        operation = NewOperation(
            operation_id=self.make.identifier(),
            namespace="default",
            kind=kind,
            request="{}",
            created_by="ada",
            matched=None,
        )
        row = await self.store.operations.add(operation)
        assert isinstance(row, OperationRow)
        return row

    async def row(self, operation: OperationRow) -> OperationRow:
        """As it is now."""
        row = await self.store.operations.get("default", operation.operation_id)
        assert row is not None
        return row

    async def steps(self, operations: Operations, count: int) -> list[float]:
        """So many, and how long each would wait."""
        waits: list[float] = []

        async def step() -> None:
            waits.append(await operations.step())

        for _ in range(count):
            await drive(self.clock, step())
        return waits


@pytest.fixture
def rig() -> Rig:
    """A fresh store."""
    return Rig()


def counts(row: OperationRow) -> tuple[OperationStatus, int, int]:
    """What people are told."""
    return row.status, row.done, row.refused


EVERYTHING = (OperationStatus.DONE, SUBJECTS - SUBJECTS // 100, SUBJECTS // 100)


async def test_an_operation_is_carried_out_page_by_page_without_a_pause(rig: Rig) -> None:
    """Until nothing is left; what was refused is told."""
    asked = await rig.ask()
    assert [0.0, 0.0, 0.0, 0.0, LOOK_SECONDS] == await rig.steps(rig.operations(), 5)
    assert EVERYTHING == counts(await rig.row(asked))
    assert '["0"]' == (await rig.row(asked)).problems


async def test_operations_have_their_turns(rig: Rig) -> None:
    """A short one does not wait for the end of a long one."""
    await rig.ask()
    await rig.clock.advance(1.0)
    short = await rig.ask()
    taken: list[Any] = []

    async def carry_out(operation: OperationRow, size: int) -> Page:
        taken.append(operation.operation_id)
        await rig.clock.sleep(0.1)
        return await (Work(5) if operation.operation_id == short.operation_id else rig.work).carry_out(operation, size)

    operations = Operations(rig.store.operations, carry_out, clock=rig.clock, telemetry=Silent())
    await rig.steps(operations, 3)
    assert short.operation_id in taken[:2]
    assert OperationStatus.DONE == (await rig.row(short)).status


@pytest.mark.parametrize("lost", [False, True])
async def test_a_page_whose_scheduler_died_is_gone_on_from_by_another(rig: Rig, *, lost: bool) -> None:
    """Whether or not the page was put on record before; each subject is done once and counted once."""
    asked = await rig.ask()
    await rig.steps(rig.operations(), 1)
    rig.flaky.broken = {"operations.step": Bug("the process is dead")}
    if lost:
        rig.flaky.broken, rig.flaky.answers_lost = {}, {"operations.step"}
    with pytest.raises(Exception, match="dead|lost"):
        await rig.steps(rig.operations(), 1)
    rig.flaky.broken, rig.flaky.answers_lost = {}, set()
    await rig.clock.advance(HOLD_SECONDS)
    await rig.steps(rig.operations(), 4)
    assert EVERYTHING == counts(await rig.row(asked))
    assert EVERYTHING[1] == len(rig.work.done)


async def test_a_page_whose_record_is_in_doubt_is_recorded_again_at_once(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same step twice is one."""
    asked = await rig.ask()
    real, calls = rig.store.operations.step, []

    async def operation_step(step: OperationStep) -> bool:
        calls.append(step)
        answer = await real(step)
        if len(calls) == 1:
            raise InDoubt("the answer is lost")
        return answer

    monkeypatch.setattr(rig.store.operations, "step", operation_step)
    assert [0.0] == await rig.steps(rig.operations(), 1)
    assert (2, PAGE) == (len(calls), sum(counts(await rig.row(asked))[1:]))


async def test_nobody_else_has_an_operation_that_is_in_hand(rig: Rig) -> None:
    """Until its scheduler has been silent for too long."""
    await rig.ask()
    assert await rig.store.operations.take(HOLD_SECONDS) is not None
    assert [LOOK_SECONDS] == await rig.steps(rig.operations(), 1)
    await rig.clock.advance(HOLD_SECONDS)
    assert [0.0] == await rig.steps(rig.operations(), 1)


async def test_a_scheduler_that_was_overtaken_counts_nothing(rig: Rig) -> None:
    """It stood still with a page in hand; another one has done that page and more."""
    asked = await rig.ask()
    other = rig.operations(rig.work)

    async def carry_out(operation: OperationRow, size: int) -> Page:
        page = await rig.work.carry_out(operation, size)
        await rig.clock.advance(HOLD_SECONDS)
        await rig.steps(other, 2)
        return page

    slow = Operations(rig.store.operations, carry_out, clock=rig.clock, telemetry=Silent())
    assert 0.0 == await slow.step()
    await rig.steps(other, 4)
    assert EVERYTHING == counts(await rig.row(asked))


async def test_a_cancelled_operation_does_not_go_on(rig: Rig) -> None:
    """What is done stays done."""
    asked = await rig.ask()
    await rig.steps(rig.operations(), 1)
    await rig.store.operations.cancel("default", asked.operation_id)
    assert [LOOK_SECONDS] == await rig.steps(rig.operations(), 1)
    assert (OperationStatus.CANCELLED, PAGE - 2, 2) == counts(await rig.row(asked))


async def test_a_page_that_fails_holds_up_no_other_operation(rig: Rig) -> None:
    """It is tried again later."""
    broken = await rig.ask()
    rig.work.trouble = ValueError("a defect")
    assert [0.0] == await rig.steps(rig.operations(), 1)
    fine = await rig.ask()
    await rig.steps(rig.operations(Work(5)), 1)
    assert OperationStatus.DONE == (await rig.row(fine)).status
    rig.work.trouble = None
    await rig.clock.advance(HOLD_SECONDS)
    await rig.steps(rig.operations(), 4)
    assert EVERYTHING == counts(await rig.row(broken))


@pytest.mark.parametrize("where", ["operations.take", "page"])
async def test_a_store_that_is_away_is_waited_for_as_everywhere(rig: Rig, where: str) -> None:
    """The loop that steps knows how."""
    await rig.ask()
    if where == "page":
        rig.work.trouble = StoreUnavailable("it is away")
    else:
        rig.flaky.away = {where}
    with pytest.raises(StoreUnavailable):
        await rig.operations().step()
