"""A runner: each attempt ends once, nothing of it runs after that, and a stop is carried out.

class TestMine(Backend, RunnerAttemptsContract): ...     Backend: the fixture `stage`, a runner with one place
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import pytest
import pytest_asyncio
from obstore.store import MemoryStore

from tickwise.adapters.blobs import StoredBlobs
from tickwise.adapters.clock import SystemClock
from tickwise.domain.model import DEFAULT_NAMESPACE, time_id
from tickwise.domain.rules.confinement import OFFERED_PREFIXES
from tickwise.ports.blobs import LOG_LAST, Blobs, log_prefix
from tickwise.ports.runner import Assignment, Ending, Runner, TaskLimits, Verdict
from tickwise.testing.clock import ShiftedClock
from tickwise.testing.contracts.base import Contract

WITHIN_SECONDS: Final = 60.0
"""An expected event has happened by then, on the slowest machine."""
LOOK_SECONDS: Final = 0.01
"""Between two looks at a task that runs elsewhere."""
STORE_AHEAD_SECONDS: Final = 3_600.0
"""The store's clock in these tests is so far ahead of the machine's: a runner that takes the wrong one is found."""
OUTPUT_BYTES: Final = 1 << 20
_CLOCK = SystemClock()

Task = Mapping[str, Any]


def assignment(task: Task, payload: Any = None, **changes: Any) -> Assignment:
    """A first attempt, due now."""
    now = _CLOCK.now()
    run_id, job_id = (time_id(round(now * 1000), _CLOCK.random_bytes(10)) for _ in range(2))
    made = Assignment(
        run_id=run_id,
        token=7,
        job_id=job_id,
        namespace=DEFAULT_NAMESPACE,
        attempt=1,
        due=now,
        nominal=now,
        task=task,
        payload=json.dumps({} if payload is None else payload).encode(),
        timeout_seconds=None,
        limits=TaskLimits(OUTPUT_BYTES),
    )
    return made._replace(**changes)


class Listener:
    """An executor that keeps the reports of its runner, and lets a test wait for them."""

    def __init__(self, lives: Callable[[UUID], bool] | None = None) -> None:
        """`lives`: whether anything of a run's task runs now."""
        self.begun: dict[UUID, float] = {}
        self.endings: dict[UUID, list[Ending]] = {}
        self.order: list[tuple[str, UUID]] = []
        self.outlived: list[UUID] = []
        """Runs whose tasks still ran when their end was reported."""
        self._lives = lives
        self._changed = asyncio.Event()

    def began(self, run_id: UUID, started: float) -> None:
        assert run_id not in self.begun, "began was reported twice"
        assert run_id not in self.endings, "began was reported after the end"
        self.begun[run_id] = started
        self.order.append(("began", run_id))
        self._changed.set()

    def ended(self, run_id: UUID, ending: Ending) -> None:
        if self._lives is not None and self._lives(run_id):
            self.outlived.append(run_id)
        self.endings.setdefault(run_id, []).append(ending)
        self.order.append(("ended", run_id))
        self._changed.set()

    def ended_many(self, endings: Sequence[tuple[UUID, Ending]]) -> None:
        for run_id, ending in endings:
            self.ended(run_id, ending)

    async def until_begun(self, given: Assignment) -> float:
        await self._until(lambda: given.run_id in self.begun)
        return self.begun[given.run_id]

    async def ending_of(self, given: Assignment) -> Ending:
        await self._until(lambda: given.run_id in self.endings)
        (ending,) = self.endings[given.run_id]
        return ending

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WITHIN_SECONDS):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


class RunnerBlobs(StoredBlobs):
    """Blobs in memory, for the output of tasks, until they take nothing any more."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__(MemoryStore())
        self.error = error
        """Raised by every `put`."""

    async def put(self, key: str, content: bytes) -> None:
        if self.error is not None:
            raise self.error
        await super().put(key, content)


async def log_of(blobs: Blobs, given: Assignment) -> str:
    """The log of an attempt that has ended. It must be complete; an attempt without output has none."""
    chunks = await blobs.list(log_prefix(given.run_id, given.attempt))
    if not chunks:
        return ""
    assert chunks[-1].key.endswith(LOG_LAST), f"the log is not complete: {chunks}"
    return b"".join([await blobs.get(chunk.key) for chunk in chunks]).decode()


@dataclass(kw_only=True)
class RunnerStage:
    """A runner with one place, not started, and tasks for it. Tasks are written as a user writes them."""

    runner: Runner
    quick: Task
    """Ends well at once, without output."""
    lasting: Task
    """Runs until it is stopped, and ends as soon as it is asked to."""
    failing: Task
    """Ends at once with a failure that may be tried again."""
    lives: Callable[[UUID], bool]
    """Check whether a process of the run's task runs now, if the task is `lasting` or `stubborn`."""
    stubborn: Task | None = None
    """Runs until it is killed. None: no task of this runner can resist a stop."""
    payload: Any = None
    """Of every run."""
    store_clock: ShiftedClock = field(default_factory=ShiftedClock)
    listener: Listener = field(init=False)
    given: list[Assignment] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store_clock.shift(STORE_AHEAD_SECONDS)
        self.listener = Listener(self.lives)

    def assign(self, task: Task, **changes: Any) -> Assignment:
        """A run of this task, as its kind has checked it."""
        kind = next(kind for kind in self.runner.kinds if kind.name == task["kind"])
        return assignment(kind.check(task), self.payload, **changes)

    def launch(self, *tasks: Task, **changes: Any) -> list[Assignment]:
        """Launch a run of each task in one batch."""
        batch = [self.assign(task, **changes) for task in tasks]
        self.given += batch
        self.runner.launch(batch)
        return batch

    async def until_lives(self, given: Assignment) -> None:
        """Wait until its task runs. A runner need not report the beginning, so the task itself is looked at."""
        async with asyncio.timeout(WITHIN_SECONDS):
            while not self.lives(given.run_id):
                assert given.run_id not in self.listener.endings, f"it ended: {self.listener.endings[given.run_id]}"
                await _CLOCK.sleep(LOOK_SECONDS)

    async def verdict_of(self, given: Assignment) -> Verdict:
        """The verdict on its end."""
        return (await self.listener.ending_of(given)).verdict


class RunnerSuite(Contract):
    """The fixtures and shortcuts of a test class over a runner. The adapter's class provides the fixture `stage`. It
    gives the runner the fixture `blobs` for the output of its tasks."""

    @pytest.fixture
    def blobs(self) -> RunnerBlobs:
        """The blobs that take the output."""
        return RunnerBlobs()

    @pytest_asyncio.fixture
    async def started(self, stage: RunnerStage) -> AsyncIterator[RunnerStage]:
        """The stage at work. In the end every attempt has ended once, and nothing of it ran after its end."""
        await stage.runner.start(stage.listener, stage.store_clock.now)
        yield stage
        await stage.runner.close()
        assert dict.fromkeys((one.run_id for one in stage.given), 1) == {
            run_id: len(endings) for run_id, endings in stage.listener.endings.items()
        }, "each attempt must end once"
        assert [] == stage.listener.outlived, "an end was reported while the task still ran"
        assert [] == [one.run_id for one in stage.given if stage.lives(one.run_id)], "a task still runs"


class RunnerAttemptsContract(RunnerSuite):
    """Attempts begin in their order and end once."""

    async def test_the_instants_of_an_attempt_are_on_the_store_clock(self, started: RunnerStage) -> None:
        """Its start is no earlier than its launch, its end no earlier than its start and not in the future."""
        before = started.store_clock.now()
        for task in (started.quick, started.failing):
            [given] = started.launch(task)
            ending = await started.listener.ending_of(given)
            begun = started.listener.begun.get(given.run_id, ending.started)
            assert before <= min(begun, ending.started)
            assert max(begun, ending.started) <= ending.ended <= started.store_clock.now()

    async def test_a_task_that_does_its_work_ends_well(self, started: RunnerStage) -> None:
        """Nothing is said of a failure."""
        [given] = started.launch(started.quick)
        ending = await started.listener.ending_of(given)
        assert (Verdict.OK, None, None, ()) == (ending.verdict, ending.reason, ending.error, ending.symptoms)

    async def test_a_task_that_fails_says_why(self, started: RunnerStage) -> None:
        """With a reason for programs; the next task is run."""
        failed, after = started.launch(started.failing, started.quick)
        ending = await started.listener.ending_of(failed)
        assert (Verdict.FAILED, None) == (ending.verdict, ending.result)
        assert ending.reason
        assert Verdict.OK is await started.verdict_of(after)

    async def test_a_batch_runs_in_its_order(self, started: RunnerStage) -> None:
        """However few places there are."""
        batch = started.launch(*[started.quick] * 5)
        endings = [await started.listener.ending_of(one) for one in batch]
        assert [Verdict.OK] * 5 == [ending.verdict for ending in endings]
        assert sorted(ending.started for ending in endings) == [ending.started for ending in endings]
        assert [one.run_id for one in batch] == [run_id for what, run_id in started.listener.order if what == "ended"]

    async def test_an_attempt_waits_for_a_place(self, started: RunnerStage) -> None:
        """It begins when the attempt before it has ended."""
        first, second = started.launch(started.lasting, started.lasting)
        await started.until_lives(first)
        assert not started.lives(second.run_id)
        started.runner.stop(first.run_id, grace_seconds=WITHIN_SECONDS)
        await started.until_lives(second)
        assert first.run_id in started.listener.endings

    async def test_an_attempt_that_runs_too_long_fails_with_the_reason_timeout(self, started: RunnerStage) -> None:
        """After its time, not before, and the place is free for the next attempt."""
        [given] = started.launch(started.lasting, timeout_seconds=0.2)
        [after] = started.launch(started.quick)
        ending = await started.listener.ending_of(given)
        assert (Verdict.FAILED, "timeout") == (ending.verdict, ending.reason)
        assert ending.ended - ending.started >= 0.2
        assert Verdict.OK is await started.verdict_of(after)

    async def test_a_task_is_left_as_it_is(self, started: RunnerStage) -> None:
        """Runs of one definition share it."""
        given = started.assign(started.quick)
        before = copy.deepcopy(given.task)
        twin = started.assign(started.quick)._replace(task=given.task)
        started.given += [given, twin]
        started.runner.launch([given, twin])
        assert [Verdict.OK] * 2 == [await started.verdict_of(one) for one in (given, twin)]
        assert before == given.task

    async def test_its_labels_name_its_kinds_and_functions(self, started: RunnerStage) -> None:
        """Each once, so that a run which needs another one is not claimed for it."""
        kinds = [kind.name for kind in started.runner.kinds]
        assert kinds
        assert len(set(kinds)) == len(kinds)
        offered = started.runner.offers()
        functions = ["function:*", *(f"function:{name}" for name in offered)] if offered else []
        labels = list(started.runner.labels())
        surroundings = [label for label in labels if label.startswith(OFFERED_PREFIXES)]
        assert [f"task:{name}" for name in kinds] + functions + surroundings == labels
        assert len(set(labels)) == len(labels)


class RunnerStopsContract(RunnerSuite):
    """Attempts can be stopped and given back."""

    async def test_a_stop_before_the_start_gives_the_run_back(self, started: RunnerStage) -> None:
        """It waits behind an attempt that holds the only place."""
        _running, second = started.launch(started.lasting, started.quick)
        started.runner.stop(second.run_id, grace_seconds=0.2)
        assert Verdict.RELEASED is await started.verdict_of(second)
        assert second.run_id not in started.listener.begun

    async def test_a_stop_while_it_runs_cancels_it(self, started: RunnerStage) -> None:
        """The place is free for the next attempt."""
        given, after = started.launch(started.lasting, started.quick)
        await started.until_lives(given)
        started.runner.stop(given.run_id, grace_seconds=WITHIN_SECONDS)
        assert Verdict.CANCELLED is await started.verdict_of(given)
        assert Verdict.OK is await started.verdict_of(after)

    async def test_a_stop_of_an_unknown_run_is_ignored(self, started: RunnerStage) -> None:
        """It may have ended a moment ago."""
        given = started.assign(started.quick)
        started.given.append(given)
        started.runner.stop(given.run_id, grace_seconds=1.0)
        started.runner.launch([given])
        assert Verdict.OK is await started.verdict_of(given)
        started.runner.stop(given.run_id, grace_seconds=1.0)
        [after] = started.launch(started.quick)
        assert Verdict.OK is await started.verdict_of(after)

    async def test_a_stubborn_task_is_killed_after_the_grace(self, started: RunnerStage) -> None:
        """Not before. The place is free for the next attempt."""
        given, after = started.launch(started.stubborn or started.lasting, started.quick)
        await started.until_lives(given)
        asked = started.store_clock.now()
        started.runner.stop(given.run_id, grace_seconds=0.3)
        ending = await started.listener.ending_of(given)
        assert Verdict.CANCELLED is ending.verdict
        assert started.stubborn is None or ending.ended - asked >= 0.3
        assert Verdict.OK is await started.verdict_of(after)

    @pytest.mark.parametrize("shortest_seconds", [0.0, 0.1])
    async def test_a_stop_can_be_repeated_with_less_grace(self, started: RunnerStage, shortest_seconds: float) -> None:
        """As at the end of a lease. A longer grace than before changes nothing."""
        [given] = started.launch(started.stubborn or started.lasting)
        await started.until_lives(given)
        for grace_seconds in (3_600.0, shortest_seconds, 3_600.0):
            started.runner.stop(given.run_id, grace_seconds=grace_seconds)
        assert Verdict.CANCELLED is await started.verdict_of(given)

    async def test_a_stop_shortly_after_the_launch_is_carried_out(self, started: RunnerStage) -> None:
        """The stop may come before the attempt's start, at its start or after it."""
        for _ in range(5):
            [given] = started.launch(started.lasting)
            await _CLOCK.sleep(0.0)
            started.runner.stop(given.run_id, grace_seconds=WITHIN_SECONDS)
            assert await started.verdict_of(given) in (Verdict.RELEASED, Verdict.CANCELLED)

    async def test_waiting_attempts_can_be_given_back(self, started: RunnerStage) -> None:
        """The attempt that runs goes on, and later ones are run."""
        running, waiting = started.launch(started.lasting, started.lasting)
        await started.until_lives(running)
        started.runner.release_waiting()
        assert Verdict.RELEASED is await started.verdict_of(waiting)
        assert running.run_id not in started.listener.endings
        [later] = started.launch(started.quick)
        started.runner.stop(running.run_id, grace_seconds=WITHIN_SECONDS)
        assert [Verdict.CANCELLED, Verdict.OK] == [await started.verdict_of(one) for one in (running, later)]

    async def test_close_ends_every_attempt(self, started: RunnerStage) -> None:
        """An attempt that runs is cancelled; one that waits or comes too late is given back. Closing twice is once."""
        running, waiting = started.launch(started.lasting, started.quick)
        await started.until_lives(running)
        await started.runner.close()
        [late] = started.launch(started.quick)
        assert {running.run_id, waiting.run_id} <= started.listener.endings.keys()
        expected = [Verdict.CANCELLED, Verdict.RELEASED, Verdict.RELEASED]
        assert expected == [await started.verdict_of(one) for one in (running, waiting, late)]
        await started.runner.close()

    async def test_close_kills_a_stubborn_task(self, started: RunnerStage) -> None:
        """At once."""
        [given] = started.launch(started.stubborn or started.lasting)
        await started.until_lives(given)
        await started.runner.close()
        assert Verdict.CANCELLED is await started.verdict_of(given)
