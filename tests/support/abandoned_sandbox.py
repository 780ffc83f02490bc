"""An executor's runner with tasks in sandboxes: `python -m tests.support.abandoned_sandbox FOLDER`.

It says "ready" when they run, and waits to be killed.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import psutil

from tests.support.runners import OWN_USER
from tests.support.sandboxes import SandboxShop
from tickwise.adapters.clock import SystemClock
from tickwise.ports.runner import TaskLimits

SHEDDING = """
setsid sh -c 'exec sleep 600' &
(setsid env -i sh -c 'exec sleep 600' >/dev/null 2>&1 </dev/null &)
sleep 600
"""
SLEEPS = 6


async def main(folder: Path) -> None:
    """Never ends by itself."""
    shop = SandboxShop(folder / "work", run_tasks_as=OWN_USER)
    await shop.open()
    for limits in (TaskLimits(1000), TaskLimits(1000, 600.0, 1 << 30, 1000)):
        shop.launch({"kind": "shell", "command": SHEDDING}, limits=limits)
    clock = SystemClock()
    while sum(_is_sleep(each) for each in psutil.Process().children(recursive=True)) < SLEEPS:
        await clock.sleep(0.02)
    print("ready", flush=True)  # noqa: T201  # this is how the test knows
    await asyncio.Event().wait()


def _is_sleep(process: psutil.Process) -> bool:
    try:
        return process.name() == "sleep"
    except psutil.NoSuchProcess:
        return False


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
