"""An executor's runners with tasks that shed all by which they are known:
`python -m tests.support.abandoned FOLDER [with-parents]`.

It writes the number of each process that must not outlive it to a file `….pid` in the folder, says "ready", and waits
to be killed.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from tests.support.runners import OWN_USER
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.function.runner import FunctionRunner
from tickwise.adapters.runner.process.parent.task_parents import PARENTS
from tickwise.adapters.runner.process.runner import ProcessRunner
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.ports.runner import TaskLimits
from tickwise.testing.contracts.runner import Listener, assignment

# The leader, a child in a session of its own, and one that has lost its environment and its parent as well.
SHEDDING = """
echo $$ > {folder}/{name}-leader.pid
setsid sh -c 'echo $$ > {folder}/{name}-session.pid; exec sleep 600' &
(setsid env -i sh -c 'echo $$ > {folder}/{name}-unseen.pid; exec sleep 600' >/dev/null 2>&1 </dev/null &)
sleep 600
"""
FILES = 7
WITH_PARENTS = "with-parents"
"""An option: the process that starts ordinary tasks is ready before these begin."""


async def main(folder: Path, *, with_parents: bool) -> None:
    """Never ends by itself."""
    settings = RunnerSettings(
        blobs=open_blobs("memory://"), clock=SystemClock(), work_root=folder / "work", run_tasks_as=OWN_USER
    )
    processes = ProcessRunner(settings)
    functions = FunctionRunner(settings, workers=1, modules=["tests.support.functions"])
    for runner in (processes, functions):
        await runner.start(Listener(), time.time)
    while with_parents and sum(each.is_ready for each in processes._parents._parents) < PARENTS:
        processes.launch([assignment({"kind": "shell", "command": "true"})])
        await settings.clock.sleep(0.05)
    for name, limits in (("free", TaskLimits(1000)), ("limited", TaskLimits(1000, 600.0, 1 << 30, 1000))):
        command = SHEDDING.format(folder=folder, name=name)
        processes.launch([assignment({"kind": "shell", "command": command}, limits=limits)])
    task = {"kind": "function", "name": "tests.spawn_unseen"}
    functions.launch([assignment(task, {"file": str(folder / "function.pid")})])
    while sum(file.stat().st_size > 0 for file in folder.glob("*.pid")) < FILES:
        await settings.clock.sleep(0.02)
    print("ready", flush=True)  # noqa: T201  # this is how the test knows
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), with_parents=WITH_PARENTS in sys.argv[2:]))
