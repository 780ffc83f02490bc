"""Probes of the marks by which the processes of a task are found: a task takes on those of another namespace's."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path

import pytest

from tests.security.probes import probe
from tests.support.waiting import eventually
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.process.orphan_reaper_program import ATTEMPTS
from tickwise.adapters.runner.process.runner import ProcessRunner
from tickwise.adapters.runner.process.tree import number_of, present, stats
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.domain.rules.confinement import Confinement, Isolation
from tickwise.ports.runner import TaskLimits, Verdict
from tickwise.testing.contracts.runner import Listener, assignment

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs tasks as other users")

TAKEN = 12
"""Numbers after its own: those of the tasks that begin next."""
FORGING = f"""
import os, resource, time
LOCKS = 10
own, most = resource.getrlimit(LOCKS)
for step in range(1, {TAKEN} + 1):
    if os.fork() == 0:
        os.setsid()
        resource.setrlimit(LOCKS, (own + step, most))
        for _ in range(4):
            if os.fork() == 0:
                break
        time.sleep(600)
        os._exit(0)
time.sleep(600)
"""


def _numbers(executor: int) -> set[int]:
    """The numbers of an executor's tasks that processes have now; those of zombies do not count."""
    found = set()
    for pid in stats(present()):
        with contextlib.suppress(OSError):
            number = number_of(str(pid))
            if number // ATTEMPTS == executor:
                found.add(number)
    return found


@probe(6, stopped_by="the groups of an attempt, which root alone gives, say whose a process is")
@pytest.mark.parametrize("isolation", [Isolation.PROCESS, Isolation.SANDBOX])
async def test_no_process_of_another_namespace_counts_to_the_limits_of_a_task(
    tmp_path: Path, isolation: Isolation
) -> None:
    """Processes give themselves the numbers (`RLIMIT_LOCKS`) of the attempts that begin next, to have those of another
    namespace ended for passing their limits."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    listener = Listener()
    settings = RunnerSettings(blobs=open_blobs("memory://"), clock=SystemClock(), work_root=private / "work")
    runner = ProcessRunner(settings)
    await runner.start(listener, time.time)
    assert runner._folder is not None
    root, executor = runner._folder.root, runner._folder.marks.number
    try:
        confinement = Confinement(isolation)
        forger = assignment({"kind": "python", "source": FORGING}, namespace="forger", confinement=confinement)
        runner.launch([forger])
        await eventually(lambda: len(_numbers(executor)) > TAKEN)
        limits = TaskLimits(1 << 20, processes=3, disk_bytes=1 << 20)
        victim = assignment({"kind": "shell", "command": "sleep 0.5"}, namespace="victim", limits=limits)
        runner.launch([victim])
        ending = await listener.ending_of(victim)
        runner.stop(forger.run_id, grace_seconds=0)
        await listener.ending_of(forger)
    finally:
        await runner.close()
        if not root.is_relative_to(private):
            shutil.rmtree(root)
    assert ending.verdict is Verdict.OK, ending
    assert set() == _numbers(executor), "they end with the task that has made them, or with its executor"
