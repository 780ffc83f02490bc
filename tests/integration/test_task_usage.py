"""The usage of a task is what the kernel counted for it, with real processes; else nothing is said."""

from __future__ import annotations

import os
import resource
import shutil
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.test_runner_function import Shop as FunctionShop
from tests.support.runners import OWN_USER
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.process.cgroups import Resource, find_places
from tickwise.adapters.runner.process.runner import ProcessRunner
from tickwise.adapters.runner.process.task_starter_program import peak_bytes
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.domain.observing.usage import ResourceUsage
from tickwise.ports.runner import Assignment, TaskLimits, Verdict
from tickwise.testing.contracts.runner import Listener, assignment

MEGABYTE = 1_000_000
BUSY = "import time\nwhile time.process_time() < 0.3: pass\n"
KEEPS = "kept = bytearray({count})\nfor place in range(0, len(kept), 4096): kept[place] = 1\n"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start tasks as other users")


class Shop:
    """A runner of processes, and what it reports."""

    def __init__(self, root: Path, user: str | None) -> None:
        self.root = root
        self.listener = Listener()
        self.runner = ProcessRunner(
            RunnerSettings(
                blobs=open_blobs("memory://"),
                clock=SystemClock(),
                work_root=root,
                kill_grace_seconds=0.2,
                run_tasks_as=user,
            )
        )

    def launch(self, task: dict[str, Any], **changes: Any) -> Assignment:
        given = assignment(task, **changes)
        self.runner.launch([given])
        return given

    async def usage(self, task: dict[str, Any], **changes: Any) -> ResourceUsage:
        """Of a task, after its end."""
        ending = await self.listener.ending_of(self.launch(task, **changes))
        assert ending.usage is not None, ending
        return ending.usage

    async def python(self, source: str, **changes: Any) -> ResourceUsage:
        return await self.usage({"kind": "python", "source": source}, **changes)


Opener = Callable[[str | None], Coroutine[Any, Any, Shop]]


@pytest_asyncio.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Opener]:
    """Opens a shop whose tasks run as this user; None: each as one of its own, if this is root."""
    opened: list[Shop] = []

    async def opener(user: str | None) -> Shop:
        made = Shop(tmp_path / "work", user)
        opened.append(made)
        await made.runner.start(made.listener, time.time)
        return made

    yield opener
    for each in opened:
        folder = each.runner._folder
        root = None if folder is None else folder.root
        await each.runner.close()
        if root is not None and not root.is_relative_to(tmp_path):
            shutil.rmtree(root)  # homes of users


async def test_processor_time_is_that_of_all_its_processes(shop: Opener) -> None:
    """A child that was waited for counts; a task that sleeps takes next to none. The output is counted, too."""
    here = await shop(OWN_USER)
    child = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BUSY!r}], check=True)\nprint('x' * 99)\n"
    busy = await here.python(child)
    assert busy.cpu_seconds is not None
    assert 0.3 <= busy.cpu_seconds < 30.0
    assert 100 == busy.output_bytes
    idle = await here.usage({"kind": "shell", "command": "sleep 0.3"})
    assert idle.cpu_seconds is not None
    assert idle.cpu_seconds < busy.cpu_seconds / 2
    assert 0 == idle.output_bytes


async def test_a_peak_of_memory_is_told_above_that_of_the_starter(shop: Opener) -> None:
    """The kernel counts the memory of the program that forked it as the task's: a smaller peak is not known."""
    here = await shop(OWN_USER)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    count = own + 100 * MEGABYTE
    large = await here.python(KEEPS.format(count=count))
    assert large.memory_bytes is not None
    assert count <= large.memory_bytes < count + 100 * MEGABYTE
    small = await here.usage({"kind": "shell", "command": "true"})
    assert small.memory_bytes is None
    assert small.cpu_seconds is not None


@needs_root
async def test_tasks_of_other_users_are_measured_by_their_starter(shop: Opener) -> None:
    """It is small, so peaks from some megabytes on are known."""
    here = await shop(None)
    found = await here.python(BUSY + KEEPS.format(count=40 * MEGABYTE))
    assert found.cpu_seconds is not None
    assert 0.3 <= found.cpu_seconds < 30.0
    assert found.memory_bytes is not None
    assert 40 * MEGABYTE <= found.memory_bytes < 90 * MEGABYTE


async def test_a_control_group_knows_the_peak_of_all_its_processes(shop: Opener) -> None:
    """Two processes that keep 30 MB each at once, and whose own peaks are not known."""
    if Resource.MEMORY not in find_places("test"):
        pytest.skip("this machine lets nobody make the control groups that are needed")
    here = await shop(OWN_USER)
    keeps = KEEPS.format(count=30 * MEGABYTE) + "import time; time.sleep(0.5)\n"
    both = f"import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', {keeps!r}])\n{keeps}child.wait()\n"
    found = await here.python(both, limits=TaskLimits(1 << 20, memory_bytes=1_000 * MEGABYTE))
    assert found.memory_bytes is not None
    assert 60 * MEGABYTE <= found.memory_bytes < 200 * MEGABYTE


async def test_a_task_that_failed_or_was_stopped_has_its_usage(shop: Opener) -> None:
    """It has used that all the same."""
    here = await shop(OWN_USER)
    failed = await here.python(BUSY + "raise SystemExit(3)")
    assert failed.cpu_seconds is not None
    assert failed.cpu_seconds >= 0.3
    given = here.launch({"kind": "shell", "command": "exec sleep 600"})
    await here.listener.until_begun(given)
    here.runner.stop(given.run_id, grace_seconds=0.0)
    ending = await here.listener.ending_of(given)
    assert (Verdict.CANCELLED, True) == (ending.verdict, ending.usage is not None)


async def test_functions_have_the_size_of_their_output_alone(tmp_path: Path) -> None:
    """Their worker is not theirs alone, so its memory and time are not. One without output costs nothing more."""
    here = await FunctionShop(tmp_path, modules=("tests.support.functions",)).open()
    try:
        for name, usage in (("tests.nothing", None), ("tests.speak", ResourceUsage(output_bytes=26))):
            given = assignment({"kind": "function", "name": name}, {"text": "hello"})
            here.runner.launch([given])
            assert usage == (await here.listener.ending_of(given)).usage
    finally:
        await here.runner.close()


@pytest.mark.parametrize(("peak", "starter", "told"), [(100, 99, 102_400), (100, 100, None), (100, None, None)])
def test_a_peak_is_told_only_if_it_is_the_tasks_own(peak: int, starter: int | None, told: int | None) -> None:
    """Above that of its starter, if that is known."""
    assert told == peak_bytes(peak, starter)
