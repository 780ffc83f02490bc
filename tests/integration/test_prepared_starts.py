"""Ordinary tasks in sandboxes start in prepared ones, and end as all others do; with the real runner and bubblewrap."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from tests.support.runners import OWN_USER, gone
from tests.support.sandboxes import ONLINE, SandboxShop
from tests.support.waiting import eventually
from tickwise.adapters.runner.process.sandbox.levels import HOME
from tickwise.adapters.runner.process.sandbox.prepared.holder import SandboxHolder
from tickwise.domain.retry import OUTCOME_LOST
from tickwise.ports.runner import TaskLimits, Verdict

PATIENCE_SECONDS = 60.0
USERS = [pytest.param(OWN_USER, id="the executor's own user")]
if os.geteuid() == 0:
    USERS.append(pytest.param(None, id="a user of the namespace"))
TELLS = "import os\nopen(os.environ['TICKWISE_RESULT_FILE'], 'w').write(str(os.getppid()))\nprint('said')"


class PreparedRunner(SandboxShop):
    """A runner whose holders of one namespace are ready."""

    @property
    def holders(self) -> list[SandboxHolder]:
        assert self.runner._prepared is not None
        return [kept.holder for kept in self.runner._prepared.pool._kept.values()]

    @property
    def starts(self) -> int:
        return sum(holder.starts for holder in self.holders)

    async def make_ready(self) -> None:
        async def ready() -> bool:
            await asyncio.gather(self.shell(":"), self.python("pass"))
            return len(self.holders) == 2

        await eventually(ready, within_seconds=PATIENCE_SECONDS)


@pytest_asyncio.fixture(params=USERS)
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[PreparedRunner]:
    # Who obeys a TERM has the time for it.
    made = PreparedRunner(tmp_path / "work", run_tasks_as=request.param, kill_grace_seconds=30.0)
    await made.open()
    await made.make_ready()
    pids = [holder.pid for holder in made.holders]
    yield made
    await made.close()
    assert [pid for pid in pids if not gone(pid)] == []


async def test_ordinary_tasks_start_in_prepared_sandboxes(shop: PreparedRunner) -> None:
    """Shell commands, programs and scripts; with their output, result and end."""
    before = shop.starts
    ending, said = await shop.shell('echo $$ $HOME; pwd; echo \'{"a": 1}\' > "$TICKWISE_RESULT_FILE"')
    assert (ending.verdict, ending.result, said.split()[:2]) == (Verdict.OK, '{"a": 1}', ["2", HOME])
    assert said.split()[2].endswith("/work")
    ending, said = await shop.python(TELLS)
    assert (ending.verdict, ending.result, said) == (Verdict.OK, "1", "said\n")
    ending, said = await shop.run({"kind": "shell", "argv": ["echo", "an argument"]})
    assert (ending.verdict, said) == (Verdict.OK, "an argument\n")
    ending, said = await shop.run({"kind": "python", "source": "import sys; print(sys.argv)", "start": "cold"})
    assert (ending.verdict, said[:2]) == (Verdict.OK, "['")
    assert shop.starts - before == 4


async def test_failures_are_told_as_ever(shop: PreparedRunner) -> None:
    """Exit status, signal, exception, and a program that is not there."""
    assert (await shop.shell("exit 3"))[0].symptoms == ("3",)
    assert (await shop.shell("kill -SEGV $$"))[0].error == "ended by signal SIGSEGV"
    ending, said = await shop.python("def f():\n    raise KeyError('x')\nf()\n", names_errors=True)
    assert {"builtins.KeyError", "LookupError"} <= set(ending.symptoms)
    assert "holder" not in said
    ending, _ = await shop.run({"kind": "shell", "argv": ["no-such-program"]})
    assert (ending.verdict, "no-such-program" in (ending.error or "")) == (Verdict.FAILED, True)


async def test_a_task_that_lives_is_stopped_in_time(shop: PreparedRunner) -> None:
    """By its time limit and by a person: TERM first, which it may obey, then all of it is killed."""
    before, tries = shop.starts, 0
    for seconds in (0.2, 2.0, 20.0):  # longer where the time was over before the command had begun
        command = "trap 'echo obeys; exit 0' TERM; echo begun; sleep 600 & wait"
        ending, said = await shop.shell(command, timeout_seconds=seconds)
        tries += 1
        if said:
            break
    assert (ending.reason, said) == ("timeout", "begun\nobeys\n")
    given = shop.launch({"kind": "shell", "command": "trap '' TERM; (setsid sleep 600 &); sleep 600"})
    await shop.listener.until_begun(given)
    shop.runner.stop(given.run_id, grace_seconds=0.1)
    assert (await shop.listener.ending_of(given)).verdict is Verdict.CANCELLED
    assert shop.starts - before == tries + 1

    def only_holders() -> bool:
        processes = [psutil.Process(holder.pid) for holder in shop.holders]
        return all(len(each.children(recursive=True)) == 1 for each in processes)

    await eventually(only_holders, within_seconds=PATIENCE_SECONDS)


async def test_files_that_a_task_leaves_are_kept(shop: PreparedRunner) -> None:
    """As artefacts; the next task finds none of them."""
    ending, said = await shop.shell("echo content > report.txt")
    assert ending.verdict is Verdict.OK
    assert "report.txt" in said
    assert (await shop.shell("ls -A . .."))[1] == ".:\n\n..:\ntask.sh\nwork\n"


async def test_other_tasks_have_a_sandbox_of_their_own(shop: PreparedRunner, tmp_path: Path) -> None:
    """Those with limits, files, a network, or a folder of their own."""
    before = shop.starts
    assert (await shop.shell(":", limits=TaskLimits(1 << 20, processes=100)))[0].verdict is Verdict.OK
    assert (await shop.shell(":", confinement=ONLINE))[0].verdict is Verdict.OK
    task = {"kind": "shell", "command": "cat a", "files": {"a": "with it"}}
    assert (await shop.run(task))[0].verdict is Verdict.OK
    assert shop.starts == before


async def test_another_namespace_gets_a_holder_of_its_own(shop: PreparedRunner) -> None:
    """Its first task starts elsewhere."""
    before, pids = shop.starts, {holder.pid for holder in shop.holders}
    assert (await shop.shell("echo x > /tmp/x", namespace="other"))[0].verdict is Verdict.OK
    assert shop.starts == before

    async def ready() -> bool:
        await shop.shell(":", namespace="other")
        return len(shop.holders) == 3

    await eventually(ready, within_seconds=PATIENCE_SECONDS)
    assert {holder.pid for holder in shop.holders} > pids


async def test_the_outcome_of_a_task_is_unknown_when_its_holder_is_killed(shop: PreparedRunner) -> None:
    """All of the task has ended. The next tasks start elsewhere, and then in another holder."""
    given = shop.launch({"kind": "shell", "command": "(setsid sleep 600 &); sleep 600"})
    await shop.listener.until_begun(given)
    processes = {one for holder in shop.holders for one in psutil.Process(holder.pid).children(recursive=True)}
    for holder in shop.holders:
        psutil.Process(holder.pid).kill()
    ending = await shop.listener.ending_of(given)
    assert (ending.verdict, ending.reason) == (Verdict.UNKNOWN, OUTCOME_LOST)
    await eventually(lambda: all(gone(one.pid) for one in processes), within_seconds=PATIENCE_SECONDS)
    assert (await shop.shell("echo elsewhere"))[1] == "elsewhere\n"
    await shop.make_ready()
