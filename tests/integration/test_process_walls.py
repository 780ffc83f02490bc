"""Walls that hold the processes of a task without control groups, and between two looks at it."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.sandboxes import SandboxShop
from tickwise.adapters.runner.process import limits as process_limits
from tickwise.adapters.runner.process import work_folder
from tickwise.adapters.runner.process.cgroups import Places
from tickwise.adapters.runner.process.sandbox import bubblewrap
from tickwise.adapters.runner.process.sandbox.bubblewrap import SPARE_PROCESSES, counts_apart
from tickwise.domain.rules.confinement import PLAIN
from tickwise.ports.runner import TaskLimits, Verdict

OUTPUT = 1 << 20
MOST = 30
FORKS = """
import os, signal, time
children, refusal = [], ""
try:
    for _ in range({most}):
        pid = os.fork()
        if not pid:
            signal.pause()
        children.append(pid)
except OSError as error:
    refusal = os.strerror(error.errno)
{then}
for pid in children:
    os.kill(pid, signal.SIGKILL)
print(1 + len(children), refusal)
"""
REFUSED = os.strerror(11)
pytestmark = pytest.mark.skipif(not counts_apart(), reason="this kernel counts the processes of a user together")


@pytest_asyncio.fixture
async def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SandboxShop]:
    """On a host without control groups. Tasks are no root's, whose processes no kernel counts."""

    def none(_name: str) -> Places:
        return {}

    monkeypatch.setattr(work_folder, "find_places", none)
    made = SandboxShop(tmp_path / "work")
    await made.open()
    yield made
    await made.close()


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine so busy that no look comes in time."""

    def look(_watched: Sequence[object]) -> Sequence[object]:
        return []

    monkeypatch.setattr(process_limits, "_look_at", look)


def forks(most: int, then: str = "") -> str:
    return FORKS.format(most=most, then=then)


@pytest.mark.usefixtures("unseen")
async def test_a_burst_in_a_sandbox_is_refused_by_the_kernel(shop: SandboxShop) -> None:
    """At the limit and the one above it by which a look would see that it was passed; threads count as well."""
    limits = TaskLimits(OUTPUT, processes=MOST)
    _, said = await shop.python(forks(300), limits=limits)
    assert f"{MOST + SPARE_PROCESSES} {REFUSED}\n" == said
    threads = "import threading\nend = threading.Event()\ntry:\n"
    threads += " for _ in range(300): threading.Thread(target=end.wait).start()\n"
    threads += "except RuntimeError: print(threading.active_count())\nend.set()\n"
    _, said = await shop.python(threads, limits=limits)
    assert f"{MOST + SPARE_PROCESSES}\n" == said


@pytest.mark.usefixtures("unseen")
async def test_tasks_of_one_user_do_not_take_from_each_others_limits(shop: SandboxShop, tmp_path: Path) -> None:
    """A sandbox with as many processes as it may have, while another one of its namespace starts as many."""
    limits = TaskLimits(OUTPUT, processes=MOST)
    full = {"kind": "shell", "command": f"for i in $(seq {MOST - 1}); do sleep 600 & done; echo; wait"}
    first = shop.launch(full, limits=limits)
    await shop.listener.until_begun(first)
    ending, said = await shop.python(forks(MOST - 1), limits=limits)
    assert (Verdict.OK, f"{MOST} \n") == (ending.verdict, said)
    shop.runner.stop(first.run_id, grace_seconds=0)
    await shop.listener.ending_of(first)


async def test_a_task_that_stays_at_the_wall_ends_for_its_limit(shop: SandboxShop) -> None:
    """The end says which limit it was, as where control groups count."""
    ending, _ = await shop.python(forks(300, "signal.pause()"), limits=TaskLimits(OUTPUT, processes=MOST))
    assert (Verdict.FAILED, "process_limit") == (ending.verdict, ending.reason)


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's executor has one user for all tasks")
async def test_a_plain_task_of_another_user_has_its_walls(shop: SandboxShop) -> None:
    """Although root of this machine may lack the right to set limits of another user's process: its gate sets them.
    Each is soft and hard, for the program and what it starts, whether it starts cold or warm."""
    limits = TaskLimits(OUTPUT, cpu_seconds=59.5, memory_bytes=500 << 20, processes=MOST)
    source = "import json, os, resource\nprint(json.dumps([os.getuid(), *map(resource.getrlimit, "
    source += "(resource.RLIMIT_CPU, resource.RLIMIT_DATA))]))"
    data = (4 * 500 << 20) + process_limits.MEMORY_WALL_BYTES
    for _ in range(3):
        ending, said = await shop.python(source, limits=limits, confinement=PLAIN)
        assert Verdict.OK == ending.verdict
        uid, *found = json.loads(said)
        assert uid != 0
        assert [[60 + process_limits.CPU_WALL_SECONDS, 61 + process_limits.CPU_WALL_SECONDS], [data, data]] == found
    _, said = await shop.shell("(ulimit -S -t; ulimit -H -t; ulimit -d)", limits=limits, confinement=PLAIN)
    assert [62, 63, data >> 10] == [int(each) for each in said.split()]


@pytest.mark.usefixtures("unseen")
async def test_a_burst_of_a_plain_process_ends_at_the_wall_of_its_user(shop: SandboxShop) -> None:
    """All tasks of the user count there, so it is wider than the limit: what it has at the start, and 128 more."""
    most = MOST + process_limits.PROCESSES_WALL
    _, said = await shop.python(forks(3 * most), limits=TaskLimits(OUTPUT, processes=MOST), confinement=PLAIN)
    count, _, refusal = said.strip().partition(" ")
    assert REFUSED == refusal
    assert MOST < int(count) <= most


@pytest.mark.parametrize("release", ["4.18.0-553.el8", "5.10.0-28-amd64", "5.13.19", "unknown"])
def test_an_older_kernel_gets_no_such_wall(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would count what other tasks of the user start."""
    real = os.uname()
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((real.sysname, real.nodename, release, *real[3:])))
    monkeypatch.setattr(bubblewrap, "counts_apart", counts_apart.__wrapped__)
    assert "ulimit" not in " ".join(bubblewrap.command("bwrap", 5, ["prog"], processes=MOST))
    monkeypatch.undo()
    assert "ulimit" in " ".join(bubblewrap.command("bwrap", 5, ["prog"], processes=MOST))
