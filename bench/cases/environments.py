"""ENV: a script finds its environment; beside it, the first build of one.

No server and no roles: `UvEnvironments` alone. The environment has one wheel, made on the spot, so nothing is
asked of the network. `TICKWISE_BENCH_PACKAGE=requests` builds that package from the index of
`TICKWISE_BENCH_INDEX` (unset: uv's own default) as well.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from bench.harness import Case, Check, Failed, Rig, Round
from tests.support.packages import add_wheel
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.environments.environments import EnvironmentSettings, UvEnvironments
from tickwise.adapters.environments.folder import EnvironmentFolder
from tickwise.adapters.runner.process.builds import TaskProcesses
from tickwise.adapters.runner.process.limits import LimitsWatch
from tickwise.adapters.runner.process.work_folder import WorkFolder
from tickwise.observability.metrics import Metrics
from tickwise.ports.environments import EnvironmentDemand, EnvironmentFailure, EnvironmentHost

REUSES = 500
BUILDS = 3


@asynccontextmanager
async def opened(root: Path, **settings: Any) -> AsyncIterator[UvEnvironments]:
    """Environments below `root`, as an executor that is no root has them."""
    clock, threads = SystemClock(), ThreadPoolExecutor(4)
    work = await WorkFolder.open(root / "work", threads=threads, clock=clock)
    processes = TaskProcesses(
        folder=work, threads=threads, clock=clock, counts=count(1), users=None, starter=None, has_groups=False,
        watch=(watch := LimitsWatch(threads, clock)),
    )  # fmt: skip
    environments = UvEnvironments(EnvironmentSettings(root=root / "environments", **settings), clock, Metrics())
    await environments.open(EnvironmentHost(environments.root, Path(sys.executable), {}, processes))
    try:
        yield environments
    finally:
        await environments.close()
        watch.close()
        work.close()
        threads.shutdown()


async def seconds_of(environments: UvEnvironments, demand: EnvironmentDemand) -> float:
    """The time until an environment is held. Raises `Failed` if there is none."""
    log = bytearray()
    begin = perf_counter()
    found = await environments.acquire(demand, log.extend)
    taken = perf_counter() - begin
    if isinstance(found, EnvironmentFailure):
        raise Failed(found.detail)
    found.release()
    return taken


async def builds_of(root: Path, package: str, **settings: Any) -> float:
    """The median seconds of builds that have downloaded nothing before."""
    taken = []
    for number in range(BUILDS):
        place = root / f"{package}-{number}"
        async with opened(place, **settings) as environments:
            taken.append(await seconds_of(environments, EnvironmentDemand("default", package)))
            EnvironmentFolder(environments.root).shrink(bytes_most=0, count_most=0)
        shutil.rmtree(place)
    return round(median(taken), 3)


async def product(_: Rig) -> Round:
    """The median milliseconds until an environment that is there is held."""
    with tempfile.TemporaryDirectory() as folder:
        root, links = Path(folder), Path(folder) / "links"
        links.mkdir()
        add_wheel(links, "tickle")
        local = {"find_links": str(links), "is_offline": True}
        more = {"first build in s": await builds_of(root, "tickle", **local)}
        package = os.environ.get("TICKWISE_BENCH_PACKAGE")
        if package:
            index = os.environ.get("TICKWISE_BENCH_INDEX")
            more[f"first build of {package} in s"] = await builds_of(root, package, index_url=index)
        async with opened(root, **local) as environments:
            demand = EnvironmentDemand("default", "tickle")
            await seconds_of(environments, demand)
            taken = sorted([1_000 * await seconds_of(environments, demand) for _ in range(REUSES)])
    more["reuse p99 in ms"] = round(taken[-REUSES // 100], 3)
    return Round(round(median(taken), 3), more)


async def looks(_: Rig) -> Round:
    """The limit: a look at a file."""
    taken = []
    for _number in range(REUSES):
        begin = perf_counter()
        Path(sys.executable).stat()
        taken.append(1_000 * (perf_counter() - begin))
    return Round(median(taken), {})


CASE = Case(
    "ENV",
    "ms a reuse",
    5.0,
    False,
    product,
    looks,
    "a look at a file",
    checks=(Check("seconds of the first build, of a wheel on the disk", "first build in s", 3.0),),
)
