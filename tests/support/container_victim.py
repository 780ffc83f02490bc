"""An executor's runner of containers in a process of its own, to be killed:
`python -m tests.support.container_victim ENGINE FOLDER RUN LASTS WARM`.

It launches the first attempt of one run, and says `ended` when that is over.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.support.containers import BUSY, container_settings, policy
from tests.support.waiting import eventually
from tickwise.adapters.runner.container.runner import ContainerRunner
from tickwise.testing.contracts.runner import RunnerBlobs, RunnerStage
from tickwise.testing.contracts.runner import assignment as assigned


def victims_task(seconds: str) -> dict[str, Any]:
    """It has a file with a secret, so that each step of a container's life is taken."""
    command = f"echo ready; sleep {seconds}"
    return {"kind": "container", "image": BUSY, "command": command, "env": {"KEY": "secret-file:key"}}


async def main(engine: str, folder: str, run: str, seconds: str, warm: str) -> None:
    """Run until somebody kills it."""
    task = victims_task(seconds)
    images = {BUSY: int(warm)} if int(warm) else {}
    runner = ContainerRunner(container_settings(Path(folder), RunnerBlobs(), policy(engine, warm=images)))
    stage = RunnerStage(runner=runner, quick=task, lasting=task, failing=task, lives=lambda _: True)
    await runner.start(stage.listener, stage.store_clock.now)
    if images:
        await eventually(lambda: runner.warm_ready > 0, within_seconds=60, what="a warm container waits")
    given = assigned(task, secrets={"secret-file:key": b"k"}, token=1)._replace(run_id=UUID(run))
    stage.given.append(given)
    runner.launch([given])
    await stage.listener.ending_of(given)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
