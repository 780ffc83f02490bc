"""Helpers of tests of sandboxes: bubblewrap, and a runner with tasks in it."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path
from typing import Any

from tests.services.packages import program
from tests.support.waiting import eventually
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.process.runner import ProcessRunner
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.domain.rules.confinement import Confinement, Isolation
from tickwise.ports.runner import Assignment, Ending
from tickwise.testing.contracts.runner import Listener, assignment, log_of

SANDBOX = Confinement(Isolation.SANDBOX)
ONLINE = Confinement(Isolation.SANDBOX, allow_network=True)


class SandboxShop:
    """A runner of tasks in sandboxes, and its listener."""

    def __init__(self, root: Path, **given: Any) -> None:
        self.root = root
        self.given = given
        self.blobs = open_blobs("memory://")
        self.listener = Listener()
        self.runner: ProcessRunner

    async def open(self, **given: Any) -> None:
        """Start the runner, with bubblewrap on this machine."""
        await asyncio.to_thread(program, "bwrap")
        settings: dict[str, Any] = {"kill_grace_seconds": 0.2, "isolation": "sandbox", **self.given, **given}
        self.runner = ProcessRunner(
            RunnerSettings(blobs=self.blobs, clock=SystemClock(), work_root=self.root, **settings)
        )
        await self.runner.start(self.listener, time.time)

    async def close(self) -> None:
        """End all, and check that no attempt has left its folder."""
        folder = self.runner._folder
        root = None if folder is None else folder.root
        try:
            # An end is told before the folder is gone.
            await eventually(lambda: folder is None or not any("-7" in each.name for each in folder.path.iterdir()))
        finally:
            await self.runner.close()
        if root is not None and not root.is_relative_to(self.root):
            shutil.rmtree(root)  # the homes of users stay, but not those of tests

    def launch(self, task: dict[str, Any], payload: Any = None, **changes: Any) -> Assignment:
        """Begin a task in a sandbox, unless the changes say otherwise."""
        given = assignment(task, payload, **{"confinement": SANDBOX, **changes})
        self.runner.launch([given])
        return given

    async def run(self, task: dict[str, Any], payload: Any = None, **changes: Any) -> tuple[Ending, str]:
        """The ending of a task, and its output."""
        given = self.launch(task, payload, **changes)
        ending = await self.listener.ending_of(given)
        return ending, await log_of(self.blobs, given)

    async def shell(self, command: str, **changes: Any) -> tuple[Ending, str]:
        """Run a command to its end."""
        return await self.run({"kind": "shell", "command": command}, **changes)

    async def python(self, source: str, **changes: Any) -> tuple[Ending, str]:
        """Run a script to its end."""
        return await self.run({"kind": "python", "source": source}, **changes)
