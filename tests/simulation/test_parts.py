"""What worlds are made of: the loop, processes, links."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tickwise.adapters.store.memory import MemoryStore
from tickwise.domain.errors import InDoubt, StoreUnavailable
from tickwise.ports.store import FireRequest
from tickwise.testing.factories import Factory, executor
from tickwise.testing.world import draw
from tickwise.testing.world.link import CallFate, LinkedStore, Passage, StoreCall, Way
from tickwise.testing.world.loop import Stalled, WorldLoop
from tickwise.testing.world.process import ProcessClock, SimulatedProcess
from tickwise.testing.world.world import World

START = 1_800_000_000.0
CALLS_UNANSWERED = [("held.tokens", True, True), ("held.tokens", False, False), ("executors.beat", False, True)]


class Fair:
    """Weather in which each call goes as the test says."""

    def __init__(self, fate: CallFate = CallFate.FINE) -> None:
        self.fate = fate
        self.era = 0
        self.struck: list[CallFate] = []

    def passage(self, process: SimulatedProcess, call: str) -> Passage:
        return Passage(self.fate, 0.1, 0.1, 5.0)

    def way(self, process: SimulatedProcess, *, back: bool, sent_in: int) -> Way:
        return Way.OPEN if sent_in == self.era else Way.BROKEN

    def is_lost(self, sent_in: int) -> bool:
        return sent_in < 0

    def strike(self, process: SimulatedProcess, fate: CallFate) -> None:
        self.struck.append(fate)
        process.kill()


class Nobody:
    """An observer that looks away."""

    def asked(self, call: StoreCall) -> None: ...
    def before(self, call: StoreCall) -> None: ...
    def after(self, call: StoreCall, answer: Any) -> None: ...
    def answered(self, call: StoreCall, answer: Any) -> None: ...


class Scene:
    """A loop, a process, its clock, and its link to a store."""

    def __init__(self, fate: CallFate = CallFate.FINE) -> None:
        self.loop = WorldLoop(Random("a test"))
        self.process = SimulatedProcess(self.loop, "executor-1.1")
        self.loop.tasks_made = lambda process, task: self.process.tasks.append(task)
        self.clock = ProcessClock(self.loop, start=START, seed="a test")
        self.store = MemoryStore(self.clock)
        self.weather = Fair(fate)
        self.link: Any = LinkedStore(self.store, self.process, loop=self.loop, weather=self.weather, observer=Nobody())

    def live(self, seconds: float) -> None:
        """Let time pass."""
        self.loop.call_later(seconds, self.loop.stop)
        self.loop.run_forever()

    def go(self, work: Any) -> None:
        """Let the process do this."""
        self.process.spawn(work).add_done_callback(lambda _: None)

    def told(self, call: Any) -> Any:
        """What a caller within the process is told."""
        task = self.process.spawn(call)
        self.live(100.0)
        return task.exception() or task.result()

    def end(self) -> None:
        self.process.clean_up()
        self.loop.close()


def test_time_passes_only_when_nobody_can_go_on() -> None:
    """An hour of sleep costs nothing, and whoever sleeps less wakes first."""
    here = Scene()
    woken: list[tuple[float, str]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await here.clock.sleep(seconds)
        woken.append((here.loop.time(), name))

    here.go(sleeper("long", 3600.0))
    here.go(sleeper("short", 1.0))
    here.live(4000.0)
    assert [(1.0, "short"), (3600.0, "long")] == woken
    here.end()


def test_a_loop_in_which_nothing_can_ever_happen_says_so() -> None:
    """Instead of waiting for ever."""
    loop = WorldLoop(Random("a test"))
    with pytest.raises(Stalled, match="nothing is ready"):
        loop.run_until_complete(loop.create_future())
    loop.close()


def test_a_loop_that_spins_says_so() -> None:
    """No time would ever pass again."""
    loop = WorldLoop(Random("a test"))

    async def spin() -> None:
        while True:  # noqa: ASYNC110 - this is what spins
            await asyncio.sleep(0)  # noqa: TID251 - as above

    with pytest.raises(Stalled, match="steps go on and on"):
        loop.run_until_complete(spin())
    loop.close()


def test_a_dead_process_takes_no_step_and_tidies_nothing_up() -> None:
    """What it was in the midst of stays as it was; a `finally` is not reached."""
    here = Scene()
    done: list[str] = []

    async def work() -> None:
        try:
            await here.clock.sleep(10.0)
            done.append("went on")
        finally:
            done.append("tidied up")

    here.go(work())
    here.loop.call_later(5.0, here.process.kill)
    here.live(100.0)
    assert [] == done
    here.end()


def test_a_frozen_process_goes_on_where_it_stood() -> None:
    """All that came due meanwhile comes at once."""
    here = Scene()
    woken: list[float] = []

    async def sleeper(seconds: float) -> None:
        await here.clock.sleep(seconds)
        woken.append(here.loop.time())

    here.go(sleeper(6.0))
    here.go(sleeper(7.0))
    here.loop.call_later(5.0, here.process.freeze)
    here.loop.call_later(50.0, here.process.thaw)
    here.live(100.0)
    assert [50.0, 50.0] == woken
    here.end()


@pytest.mark.parametrize("steps", range(1, 6))
def test_a_process_can_die_at_any_await(steps: int) -> None:
    """After as many of its steps as are said, and not one more."""
    here = Scene()
    taken: list[int] = []

    async def work() -> None:
        for number in range(1, 10):
            taken.append(number)
            await here.clock.sleep(0.0)

    here.process.after_steps(steps, here.process.kill)
    here.go(work())
    here.live(1.0)
    assert list(range(1, steps + 1)) == taken
    here.end()


async def wait_for_all(tasks: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


async def wait_for_first(tasks: Sequence[asyncio.Task[None]]) -> None:
    await tasks[0]


async def wait_for_none(tasks: Sequence[asyncio.Task[None]]) -> None:
    assert tasks


@pytest.mark.parametrize(
    ("waits", "dies_after", "unheard"),
    [
        (wait_for_all, 2.0, 0),
        (wait_for_all, 60.0, 0),
        (wait_for_first, 0.5, 0),
        (wait_for_none, 0.5, 1),
        (wait_for_none, 60.0, 2),
    ],
)
def test_an_error_that_a_dead_process_still_waited_for_was_not_ignored(
    waits: Any, dies_after: float, unheard: int
) -> None:
    """It died before the waiter could take the error. An error without a waiter counts, in a dead process as well."""
    here = Scene()

    async def fail(seconds: float) -> None:
        await here.clock.sleep(seconds)
        if seconds == dies_after:
            here.process.kill()
        raise RuntimeError(f"after {seconds} s")

    async def work() -> None:
        await waits([here.process.spawn(fail(seconds)) for seconds in (0.5, 30.0)])

    here.go(work())
    here.loop.call_later(dies_after, here.process.kill)
    here.live(100.0)
    assert unheard == len(here.process.unheard())
    here.end()


@pytest.mark.parametrize(
    ("fate", "is_there", "told"),
    [
        (CallFate.FINE, True, int),
        (CallFate.REFUSED, False, StoreUnavailable),
        (CallFate.REQUEST_LOST, False, InDoubt),
        (CallFate.SWALLOWED, False, InDoubt),
        (CallFate.ANSWER_LOST, True, InDoubt),
        (CallFate.HANGS, True, InDoubt),
    ],
)
def test_a_caller_is_never_told_what_is_not_true(fate: CallFate, is_there: bool, told: type) -> None:
    """`StoreUnavailable` for a write means that nothing was written; who cannot know is told so."""
    here = Scene(fate)
    answer = here.told(here.link.executors.join(executor()))
    assert told is type(answer)
    assert is_there is bool(here.store.state.executors)
    here.end()


def test_a_read_that_got_no_answer_wrote_nothing() -> None:
    """So it is no doubt."""
    here = Scene(CallFate.ANSWER_LOST)
    assert StoreUnavailable is type(here.told(here.link.now()))
    here.end()


def test_the_last_request_of_a_dying_process_takes_effect() -> None:
    """What is on its way belongs to the network."""
    here = Scene(CallFate.DIES_AFTER)
    task = here.process.spawn(here.link.executors.join(executor()))
    here.live(100.0)
    assert [CallFate.DIES_AFTER] == here.weather.struck
    assert (1, False) == (len(here.store.state.executors), task.done())
    here.end()


@pytest.mark.parametrize("how", ["death", "silence", "restart"])
def test_timers_that_a_process_took_come_free_without_it(how: str) -> None:
    """It dies with them in hand, stands still for longer than its transaction may, or the store is restarted."""
    here = Scene()
    make = Factory(START)
    request = FireRequest(horizon_seconds=10.0, limit=5)
    taken: list[int] = []

    async def take() -> None:
        await here.store.jobs.add([make.recurring(START + 1.0)])
        taken.append(len((await here.link.timers.take(request)).timers))
        await here.clock.sleep(1_000.0)

    here.go(take())
    here.live(1.0)
    assert ([1], 1) == (taken, len(here.store.state.taken))
    if how == "death":
        here.process.kill()
    elif how == "restart":
        here.link.hang_up()
    else:
        here.process.freeze()
        here.live(31.0)
    assert 0 == len(here.store.state.taken)
    here.end()


@pytest.mark.parametrize(("call", "is_parting", "explains"), CALLS_UNANSWERED)
def test_a_call_without_an_answer_may_cost_the_lease_of_an_executor_that_takes_leave(
    call: str, is_parting: bool, explains: bool
) -> None:
    """Nobody renews it while the answer is waited for. Of all others only calls about the lease do that."""
    world = World(replace(draw(1), faults=frozenset({"late effect"}), call_fault_share=1.0))
    node = next(node for node in world.nodes if node.kind == "executor")
    process = SimulatedProcess(world.loop, "executor-1.1")
    node.all_processes.append(process)
    node.parting = is_parting
    world.watch._names[1], world.watch._heard[1] = process.name, 0.0
    assert CallFate.LATE is world.weather.passage(process, call).fate
    assert explains is world.watch.is_explained(1)
    world.end()


def test_clocks_of_two_processes_share_nothing_but_the_time() -> None:
    """Their random bytes and chances differ, and one that is set wrong is wrong alone."""
    here = Scene()
    other = ProcessClock(here.loop, start=START, seed="another")
    here.clock.wrong_seconds = 3_600.0
    assert 3_600.0 == here.clock.now() - other.now()

    def drawn(clock: ProcessClock) -> Sequence[object]:
        return clock.random_bytes(16), clock.random_bytes(16), clock.chance()

    assert set(drawn(here.clock)).isdisjoint(drawn(other))
    again = [drawn(ProcessClock(here.loop, start=START, seed="a third")) for _ in range(2)]
    assert again[0] == again[1]
    here.end()
