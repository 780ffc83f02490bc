"""What becomes of the tasks of an executor that is killed: real ones, which shed all by which they are known."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from tests.support.abandoned import FILES
from tests.support.runners import OWN_USER, gone
from tests.support.waiting import eventually
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.process import work_folder
from tickwise.adapters.runner.process.cgroups import PREFIX, find_places
from tickwise.adapters.runner.process.runner import ProcessRunner
from tickwise.adapters.runner.process.task_marks import Marks
from tickwise.adapters.runner.process.work_folder import WorkFolder
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.domain.errors import Misconfigured
from tickwise.testing.contracts.runner import Listener

PATIENCE_SECONDS = 60.0
ROOT = Path(__file__).parents[2]


class Abandoned:
    """An executor in a process of its own, to be killed, and what must not outlive it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: asyncio.subprocess.Process
        self.tasks: list[psutil.Process] = []

    async def start(self) -> None:
        program = (sys.executable, "-m", "tests.support.abandoned", str(self.folder))
        self.process = await asyncio.create_subprocess_exec(*program, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await self.process.stdout.readline() == b"ready\n"
        self.tasks = [psutil.Process(int(file.read_text())) for file in self.folder.glob("*.pid")]

    @property
    def active(self) -> list[psutil.Process]:
        """Those of its tasks that have not ended."""
        return [one for one in self.tasks if one.is_running() and not gone(one.pid)]

    @property
    def folders(self) -> list[Path]:
        return list((self.folder / "work").iterdir())

    async def kill(self, *, with_reapers: bool) -> None:
        """KILL it, and with it who would clear up after it."""
        reapers = [
            child
            for child in psutil.Process(self.process.pid).children()
            if any("orphan_reaper" in word for word in child.cmdline())
        ]
        assert len(reapers) == 2
        if with_reapers:
            for one in reapers:  # first, or they would be quicker than us
                one.kill()
        self.process.kill()
        await self.process.wait()

    def end(self) -> None:
        """After a test that failed: leave nothing behind."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        for one in self.tasks:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()


@pytest_asyncio.fixture
async def abandoned(tmp_path: Path) -> AsyncIterator[Abandoned]:
    made = Abandoned(tmp_path)
    await made.start()
    yield made
    made.end()


def _runner(folder: Path) -> ProcessRunner:
    return ProcessRunner(
        RunnerSettings(
            blobs=open_blobs("memory://"), clock=SystemClock(), work_root=folder / "work", run_tasks_as=OWN_USER
        )
    )


def _groups(folders: Sequence[Path]) -> set[Path]:
    """The control groups, there now, of executors with these folders; other tests may run beside this one."""
    names = [f"{PREFIX}{Marks(folder).name}-*" for folder in folders]
    places = find_places("test").values()
    return {group for place in places for name in names for group in place.folder.glob(name)}


async def test_the_tasks_of_a_killed_executor_end_at_once(abandoned: Abandoned) -> None:
    """Its reapers see to it, also to what left its session and its environment; and they tidy up."""
    assert len(abandoned.active) == FILES
    await abandoned.kill(with_reapers=False)
    await eventually(lambda: not abandoned.active, within_seconds=PATIENCE_SECONDS)
    await eventually(lambda: not abandoned.folders, within_seconds=PATIENCE_SECONDS)


async def test_the_next_start_ends_what_was_left_behind(abandoned: Abandoned) -> None:
    """If those who should have done it were killed as well: before anything new begins."""
    theirs = abandoned.folders
    await abandoned.kill(with_reapers=True)
    runner = _runner(abandoned.folder)
    await runner.start(Listener(), time.time)
    left = abandoned.active
    folders = abandoned.folders
    await runner.close()
    assert left == []
    assert len(folders) == 1
    assert _groups(theirs) == set()


async def test_a_active_executor_is_left_alone_by_the_next_start(abandoned: Abandoned) -> None:
    """Two may share a machine, and a folder."""
    before = abandoned.folders
    runner = _runner(abandoned.folder)
    await runner.start(Listener(), time.time)
    await runner.close()
    assert len(abandoned.active) == FILES
    assert abandoned.folders == before


async def test_what_else_lies_in_the_work_root_is_left_alone(tmp_path: Path) -> None:
    """Only folders that carry an executor's name, on this host, are an executor's."""
    root = tmp_path / "work"
    root.mkdir(mode=0o700)
    strange = [root / name for name in ("notes", "17-elsewhere-abc", "17-", "x-y-z")]
    for one in strange:
        one.mkdir()
    (root / "17-file").touch()
    with ThreadPoolExecutor(1) as threads:
        made = await WorkFolder.open(root, threads=threads, clock=SystemClock())
        made.close()
    assert sorted(root.iterdir()) == sorted([*strange, root / "17-file"])


async def test_a_folder_that_is_just_being_made_is_not_taken_for_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not locked yet; so who looks for the dead waits until it is."""
    root = tmp_path / "work"
    root.mkdir(mode=0o700)
    made, looked = threading.Event(), threading.Event()
    lock, siblings = work_folder._lock, work_folder._dead_siblings

    def slow_lock(folder: Path) -> int | None:
        if not made.is_set():
            made.set()
            looked.wait(0.5)  # in vain, if all is well
        return lock(folder)

    def look(folder: Path, host: str) -> Sequence[tuple[Path, int | None]]:
        found = siblings(folder, host)
        if made.is_set():
            looked.set()
        return found

    monkeypatch.setattr(work_folder, "_lock", slow_lock)
    monkeypatch.setattr(work_folder, "_dead_siblings", look)
    with ThreadPoolExecutor(4) as threads:
        first = asyncio.create_task(WorkFolder.open(root, threads=threads, clock=SystemClock()))
        await asyncio.get_running_loop().run_in_executor(threads, made.wait)
        second = await WorkFolder.open(root, threads=threads, clock=SystemClock())
        both = [await first, second]
        there = [one.path.is_dir() for one in both]
        for one in both:
            one.close()
    assert there == [True, True]
    assert list(root.iterdir()) == []


async def test_a_folder_whose_name_would_mark_everybody_is_refused(tmp_path: Path) -> None:
    """Each of its lines would be a mark of its own."""
    with ThreadPoolExecutor(1) as threads, pytest.raises(Misconfigured, match="line break"):
        await WorkFolder.open(tmp_path / "a\n=", threads=threads, clock=SystemClock())
    assert list(tmp_path.rglob("*")) == []
