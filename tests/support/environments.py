"""Environments of scripts with real builds: `UvEnvironments` over the processes of a runner.

As a program, `python -m tests.support.environments ROOT LINKS REQUIREMENT` prints the interpreter of one and holds it
until its standard input ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import structlog

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.environments.environments import EnvironmentSettings, UvEnvironments
from tickwise.adapters.runner.process.builds import TaskProcesses
from tickwise.adapters.runner.process.limits import LimitsWatch
from tickwise.adapters.runner.process.work_folder import WorkFolder
from tickwise.observability.metrics import Metrics
from tickwise.ports.environments import EnvironmentDemand, EnvironmentFailure, EnvironmentHost


@contextlib.asynccontextmanager
async def build_processes(folder: Path) -> AsyncIterator[TaskProcesses]:
    """Those of a runner whose tasks are its own user."""
    clock, threads = SystemClock(), ThreadPoolExecutor(4)
    work = await WorkFolder.open(folder, threads=threads, clock=clock)
    yield TaskProcesses(
        folder=work, threads=threads, clock=clock, counts=count(1), users=None, starter=None, has_groups=False,
        watch=(watch := LimitsWatch(threads, clock)),
    )  # fmt: skip
    watch.close()
    work.close()
    threads.shutdown()


@contextlib.asynccontextmanager
async def opened(root: Path, *, metrics: Metrics | None = None, **settings: Any) -> AsyncIterator[UvEnvironments]:
    """Environments below `root`, as one executor has them; those of several may be open at once."""
    made = UvEnvironments(
        EnvironmentSettings(root=root / "environments", **{"is_offline": True, **settings}),
        SystemClock(),
        metrics or Metrics(),
    )
    async with build_processes(root / "work") as processes:
        await made.open(EnvironmentHost(made.root, Path(sys.executable), {}, processes))
        try:
            yield made
        finally:
            await made.close()


async def main() -> None:
    """One executor's part."""
    root, links, requirement = sys.argv[1:]
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    async with opened(Path(root), find_links=links) as environments:
        found = await environments.acquire(
            EnvironmentDemand("default", requirement, from_source=True), lambda _content: None
        )
        if isinstance(found, EnvironmentFailure):
            sys.exit(found.detail)
        print(found.program, flush=True)  # noqa: T201  # read by the test
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        found.release()


if __name__ == "__main__":
    asyncio.run(main())
