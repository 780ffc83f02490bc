"""Pods of Kubernetes under one executor: `python -m bench.kubernetes [PODS]`.

    create   from the hand-over of a due run to the first sight of its pod, beside a process of `kubectl create job`
             until the same watch sees its pod: medians of 20 in turn
    memory   of a process with the modules of an executor, while so many pods run and their logs are followed

The control plane is a real one (etcd, API server, controllers, scheduler), the pods are those of a small kubelet in
this process, which starts no programs: what is measured is the executor.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from tests.services.kubelet import Kubelet, RunningPod, now
from tests.services.kubernetes import Kubernetes
from tests.services.kubernetes_programs import folder
from tests.support.clusters import ClusterSite, busy
from tests.support.waiting import eventually

TURNS = 20
MEMORY_MIB = 200
PODS = 1_000
READY = "ready"


class Player(Kubelet):
    """Reports pods as running, with a line of output, and starts nothing."""

    async def _run(self, here: RunningPod) -> None:
        here.log.add(b"ready\n")
        running = [self._state(here, {"running": {"startedAt": now()}})]
        await self.report(here, {"phase": "Running", "containerStatuses": running})
        await here.deleted.wait()
        here.log.close()


class Births:
    """When each Job got its pod, by one watch."""

    def __init__(self, node: Kubelet) -> None:
        self._node = node
        self._seen: dict[str, float] = {}
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Watch until cancelled."""
        url = f"{self._node.api}/api/v1/namespaces/default/pods?watch=true"
        async with self._node._session.get(url, timeout=aiohttp.ClientTimeout(total=None)) as answer:  # noqa: SLF001  # a look inside, for a measurement
            while line := await answer.content.readline():
                name = json.loads(line)["object"]["metadata"].get("labels", {}).get("job-name", "")
                self._seen.setdefault(name, time.perf_counter())
                self._changed.set()

    async def of(self, name: str) -> float:
        """The instant of the first sight."""
        while name not in self._seen:
            self._changed.clear()
            await self._changed.wait()
        return self._seen[name]


async def _create(site: ClusterSite, births: Births, config: Path) -> tuple[float, float]:
    stage = await site.stage()
    ours: list[float] = []
    theirs: list[float] = []
    for turn in range(TURNS):
        begun = time.perf_counter()
        [given] = stage.launch(stage.lasting)
        ours.append(await births.of(f"tickwise-{given.run_id}") - begun)
        stage.runner.stop(given.run_id, grace_seconds=0.0)
        begun = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            str(folder() / "kubectl"), f"--kubeconfig={config}", "create", "job", f"plain-{turn}", "--image=x",
            stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        theirs.append(await births.of(f"plain-{turn}") - begun)
        await process.wait()
        await stage.listener.ending_of(given)
    await stage.runner.close()
    site.stages.clear()
    return statistics.median(ours), statistics.median(theirs)


async def _executor(config: str, template: str, pods: int) -> None:
    """The process that is measured: says when its pods run, and ends with its input."""
    import tickwise.roles.executor.role
    import tickwise.wiring.runtime  # noqa: F401  # what an executor has loaded

    node: Any = None
    site = ClusterSite(Path(tempfile.mkdtemp()), node, 0)
    site.config, site.template = Path(config), Path(template)
    stage = await site.stage(slots=pods, pending_seconds=3_600.0)
    stage.listener._lives = None  # noqa: SLF001  # the node is another process's
    begun = time.perf_counter()
    for _ in range(pods):
        stage.launch(busy(entrypoint=["x"]))
    while len(stage.listener.begun) < pods:
        stage.listener._changed.clear()  # noqa: SLF001  # a look inside, for a measurement
        await stage.listener._changed.wait()  # noqa: SLF001  # a look inside, for a measurement
    runner: Any = stage.runner
    attempts = list(runner._attempts.values())  # noqa: SLF001  # a look inside, for a measurement
    await eventually(
        lambda: all(each.sink.kept_bytes for each in attempts), within_seconds=600, what="all logs are read"
    )
    print(READY, time.perf_counter() - begun, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    with contextlib.suppress(Exception):
        await runner._cluster.close()  # noqa: SLF001  # a look inside, for a measurement


async def _memory(site: ClusterSite, pods: int) -> tuple[float, float]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.kubernetes", "--executor", str(site.config), str(site.template), str(pods),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdin is not None
    said = (await process.stdout.readline()).decode().split()
    assert said[:1] == [READY], said
    resident = psutil.Process(process.pid).memory_info().rss / (1 << 20)
    process.stdin.close()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), 10)
    if process.returncode is None:
        process.kill()
    return resident, float(said[1])


async def main(pods: int) -> int:
    """Print the figures; 1 if one is not held."""
    async with Kubernetes() as server, Player(server.port, cpu="100000", pods=str(2 * pods)) as node:
        site = ClusterSite(Path(tempfile.mkdtemp()), node, server.port)
        await site.prepare()
        births = Births(node)
        watching = asyncio.get_running_loop().create_task(births.run())
        ours, theirs = await _create(site, births, server.config)
        print(
            f"pod seen after {ours * 1000:.0f} ms; kubectl create job {theirs * 1000:.0f} ms; {ours / theirs:.2f} times"
        )
        resident, seconds = await _memory(site, pods)
        print(f"{pods} pods with their logs followed: {resident:.0f} MiB; all ran after {seconds:.0f} s")
        watching.cancel()
    return int(ours > 1.2 * theirs or resident > MEMORY_MIB)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--executor"]:
        asyncio.run(_executor(sys.argv[2], sys.argv[3], int(sys.argv[4])))
    else:
        sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else PODS)))
