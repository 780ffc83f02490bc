"""Limits of processes, with real ones: by control groups where this machine lets us, and by watching, which all let."""

from __future__ import annotations

import contextlib
import json
import resource
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from tests.support.runners import OWN_USER, gone
from tests.support.waiting import eventually
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.process import limits as process_limits
from tickwise.adapters.runner.process import work_folder
from tickwise.adapters.runner.process.cgroups import PREFIX, Places, Resource, find_places
from tickwise.adapters.runner.process.runner import ProcessRunner
from tickwise.adapters.runner.process.task_marks import Marks
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.domain.rules.capacities import size_in_words
from tickwise.ports.runner import Assignment, Ending, TaskLimits, Verdict
from tickwise.testing.contracts.runner import Listener, assignment, log_of

MEGABYTE = 1 << 20

# A grandchild takes the memory and keeps it: what counts is the whole tree.
GREEDY = (
    "import subprocess, sys\n"
    'subprocess.run([sys.executable, "-c", "import time; kept = b\'x\' * (200 << 20); time.sleep(600)"])\n'
)
# Half of the time is taken by each of two children, which no limit of one process would stop in time.
BUSY = "(while :; do :; done) & (while :; do :; done) & wait"
MANY = "for each in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 600 & done; wait"


def _none(_name: str) -> Places:
    return {}


class Shop:
    """A runner, what it listens to, and where it makes groups."""

    def __init__(self, folder: Path, user: str | None = OWN_USER) -> None:
        self.blobs = open_blobs("memory://")
        self.root = folder / "work"
        self.runner = ProcessRunner(
            RunnerSettings(
                blobs=self.blobs,
                clock=SystemClock(),
                work_root=self.root,
                kill_grace_seconds=0.2,
                run_tasks_as=user,
            )
        )
        self.listener = Listener()

    def launch(self, task: Mapping[str, object], limits: TaskLimits) -> Assignment:
        given = assignment(task, limits=limits)
        self.runner.launch([given])
        return given

    async def shell(self, command: str, limits: TaskLimits) -> Ending:
        return await self.listener.ending_of(self.launch({"kind": "shell", "command": command}, limits))

    async def python(self, source: str, limits: TaskLimits) -> Ending:
        return await self.listener.ending_of(self.launch({"kind": "python", "source": source}, limits))


def limited(
    *, cpu_seconds: float | None = None, memory_bytes: int | None = None, processes: int | None = None
) -> TaskLimits:
    return TaskLimits(1 << 20, cpu_seconds, memory_bytes, processes)


def _groups(shop: Shop) -> set[Path]:
    """The control groups of this runner that are there now; other tests may run beside this one."""
    (folder,) = shop.root.iterdir()
    name = f"{PREFIX}{Marks(folder).name}-*"
    return {group for place in find_places("test").values() for group in place.folder.glob(name)}


@pytest_asyncio.fixture(params=["groups", "watch"])
async def shop(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Shop]:
    """Both ways. Where control groups cannot be had, the second is all there is, and all that is tested."""
    if request.param == "watch":
        monkeypatch.setattr(work_folder, "find_places", _none)
    elif set(find_places("test")) != set(Resource):
        pytest.skip("this machine lets nobody make all the control groups that are needed")
    made = Shop(tmp_path)
    await made.runner.start(made.listener, time.time)
    yield made
    await made.runner.close()


async def test_memory_of_the_whole_tree_is_limited(shop: Shop) -> None:
    """With a reason of its own, and the limit in the error."""
    ending = await shop.python(GREEDY, limited(memory_bytes=100 * MEGABYTE))
    assert (ending.verdict, ending.reason) == (Verdict.FAILED, "memory_limit")
    assert size_in_words(100 * MEGABYTE) in (ending.error or "")


async def test_processor_time_of_the_whole_tree_is_limited(shop: Shop) -> None:
    """Of all its processes together, not of each."""
    ending = await shop.shell(BUSY, limited(cpu_seconds=0.5))
    assert (ending.verdict, ending.reason) == (Verdict.FAILED, "cpu_limit")


async def test_processor_time_counts_also_of_what_has_ended_by_itself(shop: Shop) -> None:
    """A limit is passed or not, whoever was quicker."""
    source = "import time\nwhile time.process_time() < 0.05: pass\n"
    ending = await shop.python(source, limited(cpu_seconds=0.02))
    assert (ending.verdict, ending.reason) == (Verdict.FAILED, "cpu_limit")


async def test_the_number_of_processes_is_limited(shop: Shop) -> None:
    """Those that there are then are ended."""
    ending = await shop.shell(MANY, limited(processes=6))
    assert (ending.verdict, ending.reason) == (Verdict.FAILED, "process_limit")
    assert not _active("sleep")


def _active(name: str) -> list[psutil.Process]:
    """What of that name runs below this process."""
    found = []
    for one in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
            if one.name() == name and not gone(one.pid):
                found.append(one)
    return found


@pytest_asyncio.fixture
async def common_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Shop]:
    """One without groups, whose tasks have a user of their own where that can be: the kernel counts no process of
    root's."""
    monkeypatch.setattr(work_folder, "find_places", _none)
    made = Shop(tmp_path, None)
    await made.runner.start(made.listener, time.time)
    yield made
    await made.runner.close()


@pytest.mark.parametrize("is_cold", [False, True], ids=["warm", "cold"])
async def test_a_burst_of_processes_between_two_looks_meets_a_wall(
    common_shop: Shop, monkeypatch: pytest.MonkeyPatch, *, is_cold: bool
) -> None:
    """However slow the looks are, on a busy machine: forks beyond the limit are refused soon."""
    monkeypatch.setattr(process_limits, "LOOK_SECONDS", 60.0)
    source = (
        "import os, signal\n"
        "made = []\n"
        "try:\n"
        "    for _ in range(600):\n"
        "        pid = os.fork()\n"
        "        if pid == 0:\n"
        "            signal.pause()\n"
        "        made.append(pid)\n"
        "except OSError as refused:\n"
        "    print(refused.strerror, flush=True)\n"
        "for pid in made:\n"
        "    os.kill(pid, signal.SIGKILL)\n"
        "raise SystemExit(0 if len(made) == 600 else 3)\n"
    )
    task = {"kind": "python", "source": source, "start": "cold"} if is_cold else {"kind": "python", "source": source}
    ending = await common_shop.listener.ending_of(common_shop.launch(task, limited(processes=6)))
    assert ("exit_code", ("3",)) == (ending.reason, ending.symptoms), ending


async def test_a_task_within_its_limits_notices_nothing_of_them(shop: Shop) -> None:
    """Its exit status, output and streams are its own."""
    limits = limited(cpu_seconds=60, memory_bytes=1000 * MEGABYTE, processes=50)
    given = shop.launch({"kind": "shell", "command": "cat; echo $0; exit 7"}, limits)
    ending = await shop.listener.ending_of(given)
    assert (ending.reason, ending.symptoms) == ("exit_code", ("7",))
    assert (await log_of(shop.blobs, given)).endswith("/task.sh\n")
    assert (await shop.python("import sys; assert sys.argv == [__file__]", limits)).verdict is Verdict.OK


async def test_each_process_of_a_limited_task_has_walls_of_its_own(shop: Shop, request: pytest.FixtureRequest) -> None:
    """Beyond which it cannot get between two looks; where the kernel limits the memory, it needs none for that."""
    source = (
        "import json, os, resource\n"
        "found = [resource.getrlimit(which)[0] for which in (resource.RLIMIT_CPU, resource.RLIMIT_DATA)]\n"
        "json.dump(found, open(os.environ['TICKWISE_RESULT_FILE'], 'w'))\n"
    )
    own = resource.getrlimit(resource.RLIMIT_DATA)[0]
    limits = limited(cpu_seconds=59.5, memory_bytes=500 * MEGABYTE)
    ending = await shop.python(source, limits)
    wall = 2000 * MEGABYTE + process_limits.MEMORY_WALL_BYTES
    memory = own if "groups" in request.node.name else wall if own == resource.RLIM_INFINITY else min(wall, own)
    assert json.loads(ending.result or "") == [60 + process_limits.CPU_WALL_SECONDS, memory]


async def test_a_program_that_is_not_there_is_not_started_with_limits_either(shop: Shop) -> None:
    """As without them: no shell says so in its place."""
    for program in ("no-such-program", "./no-such-program"):
        given = shop.launch({"kind": "shell", "argv": [program]}, limited(processes=5))
        ending = await shop.listener.ending_of(given)
        assert (ending.reason, program in (ending.error or "")) == ("not_started", True)


async def test_nothing_of_the_limits_is_left_behind(shop: Shop, request: pytest.FixtureRequest) -> None:
    """No control group, whether the task ended by itself or was ended."""
    limits = limited(cpu_seconds=60, memory_bytes=1000 * MEGABYTE, processes=50)
    assert (await shop.shell("sleep 600 & echo started", limits)).verdict is Verdict.OK
    assert (await shop.shell("sleep 600 & kill -9 $$", limits)).reason == "signal"
    given = shop.launch({"kind": "shell", "command": "sleep 600"}, limits)
    await shop.listener.until_begun(given)
    assert bool(_groups(shop)) == ("groups" in request.node.name)
    shop.runner.stop(given.run_id, grace_seconds=60)
    await shop.listener.ending_of(given)
    assert _groups(shop) == set()


async def test_what_clears_everything_by_which_it_is_known_is_ended_with_its_group(shop: Shop, tmp_path: Path) -> None:
    """New session, no parent, no environment, no streams: by its control group, or the number that it cannot see."""
    file = tmp_path / "pid"
    inner = f"import os,time; open({str(file)!r},'w').write(str(os.getpid())); time.sleep(600)"
    command = f'setsid env -i {sys.executable} -c "{inner}" >/dev/null 2>&1 </dev/null & disown 2>/dev/null; '
    command += f"while ! [ -s {file} ]; do sleep 0.02; done"
    assert (await shop.shell(command, limited(processes=100))).verdict is Verdict.OK
    assert gone(int(file.read_text()))


async def test_tasks_without_limits_are_not_looked_at(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """They cost nothing: no control group, no watch."""

    def look(_watched: object) -> None:
        raise AssertionError("somebody looked")

    def make(*_: object) -> None:
        raise AssertionError("somebody made a group")

    monkeypatch.setattr(process_limits, "_look_at", look)
    monkeypatch.setattr("tickwise.adapters.runner.process.start.make_group", make)
    assert (await shop.shell("sleep 0.3", TaskLimits(1000))).verdict is Verdict.OK


async def test_the_watch_rests_when_no_limited_task_is_left(shop: Shop) -> None:
    """And wakes for the next."""
    for _ in range(2):
        assert (await shop.shell(BUSY, limited(cpu_seconds=0.2))).reason == "cpu_limit"
        watch = shop.runner._watch  # what it does between tasks shows nowhere else
        await eventually(lambda: watch._looking is None, within_seconds=30)  # noqa: B023  # awaited before the next turn; as above
