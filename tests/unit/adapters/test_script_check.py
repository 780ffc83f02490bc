"""Scripts are compiled elsewhere: what is wrong is told with its place, and no script keeps the asker from its work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import psutil
import pytest
import pytest_asyncio

from tickwise.adapters.runner.scripts import checker as script_check
from tickwise.adapters.runner.scripts.checker import BUSY, TOO_MUCH, ScriptChecker
from tickwise.ports.runner import ScriptFinding
from tickwise.testing.contracts.runner_scripts import BUSY_COMPILER


@pytest_asyncio.fixture
async def checker(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ScriptChecker]:
    """One that has patience: a compiler that gets no processor for a while is no fault of a script."""
    monkeypatch.setattr(script_check, "WAIT_SECONDS", 60.0)
    monkeypatch.setattr(script_check, "ANSWER_SECONDS", 60.0)
    made = ScriptChecker()
    yield made
    await made.close()


def compilers() -> list[psutil.Process]:
    """The active processes that compile for us."""
    return [
        process
        for process in psutil.Process().children()
        if process.status() != psutil.STATUS_ZOMBIE and any("compiler_program" in word for word in process.cmdline())
    ]


@pytest_asyncio.fixture
async def stopped(checker: ScriptChecker) -> psutil.Process:
    """Its compiler, which works and gets no processor: what it is given takes as long as the test wants."""
    assert [ScriptFinding()] == await checker.look(["pass"])
    [compiler] = compilers()
    compiler.suspend()
    return compiler


async def test_what_does_not_compile_is_told_with_line_and_column(checker: ScriptChecker) -> None:
    """And the next script is not held to account for it."""
    wrong, good = await checker.look(["x = 1\nif x\n    pass\n", "pass"])
    assert wrong == ScriptFinding("expected ':' (line 2, column 5)")
    assert good == ScriptFinding()


async def test_a_script_that_keeps_the_compiler_busy_is_given_up(checker: ScriptChecker) -> None:
    """It is not known whether it compiles, the process that tried is gone, and the next script is looked at."""
    assert [TOO_MUCH] == await checker.look([BUSY_COMPILER])
    assert [] == compilers()
    assert [ScriptFinding()] == await checker.look(["pass"])


async def test_the_event_loop_works_on_while_a_script_is_compiled(
    checker: ScriptChecker, stopped: psutil.Process
) -> None:
    """The looks take none of the loop's processor time but for handing them over."""
    before = time.thread_time()
    looking = asyncio.create_task(checker.look([BUSY_COMPILER]))
    for _ in range(10):
        await asyncio.wait([looking], timeout=0.01)
        assert not looking.done()
    stopped.resume()
    assert [TOO_MUCH] == await looking
    assert time.thread_time() - before < 0.5 * script_check.CPU_SECONDS


async def test_many_at_once_wait_no_longer_than_is_said(
    checker: ScriptChecker, stopped: psutil.Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be looked at in that time is taken unchecked, and so is what comes when too many wait."""
    monkeypatch.setattr(script_check, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(script_check, "MAX_WAITING", 3)
    found = await asyncio.gather(*(checker.look([BUSY_COMPILER, "pass"]) for _ in range(5)))
    stopped.resume()
    assert [[BUSY, BUSY]] * 5 == [list(each) for each in found]


async def test_a_compiler_that_ended_by_itself_is_replaced(checker: ScriptChecker) -> None:
    """It ends when it has nothing to do for a while."""
    await checker.look(["pass"])
    [first] = compilers()
    assert checker._compiler is not None
    checker._compiler._socket.shutdown(1)  # what it sees of an asker that is gone is what it sees at its end: no more
    first.wait()
    [found] = await checker.look(["if"])
    assert found.error
    assert [first.pid] != [process.pid for process in compilers()]


async def test_nothing_is_left_when_it_is_closed() -> None:
    """Neither a process nor a wait for one that is busy."""
    checker = ScriptChecker()
    await checker.look(["pass"])
    looking = asyncio.create_task(checker.look([BUSY_COMPILER]))
    await asyncio.wait([looking], timeout=0)
    await checker.close()
    await looking
    assert [] == compilers()
